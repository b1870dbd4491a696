# SPDX-License-Identifier: Apache-2.0
"""OctoLab (D): labs are torn down in order, a few per tick, and never twice at once."""

import json
import signal

import pytest

from harness.table_workers import TableWorkers
from harness.waiting import eventually, running

OWNER = "7c9e6679-7425-40de-944b-e07fc1abc123"
# Records that it began, then runs until the test lets it end.
SLOW = 'echo "$$" >>began; await go; echo "$DEFIB_JOB_ID" >>torn'


@pytest.fixture
def octolab(db, defib, with_tables):
    own = TableWorkers("octolab", db, defib)
    yield own
    own.close()


def add_lab(octolab, minutes=1, origin="user", status="ending"):
    octolab.insert("labs", owner_id=OWNER, status=status, origin=origin,
                   updated_at=octolab.ago(minutes * 60))


def labs(octolab):
    """Ids in the order in which they were told to end."""
    return [str(key) for key, in octolab.rows("SELECT id FROM labs ORDER BY updated_at")]


def states(octolab):
    return sorted(status for status, in octolab.rows("SELECT status FROM labs"))


@pytest.mark.covers("D2", "D13")
def test_labs_are_torn_down_oldest_first_a_user_s_before_automatic_ones(octolab):
    for minutes, origin in ((9, "cleanup"), (8, "user"), (7, "cleanup"), (6, "user")):
        add_lab(octolab, minutes, origin)
    add_lab(octolab, 99, status="running")
    _, first, second, third, fourth = labs(octolab)
    octolab.drain("labs", "--poll", "100ms", run='echo "$DEFIB_JOB_ID" >>order')
    assert octolab.lines("order") == [second, fourth, first, third]
    assert states(octolab) == ["finished"] * 4 + ["running"]


@pytest.mark.covers("D3")
def test_a_lab_that_was_torn_down_is_finished_at_a_time(octolab):
    add_lab(octolab)
    before = octolab.row("labs", ["updated_at"])
    octolab.drain("labs", run="cat >payload")
    lab = octolab.row("labs", ["status", "error", "finished_at", "updated_at"])
    assert (lab.status, lab.error, lab.updated_at) == ("finished", None, before.updated_at)
    assert lab.finished_at is not None
    # Masks are for logs and viewers: the program works for this owner.
    assert f'"{OWNER}"' in (octolab.dir / "payload").read_text()


@pytest.mark.covers("D2", "D6")
def test_a_tick_takes_no_more_than_its_batch(octolab):
    """The next tick is an hour away, so what is done is what the first one took."""
    for minutes in range(1, 8):
        add_lab(octolab, minutes)
    worker = octolab.work("labs", "--concurrency", "9", "--poll", "1h",
                          run='echo "$DEFIB_JOB_ID" >>torn')
    octolab.until("SELECT count(*) FROM labs WHERE status = 'finished'", 3)
    assert worker.stop() == 0
    assert sorted(octolab.lines("torn")) == sorted(labs(octolab)[:3])
    assert states(octolab) == ["ending"] * 4 + ["finished"] * 3


@pytest.mark.covers("D2", "D6")
def test_one_slot_takes_no_more_than_the_batch_either(octolab):
    for minutes in range(1, 5):
        add_lab(octolab, minutes)
    worker = octolab.work("labs", "--poll", "1h", run="true",
                          env={"TEARDOWN_WORKER_BATCH_SIZE": "2"})
    octolab.until("SELECT count(*) FROM labs WHERE status = 'finished'", 2)
    worker.wait_log("claimed=1")
    assert worker.stop() == 0
    assert states(octolab) == ["ending"] * 2 + ["finished"] * 2


@pytest.mark.covers("D2")
def test_what_a_tick_left_the_next_ones_take(octolab):
    for minutes in range(1, 8):
        add_lab(octolab, minutes)
    worker = octolab.drain("labs", "--concurrency", "9", "--poll", "200ms", run="true")
    assert states(octolab) == ["finished"] * 7
    assert worker.log.count("claimed=3") == 2 and worker.log.count("claimed=1") == 1


@pytest.mark.covers("D3")
def test_an_error_fails_the_lab_with_what_the_program_said(octolab):
    add_lab(octolab)
    octolab.drain("labs", run="echo compose down: no such network >&2; exit 1")
    lab = octolab.row("labs", ["status", "error", "finished_at"])
    assert (lab.status, lab.finished_at) == ("failed", None)
    assert "compose down: no such network" in lab.error


@pytest.mark.covers("D3", "D12")
def test_a_teardown_over_its_time_limit_fails_as_timed_out(octolab):
    add_lab(octolab)
    octolab.change(("timeout: ${TEARDOWN_TIMEOUT_SECONDS:-600}s", "timeout: 300ms"))
    octolab.drain("labs", run="echo $$ >pid; exec sleep 600")
    lab = octolab.row("labs", ["status", "error"])
    assert (lab.status, lab.error) == ("failed", "teardown timed out")
    assert not running(int((octolab.dir / "pid").read_text()))


@pytest.mark.covers("D3", "D12")
def test_with_a_backoff_a_failed_teardown_is_tried_again_to_the_maximum(octolab):
    add_lab(octolab)
    octolab.change(("    stuck_after: 10m", "    max_attempts: 3\n"
                    "    backoff: {base: 10ms, factor: 2}\n    stuck_after: 10m"))
    octolab.work("labs", "--poll", "50ms", run="echo $DEFIB_ATTEMPT >>tries; echo no >&2; exit 1",
                 env={"TEARDOWN_WORKER_BATCH_SIZE": "100"})
    octolab.until("SELECT status FROM labs", "failed")
    assert octolab.lines("tries") == ["1", "2", "3"]


@pytest.mark.covers("D4", "D5")
def test_term_during_a_teardown_leaves_the_lab_for_the_next_start(octolab):
    """The example's grace is 0s: nothing waits, and nothing is marked failed."""
    add_lab(octolab)
    before = octolab.rows("SELECT * FROM labs")
    worker = octolab.work("labs", run=SLOW)
    octolab.until_lines("began", 1)
    assert worker.stop() == 0
    assert octolab.rows("SELECT * FROM labs") == before
    assert not running(int(octolab.lines("began")[0]))
    # The interval is an hour: only the tick at start can take it.
    (octolab.dir / "go").touch()
    octolab.work("labs", "--poll", "1h", run=SLOW)
    octolab.until("SELECT status FROM labs", "finished")
    assert len(octolab.lines("torn")) == 1


@pytest.mark.covers("D4")
def test_what_was_finished_before_the_term_stays_finished(octolab):
    add_lab(octolab, 2)
    add_lab(octolab, 1)
    first, second = labs(octolab)
    run = f'[ "$DEFIB_JOB_ID" = "{first}" ] && exit 0; ' + SLOW
    worker = octolab.work("labs", "--concurrency", "2", run=run)
    octolab.until_lines("began", 1)
    octolab.until("SELECT count(*) FROM labs WHERE status = 'finished'", 1)
    assert worker.stop() == 0
    assert dict(octolab.rows("SELECT CAST(id AS text), status FROM labs")) == {
        first: "finished", second: "ending"}


@pytest.mark.covers("D5", "D6")
def test_without_the_startup_tick_nothing_is_taken_before_the_interval(octolab):
    add_lab(octolab)
    worker = octolab.work("labs", "--poll", "1h", run="touch torn",
                          env={"TEARDOWN_WORKER_STARTUP_TICK": "false"})
    assert worker.stop() == 0
    assert states(octolab) == ["ending"]
    assert "claimed" not in worker.log


@pytest.mark.covers("D6")
def test_a_worker_that_is_off_claims_nothing_and_says_so(octolab):
    add_lab(octolab)
    worker = octolab.work("labs", run="touch torn", wait=False,
                          env={"TEARDOWN_WORKER_ENABLED": "false"})
    assert worker.wait() == 0
    assert "work on this watch is off watch=labs" in worker.log
    assert states(octolab) == ["ending"] and not (octolab.dir / "torn").exists()


@pytest.mark.covers("D6")
def test_the_log_tells_start_tick_completion_and_shutdown(octolab):
    add_lab(octolab)
    worker = octolab.work("labs", run="true")
    octolab.until("SELECT status FROM labs", "finished")
    assert worker.stop() == 0
    said = worker.log
    assert "poll_ms=5000 batch=3" in said
    parts = ["worker started", "tick source=labs claimed=1", "job ended source=labs", "as=done",
             "elapsed_ms=", "stopping", "worker ended"]
    places = [said.find(part) for part in parts]
    assert -1 not in places and places == sorted(places), said


@pytest.mark.covers("D2")
def test_the_example_s_own_command_is_run(octolab):
    add_lab(octolab)
    script = octolab.dir / "teardown.sh"
    script.write_text('#!/bin/sh\necho "$DEFIB_JOB_ID" >>torn\n')
    script.chmod(0o755)
    octolab.drain("labs")
    assert octolab.lines("torn") == labs(octolab)


@pytest.mark.covers("D8")
def test_replicas_side_by_side_never_tear_down_a_lab_twice(octolab):
    for minutes in range(1, 61):
        add_lab(octolab, minutes)
    # The first labs of each replica take until the other one has some too.
    run = ('echo "$DEFIB_WORKER $DEFIB_JOB_ID" >>torn; touch "began-$DEFIB_WORKER"; '
           "until [ -e began-replica0 ] && [ -e began-replica1 ]; do sleep 0.05; done")
    replicas = [octolab.work("labs", "--poll", "20ms", "--concurrency", "4", "--name", f"replica{i}",
                             run=run, env={"TEARDOWN_WORKER_BATCH_SIZE": "4"}) for i in range(2)]
    octolab.until("SELECT count(*) FROM labs WHERE status = 'finished'", 60)
    assert [replica.stop() for replica in replicas] == [0, 0]
    torn = [line.split() for line in octolab.lines("torn")]
    assert sorted(lab for _, lab in torn) == sorted(labs(octolab))
    assert {worker for worker, _ in torn} == {"replica0", "replica1"}


@pytest.mark.covers("D8")
def test_a_killed_replica_s_lab_is_torn_down_by_its_fellow(octolab):
    """At once: nothing is recovered, the lab is ready again, and the next poll is far away."""
    add_lab(octolab)
    first = octolab.work("labs", "--poll", "100ms", "--name", "first", run=SLOW)
    octolab.until_lines("began", 1)
    fellow = octolab.work("labs", "--poll", "1h", "--name", "fellow", run=SLOW)
    first.signal(signal.SIGKILL)
    octolab.until_lines("began", 2)
    eventually(lambda: not running(int(octolab.lines("began")[0])))
    (octolab.dir / "go").touch()
    octolab.until("SELECT status FROM labs", "finished")
    assert fellow.stop() == 0
    assert len(octolab.lines("torn")) == 1


@pytest.mark.covers("D6", "D9")
@pytest.mark.parametrize("run, level, ended, because", [
    (f"echo no network of {OWNER} >&2; exit 1", "error", "failed", "no network of ****abc123"),
    ("exec sleep 600", "warn", "timed_out", "time"),
], ids=["error", "timeout"])
def test_a_time_out_is_a_warning_and_an_error_an_error_with_owner_time_and_cause(
        octolab, run, level, ended, because):
    add_lab(octolab)
    octolab.change(("timeout: ${TEARDOWN_TIMEOUT_SECONDS:-600}s", "timeout: 300ms"))
    worker = octolab.drain("labs", "--log", "json", run=run)
    said = [json.loads(line) for line in worker.log.splitlines() if '"job ended"' in line]
    assert [(one["level"], one["as"], one["owner_id"]) for one in said] == [
        (level, ended, "****abc123")]
    assert said[0]["elapsed_ms"] >= 0 and because in said[0]["because"]
    assert OWNER not in worker.log
