-- What the document found on the 16th of November: three records that nobody works on. The fourth
-- is being processed at this moment.
INSERT INTO sitemap_files (domain, sitemap_import_status, updated_at)
    VALUES ('example.com', 'Processing', '2025-11-16 08:00:00');
INSERT INTO pages (url, page_processing_status, updated_at)
    VALUES ('https://example.com/a', 'Processing', '2025-11-16 09:00:00'),
           ('https://example.com/b', 'Processing', '2025-11-16 10:00:00');
INSERT INTO pages (url, page_processing_status) VALUES ('https://example.com/c', 'Processing');
