# SPDX-License-Identifier: Apache-2.0
"""Workers in Python: functions and coroutines, on the queue and on a table of the team's own."""

import json
import signal

import pytest

from harness.python_package import package, script  # noqa: F401
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain

# A table of the team's own: `work` says how a row is claimed and settled.
CONFIG = """
watches:
  - name: pages
    table: pages
    key: id
    running: status IN ('Processing', 'Cancelling')
    alive_at: updated_at
    stuck_after: 60m
    requeue: status = 'Queued', error = :reason, updated_at = :now
    fail: status = 'Failed', error = :reason
    cancel: status = 'Cancelling'
    work:
      ready: status = 'Queued'
      order: id
      claim: status = 'Processing', worker = :worker, updated_at = :now
      done: status = 'Complete', result = :result
      failed: status = 'Failed', error = :error
      release: status = 'Queued'
      concurrency: 4
      poll: 100ms
      grace: 1s
"""

HANDLERS = """
import asyncio, json, logging, os, signal, sys, time
import defib
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
KIND, WHERE, URL = sys.argv[1:4]
watches = defib.Watches("defib.yaml", url=URL) if WHERE == "pages" else None
worker = defib.Worker(None if watches else URL, watches=watches, grace=1, lease=3,
                      name=os.environ.get("NAME"))
on = worker.watch("pages") if watches else worker.queue("default", concurrency=4, poll=0.1,
                                                        stop_after=30)

def what(job):
    return job.payload["what"]

def note(line):
    print(line, flush=True)

def end(job):
    note(f"began {job.key} {job.attempt}")
    if what(job) == "bad":
        raise ValueError("no luck")
    if what(job) == "never":
        raise defib.Permanent("not this one")
    if what(job) == "later" and job.attempt == 1:
        raise defib.Retry("not now", after=0)
    return {"got": what(job)}

if KIND == "sync":
    @on
    def handle(job):
        result = end(job)
        while what(job) == "slow" and not os.path.exists("go"):
            time.sleep(0.02)
        while what(job) == "polite":
            try:
                job.progress("step", "on and on")
            except defib.LostLease:
                note("LostLease"), 1
                raise
            except defib.Cancelled:
                note("Cancelled")
                raise
            time.sleep(0.02)
        return result
else:
    class Handle:  # an object whose call is a coroutine
        async def __call__(self, job):
            return await handle(job)
    on(Handle())

    async def handle(job):
        result = end(job)
        try:
            while what(job) == "polite" or what(job) == "slow" and not os.path.exists("go"):
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            note("LostLease" if job.lost else "Cancelled")
            raise
        return result

note("counts " + json.dumps(worker.run()))
"""


class Rows:
    """Jobs as rows of the team's own table."""

    def __init__(self, db, folder):
        self.db = db
        self.url = db.url
        (folder / "defib.yaml").write_text(CONFIG)
        db.sql("CREATE TABLE pages (id integer PRIMARY KEY, status text NOT NULL DEFAULT 'Queued', "
               "what text, worker text, error text, result jsonb, "
               "updated_at timestamptz NOT NULL DEFAULT now())")

    def add(self, what):
        return self.db.sql("INSERT INTO pages (id, what) SELECT count(*) + 1, %s FROM pages "
                           "RETURNING id", what)[0][0]

    def state(self, job):
        names = {"Queued": "queued", "Processing": "running", "Complete": "done",
                 "Failed": "failed", "Cancelling": "cancelling"}
        return names[self.db.sql("SELECT status FROM pages WHERE id = %s", job)[0][0]]

    def error(self, job):
        return self.db.sql("SELECT error FROM pages WHERE id = %s", job)[0][0]

    def result(self, job):
        return self.db.sql("SELECT result FROM pages WHERE id = %s", job)[0][0]

    def take_away(self, job):
        """Another worker has the job by now."""
        self.db.sql("UPDATE defib.lease SET epoch = epoch + 1 WHERE watch = 'pages' AND job = %s",
                    str(job))

    def cancel(self, job):
        self.db.sql("UPDATE pages SET status = 'Cancelling' WHERE id = %s", job)


class Jobs:
    """Jobs of the built-in queue."""

    def __init__(self, db):
        self.db = db
        self.url = db.url

    def add(self, what):
        return self.db.sql("SELECT defib.enqueue('default', 'test', %s, max_attempts := %s)",
                           json.dumps({"what": what}), 1 if what == "bad" else 3)[0][0]

    def state(self, job):
        return self.db.sql("SELECT state FROM defib.job WHERE id = %s", job)[0][0]

    def error(self, job):
        return self.db.sql("SELECT error FROM defib.job WHERE id = %s", job)[0][0]

    def result(self, job):
        return self.db.sql("SELECT result FROM defib.job_data WHERE job = %s", job)[0][0]

    def take_away(self, job):
        self.db.sql("UPDATE defib.job SET epoch = epoch + 1 WHERE id = %s", job)

    def cancel(self, job):
        self.db.sql("SELECT defib.cancel(%s)", job)


@pytest.fixture(params=["queue", "pages"])
def jobs(request, pg, with_tables, script):
    made = Jobs(pg) if request.param == "queue" else Rows(pg, script.folder)
    made.where = request.param
    return made


@pytest.fixture(params=["sync", "async"])
def kind(request):
    return request.param


# Where a function and a coroutine differ, but not the queue and a table.
def each(*pairs):
    return pytest.mark.parametrize(("kind", "jobs"), pairs, indirect=True)


def start(script, kind, jobs, **env):
    return script(HANDLERS, kind, jobs.where, jobs.url, **env)


def counts(worker):
    line = next(line for line in worker.log.splitlines() if line.startswith("counts "))
    return json.loads(line[7:])


def test_handlers_end_jobs_in_every_way(script, kind, jobs):
    good, bad, never, later = map(jobs.add, ("good", "bad", "never", "later"))
    worker = start(script, kind, jobs)
    ends = {good: "done", bad: "failed", never: "failed", later: "done"}
    eventually(lambda: {job: jobs.state(job) for job in ends} == ends)
    assert worker.stop() == 0, worker.log
    assert (jobs.state(good), jobs.result(good)) == ("done", {"got": "good"}), worker.log
    assert (jobs.state(bad), jobs.error(bad)) == ("failed", "ValueError: no luck")
    assert (jobs.state(never), jobs.error(never)) == ("failed", "not this one")
    assert (jobs.state(later), jobs.result(later)) == ("done", {"got": "later"})
    assert counts(worker) == {"settled": 5, "refused": 0, "spooled": 0, "abandoned": 0}


@pytest.mark.covers("F2")
def test_a_job_of_a_killed_worker_runs_elsewhere(script, kind, jobs):
    job = jobs.add("slow")
    first = start(script, kind, jobs)
    first.wait_log(f"began {job} 1")
    second = start(script, kind, jobs, NAME="second")
    eventually(lambda: len(jobs.db.sql("SELECT 1 FROM defib.worker WHERE state = 'alive'")) == 2)
    first.kill()
    second.wait_log(f"began {job} ")
    (script.folder / "go").touch()
    eventually(lambda: jobs.state(job) == "done")
    assert second.stop() == 0, second.log


@pytest.mark.covers("F3")
@each(("sync", "pages"), ("async", "pages"))
def test_a_late_result_is_refused(script, kind, jobs):
    job = jobs.add("slow")
    worker = start(script, kind, jobs)
    worker.wait_log(f"began {job} 1")
    worker.signal(signal.SIGSTOP)
    jobs.take_away(job)
    (script.folder / "go").touch()
    worker.signal(signal.SIGCONT)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(patience()) == 0, worker.log
    assert counts(worker) == {"settled": 0, "refused": 1, "spooled": 0, "abandoned": 0}
    assert jobs.state(job) == "running"


@pytest.mark.covers("F3")
@each(("sync", "queue"), ("async", "pages"))
def test_a_lost_lease_is_an_exception(script, kind, jobs):
    job = jobs.add("polite")
    worker = start(script, kind, jobs)
    worker.wait_log(f"began {job} 1")
    jobs.db.sql("UPDATE defib.worker SET state = 'dead', cause = 'test'")
    worker.wait_log("LostLease")
    assert worker.stop() == 0, worker.log


@pytest.mark.covers("B10")
@each(("sync", "pages"), ("async", "queue"))
def test_a_cancelled_job_is_an_exception(script, kind, jobs):
    job = jobs.add("polite")
    worker = start(script, kind, jobs)
    worker.wait_log(f"began {job} 1")
    jobs.cancel(job)
    worker.wait_log("Cancelled")
    eventually(lambda: jobs.state(job) in ("cancelled", "failed"))
    assert worker.stop() == 0, worker.log


@pytest.mark.covers("D4")
@each(("sync", "queue"), ("async", "pages"))
def test_a_stop_releases_what_does_not_finish(script, kind, jobs):
    job = jobs.add("polite")
    worker = start(script, kind, jobs)
    worker.wait_log(f"began {job} 1")
    assert worker.stop() == 0, worker.log
    assert jobs.state(job) == "queued"
    assert jobs.db.sql("SELECT state FROM defib.worker") == [("left",)]


EARLY = """
import os, signal, sys
import defib
worker = defib.Worker(sys.argv[1])

@worker.queue("default", poll=0.1)
def handle(job):
    pass

start = worker._start

def started():
    if sys.argv[2] == "before":
        os.kill(os.getpid(), signal.SIGTERM)
    start()
    if sys.argv[2] == "after":
        os.kill(os.getpid(), signal.SIGTERM)

worker._start = started
worker.run()
"""


@pytest.mark.covers("D4")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_signal_while_a_worker_starts_stops_it_in_order(script, pg, with_tables, when):
    worker = script(EARLY, pg.url, when)
    assert worker.process.wait() == 0, worker.log
    assert pg.sql("SELECT state FROM defib.worker") == [("left",)]


LOOP = """
import asyncio, sys, time
import defib
worker = defib.Worker(sys.argv[1], drain=True)

@worker.queue("default", concurrency=8, poll=0.1)
async def handle(job):
    await asyncio.sleep(0.01)

@worker.queue("blocking", concurrency=4, poll=0.1)
def block(job):
    time.sleep(3)

async def main():
    longest, done = 0.0, asyncio.Event()
    async with worker:
        last = time.perf_counter()
        while not worker._ended.is_set():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
    print(worker.counts["settled"], longest)

asyncio.run(main())
"""


def test_the_event_loop_is_never_blocked(package, pg, with_tables):
    """Functions block their own threads, database calls the library's; the loop ticks on."""
    pg.sql("SELECT defib.enqueue('default', 'test') FROM generate_series(1, 40)")
    pg.sql("SELECT defib.enqueue('blocking', 'test') FROM generate_series(1, 4)")
    settled, longest = package.run(LOOP, pg.url).split()
    assert int(settled) == 44
    assert float(longest) < 3  # as long as one blocked handler alone would hold it


STEPS = """
import sys
import defib
worker = defib.Worker(sys.argv[1], drain=True)

def reserve(job):
    return {"lamp": job.payload["n"]}

async def charge(job):
    print("charges", job.step, job.output("reserve")["lamp"], job.undoing, flush=True)

def ship(job):
    raise defib.Permanent("no such address")

async def undo(job):
    print("undoes", job.step, job.output("reserve")["lamp"], job.undoing, flush=True)

worker.workflow([defib.Step("reserve", reserve, undo), defib.Step("charge", charge, undo, timeout=9),
                 defib.Step("ship", ship)], queue="orders", kind="order", saga=True)
worker.run()
"""


@pytest.mark.covers("C9")
def test_steps_are_functions_and_coroutines_and_are_undone_in_reverse(package, pg, with_tables):
    pg.sql("SELECT defib.enqueue('orders', 'order', %s)", json.dumps({"n": 7}))
    assert package.run(STEPS, pg.url).splitlines() == [
        "charges charge 7 False", "undoes charge 7 True", "undoes reserve 7 True"]
    (state, error), = pg.sql("SELECT state, error FROM defib.job")
    assert state == "rolled_back" and "no such address" in error


LIMITS = """
import sys, time
import defib
worker = defib.Worker(sys.argv[1], drain=True, grace=60)

def short(job):
    time.sleep(0.2)

def long(job):
    while not job.should_stop:
        time.sleep(0.05)
    job.check()

worker.workflow([defib.Step("short", short, timeout=100), defib.Step("long", long, timeout=1)],
                queue="limits", kind="both")
worker.run()
"""


def test_the_time_limit_of_a_step_is_in_seconds(package, pg, with_tables):
    """0.2 s are within 100 seconds, but not milliseconds; and one second does come to its end."""
    pg.sql("SELECT defib.enqueue('limits', 'both', max_attempts := 1)")
    package.run(LIMITS, pg.url)
    assert pg.sql("SELECT step, state FROM defib.step WHERE state = 'done'") == [("short", "done")]
    assert pg.sql("SELECT state, error FROM defib.job") == [("timed_out", "long: over its time limit")]
    took, = pg.sql("SELECT extract(epoch FROM ended_at - started_at)::float FROM "
                   "defib.step_attempt WHERE step = 'long'")[0]
    assert took >= 1


FORKS = """
import asyncio, os, sys
import defib
worker = defib.Worker(sys.argv[1], drain=True)

def fork(job):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    how = job.payload["how"]
    if how == "code":
        sys.exit(7)
    if how == "words":
        sys.exit("enough")
    if how == "raise":
        raise ValueError("in the child")
    if how == "retry":
        raise defib.Retry("in the child")
    return "from the child"

@worker.queue("functions")
def function(job):
    return fork(job)

@worker.queue("coroutines")
async def coroutine(job):
    return fork(job)

async def beside():
    async with worker:
        while not worker._ended.is_set():
            await asyncio.sleep(0.01)

if sys.argv[2] == "own":
    worker.run()
else:
    asyncio.run(beside())
print(worker.counts["settled"])
"""


@pytest.mark.parametrize("loop", ["own", "beside"])
def test_a_forked_child_ends_where_it_leaves_the_handler(package, pg, with_tables, loop):
    """It has none of the worker's threads: it would hang, with its job and the slot."""
    ends = {"code": 7, "words": 1, "raise": 1, "retry": 1, "return": 0}
    for queue in ("functions", "coroutines"):
        for how in ends:
            pg.sql("SELECT defib.enqueue(%s, 'fork', %s)", queue, json.dumps({"how": how}))
    assert package.run(FORKS, pg.url, loop).split() == ["10"]
    got = pg.sql("SELECT payload->>'how', result::text::int FROM defib.job_data")
    assert sorted(got) == sorted(list(ends.items()) * 2)
    assert pg.sql("SELECT DISTINCT state, attempts FROM defib.job") == [("done", 1)]


SETTLES = """
import sys, time
import psycopg
import defib
worker = defib.Worker(sys.argv[1])

@worker.queue("default")
def handle(job):
    with psycopg.connect(sys.argv[1]) as connection:
        connection.execute("INSERT INTO invoices VALUES (%s)", [job.id])
        job.settle(connection)
        if job.payload["fails"] and job.attempt == 1:
            raise defib.Retry("rolled back", after=0)

with worker, psycopg.connect(sys.argv[1], autocommit=True) as session:
    while session.execute("SELECT 1 FROM defib.job WHERE state <> 'done'").fetchone():
        time.sleep(0.02)
"""


def test_a_handler_settles_in_its_own_transaction(package, pg, with_tables):
    pg.sql("CREATE TABLE invoices (job bigint)")
    good, bad = (pg.sql("SELECT defib.enqueue('default', 'test', %s)", json.dumps({"fails": fails})
                        )[0][0] for fails in (False, True))
    package.run(SETTLES, pg.url)
    assert pg.sql("SELECT job FROM invoices ORDER BY job") == [(good,), (bad,)]
    assert pg.sql("SELECT DISTINCT state FROM defib.job") == [("done",)]


ENQUEUES = """
import asyncio, sys
import asyncpg, psycopg, psycopg2, sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
import defib
url = sys.argv[1]
alchemy = url.replace("postgres://", "postgresql+psycopg2://", 1)

def each(made):
    for commits in (True, False):
        yield made, commits

def options(driver, commits):
    return dict(queue=driver, kind="mail", payload={"to": driver}, priority=3, delay=0.5,
                unique_key=str(commits), tags=["a", "b"], timeout=5)

for commits in (True, False):
    for driver, connection in (
            ("psycopg", psycopg.connect(url)), ("psycopg2", psycopg2.connect(url)),
            ("cursor", psycopg2.connect(url).cursor()),
            ("session", Session(sqlalchemy.create_engine(alchemy)))):
        job = defib.enqueue(connection, **options(driver, commits))
        assert job > 0
        ends = getattr(connection, "connection", connection) if driver == "cursor" else connection
        ends.commit() if commits else ends.rollback()

async def main():
    engine = create_async_engine(url.replace("postgres://", "postgresql+asyncpg://", 1))
    for commits in (True, False):
        async with AsyncSession(engine) as session:
            await defib.enqueue_async(session, **options("asyncsession", commits))
            await (session.commit() if commits else session.rollback())
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await defib.enqueue_async(connection, **options("asyncpsycopg", commits))
            await (connection.commit() if commits else connection.rollback())
        connection = await asyncpg.connect(url)
        transaction = connection.transaction()
        await transaction.start()
        await defib.enqueue_async(connection, **options("asyncpg", commits))
        await (transaction.commit() if commits else transaction.rollback())
        await connection.close()
    await engine.dispose()

asyncio.run(main())
try:
    defib.enqueue(object(), "a", "b")
except TypeError as why:
    print(why)
"""


def test_enqueue_is_part_of_the_teams_own_transaction(package, pg, with_tables):
    said = package.run(ENQUEUES, pg.url)
    assert said == ("enqueue takes a connection of sqlalchemy, psycopg, psycopg2, asyncpg, not "
                    "object\n")
    rows = pg.sql("SELECT queue, kind, priority, timeout_ms, tags, payload FROM defib.job "
                  "JOIN defib.job_data ON job = id ORDER BY queue")
    assert [row[0] for row in rows] == ["asyncpg", "asyncpsycopg", "asyncsession", "cursor",
                                        "psycopg", "psycopg2", "session"]
    assert {row[1:5] for row in [(q, k, p, t, tuple(g)) for q, k, p, t, g, _ in rows]} == {
        ("mail", 3, 5000, ("a", "b"))}
    assert [row[5] for row in rows] == [{"to": row[0]} for row in rows]
