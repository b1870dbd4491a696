# SPDX-License-Identifier: Apache-2.0
"""Numbers begin again in every new database: worker 1, job 1 and epoch 1 are everywhere. What was
made for one database, or by one incarnation, is never applied to its double."""

import signal

import psycopg2
import pytest

from harness.outages import SLOW, begin_again, spooled, up_and_go
from harness.outages import outage  # noqa: F401  (a fixture)
from harness.queue_workers import Queue
from harness.spools import texts
from harness.waiting import eventually

pytestmark = pytest.mark.long

OTHER = "touch other; await other.go"


def runs_elsewhere(queue, *options, **more):
    """A job with the same numbers is running, with another worker."""
    job = queue.enqueue()
    queue.work("--name", "other", *options, run=OTHER, **more)
    eventually((queue.program.dir / "other").exists)
    return job


def numbers(queue, job):
    owner, epoch = queue.one(job, "owner, epoch")
    return owner // 1_000_000_000, job, epoch


def test_a_paused_worker_settles_no_job_of_new_tables(queue):
    first = queue.enqueue()
    paused = queue.work("--name", "paused", "--spool", "off", "--lease", "10m", run=SLOW)
    up_and_go(queue)
    was = numbers(queue, first)
    queue.db.freeze(paused)
    begin_again(queue)
    job = runs_elsewhere(queue, "--lease", "10m")
    assert numbers(queue, job) == was, "the numbers differ: the test shows nothing"
    (queue.program.dir / "go").touch()
    paused.signal(signal.SIGCONT)
    # The renewal may be refused before the end, which then is that of a stopped job.
    eventually(lambda: "its result was refused" in paused.log or queue.state(job) != "running")
    assert queue.state(job) == "running" and numbers(queue, job) == was


def calls_of(session, worker, job):
    def call(sql, *params):
        with session.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall()
    lists = (worker, job)
    return {
        "renew": lambda: call("SELECT defib.renew(%s, 1)", worker),
        "claim": lambda: call("SELECT * FROM defib.claim(%s, 'default', 1)", worker),
        "beat": lambda: call("SELECT * FROM defib.beat(%s, ARRAY[%s]::bigint[], ARRAY[1]::bigint[])",
                             *lists),
        "settle": lambda: call("SELECT accepted FROM defib.settle(%s, ARRAY[%s]::bigint[], "
                               "ARRAY[1]::bigint[], ARRAY['done'])", *lists),
        "leave": lambda: call("SELECT defib.leave(%s)", worker)}


def test_no_function_takes_a_worker_of_other_tables(pg_queue):
    session = pg_queue.db.connect()
    with session.cursor() as cursor:
        cursor.execute("SELECT defib.register('anna', 'test/anna')")
        (worker,), = cursor.fetchall()
    begin_again(pg_queue)
    job = runs_elsewhere(pg_queue, "--lease", "10m")
    assert numbers(pg_queue, job) == (worker // 1_000_000_000, 1, 1)
    calls = calls_of(session, worker, job)
    for name in ("renew", "claim", "beat"):
        with pytest.raises(psycopg2.Error) as refused:
            calls[name]()
        assert refused.value.pgcode == "DFB01", name
    assert calls["settle"]() == [(False,)]
    calls["leave"]()
    session.close()
    assert pg_queue.state(job) == "running"
    assert pg_queue.worker_rows("state") == [("alive",)]


def test_a_spooled_result_is_never_applied_to_other_tables(queue, outage):  # noqa: F811
    """It is set aside and said, and no late completion of theirs."""
    spool = ("--name", "anna", "--spool", queue.program.dir / "spool")
    first = queue.enqueue()
    worker = queue.work(*spool, "--lease", "10m", url=outage.url, run=SLOW)
    up_and_go(queue)
    was = numbers(queue, first)
    outage.begin()
    (queue.program.dir / "go").touch()
    eventually(lambda: spooled(queue, "anna"))
    worker.kill()
    outage.end()
    begin_again(queue)
    job = runs_elsewhere(queue, "--lease", "10m", "--spool", "off")
    assert numbers(queue, job) == was, "the numbers differ: the test shows nothing"
    again = queue.work(*spool)
    again.wait_log("another database")
    again.wait_log("worker started")
    assert queue.state(job) == "running" and queue.ledger("LATE_COMPLETION") == []
    last = queue.enqueue()
    queue.wait_state(last, "done")
    assert again.stop() == 0
    assert [b'"epoch":1' in text for text in texts(queue.program.dir / "spool")] == [True]


def test_the_usual_spool_of_each_database_has_a_directory_of_its_own(defib, pg_queue, lite):
    """Workers of one name beside each other: none finds results of the other's database."""
    state = pg_queue.program.dir / "state"
    lite_queue = Queue(defib, lite)
    try:
        for queue in (pg_queue, lite_queue):
            queue.work("--name", "anna", env={"STATE_DIRECTORY": str(state)})
        folders = sorted(path.parent for path in (state / "spool").glob("*/anna"))
        assert len(folders) == 2, list(state.rglob("*"))
        assert any(folder.name.startswith("file-") for folder in folders)
    finally:
        lite_queue.close()
