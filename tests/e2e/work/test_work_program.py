# SPDX-License-Identifier: Apache-2.0
"""The interface between `defib work` and the program it runs for a job (docs/jobs.md)."""

import os
import shutil
import signal
import sys

import pytest

from harness.daemon import parse_logfmt
from harness.small_memory import small_memory
from harness.waiting import eventually, running


def test_the_payload_is_on_stdin(queue):
    job = queue.enqueue('{"to": "ann", "n": [1, 2]}')
    queue.drain(run="cat >&3")
    assert queue.result(job) == {"to": "ann", "n": [1, 2]}


def test_a_job_without_payload_finds_stdin_empty(queue):
    job = queue.enqueue()
    queue.drain(run="wc -c >&3")
    assert queue.result(job) == 0


def test_a_payload_larger_than_a_pipe_arrives_whole(queue, defib):
    (defib.dir / "big.json").write_text('"' + "x" * 300_000 + '"')
    job = queue.enqueue(f"@{defib.dir / 'big.json'}")
    queue.drain(run="wc -c >&3")
    assert queue.result(job) == 300_002


def test_the_environment_tells_the_facts(queue):
    job = queue.enqueue("--max-attempts", "7", "{}", queue="mail", kind="send")
    names = "JOB_ID EPOCH ATTEMPT MAX_ATTEMPTS QUEUE KIND WORKER"
    script = "; ".join(f'echo "$DEFIB_{n}" >>out' for n in names.split())
    queue.drain("--queue", "mail", "--name", "anna", run=script)
    said = (queue.program.dir / "out").read_text().split("\n")[:7]
    assert said == [str(job), "1", "1", "7", "mail", "send", "anna"]


def test_json_on_descriptor_3_is_the_result(queue):
    job = queue.enqueue()
    queue.drain(run="""echo '{"pages": 3}' >&3""")
    assert queue.one(job, "state, error, cause") == ("done", None, None)
    assert queue.result(job) == {"pages": 3}


def test_a_result_that_is_no_json_is_kept_as_text(queue):
    job = queue.enqueue()
    queue.drain(run="echo 'all \"well\"' >&3")
    assert queue.result(job) == 'all "well"'


def test_a_result_that_is_too_long_fails_the_job(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.drain(run="head -c 1100000 /dev/zero | tr '\\0' x >&3")
    assert queue.state(job) == "failed"
    assert "result of more than" in queue.one(job, "error")


def test_what_it_prints_on_stdout_is_log_and_not_result(queue):
    job = queue.enqueue()
    worker = queue.drain(run="printf 'chatter\\033]0;title\\007\\302\\233 31m\\n'; printf end")
    said = [dict(parse_logfmt(line)) for line in worker.log.splitlines() if "output of a job" in line]
    assert [line["line"] for line in said] == ["chatter\ufffd]0;title\ufffd\ufffd 31m", "end"]
    assert {line["job"] for line in said} == {str(job)}
    assert not any(c < " " and c != "\n" for c in worker.log)  # nothing that steers a terminal
    assert queue.result(job) is None


@pytest.mark.covers("C2")
def test_lines_on_descriptor_4_are_step_and_progress(queue):
    job = queue.enqueue()
    queue.work(run="printf 'fetch\\t3 of 9\\n' >&4; exec sleep 600")

    def noted():
        return queue.db.sql(f"SELECT job, epoch, step, progress FROM {queue.table('progress')}")
    assert eventually(noted) == [(job, 1, "fetch", "3 of 9")]
    assert queue.state(job) == "running"


def test_a_line_without_a_tab_is_progress_of_the_same_step(queue):
    queue.enqueue()
    queue.work(run="printf 'fetch\\tone\\n' >&4; await go; "
                   "echo two >&4; exec sleep 600")

    def noted():
        return queue.db.sql(f"SELECT step, progress FROM {queue.table('progress')}")
    assert eventually(noted) == [("fetch", "one")]
    (queue.program.dir / "go").touch()
    eventually(lambda: noted() == [("fetch", "two")])


@pytest.mark.covers("C2")
def test_a_later_attempt_knows_the_step_of_an_earlier_one(queue):
    queue.enqueue()
    queue.work(run='echo "$DEFIB_ATTEMPT:$DEFIB_STEP" >>steps; [ "$DEFIB_ATTEMPT" -gt 1 ] || '
                   "{ printf 'charge\\thalf\\n' >&4; "
                   'await go; exit 1; }')
    eventually(lambda: queue.db.sql(f"SELECT step FROM {queue.table('progress')}") == [("charge",)])
    (queue.program.dir / "go").touch()
    steps = queue.program.dir / "steps"
    eventually(lambda: steps.read_text().splitlines() == ["1:", "2:charge"])


@pytest.mark.covers("E6")
def test_the_tail_of_stderr_is_the_error(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.drain(run="echo start >&2; echo 'disk is full' >&2; exit 3")
    state, cause, error = queue.one(job, "state, cause, error")
    assert (state, cause) == ("failed", "error")
    assert error == "exit code 3: disk is full"


def test_exit_65_is_never_tried_again(queue):
    job = queue.enqueue()
    queue.drain(run="echo 'no such customer' >&2; exit 65")
    assert queue.one(job, "state, attempts, cause") == ("failed", 1, "error")
    assert "no such customer" in queue.one(job, "error")


@pytest.mark.covers("A7")
def test_exit_69_is_run_again_at_once_until_there_is_a_session(queue):
    job = queue.enqueue("--max-attempts", "1")
    worker = queue.drain(run="echo x >>tries; [ $(wc -l <tries) -ge 3 ] || exit 69; echo 1 >&3")
    assert queue.one(job, "state, attempts, epoch") == ("done", 1, 1)
    assert worker.log.count("no session for a job") == 2


@pytest.mark.covers("A7")
def test_exit_69_is_run_three_times_a_second_apart_and_then_fails(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.drain(run="date +%s.%N >>tries; echo too many clients >&2; exit 69")
    at = [float(line) for line in (queue.program.dir / "tries").read_text().split()]
    assert len(at) == 3 and all(b - a >= 0.99 for a, b in zip(at, at[1:])), at
    assert queue.one(job, "state, error") == ("failed", "the program got no session")


@pytest.mark.covers("A7", "D4")
def test_a_job_that_waits_for_a_session_is_handed_back_at_a_stop(queue):
    job = queue.enqueue()
    worker = queue.work("--grace", "0s", run="touch tried; exit 69")
    worker.wait_log("no session for a job")
    assert worker.stop() == 0
    assert queue.state(job) in ("queued", "scheduled")  # the latter where the third try was over


@pytest.mark.covers("A15")
def test_claims_pause_while_jobs_get_no_session_and_resume_by_themselves(queue):
    """One job at a time is spent on finding out; the others stay queued."""
    queue.bulk(12, "--max-attempts", "1")
    worker = queue.work("--concurrency", "6", "--poll", "50ms", run="[ -e up ] || exit 69")
    worker.wait_log('breaker opened pauses="claims: jobs cannot get a session"')
    (queue.program.dir / "up").touch()
    worker.wait_log("breaker closed")
    eventually(lambda: not queue.all("id", "state NOT IN ('done', 'failed')"))
    assert queue.all("id", "state = 'done'")
    assert worker.stop() == 0


@pytest.mark.covers("D12")
def test_exit_75_is_tried_again_whatever_the_attempts(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.work(run='if [ "$DEFIB_EPOCH" = 1 ]; then echo "rate limit" >&2; exit 75; fi')
    queue.wait_state(job, "done")
    assert queue.one(job, "epoch, attempts") == (2, 2)


def test_a_program_that_is_not_there_fails_the_job_and_says_so(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.drain(program=["/nowhere/to-be-found"])
    assert queue.state(job) == "failed"
    assert "/nowhere/to-be-found" in queue.one(job, "error")


def test_a_child_killed_by_a_signal_is_a_crash(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.drain(run="kill -SEGV $$")
    state, cause, crashes, error = queue.one(job, "state, cause, crashes, error")
    assert (state, cause, crashes) == ("failed", "crash", 1)
    assert error.startswith("killed by SIGSEGV")


@pytest.mark.covers("F2")
def test_a_child_killed_from_outside_is_recorded_at_once(queue):
    """Long before any lease or poll could tell."""
    job = queue.enqueue("--max-attempts", "1")
    queue.work("--poll", "60s", "--lease", "10m",
               run="echo $$ >pid.new; mv pid.new pid; exec sleep 600")
    pid = queue.program.dir / "pid"
    eventually(pid.exists)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    queue.wait_state(job, "failed", limit=20)
    assert "SIGKILL" in queue.one(job, "error")


def test_an_oom_kill_is_recorded_at_once(queue):
    """The child alone is in the small group, as it would be with a limit of its own."""
    job = queue.enqueue("--max-attempts", "1")
    hog = f"{sys.executable} -c 'x = [bytearray(1 << 20) for _ in range(400)]'"
    with small_memory() as group:
        queue.drain(run=f"echo $$ >{group}/cgroup.procs && exec {hog}")
    state, cause, error = queue.one(job, "state, cause, error")
    if "No space left" in (error or "") or "Permission" in (error or ""):
        pytest.skip(f"a process cannot be moved into a memory cgroup here: {error}")
    assert (state, cause) == ("failed", "crash")
    assert error.startswith("killed by SIGKILL")


@pytest.mark.covers("D3", "D12")
def test_at_the_time_limit_the_job_ends_timed_out(queue):
    job = queue.enqueue("--timeout", "300ms", "--max-attempts", "1")
    queue.drain(run="exec sleep 600")
    state, cause, error = queue.one(job, "state, cause, error")
    assert (state, cause) == ("timed_out", "time-out")
    assert error.startswith("time limit of 300 ms has passed")


def test_the_workers_time_limit_is_for_jobs_without_one(queue):
    own, none = queue.enqueue("--timeout", "1h", "--max-attempts", "1"), \
        queue.enqueue("--max-attempts", "1")
    script = f'[ "$DEFIB_JOB_ID" = {own} ] && sleep 1 || exec sleep 600'
    queue.drain("--timeout", "300ms", run=script)
    assert queue.state(own) == "done"
    assert queue.state(none) == "timed_out"


def test_a_time_limit_is_tried_again_while_attempts_are_left(queue):
    job = queue.enqueue("--timeout", "300ms", "--max-attempts", "2")
    queue.work(run='[ "$DEFIB_ATTEMPT" = 2 ] || exec sleep 600')
    queue.wait_state(job, "done")
    assert queue.one(job, "attempts") == 2


def test_a_program_may_end_in_order_on_term(queue):
    job = queue.enqueue("--timeout", "300ms", "--max-attempts", "1")
    script = "trap 'touch cleaned; exit 0' TERM; sleep 600 & wait"
    queue.drain("--grace", "60s", run=script)
    assert queue.state(job) == "timed_out"
    assert (queue.program.dir / "cleaned").exists()


def test_after_the_grace_the_whole_group_is_killed(queue):
    job = queue.enqueue("--timeout", "300ms", "--max-attempts", "1")
    deep = """sh -c 'trap "" TERM; echo $$ >deep; while :; do sleep 1; done'"""
    script = f"trap '' TERM; {deep} & wait; wait"
    queue.drain("--grace", "300ms", run=script)
    assert queue.state(job) == "timed_out"
    deep = int((queue.program.dir / "deep").read_text())
    eventually(lambda: not running(deep))


def test_what_a_job_leaves_in_the_background_ends_with_it(queue):
    job = queue.enqueue()
    queue.drain(run="sleep 600 & echo $! >left")
    assert queue.state(job) == "done"
    left = int((queue.program.dir / "left").read_text())
    eventually(lambda: not running(left))


def test_programs_in_another_language_need_nothing_of_ours(queue):
    """The smallest worker in Python: read stdin, write descriptor 3."""
    if not shutil.which("python3"):
        pytest.skip("no python3 on the path")
    job = queue.enqueue('{"a": 2, "b": 3}')
    code = "import json,os,sys; d=json.load(sys.stdin); os.write(3, str(d['a']+d['b']).encode())"
    queue.drain(program=["/usr/bin/python3", "-c", code])
    assert queue.result(job) == 5
