# SPDX-License-Identifier: Apache-2.0
"""Outages of a database, only for the programs under test."""

import contextlib
import json
import pathlib

import pytest

from harness.queue_workers import Wire
from harness.spools import records
from harness.waiting import eventually

class Outage:
    """A queue whose database becomes unavailable for its workers and returns; the test still sees
    it."""

    def __init__(self, queue, wire):
        self.queue = queue
        self.wire = wire
        self.holder = None
        self.url = wire.url(queue.db) if wire else queue.db.url

    def begin(self):
        if self.wire:
            self.wire.away()
        else:
            # On SQLite: another session holds the write lock.
            self.holder = self.queue.db.connect()
            self.holder.execute("BEGIN IMMEDIATE")

    def end(self):
        if self.wire:
            self.wire.back()
        elif self.holder:
            self.holder.execute("ROLLBACK")
            self.holder.close()
            self.holder = None


SLOW = 'touch up; await go; echo "{\\"epoch\\": $DEFIB_EPOCH}" >&3'


@pytest.fixture
def outage(request, queue):
    wire = request.getfixturevalue("wire") if queue.db.engine == "postgres" else None
    own = Outage(queue, wire)
    yield own
    own.end()


def begin_again(queue):
    """As after a restore into a new schema: the tables are new, and so are the numbers."""
    if queue.db.engine == "postgres":
        queue.db.sql("DROP SCHEMA defib CASCADE")
    else:
        tables = queue.db.sql("SELECT name FROM sqlite_master WHERE type = 'table' "
                              "AND name LIKE 'defib%'")
        queue.db.sql(";".join(f"DROP TABLE {name}" for name, in tables) + ";")
    ran = queue.program("init", db=queue.db)
    assert ran.code == 0, ran.err


def spooled(queue, name):
    """Records in the spool of a worker."""
    return records(queue.program.dir / "spool" / name)


def up_and_go(queue):
    eventually((queue.program.dir / "up").exists)


class Away(Outage):
    """Also for a database that no process uses: then its file does not exist at all."""

    def __init__(self, queue):
        super().__init__(queue, Wire(queue.db.server) if queue.db.engine == "postgres" else None)
        self.db = queue.db
        self.spool = queue.program.dir / "spool"
        self.file = pathlib.Path(self.db.url.removeprefix("sqlite:"))
        self.elsewhere = self.file.with_suffix(".elsewhere")

    def begin(self, used=False):
        """`used`: by processes that run on; a file cannot be taken from under them."""
        if self.wire or used:
            super().begin()
        else:
            self.file.rename(self.elsewhere)

    def end(self):
        super().end()
        if self.elsewhere.exists():
            self.elsewhere.rename(self.file)

    @contextlib.contextmanager
    def now(self, used=False):
        self.begin(used)
        try:
            yield
        finally:
            self.end()

    def enqueue(self, *args, **options):
        return self.queue.program("enqueue", "default", "test", *args, "--spool", self.spool,
                                  db=self.url, **options)

    def waits(self):
        """Whether jobs wait: the last one takes the file with it."""
        return (self.spool / "new" / "spool.db").exists()

    def payloads(self):
        rows = self.db.sql(f"SELECT payload FROM {self.queue.table('job_data')} ORDER BY job")
        return [json.loads(p) if isinstance(p, str) else p for p, in rows]

    def numbers(self):
        return [p["n"] for p in self.payloads()]
