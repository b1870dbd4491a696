# SPDX-License-Identifier: Apache-2.0
"""Mass silence: when most beating workers fall silent at once, the daemon waits, reports that, and
releases by itself; deaths that were seen, and the silence of a few, are not held."""

import contextlib
import signal
import time

import pytest

from harness.daemon import BEATING, World, config, make_jobs
from harness.proxy import Cable
from harness.waiting import NotYet, eventually

BEAT_S, STUCK_S, CEILING_S = 1, 3, 6
BOUND_S = 30  # for a slow machine; the ceiling itself is asserted from below
ROWS = 100


@pytest.fixture
def cable(pg):
    with contextlib.closing(Cable(pg.server.port)) as own:
        yield own


@pytest.fixture
def world(pg, defib, with_tables):
    own = World(defib, pg)
    yield own
    own.close()


def watched(world, guard, *crews):
    """Crews at work, as (count, url), and a daemon that saw them beat."""
    make_jobs(world.db, ROWS * sum(count for count, _ in crews), lanes=["beating"])
    made = [world.work(count=count, rows=ROWS, url=url) for count, url in crews]
    text = config(world.url, BEATING, beat=BEAT_S, stuck=STUCK_S, guard=guard)
    daemon = world.daemon(text, "--no-queue")
    daemon.wait_passes("beating", 3)
    return *made, daemon


def ceiling(value):
    return f"{{brake_ceiling: {value}, pace: 0}}"


def brake_notes(world):
    """Of the brake alone: a machine that stood still makes the daemon doubt as well."""
    notes = world.events("GUARD_HELD", "rule, reason, job, actor")
    return [note for note in notes if note[0].startswith("brake-")]


def freed_s(world):
    """From the brake's first note in the ledger to the first and to the last recovery."""
    return tuple(map(float, world.db.sql(
        "SELECT extract(epoch FROM min(r.at) - b.at), extract(epoch FROM max(r.at) - b.at) "
        "FROM defib.ledger r, (SELECT min(at) AS at FROM defib.ledger WHERE rule = 'brake-holds') b"
        " WHERE r.event = 'REQUEUED' GROUP BY b.at")[0]))


@pytest.mark.covers("F6")
@pytest.mark.parametrize("how", ["stopped", pytest.param("cut off", marks=pytest.mark.proof)])
def test_all_fell_silent_the_brake_holds_and_lets_go_at_its_ceiling(world, cable, how):
    url = cable.url(world.db) if how == "cut off" else None
    crew, daemon = watched(world, ceiling(f"{CEILING_S}s"), (20, url))
    crew.signal(signal.SIGSTOP) if how == "stopped" else cable.cut()

    # The brake may hold before the last of them counts as silent.
    def all_silent():
        status = world.status("beating")
        return "20 of 20 owners fell silent within 3s" in status.get("guard", "") and status
    status = eventually(all_silent)
    assert "brake_until" in status and status["recovered_total"] == 0
    held, = daemon.lines("the brake holds", watch="beating")
    assert "at the latest" in held["because"]

    everything = [str(i) for i in range(1, 20 * ROWS + 1)]
    eventually(lambda: len(world.events("REQUEUED")) == len(everything), CEILING_S + BOUND_S)
    assert sorted(world.events("REQUEUED"), key=int) == everything
    first, last = freed_s(world)
    assert first >= CEILING_S - 1, "freed before the ceiling"
    assert last <= CEILING_S + BOUND_S
    world.wait_status("beating", braking=False, found=0)
    (holds, why, job, actor), (lets_go, ended, _, _) = brake_notes(world)
    assert (holds, job, actor, lets_go) == ("brake-holds", "*", "daemon", "brake-lets-go")
    assert " of 20 owners" in why and ended == "the brake was released: ceiling"
    assert daemon.stop() == 0


@pytest.mark.proof
@pytest.mark.covers("F6", "C14")
def test_who_was_cut_off_and_returns_was_never_freed(world, cable):
    _, daemon = watched(world, ceiling("10m"), (20, cable.url(world.db)))
    cable.cut()
    world.wait_status("beating", braking=True)
    eventually(lambda: world.status("beating")["guarded"]["brake"] == 20 * ROWS)
    daemon.wait_passes("beating", 3)
    cable.mend()
    world.wait_status("beating", braking=False, found=0)
    daemon.wait_passes("beating", 2)
    assert [rule for rule, *_ in brake_notes(world)] == ["brake-holds", "brake-lets-go"]
    assert brake_notes(world)[1][1] == "the brake lets go: returned"
    assert world.events("REQUEUED") == []
    world.all_done_once()
    assert daemon.stop() == 0


@pytest.mark.covers("F6")
def test_the_brake_outlives_the_leader(world, cable):
    """Who takes over has seen them beat as well: a leader's death frees nobody."""
    _, daemon = watched(world, ceiling("10m"), (20, cable.url(world.db)))
    text = config(world.url, BEATING, beat=BEAT_S, stuck=STUCK_S, guard=ceiling("10m"))
    follower = world.daemon(text, "--no-queue")
    # What the follower sees of them while they beat is not told: it looks once a beat.
    end = time.monotonic() + 2 * BEAT_S
    eventually(lambda: time.monotonic() >= end)
    cable.cut()
    world.wait_status("beating", braking=True)
    daemon.kill()
    follower.wait_passes("beating", 4)
    world.wait_status("beating", braking=True, holder=follower.name)
    assert world.events("REQUEUED") == []
    cable.mend()
    world.wait_status("beating", braking=False, found=0)
    assert world.events("REQUEUED") == []
    world.all_done_once()
    assert follower.stop() == 0


@pytest.mark.proof
def test_with_the_guard_off_the_same_silence_is_freed(world, cable):
    """It is the brake that held them, nothing else."""
    _, daemon = watched(world, "off", (20, cable.url(world.db)))
    cable.cut()
    eventually(lambda: len(world.events("REQUEUED")) == 20 * ROWS)
    assert brake_notes(world) == []
    assert world.status("beating")["brakes"] == 0
    assert daemon.stop() == 0


@pytest.mark.covers("F6")
def test_two_of_twenty_that_fall_silent_are_freed_within_their_lease(world):
    _, daemon = watched(world, ceiling("10m"), (20, None))
    crew = world.beaters[0]
    crew.signal(signal.SIGSTOP, crew.pids[:2])
    silent = [f"{crew.name}0", f"{crew.name}1"]
    theirs = sorted(str(i) for i, in world.db.sql("SELECT id FROM jobs WHERE owner = ANY(%s)",
                                                  silent))
    eventually(lambda: len(world.events("REQUEUED")) == 2 * ROWS, STUCK_S + BOUND_S)
    assert sorted(world.events("REQUEUED")) == theirs
    # Two looks, one beat apart, after the threshold.
    waits = world.db.sql("SELECT min(s), max(s) FROM (SELECT extract(epoch FROM at) - extract("
                         "epoch FROM (evidence->>'alive_at')::timestamptz) AS s FROM defib.ledger "
                         "WHERE event = 'REQUEUED') AS w")
    assert STUCK_S + BEAT_S - 1 <= float(waits[0][0]) <= float(waits[0][1]) <= STUCK_S + BOUND_S
    assert brake_notes(world) == [] and world.status("beating")["brakes"] == 0
    assert world.count("status = 'running'") == 18 * ROWS
    assert daemon.stop() == 0


@pytest.mark.proof
def test_a_second_mass_event_is_held_again(world):
    """The brake does not latch: it held, let go, and holds for the next one."""
    crew, daemon = watched(world, ceiling("10m"), (5, None))
    for n in (1, 2):
        crew.signal(signal.SIGSTOP)
        world.wait_status("beating", braking=True, brakes=n)
        crew.signal(signal.SIGCONT)
        world.wait_status("beating", braking=False, brakes=n, found=0)
    assert [rule for rule, *_ in brake_notes(world)] == ["brake-holds", "brake-lets-go"] * 2
    assert world.events("REQUEUED") == []
    world.all_done_once()
    assert daemon.stop() == 0


# ---- the built-in queue ----

@pytest.mark.proof
@pytest.mark.covers("F6")
def test_the_queues_own_workers_meet_the_brake_too(pg_queue, world):
    """All stand still and no fellow is left: the daemon holds, until they are back."""
    queue, n = pg_queue, 6
    queue.bulk(n * 2)
    for i in range(n):
        queue.work("--lease", "2s", "--name", f"w{i}", "--concurrency", "2",
                   run="await go", wait=False)
    eventually(lambda: len(queue.all("id", "state = 'running'")) == n * 2)
    daemon = world.daemon(f"databases:\n  - name: main\n    url: {queue.db.url}\n")
    daemon.wait_passes("queue", 3)
    for worker in queue.workers:
        worker.signal(signal.SIGSTOP)
    world.wait_status("queue", braking=True)
    eventually(lambda: world.status("queue")["guarded"]["brake"] == n * 2)
    for worker in queue.workers:
        worker.signal(signal.SIGCONT)
    world.wait_status("queue", braking=False, found=0)
    (queue.program.dir / "go").touch()
    eventually(lambda: len(queue.all("id", "state = 'done' AND epoch = 1")) == n * 2)
    assert queue.ledger("REQUEUED") == []
    assert daemon.stop() == 0


@pytest.mark.covers("F6")
def test_all_workers_of_a_host_are_killed_and_their_jobs_freed_at_once(pg_queue, world):
    """Their exits are seen by one that lives on: no lease is waited for, no brake holds."""
    queue, n = pg_queue, 10
    queue.bulk(n * 4)
    for i in range(n):
        queue.work("--lease", "10m", "--name", f"w{i}", "--concurrency", "4",
                   run='[ "$DEFIB_EPOCH" -gt 1 ] || exec sleep 600', wait=False)
    eventually(lambda: len(queue.all("id", "state = 'running'")) == n * 4)
    killed = list(queue.workers)
    queue.work("--lease", "10m", "--name", "survivor", "--concurrency", "8",
               run='[ "$DEFIB_EPOCH" -gt 1 ]')
    daemon = world.daemon(f"databases:\n  - name: main\n    url: {queue.db.url}\n")
    daemon.wait_passes("queue", 2)
    # Stopped first: one that still lives could take what the others leave, and be killed with it.
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for worker in killed:
            worker.signal(sign)

    def all_done():
        others = queue.all("id, state, epoch, owner", "state <> 'done' OR epoch <> 2")
        return not others or NotYet(others)
    eventually(all_done)
    assert sorted(job for job, _, _ in queue.ledger("REQUEUED")) == [i for i, in queue.all("id")]
    assert brake_notes(world) == []
    assert queue.db.sql("SELECT cause, count(*) FROM defib.worker WHERE state = 'dead' "
                        "GROUP BY 1") == [("exit seen", n)]
    assert daemon.stop() == 0
