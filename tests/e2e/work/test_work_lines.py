# SPDX-License-Identifier: Apache-2.0
"""`defib work --lines`: the jobs are run by a program beside the worker (docs/lines.md)."""

import re
import signal
import subprocess

import pytest

from harness.lines_client import LinesClient
from harness.outages import spooled
from harness.program import ROOT
from harness.two_tables import TwoTables, config
from harness.waiting import eventually

pytestmark = pytest.mark.sanitized
DOC = (ROOT / "docs" / "lines.md").read_text()


@pytest.fixture
def beside(queue):
    """Start a worker on the queue with this test as the program beside it."""
    clients = []

    def start(*args, **options):
        log = queue.program.dir / f"lines{len(clients)}.log"
        clients.append(LinesClient(queue.program, "--verbose", *args, log=log, db=queue.db,
                                   **options))
        assert clients[-1].next()["is"] == "ready"
        return clients[-1]
    yield start
    for client in clients:
        client.kill()


def test_a_job_goes_out_and_its_result_comes_in(queue, beside):
    job = queue.enqueue('{"to": "ann", "n": 0.10}', "--max-attempts", "7", kind="send")
    client = beside("--concurrency", "3")
    assert client.seen[0]["concurrency"] == 3 and client.seen[0]["worker"]
    line = client.next("job")
    assert (line["queue"], line["key"], line["kind"]) == ("default", str(job), "send")
    assert (line["payload"], line["epoch"], line["attempt"]) == ({"to": "ann", "n": 0.1}, 1, 1)
    assert (line["max_attempts"], line["step"], line["timeout_ms"]) == (7, None, 0)
    assert line["token"].split("-")[1] == "0000000000000001"
    client.say("done", line["run"], result={"sent": [1, "ü"]})
    queue.wait_state(job, "done")
    assert queue.result(job) == {"sent": [1, "ü"]}
    assert client.stop() == 0
    assert client.next("end") == {"is": "end", "settled": 1, "refused": 0, "spooled": 0,
                                  "abandoned": 0}
    assert queue.worker_rows("state") == [("left",)]


def test_every_outcome_is_recorded(queue, beside):
    jobs = {kind: queue.enqueue("--max-attempts", "1", kind=kind)
            for kind in ("failed", "retry", "permanent", "released", "done")}
    client = beside("--concurrency", "5")
    runs = {line["kind"]: line["run"] for line in (client.next("job") for _ in jobs)}
    client.say("failed", runs["failed"], error="no luck")
    client.say("retry", runs["retry"], error="not yet", delay_ms=3600000)
    client.say("permanent", runs["permanent"], error="not this one")
    client.say("done", runs["done"])
    queue.wait_state(jobs["failed"], "failed")
    queue.wait_state(jobs["retry"], "scheduled")
    queue.wait_state(jobs["permanent"], "failed")
    queue.wait_state(jobs["done"], "done")
    assert queue.one(jobs["failed"], "cause, error") == ("error", "no luck")
    assert queue.one(jobs["permanent"], "error") == "not this one"
    assert queue.result(jobs["done"]) is None
    # Released, it comes again; the attempt was not counted.
    client.say("released", runs["released"])
    line = client.next("job")
    assert (line["key"], line["attempt"], line["epoch"]) == (str(jobs["released"]), 1, 2)
    assert line["run"] != runs["released"]


def test_progress_is_stored_and_an_old_step_comes_with_the_next_claim(queue, beside):
    job = queue.enqueue()
    client = beside()
    line = client.next("job")
    client.say("progress", line["run"], step="connect", text="1 of 2")
    progress = f"SELECT step, progress FROM {queue.table('progress')} WHERE job = %s"
    eventually(lambda: queue.db.sql(progress, job) == [("connect", "1 of 2")])
    client.say("retry", line["run"], delay_ms=0)
    assert client.next("job")["step"] == "connect"


@pytest.mark.covers("B10")
def test_a_cancelled_job_is_asked_to_stop(queue, beside):
    job = queue.enqueue()
    client = beside()
    run = client.next("job")["run"]
    assert queue.program("cancel", job, db=queue.db).code == 0
    assert client.next("stop") == {"is": "stop", "run": run, "because": "cancelled"}
    client.say("stopped", run)
    queue.wait_state(job, "cancelled")


def test_a_time_limit_asks_for_a_stop_and_decides_the_outcome(queue, beside):
    job = queue.enqueue("--timeout", "200ms", "--max-attempts", "1")
    client = beside()
    line = client.next("job")
    assert line["timeout_ms"] == 200
    assert client.next("stop") == {"is": "stop", "run": line["run"], "because": "timeout"}
    client.say("failed", line["run"])
    queue.wait_state(job, "timed_out")
    assert queue.one(job, "error") == "over its time limit"


def test_a_job_that_asks_for_more_time_gets_it(queue, beside):
    job = queue.enqueue("--timeout", "700ms")
    other = queue.enqueue("--timeout", "1500ms")
    client = beside("--concurrency", "2")
    runs = {line["key"]: line["run"] for line in (client.next("job"), client.next("job"))}
    client.say("extend", runs[str(job)], ms=3600000)
    assert client.next("stop")["run"] == runs[str(other)]  # and the first was not asked before it
    client.say("done", runs[str(job)])
    queue.wait_state(job, "done")


@pytest.mark.covers("F3")
def test_a_job_that_was_taken_is_lost_and_its_late_result_is_refused(queue, beside):
    job = queue.enqueue()
    client = beside()
    run = client.next("job")["run"]
    queue.db.sql(f"UPDATE {queue.table('job')} SET state = 'queued', owner = NULL, queue = 'other' "
                 "WHERE id = %s", job)
    queue.drain("--queue", "other", run="echo 2 >&3")
    client.say("progress", run, text="still there")
    assert client.next("stop") == {"is": "stop", "run": run, "because": "lost"}
    client.say("done", run, result="late")
    assert client.next("refused") == {"is": "refused", "queue": "default", "key": str(job),
                                      "epoch": 1}
    assert queue.result(job) == 2
    assert [(late, epoch) for late, _, epoch in queue.ledger("LATE_COMPLETION")] == [(job, 1)]
    assert client.stop() == 0


@pytest.mark.covers("F2", "F3")
def test_a_client_that_is_killed_loses_its_jobs_at_once(queue, beside):
    """As with a killed worker: the same cause, the same entry, and no lease is waited for."""
    settled = queue.enqueue(kind="settled")
    job = queue.enqueue(kind="lost")
    client = beside("--concurrency", "2", "--lease", "1h", "--name", "first")
    runs = {line["kind"]: line["run"] for line in (client.next("job"), client.next("job"))}
    other = beside("--lease", "1h", "--name", "second")
    # What it said with its last breath counts.
    client.say("done", runs["settled"], result="last words")
    client.close()
    line = other.next("job")
    assert (line["key"], line["epoch"], line["attempt"]) == (str(job), 2, 2)
    assert client.wait() == 74
    assert "the program beside this worker is gone" in client.log
    assert queue.worker_rows("name, state, cause")[0] == ("first", "dead", "exit seen")
    assert queue.result(settled) == "last words"
    (entry, evidence, _), = queue.ledger("REQUEUED")
    assert (entry, evidence["worker"]["cause"]) == (job, "exit seen") if "worker" in evidence \
        else entry == job
    other.say("done", line["run"])
    queue.wait_state(job, "done")


def test_a_client_without_jobs_that_closes_its_lines_stops_the_worker(queue, beside):
    client = beside()
    client.close()
    assert client.wait() == 0
    assert queue.worker_rows("state") == [("left",)]


@pytest.mark.covers("F2")
def test_a_silent_client_with_jobs_counts_as_gone(queue, beside):
    job = queue.enqueue()
    client = beside("--client-timeout", "400ms", "--lease", "1h")
    client.next("job")
    assert client.next("ping")
    assert client.wait() == 74
    assert "has not answered" in client.log
    again = beside("--client-timeout", "400ms")
    line = again.next("job")
    assert (line["key"], line["epoch"]) == (str(job), 2)
    # One that answers is left alone for longer than the time-out.
    for _ in range(8):
        again.next("ping")
        again.say("pong")
    again.say("done", line["run"])
    queue.wait_state(job, "done")


def test_a_stop_lets_jobs_finish_and_claims_nothing(queue, beside):
    job = queue.enqueue()
    client = beside()
    run = client.next("job")["run"]
    client.process.send_signal(signal.SIGTERM)
    assert client.next("stopping")
    later = queue.enqueue()
    client.say("done", run)
    assert client.wait() == 0
    assert (queue.state(job), queue.state(later)) == ("done", "queued")


def test_a_second_stop_asks_for_the_jobs(queue, beside):
    job = queue.enqueue()
    client = beside()
    run = client.next("job")["run"]
    client.say("stop")
    client.next("stopping")
    client.say("stop")
    assert client.next("stop") == {"is": "stop", "run": run, "because": "shutdown"}
    client.say("stopped", run)
    assert client.wait() == 0
    assert queue.one(job, "state, attempts") == ("queued", 0)


def test_a_job_that_does_not_stop_is_named_and_given_up_at_a_stop(queue, beside):
    job = queue.enqueue()
    client = beside("--grace", "200ms")
    run = client.next("job")["run"]
    assert queue.program("cancel", job, db=queue.db).code == 0
    assert client.next("stuck") == {"is": "stuck", "run": run}
    assert "does not stop a job" in client.log
    other = queue.enqueue("--max-attempts", "5", queue="more")
    more = beside("--queue", "more", "--grace", "200ms")
    more.next("job")
    more.say("stop")
    assert more.wait() == 70
    client.say("stopped", run)
    queue.wait_state(job, "cancelled")
    queue.work("--queue", "more")
    queue.wait_state(other, "done")
    assert queue.one(other, "epoch") == 2


BAD = [
    ("hello\n", "not JSON: hello"),
    ('{"do": "dome", "run": 1}\n', '"do": "dome" is not known; did you mean "done"?'),
    ('{"do": "done"}\n', '"done" needs the "run" of its job'),
    ('{"do": "done", "run": 99999}\n', "run 99999 has ended or never existed"),
    (b"\xff\xfe\n", "not JSON: "),
    (b"x" * 2000000 + b"\n", "a line of more than 1114112 bytes"),
    (b"[" * 100000 + b"\n", "not JSON: [[[["),
]


def test_bad_lines_get_one_answer_each_and_change_nothing(queue, beside):
    job = queue.enqueue()
    client = beside()
    run = client.next("job")["run"]
    for number, (line, message) in enumerate(BAD, 1):
        client.write(line)
        answer = client.next()
        assert (answer["is"], answer["line"]) == ("error", number)
        assert answer["message"].startswith(message)
    client.write("\n\r\n")  # nothing is said, and nothing answered
    client.say("done", run, result="fine")
    queue.wait_state(job, "done")
    client.say("done", run)
    assert client.next()["message"] == f"run {run} has ended or never existed"
    assert client.stop() == 0


def test_a_result_that_is_too_large_fails_the_job(queue, beside):
    job = queue.enqueue("--max-attempts", "1")
    client = beside()
    client.say("done", client.next("job")["run"], result="x" * (1024 * 1024))
    queue.wait_state(job, "failed")
    assert queue.one(job, "error") == "result of more than 1048576 bytes"


def test_a_client_that_does_not_read_is_waited_for_without_a_stall(queue, beside):
    """Payloads of several megabytes wait in the worker; its lease and its settlements go on."""
    path = queue.program.dir / "large.jsonl"
    path.write_text('{"x": "%s"}\n' % ("y" * 200000) * 40)
    assert queue.program("enqueue", "default", "large", "--bulk", path, db=queue.db).code == 0
    client = beside("--concurrency", "40")
    runs = [client.next("job")["run"] for _ in range(40)]
    for run in runs:
        client.say("done", run)
    eventually(lambda: not queue.all("id", "state <> 'done'"))
    assert client.stop() == 0


def test_the_lines_must_be_pipes(queue):
    path = queue.program.dir / "in"
    path.write_text("")
    with open(path, encoding="ascii") as file:
        ran = queue.program("work", "--lines", db=queue.db, stdin=file)
    assert ran.code == 2 and "lines need a pipe or a socket" in ran.err
    ran = queue.program("work", "--lines", "--db", queue.db.url, "--", "true")
    assert ran.code == 2 and "no program after" in ran.err


@pytest.mark.covers("F2", "F3")
def test_rows_of_a_table_are_run_and_lost_alike(db, defib):
    tables = TwoTables(defib, db)
    tables.add("one", 2)
    file = defib.dir / "defib.yaml"
    file.write_text(config(db.url, "one"))
    clients = []

    def beside(name, concurrency):
        clients.append(LinesClient(defib, "one", "-c", file, "--lease", "1h", "--name", name,
                                   "--concurrency", concurrency, log=defib.dir / f"{name}.log"))
        return clients[-1]
    try:
        first = beside("first", 2)
        lines = [first.next("job"), first.next("job")]
        assert {line["queue"] for line in lines} == {"one"}
        assert {line["payload"]["id"] for line in lines} == {1, 2}
        second = beside("second", 1)
        second.next("ready")
        first.say("done", lines[0]["run"])
        first.close()
        again = second.next("job")
        assert (again["key"], again["epoch"]) == (lines[1]["key"], 2)
        second.say("done", again["run"])
        eventually(lambda: tables.states("one") == ["done", "done"])
        assert second.stop() == 0
    finally:
        for client in clients:
            client.kill()


@pytest.mark.covers("A14")
@pytest.mark.parametrize("client_dies", [False, True])
def test_a_result_waits_in_the_spool_while_the_database_is_away(pg_queue, wire, client_dies):
    """Also if its client ends meanwhile: the next worker of that name records it."""
    queue = pg_queue
    job = queue.enqueue()
    args = ("--name", "anna", "--lease", "1h", "--spool", queue.program.dir / "spool")
    client = LinesClient(queue.program, "--db", wire.url(queue.db), *args,
                         log=queue.program.dir / "anna.log")
    try:
        run = client.next("job")["run"]
        other = queue.enqueue() if client_dies else None
        before = spooled(queue, "anna")
        wire.away()
        client.say("done", run, result="kept")
        eventually(lambda: spooled(queue, "anna") > before)
        if client_dies:
            client.close()
            assert client.wait() in (0, 6, 74)
            wire.back()
            queue.drain(*args[:2], *args[4:], run="echo 2 >&3")
            assert queue.result(other) == 2
        wire.back()
        queue.wait_state(job, "done")
        assert (queue.result(job), queue.one(job, "epoch")) == ("kept", 1)
    finally:
        client.kill()


SHELL = """mkfifo in && "$BIN" work --lines --db "$URL" <in |
jq --unbuffered -c 'select(.is == "job") |
    {do: "done", run, result: {upper: (.payload.text | ascii_upcase)}}' >in"""


def test_a_shell_pipeline_is_a_client(queue):
    """Two named pipes and jq are enough."""
    job = queue.enqueue('{"text": "abc"}')
    env = {"PATH": "/usr/bin:/bin", "HOME": str(queue.program.dir), "URL": queue.db.url,
           "BIN": str(queue.program.bin)}
    shell = subprocess.Popen(["/bin/sh", "-c", SHELL], cwd=queue.program.dir, env=env,
                             start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        queue.wait_state(job, "done")
        assert queue.result(job) == {"upper": "ABC"}
    finally:
        subprocess.run(["kill", "-9", "--", f"-{shell.pid}"], check=False)
        shell.wait()


def test_every_line_is_documented():
    source = (ROOT / "src" / "worker" / "lines.h").read_text()
    words = re.findall(r'^\tX\([A-Z]+, "(\w+)"', source, re.M)
    said = re.findall(r'(?:begin\(out, |line_add_word\([^"]*)"(\w+)"',
                      (ROOT / "src" / "worker" / "lines.c").read_text()
                      + (ROOT / "src" / "worker" / "run_lines.c").read_text())
    assert len(words) == 10 and len(said) >= 7
    for word in {*words, *said}:
        assert f'`{word}`' in DOC, word
