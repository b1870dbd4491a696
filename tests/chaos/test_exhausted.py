# SPDX-License-Identifier: Apache-2.0
"""Nothing left of what a process needs: disk of the database, of its log and of the spool,
descriptors, memory, connections."""

import contextlib
import os
import re
import resource
import shutil
import signal

import psycopg2
import pytest

from books import Books
from harness import stuck_jobs
from harness.daemon import Daemon
from harness.databases import PgDatabase
from harness.outages import Outage
from harness.pgserver import PgServer
from harness.queue_workers import Queue, up_for
from harness.small_disk import full_disk, tiny_filesystem
from harness.waiting import eventually, patience
from results import note

pytestmark = pytest.mark.proof


def work(queue, books, *options, name="anna", url=None):
    return queue.work("--queue", "chaos", "--name", name, "--lease", "10s", "--poll", "200ms",
                      "--crash-budget", "off", "--concurrency", "3",
                      "--pass-environment", "CHAOS_SEED", "--pass-environment", "CHAOS_EFFECTS",
                      *(options or ("--spool", queue.program.dir / name)), env=books.env, url=url,
                      program=[books.program])


def ended_well(books, *workers):
    eventually(books.is_final)
    for worker in workers:
        assert worker.stop() == 0, worker.log
    found = books.found_wrong()
    assert not found, "\n".join(found)


@contextlib.contextmanager
def opened(defib, db, folder):
    queue = Queue(defib, db)
    books = Books(defib.bin, db, folder)
    books.open()
    try:
        yield queue, books
    finally:
        queue.close()
        db.drop()


# ---- disks ----

class TablespaceDatabase(PgDatabase):
    """Its tables are on a disk of their own; the server's log is not."""

    def _admin(self, *statements):
        super()._admin(*((f"{text} TABLESPACE tiny" if text.startswith("CREATE DATABASE") else text,
                          names) for text, names in statements))


def test_the_database_s_disk_is_full(server, defib, tmp_path):
    """Writes are refused with the reason; the worker goes on when there is room again."""
    with tiny_filesystem(tmp_path / "tiny", "24m") as tiny:
        space = tiny / "space"
        space.mkdir()
        # The way to it must be open to the server's user, whoever made the test's folder.
        for folder in (tiny, *tmp_path.parents):
            if str(folder).startswith("/tmp/") and folder.owner() == tmp_path.owner():
                folder.chmod(folder.stat().st_mode | 0o711)
        tmp_path.chmod(0o711)
        if server.user:
            shutil.chown(space, server.user.pw_uid, server.user.pw_gid)
        admin = server.connect()
        admin.cursor().execute(f"CREATE TABLESPACE tiny LOCATION '{space}'")
        db = TablespaceDatabase(server)
        with opened(defib, db, tmp_path) as (queue, books):
            assert books.put(5).returncode == 0
            worker = work(queue, books)
            eventually(books.is_final)
            refused = None
            with full_disk(tiny):
                for _ in range(50):
                    done = books.put(40)
                    if done.returncode:
                        refused = done
                        break
            assert refused, "the disk was not full"
            assert re.search("No space left|disk", refused.stderr), refused.stderr
            assert len(refused.stderr.strip().splitlines()) <= 2, refused.stderr
            assert books.put(5).returncode == 0
            assert worker.process.poll() is None, worker.log
            ended_well(books, worker)
        db.drop_now()
        admin.cursor().execute("DROP TABLESPACE tiny")
        admin.close()
    note(__file__, "the database's disk full: acknowledged jobs lost", 0, sum(books.sent.values()))


def log_elsewhere(server, folder):
    """The server's log on another disk, before its first start."""
    log = server.data / "pg_wal"
    moved = folder / "pg_wal"
    shutil.copytree(log, moved)
    shutil.rmtree(log)
    log.symlink_to(moved)
    for path in (moved, *moved.rglob("*")):
        if server.user:
            os.chown(path, server.user.pw_uid, server.user.pw_gid)
    moved.chmod(0o700)


def test_the_disk_of_the_server_s_log_is_full(defib, tmp_path):
    """The server goes down, and cannot come back until there is room; results wait meanwhile."""
    with tiny_filesystem(tmp_path / "tiny", "80m") as tiny:
        for folder in tmp_path.parents:
            if str(folder).startswith("/tmp/"):
                folder.chmod(folder.stat().st_mode | 0o711)
        tmp_path.chmod(0o711)
        tiny.chmod(0o711)
        server = PgServer({"synchronous_commit": "on", "min_wal_size": "32MB",
                           "max_wal_size": "32MB", "restart_after_crash": "off"})
        try:
            log_elsewhere(server, tiny)
            server.start()
            db = PgDatabase(server)
            with opened(defib, db, tmp_path) as (queue, books):
                assert books.put(20).returncode == 0
                worker = work(queue, books)
                eventually(lambda: books.started() > 0)
                with full_disk(tiny):
                    fill_log(server, db)
                    assert server.process.wait(patience()) is not None
                    server.process = None
                    assert books.put(1).returncode != 0
                db.hang_up()
                server.start()
                assert books.put(5).returncode == 0
                assert worker.process.poll() is None, worker.log
                ended_well(books, worker)
        finally:
            server.remove()
    note(__file__, "the disk of the server's log full: acknowledged jobs lost", 0,
         sum(books.sent.values()))


def fill_log(server, db):
    """Write until the server is no longer there."""
    session = db.connect()
    with contextlib.suppress(psycopg2.Error):
        session.cursor().execute("CREATE TABLE ballast (t text)")
        for _ in range(2000):
            session.cursor().execute("INSERT INTO ballast SELECT repeat('x', 2000) "
                                     "FROM generate_series(1, 1000)")
            session.cursor().execute("SELECT pg_switch_wal()")
    with contextlib.suppress(psycopg2.Error):
        session.close()


def test_the_spool_s_disk_is_full(queue, request, tmp_path):
    """A result that can be kept nowhere is said to be so, loudly, and its job is run again."""
    wire = request.getfixturevalue("wire") if queue.db.engine == "postgres" else None
    outage = Outage(queue, wire)
    go, runs = queue.program.dir / "go", queue.program.dir / "runs"
    with tiny_filesystem(tmp_path / "tiny", "1m") as tiny:
        spool = tiny / "spool"
        spool.mkdir(mode=0o700)
        job = queue.enqueue()
        worker = queue.work("--name", "anna", "--lease", "3s", "--spool", spool, url=outage.url,
                            run=f'echo $DEFIB_EPOCH >>{runs}; while [ ! -e {go} ]; do '
                                'sleep 0.05; done; head -c 200000 /dev/zero | tr "\\0" 1 >&3')
        eventually(runs.exists)
        with full_disk(tiny):
            outage.begin()
            go.touch()
            worker.wait_log("result not recorded", limit=120)
            outage.end()
            queue.wait_state(job, "done", limit=100)
        assert worker.process.poll() is None, worker.log
        worker.stop()
    assert queue.one(job, "epoch") == len(runs.read_text().split())
    assert queue.one(job, "epoch") in (2, 3), worker.log
    note(__file__, f"the spool's disk full on {queue.db.engine}: jobs lost", 0, 1)


# ---- what a process may have ----

def held_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_a_worker_without_descriptors(queue, defib, tmp_path):
    """No program can be started; what it has is kept, and it works when there are some again."""
    books = Books(defib.bin, queue.db, tmp_path)
    books.open()
    worker = work(queue, books)
    assert books.put(3).returncode == 0
    eventually(books.is_final)
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (held_files(worker.pid), before[1]))
    assert books.put(3).returncode == 0
    worker.wait_log("Too many open files")
    assert worker.process.poll() is None, worker.log
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)
    ended_well(books, worker)
    note(__file__, f"a worker without descriptors on {queue.db.engine}: jobs lost or settled twice",
         0, 6)


def test_a_daemon_without_descriptors(db, defib):
    """Its sessions are kept: stuck rows are freed as ever."""
    stuck_jobs.make(db, 5)
    up_for(db, 31)
    daemon = Daemon(defib, stuck_jobs.config(db, every="300ms") +
                    "http: {listen: \"127.0.0.1:0\"}\n")
    try:
        eventually(lambda: stuck_jobs.requeued(db) == 5)
        daemon.wait_passes("jobs", 2)
        before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (held_files(daemon.pid), before[1]))
        stuck_jobs.fill(db, 5, first=6)
        eventually(lambda: stuck_jobs.requeued(db) == 10)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
        stuck_jobs.fill(db, 5, first=11)
        eventually(lambda: stuck_jobs.requeued(db) == 15)
        assert stuck_jobs.agree(db) == 15
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    note(__file__, f"a daemon without descriptors on {db.engine}: rows not freed", 0, 10)


def limited(megabytes):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)
    return limit


def test_a_scan_with_ever_more_memory(db, defib):
    """Whatever it lacks, it ends by itself with a word why, and rows and ledger agree."""
    stuck_jobs.make(db, 3000)
    config = stuck_jobs.config(db)
    ends = []
    for megabytes in [*range(8, 140, 4), 4096]:
        child = defib.start("scan", "--fix", config=config, preexec_fn=limited(megabytes))
        try:
            out, err = child.communicate(timeout=patience())
        finally:
            child.kill()
            child.wait()
        ends.append((megabytes, child.returncode))
        assert child.returncode not in (-signal.SIGSEGV, -signal.SIGBUS), (megabytes, err)
        assert child.returncode <= 1 or err.strip(), (megabytes, child.returncode)
        stuck_jobs.agree(db)
    assert ends[-1][1] == 0 and stuck_jobs.agree(db) == 3000, ends
    assert any(code not in (0, 1) for _, code in ends), ends
    note(__file__, f"a scan on {db.engine} with 8 to 136 MB of address space: rows without a "
         "record", 0, len(ends))


def test_no_connection_is_left(pg_queue, defib, tmp_path):
    """A session that was lost cannot be opened again; what runs is recorded when it can."""
    queue, db = pg_queue, pg_queue.db
    role = f"few_{db.name}"
    books = Books(defib.bin, db, tmp_path)
    books.open()
    db.sql(f"CREATE ROLE {role} LOGIN")
    try:
        db.sql(f"GRANT USAGE ON SCHEMA defib TO {role}")
        for what in ("TABLES", "SEQUENCES"):
            for schema in ("defib", "public"):
                db.sql(f"GRANT ALL ON ALL {what} IN SCHEMA {schema} TO {role}")
        worker = work(queue, books, url=db.url.replace("//postgres@", f"//{role}@"))
        assert books.put(3).returncode == 0
        eventually(books.is_final)
        db.sql(f"ALTER ROLE {role} CONNECTION LIMIT 0")
        db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)
        assert books.put(5).returncode == 0
        worker.wait_log("too many connections")
        assert worker.process.poll() is None, worker.log
        db.sql(f"ALTER ROLE {role} CONNECTION LIMIT -1")
        ended_well(books, worker)
        assert queue.ledger("REQUEUED") == []
    finally:
        queue.close()
        eventually(lambda: db.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = %s",
                                  role) == [(0,)])
        db.sql(f"DROP OWNED BY {role}")
        db.sql(f"DROP ROLE {role}")
    note(__file__, "no connection left: jobs lost or settled twice", 0, 8)
