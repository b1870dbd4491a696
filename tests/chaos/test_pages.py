# SPDX-License-Identifier: Apache-2.0
"""One more than a page of everything that is read or written a page at a time.

A page is mostly 1,000; looks read 10,000. What is behind the first page must be done too, in the
same pass or in the next, and nothing that stays may keep what is behind it from being done.
"""

import json
import os

import pytest

from harness import stuck_jobs
from harness.act_table import Jobs
from harness.alerting import config as alert_config, webhook
from harness.daemon import Daemon
from harness.outages import Away, Outage
from harness.queue_workers import up_for
from harness.receivers import Receiver
from harness.retention import config as retention_config, fill as fill_ended
from harness.startup import IDLE, System
from harness.waiting import eventually, patience
from results import note

pytestmark = pytest.mark.proof

PAGE = 1000
MORE = PAGE + 1
LOOK = 10001


def own(db, name):
    return f"defib.{name}" if db.engine == "postgres" else f"defib_{name}"


def count(db, table, where="1 = 1"):
    return db.sql(f"SELECT count(*) FROM {table} WHERE {where}")[0][0]


@pytest.fixture(autouse=True)
def noted(request):
    yield
    if request.node.rep_call_passed:
        name = request.node.name.removeprefix("test_").replace("_", " ")
        note(__file__, f"one more than a page: {name}", "all of them", 1)


@pytest.fixture
def jobs(db, defib):
    """Rows by number, more than anybody wants to insert one by one."""
    def make(n, **watch):
        made = Jobs(db, defib, **watch)
        stuck_jobs.fill(db, n)
        made.n = n
        return made
    return make


# ---- a scan ----

@pytest.mark.parametrize("n", [MORE, LOOK])
def test_stuck_rows_of_a_watch(jobs, db, n):
    one = jobs(n)
    ran = one("scan", "--fix", "--json")
    assert ran.json["recovered"] == n
    assert count(db, "jobs", "status = 'queued'") == n
    assert stuck_jobs.entries(db) == n


@pytest.mark.parametrize("n", [MORE, LOOK])
def test_undo_of_a_batch(jobs, db, n):
    """One batch: as many rows in one transaction."""
    one = jobs(n, batch=n if n <= 10000 else 10000)
    assert one("scan", "--fix", "--json").json["recovered"] == n
    batches = db.sql(f"SELECT DISTINCT batch FROM {stuck_jobs.ledger(db)}")
    for batch, in batches:
        ran = one("undo", batch, "--yes", timeout=patience())
        assert ran.code == 0, ran.err
    assert count(db, "jobs", "status = 'running' AND error IS NULL") == n
    assert count(db, stuck_jobs.ledger(db), "event = 'UNDONE'") == n


def test_rows_of_which_the_first_page_is_refused(jobs, db):
    """A trigger keeps a thousand as they are: the one behind them is freed."""
    one = jobs(MORE, requeue="status = 'queued', error = :reason, owner = NULL")
    # The oldest come first: on PostgreSQL the highest numbers, on SQLite all have one age.
    last = 1 if db.engine == "postgres" else MORE
    refuse_but(db, last)
    one("scan", "--fix")
    assert db.sql("SELECT id FROM jobs WHERE status = 'queued'") == [(last,)]


def refuse_but(db, job):
    if db.engine == "postgres":
        db.sql("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
               "RAISE EXCEPTION 'no'; END$$")
        db.sql(f"CREATE TRIGGER no BEFORE UPDATE ON jobs FOR EACH ROW WHEN (OLD.id <> {job}) "
               "EXECUTE FUNCTION no()")
    else:
        session = db.connect()
        session.execute(f"CREATE TRIGGER no BEFORE UPDATE ON jobs WHEN OLD.id <> {job} BEGIN "
                        "SELECT RAISE(ABORT, 'no'); END")
        session.close()


# ---- holds ----

PARK = {"hold": "status = 'parked', error = :reason", "remedies": "[{do: hold}]"}


def test_holds_that_are_over_are_forgotten(jobs, db):
    one = jobs(MORE, **PARK)
    one("scan", "--fix")
    assert count(db, own(db, "hold")) == MORE
    db.sql("UPDATE jobs SET status = 'done'")
    for _ in range(2):
        one("scan", "--fix")
    assert count(db, own(db, "hold")) == 0


def test_a_hold_that_is_over_behind_a_page_that_is_in_force(jobs, db):
    one = jobs(MORE, **PARK)
    one("scan", "--fix")
    newest = db.sql(f"SELECT job FROM {own(db, 'hold')} ORDER BY at DESC, job DESC LIMIT 1")[0][0]
    db.sql("UPDATE jobs SET status = 'done' WHERE id = %s", int(newest))
    for _ in range(2):
        one("scan", "--fix")
    assert count(db, own(db, "hold")) == PAGE


@pytest.mark.parametrize("words", [PARK, {"remedies": "[{do: hold}]"}],
                         ids=["in-its-words", "in-our-table"])
def test_held_jobs_are_counted_as_they_are(jobs, db, words):
    """All but one moved on by themselves, without a word to us."""
    one = jobs(MORE, **words)
    one("scan", "--fix")
    assert one("stats", "jobs", "--json").json["watches"][0]["held"] == MORE
    now = "now()" if db.engine == "postgres" else "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    newest = db.sql(f"SELECT job FROM {own(db, 'hold')} ORDER BY at DESC, job DESC LIMIT 1")[0][0]
    db.sql(f"UPDATE jobs SET status = 'done', updated_at = {now} WHERE id <> %s", int(newest))
    assert one("stats", "jobs", "--json").json["watches"][0]["held"] == 1
    assert one("list", "--where", "held", "--ids").out.split() == [f"jobs/{newest}"]


def test_held_jobs_are_released_by_a_term(jobs, db):
    one = jobs(MORE, release="status = 'queued'", **PARK)
    one("scan", "--fix")
    assert one("release", "--where", "held", "--yes", timeout=patience()).code == 0
    assert count(db, "jobs", "status = 'queued'") == MORE and count(db, own(db, "hold")) == 0


# ---- retries ----

RETRY = {"remedies": "[{do: retry}]", "backoff": "{base: 10ms}", "attempts": "attempts",
         "max_attempts": "5",
         "retry": "{now: \"status = 'waiting'\", then: \"status = 'queued'\"}"}


def due(one, db):
    """A retry waits for each job, and is due."""
    one("scan", "--fix")
    assert count(db, own(db, "retry")) == MORE, one("scan").err
    assert count(db, "jobs", "status = 'waiting'") == MORE
    past = "now() - interval '1 hour'" if db.engine == "postgres" else "0"
    db.sql(f"UPDATE {own(db, 'retry')} SET due_at = {past}")


def test_retries_that_are_due(jobs, db):
    one = jobs(MORE, **RETRY)
    due(one, db)
    one("scan", "--fix")
    assert count(db, "jobs", "status = 'queued'") == MORE and count(db, own(db, "retry")) == 0


def test_a_retry_behind_a_page_that_is_refused(jobs, db):
    """The pass ends, and whatever becomes of the thousand, the one behind them is queued."""
    one = jobs(MORE, **RETRY)
    due(one, db)
    last = db.sql(f"SELECT job FROM {own(db, 'retry')} ORDER BY due_at DESC, job DESC LIMIT 1")[0][0]
    refuse_but(db, int(last))
    one("scan", "--fix", timeout=patience())
    assert db.sql("SELECT id FROM jobs WHERE status = 'queued'") == [(int(last),)]


def test_a_retry_behind_a_page_that_is_locked(pg, defib):
    """Somebody holds a thousand rows for long."""
    one = Jobs(pg, defib, **RETRY)
    stuck_jobs.fill(pg, MORE)
    due(one, pg)
    last = pg.sql("SELECT job FROM defib.retry ORDER BY due_at DESC, job DESC LIMIT 1")[0][0]
    holder = pg.connect()
    holder.autocommit = False
    holder.cursor().execute("SELECT 1 FROM jobs WHERE id <> %s FOR UPDATE", (int(last),))
    try:
        one("scan", "--fix", timeout=patience())
        assert pg.sql("SELECT id FROM jobs WHERE status = 'queued'") == [(int(last),)]
    finally:
        holder.close()


# ---- workers of the queue ----

def incarnation_of(queue, worker):
    """Of the host of a living worker; the rest is not that of any process."""
    text = queue.db.sql(f"SELECT incarnation FROM {queue.table('worker')} WHERE name = %s",
                        worker)[0][0]
    return "/".join(text.split("/")[:4]) + "/4194303/1/"


def give(queue, n, owners):
    """n running jobs of these owners in turn."""
    queue.bulk(n, "--max-attempts", "9")
    db, table = queue.db, queue.table("job")
    now = "now()" if db.engine == "postgres" else "unixepoch() * 1000"
    first, = db.sql(f"SELECT min(id) FROM {table}")[0]
    for i, owner in enumerate(owners):
        db.sql(f"UPDATE {table} SET state = 'running', owner = %s, epoch = 1, attempts = 1, "
               f"claimed_at = {now} WHERE mod(id - %s, %s) = %s", owner, first, len(owners), i)


def test_dead_workers_with_a_job_each(queue):
    """All of one host, gone without a word: the next worker of the host finds each by its exit."""
    living = queue.work("--queue", "other", "--name", "living")
    start, table = incarnation_of(queue, "living"), queue.table("worker")
    now = "now()" if queue.db.engine == "postgres" else "unixepoch() * 1000"
    far = "now() + interval '1 hour'" if queue.db.engine == "postgres" else \
        "(unixepoch() + 3600) * 1000"
    living.kill()
    for i in range(MORE):
        queue.db.sql(f"INSERT INTO {table} (name, incarnation, started_at, renewed_at, lease_ms, "
                     f"expires_at) VALUES (%s, %s, {now}, {now}, 3600000, {far})",
                     f"dead{i}", f"{start}{i:016x}")
    owners = [i for i, in queue.db.sql(f"SELECT id FROM {table} WHERE name LIKE 'dead%' "
                                       "ORDER BY id")]
    assert len(owners) == MORE
    give(queue, MORE, owners)
    queue.work("--queue", "other", "--name", "finder")
    eventually(lambda: count(queue.db, table, "state = 'dead'") >= MORE)
    eventually(lambda: count(queue.db, queue.table("job"), "state = 'queued'") == MORE)
    assert len(queue.ledger("REQUEUED")) == MORE


def test_jobs_that_a_worker_owns_and_does_not_have(queue):
    """As after a claim whose answer was lost; it finds each and hands it back."""
    queue.work("--queue", "other", "--name", "owner", "--lease", "3s")
    me, = queue.db.sql(f"SELECT id FROM {queue.table('worker')}")[0]
    give(queue, MORE, [me])
    eventually(lambda: count(queue.db, queue.table("job"), "state = 'queued'") == MORE)
    assert count(queue.db, queue.table("job"), "owner IS NOT NULL") == 0


def test_jobs_of_one_dead_worker(queue):
    living = queue.work("--queue", "other", "--name", "gone")
    me, = queue.db.sql(f"SELECT id FROM {queue.table('worker')}")[0]
    living.kill()
    give(queue, MORE, [me])
    queue.work("--queue", "other", "--name", "finder")
    eventually(lambda: count(queue.db, queue.table("job"), "state = 'queued'") == MORE)
    assert len(queue.ledger("REQUEUED")) == MORE


def test_delayed_jobs_that_become_due_at_once(queue):
    """A drain takes all of them, though they are made ready a page at a time."""
    queue.bulk(MORE, "--delay", "1h")
    past = "now() - interval '1 hour'" if queue.db.engine == "postgres" else \
        "(unixepoch() - 3600) * 1000"
    queue.db.sql(f"UPDATE {queue.table('job')} SET run_at = {past}")
    queue.drain("--concurrency", "20", program=["/bin/true"])
    assert count(queue.db, queue.table("job"), "state = 'done'") == MORE


@pytest.mark.parametrize("spool", [True, False], ids=["spool", "memory"])
def test_results_while_the_database_was_away(queue, request, spool):
    """More jobs end in an outage than one turn records."""
    wire = request.getfixturevalue("wire") if queue.db.engine == "postgres" else None
    outage = Outage(queue, wire)
    gate = queue.program.dir / "gate"
    os.mkfifo(gate)
    queue.bulk(MORE)
    ended = queue.program.dir / "ended"
    where = ["--spool", queue.program.dir / "spool" if spool else "off"]
    queue.work("--concurrency", str(MORE), "--lease", "10m", *where, url=outage.url,
               run=f"read x <{gate}; echo $DEFIB_JOB_ID >>{ended}")
    jobs = queue.table("job")
    eventually(lambda: count(queue.db, jobs, "state = 'running'") == MORE)
    outage.begin()
    writer = os.open(gate, os.O_RDWR)
    os.write(writer, b"\n" * MORE)
    eventually(lambda: ended.exists() and len(ended.read_text().split()) == MORE)
    outage.end()
    os.close(writer)
    eventually(lambda: count(queue.db, jobs, "state = 'done'") == MORE)
    assert sorted(map(int, ended.read_text().split())) == [i for i, in queue.all("id")]
    assert not queue.all("id", "epoch <> 1")


def test_new_jobs_kept_while_the_database_was_away(queue, tmp_path):
    """Enqueued one by one, each told that it is kept; then all of them go in, in order."""
    spool = tmp_path / "kept"
    many = tmp_path / "many.jsonl"
    away = Away(queue)
    away.spool = spool
    try:
        with away.now():
            for part in range(7):
                many.write_text("".join(f'{{"n": {part * 143 + i}}}\n' for i in range(143)))
                assert away.enqueue("--bulk", many).code == 0
        assert away.enqueue('{"n": 1001}').code == 0
        assert away.numbers() == [*range(1002)]
    finally:
        if away.wire:
            away.wire.close()


def test_cancelled_jobs(queue, defib):
    queue.bulk(MORE)
    ran = defib("cancel", "--watch", "queue", "--where", "state=queued", "--yes", db=queue.db)
    assert ran.code == 0, ran.err
    assert count(queue.db, queue.table("job"), "state = 'cancelled'") == MORE


# ---- a start, retention, what is read ----

def test_jobs_that_a_start_cleans_up(db, defib, with_tables):
    scristill = System("scristill", db, defib)
    try:
        scristill.insert("projects", name="p")
        scristill.change(*IDLE)
        project = scristill.cell("SELECT id FROM projects")
        insert(db, project, scristill.ago(10)[1])
        scristill.start()
        assert scristill.counts() == {"failed": MORE}
        assert len(scristill.entries()) == MORE
    finally:
        scristill.close()


def insert(db, project, at):
    if db.engine == "postgres":
        db.sql("INSERT INTO jobs (project_id, type, status, updated_at) SELECT %s, 'crawl', "
               "'running', now() - interval '10 seconds' FROM generate_series(1, %s)",
               project, MORE)
    else:
        db.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
               "INSERT INTO jobs (id, project_id, type, status, updated_at) SELECT "
               f"lower(hex(randomblob(16))), ?, 'crawl', 'running', {at} FROM n", MORE, project)


@pytest.mark.parametrize("n", [MORE, LOOK])
def test_old_jobs_that_retention_removes(db, defib, n):
    assert defib("init", db=db).code == 0
    fill_ended(db, n)
    ran = defib("prune", "--yes", "--json", config=retention_config(db))
    assert ran.code == 0 and ran.json["removed"]["done"] == n
    assert count(db, own(db, "job")) == 0 and count(db, own(db, "job_data")) == 0


@pytest.mark.parametrize("n", [MORE, LOOK])
def test_ledger_entries_that_are_read(jobs, db, n):
    one = jobs(n)
    one("scan", "--fix")
    ran = one("ledger", "--json", "--limit", n)
    listed = [json.loads(line) for line in ran.out.splitlines()]
    entries = listed[0]["entries"] if len(listed) == 1 and "entries" in listed[0] else listed
    assert sorted(int(e["job"]) for e in entries) == list(range(1, n + 1))
    assert one("ledger", "verify").code == 0


def test_messages_that_wait_for_a_sink(db, defib):
    """They came while the receiver was down; each reaches it once, and in order."""
    receiver = Receiver()
    stuck_jobs.make(db, 0)
    text = alert_config(db, webhook("hook", receiver), "hook")
    try:
        first = Daemon(defib, text)
        eventually(lambda: first.passes("jobs"))
        assert first.stop() == 0
        put_messages(db)
        daemon = Daemon(defib, text)
        try:
            eventually(lambda: count(db, own(db, "delivery"), "ended IS NULL") == 0)
        finally:
            daemon.kill()
        got = [one.json["n"] for one in receiver.got if "n" in one.json]
        assert got == list(range(1, MORE + 1))
    finally:
        receiver.close()


def put_messages(db):
    if db.engine == "postgres":
        db.sql("INSERT INTO defib.delivery (sink, id, kind, topic, document) SELECT 'hook', "
               "'m' || i, 'alert', 't', jsonb_build_object('n', i) "
               "FROM generate_series(1, %s) i", MORE)
    else:
        db.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
               "INSERT INTO defib_delivery (sink, id, kind, topic, document, made_at, due_at) "
               "SELECT 'hook', 'm' || i, 'alert', 't', json_object('n', i), "
               "unixepoch() * 1000, unixepoch() * 1000 FROM n", MORE)


# ---- daemons ----

def test_a_daemon_frees_a_backlog_behind_a_page(db, defib):
    stuck_jobs.make(db, MORE)
    up_for(db, 31)
    daemon = Daemon(defib, stuck_jobs.config(db, every="200ms"))
    try:
        eventually(lambda: stuck_jobs.requeued(db) == MORE)
        assert stuck_jobs.agree(db) == MORE
    finally:
        daemon.kill()
