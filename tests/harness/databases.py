# SPDX-License-Identifier: Apache-2.0
"""One fresh database for one test, on either engine, with the same methods."""

import itertools
import pathlib
import shutil
import signal
import sqlite3
import time

import psycopg2.sql

from harness.pgserver import signal_all
from harness.waiting import patience

_numbers = itertools.count(1)


def initialize(db, program):
    """Create defib's tables, if the database was created without them."""
    if not db.initialized:
        ran = program("init", db=db)
        assert ran.code == 0, ran.err


def stopped(pid):
    """Whether all threads of a process are stopped: the signal takes some time."""
    try:
        tasks = [stat.read_text() for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has just ended
    return all(stat.rpartition(")")[2].split()[0] in "TZX" for stat in tasks)


class PgDatabase:
    engine = "postgres"

    def __init__(self, server, initialized_by=None, name=None):
        """Empty, or with the tables that `init` of this program makes."""
        self.server = server
        self.name = name or f"t{next(_numbers)}"
        self.url = server.url(self.name)
        self.initialized = bool(initialized_by)
        self._session = None
        model = self._model(initialized_by) if initialized_by else "template1"
        self._admin((f"CREATE DATABASE {{}} TEMPLATE {{}} {server.copy_strategy()}",
                     (self.name, model)))

    def _model(self, program):
        """A database of the server where this program made its tables: others are copies of it."""
        if program.bin not in self.server.models:
            empty = PgDatabase(self.server)
            initialize(empty, program)
            self.server.models[program.bin] = empty.name
        return self.server.models[program.bin]

    def _admin(self, *statements):
        """Run these, each with its names, after dropping what earlier tests left."""
        drops = [("DROP DATABASE IF EXISTS {} WITH (FORCE)", (name,)) for name in self.server.left]
        with self.server.admin().cursor() as cursor:
            for text, names in (*drops, *statements):
                quoted = map(psycopg2.sql.Identifier, names)
                cursor.execute(psycopg2.sql.SQL(text).format(*quoted))
        self.server.left.clear()

    def connect(self):
        """A session of the test's own, autocommit; the caller closes it."""
        return self.server.connect(self.name)

    def sql(self, query, *params):
        """Run with %s parameters; the rows, [] for what returns none."""
        if not self._session or self._session.closed:
            self._session = self.connect()
        with self._session.cursor() as cursor:
            # Without parameters '%' stays a plain character.
            cursor.execute(query, params or None)
            return cursor.fetchall() if cursor.description else []

    def freeze(self, worker, *others):
        """Stop its process, and these."""
        signal_all([worker.pid, *others], signal.SIGSTOP)

    def hang_up(self):
        """The next query opens a new session, as it must after a restart of the server."""
        if self._session:
            self._session.close()

    def drop(self):
        """Left to the next test: the server waits 100 ms if a session has only just ended."""
        self.hang_up()
        self.server.left.append(self.name)

    def drop_now(self):
        """For a caller that drops a role with privileges in it next."""
        PgDatabase.drop(self)
        self._admin()


class LiteDatabase:
    engine = "sqlite"

    def __init__(self, path, model=None):
        """Empty, or a copy of this one, where a program made its tables."""
        self.path = path
        self.initialized = bool(model)
        if model:
            shutil.copy(model.path, path)
        self.name = path.name
        self.url = f"sqlite:{path}"
        self._session = None

    def connect(self):
        session = sqlite3.connect(self.path, timeout=patience(), isolation_level=None)
        session.execute("PRAGMA journal_mode = WAL")
        return session

    def sql(self, query, *params):
        """Run with ? parameters (or %s, as on PostgreSQL), or a script of several statements."""
        if not self._session:
            self._session = self.connect()
        if not params and ";" in query.strip().rstrip(";"):
            self._session.executescript(query)
            return []
        cursor = self._session.execute(query.replace("%s", "?") if params else query, params)
        return cursor.fetchall()

    def freeze(self, worker, *others):
        """Stop its process, and these, but not during a write: no other session could write until
        it continues. It cannot be in one while we are."""
        session = self.connect()
        try:
            session.execute("BEGIN IMMEDIATE")
            signal_all([worker.pid, *others], signal.SIGSTOP)
            while not all(map(stopped, [worker.pid, *others])):
                time.sleep(0.001)
        finally:
            session.close()

    def hang_up(self):
        """The next query opens the file again."""
        if self._session:
            self._session.close()
        self._session = None

    def back_up(self, path):
        self.sql(f"VACUUM INTO '{path}'")

    def restore(self, path):
        """Put another file in its place while others have it open. The old log goes last, so nobody
        makes a new one for the old file meanwhile."""
        self.hang_up()
        path.replace(self.path)
        self.remove_log()

    def remove_log(self):
        for part in self._log(self.path):
            part.unlink(missing_ok=True)

    def move(self, path):
        """Take it away with its log."""
        self.hang_up()
        self.path.rename(path)
        for part, to in zip(self._log(self.path), self._log(path)):
            if part.exists():
                part.rename(to)

    @staticmethod
    def _log(path):
        return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]

    def drop(self):
        self.hang_up()
