-- The extraction queue with its OCR columns. status_id: 3 COMPLETE (ready for OCR while
-- file_content is null), 5 EXTRACTION_COMPLETE, 6 OCR_PROCESSING.
CREATE TABLE extraction_queue (
    id                   text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    status_id            integer NOT NULL DEFAULT 3,
    document_source      text NOT NULL DEFAULT 'index',
    document_number      text NOT NULL,
    file_content         text,
    boosted_file_content text,
    ocr_worker_id        text,
    ocr_attempts         integer NOT NULL DEFAULT 0,
    ocr_max_attempts     integer DEFAULT 3,
    ocr_started_at       timestamptz,
    ocr_completed_at     timestamptz,
    ocr_error            text,
    ocr_last_error_at    timestamptz,
    updated_at           timestamptz NOT NULL DEFAULT now()
);

-- What a scan reads, and nothing else.
CREATE INDEX extraction_queue_ocr ON extraction_queue (ocr_started_at, id) WHERE status_id = 6;
