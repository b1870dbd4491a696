# SPDX-License-Identifier: Apache-2.0
"""Workers in other languages: by the documented SQL functions (docs/clients.md), and in Python by
the package.

They are fenced like our own: a refusal is reported per job, and a worker that was declared dead
gets SQLSTATE DFB01.
"""

import json
import os
import re
import signal
import subprocess

import psycopg2
import pytest

from harness.await_program import tools
from harness.program import ROOT
from harness.python_package import package  # noqa: F401
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain
CLIENTS = ROOT / "clients"


class Functions:
    """The SQL functions as one session of psycopg2 calls them."""

    def __init__(self, session, name):
        self.session = session
        self.worker = self.one("SELECT defib.register(%s, %s)", name, f"test/{name}")

    def rows(self, sql, *params):
        with self.session.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall()

    def one(self, sql, *params):
        return self.rows(sql, *params)[0][0]

    def claim(self, n=1, queue="default"):
        return self.rows("SELECT id, epoch, attempt, kind, payload FROM defib.claim(%s, %s, %s)",
                         self.worker, queue, n)

    def beat(self, job, epoch, step=None, progress=None):
        return self.rows("SELECT accepted, cancelling FROM defib.beat(%s, ARRAY[%s]::bigint[], "
                         "ARRAY[%s]::bigint[], ARRAY[%s]::text[], ARRAY[%s]::text[])",
                         self.worker, job, epoch, step, progress)[0]

    def settle(self, job, epoch, outcome, result=None, error=None):
        return self.one("SELECT accepted FROM defib.settle(%s, ARRAY[%s]::bigint[], "
                        "ARRAY[%s]::bigint[], ARRAY[%s]::text[], ARRAY[%s]::jsonb[], "
                        "ARRAY[%s]::text[])", self.worker, job, epoch, outcome,
                        None if result is None else json.dumps(result), error)


@pytest.fixture
def two(pg_queue):
    """Two workers of psycopg2 beside each other."""
    sessions = [pg_queue.db.connect(), pg_queue.db.connect()]
    yield [Functions(session, name) for session, name in zip(sessions, ("anna", "berta"))]
    for session in sessions:
        session.close()


def declare_dead(queue, worker):
    queue.db.sql("UPDATE defib.worker SET state = 'dead', cause = 'test' WHERE id = %s", worker)


def give_back(queue, job, into="default"):
    queue.db.sql("UPDATE defib.job SET state = 'queued', owner = NULL, queue = %s WHERE id = %s",
                 into, job)


def test_claim_beat_and_settle(pg_queue, two):
    anna, _ = two
    job = pg_queue.enqueue('{"to": "ann"}', kind="send")
    assert anna.claim() == [(job, 1, 1, "send", {"to": "ann"})]
    assert anna.beat(job, 1, "connect", "half") == (True, False)
    assert pg_queue.db.sql("SELECT job, epoch, step, progress FROM defib.progress") == [
        (job, 1, "connect", "half")]
    assert anna.settle(job, 1, "done", {"sent": 1}) is True
    assert pg_queue.one(job, "state, owner") == ("done", None)
    assert pg_queue.result(job) == {"sent": 1}


def test_a_job_is_claimed_by_one(pg_queue, two):
    anna, berta = two
    pg_queue.bulk(10)
    mine, others = anna.claim(6), berta.claim(6)
    assert (len(mine), len(others)) == (6, 4)
    assert not {row[0] for row in mine} & {row[0] for row in others}


def test_a_stale_epoch_is_refused_and_kept_as_evidence(pg_queue, two):
    anna, berta = two
    job = pg_queue.enqueue()
    anna.claim()
    give_back(pg_queue, job)
    berta.claim()
    assert anna.beat(job, 1) == (False, False)
    assert anna.settle(job, 1, "done", {"late": True}) is False
    assert pg_queue.state(job) == "running"
    (late, evidence, epoch), = pg_queue.ledger("LATE_COMPLETION")
    assert (late, epoch) == (job, 1)
    assert (evidence["outcome"], evidence["current_epoch"]) == ("done", 2)
    assert berta.settle(job, 2, "done", {"late": False}) is True
    assert pg_queue.result(job) == {"late": False}


def test_another_worker_cannot_settle_it_with_the_right_epoch(pg_queue, two):
    anna, berta = two
    job = pg_queue.enqueue()
    anna.claim()
    assert berta.settle(job, 1, "done") is False
    assert pg_queue.state(job) == "running"


@pytest.mark.covers("F3")
@pytest.mark.parametrize("call", ["claim", "beat", "renew"])
def test_a_dead_worker_gets_dfb01(pg_queue, two, call):
    anna, _ = two
    job = pg_queue.enqueue()
    anna.claim()
    declare_dead(pg_queue, anna.worker)
    calls = {"claim": anna.claim, "beat": lambda: anna.beat(job, 1),
             "renew": lambda: anna.one("SELECT defib.renew(%s, 1)", anna.worker)}
    with pytest.raises(psycopg2.Error) as refused:
        calls[call]()
    assert refused.value.pgcode == "DFB01"
    assert "LEASE_LOST" in str(refused.value)


def test_a_settlement_that_is_repeated_is_accepted_again(pg_queue, two):
    """The reply may have been lost: repeating it must not look like a lost lease."""
    anna, _ = two
    job = pg_queue.enqueue()
    anna.claim()
    assert anna.settle(job, 1, "done", 1) is True
    assert anna.settle(job, 1, "done", 1) is True
    assert pg_queue.ledger("LATE_COMPLETION") == []


def test_a_released_job_has_its_attempt_back(pg_queue, two):
    anna, _ = two
    job = pg_queue.enqueue()
    anna.claim()
    assert anna.settle(job, 1, "released") is True
    assert pg_queue.one(job, "state, attempts, epoch") == ("queued", 0, 1)


@pytest.mark.covers("B10")
def test_beat_says_that_the_job_is_to_be_stopped(pg_queue, two):
    anna, _ = two
    job = pg_queue.enqueue()
    anna.claim()
    assert pg_queue.program("cancel", job, db=pg_queue.db).code == 0
    assert anna.beat(job, 1) == (True, True)
    assert anna.settle(job, 1, "stopped") is True
    assert pg_queue.state(job) == "cancelled"


def test_renew_counts_what_the_database_says_is_ours(pg_queue, two):
    anna, _ = two
    pg_queue.bulk(3)
    anna.claim(2)
    assert anna.one("SELECT defib.renew(%s, 2)", anna.worker) == 2


def test_enqueue_is_part_of_the_callers_transaction(pg_queue):
    """Either both are there or neither: the business row and the job."""
    session = pg_queue.db.connect()
    session.autocommit = False
    for end in (session.rollback, session.commit):
        with session.cursor() as cursor:
            cursor.execute("SELECT defib.enqueue('mail', 'send', '{}')")
        end()
    session.close()
    assert len(pg_queue.all("id")) == 1


@pytest.mark.covers("F3")
def test_our_own_worker_recovers_the_job_of_a_silent_client(pg_queue, two):
    job = pg_queue.enqueue()
    two[0].claim()
    two[0].one("SELECT defib.register('brief', 'test/brief', 1)")
    pg_queue.db.sql("UPDATE defib.worker SET expires_at = clock_timestamp() - interval '1s' "
                    "WHERE name = 'anna'")
    pg_queue.work()
    pg_queue.wait_state(job, "done")
    assert pg_queue.one(job, "epoch") == 2
    assert two[0].settle(job, 1, "done") is False


PYTHON_MAIN = """
import os, sys, time
import defib

worker = defib.Worker(os.environ["URL"], drain=True,
                      lease=int(os.environ.get("LEASE_MS", "15000")) / 1000)

@worker.queue("default", poll=0.1)
def handle(job):
    if job.kind == "good":
        job.progress(step="one", text="half")
        return {"got": job.payload}
    if job.kind == "bad":
        raise ValueError("no luck")
    if job.kind == "never":
        raise defib.Permanent("not this one")
    open("up", "w").write(str(os.getpid()))
    while job.kind == "slow" and not os.path.exists("go"):
        time.sleep(0.05)
    try:
        while job.kind == "beats":
            job.progress(text="on and on")
            time.sleep(0.05)
    except defib.LostLease:
        print("LEASE_LOST")
        raise
    return "late"

if worker.run()["refused"]:
    print("LEASE_LOST")
"""

SHELL_COMMAND = """case $DEFIB_KIND in
good) cat ;;
bad) echo 'no luck' >&2; exit 1 ;;
never) echo 'not this one' >&2; exit 65 ;;
slow) echo $$ >up; await go; echo late ;;
beats) echo $$ >up; while :; do echo on and on >&2; sleep 0.2; done ;;
esac"""


@pytest.fixture(params=["python", "shell"])
def client(request, pg_queue):
    """Start a client of one language in the queue's folder; it ends when the queue is empty."""
    language = request.param
    env = {"PATH": f"{os.environ['PATH']}:{tools()}", "HOME": str(pg_queue.program.dir), "DRAIN": "1",
           "BEAT_S": "0.5", "URL": pg_queue.db.url, "CLIENT": str(CLIENTS / language)}
    if language == "python":
        python = request.getfixturevalue("package")
        env = python.env(**env)
    argv = {"python": [language == "python" and python.python, "-c", PYTHON_MAIN],
            "shell": [CLIENTS / "shell" / "worker.sh", pg_queue.db.url, "default", "sh", "-c",
                      SHELL_COMMAND]}[language]
    children = []

    def start(**more):
        child = subprocess.Popen(argv, cwd=pg_queue.program.dir, env={**env, **more}, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        children.append(child)
        return child
    start.language = language
    yield start
    for child in children:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        child.stdout.close()


def test_a_client_runs_jobs(client, pg_queue):
    good = pg_queue.enqueue('{"n": 1}', kind="good")
    bad = pg_queue.enqueue("--max-attempts", "1", kind="bad")
    never = pg_queue.enqueue(kind="never")
    child = client()
    said = child.communicate(timeout=patience())[0]
    assert child.returncode == 0, said
    assert pg_queue.state(good) == "done"
    expected = '{"n": 1}' if client.language == "shell" else {"got": {"n": 1}}
    assert pg_queue.result(good) == expected
    state, cause, error = pg_queue.one(bad, "state, cause, error")
    assert (state, cause) == ("failed", "error") and "no luck" in error
    state, attempts, error = pg_queue.one(never, "state, attempts, error")
    assert (state, attempts) == ("failed", 1) and "not this one" in error
    assert pg_queue.worker_rows("state") == [("left",)]


@pytest.mark.covers("F3")
def test_a_client_is_fenced_when_its_job_was_taken(client, pg_queue):
    job = pg_queue.enqueue(kind="slow")
    child = client(BEAT_S="600")
    eventually((pg_queue.program.dir / "up").exists)
    give_back(pg_queue, job)
    pg_queue.drain(run="echo 2 >&3")
    (pg_queue.program.dir / "go").touch()
    said = child.communicate(timeout=patience())[0]
    assert "LEASE_LOST" in said
    assert pg_queue.result(job) == 2
    assert [(j, epoch) for j, _, epoch in pg_queue.ledger("LATE_COMPLETION")] == [(job, 1)]


@pytest.mark.covers("F3")
def test_a_client_s_beat_is_refused_when_its_job_was_taken(client, pg_queue):
    """It learns that in the middle of the job, and drops it: no late settlement."""
    job = pg_queue.enqueue(kind="beats")
    child = client()
    eventually((pg_queue.program.dir / "up").exists)
    # Where this client does not look: it would take the job itself if it were the first.
    give_back(pg_queue, job, into="others")
    pg_queue.drain("--queue", "others", run="echo 2 >&3")
    assert "LEASE_LOST" in child.communicate(timeout=patience())[0]
    assert pg_queue.result(job) == 2
    assert pg_queue.ledger("LATE_COMPLETION") == []


@pytest.mark.covers("B10")
def test_a_client_stops_a_job_when_it_is_asked_to(client, pg_queue):
    job = pg_queue.enqueue(kind="beats")
    child = client()
    progress = "SELECT progress FROM defib.progress WHERE job = %s"
    eventually(lambda: pg_queue.db.sql(progress, job) == [("on and on",)])
    assert pg_queue.program("cancel", job, db=pg_queue.db).code == 0
    said = child.communicate(timeout=patience())[0]
    assert child.returncode == 0, said
    assert pg_queue.state(job) == "cancelled"


def test_a_client_renews_its_lease_while_a_job_runs(client, pg_queue):
    job = pg_queue.enqueue(kind="slow")
    child = client(LEASE_MS="3000")
    eventually((pg_queue.program.dir / "up").exists)
    pg_queue.work("--queue", "idle")
    first = pg_queue.worker_rows("expires_at")[0][0]
    # Beyond the first lease: somebody watches, and it still is the same run.
    eventually(lambda: pg_queue.db.sql("SELECT clock_timestamp() > %s::timestamptz + "
                                       "interval '1s'", first)[0][0])
    (pg_queue.program.dir / "go").touch()
    said = child.communicate(timeout=patience())[0]
    assert child.returncode == 0, said
    assert pg_queue.one(job, "state, epoch") == ("done", 1)


def test_every_sql_function_is_documented():
    """docs/clients.md names each function with its arguments."""
    sql = (ROOT / "sql" / "postgres_queue.sql").read_text()
    text = (ROOT / "docs" / "clients.md").read_text()
    internal = {"must_live", "note_refused", "settle_refused", "backoff_ms", "step_after", "steps_of", "record_step",
                "record_attempt", "not_undone", "move_after_step", "settle_steps", "repeated_steps", "note_steps",
                "next_job_id", "worker_id", "wrong_job"}
    names = set(re.findall(r"CREATE OR REPLACE FUNCTION (defib\.\w+)\(", sql))
    names -= {f"defib.{name}" for name in internal}
    assert len(names) >= 8
    assert not [name for name in sorted(names) if f"### {name}(" not in text]
