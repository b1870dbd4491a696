-- One lab that runs, and two whose teardown nobody came to: one that a user ended, one that the
-- clean-up did. For PostgreSQL and SQLite.
INSERT INTO labs (id, owner_id, status, origin, updated_at) VALUES
    ('0aa1c7de-0000-4000-8000-000000000001', '7c9e6679-7425-40de-944b-e07fc1abc123', 'running',
     'user', '2024-01-15 10:30:00'),
    ('0aa1c7de-0000-4000-8000-000000000002', '7c9e6679-7425-40de-944b-e07fc1abc123', 'ending',
     'user', '2024-01-15 10:31:00'),
    ('0aa1c7de-0000-4000-8000-000000000003', '7c9e6679-7425-40de-944b-e07fc1def456', 'ending',
     'cleanup', '2024-01-15 10:32:00');
