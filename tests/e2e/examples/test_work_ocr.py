# SPDX-License-Identifier: Apache-2.0
"""OCR (E): attempts count at the claim, both contents are written at once, failures are released.
"""

import pytest

from harness.table_workers import TableWorkers

COLUMNS = ["status_id", "file_content", "boosted_file_content", "ocr_worker_id", "ocr_attempts",
           "ocr_started_at", "ocr_completed_at", "ocr_error", "ocr_last_error_at"]
READS = """echo '{"text": "plain ü", "boosted": "better"}' >&3"""


@pytest.fixture
def ocr(db, defib, with_tables):
    own = TableWorkers("ocr", db, defib)
    yield own
    own.close()


def add_document(ocr, **values):
    ocr.insert("extraction_queue", **{"document_number": "1", "updated_at": ocr.ago(60), **values})


def document(ocr):
    return ocr.row("extraction_queue", COLUMNS)


@pytest.mark.covers("E1")
def test_done_writes_both_contents_and_clears_the_error_in_one_write(ocr):
    add_document(ocr, ocr_error="an earlier one")
    ocr.drain("ocr", run=READS)
    row = document(ocr)
    assert (row.status_id, row.file_content, row.boosted_file_content) == (5, "plain ü", "better")
    assert row.ocr_error is None and row.ocr_completed_at is not None
    assert row.ocr_attempts == 1


@pytest.mark.covers("E5")
def test_a_claim_counts_the_attempt_and_names_the_worker(ocr):
    add_document(ocr)
    ocr.work("ocr", "--name", "scanner-7", run="touch up; await go")
    ocr.until("SELECT status_id FROM extraction_queue", 6)
    row = document(ocr)
    assert (row.ocr_worker_id, row.ocr_attempts) == ("scanner-7", 1)
    assert row.ocr_started_at is not None


@pytest.mark.covers("E5", "E6")
def test_a_failure_goes_back_with_its_error_until_the_maximum(ocr):
    add_document(ocr)
    worker = ocr.work("ocr", "--poll", "20ms", run='echo "$DEFIB_ATTEMPT of $DEFIB_MAX_ATTEMPTS" '
                      '>>tries; echo unreadable >&2; exit 1')
    ocr.until("SELECT status_id * 10 + ocr_attempts FROM extraction_queue", 33)
    assert worker.stop() == 0
    row = document(ocr)
    assert ocr.lines("tries") == ["1 of 3", "2 of 3", "3 of 3"]
    # Left for a person: visible by its error, and no longer claimed.
    assert (row.status_id, row.ocr_worker_id, row.ocr_attempts) == (3, None, 3)
    assert "unreadable" in row.ocr_error and row.ocr_last_error_at is not None
    ocr.drain("ocr", run="echo again >>tries")
    assert len(ocr.lines("tries")) == 3


@pytest.mark.covers("E5")
def test_a_document_s_own_maximum_counts(ocr):
    add_document(ocr, ocr_max_attempts=1)
    ocr.drain("ocr", "--poll", "20ms", run="echo x >>tries; exit 1")
    assert len(ocr.lines("tries")) == 1


@pytest.mark.covers("E6", "E1")
def test_a_later_attempt_that_succeeds_clears_the_error(ocr):
    add_document(ocr)
    ocr.work("ocr", "--poll", "20ms",
             run='[ "$DEFIB_ATTEMPT" = 2 ] || { echo blurred >&2; exit 1; }; ' + READS)
    ocr.until("SELECT status_id FROM extraction_queue", 5)
    row = document(ocr)
    assert (row.status_id, row.ocr_attempts, row.ocr_error) == (5, 2, None)
    assert row.boosted_file_content == "better"


def test_documents_of_other_sources_or_with_content_are_not_claimed(ocr):
    add_document(ocr, document_source="upload")
    add_document(ocr, file_content="there already")
    ocr.drain("ocr", run="touch claimed")
    assert not (ocr.dir / "claimed").exists()


@pytest.mark.covers("E8")
def test_at_a_stop_the_document_is_ready_for_the_next_worker(ocr):
    add_document(ocr)
    worker = ocr.work("ocr", "--grace", "0s", run="touch up; exec sleep 600")
    ocr.until("SELECT status_id FROM extraction_queue", 6)
    assert worker.stop() == 0
    row = document(ocr)
    assert (row.status_id, row.ocr_worker_id, row.ocr_attempts, row.ocr_error) == (3, None, 0, None)


@pytest.mark.covers("E4", "E5")
def test_show_says_that_a_document_waits_for_its_retry_and_not_that_it_failed(ocr):
    add_document(ocr, id="d1", ocr_attempts=1, ocr_error="unreadable", ocr_started_at=ocr.ago(30))
    both = {"STAGING_DATABASE_URL": ocr.db.url}
    said = ocr("show", "ocr/d1", env=both).out
    assert "waits for its retry after attempt 1 of 3; its state is COMPLETE (3)" in said
    assert "unreadable" in said and "has failed" not in said
    ocr.db.sql("UPDATE extraction_queue SET ocr_attempts = 3")
    assert "has failed: unreadable; its state is COMPLETE (3)" in ocr("show", "ocr/d1", env=both).out
