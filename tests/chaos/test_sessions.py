# SPDX-License-Identifier: Apache-2.0
"""Each session of a worker and of a daemon by itself: its server process stopped, or slow, or
without a right that it had."""

import asyncio
import os
import re
import signal
import time

import pytest

from books import Books
from harness import stuck_jobs
from harness.daemon import Daemon
from harness.proxy import CHUNK, Proxy
from harness.queue_workers import up_for
from harness.waiting import eventually
from results import note

pytestmark = pytest.mark.proof

LEASE_S = 6


@pytest.fixture
def books(pg_queue, defib, tmp_path):
    own = Books(defib.bin, pg_queue.db, tmp_path)
    own.open()
    return own


def work(queue, books, name="anna", url=None):
    return queue.work("--queue", "chaos", "--name", name, "--lease", f"{LEASE_S}s", "--poll",
                      "200ms", "--crash-budget", "off", "--concurrency", "3",
                      "--pass-environment", "CHAOS_SEED", "--pass-environment", "CHAOS_EFFECTS",
                      "--spool", queue.program.dir / name, env=books.env, url=url,
                      program=[books.program])


def ended_well(queue, books, *workers):
    eventually(books.is_final)
    for worker in workers:
        assert worker.stop() == 0, worker.log
    found = books.found_wrong()
    assert not found, "\n".join(found) + "".join(w.log for w in workers)


def nobody_was_taken_for_dead(queue, workers):
    assert queue.db.sql("SELECT name, cause FROM defib.worker WHERE state = 'dead'") == [], \
        "".join(w.log for w in workers)
    assert queue.ledger("REQUEUED") == []


class Stopped:
    """A server process that stands still."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def test_a_stopped_backend_on_each_session_of_a_worker(pg_queue, books):
    """Work goes on in a new session by the call's own deadline, and nobody takes it for dead."""
    queue = pg_queue
    workers = [work(queue, books)]
    watcher = queue.work("--queue", "idle", "--name", "near", "--lease", f"{LEASE_S}s")
    mine = sessions_of(queue, workers[0])
    assert len(mine) >= 2
    took = []
    for i in range(len(mine)):
        before = sessions_of(queue, workers[0])
        with Stopped(before[min(i, len(before) - 1)]):
            begun = time.monotonic()
            assert books.put(5).returncode == 0
            eventually(books.is_final)
            took.append(time.monotonic() - begun)
            beats(queue, "anna", 2)
        nobody_was_taken_for_dead(queue, workers)
    ended_well(queue, books, *workers, watcher)
    note(__file__, "a stopped server process on each session of a worker: longest seconds until "
         "new jobs are done", round(max(took), 1), len(took))


def sessions_of(queue, worker):
    """Its sessions, by the ports of its sockets."""
    ports = set()
    inodes = set()
    for fd in os.listdir(f"/proc/{worker.pid}/fd"):
        try:
            found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{worker.pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
        if found:
            inodes.add(found[1])
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            words = line.split()
            if words[9] in inodes:
                ports.add(int(words[1].split(":")[1], 16))
    return [pid for pid, port in queue.db.sql(
        "SELECT pid, client_port FROM pg_stat_activity WHERE datname = current_database() "
        "ORDER BY backend_start, pid") if port in ports]


def beats(queue, name, n):
    def stamp():
        return queue.db.sql("SELECT renewed_at FROM defib.worker WHERE name = %s "
                            "ORDER BY id DESC LIMIT 1", name)
    for _ in range(n):
        last = stamp()
        eventually(lambda before=last: stamp() != before)


def test_a_stopped_backend_on_each_session_of_a_daemon(pg, defib):
    """Rows that get stuck meanwhile are freed, each once."""
    stuck_jobs.make(pg, 10)
    up_for(pg, 31)
    daemon = Daemon(defib, stuck_jobs.config(pg, every="300ms"))
    took, rows = [], 10
    try:
        eventually(lambda: stuck_jobs.requeued(pg) == rows)
        daemon.wait_passes("jobs", 2)

        class Q:
            db = pg
        n = len(sessions_of(Q, daemon))
        assert n >= 1
        for i in range(n):
            now = sessions_of(Q, daemon)
            with Stopped(now[min(i, len(now) - 1)]):
                begun = time.monotonic()
                stuck_jobs.fill(pg, 10, first=rows + 1)
                rows += 10
                eventually(lambda want=rows: stuck_jobs.requeued(pg) == want)
                took.append(time.monotonic() - begun)
        assert stuck_jobs.agree(pg) == rows
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    note(__file__, "a stopped server process on each session of a daemon: longest seconds until "
         "stuck rows are freed", round(max(took), 1), len(took))


class SlowProxy(Proxy):
    """Everything on a link is late by its `late`."""

    async def _pump(self, link, source, sink):
        try:
            while data := await source.read(CHUNK):
                await asyncio.sleep(getattr(link, "late", 0))
                sink.write(data)
                await sink.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass

    def slow(self, link, seconds):
        link.late = seconds


@pytest.fixture
def slow_proxy(pg):
    own = SlowProxy(pg.server.port).start()
    yield own
    own.stop()


def through(proxy, url):
    return re.sub(r":\d+/", f":{proxy.port}/", url)


def test_a_slow_database_on_each_session_of_a_worker(pg_queue, books, slow_proxy):
    """A quarter of a second each way: late, and nothing else."""
    queue, proxy = pg_queue, slow_proxy
    worker = work(queue, books, url=through(proxy, queue.db.url))
    watcher = queue.work("--queue", "idle", "--name", "near", "--lease", f"{LEASE_S}s")
    rounds = len(proxy.links) + 1
    assert rounds >= 3
    for i in range(rounds):
        links = list(proxy.links)
        for link in links if i == len(links) else links[i:i + 1]:
            proxy.slow(link, 0.25)
        assert books.put(5).returncode == 0
        eventually(books.is_final)
        beats(queue, "anna", 3)
        for link in list(proxy.links):
            proxy.slow(link, 0)
        nobody_was_taken_for_dead(queue, [worker, watcher])
    ended_well(queue, books, worker, watcher)
    note(__file__, "a slow database on each session of a worker, then on all: workers declared "
         "dead", 0, rounds)


def test_a_slow_database_on_each_session_of_a_daemon(pg, defib, slow_proxy):
    stuck_jobs.make(pg, 10)
    up_for(pg, 31)
    daemon = Daemon(defib, stuck_jobs.config(through(slow_proxy, pg.url), every="300ms"))
    rows = 10
    try:
        eventually(lambda: stuck_jobs.requeued(pg) == rows)
        rounds = len(slow_proxy.links) + 1
        for i in range(rounds):
            links = list(slow_proxy.links)
            for link in links if i == len(links) else links[i:i + 1]:
                slow_proxy.slow(link, 0.25)
            stuck_jobs.fill(pg, 10, first=rows + 1)
            rows += 10
            eventually(lambda want=rows: stuck_jobs.requeued(pg) == want)
            for link in list(slow_proxy.links):
                slow_proxy.slow(link, 0)
        assert stuck_jobs.agree(pg) == rows
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    note(__file__, "a slow database on each session of a daemon, then on all: rows freed twice",
         0, rows)


# ---- rights ----

TABLES = ("job", "job_data", "worker", "ledger", "hold", "retry", "lease", "progress", "enqueued",
          "step")
RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


@pytest.fixture
def app(pg_queue, books):
    """A role with all rights on defib's tables, and none that owns them."""
    db = pg_queue.db
    role = f"app_{db.name}"
    db.sql(f"CREATE ROLE {role} LOGIN")
    db.sql(f"GRANT USAGE ON SCHEMA defib TO {role}")
    for what in ("TABLES", "SEQUENCES", "FUNCTIONS"):
        db.sql(f"GRANT ALL ON ALL {what} IN SCHEMA defib TO {role}")
    for what in ("TABLES", "SEQUENCES"):
        db.sql(f"GRANT ALL ON ALL {what} IN SCHEMA public TO {role}")
    yield role
    pg_queue.close()
    eventually(lambda: db.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = %s",
                              role) == [(0,)])
    db.sql(f"DROP OWNED BY {role}")
    db.sql(f"DROP ROLE {role}")


def test_each_right_on_its_own_is_lost_and_comes_back(pg_queue, books, app):
    """The worker says so and waits or goes on; nothing is lost, whatever was under way."""
    queue, db = pg_queue, pg_queue.db
    url = re.sub(r"//postgres@", f"//{app}@", db.url)
    worker = work(queue, books, url=url)
    tried = 0
    for table in TABLES:
        for right in RIGHTS:
            assert books.put(1).returncode == 0
            eventually(lambda: books.started() > 0)
            db.sql(f"REVOKE {right} ON defib.{table} FROM {app}")
            assert books.put(2).returncode == 0
            time.sleep(0.5)  # the time of the fault itself
            db.sql(f"GRANT {right} ON defib.{table} TO {app}")
            if worker.process.poll() is not None:
                # It may end over it, with one word why; whoever supervises it starts it again.
                assert worker.process.returncode in (4, 5, 6), worker.log
                assert "permission denied" in worker.log, worker.log
                worker = work(queue, books, url=url)
            eventually(books.is_final)
            tried += 1
    assert "permission denied" in "".join(w.log for w in queue.workers)
    ended_well(queue, books, worker)
    note(__file__, "each right on each of defib's tables revoked while a worker runs: jobs lost "
         "or settled twice", 0, tried)


def test_each_right_on_a_users_table_is_lost_and_comes_back(pg, defib):
    """A daemon goes on when the right is back; rows and ledger agree."""
    role = f"dae_{pg.name}"
    assert defib("init", db=pg).code == 0
    stuck_jobs.make(pg, 5)
    up_for(pg, 31)
    pg.sql(f"CREATE ROLE {role} LOGIN")
    daemon = None
    try:
        pg.sql(f"GRANT USAGE, CREATE ON SCHEMA defib TO {role}")
        for what in ("TABLES", "SEQUENCES", "FUNCTIONS"):
            pg.sql(f"GRANT ALL ON ALL {what} IN SCHEMA defib TO {role}")
        pg.sql(f"GRANT ALL ON jobs TO {role}")
        url = re.sub(r"//postgres@", f"//{role}@", pg.url)
        daemon = Daemon(defib, stuck_jobs.config(url, every="300ms"))
        eventually(lambda: stuck_jobs.requeued(pg) == 5)
        rows = 5
        for table in ("jobs", "defib.ledger", "defib.hold", "defib.retry"):
            for right in RIGHTS:
                pg.sql(f"REVOKE {right} ON {table} FROM {role}")
                stuck_jobs.fill(pg, 5, first=rows + 1)
                rows += 5
                time.sleep(0.7)  # the time of the fault itself
                pg.sql(f"GRANT {right} ON {table} TO {role}")
                eventually(lambda want=rows: stuck_jobs.requeued(pg) == want)
                assert stuck_jobs.agree(pg) == rows
        assert "permission denied" in daemon.log
        assert daemon.stop() == 0
        note(__file__, "each right of a daemon revoked while it runs: rows freed twice or without "
             "a record", 0, rows)
    finally:
        if daemon:
            daemon.kill()
        eventually(lambda: pg.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = %s",
                                  role) == [(0,)])
        pg.sql(f"DROP OWNED BY {role}")
        pg.sql(f"DROP ROLE {role}")
