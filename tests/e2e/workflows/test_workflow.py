# SPDX-License-Identifier: Apache-2.0
"""Workflows and sagas on the built-in queue: `defib work` with `workflows:` (docs/workflows.md).

Steps write to a file `log` beside them, so that a test can count how often each was run.
"""

import json
import pathlib
import shutil
import signal

import pytest

from harness.outages import outage, spooled  # noqa: F401 (outage is a fixture)
from harness.program import ROOT
from harness.waiting import eventually
from harness.workflows import flow  # noqa: F401  (a fixture)

pytestmark = pytest.mark.sanitized
EXAMPLE = ROOT / "examples" / "workflow"


# ---- forward

def test_steps_run_in_order_and_see_earlier_outputs(flow):
    flow.write({"one": "echo '{\"n\": 1}' >&3", "two": "echo '[2]' >&3", "three": "cat >&3"})
    job = flow.enqueue('{"x": 5}')
    flow.drain()
    assert flow.log == ["run one", "run two", "run three"]
    assert flow.queue.state(job) == "done"
    assert flow.queue.result(job) == {"payload": {"x": 5}, "outputs": {"one": {"n": 1}, "two": [2]},
                                      "step": "three", "undo": False}
    assert flow.steps(job) == {"one": "done", "two": "done", "three": "done"}


def test_the_environment_names_workflow_and_step(flow):
    say = 'echo "$DEFIB_WORKFLOW $DEFIB_STEP ${DEFIB_UNDO-unset} $DEFIB_ATTEMPT" >>log'
    flow.write({"one": (say, say), "two": f"{say}; exit 65"})
    flow.enqueue()
    flow.drain()
    assert [line for line in flow.log if line.startswith("flow")] == [
        "flow one unset 1", "flow two unset 1", "flow one 1 1"]


@pytest.mark.covers("A7")
def test_a_step_that_gets_no_session_is_run_again_and_then_fails_by_name(flow):
    flow.write({"one": "true", "two": "exit 69"}, saga=False)
    job = flow.enqueue("--max-attempts", "1")
    flow.drain()
    assert flow.log == ["run one"] + ["run two"] * 3
    assert flow.queue.one(job, "error") == "two: the program got no session"


def test_steps_follow_each_other_without_waiting_for_a_poll(flow):
    flow.write({f"s{i}": "true" for i in range(20)})
    job = flow.enqueue()
    flow.work("--poll", "1h")
    flow.until(job, "done", limit=30)
    assert len(flow.log) == 20


def test_a_retry_resumes_at_the_failed_step(flow):
    flow.write({"one": "true", "two": "[ -e once ] || { touch once; exit 1; }", "three": "true"})
    job = flow.enqueue()
    flow.work("--poll", "50ms")
    flow.until(job, "done")
    assert flow.log == ["run one", "run two", "run two", "run three"]


def test_attempts_start_anew_with_each_step(flow):
    again = "[ -e {0} ] || {{ touch {0}; exit 1; }}"
    flow.write({"one": again.format("a"), "two": again.format("b")})
    job = flow.enqueue("--max-attempts", "2")
    flow.work("--poll", "50ms")
    flow.until(job, "done")
    assert flow.log == ["run one", "run one", "run two", "run two"]


@pytest.mark.covers("C5")
def test_a_step_that_is_marked_again_is_run_again_with_those_behind_it(flow):
    flow.write({"one": "echo 1 >&3", "two": "echo 2 >&3", "three": "cat >&3"})
    job = flow.enqueue()
    flow.drain()
    table = flow.queue.table
    flow.queue.db.sql(f"UPDATE {table('step')} SET state = 'again' WHERE step <> 'one'")
    flow.queue.db.sql(f"UPDATE {table('job')} SET state = 'queued', finished_at = NULL, attempts = 0")
    flow.drain()
    assert flow.log == ["run one", "run two", "run three", "run two", "run three"]
    assert flow.queue.result(job)["outputs"] == {"one": 1, "two": 2}


def test_a_failure_without_a_saga_undoes_nothing(flow):
    flow.write({"one": ("true", "true"), "two": "echo no >&2; exit 65"}, saga=False)
    job = flow.enqueue()
    flow.drain()
    assert flow.queue.one(job, "state, error") == ("failed", "two: exit code 65: no")
    assert flow.log == ["run one", "run two"]


def test_a_step_over_its_time_limit_is_stopped(flow):
    flow.write({"one": "true", "two": ("exec sleep 600", None, "300ms")}, saga=False)
    job = flow.enqueue("--max-attempts", "1")
    flow.drain()
    assert flow.queue.one(job, "state, cause") == ("timed_out", "time-out")
    assert flow.steps(job) == {"one": "done"}


def test_a_killed_worker_loses_only_the_step_it_was_in(flow):
    flow.write({"one": "true", "two": flow.wait_for("go"), "three": "true"})
    job = flow.enqueue()
    first = flow.work("--lease", "3s")
    flow.logged("run two")
    second = flow.work("--lease", "3s", "--name", "second")
    first.signal(signal.SIGKILL)
    eventually(lambda: flow.log.count("run two") == 2)
    flow.touch("go")
    flow.until(job, "done")
    assert flow.log == ["run one", "run two", "run two", "run three"]
    assert second.stop() == 0


def test_cancelling_stops_the_step_that_runs_and_keeps_what_was_done(flow):
    flow.write({"one": ("true", "true"), "two": "exec sleep 600"})
    job = flow.enqueue()
    flow.work()
    flow.logged("run two")
    assert flow.queue.program("cancel", job, db=flow.queue.db).code == 0
    flow.until(job, "cancelled")
    assert flow.log == ["run one", "run two"]
    assert flow.steps(job) == {"one": "done"}


def test_a_stop_hands_the_step_back_and_another_worker_goes_on(flow):
    flow.write({"one": "true", "two": "[ -e go ] || exec sleep 600", "three": "true"})
    job = flow.enqueue()
    first = flow.work("--grace", "100ms")
    flow.logged("run two")
    assert first.stop() == 0
    assert flow.queue.one(job, "state, attempts") == ("queued", 0)
    flow.touch("go")
    flow.drain()
    assert flow.queue.state(job) == "done"
    assert flow.log == ["run one", "run two", "run two", "run three"]


# ---- backward

@pytest.mark.covers("C9")
def test_a_failing_saga_is_undone_in_reverse_order(flow):
    flow.write({"one": ("echo 1 >&3", "cat >undo-one.json"), "two": ("true", "true"),
                "three": "true", "four": "echo no >&2; exit 65"})
    job = flow.enqueue('"p"')
    flow.drain()
    assert flow.log == ["run one", "run two", "run three", "run four", "undo two", "undo one"]
    assert flow.queue.one(job, "state, cause, error") == (
        "rolled_back", "error", "four: exit code 65: no")
    assert flow.steps(job) == {"one": "undone", "two": "undone", "three": "undone"}
    read = json.loads((flow.dir / "undo-one.json").read_text())
    assert read["payload"] == "p" and read["outputs"]["one"] == 1
    assert (read["step"], read["undo"]) == ("one", True)
    assert [j for j, _, _ in flow.queue.ledger("ROLLBACK_STARTED")] == [job]
    [(_, evidence, _)] = flow.queue.ledger("ROLLED_BACK")
    assert evidence == {"undone": ["three", "two", "one"], "not_undone": []}


def test_attempts_that_are_used_up_begin_the_rollback(flow):
    flow.write({"one": ("true", "true"), "two": "exit 1"})
    job = flow.enqueue("--max-attempts", "2")
    flow.work("--poll", "50ms")
    flow.until(job, "rolled_back")
    assert flow.log == ["run one", "run two", "run two", "undo one"]


@pytest.mark.covers("C9")
def test_a_rollback_goes_on_after_its_worker_was_killed(flow):
    flow.write({"one": ("true", "true"), "two": ("true", flow.wait_for("go")),
                "three": ("true", "true"), "four": "exit 65"})
    job = flow.enqueue()
    first = flow.work("--lease", "3s")
    flow.logged("undo two")
    flow.work("--lease", "3s", "--name", "second")
    first.signal(signal.SIGKILL)
    eventually(lambda: flow.log.count("undo two") == 2)
    assert flow.queue.one(job, "error") == "four: exit code 65"
    flow.touch("go")
    flow.until(job, "rolled_back")
    assert flow.log[4:] == ["undo three", "undo two", "undo two", "undo one"]


def test_a_failing_undo_is_recorded_and_the_rest_goes_on(flow):
    flow.write({"one": ("true", "true"), "two": ("true", "echo refused >&2; exit 65"),
                "three": "echo no >&2; exit 65"})
    job = flow.enqueue()
    flow.drain()
    assert flow.log == ["run one", "run two", "run three", "undo two", "undo one"]
    assert flow.queue.one(job, "state, error") == (
        "rolled_back",
        "three: exit code 65: no; could not undo: two (exit code 65: refused)")
    assert flow.steps(job) == {"one": "undone", "two": "undo_failed"}
    [(_, failed, _)] = flow.queue.ledger("UNDO_FAILED")
    assert failed == {"step": "two", "error": "exit code 65: refused"}
    [(_, over, _)] = flow.queue.ledger("ROLLED_BACK")
    assert over["undone"] == ["one"] and over["not_undone"] == [failed]


def test_an_undo_is_tried_again_while_attempts_are_left(flow):
    flow.write({"one": ("true", "[ -e once ] || { touch once; exit 1; }"), "two": "exit 65"})
    job = flow.enqueue()
    flow.work("--poll", "50ms")
    flow.until(job, "rolled_back")
    assert flow.log == ["run one", "run two", "undo one", "undo one"]
    assert flow.steps(job) == {"one": "undone"}


def test_a_rollback_cannot_be_cancelled(flow):
    flow.write({"one": ("true", flow.wait_for("go")), "two": "exit 65"})
    job = flow.enqueue()
    flow.work()
    flow.logged("undo one")
    ran = flow.queue.program("cancel", job, db=flow.queue.db)
    assert ran.code != 0 and "cancel_when does not hold" in ran.out
    flow.touch("go")
    flow.until(job, "rolled_back")


def test_a_worker_lost_in_the_last_attempt_begins_the_rollback(flow):
    flow.write({"one": ("true", "true"), "two": "exec sleep 600"})
    job = flow.enqueue("--max-attempts", "1")
    first = flow.work("--lease", "3s")
    flow.logged("run two")
    flow.work("--lease", "3s", "--name", "second")
    first.signal(signal.SIGKILL)
    flow.until(job, "rolled_back")
    assert flow.log == ["run one", "run two", "undo one"]
    assert flow.queue.one(job, "cause") == "lost"


def test_a_job_that_is_done_can_be_rolled_back_by_hand(flow):
    flow.write({"one": ("true", "true"), "two": ("true", "true")}, saga=False)
    job = flow.enqueue()
    flow.drain()
    ran = flow.queue.program("rollback", f"queue/{job}", "--yes", "--reason", "returned")
    assert ran.code == 0, ran.err
    assert flow.queue.one(job, "state, finished_at") == ("queued", None)
    flow.drain()
    assert flow.log == ["run one", "run two", "undo two", "undo one"]
    assert flow.queue.one(job, "state, error") == ("rolled_back", "returned")


def test_steps_without_an_undo_are_rolled_back_without_running_anything(flow):
    flow.write({"one": "true", "two": "true", "three": "exit 65"})
    job = flow.enqueue()
    flow.drain()
    assert flow.log == ["run one", "run two", "run three"]
    assert flow.queue.state(job) == "rolled_back"
    assert flow.steps(job) == {"one": "undone", "two": "undone"}


def test_a_step_that_the_workflow_no_longer_has_cannot_be_undone(flow):
    flow.write({"old": ("true", "true"), "two": flow.wait_for("go")})
    job = flow.enqueue()
    first = flow.work("--grace", "100ms")
    flow.logged("run two")
    assert first.stop() == 0
    flow.write({"new": ("true", "true"), "two": "exit 65"})
    flow.drain()
    assert flow.queue.one(job, "state, error") == (
        "rolled_back", "two: exit code 65; could not undo: old (the workflow no longer "
                       "has such a step)")
    assert flow.steps(job) == {"old": "undo_failed", "new": "undone"}


# ---- the outage, other kinds, bad input

def test_a_step_that_ended_while_the_database_was_away_is_settled_from_the_spool(flow, outage):  # noqa: F811
    flow.write({"one": ("true", "true"), "two": (flow.wait_for("go") + "; echo 2 >&3", "true"),
                "three": "cat >&3"})
    job = flow.enqueue()
    # A long lease, so that nothing but the spool settles it.
    worker = flow.work("--name", "anna", "--lease", "10m", "--spool", flow.dir / "spool",
                       "--db", outage.url)
    flow.logged("run two")
    before = spooled(flow.queue, "anna")
    outage.begin()
    flow.touch("go")
    eventually(lambda: spooled(flow.queue, "anna") > before)
    outage.end()
    flow.until(job, "done")
    assert flow.log == ["run one", "run two", "run three"]
    assert flow.queue.result(job)["outputs"] == {"one": None, "two": 2}
    worker.wait_log("settled from the spool")
    assert worker.stop() == 0


def test_kinds_that_are_no_workflow_stay_queued_without_a_program(flow):
    flow.write({"one": "true"})
    other, job = flow.enqueue(kind="other"), flow.enqueue()
    flow.drain()
    assert flow.queue.state(job) == "done"
    assert flow.queue.one(other, "state, attempts") == ("queued", 0)


def test_other_kinds_are_the_programs(flow):
    flow.write({"one": "true"})
    other, job = flow.enqueue(kind="other"), flow.enqueue()
    flow.drain(program=["--", "/bin/sh", "-c", "echo program >>log"])
    assert flow.queue.state(job) == flow.queue.state(other) == "done"
    assert sorted(flow.log) == ["program", "run one"]


def test_a_worker_that_lacks_the_workflow_does_not_run_its_program_for_it(flow):
    flow.write({"one": ("true", "true"), "two": flow.wait_for("go")})
    job = flow.enqueue()
    first = flow.work("--grace", "100ms")
    flow.logged("run two")
    assert first.stop() == 0
    flow.write({"one": "true"}, name="another")
    flow.drain(program=["--", "/bin/sh", "-c", "echo program >>log"])
    assert flow.log == ["run one", "run two"]
    state, error = flow.queue.one(job, "state, error")
    assert state == "scheduled" and "workflow" in error


def test_several_workers_run_each_step_once(flow):
    flow.write({f"s{i}": f"echo $DEFIB_JOB_ID-s{i} >>log" for i in range(4)})
    for _ in range(30):
        flow.enqueue()
    workers = [flow.work("--concurrency", "3", "--poll", "50ms", "--name", f"w{i}")
               for i in range(3)]
    eventually(lambda: len(flow.queue.all("id", "state = 'done'")) == 30)
    runs = [line for line in flow.log if "-s" in line]
    assert len(runs) == len(set(runs)) == 120
    for worker in workers:
        assert worker.stop() == 0


@pytest.mark.parametrize("workflows,says", [
    ("[{name: a, steps: []}]", "list of steps"),
    ("[{name: a}]", "steps"),
    ("[{steps: [{name: x, run: [y]}]}]", "name"),
    ("[{name: a, steps: [{name: x, run: [y]}, {name: x, run: [z]}]}]", 'two steps are named "x"'),
    ("[{name: a, steps: [{name: x, run: []}]}]", "run is empty"),
    ("[{name: a, steps: [{name: x}]}]", "run"),
    ("[{name: a, steps: [{name: x, run: [y], undoo: [z]}]}]", "undo"),
    ("[{name: a, steps: [{name: x, run: [y]}]}, {name: a, steps: [{name: x, run: [y]}]}]",
     'two workflows are named "a"'),
    ("{name: a}", "list of workflows"),
])
def test_a_wrong_workflow_is_refused_with_its_place(defib, workflows, says):
    config = f"databases:\n  - url: sqlite:x.db\nworkflows: {workflows}\n"
    ran = defib("config", "check", config=config)
    assert ran.code == 3, ran.err
    assert says in ran.err and "defib.yaml:3:" in ran.err


def test_a_kind_that_is_no_workflow_needs_a_program(flow):
    flow.write({"one": "true"})
    ran = flow.queue.program("work", "--kind", "other")
    assert ran.code == 2 and "other" in ran.err and "program" in ran.err


# ---- the example

def test_the_example_ships_one_order_and_takes_the_other_back(queue, defib):
    for path in pathlib.Path(EXAMPLE).iterdir():
        shutil.copy(path, defib.dir)
    good = queue.enqueue('{"item": "lamp", "address": "home"}', kind="order")
    bad = queue.enqueue('{"item": "lamp", "address": "nowhere"}', kind="order")
    ran = defib("work", "--drain", env={"DATABASE_URL": queue.url})
    assert ran.code == 0, ran.err
    assert queue.state(good) == "done" and queue.result(good) == {"parcel": f"P{good}"}
    assert queue.state(bad) == "rolled_back"
    log = (defib.dir / "orders.log").read_text().splitlines()
    assert log[-2:] == [f"undo charge C{bad}", f"undo reserve R{bad}"]
    assert log.count("run reserve") == 2
