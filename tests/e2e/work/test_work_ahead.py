# SPDX-License-Identifier: Apache-2.0
"""A worker with short programs claims a few jobs before it has a slot for them."""

from harness.waiting import eventually

SHORT = 40


def test_with_one_place_programs_run_one_at_a_time_and_in_order(queue):
    queue.bulk(SHORT)
    queue.drain(run='mkdir busy || touch two; echo "$DEFIB_JOB_ID" >>out; rmdir busy')
    ran = [int(line) for line in (queue.program.dir / "out").read_text().split()]
    assert not (queue.program.dir / "two").exists()
    assert ran == sorted(ran) and len(ran) == SHORT
    assert len(queue.all("id", "state = 'done' AND attempts = 1")) == SHORT


def test_what_waits_behind_a_long_program_is_left_to_other_workers(queue):
    queue.bulk(SHORT)
    slow = queue.enqueue()
    behind = [queue.enqueue("--max-attempts", "1") for _ in range(3)]
    script = (f'[ "$DEFIB_JOB_ID" != {slow} ] || '
              "{ touch slow; await go; }")
    queue.work("--name", "anna", run=script)
    eventually((queue.program.dir / "slow").exists)
    queue.work("--name", "ben", run=script)
    eventually(lambda: all(queue.state(job) == "done" for job in behind))
    assert queue.state(slow) == "running"
    assert [queue.one(job, "attempts, error") for job in behind] == [(1, None)] * 3
    (queue.program.dir / "go").touch()
    queue.wait_state(slow, "done")


def test_a_stop_hands_back_what_was_claimed_ahead(queue):
    queue.bulk(SHORT)
    slow = queue.enqueue()
    behind = [queue.enqueue("--max-attempts", "1") for _ in range(3)]
    worker = queue.work("--grace", "1m", run=f'[ "$DEFIB_JOB_ID" != {slow} ] || '
                        "{ touch slow; await go; }")
    eventually((queue.program.dir / "slow").exists)
    worker.signal(15)
    eventually(lambda: all(queue.state(job) == "queued" for job in behind))
    assert queue.state(slow) == "running"
    (queue.program.dir / "go").touch()
    assert worker.wait() == 0
    assert queue.state(slow) == "done"
    assert [queue.one(job, "attempts") for job in behind] == [0] * 3
