# SPDX-License-Identifier: Apache-2.0
"""Numbers begin again in every new database: worker 1, job 1 and epoch 1 are everywhere. What was
made for one database, or by one incarnation, is never applied to its double."""

import signal

import psycopg2
import pytest

from harness.outages import SLOW, spooled, up_and_go
from harness.outages import outage  # noqa: F401  (a fixture)
from harness.spools import texts
from harness.waiting import eventually

pytestmark = pytest.mark.long

OTHER = "touch other; await other.go"


def begin_again(queue):
    """As after a restore into a new schema: the tables are new, and so are the numbers."""
    if queue.db.engine == "postgres":
        queue.db.sql("DROP SCHEMA defib CASCADE")
    else:
        tables = queue.db.sql("SELECT name FROM sqlite_master WHERE type = 'table' "
                              "AND name LIKE 'defib%'")
        queue.db.sql(";".join(f"DROP TABLE {name}" for name, in tables) + ";")
    ran = queue.program("init", db=queue.db)
    assert ran.code == 0, ran.err


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
