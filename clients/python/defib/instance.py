# SPDX-License-Identifier: Apache-2.0
"""A program whose own code works on its tables: clean-up at start, recovery, sessions."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import json
import os
import pathlib
import stat
import time
import uuid
from ctypes import c_char_p, c_void_p
from typing import Any, Callable, Coroutine, Iterable, Optional, TypeVar

from . import _library as c
from ._library import lib
from .errors import ConfigError, Error, NoSession, NotFound, Refused, UsageError
from .watches import Result, Watches, result_of
from .worker import _signals_elsewhere

SESSION_TRIES = 3
SESSION_PAUSE_S = 1.0
NO_SESSION = "Failed to obtain processing session"
STOPPED = "Requeued: the program was stopped"

T = TypeVar("T")


class Instance:
    """This process as one that works on watches with code of its own.

        with Instance(watches, "jobs") as instance: …
        async with Instance(watches, "jobs") as instance: …

    At start, before your code claims, jobs that ended instances left running are cleaned up as each
    watch's `startup` says: `cleaned` has the counts, and each job is logged. Until it ends, other
    instances know that this one is alive, and stuck jobs are recovered as a worker does.
    """

    def __init__(self, watches: Watches, *names: str, name: Optional[str] = None,
                 lease: float = 15, spool: Optional[str] = None) -> None:
        self.watches = watches
        self.cleaned: Optional[Result] = None
        self._names = names
        self._name = name
        self._lease_ms = c.milliseconds(lease)
        self._spool = None if spool is None else pathlib.Path(spool)
        not_ours = self._spool_of_others()
        if not_ours:
            raise ConfigError(not_ours, "name a directory that belongs to the user who runs this "
                              "and that no other user can write to", "CONFIG")
        self._database: Optional[str] = None  # its id, once it was reached
        self._handle: Optional[c_void_p] = None
        self._watches_handle: Optional[c_void_p] = None
        self._pid = 0

    def start(self) -> "Instance":
        """Register and clean up."""
        self._watches_handle = self.watches.new_handle()
        names = (c_char_p * len(self._names))(*map(c.text, self._names))
        options = c.InstanceOptions(watches=self._watches_handle, names=names,
                                    nnames=len(self._names), name=c.text(self._name),
                                    lease_ms=self._lease_ms)
        handle, counts, message = c_void_p(), c.Result(), c.Message()
        with _signals_elsewhere():
            err = lib.defib_instance_start(options, handle, ctypes.byref(counts), message)
        if err:
            lib.defib_watches_free(self._watches_handle)
            self._watches_handle = None
        c.check(err, message)
        self._handle, self._pid = handle, os.getpid()
        self.cleaned = result_of(counts)
        self._learn()
        c.ends_at_exit(self)
        return self

    def stop(self) -> None:
        """Leave: its end needs no detection."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():
            lib.defib_instance_stop(handle)
            lib.defib_watches_free(self._watches_handle)
            self._watches_handle = None

    _end = stop

    def __enter__(self) -> "Instance":
        return self.start()

    def __exit__(self, *_exc: Any) -> None:
        self.stop()

    async def __aenter__(self) -> "Instance":
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_exc: Any) -> None:
        await asyncio.to_thread(self.stop)

    # ---- sessions

    def wait_for_session(self) -> float:
        """Seconds to wait before a session is asked for; 0: ask, and tell got_session()."""
        return int(lib.defib_instance_wait_ms(self._handle)) / 1000 if self._handle else 0

    def got_session(self, got: bool) -> None:
        """Counted in the metrics; five failures in a row make wait_for_session() pause."""
        if self._handle is not None:
            lib.defib_instance_session(self._handle, int(got))

    def claimed_item(self, session_factory: Callable[[], Any], item: Any,
                     watch: Optional[str] = None, tries: int = SESSION_TRIES,
                     pause: float = SESSION_PAUSE_S, reason: str = NO_SESSION) -> "ClaimedItem":
        """A session for one claimed item, in a transaction of its own, with or async with.

        The block gets the session; its transaction is committed at the end. When there is no
        session after `tries` tries, `pause` seconds apart, the item is failed with `reason` and
        NoSession is raised. When the block fails, so is the item, with its error, and the error is
        raised. When the block is cancelled, the item is requeued.
        """
        return ClaimedItem(self, session_factory, item, watch or self._only(), tries, pause, reason)

    def session(self, session_factory: Callable[[], Any], tries: int = 1,
                pause: float = SESSION_PAUSE_S) -> "ClaimedItem":
        """The same without an item, for phase 1: it waits while repeated failures pause the loop,
        and is counted. NoSession: there is none."""
        return ClaimedItem(self, session_factory, None, "", tries, pause, NO_SESSION)

    def _only(self) -> str:
        names = self._names or self.watches.names
        if len(names) != 1:
            raise UsageError(f"there are {len(names)} watches: name one", code="USAGE")
        return names[0]

    # ---- items that fail

    def fail(self, watch: str, item: Any, reason: str) -> None:
        """Write the failure of an item through the library's own session; else keep it."""
        try:
            self._write(watch, item, reason)
        except Error as why:
            self._keep(watch, item, reason, why)
            return
        self._learn()
        self._drain()

    def _learn(self) -> None:
        """Which database it is: what is kept on disk is written to no other."""
        if self._spool is None or self._database is not None:
            return
        try:
            self._database = self.watches.database(self._names[0] if self._names else None)
        except Error as why:
            c.log.warning("failures cannot be kept on disk: %s", why)

    def requeue(self, watch: str, items: Iterable[Any], reason: str = STOPPED) -> None:
        """Requeue items that were claimed and will not be processed: the program stops. Those that
        are no longer running are left as they are; so are all without a database, for a scan."""
        keys = list(items)
        if not keys:
            return
        try:
            done = self.watches.act(watch, "requeue", keys, reason=reason, actor="claimed_item",
                                    override_guard=True, running_only=True)
            c.log.info("%s: %d of %d items requeued", watch, done.recovered, len(keys))
        except Error as why:
            c.log.warning("%s: %d items are left to a scan: %s", watch, len(keys), why)

    def _write(self, watch: str, item: Any, reason: str, **meant: Any) -> None:
        done = self.watches.act(watch, "fail", [item], reason=reason, actor="claimed_item",
                                override_guard=True, running_only=True, **meant)  # ours, not stuck
        if done.recovered:
            c.log.warning("%s %s failed: %s", watch, item, reason)
        else:  # another worker has it by now, or ended it
            c.log.warning("%s %s is left as it is: %s", watch, item,
                          "; ".join(filter(None, (one.refusal for one in done.findings))))

    def _keep(self, watch: str, item: Any, reason: str, why: Error) -> None:
        """On disk until the database is back; without a place for it, only a scan can find it."""
        if self._spool is not None:
            self._spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._spool is None or self._database is None or self._spool_of_others():
            c.log.critical("ZOMBIE RECORD ALERT: %s %s stuck in its running state: %s (%s)", watch,
                           item, reason, why)
            return
        kept = self._spool / f"{time.time_ns():020d}-{uuid.uuid4().hex}.json"
        fresh = kept.with_suffix(".new")
        with open(fresh, "w") as file:
            json.dump({"database": self._database, "watch": watch, "item": item, "reason": reason,
                       **_clocks()}, file, default=str)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(kept)
        c.log.error("%s %s failed, kept in %s until the database is back: %s", watch, item,
                    self._spool, why)

    def _spool_of_others(self) -> Optional[str]:
        """Why others could write to the spool, as the library says it of its own; None: only we."""
        try:
            of = None if self._spool is None else os.lstat(self._spool)
        except FileNotFoundError:
            of = None
        if of is None:
            return None
        why = ("is a symbolic link" if stat.S_ISLNK(of.st_mode) else
               "belongs to another user" if of.st_uid != os.geteuid() else
               "is writable by every user" if of.st_mode & stat.S_IWOTH else
               "is writable by its group" if of.st_mode & stat.S_IWGRP else None)
        return why and f"the directory {self._spool} {why}"

    def _drain(self) -> None:
        """Failures that were kept, oldest first."""
        if self._spool is None or self._spool_of_others():
            return
        for kept in sorted(self._spool.glob("*.json")):
            try:
                said = json.loads(kept.read_text())
                failure = str(said["watch"]), said["item"], str(said["reason"])
                meant = {"database": str(said["database"]), "quiet": _seconds_since(said)}
            except (ValueError, TypeError, KeyError, RecursionError) as why:
                c.log.error("%s is damaged and set aside: %r", kept.name, why)
                kept.rename(kept.with_suffix(".bad"))
                continue
            try:
                self._write(*failure, **meant)
            except (Error, ValueError) as why:
                if not _for_ever(why):
                    c.log.warning("%s stays in the spool: %s", kept.name, why)
                    return
                c.log.error("%s is set aside: %s", kept.name, why)
                kept.rename(kept.with_suffix(".bad"))
                continue
            kept.unlink(missing_ok=True)


def _for_ever(why: Exception) -> bool:
    """Whether the same will be wrong with the record the next time."""
    return isinstance(why, (Refused, NotFound, UsageError, ValueError)) or \
        getattr(why, "code", "") == "BAD_VALUE"


def _clocks() -> dict[str, float]:
    return {"at": time.time(), "boot": time.clock_gettime(time.CLOCK_BOOTTIME)}


def _seconds_since(said: dict[str, Any]) -> float:
    """By the clock that shows more: one was set back, or began again with the host."""
    now = _clocks()
    seconds = [now[name] - float(said[name]) for name in now]
    if not all(abs(one) <= c.MOST_S for one in seconds):
        raise ValueError("its times make no sense")
    return max(0.001, *seconds)


class ClaimedItem:
    """See Instance.claimed_item() and session()."""

    def __init__(self, instance: Instance, session_factory: Callable[[], Any], item: Any,
                 watch: str, tries: int, pause: float, reason: str) -> None:
        self._instance = instance
        self._factory = session_factory
        self._item = item
        self._watch = watch
        self._tries = tries
        self._pause = pause
        self._reason = reason
        self._session: Any = None

    def _refused(self, number: int, why: BaseException) -> None:
        self._instance.got_session(False)
        c.log.warning("no session for %s (try %d of %d): %s", self._what(), number, self._tries,
                      why)

    def _what(self) -> str:
        return "a claim" if self._item is None else f"{self._watch} {self._item}"

    def _given_up(self) -> NoSession:
        return NoSession(f"{self._what()}: {self._reason}")

    def _fail(self, error: Optional[BaseException]) -> None:
        """The item's end: without a session (None), by an error, or requeued."""
        if self._item is None:
            return
        if error is None:
            self._instance.fail(self._watch, self._item, self._reason)
        elif isinstance(error, Exception):
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._instance.fail(self._watch, self._item, said)
        else:
            self._instance.requeue(self._watch, [self._item])

    # ---- with

    def __enter__(self) -> Any:
        try:
            return self._get()
        except (KeyboardInterrupt, SystemExit) as error:
            self._drop()
            self._fail(error)
            raise

    def _get(self) -> Any:
        for number in range(1, self._tries + 1):
            time.sleep(self._instance.wait_for_session())
            try:
                self._session = self._factory()
                if self._session is None:
                    raise ConnectionError("there is none")
                if hasattr(self._session, "connection"):
                    self._session.connection()  # SQLAlchemy: now, not at the first statement
            except Exception as why:
                self._drop()
                self._refused(number, why)
                if number < self._tries:
                    time.sleep(self._pause)
                continue
            self._instance.got_session(True)
            return self._session
        self._fail(None)
        raise self._given_up()

    def _drop(self) -> None:
        """What fails here must not take the place of the error that led to it. A session that
        cannot be closed is left to its driver."""
        session, self._session = self._session, None
        try:
            if session is not None:
                session.close()
        except Exception as why:
            c.log.debug("%s: its session was not closed: %s", self._what(), why)

    def _forked(self) -> bool:
        """A child that the caller forked leaves the block too: item and session are the parent's."""
        return self._instance._pid not in (0, os.getpid())

    def __exit__(self, kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        """What a failed COMMIT did is not known: such an item is left to a scan."""
        if self._forked():
            return
        try:
            if error is None:
                self._session.commit()
            else:
                self._roll_back()
        finally:
            self._drop()
            if error is not None:
                self._fail(error)

    def _roll_back(self) -> None:
        try:
            self._session.rollback()
        except Exception as why:  # its connection is gone, and the transaction with it
            c.log.debug("%s: its transaction was not rolled back: %s", self._what(), why)

    # ---- async with

    async def __aenter__(self) -> Any:
        try:
            return await self._aget()
        except asyncio.CancelledError as error:
            await self._adrop()
            await asyncio.to_thread(self._fail, error)
            raise

    async def _aget(self) -> Any:
        for number in range(1, self._tries + 1):
            await asyncio.sleep(self._instance.wait_for_session())
            cancels = _cancels()
            try:
                self._session = await _awaited(self._factory())
                if self._session is None:
                    raise ConnectionError("there is none")
                if hasattr(self._session, "connection"):
                    await _awaited(self._session.connection())
                if _cancels() > cancels:
                    raise asyncio.CancelledError
            except Exception as why:
                await self._adrop()
                self._refused(number, why)
                if number < self._tries:
                    await asyncio.sleep(self._pause)
                continue
            self._instance.got_session(True)
            return self._session
        await asyncio.to_thread(self._fail, None)
        raise self._given_up()

    async def _adrop(self) -> None:
        """What fails here must not take the place of the error that led to it: a cancellation that
        becomes an error is lost. A session that cannot be closed is left to its driver."""
        session, self._session = self._session, None
        try:
            if session is not None:
                await _awaited(session.close())
        except Exception as why:
            c.log.debug("%s: its session was not closed: %s", self._what(), why)

    async def __aexit__(self, kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        if self._forked():
            return
        try:
            if error is None:
                await _awaited(self._session.commit())
            else:
                await self._aroll_back()
        finally:
            await self._adrop()
            if error is not None:
                await asyncio.to_thread(self._fail, error)

    async def _aroll_back(self) -> None:
        try:
            await _awaited(self._session.rollback())
        except Exception as why:  # its connection is gone, and the transaction with it
            c.log.debug("%s: its transaction was not rolled back: %s", self._what(), why)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _cancels() -> int:
    """How often the running task was told to stop. asyncio.wait_for() of Python 3.11, with which
    drivers open connections, may lose that; older versions cannot tell."""
    task: Any = asyncio.current_task()
    return int(task.cancelling()) if hasattr(task, "cancelling") else 0


# ---- a gradual start

async def staggered(seconds: float, workers: Iterable[Coroutine[Any, Any, T]]
                    ) -> "list[asyncio.Task[T]]":
    """Start coroutines as tasks, one after another with a pause between two. When it is cancelled
    meanwhile, so are those that it has started."""
    waiting = list(workers)
    tasks: "list[asyncio.Task[T]]" = []
    try:
        while waiting:
            if tasks:
                await asyncio.sleep(seconds)
            tasks.append(asyncio.get_running_loop().create_task(waiting.pop(0)))
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        for worker in waiting:
            worker.close()
        raise
    return tasks


class Burst:
    """At most `limit` jobs in the first `window` seconds of a worker; afterwards any number.

        burst = Burst(5, 60)
        while running:
            if not burst.allows() or not (job := await claim()):
                await asyncio.sleep(poll)
                continue
            burst.count()
    """

    def __init__(self, limit: int, window: float) -> None:
        self._left = limit
        self._until = time.monotonic() + window

    def allows(self) -> bool:
        return self._left > 0 or time.monotonic() >= self._until

    def count(self) -> None:
        """A job was taken."""
        self._left -= 1
