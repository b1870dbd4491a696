# SPDX-License-Identifier: Apache-2.0
"""Leases and fencing: a worker that is stopped, loses its sessions, or misses a reply."""

import contextlib
import shutil
import signal
import subprocess
import threading

import pytest

from harness.proxy import Cable
from harness.queue_workers import Queue
from harness.table_workers import TableWorkers
from harness.waiting import eventually, patience, running

SLOW = 'echo $$ >"up.$DEFIB_EPOCH"; await go; echo "$DEFIB_EPOCH" >&3'


def started(program, run=1):
    """The pid of the first run, or of another."""
    up = program.dir / f"up.{run}"
    eventually(lambda: up.exists() and up.read_text().strip())
    return int(up.read_text())


def let_go(queue):
    (queue.program.dir / "go").touch()


@pytest.mark.covers("F3")
def test_a_stopped_worker_is_found_by_silence_and_fenced_when_it_returns(queue):
    """Its job was finished meanwhile; its own result is late and changes nothing."""
    job = queue.enqueue()
    sleeper = queue.work("--lease", "2s", "--name", "sleeper", run=SLOW)
    child = started(queue.program)
    queue.work("--lease", "2s", "--name", "other", run='echo \'"second"\' >&3')
    queue.db.freeze(sleeper)
    queue.wait_state(job, "done")
    assert queue.worker_rows("name, state, cause")[0] == ("sleeper", "dead", "silent")
    # The child of the stopped worker goes on, and ends well before the worker can tell.
    let_go(queue)
    eventually(lambda: not running(child))
    before = queue.one(job, "state, epoch, attempts, finished_at")
    sleeper.signal(signal.SIGCONT)
    sleeper.wait_log("LEASE_LOST")
    sleeper.wait_log("registered again")
    eventually(lambda: queue.ledger("LATE_COMPLETION"))
    (late, evidence, epoch), = queue.ledger("LATE_COMPLETION")
    assert (late, epoch, evidence["outcome"], evidence["current_epoch"]) == (job, 1, "done", 2)
    assert queue.one(job, "state, epoch, attempts, finished_at") == before
    assert queue.result(job) == "second"


@pytest.mark.covers("F3")
def test_a_fenced_worker_lives_on_and_works_again(queue):
    queue.enqueue()
    sleeper = queue.work("--lease", "2s", "--name", "sleeper", run=SLOW)
    started(queue.program)
    other = queue.work("--lease", "2s", run="true")
    queue.db.freeze(sleeper)
    eventually(lambda: queue.worker_rows("state")[0] == ("dead",))
    assert other.stop() == 0
    let_go(queue)
    sleeper.signal(signal.SIGCONT)
    sleeper.wait_log("registered again")
    again = queue.enqueue()
    queue.wait_state(again, "done")
    names = [name for name, state in queue.worker_rows("name, state") if state == "alive"]
    assert names == ["sleeper"]
    assert sleeper.stop() == 0


@pytest.mark.covers("F3")
def test_a_fenced_worker_kills_the_job_that_is_no_longer_its_own(queue):
    job = queue.enqueue()
    sleeper = queue.work("--lease", "2s", "--grace", "500ms", run="echo $$ >pid; exec sleep 600")
    pid = queue.program.dir / "pid"
    eventually(lambda: pid.exists() and pid.read_text().strip())
    first = int(pid.read_text())
    queue.work("--lease", "2s", "--name", "other")
    queue.db.freeze(sleeper)
    queue.wait_state(job, "done")
    sleeper.signal(signal.SIGCONT)
    eventually(lambda: not running(first))
    assert queue.one(job, "state, epoch") == ("done", 2)


def test_a_short_pause_within_the_lease_costs_nothing(queue):
    job = queue.enqueue()
    worker = queue.work("--lease", "10m", run=SLOW)
    started(queue.program)
    queue.work("--lease", "10m", "--queue", "idle")
    queue.db.freeze(worker)
    let_go(queue)
    worker.signal(signal.SIGCONT)
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch, crashes") == (1, 0)


def terminate_all(pg):
    """Every session but our own is ended by the server."""
    killed = pg.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()")[0][0]
    return killed


@pytest.mark.covers("C14")
def test_a_worker_whose_sessions_are_terminated_keeps_its_jobs(pg_queue):
    queue = pg_queue
    job = queue.enqueue()
    worker = queue.work(run=SLOW)
    started(queue.program)
    # The sessions for claims and for the lease; the one for settling opens when it is needed.
    assert terminate_all(queue.db) >= 2
    let_go(queue)
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch, attempts, crashes") == (1, 1, 0)
    assert queue.result(job) == 1
    assert queue.worker_rows("state") == [("alive",)]
    assert worker.stop() == 0


def test_the_end_of_every_job_is_seen_while_sessions_are_replaced(pg_queue):
    """A new session, or a child's pipe, gets the number of the descriptor that was just closed."""
    queue = pg_queue
    worker = queue.work("--concurrency", "4", "--poll", "50ms", "--lease", "10m", run="sleep 0.05")
    jobs = []
    for _ in range(25):
        jobs += [queue.enqueue() for _ in range(2)]
        terminate_all(queue.db)
    for job in jobs:
        queue.wait_state(job, "done")
    assert worker.stop() == 0


def test_sessions_opened_while_the_database_was_read_only_are_opened_again(pg_queue):
    """What a session may do is settled when it is opened: once healed, it stayed read-only."""
    queue = pg_queue
    worker = queue.work("--lease", "3s", "--poll", "100ms")
    queue.db.sql(f"ALTER DATABASE {queue.db.name} SET default_transaction_read_only = on")
    terminate_all(queue.db)
    worker.wait_log("read-only")
    queue.db.sql(f"ALTER DATABASE {queue.db.name} RESET default_transaction_read_only")
    job = queue.enqueue()
    queue.wait_state(job, "done")
    assert worker.stop() == 0


@pytest.mark.covers("C14")
def test_terminated_sessions_are_no_death_to_a_fellow_who_watches(pg_queue):
    queue = pg_queue
    job = queue.enqueue()
    queue.work("--lease", "3s", run=SLOW)
    started(queue.program)
    queue.work("--lease", "3s", "--queue", "idle")
    for _ in range(3):
        terminate_all(queue.db)
        settled_in_again(queue, 2)
    let_go(queue)
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch, crashes") == (1, 0)
    assert queue.worker_rows("state") == [("alive",)] * 2


def settled_in_again(queue, workers):
    """Every worker has renewed its lease in a session that is newer than this call."""
    now = queue.db.sql("SELECT clock_timestamp()")[0][0]

    def renewed():
        return queue.db.sql("SELECT count(*) FROM defib.worker WHERE renewed_at > %s "
                            "AND state = 'alive'", now)[0][0] >= workers
    eventually(renewed)


def both_read_locks(db):
    """A lock can be missed only by a worker that has seen it. Two may read them often; the call
    with which one begins to reads them too."""
    readers = ("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
               "classid = 1684366955 AND database = "
               "(SELECT oid FROM pg_database WHERE datname = current_database())")
    eventually(lambda: db.sql(readers) == [(2,)])


@pytest.fixture
def elsewhere(pg_queue, monkeypatch):
    """Start workers in a PID namespace of their own: for the others they are on another host."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare")
    probe = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"],
                           capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no PID namespace can be made here: {probe.stderr.strip()}")
    plain = pg_queue.program._argv

    def start(*options, **more):
        pg_queue.program._argv = lambda args, db, config: [
            "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *plain(args, db, config)]
        try:
            return pg_queue.work(*options, **more)
        finally:
            pg_queue.program._argv = plain
    return start


@pytest.mark.covers("C14")
def test_terminated_sessions_are_no_death_to_a_worker_on_another_host(pg_queue, elsewhere):
    """There only the lost session is visible: a live worker is back within the grace."""
    queue = pg_queue
    job = queue.enqueue()
    elsewhere("--name", "far", "--lease", "3s", run=SLOW)
    started(queue.program)
    queue.work("--queue", "idle", "--name", "near", "--lease", "3s")
    both_read_locks(queue.db)
    far = queue.db.sql("SELECT id FROM defib.worker WHERE name = 'far'")[0][0]
    for _ in range(5):
        queue.db.sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
                     "AND objid = %s %% 1000000000 AND database = (SELECT oid FROM pg_database "
                     "WHERE datname = current_database())", far)
        # Whether the watcher has judged: it reads every 20 ms and waits 250 ms.
        settled_in_again(queue, 2)
    let_go(queue)
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch, crashes") == (1, 0)
    assert queue.worker_rows("name, state") == [("far", "alive"), ("near", "alive")]


LOCKED = ("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
          "classid = 1684366954 AND objid = %s %% 1000000000 "
          "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")


@pytest.mark.covers("C14")
def test_an_old_session_that_lingers_and_then_ends_is_no_death(pg_queue, elsewhere, wire):
    """Its lock is held by old and new sessions together, and goes with the last of them."""
    queue = pg_queue
    job = queue.enqueue()
    # It has no beat within the test: what saves it must follow from its sessions. The other one
    # beats, which shows that it had the time to judge.
    elsewhere("--name", "far", "--lease", "1h", run=SLOW, url=wire.url(queue.db))
    started(queue.program)
    queue.work("--queue", "idle", "--name", "near", "--lease", "3s")
    far = queue.db.sql("SELECT id FROM defib.worker WHERE name = 'far'")[0][0]
    for _ in range(3):
        eventually(lambda: queue.db.sql(LOCKED, far) == [(2,)])
        wire.strand()
        settled_in_again(queue, 1)
        eventually(lambda: queue.db.sql(LOCKED, far) == [(4,)])
        wire.end_stranded()
        settled_in_again(queue, 1)
    let_go(queue)
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch, crashes") == (1, 0)
    assert queue.worker_rows("name, state") == [("far", "alive"), ("near", "alive")]


@pytest.mark.covers("F2")
def test_a_death_on_another_host_is_seen_by_its_session(pg_queue, elsewhere):
    queue = pg_queue
    job = queue.enqueue()
    far = elsewhere("--name", "far", "--lease", "1h", run=SLOW)
    started(queue.program)
    queue.work("--name", "near", "--lease", "1h", run="true")
    both_read_locks(queue.db)
    far.kill()
    queue.wait_state(job, "done")
    assert queue.worker_rows("name, state, cause")[0] == ("far", "dead", "session gone")


def claims(sent):
    """Whether a client's message runs the claim: by its text, or by the name it was prepared as.

    Each session has its own names, and the wire a thread for each session."""
    session = threading.get_ident()
    if b"defib.turn" in sent and sent[:1] == b"P":
        claims.names.add((session, sent[5:sent.index(b"\0", 5)]))
    return any(sent[:1] == b"B" and b"\0" + name + b"\0" in sent
               for whose, name in claims.names if name and whose == session)


def test_a_claim_whose_answer_was_lost_is_released_by_itself(defib, pg, wire):
    """The database assigned the job, the worker never learned of it: no worker would ever run it.
    """
    queue = Queue(defib, pg)
    claims.names = set()
    jobs = []
    first = threading.Lock()  # held from the first claim on: sessions speak at the same time

    def first_claim_finds_it(sent):
        if not claims(sent) or not first.acquire(blocking=False):
            return False
        jobs.append(queue.enqueue())  # before the claim is passed on, so that no other one has it
        return True
    wire.loses = first_claim_finds_it
    worker = queue.work("--poll", "200ms", url=wire.url(pg))
    try:
        assert wire.held.wait(patience()), worker.log
        job, = jobs
        queue.wait_state(job, "running")
        wire.cut()
        queue.wait_state(job, "done")
        assert "the answer to a claim was lost" in worker.log
        # The lost claim was handed back, attempt returned, and claimed once more.
        assert queue.one(job, "epoch, attempts, crashes") == (2, 1, 0)
        assert worker.stop() == 0
    finally:
        queue.close()


def test_a_job_is_settled_once_when_the_settlements_answer_was_lost(defib, pg, wire):
    """Repeated by the same worker it is the same settlement, not a second and not a late one."""
    queue = Queue(defib, pg)
    claims.names = set()
    lost = []
    looker = pg.connect().cursor()

    def first_turn_while_it_runs(sent):
        if claims(sent) and not lost:
            looker.execute("SELECT 1 FROM defib.job WHERE state = 'running'")
            lost.extend(looker.fetchall())
            return bool(lost)
        return False
    wire.loses = first_turn_while_it_runs
    worker = queue.work(run="echo 7 >&3", url=wire.url(pg))
    try:
        job = queue.enqueue()
        queue.wait_state(job, "done")
        assert wire.held.wait(patience()), worker.log
        wire.cut()
        assert worker.stop() == 0
        assert queue.one(job, "epoch, attempts, state") == (1, 1, "done")
        assert queue.result(job) == 7
        assert queue.ledger("LATE_COMPLETION") == []
    finally:
        queue.close()
        looker.connection.close()


EXCLUSIVE = """databases:
  - name: main
    url: ${DATABASE_URL}
watches:
  - name: pages
    table: pages
    key: id
    running: status = 'running'
    started_at: started_at
    overdue_after: 1h
    requeue: status = 'queued'
    work:
      ready: status = 'queued'
      claim: status = 'running', started_at = CURRENT_TIMESTAMP
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
      exclusive: true
"""


def test_exclusive_work_ends_with_its_lease_while_the_server_does_not_answer(pg, defib):
    """A turn waits for its answer far longer than the lease. Others may begin when that is over."""
    own = TableWorkers("scristill", pg, defib)
    own.config = own.dir / "exclusive.yaml"
    own.config.write_text(EXCLUSIVE)
    own.rows("CREATE TABLE pages (id int PRIMARY KEY, status text, started_at timestamptz)")
    own.rows("INSERT INTO pages VALUES (1, 'queued', NULL), (2, 'queued', NULL)")
    with contextlib.closing(own), contextlib.closing(Cable(pg.server.port)) as cable:
        worker = own.work("pages", "--lease", "2s", "--concurrency", "2", url=cable.url(pg),
                          run='echo $$ >"up.$DEFIB_JOB_ID"; '
                              '[ "$DEFIB_JOB_ID" = 1 ] && await never; await go')
        first, second = started(defib, 1), started(defib, 2)
        cable.cut()
        (defib.dir / "go").touch()  # its end makes a turn due, which is not answered
        eventually(lambda: not running(second))
        eventually(lambda: not running(first))
        assert "nothing was claimed or settled" not in worker.log
