# SPDX-License-Identifier: Apache-2.0
"""Watches, heartbeats and instances from Python."""

import json
import os
import re
import signal
import time

import pytest

from harness.python_package import package, script  # noqa: F401
from harness.waiting import eventually, patience, running

pytestmark = pytest.mark.plain
CONFIG = """
watches:
  - name: jobs
    table: jobs
    key: id
    kind: type
    running: status IN ('running', 'cancelling')
    state: status
    alive_at: updated_at
    owner: worker
    stuck_after: 60m
    requeue: status = 'queued', error = :reason, updated_at = :now
    fail: status = 'failed', error = :reason
    end_when: status = 'running'
    end: status = 'ending', updated_at = :now
    startup: {do: fail, reason: container restart}
"""


@pytest.fixture
def jobs(pg, with_tables, script):
    (script.folder / "defib.yaml").write_text(CONFIG)
    pg.sql("CREATE TABLE jobs (id integer PRIMARY KEY, type text DEFAULT 'crawl', status text "
           "DEFAULT 'running', worker text, error text, updated_at timestamptz DEFAULT now())")
    return pg


def add(db, job, status="running", old=0):
    db.sql("INSERT INTO jobs (id, status, updated_at) VALUES (%s, %s, now() - %s * interval '1s')",
           job, status, old)


def statuses(db):
    return [row[0] for row in db.sql("SELECT status FROM jobs ORDER BY id")]


SCANS = """
import sys
import defib
watches = defib.Watches("defib.yaml", url=sys.argv[1])
print(watches.names)
dry = watches.scan("jobs")
print(dry.found, dry.left, dry.recovered, [(one.job, one.verdict, one.remedy) for one in dry.findings])
print(watches.explain("jobs", 2).verdict, watches.explain("jobs", 1).evidence["alive_at"][:2])
fixed = watches.scan(fix=True, reason="from python", actor="ops")
print(fixed.recovered, watches.undo("jobs", fixed.batch).recovered)
print(watches.act("jobs", "fail", [1], reason="no").recovered)
watches.end("jobs", 2), watches.end("jobs", 2)
for job in (9, "x"):
    try:
        watches.end("jobs", job)
    except defib.NotFound as why:
        print(why)
with defib.Database(sys.argv[1]) as database:
    print([(entry.event, entry.job, entry.actor, entry.reason) for entry in database.ledger()])
"""


def test_scan_explain_act_undo_end_and_the_ledger(package, jobs, script):
    add(jobs, 1, old=7200)
    add(jobs, 2)
    said = package.run(SCANS, jobs.url, folder=script.folder).splitlines()
    assert said == [
        "('jobs',)", "1 1 0 [('1', 'silent', 'requeue')]", "none 20", "1 1", "1",
        "watch jobs has no job 9", "watch jobs has no job x",
        "[('REQUEUED', '1', 'ops', 'from python'), ('UNDONE', '1', 'library', 'undone by hand'), "
        "('FAILED', '1', 'library', 'no'), ('ENDED', '2', 'library', 'by hand')]"]
    assert statuses(jobs) == ["failed", "ending"]


# ---- heartbeats

BEATS = """
import asyncio, sys
import defib
watches = defib.Watches("defib.yaml", url=sys.argv[1])

def note(*words):
    print(*words, flush=True)

if sys.argv[2] == "sync":
    with defib.Heartbeat(watches, "jobs", 1, worker="w1", every=0.05) as beat:
        note("began")
        try:
            while True:
                beat.check()
        except defib.LostLease as why:
            note("lost", why)
else:
    async def main():
        lost = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with defib.Heartbeat(watches, "jobs", 1, worker="w1", every=0.05,
                                   on_lost=lambda: loop.call_soon_threadsafe(lost.set)) as beat:
            note("began")
            await lost.wait()
        note("lost", beat.lost)
    asyncio.run(main())
"""


@pytest.mark.covers("C1")
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("how", ["recovered", "taken"])
def test_a_heartbeat_keeps_a_job_alive_until_it_is_somebody_elses(script, jobs, kind, how):
    add(jobs, 1)
    jobs.sql("UPDATE jobs SET worker = 'w1'")
    program = script(BEATS, jobs.url, kind)
    program.wait_log("began")
    fresh = "SELECT count(*) FROM jobs WHERE updated_at > now() - interval '1 hour'"
    for _ in range(2):
        jobs.sql("UPDATE jobs SET updated_at = now() - interval '2 hours'")
        eventually(lambda: jobs.sql(fresh) == [(1,)])
    jobs.sql({"recovered": "UPDATE jobs SET status = 'queued'",
              "taken": "UPDATE jobs SET worker = 'w2'"}[how])
    program.wait_log("lost")
    assert program.process.wait(patience()) == 0, program.log
    jobs.sql("UPDATE jobs SET updated_at = now() - interval '2 hours'")
    assert jobs.sql(fresh) == [(0,)]


STEPS = """
import sys
import defib
watches = defib.Watches("defib.yaml", url=sys.argv[1])
with defib.Database(sys.argv[1]) as _:
    pass
import psycopg2
session = psycopg2.connect(sys.argv[1])
session.autocommit = True
cursor = session.cursor()

def beats():
    cursor.execute("SELECT worker_id, current_step, metadata->>'n' FROM beats")
    return cursor.fetchall()

def until(wanted):
    while beats() != wanted:
        pass

with defib.Heartbeat(watches, None, 1, worker="w1", step="one", metadata={"n": 1}) as beat:
    print(beats())
    beat.step("two", {"n": 2})
    until([("w1", "two", "2")])
print(beats())
try:
    defib.Heartbeat(watches, None, 2, worker="w1").start()
except defib.NotFound as why:
    print(why)
"""


@pytest.mark.covers("C1", "C2")
def test_a_heartbeat_has_step_and_metadata(package, jobs, script):
    """By the watch's own statements; the end removes it."""
    jobs.sql("CREATE TABLE beats (job integer PRIMARY KEY, worker_id text, last timestamptz, "
             "current_step text, metadata jsonb)")
    add(jobs, 1)
    (script.folder / "defib.yaml").write_text(CONFIG.replace(
        "alive_at: updated_at", "alive_at: (SELECT last FROM beats WHERE job = t.id)").replace(
        "owner: worker", "owner: (SELECT worker_id FROM beats WHERE job = t.id)") + """
    beat: 30s
    work:
      enabled: false
      ready: status = 'queued'
      beat:
        - INSERT INTO beats SELECT id, worker, now, step, metadata FROM work ON CONFLICT (job) DO
          UPDATE SET last = excluded.last, current_step = excluded.current_step,
            metadata = excluded.metadata
      after:
        - DELETE FROM beats b USING work w WHERE b.job = w.id
""")
    said = package.run(STEPS, jobs.url, folder=script.folder).splitlines()
    assert said == ["[('w1', 'one', '1')]", "[]", "watch jobs has no job 2"]


RETRIES = """
import logging, sys, time
import defib
logging.basicConfig(level=logging.INFO)
watches = defib.Watches("defib.yaml", url=sys.argv[1])
with defib.Heartbeat(watches, "jobs", 1, worker="w1", every=0.05, retry=0.1) as beat:
    print("began", flush=True)
    while not beat.lost:
        time.sleep(0.05)
"""


@pytest.mark.covers("C1")
def test_a_heartbeat_that_fails_is_retried_three_times_and_goes_on(script, jobs):
    """Twelve tries are refused, which a sequence counts: a failed statement does not turn it back.
    Only a heartbeat that tries four times each has then failed three times."""
    add(jobs, 1)
    jobs.sql("UPDATE jobs SET worker = 'w1'")
    program = script(RETRIES, jobs.url)
    program.wait_log("began")
    jobs.sql("CREATE SEQUENCE tries")
    jobs.sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
             "IF nextval('tries') <= 12 THEN RAISE 'overloaded'; END IF; RETURN NEW; END$$")
    jobs.sql("CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse()")
    began = time.monotonic()
    eventually(lambda: jobs.sql("SELECT last_value FROM tries")[0][0] > 12)
    assert time.monotonic() - began >= 0.85, "nine retries, 0.1 s apart"
    assert program.log.count("heartbeat failed") == 3
    jobs.sql("UPDATE jobs SET updated_at = now() - interval '1 day'")
    eventually(lambda: jobs.sql("SELECT 1 FROM jobs WHERE updated_at > now() - interval '1 hour'"))


def test_a_heartbeat_has_the_document_s_defaults(package):
    """30 s by the library if the watch has no beat, three retries, 5 s apart."""
    said = package.run("import inspect, defib; p = inspect.signature(defib.Heartbeat).parameters; "
                       "print(p['every'].default, p['tries'].default, p['retry'].default)")
    assert said.split() == ["0", "4", "5"]


# ---- instances

INSTANCE = """
import logging, sys, time
import defib
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
watches = defib.Watches("defib.yaml", url=sys.argv[1])
with defib.Instance(watches, "jobs", name=sys.argv[2]) as instance:
    print("cleaned", instance.cleaned.found, instance.cleaned.recovered, flush=True)
    while True:
        time.sleep(0.1)
"""


@pytest.mark.covers("B1", "B2", "B4")
def test_an_instance_cleans_up_what_the_dead_one_left(script, jobs):
    """Young rows too: nobody else is alive. Beside a live instance, only rows past their limit."""
    add(jobs, 1)
    add(jobs, 2, "cancelling", old=60)
    add(jobs, 3, "queued")
    first = script(INSTANCE, jobs.url, "first")
    first.wait_log("cleaned 2 2")
    assert statuses(jobs) == ["failed", "failed", "queued"]
    assert jobs.sql("SELECT DISTINCT error FROM jobs WHERE id < 3") == [("container restart",)]
    assert "scheduler_startup_cleanup" in first.log and "running_failed=1" in first.log
    assert "cancelling_failed=1" in first.log
    add(jobs, 4)
    second = script(INSTANCE, jobs.url, "second")
    second.wait_log("cleaned 0 0")
    first.kill()
    second.kill()
    add(jobs, 5)
    third = script(INSTANCE, jobs.url, "third")
    third.wait_log("cleaned 2 2")
    assert statuses(jobs) == ["failed", "failed", "queued", "failed", "failed"]


CLEANS = """
import asyncio, sys
import defib
watches = defib.Watches("defib.yaml", url=sys.argv[1])
done = watches.startup_cleanup("jobs")
again = asyncio.run(defib.AsyncWatches(watches).startup_cleanup())
print(done.found, done.recovered, again.found)
"""


@pytest.mark.covers("B1")
def test_startup_cleanup_alone_fails_what_ended_instances_left(package, jobs, script):
    add(jobs, 1)
    add(jobs, 2, "queued")
    assert package.run(CLEANS, jobs.url, folder=script.folder) == "1 1 0\n"
    assert statuses(jobs) == ["failed", "queued"]


ITEMS = """
import asyncio, json, logging, sys
import defib
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
url, kind, spool = sys.argv[1:]
watches = defib.Watches("defib.yaml", url=url)
instance = defib.Instance(watches, "jobs", spool=spool or None)
asked = []

class Session:
    ends = []
    def commit(self): self.ends.append("commit")
    def rollback(self): self.ends.append("rollback")
    def close(self): self.ends.append("close")

def factory(fails):
    def make():
        asked.append(1)
        if len(asked) <= fails:
            raise ConnectionError("pool is dry")
        return Session()
    return make

def told(name):
    print(name, len(asked), Session.ends, flush=True)
    asked.clear(), Session.ends.clear()

async def main():
    cases = [("good", 1, 2, None), ("dry", 2, 99, None), ("bad", 3, 0, ValueError("broken"))]
    for name, item, fails, error in cases:
        try:
            if kind == "sync":
                with instance.claimed_item(factory(fails), item, pause=0.01):
                    if error:
                        raise error
            else:
                async with instance.claimed_item(factory(fails), item, pause=0.01):
                    if error:
                        raise error
        except (defib.NoSession, ValueError) as why:
            print("raised", type(why).__name__)
        told(name)

with instance:
    instance.got_session(True)
    asyncio.run(main())
"""


@pytest.mark.covers("A6", "A7")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_claimed_item_without_a_session_is_failed(package, jobs, script, kind):
    jobs.sql("UPDATE jobs SET status = 'queued'")
    text = ITEMS.replace("with instance:\n", "with instance:\n    import psycopg2\n"
                         "    s = psycopg2.connect(url); s.autocommit = True\n"
                         "    s.cursor().execute('INSERT INTO jobs (id) VALUES (1), (2), (3)')\n")
    said = package.run(text, jobs.url, kind, "", folder=script.folder)
    lines = [line for line in said.splitlines() if not line.startswith(("INFO", "WARNING"))]
    assert lines == ["good 3 ['commit', 'close']", "raised NoSession", "dry 3 []",
                     "raised ValueError", "bad 1 ['rollback', 'close']"], said
    assert jobs.sql("SELECT id, status, error FROM jobs ORDER BY id") == [
        (1, "running", None), (2, "failed", "Failed to obtain processing session"),
        (3, "failed", "ValueError: broken")], said


STOPS = """
import asyncio, logging, sys
import defib
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
kind = sys.argv[2]
instance = defib.Instance(defib.Watches("defib.yaml", url=sys.argv[1]), "jobs")

class Session:
    def commit(self): print("commit")
    def rollback(self):
        print("rollback")
        if kind == "broken":
            raise ConnectionError("the connection is gone")
    close = rollback if kind == "broken" else lambda self: print("close")

# Like a driver under asyncio.wait_for() of Python 3.11: nobody learns that it was cancelled.
async def connecting():
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return Session()

factory = {"waiting": lambda: None, "connecting": connecting}.get(kind, Session)

async def loop():
    async with instance.claimed_item(factory, 1, pause=3600):
        print("in the block")
        await asyncio.sleep(3600)

async def main():
    task = asyncio.create_task(loop())
    await asyncio.sleep(0.1)
    task.cancel()
    print(await asyncio.gather(task, return_exceptions=True))
    instance.requeue("jobs", [2, 3])
    instance.requeue("jobs", [])

asyncio.run(main())
"""


@pytest.mark.covers("A6", "D4")
@pytest.mark.parametrize("kind", ["inside", "broken", "waiting", "connecting"])
def test_an_item_whose_task_is_cancelled_is_requeued(package, jobs, script, kind):
    """In its block, also if its session cannot be rolled back or closed any more; while it waits
    for a session, or while one is opened; and the rest of the batch, if it is ours."""
    for job in (1, 2, 3):
        add(jobs, job, "running" if job < 3 else "failed")
    said = package.run(STOPS, jobs.url, kind, folder=script.folder)
    assert "CancelledError(" in said and "commit" not in said
    assert ("rollback" in said) == (kind in ("inside", "broken"))
    assert ("in the block" in said) == (kind in ("inside", "broken"))
    assert "jobs: 1 of 2 items requeued" in said
    assert statuses(jobs) == ["queued", "queued", "failed"]
    assert jobs.sql("SELECT DISTINCT error FROM jobs WHERE id < 3") == [
        ("Requeued: the program was stopped",)]


LATE = """
import logging, sys
import defib
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
instance = defib.Instance(defib.Watches("defib.yaml", url=sys.argv[1]), "jobs")
for item in (1, 2):
    instance.fail("jobs", item, "too late")
"""


@pytest.mark.covers("F3")
def test_an_item_that_has_ended_meanwhile_is_not_failed(package, jobs, script):
    add(jobs, 1, "done")
    add(jobs, 2)
    said = package.run(LATE, jobs.url, folder=script.folder)
    assert "jobs 1 is left as it is: it is no longer running" in said
    assert statuses(jobs) == ["done", "failed"]


NO_SESSION = "Failed to obtain processing session"
NOWHERE = "postgres://127.0.0.1:1/none"
# Items 1 to `items`, of which none gets a session, with the first database; then item 9 with the
# second.
UNREACHABLE = """
import sys
import defib, logging
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
first, then, spool, items = sys.argv[1:]
instance = defib.Instance(defib.Watches("defib.yaml", url=first), "jobs", spool=spool or None)

def fails(item):
    try:
        with instance.claimed_item(lambda: None, item, pause=0):
            pass
    except defib.NoSession:
        pass

instance.fail("jobs", 8, "ended before")  # the database was there once
for url, these in (then, range(1, int(items) + 1)), (first, [9]):
    instance.watches = defib.Watches("defib.yaml", url=url)
    for item in these:
        fails(item)
"""


def kept_of(package, jobs, script, items):
    """The folder in which the failures of the items were kept, because the database was away."""
    spool = script.folder / "spool"
    text = UNREACHABLE.replace("(first, [9])", "(first, [])")
    package.run(text, jobs.url, NOWHERE, spool, items, folder=script.folder)
    assert len(list(spool.glob("*.json"))) == items
    return spool


def drained(package, jobs, script, spool):
    """What an instance says that comes later and can reach the database."""
    said = package.run(UNREACHABLE, jobs.url, jobs.url, spool, 0, folder=script.folder)
    assert list(spool.glob("*.json")) == [], said
    return said


@pytest.mark.covers("A7", "A14")
def test_an_item_that_cannot_even_be_failed_is_spooled_or_an_alert(package, jobs, script):
    for item in (1, 2):
        add(jobs, item)
    said = package.run(UNREACHABLE, jobs.url, NOWHERE, "", 2, folder=script.folder)
    assert said.count("CRITICAL ZOMBIE RECORD ALERT: jobs ") == 2
    spool = kept_of(package, jobs, script, 2)
    found = [json.loads(one.read_text()) for one in sorted(spool.glob("*.json"))]
    assert [(one["watch"], one["item"], one["reason"]) for one in found] == [
        ("jobs", 1, NO_SESSION), ("jobs", 2, NO_SESSION)]
    assert statuses(jobs) == ["running", "running"]
    drained(package, jobs, script, spool)
    assert statuses(jobs) == ["failed", "failed"]


def test_a_failure_of_a_database_that_was_never_reached_is_an_alert(package, jobs, script):
    """Nothing says which one it was."""
    spool = script.folder / "spool"
    said = package.run(UNREACHABLE, NOWHERE, NOWHERE, spool, 1, folder=script.folder)
    assert said.count("CRITICAL ZOMBIE RECORD ALERT: jobs ") == 3
    assert list(spool.glob("*.json")) == []


def test_a_kept_failure_is_not_written_to_a_later_claim_of_the_item(package, jobs, script):
    for item in (1, 2):
        add(jobs, item)
    spool = kept_of(package, jobs, script, 2)
    jobs.sql("UPDATE jobs SET status = 'running', updated_at = now() WHERE id = 1")
    said = drained(package, jobs, script, spool)
    assert statuses(jobs) == ["running", "failed"]
    assert "jobs 1 is left as it is: it may have been claimed again" in said


def test_a_kept_failure_is_not_written_to_another_database(package, jobs, script, defib):
    """The tables were made again under the same URL, and an item has the same key."""
    add(jobs, 1)
    spool = kept_of(package, jobs, script, 1)
    jobs.sql("DROP SCHEMA defib CASCADE")
    assert defib("init", db=jobs).code == 0
    said = drained(package, jobs, script, spool)
    assert statuses(jobs) == ["running"]
    assert " is set aside: it is another database" in said
    assert len(list(spool.glob("*.bad"))) == 1


HOSTILE = ['{"watch": "jobs"', '["jobs", 1]', "", "null", "[" * 100_000, '{"a": 1e999}', "\0" * 99,
           '{"watch": 1, "item": {"a": []}, "reason": [], "database": null, "at": 0, "boot": 0}']


def test_whatever_is_in_the_spool_ends_nothing_and_fails_nothing_else(package, jobs, script):
    for item in (1, 2):
        add(jobs, item)
    spool = kept_of(package, jobs, script, 1)
    whole = json.loads(next(spool.glob("*.json")).read_text())
    wrong = [{name: value} for name in whole for value in (
        None, -1, 2**63, 1e308, float("nan"), "", "x" * 100_000, "\udcff", [], {}, [[1]], True)]
    wrong = [one for one in wrong if not one.keys() & {"reason"}]  # any text is one
    texts = HOSTILE + [json.dumps({**whole, "item": 2, **one}) for one in wrong]
    for number, text in enumerate(texts):
        (spool / f"{number:04}.json").write_text(text)
    (spool / "raw.json").write_bytes(b"\xff\xfe\x00")
    drained(package, jobs, script, spool)
    assert statuses(jobs) == ["failed", "running"]


@pytest.mark.parametrize("how, why", [("link", "is a symbolic link"), (0o770, "its group"),
                                      (0o707, "every user")])
def test_a_spool_of_an_instance_that_others_can_write_to_is_refused(package, tmp_path, how, why):
    """Who can write to it could have any item failed."""
    spool = tmp_path / "spool"
    real = tmp_path / "real" if how == "link" else spool
    real.mkdir()
    if how == "link":
        spool.symlink_to(real)
    else:
        real.chmod(how)
    said = package.run("""
import sys
import defib
try:
    defib.Instance(None, spool=sys.argv[1])
except defib.ConfigError as error:
    print(error)
""", spool)
    assert f"the directory {spool} " in said and why in said
    assert "no other user can write to" in said


STARTS = """
import asyncio, time
import defib

async def worker():
    burst, taken, began = defib.Burst(5, 1), 0, time.monotonic()
    while burst.allows() and taken < 100:
        burst.count()
        taken += 1
    while not burst.allows():
        await asyncio.sleep(0.001)
    return began, taken, time.monotonic() - began >= 0.99

async def main():
    begun = time.monotonic()
    tasks = await defib.staggered(0.1, [worker() for _ in range(3)])
    done = await asyncio.gather(*tasks)
    waited = [one[0] - begun >= 0.1 * n for n, one in enumerate(done)]
    print(waited, [one[1:] for one in done])

asyncio.run(main())
"""


@pytest.mark.covers("B6", "B7")
def test_workers_start_one_after_another_and_take_few_jobs_at_first(package):
    assert package.run(STARTS) == "[True, True, True] [(5, True), (5, True), (5, True)]\n"


# ---- the daemon beside a program

MONITOR = """
import logging, os, sys, time
import defib
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
with defib.Monitor("defib.yaml", env={"DEFIB_DB": sys.argv[1]}) as monitor:
    print("pid", monitor._child.pid, flush=True)
    while not os.path.exists("go"):
        time.sleep(0.02)
print("over", flush=True)
"""


def monitor_pids(program):
    return [int(pid) for pid in re.findall(r"^pid (\d+)$", program.log, re.M)]


def test_a_monitor_scans_and_ends_with_the_block(script, jobs):
    add(jobs, 1, old=7200)
    program = script(MONITOR, jobs.url)
    program.wait_log("pid ")
    assert 'INFO defib "daemon started"' in program.log
    program.wait_log('INFO defib "leads the watch" watch=jobs')
    (script.folder / "go").touch()
    assert program.process.wait(patience()) == 0, program.log
    assert program.log.endswith("over\n") and not running(monitor_pids(program)[0])


def test_a_monitor_ends_with_a_killed_program_and_is_restarted_if_it_ends_itself(script, jobs):
    program = script(MONITOR, jobs.url)
    program.wait_log("pid ")
    first, = monitor_pids(program)
    os.kill(first, signal.SIGKILL)
    program.wait_log("the monitor ended, and is started again")
    eventually(lambda: program.log.count("daemon started") == 2)
    _, second = map(int, re.findall(r'"daemon started" name=[^:]+:(\d+):', program.log))
    os.kill(program.pid, signal.SIGKILL)
    eventually(lambda: not running(second))


def test_a_monitor_that_cannot_start_is_an_exception(package, jobs, script):
    said = package.run("""
import defib
for config, bin in (("nowhere.yaml", None), ("defib.yaml", "/no/such/program")):
    try:
        defib.Monitor(config, bin=bin).start()
    except defib.Error as why:
        print(type(why).__name__, why)
""", folder=script.folder)
    lines = said.splitlines()
    assert lines[0].startswith("ConfigError ") and "nowhere.yaml" in lines[0], said
    assert lines[1] == ("UsageError cannot start /no/such/program: No such file or directory; "
                        "install defib, or set DEFIB_BIN")
