# SPDX-License-Identifier: Apache-2.0
"""pgbouncer in transaction mode in front of a test's own server."""

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

from harness.pgserver import die_with_parent, free_port
from harness.waiting import patience

PGBOUNCER = pathlib.Path("/usr/sbin/pgbouncer")


class Pooler:
    def __init__(self, server):
        self.port = free_port()
        where = os.environ.get("DEFIB_TEST_TMP", "/tmp")
        self.folder = folder = pathlib.Path(tempfile.mkdtemp(prefix="dfb-", dir=where))
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
        end = time.monotonic() + patience()
        while True:
            try:
                psycopg2.connect(host="127.0.0.1", port=self.port, dbname="postgres",
                                 user="postgres", connect_timeout=5).close()
                return
            except psycopg2.OperationalError:
                assert time.monotonic() < end and self.process.poll() is None, "no pgbouncer"
                time.sleep(0.05)

    def url(self, database):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(patience())
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def pooler(server_of_test):
    if not PGBOUNCER.exists():
        pytest.skip("pgbouncer is not installed")
    own = Pooler(server_of_test)
    yield own
    own.stop()


def through(pooler, pg):
    return pooler.url(pg.name)
