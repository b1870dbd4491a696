# SPDX-License-Identifier: Apache-2.0
"""OCR (E): overdue documents of two environments, with states by their names."""

import json

import pytest

from harness.databases import LiteDatabase
from harness.example_systems import Example, age, ledger

DOWN = "postgres://postgres@127.0.0.1:1/none?connect_timeout=2"


@pytest.fixture
def ocr(db, defib, tmp_path):
    example = Example("ocr", db, defib)
    example.staging = LiteDatabase(tmp_path / "staging.db")
    example.load(example.staging)
    yield example
    example.staging.drop()


def add_document(ocr, key="abc-123", minutes=15, attempts=1, status=6, **more):
    ocr.insert("extraction_queue", id=key, status_id=status, document_number="12345678",
               ocr_worker_id="ocr-monitor-1", ocr_started_at=ocr.ago(minutes * 60),
               ocr_attempts=attempts, **more)


def run(ocr, *args, staging=None, **options):
    return ocr(*args, env={"STAGING_DATABASE_URL": staging or ocr.staging.url}, **options)


COLUMNS = ["status_id", "ocr_worker_id", "ocr_error", "ocr_attempts", "ocr_completed_at"]


@pytest.mark.covers("E2")
def test_a_document_overdue_by_ten_minutes_goes_back_with_its_reason(ocr):
    add_document(ocr)
    assert run(ocr, "scan", "--fix").code == 0
    row = ocr.row("extraction_queue", COLUMNS)
    assert (row.status_id, row.ocr_worker_id, row.ocr_completed_at) == (3, None, None)
    assert row.ocr_error.startswith("Reset by stale OCR monitor (processing for 15m")
    assert row.ocr_attempts == 1
    for column in ("ocr_last_error_at", "updated_at"):
        assert ocr.db.sql(f"SELECT {age(ocr.db, column)} FROM extraction_queue")[0][0] < 60


@pytest.mark.covers("E2")
def test_a_document_of_nine_minutes_is_left(ocr):
    add_document(ocr, minutes=9)
    before = ocr.db.sql("SELECT * FROM extraction_queue")
    assert run(ocr, "scan", "--fix").code == 0
    assert ocr.db.sql("SELECT * FROM extraction_queue") == before


@pytest.mark.covers("E3")
def test_two_environments_are_one_run_and_reported_apart(ocr):
    add_document(ocr)
    ocr.staging.sql("INSERT INTO extraction_queue (id, status_id, document_number, ocr_started_at)"
                    " VALUES ('s-1', 6, '9', '2020-01-01 00:00:00')")
    ran = run(ocr, "scan", "--fix", "--json")
    seen = [(w["database"], w["watch"], w["recovered"]) for w in ran.json["watches"]]
    assert seen == [("production", "ocr", 1), ("staging", "ocr-staging", 1)]
    assert (ran.code, ran.json["recovered"]) == (0, 2)


@pytest.mark.covers("E3")
def test_an_environment_that_is_down_does_not_stop_the_other(ocr):
    add_document(ocr)
    ran = run(ocr, "scan", "--fix", "--json", staging=DOWN)
    assert ran.code == 6
    production, staging = ran.json["watches"]
    assert (production["recovered"], production["error"]) == (1, None)
    assert staging["error"] and staging["error_class"]
    assert ocr.row("extraction_queue", ["status_id"]).status_id == 3


@pytest.mark.covers("E3")
def test_the_first_environment_may_be_the_one_that_is_down(ocr):
    ocr.staging.sql("INSERT INTO extraction_queue (id, status_id, document_number, ocr_started_at)"
                    " VALUES ('s-1', 6, '9', '2020-01-01 00:00:00')")
    ran = ocr("scan", "--fix", "--json", env={"DATABASE_URL": DOWN,
                                              "STAGING_DATABASE_URL": ocr.staging.url})
    assert ran.code == 6
    assert [w["recovered"] for w in ran.json["watches"]] == [0, 1]


@pytest.mark.covers("E4", "E9")
def test_the_summary_names_document_worker_start_attempts_and_states(ocr):
    add_document(ocr)
    started = str(ocr.row("extraction_queue", ["ocr_started_at"]).ocr_started_at)[:19]
    out = run(ocr, "scan", "--fix").out
    assert "production/ocr: 1 stuck of 1 running, 1 recovered" in out
    job, = [line for line in out.splitlines() if "abc-123" in line]
    assert "document_number=12345678" in job and "document_source=index" in job
    assert "owner=ocr-monitor-1" in job
    assert f"ocr_started_at={started}" in job
    assert "attempt=1" in job
    assert "status_id: OCR_PROCESSING (6) -> COMPLETE (3)" in job


@pytest.mark.covers("E4", "E9")
def test_a_dry_run_names_the_state_too(ocr):
    add_document(ocr)
    assert "status_id=OCR_PROCESSING (6)" in run(ocr, "scan").out


@pytest.mark.covers("E4")
def test_the_status_of_one_stuck_job_by_its_id(ocr):
    add_document(ocr)
    ran = run(ocr, "explain", "ocr", "abc-123")
    assert ran.code == 1
    assert "production/ocr abc-123 is stuck: running for 15m" in ran.out
    for said in ("OCR_PROCESSING (6)", "12345678", "ocr-monitor-1", "1 of 3", "requeue"):
        assert said in ran.out
    assert ocr.row("extraction_queue", ["status_id"]).status_id == 6


@pytest.mark.covers("E4")
def test_the_status_of_one_finished_job_by_its_id(ocr):
    add_document(ocr, status=5)
    ran = run(ocr, "explain", "ocr", "abc-123")
    assert ran.code == 0
    assert "is not stuck" in ran.out and "EXTRACTION_COMPLETE (5)" in ran.out


@pytest.mark.covers("E5")
def test_at_the_maximum_it_goes_back_but_is_held_in_the_ledger(ocr):
    add_document(ocr, attempts=3)
    ran = run(ocr, "scan", "--fix", "--json")
    assert (ran.json["held"], ran.json["recovered"]) == (1, 0)
    assert ran.code == 1
    row = ocr.row("extraction_queue", COLUMNS)
    assert (row.status_id, row.ocr_worker_id, row.ocr_attempts) == (3, None, 3)
    (event, rule, evidence), = ocr.db.sql(f"SELECT event, rule, evidence FROM {ledger(ocr.db)}")
    evidence = evidence if isinstance(evidence, dict) else json.loads(evidence)
    assert (event, rule) == ("HELD", "attempts-exhausted")
    assert (evidence["attempt"], evidence["max_attempts"]) == (3, 3)


@pytest.mark.covers("E5")
def test_a_held_document_is_shown_until_a_person_releases_it(ocr):
    add_document(ocr, attempts=3)
    add_document(ocr, "left", attempts=1)
    assert run(ocr, "scan", "--fix").code == 1
    assert run(ocr, "list", "--where", "held", "--ids").out == "ocr/abc-123\n"
    assert run(ocr, "stats", "ocr", "--json").json["watches"][0]["held"] == 1
    assert run(ocr, "release", "ocr/abc-123", "--yes").code == 0
    assert run(ocr, "list", "--where", "held", "--ids").out == ""
    row = ocr.row("extraction_queue", COLUMNS, "id = 'abc-123'")
    assert (row.status_id, row.ocr_attempts, row.ocr_error) == (3, 0, None)


@pytest.mark.covers("E5")
def test_a_null_maximum_means_three(ocr):
    add_document(ocr, "two", attempts=2, ocr_max_attempts=None)
    add_document(ocr, "three", attempts=3, ocr_max_attempts=None)
    jobs = run(ocr, "scan", "--json").json["watches"][0]["jobs"]
    assert {job["key"]: job["remedy"] for job in jobs} == {"two": "requeue", "three": "hold"}


@pytest.mark.covers("E2")
def test_the_document_s_own_check_of_a_simulated_stuck_job(ocr):
    """Create, simulate as the document does, reset by hand, verify with its query."""
    add_document(ocr, "test-job", minutes=0, attempts=0, status=3)
    ocr.db.sql(f"UPDATE extraction_queue SET status_id = 6, ocr_worker_id = 'test-worker',"
               f" ocr_started_at = {ocr.ago(15 * 60)[1]}, ocr_attempts = 1 WHERE id = 'test-job'")
    assert run(ocr, "scan", "ocr", "--fix").code == 0
    found = ocr.db.sql("SELECT id, status_id FROM extraction_queue"
                       " WHERE ocr_error LIKE '%Reset by stale OCR monitor%'")
    assert found == [("test-job", 3)]
