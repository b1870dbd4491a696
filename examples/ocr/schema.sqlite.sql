-- The extraction queue with its OCR columns. status_id: 3 COMPLETE (ready for OCR while
-- file_content is null), 5 EXTRACTION_COMPLETE, 6 OCR_PROCESSING.
CREATE TABLE extraction_queue (
    id                   TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    status_id            INTEGER NOT NULL DEFAULT 3,
    document_source      TEXT NOT NULL DEFAULT 'index',
    document_number      TEXT NOT NULL,
    file_content         TEXT,
    boosted_file_content TEXT,
    ocr_worker_id        TEXT,
    ocr_attempts         INTEGER NOT NULL DEFAULT 0,
    ocr_max_attempts     INTEGER DEFAULT 3,
    ocr_started_at       TEXT,
    ocr_completed_at     TEXT,
    ocr_error            TEXT,
    ocr_last_error_at    TEXT,
    updated_at           TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
