# SPDX-License-Identifier: Apache-2.0
"""The built-in queue and the ledger."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import threading
from ctypes import c_int64, c_void_p
from dataclasses import dataclass
from typing import Any, Iterable, Optional

from . import _library as c
from ._library import lib
from .errors import Refused, UsageError


@dataclass(frozen=True)
class Entry:
    """One entry of the ledger."""

    id: int
    at: str
    batch: Optional[str]
    watch: Optional[str]
    job: Optional[str]
    event: str
    actor: Optional[str]
    verdict: Optional[str]
    rule: Optional[str]
    reason: Optional[str]
    evidence: Any
    before: Any
    after: Any


def _entry(one: Any) -> Entry:
    values: dict[str, Any] = {name: getattr(one, name) for name in Entry.__dataclass_fields__}
    for name, value in values.items():
        if isinstance(value, bytes):
            said = value.decode(errors="replace")
            values[name] = json.loads(said) if name in ("evidence", "before", "after") else said
    return Entry(**values)


def _ms(seconds: Optional[float]) -> int:
    return c.milliseconds(seconds or 0)


def _spec(queue: str, kind: str, payload: Any, delay: float, priority: int, max_attempts: int,
          timeout: Optional[float], unique_key: Optional[str],
          tags: Optional[Iterable[str]]) -> c.JobSpec:
    if max_attempts < 1:  # the library takes 0 for its default
        raise UsageError(f"max_attempts must be at least 1, not {max_attempts}")
    return c.JobSpec(queue=c.text(queue), kind=c.text(kind), payload=c.document(payload),
                     delay_ms=_ms(delay), priority=priority, max_attempts=max_attempts,
                     timeout_ms=_ms(timeout), unique_key=c.text(unique_key),
                     tags=c.document(None if tags is None else list(tags)))


class _Turn:
    """One call at a time, of the process that opened the session. A forked child has a copy of the
    lock, which another thread may have held at the fork: nobody would release it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __enter__(self) -> None:
        if self.forked():
            raise Refused("the session belongs to the process that forked this one",
                          "open another one after the fork", "REFUSED")
        self._lock.acquire()

    def __exit__(self, *_exc: Any) -> None:
        self._lock.release()

    def forked(self) -> bool:
        return self._pid != os.getpid()


class Database:
    """A session that reconnects by itself; one call at a time uses it."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self._handle, message = c_void_p(), c.Message()
        self._lock = _Turn()
        c.check(lib.defib_open(c.text(url), int(create), self._handle, message), message)

    def close(self) -> None:
        if self._lock.forked():
            return
        with self._lock:
            handle, self._handle = self._handle, c_void_p()
        lib.defib_close(handle)

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.defib_close(self._handle)

    def init(self) -> None:
        """Create or update defib's tables; a second call changes nothing."""
        message = c.Message()
        with self._lock:
            c.check(lib.defib_init_schema(self._handle, message), message)

    def enqueue(self, queue: str, kind: str, payload: Any = None, *, delay: float = 0,
                priority: int = 0, max_attempts: int = 5, timeout: Optional[float] = None,
                unique_key: Optional[str] = None, tags: Optional[Iterable[str]] = None) -> int:
        """Add a job and wake a worker. In your own transaction: defib.enqueue()."""
        job, message = c_int64(), c.Message()
        spec = _spec(queue, kind, payload, delay, priority, max_attempts, timeout, unique_key, tags)
        with self._lock:
            c.check(lib.defib_enqueue(self._handle, spec, job, message), message)
        return job.value

    def notify(self) -> None:
        """Wake idle workers, after a transaction that enqueued has committed."""
        message = c.Message()
        with self._lock:
            c.check(lib.defib_notify(self._handle, message), message)

    def cancel(self, job: int) -> None:
        """Cancel a waiting job, or ask a running one to stop; NotFound if it is neither."""
        message = c.Message()
        with self._lock:
            c.check(lib.defib_cancel(self._handle, job, message), message)

    def ledger(self, *, watch: Optional[str] = None, job: Any = None, event: Optional[str] = None,
               actor: Optional[str] = None, batch: Optional[str] = None, after_id: int = 0,
               limit: int = 0, newest_first: bool = False) -> list[Entry]:
        """Entries of the ledger, in the order of their ids."""
        found: list[Entry] = []
        keep = c.EntryCall(lambda _ctx, one: found.append(_entry(one.contents)))
        by = c.LedgerFilter(watch=c.text(watch), job=None if job is None else c.key_text(job),
                            event=c.text(event), actor=c.text(actor), batch=c.text(batch),
                            after_id=after_id, limit=limit, newest_first=newest_first)
        message = c.Message()
        with self._lock:
            c.check(lib.defib_ledger_read(self._handle, ctypes.byref(by), keep, None, message),
                    message)
        return found


class AsyncDatabase:
    """The same as coroutines: each call runs in a thread, and the event loop goes on."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def enqueue(self, queue: str, kind: str, payload: Any = None, **options: Any) -> int:
        return await asyncio.to_thread(self.database.enqueue, queue, kind, payload, **options)

    async def notify(self) -> None:
        await asyncio.to_thread(self.database.notify)

    async def cancel(self, job: int) -> None:
        await asyncio.to_thread(self.database.cancel, job)

    async def ledger(self, **by: Any) -> list[Entry]:
        return await asyncio.to_thread(self.database.ledger, **by)


# ---- inside your own transaction

_NAMES = ("queue", "kind", "payload", "delay_ms", "priority", "max_attempts", "timeout_ms",
          "unique_key", "tags")
_TYPES = ("text", "text", "jsonb", "bigint", "integer", "integer", "integer", "text", "text[]")


def _statement(mark: str) -> str:
    marks = (f"CAST({mark.format(n=n + 1, name=name)} AS {kind})"
             for n, (name, kind) in enumerate(zip(_NAMES, _TYPES)))
    return f"SELECT defib.enqueue({', '.join(marks)})"


def _values(queue: str, kind: str, payload: Any, delay: float, priority: int, max_attempts: int,
            timeout: Optional[float], unique_key: Optional[str],
            tags: Optional[Iterable[str]]) -> list[Any]:
    return [queue, kind, None if payload is None else json.dumps(payload), _ms(delay), priority,
            max_attempts, None if timeout is None else _ms(timeout), unique_key,
            None if tags is None else list(tags)]


def _driver(connection: Any) -> str:
    """The package of a connection's class, or of a class that it is derived from."""
    known = ("sqlalchemy", "psycopg", "psycopg2", "asyncpg")
    for base in type(connection).__mro__:
        package = base.__module__.partition(".")[0]
        if package in known:
            return package
    raise TypeError(f"enqueue takes a connection of {', '.join(known)}, not "
                    f"{type(connection).__name__}")


def _alchemy(values: list[Any]) -> tuple[Any, dict[str, Any]]:
    import sqlalchemy  # type: ignore[import]
    return sqlalchemy.text(_statement(":{name}")), dict(zip(_NAMES, values))


def enqueue(connection: Any, queue: str, kind: str, payload: Any = None, *, delay: float = 0,
            priority: int = 0, max_attempts: int = 5, timeout: Optional[float] = None,
            unique_key: Optional[str] = None, tags: Optional[Iterable[str]] = None) -> int:
    """Enqueue in the transaction of `connection`: the job exists exactly if it commits.

    A SQLAlchemy Session or Connection, or a connection or cursor of psycopg or psycopg2, on
    PostgreSQL. Workers find the job when they next poll, or at once after Database.notify().
    """
    values = _values(queue, kind, payload, delay, priority, max_attempts, timeout, unique_key, tags)
    driver = _driver(connection)
    if driver == "sqlalchemy":
        return int(connection.execute(*_alchemy(values)).scalar_one())
    if driver == "asyncpg":
        raise TypeError("a connection of asyncpg is for enqueue_async()")
    if hasattr(connection, "cursor"):
        with connection.cursor() as cursor:
            cursor.execute(_statement("%s"), values)
            return int(cursor.fetchone()[0])
    connection.execute(_statement("%s"), values)
    return int(connection.fetchone()[0])


async def enqueue_async(connection: Any, queue: str, kind: str, payload: Any = None, *,
                        delay: float = 0, priority: int = 0, max_attempts: int = 5,
                        timeout: Optional[float] = None, unique_key: Optional[str] = None,
                        tags: Optional[Iterable[str]] = None) -> int:
    """The same for a SQLAlchemy AsyncSession or AsyncConnection, an AsyncConnection of psycopg, or
    a connection of asyncpg."""
    values = _values(queue, kind, payload, delay, priority, max_attempts, timeout, unique_key, tags)
    driver = _driver(connection)
    if driver == "sqlalchemy":
        return int((await connection.execute(*_alchemy(values))).scalar_one())
    if driver == "asyncpg":
        return int(await connection.fetchval(_statement("${n}"), *values))
    async with connection.cursor() as cursor:
        await cursor.execute(_statement("%s"), values)
        return int((await cursor.fetchone())[0])
