# SPDX-License-Identifier: Apache-2.0
"""OCR (E) as a program in Node.js, examples/ocr/app: first the stuck row of the document's worker as
it was, then the same worker with the package, and the document's verification against it.

Real processes, and two environments on PostgreSQL, one of which may be down.
"""

import os
import re
import shutil
import signal

import pytest

from harness.databases import PgDatabase, initialize
from harness.example_systems import EXAMPLES
from harness.node_programs import PACKAGE, NodePrograms
from harness.pooler import pooler, through  # noqa: F401  (a fixture)
from harness.small_memory import small_memory
from harness.waiting import eventually, running

DOWN = "postgres://127.0.0.1:1/staging"



class App:
    """The example in a directory of the test; `production` has its schema and defib's tables."""

    def __init__(self, defib, production, modules):
        self.defib, self.db = defib, production
        self.dir = defib.dir / "ocr"
        shutil.copytree(EXAMPLES / "ocr", self.dir, ignore=shutil.ignore_patterns("node_modules"))
        packages = self.dir / "app" / "node_modules"
        packages.mkdir()
        (packages / "defib").symlink_to(PACKAGE)
        (packages / "pg").symlink_to(modules / "pg")
        self.nodes = NodePrograms(defib)
        self.nodes.env.update(DATABASE_URL=production.url, STAGING_DATABASE_URL=DOWN,
                              STALE_OCR_CHECK_INTERVAL_SECONDS="1")
        self.prepare(production)

    def prepare(self, db):
        db.sql((self.dir / "schema.postgres.sql").read_text())
        initialize(db, self.defib)

    def start(self, script, *args, **env):
        return self.nodes.run(self.dir / "app" / script, *args, **env)

    def add(self, key, db=None, **columns):
        columns = {"id": key, "document_number": f"number of {key}", **columns}
        (db or self.db).sql(f"INSERT INTO extraction_queue ({', '.join(columns)}) VALUES "
                            f"({', '.join(['%s'] * len(columns))})", *columns.values())

    def stick(self, key, **columns):
        """The document's own UPDATE: "Simulate a stuck OCR job"."""
        self.add(key, **columns)
        self.db.sql("UPDATE extraction_queue SET status_id = 6, ocr_worker_id = 'test-worker',"
                    " ocr_started_at = NOW() - INTERVAL '15 minutes', ocr_attempts = 1"
                    " WHERE id = %s", key)

    def row(self, key, columns="status_id", db=None):
        found = (db or self.db).sql(f"SELECT {columns} FROM extraction_queue WHERE id = %s", key)[0]
        return found if len(found) > 1 else found[0]

    def reaches(self, key, status, db=None):
        try:
            eventually(lambda: self.row(key, db=db) == status)
        except AssertionError:
            logs = "\n".join(one.out + one.log for one in self.nodes.programs)
            raise AssertionError(f"{self.row(key, '*', db)}, not {status}\n{logs}") from None

    def close(self):
        self.nodes.close()


@pytest.fixture
def app(pg, defib, stranger_modules):
    own = App(defib, pg, stranger_modules)
    yield own
    own.close()


def says(program, text, n=1):
    try:
        eventually(lambda: program.out.count(text) >= n)
    except AssertionError:
        raise AssertionError(f"no {text!r}: {program.out}\n{program.log}") from None


@pytest.mark.covers("E2")
def test_before_a_killed_worker_leaves_a_row_that_no_worker_takes(app):
    app.add("abc-123")
    worker = app.start("before.js", OCR_MS="3600000")
    says(worker, "reading abc-123")
    worker.kill()
    # The next instance works, and the row is not its business.
    app.add("def-456")
    app.start("before.js", OCR_MS="1")
    app.reaches("def-456", 5)
    assert app.row("abc-123", "status_id, ocr_worker_id, ocr_attempts") == (6, "ocr-monitor-1", 1)
    # What ends it: the same worker with the package.
    app.db.sql("UPDATE extraction_queue SET ocr_started_at = NOW() - INTERVAL '15 minutes'"
               " WHERE id = 'abc-123'")
    app.start("monitor.js", OCR_MS="1")
    app.reaches("abc-123", 5)


@pytest.mark.covers("E1", "E3", "E5", "F2")
def test_after_a_killed_worker_s_document_is_read_by_another(app):
    """Two instances, one is killed over a document; staging is down the whole time."""
    app.add("abc-123")
    first = app.start("monitor.js", OCR_MS="3600000")
    says(first, "reading abc-123 of ocr")
    second = app.start("monitor.js", OCR_MS="1")
    eventually(lambda: "worker started" in second.log)
    first.kill()
    app.reaches("abc-123", 5)
    assert app.row("abc-123", "file_content, boosted_file_content, ocr_error, ocr_attempts,"
                   " ocr_completed_at IS NOT NULL") == ("text of abc-123", "better text of abc-123",
                                                        None, 2, True)
    assert "127.0.0.1" in second.log  # what is down is named


def test_a_worker_that_the_kernel_kills_loses_no_document(app):
    """The program alone is in the small group, as it would be with a limit of its own."""
    app.add("abc-123")
    first = app.start("monitor.js", OCR_MS="2000", OCR_EAT="yes")
    says(first, "reading abc-123 of ocr")
    with small_memory() as group:
        (group / "cgroup.procs").write_text(str(first.pid))
        assert first.wait() == -signal.SIGKILL, first.log
    app.start("monitor.js", OCR_MS="1")
    app.reaches("abc-123", 5)
    assert app.row("abc-123", "ocr_attempts") == 2


def test_through_a_transaction_pooler(app, pooler):  # noqa: F811
    """As with Supabase's transaction pooler; a worker that is killed is still seen at once."""
    app.nodes.env["DATABASE_URL"] = through(pooler, app.db)
    app.add("abc-123")
    first = app.start("monitor.js", OCR_MS="3600000")
    says(first, "reading abc-123 of ocr")
    second = app.start("monitor.js", OCR_MS="1")
    eventually(lambda: "worker started" in second.log)
    app.stick("test-job", document_source="upload")
    app.reaches("test-job", 3)
    first.kill()
    app.reaches("abc-123", 5)
    assert app.db.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") == [(0,)]
    second.signal(signal.SIGTERM)
    assert second.wait() == 0, second.log


@pytest.mark.covers("E3")
def test_after_a_restart_the_document_is_read_and_staging_joins_when_it_is_up(app, shared_server):
    app.add("abc-123")
    first = app.start("monitor.js", OCR_MS="3600000")
    says(first, "reading abc-123 of ocr")
    first.kill()
    staging = PgDatabase(shared_server)
    try:
        app.prepare(staging)
        app.add("stage-1", staging)
        app.start("monitor.js", OCR_MS="1", STAGING_DATABASE_URL=staging.url)
        app.reaches("abc-123", 5)
        app.reaches("stage-1", 5, staging)
    finally:
        app.close()
        staging.drop()


@pytest.mark.covers("E2", "E8", "E9")
def test_the_document_s_test_of_the_monitor(app):
    """Create a stuck job, wait, verify; then both end together."""
    program = app.start("monitor.js", OCR_MS="1")
    eventually(lambda: "worker started" in program.log and "daemon started" in program.log)
    app.stick("test-job", document_source="upload")  # so that no worker takes it again at once
    app.reaches("test-job", 3)
    error, at = app.row("test-job", "ocr_error, ocr_last_error_at")
    assert "Reset by stale OCR monitor" in error and at is not None
    eventually(lambda: re.search(r"msg=scan .*found=1 .*next_check_s=1", program.log))
    sessions = app.db.sql("SELECT application_name FROM pg_stat_activity WHERE "
                          "datname = current_database() AND pid <> pg_backend_pid()")
    assert 2 <= len(sessions) <= 7, sessions  # three of the worker, up to four of the monitor
    pids = program.children()
    program.signal(signal.SIGTERM)
    assert program.wait() == 0, program.log
    assert not any(running(pid) for pid in pids)


@pytest.mark.covers("E5", "E6")
def test_a_document_that_fails_is_tried_again_until_its_maximum(app):
    app.add("abc-123", document_number="unreadable")
    program = app.start("monitor.js", OCR_MS="1")
    says(program, "reading abc-123", 3)
    app.reaches("abc-123", 3)
    eventually(lambda: app.row("abc-123", "ocr_attempts, ocr_error") ==
               (3, "Error: the model found no text"))
    app.add("def-456")
    app.reaches("def-456", 5)  # others are read; this one is not claimed again
    assert program.out.count("reading abc-123") == 3


@pytest.mark.covers("E3", "E4", "E7")
def test_the_manual_reset_the_status_of_one_job_and_the_statistics(app):
    app.stick("abc-123")
    app.add("jkl-012", status_id=5, ocr_started_at="2024-01-15 10:00:00Z",
            ocr_completed_at="2024-01-15 10:01:30Z", file_content="text")

    def run(script, *args):
        program = app.start(script, *args)
        code = program.wait()
        return code, program.out + program.log

    code, said = run("reset-stuck-ocr-jobs.js", "--job-id", "abc-123")
    assert code == 0 and "is stuck: running for 15m" in said
    assert "Status: OCR_PROCESSING (6)" in said and "OCR Attempts: 1 of 3" in said
    code, said = run("reset-stuck-ocr-jobs.js", "--job-id", "none")
    assert code == 1 and "There is no job none" in said
    code, said = run("reset-stuck-ocr-jobs.js")
    assert code == 0, said
    for line in ("Checking production environment", "- Job ID: abc-123", "OCR Worker: test-worker",
                 "Document: index - number of abc-123", "Reset 1 stuck OCR job(s) in production",
                 "Checking staging environment", "not available: ",
                 "Total stuck OCR jobs reset: 1"):
        assert line in said, said
    assert app.row("abc-123") == 3
    code, said = run("stats.js")
    assert "processing 0, completed 1, failed 1, average 90 s, recovered today 1" in said, said


def test_the_example_names_no_registry():
    files = [path for path in (EXAMPLES / "ocr" / "app").iterdir() if path.is_file()]
    assert {path.suffix for path in files} <= {".js", ".json", ".md"}
    assert not os.path.exists(EXAMPLES / "ocr" / "app" / "package-lock.json")
