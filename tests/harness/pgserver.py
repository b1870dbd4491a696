# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server for one test: private data, private socket, free port.

It is started as a child, not as a daemon, and dies with us: however a test run ends, no server
outlives it. PostgreSQL refuses to run as root, so root runs it as the user postgres (or nobody).
"""

import contextlib
import ctypes
import datetime
import fcntl
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import psycopg2
import psycopg2.extensions

from harness import pgversions
from harness.waiting import patience

BIN = pgversions.DEBIAN
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")

# No disk sync: a test's data need not outlive the machine.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "autovacuum_naptime": "5s",
    "log_min_messages": "warning",
    "timezone": "UTC",
}
# For servers with many small databases that are gone before they need to be vacuumed: each look at
# one costs a process, and so does each session, the more the larger the memory it maps.
QUIET = {"autovacuum_naptime": "1h", "shared_buffers": "16MB"}


def unprivileged():
    """The user that runs the server: None means us."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("no user to run PostgreSQL as: neither postgres nor nobody exists")


def free_port():
    """Below those that the kernel gives to clients: one of them could take it before a server does,
    and a server that listens to several addresses would start without one."""
    clients = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    while True:
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", random.SystemRandom().randrange(10000, max(20000, int(clients[0])))))
            return s.getsockname()[1]


def prctl(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent():
    prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def signal_all(pids, number):
    """A process that has ended meanwhile needs no signal."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def copy_data(source, target):
    """The files of a running server: some vanish meanwhile, and the log is streamed later."""
    def left_out(folder, names):
        return names if folder == str(source / "pg_wal") else (
            [name for name in names if name.startswith("postmaster.")])

    def copy(file, to):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(file, to)

    shutil.copytree(source, target, ignore=left_out, copy_function=copy)
    (target / "pg_wal" / "archive_status").mkdir()


class Clock:
    """The wall clock of a server: it stands still until the test moves it.

    Its monotonic clock keeps running, so that the server itself works as usual."""

    def __init__(self, folder):
        self.path = folder / "clock"
        self.now = datetime.datetime(2027, 1, 1)
        self._write()

    def _write(self):
        fresh = self.path.with_suffix(".new")
        fresh.write_text(f"{self.now:%Y-%m-%d %H:%M:%S}\n")
        fresh.chmod(0o644)
        fresh.replace(self.path)  # a reader sees the old time or the new one

    def forward(self, seconds):
        self.now += datetime.timedelta(seconds=seconds)
        self._write()

    def env(self):
        return {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(self.path),
                "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "TZ": "UTC"}


class RunningClock(Clock):
    """A clock that runs like ours, and that the test sets forward or back."""

    def _write(self):
        self.off = getattr(self, "off", 0)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(f"{self.off:+d}\n")
        fresh.chmod(0o644)
        fresh.replace(self.path)

    def forward(self, seconds):
        self.off += seconds
        self._write()


class Session(psycopg2.extensions.connection):
    """When closed, it holds no lock: by itself a server notices that only some time later."""

    def close(self):
        with contextlib.suppress(psycopg2.Error):
            self.rollback()
        super().close()


class PgServer:
    """start(), stop(), kill(), freeze()/thaw(), promote(); `standby_of` clones another server.

    With `clocked` its time is the test's: see Clock, or say which. `version` is one of
    pgversions.versions(), or what the run chose.
    """

    def __init__(self, settings=None, standby_of=None, clocked=False, version=None):
        self.user = unprivileged()
        binaries = pgversions.chosen(version)
        # Short, because a socket's path may have 107 bytes.
        where = os.environ.get("DEFIB_TEST_TMP", "/tmp")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dfb-", dir=where))
        # Data may live in memory: many servers at once are slow to share a disk.
        memory = os.environ.get("DEFIB_TEST_MEMORY")
        self.memory = memory and pathlib.Path(tempfile.mkdtemp(prefix="dfb-", dir=memory))
        self.data = (self.memory or self.dir) / "data"
        self.log = self.dir / "log"
        self.port = free_port()
        self.settings = {**SETTINGS, **(settings or {})}
        self.standby_of = standby_of
        self.process = None
        self.left = []  # databases whose tests have ended
        self.models = {}  # databases that others are copies of
        self._admin = None
        for folder in filter(None, (self.dir, self.memory) if self.user else ()):
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        shared = os.environ.get("DEFIB_TEST_TMP", self.dir)
        self.binaries = pgversions.readable(binaries, self._as_user(), shared)
        self.clock = (Clock if clocked is True else clocked)(self.dir) if clocked else None
        if standby_of:
            self._clone(standby_of)
        else:
            self._init(memory or os.environ.get("DEFIB_TEST_TMP"))

    def _as_user(self):
        if not self.user:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}

    def _popen(self, program, *args, **options):
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(self.dir)}
        if self.clock and program == "postgres":
            env.update(self.clock.env())
        return subprocess.Popen([self.binaries.bin / program, *map(str, args)], cwd=self.dir, env=env,
                                stdin=subprocess.DEVNULL, **self._as_user(), **options)

    def _run(self, program, *args):
        child = self._popen(program, *args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = child.communicate(timeout=patience())[0].decode(errors="replace")
        if child.returncode:
            raise RuntimeError(f"{program} failed:\n{said}")

    def _init(self, shared):
        """A new cluster; if a run has a directory for all its servers, a copy of its first."""
        if not shared:
            return self._initdb(self.data)
        model = pathlib.Path(shared) / f"initdb-{self.binaries.version}"
        with open(f"{model}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # several processes begin at once
            if not model.exists():
                self._initdb(self.data)
                self.data.rename(model)
        subprocess.run(["cp", "-a", "--reflink=auto", model, self.data], check=True)

    def _initdb(self, data):
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust",
                  "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")

    def _clone(self, primary):
        """A base backup by the server's own functions: not every version has pg_basebackup."""
        begin, end = "pg_backup_start('clone', true)", "pg_backup_stop(false)"
        if self.binaries.major < 15:
            begin, end = "pg_start_backup('clone', true, false)", "pg_stop_backup(false, false)"
        session = primary.connect()
        with contextlib.closing(session), session.cursor() as cursor:
            cursor.execute(f"SELECT {begin}")
            copy_data(primary.data, self.data)
            cursor.execute(f"SELECT labelfile FROM {end}")
            (self.data / "backup_label").write_text(cursor.fetchone()[0])
        (self.data / "standby.signal").touch()
        with open(self.data / "postgresql.auto.conf", "a", encoding="utf-8") as settings:
            settings.write(f"primary_conninfo = 'host={primary.dir} port={primary.port} "
                           "user=postgres'\n")
        if self.user:
            subprocess.run(["chown", "-R", f"{self.user.pw_uid}:{self.user.pw_gid}", self.data],
                           check=True)

    def start(self):
        assert not self.process, "the server runs already"
        settings = {**self.settings, "port": self.port, "unix_socket_directories": self.dir}
        args = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with open(self.log, "ab") as log:
            # Its own session: a Ctrl-C at the terminal is for us, and we stop it in order.
            self.process = self._popen("postgres", "-D", self.data, *args, stdout=log, stderr=log,
                                       start_new_session=True, preexec_fn=die_with_parent)
        self._wait_ready()
        if not self.standby_of:
            self._close_public()
        return self

    def _close_public(self):
        """As it is since PostgreSQL 15: harness/open_schema.py opens it where a test is about that."""
        for name in ("postgres", "template1") if self.binaries.major < 15 else ():
            session = self.connect(name)
            with session.cursor() as cursor:
                cursor.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
            session.close()

    def _wait_ready(self):
        began = time.monotonic()
        while time.monotonic() - began < patience():
            if self.process.poll() is not None:
                raise RuntimeError(f"postgres ended:\n{self.log.read_text(errors='replace')}")
            try:
                self.connect().close()
                return
            except psycopg2.OperationalError:
                time.sleep(0.05)
        raise RuntimeError("postgres does not start")

    def stop(self, mode=signal.SIGINT):
        """SIGINT: fast, SIGQUIT: immediate, SIGTERM: waits for sessions to end."""
        if not self.process:
            return
        self.thaw()
        self._forget_admin()
        self.process.send_signal(mode)
        try:
            self.process.wait(patience())
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self):
        """As if the machine went down: every process at once, without a shutdown."""
        self._forget_admin()
        pids = self.pids()
        # The orphans come to us: in a container nobody else may collect them.
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        signal_all(pids, signal.SIGKILL)
        self.process.wait(patience())
        for pid in pids[1:]:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        prctl(PR_SET_CHILD_SUBREAPER, 0)
        self.process = None
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def pids(self):
        """The postmaster and its children."""
        if not self.process or self.process.poll() is not None:
            return []
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text().split())]

    def freeze(self):
        signal_all(self.pids(), signal.SIGSTOP)

    def thaw(self):
        signal_all(self.pids(), signal.SIGCONT)

    def promote(self):
        self._run("pg_ctl", "promote", "-D", self.data, "-w")

    def connect(self, dbname="postgres", user="postgres"):
        connection = psycopg2.connect(host=str(self.dir), port=self.port, dbname=dbname, user=user,
                                      connect_timeout=10, connection_factory=Session)
        connection.autocommit = True
        return connection

    def copy_strategy(self):
        """For CREATE DATABASE: cheaper than a copy through the log, the default since 15; before,
        it was the only one, and had no name."""
        return "STRATEGY = FILE_COPY" if self.binaries.major >= 15 else ""

    def admin(self):
        """A session that stays open, for what is done for each test."""
        if not self._admin or self._admin.closed:
            self._admin = self.connect()
        return self._admin

    def _forget_admin(self):
        if self._admin:
            self._admin.close()
            self._admin = None

    def url(self, dbname="postgres", user="postgres"):
        return f"postgres://{user}@127.0.0.1:{self.port}/{dbname}"

    def remove(self):
        self.stop(signal.SIGQUIT)
        for folder in filter(None, (self.dir, self.memory)):
            shutil.rmtree(folder, ignore_errors=True)
