# SPDX-License-Identifier: Apache-2.0
"""Workers behind pgbouncer in transaction mode: leases alone, no session locks, no LISTEN."""

import signal

import pytest

from harness.outages import SLOW, up_and_go
from harness.pooler import pooler, through  # noqa: F401  (a fixture)
from harness.waiting import eventually


@pytest.fixture
def pooled(pg, pooler):  # noqa: F811
    """The database's URL through the pooler."""
    return through(pooler, pg)


def test_through_a_transaction_pooler_jobs_run_without_session_locks(pg_queue, pooled):
    queue = pg_queue
    queue.bulk(100)
    workers = [queue.work("--concurrency", "4", "--poll", "200ms", run='echo "$DEFIB_EPOCH" >&3',
                          url=pooled) for _ in range(2)]
    eventually(lambda: not queue.all("id", "state <> 'done'"))
    assert not queue.all("id", "epoch <> 1")
    locks = queue.db.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
                         "(SELECT oid FROM pg_database WHERE datname = current_database())")
    assert locks == [(0,)]
    listening = queue.db.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    assert listening == [(0,)]
    assert [w.stop() for w in workers] == [0, 0]


@pytest.mark.covers("F2")
def test_through_a_pooler_a_fellow_on_the_host_still_sees_an_exit(pg_queue, pooled):
    queue = pg_queue
    job = queue.enqueue()
    first = queue.work("--lease", "1h", run=SLOW, url=pooled)
    up_and_go(queue)
    queue.work("--lease", "1h", "--poll", "200ms", run="true", url=pooled)
    first.kill()
    queue.wait_state(job, "done")
    assert queue.worker_rows("state, cause")[0] == ("dead", "exit seen")


def test_through_a_pooler_silence_is_seen_by_the_lease(pg_queue, pooled):
    queue = pg_queue
    job = queue.enqueue()
    first = queue.work("--lease", "2s", run=SLOW, url=pooled)
    up_and_go(queue)
    queue.work("--lease", "2s", "--poll", "200ms", run="true", url=pooled)
    first.signal(signal.SIGSTOP)
    queue.wait_state(job, "done")
    assert queue.worker_rows("state, cause")[0] == ("dead", "silent")


def test_doctor_says_that_a_pooler_is_in_the_way(pg_queue, pooled):
    ran = pg_queue.program("doctor", db=pooled)
    assert "connected through a transaction pooler" in ran.out, ran
