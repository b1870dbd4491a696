# SPDX-License-Identifier: Apache-2.0
"""The daemon or the database was unavailable: no worker is blamed for the silence of that time.

Twenty worker processes with 2,000 jobs in hand survive it. They return only after the daemon did,
which is the worst order: the first thing that it sees is silence beyond every threshold. The ledger
must have no recovery, and each job is done once, by the worker that had it.
"""

import contextlib
import os
import signal
import time

import pytest

from harness.daemon import AGED, STUCK_S, World, config, make_jobs
from harness.databases import PgDatabase
from harness.pgserver import FAKETIME, PgServer
from harness.queue_workers import Queue
from harness.waiting import eventually

JOBS = 2000
QUEUE_LEASE_S = 2
QUEUE_SLACK_S = 5  # presets/queue.yaml
WAIT = 'until [ -e go ]; do read x <gate; done; echo "$DEFIB_EPOCH" >&3'


@pytest.fixture(scope="module")
def own_server():
    """For this file: its tests stop it, and each leaves it running."""
    server = PgServer(settings={"max_connections": "250"})
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def world(own_server, defib):
    if not own_server.process:
        own_server.start()
    db = PgDatabase(own_server)
    make_jobs(db, JOBS)
    own = World(defib, db)
    yield own
    own.close()
    db.drop()


def settle_in(world):
    """Twenty workers at work and a daemon that has seen them beat."""
    crew = world.work()
    daemon = world.daemon()
    for watch in ("beating", "aged"):
        daemon.wait_passes(watch, 2)
    return crew, daemon


def sees_silence(world):
    """The daemon has looked again since its absence, and does not trust what it sees."""
    def doubts(watch):
        status = world.status(watch)
        return status.get("doubting") and status["guarded"]["doubt"] > 0
    eventually(lambda: (doubts("beating") and doubts("aged")) or world.events("REQUEUED"))
    assert world.events("REQUEUED") == []


def nobody_was_wronged(world, daemon):
    """All are heard again, the daemon judges as usual, and has recovered nothing."""
    for watch in ("beating", "aged"):
        world.wait_status(watch, found=0)
        daemon.wait_passes(watch, 2)
    assert world.events("REQUEUED") == []
    assert world.count("status <> 'running'") == 0
    world.all_done_once()
    assert daemon.stop() == 0


def doubt_is_in_the_ledger(world):
    """Once for each watch of which it held a job back, with how many and why."""
    notes = [note for note in world.events("GUARD_HELD", "watch, rule, job, reason")
             if note[1] == "doubt-holds"]
    assert {note[:3] for note in notes} == {(watch, "doubt-holds", "*")
                                            for watch in ("beating", "aged")}
    for *_, reason in notes:
        assert reason.startswith("held ") and "because the observer itself was away (" in reason


def stay_away(seconds):
    """An outage lasts: only time can do this."""
    end = time.monotonic() + seconds
    eventually(lambda: time.monotonic() >= end)


# ---- the database ----

@pytest.mark.covers("F5", "C14")
def test_nobody_is_condemned_when_the_database_was_stopped_beyond_every_threshold(world):
    crew, daemon = settle_in(world)
    crew.away(True)
    world.db.server.stop(signal.SIGQUIT)
    daemon.wait_log("the database cannot be queried")
    stay_away(STUCK_S + 1)
    world.db.server.start()
    world.db.hang_up()
    sees_silence(world)
    crew.away(False)
    nobody_was_wronged(world, daemon)
    doubt_is_in_the_ledger(world)


@pytest.mark.proof
@pytest.mark.covers("F5")
def test_nobody_is_condemned_after_an_immediate_restart(world):
    _, daemon = settle_in(world)
    world.db.server.stop(signal.SIGQUIT)
    world.db.server.start()
    world.db.hang_up()
    eventually(lambda: daemon.lines("the database is back") or world.status("aged")["doubting"])
    nobody_was_wronged(world, daemon)


def terminate(world):
    """Every session but our own."""
    return world.db.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                        "datname = current_database() AND pid <> pg_backend_pid()")[0][0]


@pytest.mark.covers("F5")
def test_nobody_is_condemned_when_all_sessions_were_killed(world):
    """Including the daemon's: only that tells it, because the server's start time is the same."""
    _, daemon = settle_in(world)
    assert terminate(world) >= 21
    world.wait_status("aged", doubting=True)
    nobody_was_wronged(world, daemon)


@pytest.fixture
def pair():
    """A primary and its streaming standby."""
    with contextlib.ExitStack() as stack:
        primary = PgServer(settings={"max_connections": "250", "synchronous_commit": "on"})
        stack.callback(primary.remove)
        primary.start()
        standby = PgServer(settings={"max_connections": "250"}, standby_of=primary)
        stack.callback(standby.remove)
        yield primary, standby.start()


def both(primary, standby, name):
    return (f"postgres://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/{name}"
            "?target_session_attrs=read-write&connect_timeout=5")


def caught_up(primary, standby):
    """What the primary has at this moment is on the standby."""
    with contextlib.closing(primary.connect()) as session, session.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn()")
        at = cursor.fetchone()[0]
    with contextlib.closing(standby.connect()) as session, session.cursor() as cursor:
        def replayed():
            cursor.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (at,))
            return cursor.fetchone()[0]
        eventually(replayed)


@pytest.mark.proof
@pytest.mark.covers("F5")
def test_nobody_is_condemned_after_a_promotion(pair, defib):
    """The old primary is gone at once, the standby is promoted later than every threshold."""
    primary, standby = pair
    db = PgDatabase(primary)
    make_jobs(db, JOBS)
    world = World(defib, db, url=both(primary, standby, db.name))
    try:
        crew, daemon = settle_in(world)
        caught_up(primary, standby)
        crew.away(True)
        primary.kill()
        daemon.wait_log("the database cannot be queried")
        stay_away(STUCK_S + 1)
        standby.promote()
        db.hang_up()
        db.server = standby
        sees_silence(world)
        crew.away(False)
        nobody_was_wronged(world, daemon)
    finally:
        world.close()


@pytest.mark.covers("F5")
def test_what_was_stuck_before_the_outage_is_freed_at_once_after_it(world):
    """Its deadline passed while all could still be heard; doubt does not excuse it."""
    dead = world.work(count=1)
    daemon = world.daemon(config(world.url, AGED, guard="{pace: 0}"), "--no-queue")
    daemon.wait_passes("aged", 2)
    dead.signal(signal.SIGKILL)
    # Paused by a person: past its deadline, and not yet freed.
    world.db.sql("INSERT INTO defib.setting (watch, name, value, actor) "
                 "VALUES ('aged', 'pause', 'yes', 'a test')")
    eventually(lambda: world.status("aged")["guarded"]["paused"] == 50)
    world.db.server.stop(signal.SIGQUIT)
    daemon.wait_log("the database cannot be queried")
    world.db.server.start()
    world.db.hang_up()
    world.db.sql("DELETE FROM defib.setting")

    def freed():
        assert world.status("aged")["guarded"]["doubt"] == 0
        return len(world.events("REQUEUED")) == 50
    eventually(freed)
    assert len(set(world.events("REQUEUED"))) == 50
    assert daemon.stop() == 0


@pytest.mark.proof
@pytest.mark.covers("F5")
@pytest.mark.parametrize("when", ["before", "after"])
def test_nobody_is_condemned_by_a_daemon_that_first_leads_after_an_outage(world, when):
    """Started before the outage or after it, it has seen no worker alive, and still knows."""
    crew, daemon = settle_in(world)
    other = world.daemon() if when == "before" else None
    crew.away(True)
    world.db.server.stop(signal.SIGQUIT)
    daemon.kill()
    stay_away(STUCK_S + 1)
    world.db.server.start()
    world.db.hang_up()
    other = other or world.daemon()
    for watch in ("beating", "aged"):
        other.wait_passes(watch)
    assert world.events("REQUEUED") == []
    crew.away(False)
    nobody_was_wronged(world, other)


# ---- the daemon itself ----

@pytest.mark.covers("F5", "C14")
def test_a_daemon_that_was_stopped_condemns_nobody(world):
    """It was stopped for longer than the threshold, and so were the workers: there were no beats.
    """
    crew, daemon = settle_in(world)
    daemon.signal(signal.SIGSTOP)
    crew.signal(signal.SIGSTOP)
    stay_away(STUCK_S + 1)
    daemon.signal(signal.SIGCONT)
    sees_silence(world)
    crew.signal(signal.SIGCONT)
    nobody_was_wronged(world, daemon)


def clock_off(minutes):
    """An environment in which a process's wall clock is off, and its monotonic one is not."""
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{minutes:+d}m", "TZ": "UTC",
            "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.mark.covers("C14")
@pytest.mark.proof
@pytest.mark.parametrize("minutes", [10, -10])
def test_a_clock_that_is_ten_minutes_off_condemns_nobody(world, minutes):
    """A worker's and the daemon's, in opposite directions: only the database's clock counts."""
    if not FAKETIME.exists():
        pytest.skip("libfaketime is not installed")
    world.work(count=19)
    world.work(count=1, env=clock_off(-minutes))
    daemon = world.daemon(env=clock_off(minutes))
    off = abs(time.time() - world_time(daemon))
    assert 590 < off < 610, "the daemon's clock is not off"
    for watch in ("beating", "aged"):
        daemon.wait_passes(watch, 4)
    nobody_was_wronged(world, daemon)


def world_time(daemon):
    """Of the last line that the daemon wrote, by its own clock."""
    stamp = daemon.log.splitlines()[-1].split("ts=")[1].split(".")[0]
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")) - time.timezone


# ---- the built-in queue ----

class HandsFull:
    """Workers of the built-in queue whose jobs run until they are told to end."""

    def __init__(self, program, db, workers, each):
        self.queue = Queue(program, db)
        self.jobs = workers * each
        self.dir = program.dir
        os.mkfifo(self.dir / "gate")
        self.queue.bulk(self.jobs)
        for i in range(workers):
            self.queue.work("--lease", f"{QUEUE_LEASE_S}s", "--name", f"w{i}", "--concurrency",
                            each, "--spool", self.dir / "spool", run=WAIT, wait=False)
        for worker in self.queue.workers:
            worker.wait_log("worker started")
        eventually(lambda: self.running() == self.jobs)

    def running(self):
        return len(self.queue.all("id", "state = 'running'"))

    def heard(self):
        """Workers whose lease is in force."""
        return self.queue.db.sql("SELECT count(*) FROM defib.worker WHERE state = 'alive' "
                                 "AND expires_at > clock_timestamp()")[0][0]

    def let_go(self):
        (self.dir / "go").touch()
        # A process that waits to open it wakes up, sees that it may continue, and ends.
        os.close(os.open(self.dir / "gate", os.O_RDWR | os.O_NONBLOCK))

    def all_done_once(self):
        self.let_go()
        eventually(lambda: len(self.queue.all("id", "state = 'done'")) == self.jobs, 120)
        assert self.queue.all("id", "epoch <> 1 OR attempts <> 1 OR crashes <> 0") == []
        for event in ("REQUEUED", "LATE_COMPLETION"):
            assert self.queue.ledger(event) == []


def outlive_an_outage(own_server, defib, workers, each):
    """The server is away for longer than the leases and the daemon's slack together."""
    db = PgDatabase(own_server)
    hands = HandsFull(defib, db, workers, each)
    world = World(defib, db)
    try:
        daemon = world.daemon(f"databases:\n  - name: main\n    url: {db.url}\n")
        daemon.wait_passes("queue", 2)
        own_server.stop(signal.SIGQUIT)
        daemon.wait_log("the database cannot be queried")
        stay_away(QUEUE_LEASE_S + QUEUE_SLACK_S + 1)
        own_server.start()
        db.hang_up()
        eventually(lambda: hands.heard() == workers)
        daemon.wait_passes("queue", 3)
        assert hands.queue.worker_rows("state") == [("alive",)] * workers
        hands.all_done_once()
        assert daemon.stop() == 0
    finally:
        world.close()
        hands.let_go()
        hands.queue.close()
        db.drop()


@pytest.mark.proof
@pytest.mark.covers("F5")
def test_the_queues_own_workers_outlive_an_outage_beyond_their_leases(own_server, defib):
    outlive_an_outage(own_server, defib, workers=5, each=4)


@pytest.mark.proof
@pytest.mark.covers("F5")
def test_twenty_workers_with_2000_jobs_outlive_an_outage(own_server, defib):
    outlive_an_outage(own_server, defib, workers=20, each=100)
