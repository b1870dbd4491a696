# SPDX-License-Identifier: Apache-2.0
"""The database is unavailable when a job ends: spool, breaker, alert."""

import signal

import pytest

from harness.databases import PgDatabase
from harness.outages import SLOW, spooled, up_and_go
from harness.outages import outage  # noqa: F401  (a fixture)
from harness.pgserver import PgServer
from harness.queue_workers import Queue
from harness.waiting import eventually

pytestmark = pytest.mark.long


def work(queue, outage, *options, **more):
    return queue.work("--name", "anna", "--spool", queue.program.dir / "spool", *options,
                      url=outage.url, **more)


@pytest.mark.covers("A14")
def test_a_result_waits_in_the_spool_and_is_settled_when_the_database_is_back(queue, outage):
    job = queue.enqueue()
    # A long lease, so that nothing but the spool settles it.
    worker = work(queue, outage, "--lease", "10m", run=SLOW)
    up_and_go(queue)
    before = spooled(queue, "anna")
    outage.begin()
    (queue.program.dir / "go").touch()
    eventually(lambda: spooled(queue, "anna") > before)
    assert queue.state(job) == "running"
    outage.end()
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch, attempts, crashes") == (1, 1, 0)
    assert queue.result(job) == {"epoch": 1}
    worker.wait_log("settled from the spool")
    assert worker.stop() == 0


@pytest.mark.covers("A14")
def test_the_spool_drains_in_order(queue, outage):
    queue.bulk(6)
    script = ('echo "$DEFIB_JOB_ID" >>up; await "go.$DEFIB_JOB_ID"; '
              'echo 1 >&3')
    worker = work(queue, outage, "--lease", "10m", "--concurrency", "6", run=script)
    up = queue.program.dir / "up"
    eventually(lambda: up.exists() and len(up.read_text().split()) == 6)
    jobs = [job for job, in queue.all("id")]
    order = [jobs[i] for i in (3, 0, 5, 1, 4, 2)]
    outage.begin()
    size = spooled(queue, "anna")
    for job in order:
        (queue.program.dir / f"go.{job}").touch()
        eventually(lambda: spooled(queue, "anna") > size)
        size = spooled(queue, "anna")
    outage.end()
    eventually(lambda: not queue.all("id", "state <> 'done'"))
    worker.wait_log("settled from the spool")
    assert worker.stop() == 0
    drained = [int(line.split("job=")[1].split()[0]) for line in worker.log.splitlines()
               if "settled from the spool" in line]
    assert drained == order


@pytest.mark.covers("A15")
def test_the_breaker_opens_and_closes_by_itself(queue, outage):
    """Claims pause while the database is unavailable; when it is back, work continues."""
    worker = work(queue, outage, "--poll", "50ms", "--lease", "10m")
    queue.wait_state(queue.enqueue(), "done")
    # On SQLite an idle look only reads: the lock shows when there is something to claim.
    queue.db.freeze(worker)
    queue.enqueue()
    outage.begin()
    worker.signal(signal.SIGCONT)
    worker.wait_log("breaker opened")
    outage.end()
    last = queue.enqueue()
    queue.wait_state(last, "done")
    worker.wait_log("breaker closed")
    assert worker.stop() == 0


@pytest.mark.covers("A14")
def test_the_next_worker_of_the_name_drains_what_a_killed_one_spooled(queue, outage):
    job = queue.enqueue()
    worker = work(queue, outage, "--lease", "10m", run=SLOW)
    up_and_go(queue)
    before = spooled(queue, "anna")
    outage.begin()
    (queue.program.dir / "go").touch()
    eventually(lambda: spooled(queue, "anna") > before)
    worker.kill()
    outage.end()
    assert queue.state(job) == "running"
    next_one = work(queue, outage, run="echo again >&3")
    queue.wait_state(job, "done")
    next_one.wait_log("settled from the spool")
    assert queue.one(job, "epoch, attempts") == (1, 1)
    assert queue.result(job) == {"epoch": 1}
    assert queue.ledger("LATE_COMPLETION") == []


@pytest.mark.covers("A14", "F3")
def test_a_spooled_result_is_fenced_like_any_other(queue, outage):
    """Another worker has run the job meanwhile: the spooled result is kept as evidence only."""
    job = queue.enqueue()
    worker = work(queue, outage, "--lease", "10m", run=SLOW)
    up_and_go(queue)
    before = spooled(queue, "anna")
    outage.begin()
    (queue.program.dir / "go").touch()
    eventually(lambda: spooled(queue, "anna") > before)
    worker.kill()
    outage.end()
    queue.work("--name", "berta", "--spool", queue.program.dir / "spool", run="echo 2 >&3")
    queue.wait_state(job, "done")
    assert queue.result(job) == 2
    late = work(queue, outage, "--drain", wait=False)
    late.wait_log("refused from the spool: too late")
    assert late.wait() == 0
    assert [(j, epoch) for j, _, epoch in queue.ledger("LATE_COMPLETION")] == [(job, 1)]
    assert queue.result(job) == 2


@pytest.mark.covers("A7")
def test_without_a_spool_one_critical_line_names_the_job(queue, outage):
    job = queue.enqueue()
    worker = queue.work("--name", "anna", "--spool", "off", "--lease", "10m", url=outage.url,
                        run=SLOW)
    up_and_go(queue)
    outage.begin()
    (queue.program.dir / "go").touch()
    worker.wait_log("result not recorded")
    outage.end()
    lines = [line for line in worker.log.splitlines() if "result not recorded" in line]
    assert len(lines) == 1
    assert "critical" in lines[0] and f"default {job} stuck" in lines[0]


@pytest.mark.covers("A7")
def test_what_could_not_be_recorded_is_recovered_later(queue, outage):
    """The worker finds that it owns a job it does not have, and releases it."""
    job = queue.enqueue()
    worker = queue.work("--name", "anna", "--spool", "off", "--lease", "2s", url=outage.url,
                        run=SLOW)
    up_and_go(queue)
    outage.begin()
    (queue.program.dir / "go").touch()
    worker.wait_log("result not recorded")
    outage.end()
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch") >= 2


@pytest.mark.covers("A7")
def test_a_worker_that_lost_a_record_says_so_by_its_exit_code(queue, outage):
    queue.enqueue()
    worker = queue.work("--name", "anna", "--spool", "off", "--lease", "10m", url=outage.url,
                        run=SLOW)
    up_and_go(queue)
    outage.begin()
    (queue.program.dir / "go").touch()
    worker.wait_log("result not recorded")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 6


def test_a_worker_stopped_while_the_database_is_away_ends_and_keeps_the_result(queue, outage):
    job = queue.enqueue()
    worker = work(queue, outage, "--lease", "10m", run=SLOW)
    up_and_go(queue)
    outage.begin()
    (queue.program.dir / "go").touch()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    outage.end()
    assert queue.state(job) == "running"
    work(queue, outage, run="echo again >&3")
    queue.wait_state(job, "done")
    assert queue.result(job) == {"epoch": 1}
    assert queue.one(job, "epoch") == 1


@pytest.fixture
def durable_server():
    """A server whose commits outlive it; the others of this run need not."""
    own = PgServer({"synchronous_commit": "on", "full_page_writes": "on"})
    try:
        yield own.start()
    finally:
        own.remove()


def test_a_restarted_server_costs_no_work(defib, durable_server):
    """Immediate shutdown while jobs run: they are finished, and settled when it is back."""
    server = durable_server
    queue = Queue(defib, PgDatabase(server))
    try:
        jobs = [queue.enqueue() for _ in range(4)]
        worker = queue.work("--concurrency", "4", "--lease", "10m", run=SLOW)
        up_and_go(queue)
        eventually(lambda: len(queue.all("id", "state = 'running'")) == 4)
        server.stop(signal.SIGQUIT)
        (queue.program.dir / "go").touch()
        worker.wait_log("nothing was claimed or settled")
        server.start()
        queue.db._session = None
        for job in jobs:
            queue.wait_state(job, "done")
        assert queue.all("epoch, attempts") == [(1, 1)] * 4
        assert worker.stop() == 0
    finally:
        queue.close()
