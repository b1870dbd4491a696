# SPDX-License-Identifier: Apache-2.0
"""Watches: the tables that a configuration describes, and what can be done to their jobs."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import threading
from ctypes import c_char_p, c_void_p
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Optional, Union

from . import _library as c
from ._library import lib
from .errors import UsageError


@dataclass(frozen=True)
class Finding:
    """One job, its verdict, and what was done."""

    watch: str
    job: str
    owner: Optional[str]
    kind: Optional[str]
    verdict: str
    rule: Optional[str]
    why: Optional[str]
    remedy: Optional[str]
    remedy_rule: Optional[str]
    reason: Optional[str]
    evidence: Any
    outcome: Optional[str]
    refusal: Optional[str]


@dataclass(frozen=True)
class Result:
    """Counts, and the jobs that were reported. `batch` is for undo()."""

    found: int
    recovered: int
    held: int
    left: int
    changed: int
    locked: int
    refused: int
    missing: int
    batch: str
    findings: list[Finding] = field(default_factory=list)


def _finding(one: Any) -> Finding:
    values = {name: c.words(getattr(one, name)) for name in Finding.__dataclass_fields__}
    values["evidence"] = json.loads(values["evidence"]) if values["evidence"] else None
    return Finding(**values)  # type: ignore[arg-type]


def result_of(counts: c.Result, findings: Iterable[Finding] = ()) -> Result:
    values = {name: getattr(counts, name) for name in Result.__dataclass_fields__
              if name != "findings"}
    values["batch"] = c.words(counts.batch) or ""
    return Result(**values, findings=list(findings))


class Watches:
    """A configuration. Its methods may be called by several threads at once.

    `path` is a configuration file; `yaml` is the same as text. `url` replaces the databases that
    the configuration names.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]", None] = None, *,
                 yaml: Optional[str] = None, url: Optional[str] = None) -> None:
        if (path is None) == (yaml is None):
            raise UsageError("give a path or yaml", code="USAGE")
        self._path = None if path is None else os.fspath(path)
        self._yaml = yaml
        self._url = url
        self._idle: list[c_void_p] = []
        self._lock = threading.Lock()
        with self.handle() as handle:
            names: list[str] = []
            while (name := lib.defib_watches_name(handle, len(names))) is not None:
                names.append(name.decode())
            self.names = tuple(names)

    def new_handle(self) -> c_void_p:
        """A handle that the caller frees; for what keeps it in use."""
        handle, message = c_void_p(), c.Message()
        c.check(lib.defib_watches_new(c.text(self._url), handle, message), message)
        load = lib.defib_watches_load_string if self._path is None else lib.defib_watches_load_file
        source = self._yaml if self._path is None else self._path
        err = load(handle, c.text(source), message)
        if err:
            lib.defib_watches_free(handle)
        c.check(err, message)
        return handle

    @contextlib.contextmanager
    def handle(self) -> Iterator[c_void_p]:
        """A handle is for one thread at a time; those that are not in use are kept."""
        with self._lock:
            handle = self._idle.pop() if self._idle else None
        handle = handle or self.new_handle()
        try:
            yield handle
        finally:
            with self._lock:
                self._idle.append(handle)

    def __del__(self) -> None:
        for handle in getattr(self, "_idle", ()):
            lib.defib_watches_free(handle)

    # ---- what can be done

    def scan(self, watch: Optional[str] = None, *, fix: bool = False, limit: int = 0,
             remedy: Optional[str] = None, reason: Optional[str] = None,
             actor: Optional[str] = None, override_guard: bool = False) -> Result:
        """One pass: find stuck jobs and, with `fix`, recover them."""
        return self._acting(
            lambda handle, options, counts, message: lib.defib_scan(
                handle, c.text(watch), options, counts, message),
            fix=fix, limit=limit, remedy=c.text(remedy), reason=c.text(reason),
            actor=c.text(actor), override_guard=override_guard)

    def act(self, watch: Optional[str], act: str, jobs: Iterable[Any], *, fix: bool = True,
            step: Optional[str] = None, reason: Optional[str] = None, actor: Optional[str] = None,
            override_guard: bool = False, running_only: bool = False,
            database: Optional[str] = None, quiet: float = 0) -> Result:
        """Do an act to jobs, by the name of its command: "requeue", "hold", "release", …

        `override_guard`: also to jobs whose worker is alive; `running_only`: not to jobs that have
        ended or wait. Of an act that was decided earlier: `database`, the id of the one that was
        meant, Refused in another; `quiet`: not to jobs that gave a sign of life in these seconds.
        """
        keys = [c.key_text(job) for job in jobs]
        array = (c_char_p * len(keys))(*keys)
        return self._acting(
            lambda handle, options, counts, message: lib.defib_act(
                handle, c.text(watch), c.text(act), array, len(keys), options, counts, message),
            fix=fix, step=c.text(step), reason=c.text(reason), actor=c.text(actor),
            override_guard=override_guard, running_only=running_only, database=c.text(database),
            quiet_ms=c.milliseconds(quiet))

    def database(self, watch: Optional[str] = None) -> str:
        """The id of a watch's database; NotFound: it does not have defib's tables."""
        found, message = ctypes.create_string_buffer(64), c.Message()
        with self.handle() as handle:
            c.check(lib.defib_database(handle, c.text(watch), found, message), message)
        return found.value.decode()

    def undo(self, watch: Optional[str], batch: str, *, fix: bool = True,
             reason: Optional[str] = None, actor: Optional[str] = None) -> Result:
        """Undo a batch, for those jobs that were not claimed or changed since."""
        return self._acting(
            lambda handle, options, counts, message: lib.defib_undo(
                handle, c.text(watch), c.text(batch), options, counts, message),
            fix=fix, reason=c.text(reason), actor=c.text(actor))

    def explain(self, watch: Optional[str], job: Any) -> Finding:
        """Why a job is, or is not, stuck, and what a scan would do; NotFound."""
        found: list[Finding] = []
        keep = c.FindingCall(lambda _ctx, one: found.append(_finding(one.contents)))
        message = c.Message()
        with self.handle() as handle:
            c.check(lib.defib_explain(handle, c.text(watch), c.key_text(job), keep, None, message),
                    message)
        return found[0]

    def end(self, watch: Optional[str], job: Any, *, reason: Optional[str] = None,
            actor: Optional[str] = None) -> None:
        """Mark a job as ending, for an endpoint that has checked who asks.

        A job that is ending or has ended is left as it is. NotFound: there is no such row.
        """
        message = c.Message()
        with self.handle() as handle:
            c.check(lib.defib_end(handle, c.text(watch), c.key_text(job), c.text(reason),
                                  c.text(actor), message), message)

    def startup_cleanup(self, watch: Optional[str] = None) -> Result:
        """Clean up jobs of instances that have ended, by the watch's `startup`, before your own
        workers claim. It is an Instance that leaves at once: programs that work on the table at
        the same time must be instances, or their jobs are taken for those of ended ones."""
        from .instance import Instance
        with Instance(self, *([] if watch is None else [watch])) as instance:
            assert instance.cleaned is not None
            return instance.cleaned

    def _acting(self, call: Any, **options: Any) -> Result:
        found: list[Finding] = []
        keep = c.FindingCall(lambda _ctx, one: found.append(_finding(one.contents)))
        how = c.ActOptions(finding=keep, **options)
        counts, message = c.Result(), c.Message()
        with self.handle() as handle:
            c.check(call(handle, ctypes.byref(how), ctypes.byref(counts), message), message)
        return result_of(counts, found)


class AsyncWatches:
    """The same as coroutines: each call runs in a thread, and the event loop goes on."""

    def __init__(self, watches: Watches) -> None:
        self.watches = watches

    async def scan(self, watch: Optional[str] = None, **options: Any) -> Result:
        return await asyncio.to_thread(self.watches.scan, watch, **options)

    async def act(self, watch: Optional[str], act: str, jobs: Iterable[Any],
                  **options: Any) -> Result:
        return await asyncio.to_thread(self.watches.act, watch, act, jobs, **options)

    async def undo(self, watch: Optional[str], batch: str, **options: Any) -> Result:
        return await asyncio.to_thread(self.watches.undo, watch, batch, **options)

    async def explain(self, watch: Optional[str], job: Any) -> Finding:
        return await asyncio.to_thread(self.watches.explain, watch, job)

    async def end(self, watch: Optional[str], job: Any, **options: Any) -> None:
        await asyncio.to_thread(self.watches.end, watch, job, **options)

    async def startup_cleanup(self, watch: Optional[str] = None) -> Result:
        return await asyncio.to_thread(self.watches.startup_cleanup, watch)
