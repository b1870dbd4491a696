-- ScraperSky's two tables, as its scheduler leaves them.
CREATE TABLE sitemap_files (
    id                    TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    domain                TEXT NOT NULL,
    sitemap_import_status TEXT NOT NULL DEFAULT 'Queued'
        CHECK (sitemap_import_status IN ('Queued', 'Processing', 'Complete', 'Failed')),
    sitemap_import_error  TEXT,
    updated_at            TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE pages (
    id                     TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    url                    TEXT NOT NULL,
    page_processing_status TEXT NOT NULL DEFAULT 'Queued'
        CHECK (page_processing_status IN ('Queued', 'Processing', 'Complete', 'Failed')),
    page_processing_error  TEXT,
    updated_at             TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
