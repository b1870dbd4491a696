# SPDX-License-Identifier: Apache-2.0
"""One walk through defib on the oldest and the newest PostgreSQL, each on a server of its own.

`make matrix` runs all other tests on every version; those that attack as another role are marked to
run on both ends in `make check` too.
"""

import os
import signal
import sys

import pytest

from harness import pgversions
from harness.databases import PgDatabase
from harness.pgserver import QUIET, PgServer
from harness.program import ROOT
from harness.queue_workers import Queue, Worker

# The version that the run chose, else both ends.
CHOSEN = os.environ.get(pgversions.SETTING)
VERSIONS = [CHOSEN] if CHOSEN else [pgversions.versions()[0], pgversions.versions()[-1]]

STRANGER = ROOT / "tests" / "harness" / "foreign_program.py"
CONFIG = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued', note = :reason, updated_at = now()
"""
TABLE = """
CREATE TABLE jobs (id int PRIMARY KEY, status text NOT NULL, note text,
                      updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO jobs SELECT n, 'queued' FROM generate_series(1, 5) n;
INSERT INTO jobs VALUES (6, 'running', NULL, now() - interval '2 days')
"""


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"PostgreSQL-{version}")
def versioned(request):
    try:
        server = PgServer(QUIET, version=request.param)
    except pgversions.NotAvailable as reason:
        pytest.skip(str(reason))
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def empty(versioned):
    """A database without defib's tables."""
    database = PgDatabase(versioned)
    yield database
    database.drop()


@pytest.fixture
def jobs(empty, defib):
    """A foreign table with one stuck row, and a call of the program for it."""
    empty.sql(TABLE)
    config = CONFIG.format(url=empty.url)

    def call(*args, code=0):
        ran = defib(*args, config=config)
        assert ran.code == code, ran.out + ran.err
        return ran

    call("init")
    return empty, call


def test_the_job_of_a_killed_worker_runs_elsewhere(empty, defib):
    assert defib("init", db=empty).code == 0
    queue = Queue(defib, empty)
    try:
        job = queue.enqueue()
        first = queue.work(run="sleep 600")
        queue.wait_state(job, "running")
        queue.work(run="echo '\"done elsewhere\"' >&3")
        first.signal(signal.SIGKILL)
        queue.wait_state(job, "done")
        assert queue.result(job) == "done elsewhere"
        assert [row[0] for row in queue.ledger("REQUEUED")] == [job]
    finally:
        queue.close()
    examined = defib("doctor", db=empty)
    assert examined.code == 0, examined.out


def test_a_foreign_row_is_found_recovered_and_put_back(jobs):
    db, call = jobs
    stuck = db.sql("SELECT * FROM jobs WHERE id = 6")
    call("scan", code=1)
    batch = call("scan", "--fix", "--json").json["watches"][0]["batch"]
    assert db.sql("SELECT status FROM jobs WHERE id = 6") == [("queued",)]
    assert "REQUEUED" in call("ledger").out
    call("undo", batch, "--yes")
    assert db.sql("SELECT * FROM jobs WHERE id = 6") == stuck
    assert call("report", "--format", "json").json["watches"][0]["now"]["recovered"] == 1
    found = call("doctor", "--json").json["findings"]
    assert [one["level"] for one in found
            if one["text"] == f"PostgreSQL {db.server.binaries.version}"] == ["ok"]
    assert "FAIL" not in [one["level"] for one in found]


def test_what_a_killed_program_had_is_recovered_by_its_session(jobs, defib):
    db, call = jobs
    call("attach", "jobs", "--yes")
    log = defib.dir / "run.log"
    with open(log, "w", encoding="utf-8") as out:
        process = defib.start("run", "-c", defib.dir / "defib.yaml", "--watch", "jobs", "--",
                              sys.executable, STRANGER, db.url, "1", "work", stdout=out, stderr=out)
    program = Worker(process, log)
    try:
        program.wait_log("took ")
        (job, session), = db.sql("SELECT job, application FROM defib.claimed_by")
        assert job == "1" and session.startswith("defib-run:")
        os.kill(int(program.log.split("took ")[1].split()[0]), signal.SIGKILL)
        assert program.wait() == 128 + signal.SIGKILL
    finally:
        program.kill()
    assert db.sql("SELECT status FROM jobs WHERE id = 1") == [("queued",)]
    call("detach", "jobs", "--yes")
    assert not db.sql("SELECT FROM pg_trigger WHERE tgrelid = 'jobs'::regclass")
