# SPDX-License-Identifier: Apache-2.0
"""How a worker ends: asked to, asked twice, or killed; and the outcome of its jobs."""

import signal

import pytest

from harness.waiting import eventually, running


# Records its pid and its epoch, then runs until it is killed or told to end.
SLOW = ('echo $$ >"pid.$DEFIB_JOB_ID.$DEFIB_EPOCH"; '
        'await go; echo 1 >&3')
DEAF = f"trap '' TERM; {SLOW}"


def pid_of(queue, job, epoch=1):
    path = queue.program.dir / f"pid.{job}.{epoch}"
    eventually(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


@pytest.mark.covers("D4")
def test_term_finishes_what_runs_and_claims_no_more(queue):
    first, second = queue.enqueue(), queue.enqueue()
    worker = queue.work(run=SLOW)
    pid_of(queue, first)
    worker.signal(signal.SIGTERM)
    worker.wait_log("stopping")
    (queue.program.dir / "go").touch()
    assert worker.wait() == 0
    assert (queue.state(first), queue.state(second)) == ("done", "queued")
    assert queue.result(first) == 1


@pytest.mark.covers("D4")
def test_after_the_grace_jobs_are_handed_back_with_the_attempt_returned(queue):
    job = queue.enqueue()
    worker = queue.work("--grace", "300ms", run=SLOW)
    pid = pid_of(queue, job)
    assert worker.stop() == 0
    assert queue.one(job, "state, owner, attempts, crashes, error") == ("queued", None, 0, 0, None)
    eventually(lambda: not running(pid))


@pytest.mark.covers("D4")
def test_a_second_term_hands_back_at_once(queue):
    job = queue.enqueue()
    worker = queue.work("--grace", "10m", run="trap 'exit 1' TERM; " + SLOW)
    pid_of(queue, job)
    worker.signal(signal.SIGTERM)
    worker.wait_log("stopping")
    assert worker.stop() == 0
    assert queue.one(job, "state, attempts") == ("queued", 0)


@pytest.mark.covers("D4")
def test_a_job_that_ignores_term_is_killed_at_the_second_one(queue):
    job = queue.enqueue()
    worker = queue.work("--grace", "500ms", run=DEAF)
    pid = pid_of(queue, job)
    worker.signal(signal.SIGTERM)
    worker.wait_log("stopping")
    assert worker.stop() == 0
    assert queue.one(job, "state, attempts") == ("queued", 0)
    eventually(lambda: not running(pid))


def test_an_interrupt_from_the_terminal_is_a_stop_too(queue):
    worker = queue.work()
    worker.signal(signal.SIGINT)
    assert worker.wait() == 0


def test_a_worker_that_left_is_not_taken_for_dead(queue):
    worker = queue.work("--name", "anna")
    assert worker.stop() == 0
    assert queue.worker_rows("name, state, cause") == [("anna", "left", None)]


def test_a_job_handed_back_runs_on_the_next_worker(queue):
    job = queue.enqueue()
    worker = queue.work("--grace", "300ms", run=SLOW)
    pid_of(queue, job)
    assert worker.stop() == 0
    queue.drain()
    assert queue.one(job, "state, epoch, attempts") == ("done", 2, 1)


def test_nothing_is_left_running_after_a_stop(queue):
    """Neither the job, nor what it started, nor the process that watches over them."""
    job = queue.enqueue()
    script = f"sleep 600 & echo $! >deep; {DEAF}"
    worker = queue.work("--grace", "300ms", run=script)
    pid = pid_of(queue, job)
    helpers = worker.children()
    assert pid in helpers
    deep = int((queue.program.dir / "deep").read_text())
    assert worker.stop() == 0
    eventually(lambda: not any(running(p) for p in [*helpers, deep]))


@pytest.mark.covers("F16")
def test_children_and_grandchildren_do_not_outlive_a_killed_worker(queue):
    job = queue.enqueue()
    worker = queue.work(run=f"(trap '' TERM HUP; exec sleep 600) & echo $! >deep; {DEAF}")
    pid = pid_of(queue, job)
    deep = int((queue.program.dir / "deep").read_text())
    helpers = worker.children()
    worker.kill()
    eventually(lambda: not any(running(p) for p in [pid, deep, *helpers]))


@pytest.mark.covers("F16")
def test_a_recovered_job_does_not_run_beside_its_old_child(queue):
    """The second run looks whether the first is still there."""
    job = queue.enqueue()
    first = queue.work(run=DEAF)
    old = pid_of(queue, job)
    queue.work(run=f"[ -d /proc/{old} ] && ! grep -q Z /proc/{old}/stat && echo true >&3; exit 0")
    first.kill()
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch") == 2
    assert queue.result(job) is None


@pytest.mark.covers("F2")
def test_a_fellow_sees_the_exit_long_before_the_lease_is_over(queue):
    """No daemon, a lease of an hour: the exit itself is the evidence."""
    job = queue.enqueue()
    first = queue.work("--lease", "1h", run=DEAF)
    pid_of(queue, job)
    queue.work("--lease", "1h", "--poll", "10m")
    # Its fellows are known to a worker once it has read the list of workers.
    first.kill()
    queue.wait_state(job, "done")
    assert queue.worker_rows("state, cause")[0] == ("dead", "exit seen")
    recovered = queue.ledger("REQUEUED")
    assert [j for j, _, _ in recovered] == [job]


def test_time_to_recover_counts_from_the_exit_and_never_from_the_end_of_the_lease(queue):
    """It was counted from the lease's end, an hour ahead: a negative time to recover."""
    job = queue.enqueue()
    first = queue.work("--lease", "1h", run=DEAF)
    pid_of(queue, job)
    queue.work("--lease", "1h", "--poll", "10m")
    first.kill()
    queue.wait_state(job, "done")
    ran = queue.program("report", "queue", "--format", "json", db=queue.db)
    times = ran.json["watches"][0]["time_to_recover"]
    assert times["n"] == 1 and 0 <= times["median_s"] == times["longest_s"] < 60, times
    told = queue.program("report", "queue", db=queue.db).out
    assert "time to recover" in told and "-" not in told.split("median", 1)[1].split(",")[0], told


@pytest.mark.covers("D5")
def test_the_next_worker_recovers_what_a_killed_one_left(queue):
    """No process watched; the next worker finds it."""
    job = queue.enqueue()
    worker = queue.work(run=DEAF)
    pid_of(queue, job)
    worker.kill()
    assert queue.state(job) == "running"
    queue.work()
    queue.wait_state(job, "done")


def test_a_killed_worker_costs_its_jobs_an_attempt(queue):
    """At the maximum the job is failed, with the loss of its worker as the cause."""
    job = queue.enqueue("--max-attempts", "1")
    worker = queue.work(run=DEAF)
    pid_of(queue, job)
    queue.work("--queue", "idle")
    worker.kill()
    queue.wait_state(job, "failed")
    assert queue.one(job, "attempts, crashes, cause") == (1, 1, "lost")


@pytest.mark.covers("D8")
def test_workers_side_by_side_never_run_an_epoch_twice(queue):
    queue.bulk(400)
    script = 'echo "$DEFIB_JOB_ID $DEFIB_EPOCH" >>"ran.$DEFIB_WORKER"'
    workers = [queue.work("--concurrency", "4", "--drain", run=script, wait=False)
               for _ in range(4)]
    assert [w.wait() for w in workers] == [0] * 4
    ran = [tuple(line.split()) for path in queue.program.dir.glob("ran.*")
           for line in path.read_text().splitlines()]
    # A job that was claimed ahead and released unstarted ran in a later epoch, once.
    assert len(ran) == len({job for job, _ in ran}) == 400
    assert not queue.all("id", "state <> 'done' OR attempts <> 1")
    assert sorted((str(job), str(epoch)) for job, epoch in queue.all("id, epoch")) == sorted(ran)


def test_two_workers_of_one_name_do_not_share_a_spool(queue):
    first, second = queue.work("--name", "anna"), queue.work("--name", "anna")
    assert [name for name, in queue.worker_rows("name")] == ["anna", "anna-2"]
    assert (first.stop(), second.stop()) == (0, 0)


def test_a_worker_that_cannot_have_its_database_says_so_and_ends(defib):
    ran = defib("work", "--db", "postgres://postgres@127.0.0.1:1/x", "--", "true")
    assert ran.code == 4
    assert ran.err.count("\n") <= 2


def test_wrong_usage_of_work(defib, db):
    for args, says in ((["--concurrency", "0", "--", "true"], "--concurrency"),
                       (["--lease", "1ms", "--", "true"], "--lease"), ([], "needs a program")):
        ran = defib("work", "--db", db.url, *args)
        assert ran.code == 2 and says in ran.err, ran


OPEN_DESCRIPTORS = """
import json, os
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
os.write(3, json.dumps([fd for fd in range(1024) if is_open(fd)]).encode())
"""


def test_a_worker_leaves_no_other_descriptor_open_in_its_children(queue):
    job = queue.enqueue()
    queue.drain(program=["/usr/bin/python3", "-c", OPEN_DESCRIPTORS])
    assert queue.result(job) == [0, 1, 2, 3, 4]
