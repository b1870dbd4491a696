-- What a crashed container leaves: two jobs that were running, one that was being cancelled, and
-- one that waits.
INSERT INTO projects (name) VALUES ('example.com');
INSERT INTO jobs (project_id, type, status, created_at, updated_at)
    SELECT id, 'scrape', 'running', '2026-02-27 08:00:00', '2026-02-27 08:00:00' FROM projects;
INSERT INTO jobs (project_id, type, status, created_at, updated_at)
    SELECT id, 'crawl', 'running', '2026-02-27 08:00:00', '2026-02-27 08:00:00' FROM projects;
INSERT INTO jobs (project_id, type, status, created_at, updated_at)
    SELECT id, 'crawl', 'cancelling', '2026-02-27 08:00:00', '2026-02-27 08:00:00' FROM projects;
INSERT INTO jobs (project_id, type) SELECT id, 'extract' FROM projects;
