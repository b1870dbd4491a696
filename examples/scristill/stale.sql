-- What the document found on the 27th of February 2026: 231 jobs of a container that crashed.
INSERT INTO projects (name) VALUES ('example.com');
INSERT INTO jobs (project_id, type, status, created_at, updated_at)
    SELECT p.id, CASE WHEN i <= 60 THEN 'scrape' WHEN i <= 154 THEN 'crawl' ELSE 'extract' END,
           CASE WHEN i <= 154 THEN 'running' ELSE 'cancelling' END,
           now() - interval '2 days', now() - interval '2 days'
    FROM projects p, generate_series(1, 231) i;
