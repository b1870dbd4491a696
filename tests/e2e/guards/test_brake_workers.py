# SPDX-License-Identifier: Apache-2.0
"""Most workers fall silent at once: the remaining one declares none dead, but not indefinitely."""

import re
import signal

import pytest

from harness.waiting import eventually

SLOW = 'echo $DEFIB_JOB_ID >>began; await go'
WORKERS = 6
HOLDS = "most workers fell silent at once"
RELEASES = "silent workers are declared dead again"


def crew(queue, *options, lease="4s"):
    """Workers that have a job each, and each of which has seen the others beat. Their lease is one
    that no live worker misses on a busy machine."""
    for _ in range(WORKERS):
        queue.enqueue()
    workers = [queue.work("--lease", lease, "--name", f"w{n}", *options, run=SLOW)
               for n in range(WORKERS)]
    eventually(lambda: len(queue.all("id", "state = 'running'")) == WORKERS)
    began = queue.program.dir / "began"
    eventually(lambda: began.exists() and len(began.read_text().split()) == WORKERS)
    return workers


def renewals(queue):
    """How often the first worker has renewed: each time it has read the list, or will."""
    return queue.worker_rows("renewed_at")[0][0]


def let_beat(queue, times):
    """This many beats of the first worker: time in which it could have declared a worker dead."""
    for _ in range(times):
        last = renewals(queue)
        eventually(lambda before=last: renewals(queue) != before)


def states(queue):
    return [state for state, in queue.worker_rows("state")]


def stop(queue, workers):
    for worker in workers:
        queue.db.freeze(worker)


def resume(workers):
    for worker in workers:
        worker.signal(signal.SIGCONT)


@pytest.mark.covers("F6", "C14")
def test_most_workers_that_are_stopped_are_not_declared_dead_and_come_back(queue):
    workers = crew(queue)
    let_beat(queue, 2)
    stop(queue, workers[1:])
    workers[0].wait_log(HOLDS)
    # Beyond the time after which a sweep would take rows of the silent by age.
    let_beat(queue, 9)
    assert states(queue) == ["alive"] * WORKERS
    assert queue.all("epoch", "epoch <> 1 OR crashes <> 0") == []
    resume(workers)
    workers[0].wait_log(RELEASES)
    (queue.program.dir / "go").touch()
    eventually(lambda: len(queue.all("id", "state = 'done'")) == WORKERS)
    assert queue.all("epoch", "epoch <> 1 OR crashes <> 0") == []
    assert states(queue) == ["alive"] * WORKERS
    said = workers[0].log
    # Four are most of them; the fifth may have beaten a little later than these.
    assert said.count(HOLDS) == 1
    assert re.search(f"silent=[45] of={WORKERS} at_the_latest=", said), said
    assert "because=returned" in said


@pytest.mark.covers("F6")
def test_after_the_ceiling_they_are_taken_for_dead_and_their_jobs_run_elsewhere(queue):
    workers = crew(queue, "--brake", "4s")
    let_beat(queue, 2)
    stop(queue, workers[1:])
    workers[0].wait_log(HOLDS)
    assert states(queue) == ["alive"] * WORKERS
    workers[0].wait_log(RELEASES)
    assert "because=ceiling" in workers[0].log
    eventually(lambda: states(queue) == ["alive"] + ["dead"] * 5)
    (queue.program.dir / "go").touch()
    eventually(lambda: len(queue.all("id", "state = 'done'")) == WORKERS)
    # No job is blamed for a mass event.
    assert queue.all("id", "state = 'held'") == []


@pytest.mark.covers("F6")
def test_deaths_that_are_seen_are_not_held(queue):
    workers = crew(queue)
    let_beat(queue, 2)
    stop(queue, workers[1:])
    workers[0].wait_log(HOLDS)
    workers[5].kill()
    eventually(lambda: states(queue)[5] == "dead")
    assert queue.worker_rows("cause")[5][0] == "exit seen"
    eventually(lambda: "job of a lost worker" in workers[0].log)
    assert states(queue)[:5] == ["alive"] * 5
    resume(workers[1:5])


@pytest.mark.covers("F6")
def test_two_that_are_stopped_are_recovered_within_their_lease(queue):
    workers = crew(queue)
    let_beat(queue, 2)
    stop(queue, workers[4:])
    eventually(lambda: states(queue) == ["alive"] * 4 + ["dead"] * 2)
    assert all(HOLDS not in worker.log for worker in workers)


@pytest.mark.covers("F6")
def test_the_brake_can_be_turned_off(queue):
    workers = crew(queue, "--brake", "off")
    let_beat(queue, 2)
    stop(queue, workers[1:])
    dead = {(f"w{n}", "dead") for n in range(1, WORKERS)}
    eventually(lambda: dead <= set(queue.worker_rows("name, state")))
    assert HOLDS not in workers[0].log
