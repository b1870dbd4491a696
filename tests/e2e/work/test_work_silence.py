# SPDX-License-Identifier: Apache-2.0
"""Silence is death only if an observer itself has heard nothing for a whole lease, by its own
clock, while it could write: not after a jump of the database's clock, and not after a time in which
no worker could write.
"""

import contextlib
import time

import pytest

from harness.daemon import World
from harness.databases import LiteDatabase, PgDatabase
from harness.pgserver import FAKETIME, PgServer, RunningClock
from harness.queue_workers import Queue
from harness.small_disk import full_disk, tiny_filesystem
from harness.waiting import eventually

pytestmark = pytest.mark.long
SLOW = 'echo $DEFIB_JOB_ID >>began; await go'
LEASE_S = 4  # one that no living worker misses on a busy machine


def crew(queue, n, *options):
    """Workers that have a job each and were heard by each other."""
    for _ in range(n):
        queue.enqueue()
    workers = [queue.work("--lease", f"{LEASE_S}s", "--name", f"w{i}", *options, run=SLOW)
               for i in range(n)]
    began = queue.program.dir / "began"
    eventually(lambda: began.exists() and len(began.read_text().split()) == n)
    let_beat(queue, 3)
    return workers


def let_beat(queue, times, name="w0"):
    """This many renewals of one worker: time in which another could have been declared dead."""
    table = queue.table("worker")

    def stamp():
        return queue.db.sql(f"SELECT renewed_at FROM {table} WHERE name = %s ORDER BY id", name)
    for _ in range(times):
        last = stamp()
        eventually(lambda before=last: stamp() != before)


def newcomer(queue):
    """A worker that is started again until it could register, as a supervisor would."""
    for _ in range(100):
        worker = queue.work("--lease", f"{LEASE_S}s", "--name", "newcomer", run=SLOW, wait=False)
        eventually(lambda one=worker: "worker started" in one.log or one.process.poll() is not None)
        if "worker started" in worker.log:
            return worker
    raise AssertionError(worker.log)


def nobody_was_condemned(queue, n):
    let_beat(queue, 8, "newcomer")
    assert [s for s, in queue.worker_rows("state")] == ["alive"] * (n + 1)
    assert queue.all("epoch, crashes") == [(1, 0)] * n
    (queue.program.dir / "go").touch()
    eventually(lambda: len(queue.all("id", "state = 'done'")) == n)
    assert queue.all("epoch, crashes") == [(1, 0)] * n
    assert queue.ledger("REQUEUED") == []


@pytest.fixture
def clocked(defib):
    """The queue on a server whose clock the test sets."""
    if not FAKETIME.exists():
        pytest.skip("libfaketime is not installed")
    server = PgServer(clocked=RunningClock).start()
    queue = Queue(defib, PgDatabase(server))
    yield queue
    queue.close()
    server.remove()


JUMPS = [(4, 86400), (4, -7200), pytest.param(2, 60, marks=pytest.mark.proof)]


@pytest.mark.covers("F6", "C14")
@pytest.mark.parametrize("n, seconds", JUMPS)
def test_nobody_is_condemned_when_the_database_s_clock_jumps(clocked, n, seconds):
    """Leases are times of that clock: all of them were over at once, or never again."""
    crew(clocked, n)
    clocked.db.server.clock.forward(seconds)
    newcomer(clocked)
    nobody_was_condemned(clocked, n)


@pytest.mark.covers("F6", "C14")
def test_a_daemon_condemns_nobody_when_the_database_s_clock_jumps(clocked):
    crew(clocked, 2)
    world = World(clocked.program, clocked.db)
    daemon = world.daemon(f"databases:\n  - name: main\n    url: {clocked.db.url}\n")
    try:
        daemon.wait_passes("queue", 2)
        clocked.db.server.clock.forward(60)
        newcomer(clocked)
        nobody_was_condemned(clocked, 2)
    finally:
        daemon.kill()


@pytest.mark.covers("C14")
def test_a_silent_worker_is_found_whatever_the_clock_says(clocked):
    """Set back by hours, its lease would have lasted as long."""
    workers = crew(clocked, 2)
    clocked.db.server.clock.forward(-7200)
    let_beat(clocked, 3)
    clocked.db.freeze(workers[1])
    eventually(lambda: clocked.worker_rows("state, cause")[1] == ("dead", "silent"))


@contextlib.contextmanager
def write_lock(db):
    holder = db.connect()
    holder.execute("BEGIN IMMEDIATE")
    yield
    holder.execute("ROLLBACK")
    holder.close()


def outlast(queue, trouble, n=3):
    """No worker can write for longer than a lease, and one starts meanwhile."""
    workers = crew(queue, n)
    with trouble:
        for worker in workers:
            worker.wait_log("the lease was not renewed")
        time.sleep(LEASE_S + 2)  # the trouble itself
    newcomer(queue)
    nobody_was_condemned(queue, n)


@pytest.mark.covers("F6", "C14")
def test_nobody_is_condemned_after_somebody_held_the_write_lock(defib, lite):
    queue = Queue(defib, lite)
    try:
        outlast(queue, write_lock(lite))
    finally:
        queue.close()


@pytest.mark.covers("C14", "F5")
def test_nobody_is_condemned_after_the_disk_was_full(defib, tmp_path):
    with tiny_filesystem(tmp_path / "tiny", "4m") as tiny:
        db = LiteDatabase(tiny / "queue.db")
        queue = Queue(defib, db)
        try:
            outlast(queue, full_disk(tiny))
        finally:
            queue.close()
            db.drop()


@pytest.mark.covers("F5")
def test_a_worker_that_starts_beside_old_leases_waits_for_a_lease_of_its_own(queue):
    """It has heard no worker yet: an old stamp does not show who could write."""
    workers = crew(queue, 1)
    queue.db.freeze(workers[0])
    time.sleep(LEASE_S + 1)  # its lease is over by any clock
    started = time.monotonic()
    newcomer(queue)
    eventually(lambda: queue.worker_rows("state, cause")[0] == ("dead", "silent"))
    assert time.monotonic() - started >= LEASE_S
