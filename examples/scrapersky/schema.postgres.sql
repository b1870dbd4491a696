-- ScraperSky's two tables, as its scheduler leaves them.
CREATE TYPE sitemap_import_status AS ENUM ('Queued', 'Processing', 'Complete', 'Failed');
CREATE TYPE page_processing_status AS ENUM ('Queued', 'Processing', 'Complete', 'Failed');

CREATE TABLE sitemap_files (
    id                    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    domain                text NOT NULL,
    sitemap_import_status sitemap_import_status NOT NULL DEFAULT 'Queued',
    sitemap_import_error  text,
    updated_at            timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE pages (
    id                     uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    url                    text NOT NULL,
    page_processing_status page_processing_status NOT NULL DEFAULT 'Queued',
    page_processing_error  text,
    updated_at             timestamptz NOT NULL DEFAULT now()
);

-- What a scan reads, and nothing else.
CREATE INDEX sitemap_files_processing ON sitemap_files (updated_at, id)
    WHERE sitemap_import_status = 'Processing';
CREATE INDEX pages_processing ON pages (updated_at, id)
    WHERE page_processing_status = 'Processing';
