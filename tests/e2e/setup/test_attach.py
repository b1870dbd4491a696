# SPDX-License-Identifier: Apache-2.0
"""Tables that record which session claims their rows, and foreign programs under `defib run`."""

import datetime
import os
import signal
import socket
import subprocess
import sys
import types

import psycopg2
import pytest

from harness.attached_table import TABLE, claims, config, do, named
from harness.daemon import Daemon
from harness.databases import PgDatabase
from harness.http_daemon import serving
from harness.pooler import PGBOUNCER, Pooler
from harness.program import ROOT
from harness.queue_workers import Worker
from harness.waiting import eventually, running

CLAIM = "UPDATE jobs SET status = 'running' WHERE id = %s"
# A foreign worker: takes a job, prints that, and works forever; with `fork` a child does it.
STRANGER = ROOT / "tests" / "harness" / "foreign_program.py"


@pytest.fixture
def jobs(pg):
    pg.sql(TABLE)
    return pg


@pytest.fixture
def attached(jobs, defib):
    """The table of jobs with its trigger, and how to call the program for it."""
    ran = defib("attach", "jobs", "--yes", config=config(jobs))
    assert ran.code == 0, ran.err
    return jobs


# ---- attach


def test_a_claim_is_written_down_with_its_session(attached):
    session = named(attached, "crawler")
    do(session, CLAIM, 3)
    assert claims(attached) == [("3", "crawler", session.info.backend_pid)]
    do(session, "UPDATE jobs SET updated_at = now() WHERE id = 3")
    assert len(claims(attached)) == 1
    session.close()


# A type whose text depends on the session, a value, and settings that are not ours.
KEYS = [("timestamptz", "2026-01-02 03:04:05.678+00", {"TimeZone": "Asia/Kathmandu"}),
        ("timestamptz", "2026-01-02 03:04:05+00", {"DateStyle": "SQL, DMY"}),
        ("date", "2026-01-02", {"DateStyle": "German"}),
        ("interval", "1 mon 2 days 03:04:05", {"IntervalStyle": "sql_standard"}),
        ("bytea", "\\x00ff41", {"bytea_output": "escape"}),
        ("float8", "0.30000000000000004", {"extra_float_digits": "-3"})]


@pytest.mark.parametrize("kind, key, settings", KEYS, ids=[f"{k} {next(iter(s))}" for k, _, s in KEYS])
def test_a_claim_has_the_key_as_our_sessions_write_it(pg, defib, kind, key, settings):
    """Otherwise the job of a killed claimant is not found by its key."""
    pg.sql(f"CREATE TABLE jobs (id {kind} PRIMARY KEY, status text, worker text, "
           "updated_at timestamptz DEFAULT now())")
    pg.sql("INSERT INTO jobs (id, status) VALUES (%s, 'queued')", key)
    ran = defib("attach", "jobs", "--yes", config=config(pg))
    assert ran.code == 0, ran.err
    session = named(pg, "crawler")
    for name, value in settings.items():
        do(session, f"SET {name} = '{value}'")
    do(session, "UPDATE jobs SET status = 'running'")
    (job, _, _), = claims(pg)
    listed = defib("list", "--watch", "jobs", "--ids", config=config(pg))
    assert listed.out.strip() == f"jobs/{job}", listed
    session.close()


def test_a_role_that_cannot_make_functions_of_the_owner_is_told_who_can(jobs, defib):
    role = f"r_{jobs.name}"
    jobs.sql(f"CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE {jobs.name} TO {role}; "
             f"GRANT SELECT, TRIGGER ON jobs TO {role}")
    url = jobs.url + ("&" if "?" in jobs.url else "?") + f"user={role}"
    try:
        ran = defib("attach", "jobs", "--yes", config=config(jobs).replace(jobs.url, url))
        assert ran.code != 0 and "attach as a superuser, or as role" in ran.err, ran.err
        assert not jobs.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'defib'")
    finally:
        jobs.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.parametrize("over", ["UPDATE jobs SET status = 'done' WHERE id = 3",
                                  "DELETE FROM jobs WHERE id = 3"])
def test_what_no_longer_runs_is_nobodys(attached, over):
    attached.sql(CLAIM, 3)
    attached.sql(over)
    assert claims(attached) == []


def test_a_row_that_is_born_running_is_a_claim(attached):
    attached.sql("INSERT INTO jobs VALUES (10, 'running')")
    assert [row[0] for row in claims(attached)] == ["10"]


def test_another_owner_is_another_claim(jobs, defib):
    assert defib("attach", "jobs", "--yes", config=config(jobs, more="owner: worker")).code == 0
    first, second = named(jobs, "first"), named(jobs, "second")
    do(first, "UPDATE jobs SET status = 'running', worker = 'a' WHERE id = 1")
    do(second, "UPDATE jobs SET worker = 'b' WHERE id = 1")
    assert [row[1] for row in claims(jobs)] == ["second"]
    first.close()
    second.close()


def test_claims_by_functions_of_roles_without_rights_on_our_schema(attached):
    attached.sql("""
        CREATE ROLE stranger LOGIN;
        GRANT USAGE ON SCHEMA public TO stranger;
        CREATE FUNCTION take(int) RETURNS void LANGUAGE sql SECURITY DEFINER
            AS $$UPDATE jobs SET status = 'running' WHERE id = $1$$;
        GRANT SELECT, UPDATE ON jobs TO stranger""")
    try:
        session = named(attached, "by function", "stranger")
        do(session, "SELECT take(4)")
        do(session, CLAIM, 5)
        assert [row[:2] for row in claims(attached)] == [("4", "by function"), ("5", "by function")]
        session.close()
    finally:
        attached.sql("DROP OWNED BY stranger; DROP ROLE stranger")


def test_a_claim_by_a_deferred_trigger_under_another_role(attached):
    """It runs at the commit: since PostgreSQL 18 as the role that was active when the row changed,
    before as the role that commits."""
    attached.sql("""
        CREATE ROLE stranger LOGIN;
        CREATE TABLE orders (job int);
        CREATE TABLE ran_as (who text);
        CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
            UPDATE jobs SET status = 'running' WHERE id = NEW.job;
            INSERT INTO ran_as VALUES (current_user);
            RETURN NULL;
        END$$;
        CREATE CONSTRAINT TRIGGER take AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION take();
        GRANT SELECT, UPDATE ON jobs TO stranger;
        GRANT INSERT ON orders, ran_as TO stranger""")
    session = named(attached, "by order")
    try:
        do(session, "BEGIN; SET ROLE stranger; INSERT INTO orders VALUES (4); RESET ROLE; COMMIT")
        since_18 = attached.server.binaries.major >= 18
        assert attached.sql("SELECT who FROM ran_as") == [("stranger" if since_18 else "postgres",)]
        assert claims(attached) == [("4", "by order", session.info.backend_pid)]
    finally:
        session.close()
        attached.sql("DROP OWNED BY stranger; DROP ROLE stranger")


def test_a_composite_key_and_a_partitioned_table(pg, defib):
    pg.sql("""
        CREATE TABLE parts (name text, id int, status text NOT NULL, worker text,
            updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (name, id))
            PARTITION BY LIST (name);
        CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a "quoted" name')""")
    ran = defib("attach", "jobs", "--yes", config=config(pg, "parts", "[name, id]"))
    assert ran.code == 0, ran.err
    # Both a partition that was there and one that is made later, by its own name.
    pg.sql("CREATE TABLE parts_b PARTITION OF parts FOR VALUES IN ('b')")
    pg.sql("INSERT INTO parts VALUES ('a \"quoted\" name', 1, 'queued')")
    pg.sql("UPDATE parts SET status = 'running'")
    pg.sql("INSERT INTO parts_b VALUES ('b', 2, 'running')")
    assert [row[0] for row in claims(pg)] == ['["a \\"quoted\\" name","1"]', '["b","2"]']


@pytest.mark.parametrize("broken", ["DROP TABLE defib.claimed_by",
                                    "ALTER TABLE defib.claimed_by RENAME TO elsewhere",
                                    "REVOKE ALL ON defib.claimed_by FROM writer",
                                    "REVOKE ALL ON SCHEMA defib FROM writer",
                                    "REVOKE ALL ON SCHEMA defib FROM owner",
                                    "DROP FUNCTION defib.claim_write_jobs(text, text)",
                                    "ALTER TABLE jobs RENAME COLUMN worker TO by_whom"])
def test_nothing_that_breaks_in_the_trigger_breaks_a_claim(jobs, defib, broken):
    assert defib("attach", "jobs", "--yes", config=config(jobs, more="owner: worker")).code == 0
    jobs.sql("CREATE ROLE writer; CREATE ROLE owner; "
             "ALTER FUNCTION defib.claim_write_jobs(text, text) OWNER TO writer; "
             "ALTER FUNCTION defib.claimed_jobs() OWNER TO owner; "
             "GRANT EXECUTE ON FUNCTION defib.claim_write_jobs(text, text) TO owner; "
             "GRANT USAGE ON SCHEMA public, defib TO writer, owner; "
             "GRANT ALL ON defib.claimed_by TO writer")
    try:
        jobs.sql(CLAIM, 1)
        assert [row[0] for row in claims(jobs)] == ["1"]
        jobs.sql(broken)
        jobs.sql(CLAIM, 2)
        assert jobs.sql("SELECT status FROM jobs WHERE id = 2") == [("running",)]
    finally:
        jobs.sql("DROP OWNED BY owner, writer CASCADE; DROP ROLE owner; DROP ROLE writer")


def test_many_claims_in_one_transaction_take_no_subtransaction_ids(attached):
    """More than 64 subtransaction ids in one transaction overflow a cache that every snapshot of
    all sessions reads: the trigger takes none, however many rows are claimed."""
    attached.sql("INSERT INTO jobs SELECT n, 'queued' FROM generate_series(100, 299) n")
    session = named(attached, "many")
    with session.cursor() as cursor:
        def next_id():
            cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            return cursor.fetchone()[0]

        before = next_id()
        cursor.execute("UPDATE jobs SET status = 'running' WHERE id >= 100")
        session.autocommit = False
        for job in range(1, 10):
            cursor.execute(CLAIM, [job])
        session.commit()
        session.autocommit = True
        assert len(claims(attached)) == 209
        # One each, and what others on this server took meanwhile; a subtransaction a row is 209.
        assert next_id() - before < 100
    session.close()


def test_attaching_twice_changes_nothing(attached, defib):
    before = catalog(attached)
    ran = defib("attach", "jobs", "--yes", config=config(attached))
    assert (ran.code, ran.out) == (0, "watch jobs is already attached\n")
    assert catalog(attached) == before


def test_a_dry_run_prints_what_psql_takes_and_changes_nothing(jobs, defib):
    before = catalog(jobs)
    ran = defib("attach", "jobs", "--dry-run", config=config(jobs))
    assert ran.code == 0 and catalog(jobs) == before
    jobs.sql(ran.out)
    assert defib("attach", "jobs", "--yes", config=config(jobs)).out.endswith("already attached\n")


def test_a_busy_table_is_not_blocked(jobs, defib):
    other = jobs.connect()
    other.autocommit = False
    do(other, CLAIM, 1)
    ran = defib("attach", "jobs", "--yes", config=config(jobs))
    assert ran.code == 4
    assert "table jobs is busy" in ran.err and "nothing was changed" in ran.err
    assert jobs.sql("SELECT to_regclass('defib.claimed_by')") == [(None,)]
    other.close()


def test_sqlite_has_no_sessions(lite, defib):
    lite.sql("CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, worker TEXT, "
             "updated_at TEXT)")
    ran = defib("attach", "jobs", "--yes", config=config(lite))
    assert ran.code == 5 and "no sessions" in ran.err


@pytest.mark.parametrize(("change", "word"), [
    ("SELECT 1", "no row is running"),
    ("UPDATE jobs SET status = 'running' WHERE id = 3", "attached: claims are recorded"),
    ("ALTER TABLE jobs DISABLE TRIGGER defib_claimed_jobs", "disabled"),
    ("DROP TABLE defib.claimed_by", "missing"),
])
def test_doctor_says_how_it_is(attached, defib, change, word):
    attached.sql(change)
    ran = defib("doctor", "--json", config=config(attached))
    found, = [one for one in ran.json["findings"] if one["check"] == "attach"]
    assert word in found["text"]


def test_a_claim_that_writes_no_row_is_not_called_recoverable(jobs, defib):
    """As in Que: the claim is an advisory lock."""
    text = config(jobs).replace("running: status = 'running'", "running: EXISTS (SELECT FROM pg_locks "
                                "l WHERE l.locktype = 'advisory' AND l.objid = t.id)")
    ran = defib("attach", "jobs", "--yes", config=text)
    assert ran.code == 0 and "writes no row of jobs is not recorded" in ran.out, ran
    session = named(jobs, "crawler")
    do(session, "SELECT pg_advisory_lock(3)")
    found, = [one for one in defib("doctor", "--json", config=text).json["findings"]
              if one["check"] == "attach"]
    assert found["level"] == "warn" and "no claim is recorded" in found["text"], found
    session.close()


def test_doctor_says_that_the_watch_has_changed_since(attached, defib):
    ran = defib("doctor", config=config(attached, more="owner: worker"))
    assert "an earlier version of the watch" in ran.out and "defib db attach jobs" in ran.out
    assert defib("attach", "jobs", "--yes",
                 config=config(attached, more="owner: worker")).code == 0
    assert "an earlier version of the watch" not in defib(
        "doctor", config=config(attached, more="owner: worker")).out


# ---- detach


def catalog(pg):
    """Everything in the database that a user could find."""
    return pg.sql("""
        SELECT 'relation', c.oid::regclass::text, c.relkind::text, c.relhastriggers::text
        FROM pg_class c WHERE c.relnamespace::regnamespace::text NOT IN
            ('pg_catalog', 'information_schema', 'pg_toast')
        UNION ALL SELECT 'function', p.oid::regprocedure::text, p.prosrc, NULL FROM pg_proc p
        WHERE p.pronamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
        UNION ALL SELECT 'trigger', t.tgname, t.tgrelid::regclass::text, t.tgenabled::text
        FROM pg_trigger t
        UNION ALL SELECT 'schema', n.nspname, NULL, NULL FROM pg_namespace n
        WHERE n.nspname NOT LIKE 'pg\\_%'
        UNION ALL SELECT 'type', t.oid::regtype::text, NULL, NULL FROM pg_type t
        WHERE t.typnamespace::regnamespace::text NOT IN
            ('pg_catalog', 'information_schema', 'pg_toast')
        ORDER BY 1, 2, 3""")


def test_detach_leaves_no_trace(jobs, defib):
    # The flag of a table that once had triggers is the database's own, and stays.
    jobs.sql("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
             "CREATE TRIGGER own AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()")
    before = catalog(jobs)
    assert defib("attach", "jobs", "--yes", config=config(jobs)).code == 0
    jobs.sql(CLAIM, 1)
    assert catalog(jobs) != before
    ran = defib("detach", "jobs", "--yes", config=config(jobs))
    assert ran.code == 0 and "removed its trigger" in ran.out and "schema defib" in ran.out
    assert catalog(jobs) == before
    again = defib("detach", "jobs", "--yes", config=config(jobs))
    assert (again.code, again.out) == (0, "nothing to remove: watch jobs is not attached\n")


def test_detach_leaves_other_watches_and_the_ledger_alone(attached, defib):
    attached.sql("CREATE TABLE others (LIKE jobs INCLUDING ALL)")
    others = config(attached, "others").replace("name: jobs", "name: others")
    assert defib("attach", "others", "--yes", config=others).code == 0
    assert defib("scan", "--fix", config=others).code == 0
    attached.sql(CLAIM, 1)
    ran = defib("detach", "jobs", "--yes", config=others)  # no longer configured
    assert ran.code == 0, ran.err
    attached.sql("INSERT INTO others VALUES (1, 'running')")
    assert claims(attached) == [] and len(claims(attached, "others")) == 1
    assert defib("detach", "others", "--yes", config=others).code == 0
    assert attached.sql("SELECT to_regclass('defib.claimed_by'), "
                        "to_regclass('defib.ledger') IS NOT NULL") == [(None, True)]


# ---- run


class Runs:
    """Programs under `defib run`, gone when the test ends."""

    def __init__(self, defib, pg):
        self.defib = defib
        self.pg = pg
        self.more = ""
        self.all = []

    def __call__(self, *argv, options=("--watch", "jobs")):
        log = self.defib.dir / f"run{len(self.all)}.log"
        with open(log, "w", encoding="utf-8") as out:
            path = self.defib.dir / "defib.yaml"
            path.write_text(config(self.pg, more=self.more))
            process = self.defib.start("run", "-c", path, *options, "--", *argv, stdout=out,
                                       stderr=out, start_new_session=True)
        self.all.append(Worker(process, log))
        return self.all[-1]

    def stranger(self, job, how="work", url=None):
        """A foreign worker that has the job: its `defib run`, and its pid."""
        run = self(sys.executable, STRANGER, url or self.pg.url, str(job), how)
        run.wait_log("took ")
        return run, int(run.log.split("took ")[1].split()[0])

    def close(self):
        for run in self.all:
            for line in run.log.splitlines():
                if line.startswith("took "):
                    end(int(line.split()[1]))
            run.kill()


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.fixture
def run(attached, defib):
    own = Runs(defib, attached)
    yield own
    own.close()


def state(pg, job):
    return pg.sql("SELECT status FROM jobs WHERE id = %s", job)[0][0]


def ledger(pg, job):
    return pg.sql("SELECT event, verdict, rule, evidence FROM defib.ledger WHERE job = %s "
                  "ORDER BY id", str(job))


def test_a_killed_program_gives_back_exactly_what_it_had(run, attached):
    living, _ = run.stranger(1)
    killed, pid = run.stranger(2)
    attached.sql(CLAIM, 3)  # by a session of nobody's
    os.kill(pid, signal.SIGKILL)
    assert killed.wait() == 128 + signal.SIGKILL
    assert [state(attached, n) for n in (1, 2, 3)] == ["running", "queued", "running"]
    (event, verdict, _, evidence), = ledger(attached, 2)
    assert (event, verdict, evidence["law"]) == ("REQUEUED", "dead", "exit-seen")
    assert evidence["exit"] == "signal 9 (KILL)"
    assert evidence["session"].startswith("defib-run:python3")
    assert ledger(attached, 1) == ledger(attached, 3) == []
    assert "recovered 1" in killed.log and living.process.poll() is None
    assert attached.sql("SELECT count(*) FROM defib.program") == [(1,)]


def test_signals_are_passed_on_and_the_exit_status_comes_back(run, attached):
    wrapper, _ = run.stranger(1, "polite")
    wrapper.signal(signal.SIGTERM)
    assert wrapper.wait() == 7
    assert "told to end" in wrapper.log
    assert state(attached, 1) == "queued"
    assert ledger(attached, 1)[0][3]["exit"] == "exit 7"


def test_stdio_and_arguments_are_the_programs_own(run):
    wrapper = run("sh", "-c", 'printf "%s|" "$@" "${PGAPPNAME%:*}"', "sh", "a b", "--json",
                  options=("--watch", "jobs", "--name", "näme/x"))
    assert wrapper.wait() == 0
    assert wrapper.log == "a b|--json|defib-run:nmex|"


def test_a_clean_end_frees_too_but_is_no_crash(run, attached):
    run.more = "crash_budget: {max: 1, within: 1h}"
    for _ in range(2):
        wrapper, _ = run.stranger(1, "forget")
        assert wrapper.wait() == 0
        assert state(attached, 1) == "queued"
    assert {row[3]["clean"] for row in ledger(attached, 1)} == {True}
    wrapper, pid = run.stranger(1)
    os.kill(pid, signal.SIGKILL)
    wrapper.wait()
    assert [row[0] for row in ledger(attached, 1)] == ["REQUEUED", "REQUEUED", "HELD"]


def test_what_a_forked_worker_has_waits_for_its_end(run, attached):
    wrapper, pid = run.stranger(1, "fork")
    leader, = wrapper.children()
    os.kill(leader, signal.SIGKILL)
    wrapper.wait_log("still running; waiting")
    assert wrapper.process.poll() is None and state(attached, 1) == "running"
    os.kill(pid, signal.SIGKILL)
    assert wrapper.wait() == 128 + signal.SIGKILL
    assert state(attached, 1) == "queued"


def test_a_session_that_the_role_may_not_see_counts_as_open(attached, defib):
    """Without pg_read_all_stats, a role does not learn when the session of another one began."""
    assert defib("init", db=attached).code == 0
    attached.sql("CREATE ROLE runner LOGIN; GRANT USAGE ON SCHEMA defib TO runner; "
                 "GRANT ALL ON ALL TABLES IN SCHEMA defib TO runner; "
                 "GRANT ALL ON ALL SEQUENCES IN SCHEMA defib TO runner; "
                 "GRANT SELECT, UPDATE ON jobs TO runner")
    runs = Runs(defib, types.SimpleNamespace(url=attached.server.url(attached.name, "runner")))
    try:
        wrapper, pid = runs.stranger(1, "fork", url=attached.url)
        leader, = wrapper.children()
        os.kill(leader, signal.SIGKILL)
        wrapper.wait_log("still running; waiting")
        assert state(attached, 1) == "running", wrapper.log
        os.kill(pid, signal.SIGKILL)
        wrapper.wait()
        assert state(attached, 1) == "queued", wrapper.log
    finally:
        runs.close()
        attached.sql("DROP OWNED BY runner; DROP ROLE runner")


def many_jobs(pg, count):
    pg.sql("INSERT INTO jobs SELECT n, 'queued' FROM generate_series(100, 99 + %s) n", count)
    return f"100-{99 + count}"


def all_free(pg, count):
    """Each of the jobs is recovered and in the ledger once, and nothing is kept of the program."""
    assert pg.sql("SELECT status, count(*) FROM jobs WHERE id >= 100 GROUP BY 1") == [
        ("queued", count)]
    assert pg.sql("SELECT count(*), count(DISTINCT job) FROM defib.ledger") == [(count, count)]
    assert pg.sql("SELECT (SELECT count(*) FROM defib.claimed_by), "
                  "(SELECT count(*) FROM defib.program)") == [(0, 0)]


def test_a_program_with_more_claims_than_a_page_has_all_of_them_freed(run, attached):
    """2,500 claims: the first thousand were freed, and the claims of the rest were deleted."""
    wrapper, pid = run.stranger(many_jobs(attached, 2500))
    os.kill(pid, signal.SIGKILL)
    assert wrapper.wait() == 128 + signal.SIGKILL
    all_free(attached, 2500)
    assert "recovered 2500" in wrapper.log


def test_a_claim_that_waits_keeps_the_row_of_its_program(run, attached):
    """A job that a lock protects from recovery is still known, with all later claims."""
    wrapper, pid = run.stranger(many_jobs(attached, 1200))
    holder = psycopg2.connect(attached.url)
    holder.cursor().execute("SELECT 1 FROM jobs WHERE id = 100 FOR UPDATE")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: attached.sql("SELECT count(*) FROM defib.ledger") == [(1199,)])
    assert [job for job, _, _ in claims(attached)] == ["100"]
    assert attached.sql("SELECT count(*) FROM defib.program") == [(1,)]
    holder.close()
    assert wrapper.wait() == 128 + signal.SIGKILL
    all_free(attached, 1200)


def killed_wrapper(run, job):
    """A foreign worker whose `defib run` was killed before it."""
    wrapper, pid = run.stranger(job)
    wrapper.kill()
    assert running(pid)
    return pid


def test_a_killed_wrapper_leaves_the_program_alone_and_the_next_run_frees(run, attached):
    pid = killed_wrapper(run, 1)
    assert run("true").wait() == 0
    assert state(attached, 1) == "running", "its program lives"
    end(pid)
    eventually(lambda: not running(pid))
    assert run("true").wait() == 0
    assert state(attached, 1) == "queued"
    assert ledger(attached, 1)[0][3]["exit"] == "gone, unseen"
    assert attached.sql("SELECT count(*) FROM defib.program") == [(0,)]


def test_a_killed_wrapper_leaves_it_to_the_daemon(run, attached, defib):
    """All of it: more claims than are read at a time."""
    pid = killed_wrapper(run, many_jobs(attached, 2500))
    end(pid)
    daemon = Daemon(defib, config(attached, more="every: 1h"))
    try:
        eventually(lambda: attached.sql("SELECT count(*) FROM defib.program") == [(0,)])
        all_free(attached, 2500)
    finally:
        daemon.kill()


HIDDEN = ["unshare", "--mount", "sh", "-c",
          'mount -t proc -o hidepid=ptraceable proc /proc && '
          'exec setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$@"', "sh"]


@pytest.fixture
def seeing_only_its_own(defib, monkeypatch):
    """From now on the program runs where /proc shows it no process of another user."""
    probe = subprocess.run([*HIDDEN, "true"], capture_output=True, text=True, check=False)
    if os.getuid() != 0 or probe.returncode:
        pytest.skip(f"processes cannot be hidden here: {probe.stderr.strip()}")
    plain = defib._argv

    def start():
        monkeypatch.setattr(defib, "_argv", lambda *args: [*HIDDEN, *plain(*args)])
    return start


def test_a_daemon_that_may_not_see_a_living_program_leaves_it_alone(run, attached,
                                                                    seeing_only_its_own):
    lives = run("setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c",
                STRANGER.read_text(), attached.url, "1", "work")
    lives.wait_log("took ")
    end(killed_wrapper(run, 2))
    seeing_only_its_own()
    daemon = Daemon(run.defib, config(attached, more="every: 1h"))
    try:
        # Programs are looked at in the order in which they were started.
        eventually(lambda: state(attached, 2) == "queued")
        assert state(attached, 1) == "running"
    finally:
        daemon.kill()


def test_a_database_that_is_away_at_the_end_is_waited_for(server, defib):
    own = PgDatabase(server)
    own.sql(TABLE)
    assert defib("attach", "jobs", "--yes", config=config(own)).code == 0
    run = Runs(defib, own)
    try:
        wrapper, pid = run.stranger(1)
        own.hang_up()
        server.stop(signal.SIGQUIT)
        end(pid)
        eventually(lambda: not running(pid))
        server.start()
        assert wrapper.wait() == 128 + signal.SIGKILL
        assert state(own, 1) == "queued"
    finally:
        run.close()


def test_through_a_pooler_a_program_keeps_its_name(run, attached):
    if not PGBOUNCER.exists():
        pytest.skip("pgbouncer is not installed")
    pooler = Pooler(attached.server)
    try:
        url = pooler.url(attached.name)
        other = psycopg2.connect(url, application_name="another")
        other.autocommit = True
        do(other, CLAIM, 2)
        _, pid = run.stranger(1, url=url)
        assert [row[1].split(":")[0] for row in claims(attached)] == ["defib-run", "another"]
        end(pid)
        eventually(lambda: state(attached, 1) == "queued")
        assert state(attached, 2) == "running"
        other.close()
    finally:
        pooler.stop()


def test_without_attach_it_says_what_to_do(jobs, defib):
    ran = defib("run", "--watch", "jobs", "--", "true", config=config(jobs))
    assert ran.code == 5
    assert ran.err == "defib: watch jobs is not attached; run: defib db attach jobs\n"


@pytest.mark.parametrize(("argv", "says"), [
    (["--watch", "jobs"], "give a program to run"),
    (["--watch", "jobz", "--", "true"], 'there is no watch "jobz"'),
    (["--watch", "jobs", "--", "/no/such/program"], "cannot run /no/such/program"),
])
def test_bad_input_is_one_line(attached, defib, argv, says):
    path = defib.dir / "defib.yaml"
    path.write_text(config(attached))
    ran = defib("run", "-c", path, *argv)
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1
    assert attached.sql("SELECT count(*) FROM defib.program") == [(0,)]


@pytest.mark.parametrize("command", ["show", "explain"])
def test_who_claimed_a_job_is_shown(attached, defib, command):
    session = named(attached, "crawler")
    do(session, CLAIM, 3)
    ran = defib(command, "jobs/3", config=config(attached))
    line, = [line for line in ran.out.splitlines() if line.split()[:1] == ["claimed"]]
    assert f"crawler (pid {session.info.backend_pid})" in line
    session.close()


@pytest.mark.parametrize("command", ["show", "explain"])
def test_who_claimed_a_job_is_in_json(attached, defib, command):
    session = named(attached, "<b>crawler</b>")
    do(session, CLAIM, 3)
    claim = defib(command, "jobs/3", "--json", config=config(attached)).json["claim"]
    since, = attached.sql("SELECT date_trunc('milliseconds', at) FROM defib.claimed_by "
                          "WHERE job = '3'")[0]
    assert datetime.datetime.fromisoformat(claim.pop("since")) == since
    assert claim == {"application": "<b>crawler</b>", "pid": session.info.backend_pid,
                     "program": None, "host": None}
    session.close()
    assert defib(command, "jobs/4", "--json", config=config(attached)).json["claim"] is None


def test_a_claim_names_the_program_and_its_host(run, attached, defib):
    run.stranger(1)
    claim = defib("show", "jobs/1", "--json", config=config(attached)).json["claim"]
    assert claim["application"].startswith("defib-run:python3")
    assert claim["host"] == socket.gethostname()
    assert claim["program"] == f"{sys.executable} {STRANGER}"
    line, = [line for line in defib("explain", "jobs/1", config=config(attached)).out.splitlines()
             if line.split()[:1] == ["claimed"]]
    assert f" of {claim['program']} on {claim['host']} at " in line


def test_who_may_not_read_our_schema_is_shown_the_job_without_its_claim(attached, defib):
    attached.sql(CLAIM, 3)
    attached.sql("CREATE ROLE onlooker LOGIN; GRANT USAGE ON SCHEMA public TO onlooker; "
                 "GRANT SELECT ON jobs TO onlooker")
    try:
        url = attached.server.url(attached.name, "onlooker")
        ran = defib("show", "jobs/3", "--json",
                    config=config(attached).replace(attached.url, url))
        assert ran.code == 0 and ran.json["claim"] is None
    finally:
        attached.sql("DROP OWNED BY onlooker; DROP ROLE onlooker")


def test_the_claim_is_in_the_api(attached, defib):
    session = named(attached, "crawler")
    do(session, CLAIM, 3)
    with serving(defib.dir, config(attached), "--no-queue") as web:
        eventually(web.ready)
        for path in ("/api/v1/watches/jobs/jobs/3", "/api/v1/watches/jobs/explain/3"):
            claim = web.get(path).json["claim"]
            assert (claim["application"], claim["pid"]) == ("crawler", session.info.backend_pid)
        standing, = web.get("/api/v1/watch-status").json["watches"]
        assert standing["attached"] == {"disabled": False, "programs": 0}
    session.close()


def attached_line(ran):
    return [line.split(maxsplit=1)[1] for line in ran.out.splitlines()
            if line.split()[:1] == ["attached"]]


def status(defib, pg):
    ran = defib("status", "jobs", "--json", config=config(pg))
    return ran.json["watches"][0]["attached"], defib("status", "jobs", config=config(pg))


def test_status_says_that_a_watch_is_attached_and_how_many_programs_run(run, attached, defib):
    told, text = status(defib, attached)
    assert told == {"disabled": False, "programs": 0}
    assert attached_line(text) == ["0 programs under defib run now"]
    _, pid = run.stranger(1)
    other, _ = run.stranger(2)
    told, text = status(defib, attached)
    assert told == {"disabled": False, "programs": 2}
    assert attached_line(text) == ["2 programs under defib run now"]
    # The program counts, not the `defib run` over it.
    other.kill()
    assert status(defib, attached)[0]["programs"] == 2
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: status(defib, attached)[0]["programs"] == 1)


def test_status_says_that_the_trigger_is_disabled(attached, defib):
    attached.sql("ALTER TABLE jobs DISABLE TRIGGER defib_claimed_jobs")
    told, text = status(defib, attached)
    assert told["disabled"] is True
    assert "defib db attach jobs" in attached_line(text)[0]


def test_status_of_a_watch_that_is_not_attached_says_nothing_of_it(jobs, defib):
    told, text = status(defib, jobs)
    assert told is None and attached_line(text) == []
