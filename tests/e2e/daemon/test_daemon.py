# SPDX-License-Identifier: Apache-2.0
"""`defib daemon`: one of several leads each watch, passes neither overlap nor pile up, a database
that is down stops no other, and the service manager is notified of progress.
"""

import contextlib
import datetime
import os
import signal
import time

import pytest

from harness.daemon import AGED, SLOW_WRITE, Manager, World, config, make_jobs
from harness.queue_workers import Wire
from harness.waiting import eventually, patience

TAKE_OVER_S = 20  # for a slow machine; bench/takeover has the figure
EVERY_S = 0.6


@pytest.fixture
def world(pg, defib):
    own = World(defib, pg)
    yield own
    own.close()


def stuck_rows(world, n, owner="gone"):
    """Rows that have been silent for an hour, all of the age-only watch."""
    make_jobs(world.db, n, lanes=["aged"])
    world.db.sql("UPDATE jobs SET status = 'running', owner = %s, "
                 "beat_at = now() - interval '1 hour' - id * interval '1 microsecond'", owner)


def aged(world, guard="{pace: 0}", **more):
    return config(world.url, AGED, guard=guard, **more)


def leader(world, watch):
    """The daemon that has the lease, or None: also while the tables do not exist."""
    if not world.db.sql("SELECT to_regclass('defib.leader')")[0][0]:
        return None
    rows = world.db.sql("SELECT holder FROM defib.leader WHERE watch = %s AND holder IN (SELECT "
                        "holder FROM defib.leader WHERE expires_at > clock_timestamp())", watch)
    return next((d for d in world.daemons if rows and d.name == rows[0][0]), None)


def wait_idle(world, n):
    """So many daemons have a session and were answered."""
    eventually(lambda: world.db.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = "
                                    "current_database() AND state = 'idle' AND query <> '' "
                                    "AND pid <> pg_backend_pid()")[0][0] >= n)


def two_daemons(world, text):
    """The one that leads and the one that does not, both up."""
    first = world.daemon(text, "--no-queue")
    first.wait_passes("aged", 1)
    second = world.daemon(text, "--no-queue")
    wait_idle(world, 2)
    assert leader(world, "aged") is first
    return first, second


def stamp(line):
    return datetime.datetime.fromisoformat(line["ts"].replace("Z", "+00:00")).timestamp()


def spans(daemons, watch):
    """When each pass began and ended, by the log, in the order of time."""
    return sorted((stamp(line) - int(line["took_ms"]) / 1000, stamp(line))
                  for d in daemons for line in d.passes(watch))


def freed_once(world, n):
    assert world.db.sql("SELECT count(*), count(DISTINCT job) FROM defib.ledger WHERE "
                        "event = 'REQUEUED'") == [(n, n)]
    assert world.count("status = 'queued'") == n


# ---- several daemons ----

@pytest.mark.covers("F13", "A5")
def test_of_two_daemons_one_leads_a_watch_and_the_other_only_waits(world):
    make_jobs(world.db, 2)
    daemons = [world.daemon(config(world.url), "--no-queue") for _ in range(2)]
    wait_idle(world, 2)
    for watch in ("beating", "aged"):
        lead = eventually(lambda watch=watch: leader(world, watch))
        lead.wait_passes(watch, 4)
        other, = [d for d in daemons if d is not lead]
        assert other.passes(watch) == []
    for daemon in daemons:
        assert daemon.stop() == 0


@pytest.mark.covers("F13")
def test_a_daemon_that_ends_in_order_hands_over_at_once(world):
    """Without waiting for its lease: it released it."""
    make_jobs(world.db, 2)
    first, second = two_daemons(world, aged(world))
    assert first.stop() == 0
    assert leader(world, "aged") in (None, second)
    second.wait_log("leads the watch", TAKE_OVER_S)
    second.wait_passes("aged", 1)
    assert second.stop() == 0


@pytest.mark.covers("F13", "A5")
@pytest.mark.parametrize("how", [
    pytest.param(signal.SIGKILL, id="killed"),
    pytest.param(signal.SIGSTOP, id="stopped", marks=pytest.mark.proof)])
def test_another_takes_over_from_a_leader_that_is(world, how):
    make_jobs(world.db, 100)
    first, second = two_daemons(world, aged(world))
    epoch = world.db.sql("SELECT epoch FROM defib.leader")[0][0]
    first.signal(how)
    second.wait_log("leads the watch", TAKE_OVER_S)
    second.wait_passes("aged", 2)
    assert world.db.sql("SELECT holder, epoch FROM defib.leader") == [(second.name, epoch + 1)]
    if how == signal.SIGSTOP:
        first.signal(signal.SIGCONT)
        first.wait_log("another daemon leads the watch")
        had = len(first.passes("aged"))
        second.wait_passes("aged", 3)
        assert len(first.passes("aged")) == had
    both = spans(world.daemons, "aged")
    for (_, end), (begin, _) in zip(both, both[1:]):
        assert end <= begin + 0.002, "passes of one watch overlap"
    assert second.stop() == 0


def freed_by(world, daemon_pass):
    """How many a pass freed: its batches in the ledger have one name."""
    return world.db.sql("SELECT count(*) FROM defib.ledger WHERE event = 'REQUEUED' "
                        "AND batch LIKE %s || '%%'", daemon_pass)[0][0]


@pytest.mark.covers("F13", "A5")
def test_nothing_is_freed_twice_when_a_leader_is_stopped_in_the_middle_of_a_pass(world):
    """It continues and believes that it leads: its current batch is guarded, and is its last."""
    n, batch = 1000, 50
    stuck_rows(world, n)
    world.db.sql(SLOW_WRITE)
    text = aged(world).replace("    every:", f"    batch: {batch}\n    every:")
    first = world.daemon(text, "--no-queue")
    eventually(lambda: 0 < world.count("status = 'queued'") < n / 4)
    first.signal(signal.SIGSTOP)
    name = world.db.sql("SELECT max(batch) FROM defib.ledger WHERE event = 'REQUEUED'")[0][0]
    name = name.rpartition(".")[0] or name
    had = freed_by(world, name)
    second = world.daemon(text, "--no-queue")
    # Some rows may be locked by what the stopped one has open.
    eventually(lambda: world.count("status = 'queued'") >= had + batch)
    assert world.count("status = 'queued'") < n, "too late: nothing is left to do twice"
    first.signal(signal.SIGCONT)
    eventually(lambda: world.count("status = 'queued'") == n)
    first.wait_log("another daemon leads the watch")
    # On a busy machine the lead may move once more.
    had_passes = len(first.passes("aged")) + len(second.passes("aged"))
    eventually(lambda: len(first.passes("aged")) + len(second.passes("aged")) >= had_passes + 2)
    freed_once(world, n)
    assert freed_by(world, name) <= had + 2 * batch, "its pass went on, though another led"
    assert second.stop() == 0
    assert first.stop() == 0


@pytest.mark.covers("A5")
def test_passes_that_were_missed_become_one(world):
    make_jobs(world.db, 10)
    daemon = world.daemon(aged(world, every=f"{EVERY_S * 1000:.0f}ms"), "--no-queue")
    daemon.wait_passes("aged", 2)
    had = len(daemon.passes("aged"))
    daemon.signal(signal.SIGSTOP)
    end = time.monotonic() + 5 * EVERY_S
    eventually(lambda: time.monotonic() >= end)
    daemon.signal(signal.SIGCONT)
    daemon.wait_passes("aged", 3)
    begun = [begin for begin, _ in spans([daemon], "aged")[had:]]
    assert begun[1] - begun[0] >= 0.5 * EVERY_S, "a missed pass was made up for by its own"
    assert begun[2] - begun[1] >= 0.5 * EVERY_S
    assert daemon.stop() == 0


# ---- several databases ----

@pytest.mark.covers("E3")
def test_a_database_that_is_down_does_not_stop_the_others(world):
    stuck_rows(world, 20)
    with contextlib.closing(Wire(world.db.server)) as wire:
        other = AGED.format(stuck=5, every="500ms").replace("name: aged", "name: far\n"
                                                            "    database: far")
        other = other.replace("lane = 'aged'", "lane = 'far'")
        text = aged(world) + other
        text = text.replace("watches:", f"  - name: far\n    url: {wire.url(world.db)}\nwatches:")
        wire.away()
        daemon = world.daemon(text, "--no-queue")
        daemon.wait_log("the database cannot be queried")
        eventually(lambda: world.count("status = 'queued'") == 20)
        daemon.wait_passes("aged", 3)
        assert daemon.passes("far") == []
        wire.back()
        daemon.wait_passes("far", 2)
        wire.away()
        eventually(lambda: len(daemon.lines("the database cannot be queried", database="far")) == 2)
        daemon.wait_passes("aged", 3)
        lost = daemon.lines("the database cannot be queried")
        assert {line["database"] for line in lost} == {"far"}
        assert daemon.stop() == 0


# ---- the service manager ----


@pytest.fixture
def manager(defib):
    with contextlib.closing(Manager(defib.dir / "notify")) as own:
        yield own


def test_a_service_manager_whose_address_is_no_file_is_told(world):
    make_jobs(world.db, 2)
    with contextlib.closing(Manager(f"@defib-{world.db.name}-{os.getpid()}")) as manager:
        world.daemon(aged(world), "--no-queue", env=manager.env())
        assert manager.hear() == "READY=1"


@pytest.mark.covers("F13")
def test_the_service_manager_is_told_of_start_progress_and_end(world, manager):
    make_jobs(world.db, 2)
    daemon = world.daemon(aged(world), "--no-queue", env=manager.env())
    assert manager.hear() == "READY=1"
    for _ in range(3):
        manager.wait("WATCHDOG=1")
    daemon.signal(signal.SIGTERM)
    manager.wait("STOPPING=1")
    assert daemon.wait() == 0


@pytest.mark.covers("F13")
def test_a_database_that_is_down_is_no_reason_to_be_restarted(world, manager):
    """Progress is that of the loop, not of the database: a restart would not help."""
    daemon = world.daemon(config("postgres://postgres@127.0.0.1:1/x", AGED), "--no-queue",
                          env=manager.env())
    daemon.wait_log("the database cannot be queried")
    for _ in range(3):
        manager.wait("WATCHDOG=1")
    assert daemon.stop() == 0


@pytest.mark.proof
@pytest.mark.covers("F13")
def test_the_watchdog_is_no_longer_fed_when_one_database_hangs_the_loop(world, manager):
    """libpq reads a service file that never ends, beyond the reach of our deadlines; the watches of
    the other database continue, and yet the service manager must know."""
    stuck_rows(world, 5)
    pipe = world.program.dir / "service.conf"
    os.mkfifo(pipe)
    text = aged(world).replace("watches:", "  - name: far\n    url: postgres:///?service=far\n"
                               "watches:")
    daemon = world.daemon(text, "--no-queue", env={**manager.env(), "PGSERVICEFILE": str(pipe)})
    manager.wait("WATCHDOG=1")
    eventually(lambda: world.count("status = 'queued'") == 5)

    begun = time.monotonic()
    while manager.hear(10) == "WATCHDOG=1":
        assert time.monotonic() - begun < patience(180), "it is fed forever"
    assert daemon.process.poll() is None
    daemon.wait_passes("aged", 2)
