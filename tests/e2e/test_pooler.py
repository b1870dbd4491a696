"""Behind pgbouncer in transaction mode: no session of one's own, and all works."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import psycopg2
import pytest

import stuck_jobs as jobs
from pgserver import die_with_parent, free_port

PGBOUNCER = pathlib.Path("/usr/sbin/pgbouncer")


class Pooler:
    def __init__(self, server, folder):
        self.port = free_port()
        self.folder = folder
        path = folder / "pgbouncer.ini"
        path.write_text(f"""
[databases]
* = host=127.0.0.1 port={server.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
logfile = {folder}/log
pidfile = {folder}/pid
ignore_startup_parameters = extra_float_digits
""")
        options = {}
        if os.getuid() == 0:
            # It refuses to run as root.
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            path.chmod(0o644)
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.process = subprocess.Popen([PGBOUNCER, "-q", path], preexec_fn=die_with_parent,
                                        stderr=subprocess.DEVNULL, **options)
        self._wait_ready()

    def _wait_ready(self):
        end = time.monotonic() + 20
        while True:
            try:
                psycopg2.connect(host="127.0.0.1", port=self.port, dbname="postgres",
                                 user="postgres", connect_timeout=5).close()
                return
            except psycopg2.OperationalError:
                assert time.monotonic() < end and self.process.poll() is None, "no pgbouncer"
                time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)


@pytest.fixture
def pooler(shared_server):
    if not PGBOUNCER.exists():
        pytest.skip("pgbouncer is not installed")
    where = os.environ.get("DEFIB_TEST_TMP", "/tmp")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dfb-", dir=where))
    own = Pooler(shared_server, folder)
    yield own
    own.stop()
    shutil.rmtree(folder, ignore_errors=True)


def through(pooler, pg):
    return f"postgres://postgres@127.0.0.1:{pooler.port}/{pg.name}"


def test_scan_and_fix_through_a_transaction_pooler(defib, pg, pooler):
    jobs.make(pg, 5_000)
    config = jobs.config(through(pooler, pg), owner="owner")
    assert defib("scan", config=config).code == 1
    jobs.untouched(pg, 5_000)
    for command in (["explain", "jobs", "1"], ["sql", "jobs"]):
        assert defib(*command, config=config).code in (0, 1)
    ran = defib("scan", "--fix", config=config)
    assert ran.code == 0, ran
    assert jobs.agree(pg) == 5_000


def test_settings_do_not_leak_into_others_sessions(defib, pg, pooler):
    """The pooler hands our server session to others: it must be as it was."""
    jobs.make(pg, 100)
    assert defib("scan", "--fix", config=jobs.config(through(pooler, pg))).code == 0
    other = psycopg2.connect(host="127.0.0.1", port=pooler.port, dbname=pg.name, user="postgres")
    cursor = other.cursor()
    for name in ("statement_timeout", "lock_timeout", "enable_seqscan", "plan_cache_mode", "jit",
                 "default_transaction_read_only"):
        cursor.execute("SELECT setting = reset_val FROM pg_settings WHERE name = %s", (name,))
        assert cursor.fetchone() == (True,), name
    cursor.execute("SELECT count(*) FROM pg_prepared_statements")
    assert cursor.fetchone() == (0,)
    other.close()


def test_two_scans_through_a_pooler_recover_each_row_once(defib, pg, pooler):
    jobs.make(pg, 10_000)
    config = defib.dir / "defib.yaml"
    config.write_text(jobs.config(through(pooler, pg)))
    children = [defib.start("scan", "--fix", config=str(config)) for _ in range(2)]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert child.returncode in (0, 1), (out, err)
    assert jobs.agree(pg) == 10_000


def test_pooler_that_dies_in_the_middle(defib, pg, pooler):
    jobs.make(pg, 30_000)
    config = jobs.config(through(pooler, pg), batch=200)
    child = defib.start("scan", "--fix", config=config)
    while pg.sql("SELECT count(*) FROM jobs WHERE status = 'queued'")[0][0] < 1_000:
        assert child.poll() is None
        time.sleep(0.005)
    pooler.process.send_signal(signal.SIGKILL)
    out, err = child.communicate(timeout=40)
    assert child.returncode == 6, (out, err)
    end = time.monotonic() + 20
    while time.monotonic() < end and pg.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND datname = "
            "current_database() AND pid <> pg_backend_pid()")[0][0]:
        time.sleep(0.02)
    assert 1_000 <= jobs.agree(pg) < 30_000
