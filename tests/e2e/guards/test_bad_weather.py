# SPDX-License-Identifier: Apache-2.0
"""Outages: servers that stop, die or hang, sessions that are ended, rows that are locked."""

import contextlib
import os
import signal
import threading

import pytest

from harness import stuck_jobs as jobs
from harness.databases import PgDatabase
from harness.pgserver import PgServer
from harness.waiting import eventually, patience

pytestmark = pytest.mark.long

EXIT_CLEAN, EXIT_STUCK, EXIT_DATABASE, EXIT_PARTLY = 0, 1, 4, 6
COMMANDS = {
    "scan": ["scan"],
    "fix": ["scan", "--fix"],
    "explain": ["explain", "jobs", "1"],
    "doctor": ["doctor"],
    "sql": ["sql", "jobs"],
}


def our_sessions(pg):
    return [row[0] for row in pg.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'defib%' "
        "AND datname = current_database()")]


SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END';
CREATE TRIGGER slow AFTER INSERT ON defib.ledger FOR EACH STATEMENT EXECUTE FUNCTION slow()
"""
MANY = 5_000


def slow_scan(defib, pg):
    """A scan of many jobs that takes 5 s on any machine: each of its batches waits."""
    jobs.make(pg, MANY)
    assert defib("init", db=pg).code == 0
    pg.sql(SLOW)
    return defib.start("scan", "--fix", config=jobs.config(pg, batch=100))


def recover_the_rest(defib, pg):
    pg.sql("DROP FUNCTION slow CASCADE")
    assert defib("scan", "--fix", config=jobs.config(pg)).code == EXIT_CLEAN
    assert jobs.agree(pg) == MANY


def recovered(pg):
    return pg.sql("SELECT count(*) FROM jobs WHERE status = 'queued'")[0][0]


@pytest.fixture
def own(server):
    """A database on a server that this test may damage."""
    database = PgDatabase(server)
    yield database
    database.drop()


# Stopped, not dead: nothing answers and nothing breaks.


def all_commands(defib, db):
    """Every command at once, each against the same database."""
    config = defib.dir / "defib.yaml"
    config.write_text(jobs.config(db))
    return {name: defib.start(*args, config=str(config)) for name, args in COMMANDS.items()}


def collect(children):
    """(exit code, output) of each; none hangs."""
    ended = {}
    for name, child in children.items():
        try:
            out, err = child.communicate(timeout=patience())
        finally:
            child.kill()
        ended[name] = (child.returncode, out + err)
    return ended


def test_stopped_server_while_we_connect(defib, own):
    jobs.make(own, 3)
    own.server.freeze()
    try:
        ended = collect(all_commands(defib, own))
    finally:
        own.server.thaw()
    for name, (code, said) in ended.items():
        assert code == EXIT_DATABASE, (name, said)
        assert "main" in said, name
        if name != "doctor":
            assert said.count("\n") == 1, (name, said)
    jobs.untouched(own, 3)


@contextlib.contextmanager
def slow(own):
    """Reading the table takes long enough to act meanwhile: it is locked."""
    holder = own.connect()
    holder.autocommit = False
    holder.cursor().execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
    try:
        yield
    finally:
        holder.rollback()
        holder.close()


def test_stopped_backends_while_we_wait(defib, own):
    """Neither the server's time-outs nor keepalives end this: only our own deadline."""
    jobs.make(own, 3)
    stopped = []
    with slow(own):
        children = all_commands(defib, own)
        try:
            eventually(lambda: len(our_sessions(own)) == len(children))
            stopped = our_sessions(own)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            ended = collect(children)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
    for name, (code, said) in ended.items():
        assert code == EXIT_DATABASE, (name, said)
        assert "main" in said, name
    jobs.untouched(own, 3)


def test_backend_stopped_in_the_middle_of_a_fix(defib, own):
    """What was done is reported and in the ledger; the next scan does the rest."""
    child = slow_scan(defib, own)
    eventually(lambda: recovered(own) >= 500)
    pids = our_sessions(own)
    os.kill(pids[0], signal.SIGSTOP)
    try:
        out, err = child.communicate(timeout=patience())
    finally:
        child.kill()
        os.kill(pids[0], signal.SIGCONT)
    assert child.returncode in (EXIT_PARTLY, EXIT_STUCK, EXIT_CLEAN), (out, err)
    eventually(lambda: pids[0] not in our_sessions(own))
    assert jobs.agree(own) >= 500
    recover_the_rest(defib, own)


def test_whole_server_stopped_in_the_middle_of_a_fix(defib, own):
    child = slow_scan(defib, own)
    eventually(lambda: recovered(own) >= 500)
    own.server.freeze()
    try:
        out, err = child.communicate(timeout=patience())
    finally:
        child.kill()
        own.server.thaw()
    assert child.returncode == EXIT_PARTLY, (out, err)
    assert len(err.strip().split("\n")) <= 2 and "main" in err
    eventually(lambda: not our_sessions(own))
    assert jobs.agree(own) >= 500


# Dead, and back again.


@pytest.mark.parametrize("how", ["killed", "stopped at once"])
def test_server_lost_in_the_middle_of_a_fix(defib, own, how):
    child = slow_scan(defib, own)
    eventually(lambda: recovered(own) >= 1000)
    own._session.close()
    if how == "killed":
        own.server.kill()
    else:
        own.server.stop(signal.SIGQUIT)
    out, err = child.communicate(timeout=patience())
    assert child.returncode in (EXIT_PARTLY, EXIT_DATABASE), (out, err)
    assert "main" in err
    own.server.start()
    assert 0 < jobs.agree(own) < MANY
    recover_the_rest(defib, own)


def test_ended_session_is_opened_again_and_the_scan_finishes(defib, pg):
    """Ended repeatedly, at random points."""
    child = slow_scan(defib, pg)
    ended = 0
    for mark in (100, 1_000, 2_000, 3_000):
        eventually(lambda mark=mark: recovered(pg) >= mark or child.poll() is not None)
        for pid in our_sessions(pg):
            ended += pg.sql("SELECT pg_terminate_backend(%s)", pid)[0][0]
    out, err = child.communicate(timeout=patience())
    assert child.returncode == EXIT_CLEAN, err
    assert ended >= 2
    assert "5,000 recovered" in out
    assert jobs.agree(pg) == MANY


# Time limits of the server, and locks of others.


def test_statement_timeout_is_said(defib, pg):
    jobs.make(pg, 3)
    config = jobs.config(pg, statement_timeout="300ms",
                         owner='"(SELECT owner FROM pg_sleep(3))"')
    ran = defib("scan", config=config)
    assert ran.code == EXIT_DATABASE, ran
    assert "timeout" in jobs.one_line(ran)
    assert "defib doctor" in ran.err


def test_table_lock_is_waited_for_within_bounds(defib, pg):
    jobs.make(pg, 3)
    with slow(pg):
        for name in ("fix", "explain"):
            ran = defib(*COMMANDS[name], config=jobs.config(pg))
            assert ran.code == EXIT_DATABASE, ran
            assert "lock" in jobs.one_line(ran)
    jobs.untouched(pg, 3)


def test_ledger_lock_is_waited_for_within_bounds(defib, pg):
    jobs.make(pg, 3)
    assert defib("scan", "--fix", "--limit", "1", config=jobs.config(pg)).code == EXIT_CLEAN
    holder = pg.connect()
    holder.autocommit = False
    holder.cursor().execute("LOCK TABLE defib.ledger IN EXCLUSIVE MODE")
    ran = defib("scan", "--fix", config=jobs.config(pg))
    assert ran.code == EXIT_DATABASE, ran
    assert "lock" in jobs.one_line(ran)
    holder.rollback()
    holder.close()
    assert jobs.agree(pg) == 1


def test_locked_row_is_counted_named_and_not_waited_for(defib, pg):
    jobs.make(pg, 100)
    holder = pg.connect()
    holder.autocommit = False
    cursor = holder.cursor()
    cursor.execute("SELECT pg_backend_pid()")
    pid = cursor.fetchone()[0]
    cursor.execute("UPDATE jobs SET owner = 'busy' WHERE id = 42")
    ran = defib("scan", "--fix", "--json", config=jobs.config(pg))
    # Had it waited, the lock time-out would have failed the whole batch.
    assert ran.code == EXIT_STUCK, ran
    assert (ran.json["recovered"], ran.json["locked"]) == (99, 1)
    job = [j for j in ran.json["watches"][0]["jobs"] if j["outcome"] == "locked"][0]
    assert (job["key"], job["locked_by_pid"]) == ("42", pid)
    assert 0 <= job["locked_for_s"] < 60
    holder.rollback()
    holder.close()
    assert jobs.agree(pg) == 99
    assert defib("scan", "--fix", config=jobs.config(pg)).code == EXIT_CLEAN


def test_writer_of_sqlite_is_waited_for_within_bounds(defib, lite):
    jobs.make(lite, 3)
    lite.sql("BEGIN IMMEDIATE")
    assert defib("scan", config=jobs.config(lite)).code == EXIT_STUCK
    ran = defib("scan", "--fix", config=jobs.config(lite))
    assert ran.code == EXIT_DATABASE, ran
    assert "lock" in jobs.one_line(ran)
    lite.sql("ROLLBACK")
    jobs.untouched(lite, 3)


class Worker(threading.Thread):
    """Beats its own row all the time."""

    def __init__(self, db, job):
        super().__init__()
        self.db, self.job = db, job
        self.beats, self.enough = 0, threading.Event()

    def run(self):
        session = self.db.connect()
        cursor = session.cursor()
        now = "now()" if self.db.engine == "postgres" else "datetime('now')"
        while not self.enough.is_set():
            cursor.execute(f"UPDATE jobs SET updated_at = {now} WHERE id = {self.job}")
            self.beats += 1
        session.close()


def test_workers_go_on_while_stuck_rows_are_freed(defib, db):
    n = 20_000
    jobs.make(db, n)
    db.sql("INSERT INTO jobs (id, status, updated_at) SELECT 0, 'running', "
           + ("now()" if db.engine == "postgres" else "datetime('now')"))
    worker = Worker(db, 0)
    worker.start()
    eventually(lambda: worker.beats > 10)
    before = worker.beats
    ran = defib("scan", "--fix", config=jobs.config(db))
    during = worker.beats - before
    worker.enough.set()
    worker.join()
    assert ran.code == EXIT_CLEAN, ran
    # One may have begun before the scan, and one may have waited for its end: the others did not.
    assert during > 2
    assert db.sql("SELECT status FROM jobs WHERE id = 0")[0][0] == "running"
    assert jobs.agree(db) == n


# Ended ourselves.


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_killed_scan_leaves_rows_and_ledger_agreeing(defib, db, sign):
    if db.engine == "postgres":
        child = slow_scan(defib, db)
    else:
        jobs.make(db, MANY)
        child = defib.start("scan", "--fix", config=jobs.config(db, batch=1))
    eventually(lambda: recovered(db) >= 100)
    child.send_signal(sign)
    child.communicate(timeout=patience())
    if db.engine == "postgres":
        eventually(lambda: not our_sessions(db))
        db.sql("DROP FUNCTION slow CASCADE")
    assert 100 <= jobs.agree(db) < MANY
    assert defib("scan", "--fix", config=jobs.config(db)).code == EXIT_CLEAN
    assert jobs.agree(db) == MANY


def test_standby_is_scanned_but_not_fixed(defib, own):
    """After a failover the old address may be a standby: that is reported, and nothing is tried."""
    jobs.make(own, 3)
    standby = PgServer(standby_of=own.server)
    try:
        standby.start()
        assert defib("scan", config=jobs.config(standby.url(own.name))).code == EXIT_STUCK
        ran = defib("scan", "--fix", config=jobs.config(standby.url(own.name)))
        assert ran.code == EXIT_DATABASE, ran
        assert "read-only" in jobs.one_line(ran) or "recovery" in jobs.one_line(ran)
    finally:
        standby.remove()
    jobs.untouched(own, 3)
