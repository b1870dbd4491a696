# SPDX-License-Identifier: Apache-2.0
"""Every attempt at the steps of a workflow, with its error: in `show`, over HTTP and in the tables."""

import json
import re
import signal

import yaml

from harness.http_daemon import serving, token_env, token_section
from harness.waiting import eventually
from harness.workflows import flow  # noqa: F401 (a fixture)

FAILS_TWICE = ("n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) >tries\n"
               "[ $n -ge 2 ] || { echo \"the bank said no to hunter2-and-more\" >&2; exit 1; }")


def steps(flow, job):
    """{step: [(attempt, outcome)]} as `show --raw` has them."""
    told = flow.queue.program("show", f"queue/{job}", "--raw").json["steps"]
    return {one["step"]: [(it["attempt"], it["outcome"]) for it in one["attempts"]] for one in told}


def test_a_step_that_fails_twice_is_told_with_both_errors(flow):  # noqa: F811
    flow.write({"one": "true", "two": FAILS_TWICE, "three": "true"})
    job = flow.enqueue(json.dumps({"password": "hunter2-and-more"}))
    flow.work("--poll", "50ms", "--name", "w1")
    flow.until(job, "done")
    assert steps(flow, job) == {"one": [(1, "done")], "three": [(1, "done")],
                                "two": [(1, "failed"), (2, "failed"), (3, "done")]}
    told = flow.queue.program("show", f"queue/{job}").out
    tried = re.findall(r"step two: attempt (\d) failed after .*, worker w1: exit code 1: the bank "
                       "said no", told)
    assert tried == ["1", "2"], told
    assert "step two: done, attempt 3, took" in told
    config = yaml.safe_dump(json.loads((flow.dir / "defib.yaml").read_text()))
    config += "http:\n  mask: [password]\n" + token_section()
    with serving(flow.dir, config, env=token_env()) as web:
        told = web.by("viewer").get(f"/api/v1/watches/queue/jobs/{job}")
        assert "hunter2" not in told.text  # it is a secret of the payload
        two = told.json["steps"][1]
        assert two["state"] == "done" and two["attempts"][0]["worker"] == "****"
        errors = [it["error"] for it in two["attempts"]]
        assert errors[0].startswith("exit code 1: the bank said no to ") and errors[2] is None
        times = [time for it in two["attempts"] for time in (it["started_at"], it["ended_at"])]
        assert times == sorted(times) and None not in times


def test_a_step_whose_worker_was_killed_has_the_lost_attempt_and_the_running_one(flow):  # noqa: F811
    flow.write({"one": "true", "two": flow.wait_for("go"), "three": "true"})
    job = flow.enqueue()
    first = flow.work("--poll", "50ms", "--name", "first")
    flow.logged("run two")
    assert steps(flow, job) == {"one": [(1, "done")], "two": [(1, "running")]}
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    flow.work("--poll", "50ms", "--name", "second")
    eventually(lambda: flow.log.count("run two") == 2)
    two = flow.queue.program("show", f"queue/{job}", "--raw").json["steps"][1]
    assert two["state"] == "running" and two["finished_at"] is None
    lost, running = two["attempts"]
    assert (lost["outcome"], lost["attempt"], lost["worker"]) == ("lost", 1, "first")
    assert re.match(r"worker \d+ was lost", lost["error"]) and lost["started_at"] < lost["ended_at"]
    assert (running["outcome"], running["attempt"], running["worker"]) == ("running", 2, "second")
    assert running["ended_at"] is None and running["started_at"] >= lost["ended_at"]
    # The ledger is the only home of a lost attempt.
    assert flow.queue.db.sql(f"SELECT count(*) FROM {flow.queue.table('step_attempt')}") == [(0,)]
    flow.touch("go")
    flow.until(job, "done")
    assert steps(flow, job)["two"] == [(1, "lost"), (2, "done")]


def test_a_retry_from_a_step_keeps_what_it_did_before(flow):  # noqa: F811
    flow.write({"one": "true", "two": "[ -e good ] || exit 65"}, saga=False)
    job = flow.enqueue()
    flow.drain()
    flow.touch("good")
    ran = flow.queue.program("retry", f"queue/{job}", "--from-step", "one", "--yes")
    assert ran.code == 0, ran.err
    flow.drain()
    tried = steps(flow, job)
    assert [outcome for _, outcome in tried["one"]] == ["done", "done"]
    assert [outcome for _, outcome in tried["two"]] == ["permanent", "done"]
