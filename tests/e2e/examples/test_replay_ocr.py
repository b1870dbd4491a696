# SPDX-License-Identifier: Apache-2.0
"""OCR (E): the document "OCR Stuck Job Recovery System" replayed: its test, its queries, its log.

Two environments, as there: production on each engine in turn, staging on SQLite; monitor and
workers are `defib daemon --work` with the configuration that ships.
"""

import contextlib
import os
import re
import signal

import pytest

from harness.databases import LiteDatabase
from harness.document_replay import Replay, page_server, praised_lines, program, type_readme
from harness.example_systems import EXAMPLES
from harness.node_programs import PACKAGE
from harness.waiting import eventually, running

# Fails what the test says, waits where it says so, else reads.
READS = """#!/bin/sh
echo "$DEFIB_JOB_ID $$" >>began
await -n "hold.$DEFIB_JOB_ID"
if [ -e "fail.$DEFIB_JOB_ID" ]; then echo 'model timed out' >&2; exit 1; fi
echo '{"text": "plain ü", "boosted": "better"}' >&3
"""


class Ocr(Replay):
    def __init__(self, db, folder):
        super().__init__("ocr", db, folder)
        self.staging = LiteDatabase(folder / "staging.db")
        self.staging.sql((self.dir / "schema.sqlite.sql").read_text())
        self.env["STAGING_DATABASE_URL"] = self.staging.url
        assert self("init", "--db", "staging").code == 0
        program(self, "ocr.sh", READS)

    def add(self, key, minutes=None, mark=None, **values):
        """A document that waits, or is being read for so many minutes."""
        if mark:
            (self.dir / f"{mark}.{key}").touch()
        if minutes is not None:
            values = {"status_id": 6, "ocr_worker_id": "ocr-monitor-1", "ocr_attempts": 1,
                      "ocr_started_at": self.ago(minutes * 60), **values}
        self.insert("extraction_queue", id=key, document_number=f"number of {key}", **values)

    def status(self, key):
        return self.cell("SELECT status_id FROM extraction_queue WHERE id = %s", key)

    def reaches(self, key, status):
        try:
            eventually(lambda: self.status(key) == status)
        except AssertionError:
            logs = "\n".join(one.log for one in self.daemons + self.workers)
            raise AssertionError(f"{self.status(key)}, not {status}\n{logs}") from None

    def monitor(self, **env):
        return self.daemon("--work", "--no-queue", env=env)

    def begun(self, key):
        return [line for line in self.lines("began") if line.startswith(f"{key} ")]

    def close(self):
        super().close()
        self.staging.drop()


@pytest.fixture
def ocr(db, tmp_path):
    own = Ocr(db, tmp_path)
    yield own
    own.close()


@pytest.fixture
def pg_ocr(pg, tmp_path):
    own = Ocr(pg, tmp_path)
    yield own
    own.close()


def stage(ocr, key, minutes):
    ocr.staging.sql("INSERT INTO extraction_queue (id, status_id, document_number, ocr_worker_id,"
                    " ocr_attempts, ocr_started_at) VALUES (?, 6, ?, 'ocr-monitor-1', 1,"
                    " datetime('now', ?))", key, f"number of {key}", f"-{minutes} minutes")


# ---- Testing: "Test Stuck Job Recovery", "Verify Recovery" ----

VERIFY = "SELECT status_id, ocr_error, ocr_last_error_at FROM extraction_queue" \
    " WHERE id = 'test-job'"


def simulate(ocr):
    """The document's UPDATE, by its letters on PostgreSQL."""
    ocr.add("test-job", document_source="upload")  # so that no worker takes it again at once
    then = "NOW() - INTERVAL '15 minutes'" if ocr.db.engine == "postgres" else \
        "datetime('now', '-15 minutes')"
    ocr.rows("UPDATE extraction_queue SET status_id = 6, ocr_worker_id = 'test-worker',"
             f" ocr_started_at = {then}, ocr_attempts = 1 WHERE id = 'test-job'")


def verify(ocr):
    (status, error, at), = ocr.rows(VERIFY)
    assert status == 3 and "Reset by stale OCR monitor" in error and at is not None


@pytest.mark.covers("E2", "E9")
def test_a_simulated_stuck_job_is_reset_by_the_monitor(ocr):
    simulate(ocr)
    # Alone: a worker that starts beside it could be quicker.
    monitor = ocr.daemon("--no-queue")
    ocr.reaches("test-job", 3)
    verify(ocr)
    line = eventually(lambda: monitor.lines("scan", watch="ocr", found="1"))[0]
    assert (line["recovered"], line["next_check_s"], line["level"]) == ("1", "60", "warn")
    assert "number of test-job" in line["jobs"] and "OCR_PROCESSING (6)" in line["jobs"]
    assert monitor.stop() == 0


@pytest.mark.covers("E4", "E9")
def test_or_manually_triggered_with_a_readable_summary(ocr):
    simulate(ocr)
    assert "is stuck: running for 15m" in ocr("explain", "ocr", "test-job").out
    ran = ocr("scan", "--fix")
    assert ran.code == 0, ran.err
    verify(ocr)
    assert "production/ocr: 1 stuck of 1 running, 1 recovered" in ran.out
    assert "staging/ocr-staging: nothing stuck" in ran.out
    for word in ("test-job", "owner=test-worker", "attempt=1", "number of test-job",
                 "OCR_PROCESSING (6) -> COMPLETE (3)"):
        assert word in ran.out
    assert "COMPLETE (3)" in ocr("show", "ocr/test-job").out


# ---- Database Queries ----

@pytest.mark.covers("E7")
def test_the_documents_queries_and_the_commands_say_the_same(pg_ocr):
    pg_ocr.add("stuck", 15)
    pg_ocr.add("fresh", 1)
    for key, seconds in (("one", 30), ("two", 90)):
        pg_ocr.add(key, status_id=5, file_content="text", ocr_started_at=pg_ocr.ago(600),
                   ocr_completed_at=pg_ocr.ago(600 - seconds))
    stuck = pg_ocr.rows(
        "SELECT id, document_number, ocr_worker_id, ocr_started_at,"
        " EXTRACT(EPOCH FROM (NOW() - ocr_started_at)) / 60 as stuck_minutes, ocr_attempts"
        " FROM extraction_queue WHERE status_id = 6"
        " AND ocr_started_at < NOW() - INTERVAL '10 minutes' ORDER BY ocr_started_at ASC")
    assert [row[0] for row in stuck] == ["stuck"]
    assert pg_ocr("list", "--where", "stuck", "--ids").out.split() == ["ocr/stuck"]
    assert pg_ocr("scan", "--fix").code == 0
    recovered = pg_ocr.rows(
        "SELECT id, document_number, ocr_error, ocr_last_error_at, ocr_attempts"
        " FROM extraction_queue WHERE ocr_error LIKE '%Reset by stale OCR monitor%'"
        " ORDER BY ocr_last_error_at DESC LIMIT 20")
    assert [row[0] for row in recovered] == ["stuck"]
    listed = pg_ocr("list", "--watch", "ocr", "--where", "recovered", "--ids").out.split()
    assert listed == ["ocr/stuck"]
    (processing, completed, failed, average), = pg_ocr.rows(
        "SELECT COUNT(*) FILTER (WHERE status_id = 6) as currently_processing,"
        " COUNT(*) FILTER (WHERE status_id = 5) as completed,"
        " COUNT(*) FILTER (WHERE ocr_error IS NOT NULL) as failed,"
        " AVG(EXTRACT(EPOCH FROM (ocr_completed_at - ocr_started_at))) as avg_duration_seconds"
        " FROM extraction_queue WHERE document_source = 'index' AND ocr_started_at IS NOT NULL")
    assert (processing, completed, failed, round(average)) == (1, 2, 1, 60)
    said = pg_ocr("stats", "ocr").out
    for line in (r"running +1\b", r"completed +2\b", r"failed +1\b", r"duration +1m on average"):
        assert re.search(line, said), said


# ---- Retry Logic and Status Flow Diagram ----

@pytest.fixture
def writes(ocr):
    """Every write of a document, as the table saw it."""
    ocr.rows("CREATE TABLE writes (id text, status_id integer, whole integer)")
    whole = "new.file_content = 'plain ü' AND new.boosted_file_content = 'better'" \
        " AND new.ocr_completed_at IS NOT NULL AND new.ocr_error IS NULL"
    note = f"INSERT INTO writes VALUES (new.id, new.status_id, CASE WHEN {whole} THEN 1 ELSE 0 END)"
    if ocr.db.engine == "postgres":
        ocr.rows("CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
                 f"$$BEGIN {note}; RETURN new; END$$")
        ocr.rows("CREATE TRIGGER note AFTER UPDATE ON extraction_queue FOR EACH ROW "
                 "EXECUTE FUNCTION note()")
    else:
        with contextlib.closing(ocr.db.connect()) as session:
            session.execute("CREATE TRIGGER note AFTER UPDATE ON extraction_queue "
                            f"BEGIN {note}; END")
    return lambda key: ocr.rows("SELECT status_id, whole FROM writes WHERE id = %s", key)


@pytest.mark.covers("E1", "E5")
def test_success_is_3_to_6_to_5_and_completion_is_one_write(ocr, writes):
    ocr.add("good", ocr_error="an earlier one")
    ocr.drain("ocr")
    assert ocr.status("good") == 5
    assert writes("good") == [(6, 0), (5, 1)], "the claim, and all of the rest at once"
    assert ocr.cell("SELECT ocr_attempts FROM extraction_queue") == 1


@pytest.mark.covers("E5", "E6")
def test_failure_goes_back_with_its_error_and_at_max_attempts_is_skipped(ocr):
    ocr.add("bad", mark="fail")
    worker = ocr.work("ocr", "--poll", "50ms")
    ocr.until("SELECT status_id * 10 + ocr_attempts FROM extraction_queue", 33)
    assert worker.stop() == 0
    assert len(ocr.begun("bad")) == 3, "ocr_max_attempts, default 3"
    row = ocr.row("extraction_queue", ["status_id", "ocr_worker_id", "ocr_attempts", "ocr_error"])
    assert (row.status_id, row.ocr_worker_id, row.ocr_attempts) == (3, None, 3)
    assert "model timed out" in row.ocr_error
    assert "3 of 3" in ocr("show", "ocr/bad").out


@pytest.mark.covers("E5")
def test_a_stuck_job_at_max_attempts_goes_back_and_is_visibly_left_for_a_person(ocr):
    ocr.add("spent", 15, ocr_attempts=3)
    ran = ocr("scan", "--fix")
    assert ran.code == 1 and "1 held" in ran.out
    assert ocr.status("spent") == 3
    assert "spent" in ocr("ledger", "--event", "HELD").out
    ocr.drain("ocr")
    assert ocr.begun("spent") == [] and ocr.status("spent") == 3
    assert ocr("list", "--where", "held", "--ids").out == "ocr/spent\n"


@pytest.mark.covers("E5")
def test_a_person_s_word_gives_a_held_document_its_attempts_again(ocr):
    ocr.add("spent", 15, ocr_attempts=3)
    assert ocr("scan", "--fix").code == 1
    assert ocr("release", "ocr/spent", "--yes").code == 0
    ocr.drain("ocr")
    assert ocr.status("spent") == 5
    assert ocr("list", "--where", "held", "--ids").out == ""


# ---- Integration: started and stopped with the main OCR monitor ----

@pytest.mark.covers("E8")
def test_monitor_and_workers_start_and_stop_together(ocr):
    """Stopped in the middle: the document is ready for the next start, with no attempt spent."""
    ocr.add("long", mark="hold")
    monitor = ocr.monitor()
    eventually(lambda: ocr.begun("long") and len(monitor.lines("worker started")) == 2)
    workers = {line["watch"]: int(line["pid"]) for line in monitor.lines("a worker was started")}
    assert set(workers) == {"ocr", "ocr-staging"}
    assert ocr.status("long") == 6
    monitor.signal(signal.SIGTERM)
    # Both have heard it: two signals that come at once are one.
    eventually(lambda: monitor.log.count("stopping: no new claims") == 2)
    monitor.signal(signal.SIGTERM)  # once more: what is in hand goes back now
    assert monitor.wait() == 0
    assert not any(running(pid) for pid in workers.values())
    row = ocr.row("extraction_queue", ["status_id", "ocr_worker_id", "ocr_attempts", "ocr_error"])
    assert (row.status_id, row.ocr_worker_id, row.ocr_attempts, row.ocr_error) == (3, None, 0, None)


@pytest.mark.covers("E2", "E8")
def test_a_killed_worker_s_document_is_read_by_the_next_long_before_ten_minutes(ocr):
    ocr.add("long", mark="hold")
    monitor = ocr.monitor()
    eventually(lambda: ocr.begun("long") and len(monitor.lines("worker started")) == 2)
    pid, = [int(line["pid"]) for line in monitor.lines("a worker was started", watch="ocr")]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(ocr.begun("long")) == 2)
    (ocr.dir / "hold.long").unlink()
    ocr.reaches("long", 5)
    assert ocr.cell("SELECT ocr_attempts FROM extraction_queue") == 2
    assert monitor.stop() == 0


# ---- "in all environments" ----

@pytest.mark.covers("E3", "E9")
def test_one_environment_that_is_down_stops_no_other_and_is_watched_when_it_is_back(ocr):
    ocr.add("stuck", 15, document_source="upload")
    stage(ocr, "s-1", 15)
    away = ocr.staging.path.with_suffix(".away")
    ocr.staging.drop()
    ocr.staging.path.rename(away)
    monitor = ocr.daemon("--no-queue")
    ocr.reaches("stuck", 3)
    monitor.wait_log("staging")
    assert ocr("scan").code == 6, "and a scan by hand tells by its exit code"
    away.rename(ocr.staging.path)
    back = LiteDatabase(ocr.staging.path)
    eventually(lambda: back.sql("SELECT status_id FROM extraction_queue") == [(3,)])
    eventually(lambda: monitor.lines("scan", watch="ocr-staging", recovered="1"))
    back.drop()
    assert monitor.stop() == 0


@pytest.mark.covers("E3")
def test_both_environments_are_reset_in_one_run_and_reported_apart(ocr):
    ocr.add("stuck", 15)
    stage(ocr, "s-1", 15)
    stage(ocr, "s-2", 1)
    ran = ocr("scan", "--fix")
    assert ran.code == 0, ran.err
    assert "production/ocr: 1 stuck of 1 running, 1 recovered" in ran.out
    assert "staging/ocr-staging: 1 stuck of 2 running, 1 recovered" in ran.out


# ---- Configuration ----

@pytest.mark.covers("E2")
def test_custom_configuration_every_30_seconds_with_a_5_minute_threshold(ocr):
    ocr.env.update(STALE_OCR_CHECK_INTERVAL_SECONDS="30", STALE_OCR_THRESHOLD_MINUTES="5")
    ocr.add("six", 6, document_source="upload")
    ocr.add("one", 1, document_source="upload")
    monitor = ocr.daemon("--no-queue")
    ocr.reaches("six", 3)
    assert ocr.status("one") == 6
    line = eventually(lambda: monitor.lines("scan", watch="ocr", found="1"))[0]
    assert line["next_check_s"] == "30"
    assert monitor.stop() == 0


# ---- the page ----

def check_walk(said, documents):
    """The part of the page that both engines have."""
    assert "production/ocr: 2 stuck of 3 running, 1 recovered, 1 held" in said["defib scan --fix"]
    assert "def-456" in said["defib ledger --event HELD"]
    assert "def-456" in said["defib list --watch ocr --where held"]
    assert "abc-123" in said["defib list --watch ocr --where recovered"]
    assert re.search(r"completed +1\b", said["defib status ocr --numbers"])
    assert documents == [("abc-123", 5), ("def-456", 5), ("ghi-789", 5), ("jkl-012", 5),
                         ("mno-345", 6)]


DOCUMENTS = "SELECT id, status_id FROM extraction_queue ORDER BY id"


@pytest.mark.covers("E3", "E4", "E7")
def test_the_readme_s_commands_do_what_they_say_on_sqlite(tmp_path):
    db = LiteDatabase(tmp_path / "ocr.db")
    check_walk(type_readme("ocr", tmp_path, "sqlite", {"ocr.db": str(db.path)}), db.sql(DOCUMENTS))
    db.drop()


@pytest.mark.covers("E3", "E4", "E7", "E8")
def test_the_readme_s_commands_do_what_they_say(shared_server, tmp_path, stranger_modules):
    """With Node.js: a stuck row, the manual reset, one environment down; then without Node.js."""
    with page_server(shared_server, "ocr", "ocr_staging", "ocr_documents") as env:
        said = type_readme("ocr", tmp_path, "postgres", {}, modules={
            "defib": PACKAGE, "pg": stranger_modules / "pg"}, **env)
        with contextlib.closing(shared_server.connect("ocr_documents")) as session:
            cursor = session.cursor()
            cursor.execute(DOCUMENTS)
            check_walk(said, cursor.fetchall())
    reset = said["npm run -s reset-stuck-ocr-jobs"]
    assert "not available: " in reset and "Total stuck OCR jobs reset: 2" in reset, reset
    assert "is stuck: running for" in said["npm run -s reset-stuck-ocr-jobs -- --job-id abc-123"]
    assert "completed 3" in said["npm run -s stats"]


def test_the_lines_that_the_readme_praises_are_there():
    text = (EXAMPLES / "ocr" / "defib.yaml").read_text()
    praised = praised_lines("ocr")
    assert len(praised) >= 8 and all(line in text for line in praised)
