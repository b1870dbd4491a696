# SPDX-License-Identifier: Apache-2.0
"""A failover that loses the last claims: no claim is mistaken for another, no old primary is used.
"""

import pytest

from harness.pgserver import PgServer
from harness.queue_workers import Wire, Worker
from harness.waiting import eventually

JOBS = 4
# Each run writes a line and waits until it may end.
RUN = ('trap \'echo "$DEFIB_TOKEN" >>stopped; exit 1\' TERM; '
       'echo "$DEFIB_JOB_ID $DEFIB_EPOCH $DEFIB_TOKEN" >>runs; '
       'await go')


class Pair:
    """A primary and its asynchronous standby; `lead` is where tests write."""

    def __init__(self, defib):
        self.defib, self.dir = defib, defib.dir
        self.workers = []
        self.old = self.new = None
        # Written at the commit, so that a test knows what the standby has.
        self.old = PgServer({"synchronous_commit": "local"}).start()
        self.new = PgServer({"synchronous_commit": "local"}, standby_of=self.old).start()
        self.lead = self.old
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self.old, self.new))
        self.url = f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def sql(self, query, server=None):
        session = (server or self.lead).connect()
        try:
            with session.cursor() as cursor:
                cursor.execute(query)
                return cursor.fetchall() if cursor.description else []
        finally:
            session.close()

    def caught_up(self):
        """Whether the standby has all that the primary wrote."""
        at, = self.sql("SELECT pg_current_wal_insert_lsn()", self.old)[0]
        return self.sql(f"SELECT pg_last_wal_replay_lsn() >= '{at}'", self.new)[0][0]

    def fail_over(self):
        self.old.kill()
        self.new.start()
        self.new.promote()
        self.lead = self.new

    def work(self, url=None):
        log = self.dir / f"worker{len(self.workers)}.log"
        with open(log, "wb") as out:
            process = self.defib.start(
                "work", "--db", url or self.url, "--name", "anna", "--spool", self.dir / "spool",
                "--concurrency", str(4 * JOBS), "--", "/bin/sh", "-c", RUN, stdout=out, stderr=out)
        worker = Worker(process, log)
        self.workers.append(worker)
        worker.wait_log("worker started")
        return worker

    def ready(self):
        """Jobs scheduled for a distant day are made due now."""
        self.sql("UPDATE defib.job SET run_at = now() WHERE state = 'scheduled'")

    def runs(self):
        path = self.dir / "runs"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def until(self, what):
        try:
            eventually(what)
        except AssertionError as failed:
            logs = "\n".join(w.log for w in self.workers)
            said = (self.dir / "stopped").read_text() if (self.dir / "stopped").exists() else ""
            raise AssertionError(f"{failed}\n{self.runs()}\n{said}\n{logs}") from None

    def states(self):
        return [s for s, in self.sql("SELECT state FROM defib.job ORDER BY id")]

    def close(self):
        for worker in self.workers:
            worker.kill()
        for server in (self.new, self.old):
            if server:
                server.remove()


@pytest.fixture
def pair(defib):
    own = Pair(defib)
    yield own
    own.close()


def test_claims_that_a_fail_over_loses(pair):
    ran = pair.defib("init", "--db", pair.url)
    assert ran.code == 0, ran.err
    for _ in range(JOBS):
        ran = pair.defib("enqueue", "default", "test", "--delay", "1d", "--db", pair.url)
        assert ran.code == 0, ran.err
    first = pair.work()
    pair.until(pair.caught_up)
    # From here on the standby receives nothing: what is claimed now is lost.
    pair.new.stop()
    pair.ready()
    pair.until(lambda: len(pair.runs()) == JOBS)
    pair.fail_over()
    pair.ready()
    pair.until(lambda: len(pair.runs()) >= 2 * JOBS)
    # A run whose claim is lost is told to stop.
    stopped = pair.dir / "stopped"
    lost = {token for _, _, token in pair.runs()[:JOBS]}
    pair.until(lambda: stopped.exists() and set(stopped.read_text().split()) == lost)
    (pair.dir / "go").touch()
    pair.until(lambda: pair.states() == ["done"] * JOBS)
    runs = pair.runs()
    claims = [(job, epoch) for job, epoch, _ in runs]
    assert len(set(claims)) < len(claims), "no epoch was given twice: the test shows nothing"
    assert len({token for _, _, token in runs}) == len(runs)
    for job in {job for job, _, _ in runs}:
        tokens = [token for one, _, token in runs if one == job]
        assert tokens == sorted(tokens)
    first.wait_log("the server failed over")
    old_primary_is_refused(pair)


def test_no_worker_id_is_given_twice(pair):
    """Two workers of one id would settle and release each other's claims."""
    ran = pair.defib("init", "--db", pair.url)
    assert ran.code == 0, ran.err
    pair.until(pair.caught_up)
    pair.new.stop()
    lost, = pair.sql("SELECT defib.register('lost', 'test/lost')")[0]
    pair.fail_over()
    next_one, = pair.sql("SELECT defib.register('next', 'test/next')")[0]
    number = lambda worker: worker // 1_000_000_000  # noqa: E731
    assert number(lost) == 1
    assert number(next_one) > number(lost)
    assert pair.sql("SELECT id, name FROM defib.worker") == [(next_one, "next")]


LOCKS = """SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
           WHERE l.locktype = 'advisory' AND a.application_name = 'defib'"""
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'defib'"


def test_a_standby_that_is_promoted_under_its_sessions(pair):
    """As behind a proxy that leads to the next primary a moment too early."""
    ran = pair.defib("init", "--db", pair.url)
    assert ran.code == 0, ran.err
    wire = Wire(pair.old)
    try:
        pair.work(f"postgres://postgres@127.0.0.1:{wire.port}/postgres?sslmode=disable")
        pair.until(pair.caught_up)
        wire.target = ("127.0.0.1", pair.new.port)
        pair.old.kill()
        pair.lead = pair.new
        pair.until(lambda: pair.sql(SESSIONS)[0][0] >= 2)
        # Whoever sees a lock there would miss it when the session ends, and its worker with it.
        for _ in range(20):
            assert pair.sql(LOCKS) == [(0,)]
        pair.new.promote()
        (pair.dir / "go").touch()
        for _ in range(JOBS):
            ran = pair.defib("enqueue", "default", "test", "--db", pair.new.url())
            assert ran.code == 0, ran.err
        pair.until(lambda: pair.states() == ["done"] * JOBS)
        pair.until(lambda: pair.sql(LOCKS)[0][0] >= 2)
        assert [token[:9] for _, _, token in pair.runs()] == ["00000002-"] * JOBS
    finally:
        wire.close()


def old_primary_is_refused(pair):
    """It returns, is first in the URL and accepts writes; the next worker still refuses it."""
    pair.old.start()
    assert pair.sql("SELECT pg_is_in_recovery()", pair.old) == [(False,)]
    before = pair.sql("SELECT count(*) FROM defib.worker", pair.old)
    assert pair.workers[0].stop() == 0
    second = pair.work()
    second.wait_log("refusing an old primary")
    ran = pair.defib("enqueue", "default", "test", "--db", pair.new.url())
    assert ran.code == 0, ran.err
    pair.until(lambda: pair.states() == ["done"] * (JOBS + 1))
    assert pair.sql("SELECT count(*) FROM defib.worker", pair.old) == before
    assert second.stop() == 0
