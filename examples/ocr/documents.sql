-- The OCR worker was killed over two documents: one has attempts left, the other was its third.
-- A third one waits, a fourth is done, and a fifth was begun just now. For PostgreSQL and SQLite.
INSERT INTO extraction_queue (id, status_id, document_number, ocr_worker_id, ocr_attempts,
    ocr_started_at, ocr_completed_at, file_content) VALUES
    ('abc-123', 6, '12345678', 'ocr-monitor-1', 1, '2024-01-15 10:30:00', NULL, NULL),
    ('def-456', 6, '12345679', 'ocr-monitor-1', 3, '2024-01-15 10:31:00', NULL, NULL),
    ('ghi-789', 3, '12345680', NULL, 0, NULL, NULL, NULL),
    ('jkl-012', 5, '12345681', NULL, 1, '2024-01-15 10:00:00', '2024-01-15 10:01:30', 'text'),
    ('mno-345', 6, '12345682', 'ocr-monitor-2', 1, CURRENT_TIMESTAMP, NULL, NULL);
