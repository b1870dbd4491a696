# SPDX-License-Identifier: Apache-2.0
"""Signs of life of a job that your own code runs."""

from __future__ import annotations

import asyncio
import os
import threading
from ctypes import c_void_p
from typing import Any, Callable, Optional

from . import _library as c
from ._library import lib
from .errors import LostLease
from .watches import Watches
from .worker import _signals_elsewhere


class Heartbeat:
    """While the block runs, the job's heartbeat is written as its watch says.

        with Heartbeat(watches, "workflows", workflow_id, step="Process_Payment") as beat:
            …
            beat.check()                # raises LostLease if the job is another worker's by now

        async with Heartbeat(…) as beat: …

    A thread of the library writes it every `every` seconds (the watch's `beat`, else 30), with
    `tries` tries, `retry` seconds apart. `on_lost` is called by that thread, and must not stop it.

    If this process is an Instance of the watch, and the watch has `work`, the job is the
    instance's until the block ends: when the instance dies or stops with the job in hand, the job
    is recovered at once. Write the job's end inside the block.
    """

    def __init__(self, watches: Watches, watch: Optional[str], key: Any, *,
                 step: Optional[str] = None, metadata: Optional[dict[str, Any]] = None,
                 worker: Optional[str] = None, every: float = 0, tries: int = 4, retry: float = 5,
                 on_lost: Optional[Callable[[], Any]] = None) -> None:
        self._watches = watches
        self._key = key
        self._options = {"watch": c.text(watch), "key": c.key_text(key), "step": c.text(step),
                         "metadata": c.document(metadata), "worker": c.text(worker),
                         "every_ms": c.milliseconds(every), "tries": tries,
                         "retry_ms": c.milliseconds(retry)}
        self._on_lost = on_lost
        self._handle: Optional[c_void_p] = None
        self._watches_handle: Optional[c_void_p] = None
        self._failed = c.BeatFailed(self._told)
        self._lost = threading.Event()
        self._pid = 0

    def _told(self, _ctx: Any, err: int, _message: Any) -> None:
        if lib.defib_err_name(err) != b"LEASE_LOST":
            return
        self._lost.set()
        if self._on_lost:
            self._on_lost()

    @property
    def lost(self) -> bool:
        """The row is no longer running, or has another owner; heartbeats have ended."""
        return self._lost.is_set()

    def check(self) -> None:
        """Raise LostLease if the job no longer belongs to this worker."""
        if self.lost:
            raise LostLease(f"job {self._key} no longer belongs to this worker")

    def step(self, step: Optional[str], metadata: Optional[dict[str, Any]] = None) -> None:
        """Another step, and other metadata; written at once. Raises as check() does."""
        self.check()
        if self._handle is not None:
            c.check(lib.defib_beat_step(self._handle, c.text(step), c.document(metadata)),
                    subject="heartbeat")

    def start(self) -> "Heartbeat":
        """Write the first heartbeat, which may fail, and begin."""
        self._watches_handle = self._watches.new_handle()
        handle, message = c_void_p(), c.Message()
        options = c.BeatOptions(watches=self._watches_handle, failed=self._failed, **self._options)
        with _signals_elsewhere():
            err = lib.defib_beat_start(options, handle, message)
        if err:
            lib.defib_watches_free(self._watches_handle)
            self._watches_handle = None
        c.check(err, message)
        self._handle, self._pid = handle, os.getpid()
        c.ends_at_exit(self)
        return self

    def stop(self) -> None:
        """No heartbeat follows."""
        self._stop(lib.defib_beat_stop)

    def _stop(self, how: Callable[[c_void_p], None]) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():
            how(handle)
            lib.defib_watches_free(self._watches_handle)
            self._watches_handle = None

    def _end(self) -> None:
        self._stop(lib.defib_beat_leave)

    def __enter__(self) -> "Heartbeat":
        return self.start()

    def __exit__(self, kind: Any, *_exc: Any) -> None:
        # Cancelled, or the program stops: the job is left running.
        left = kind is not None and not issubclass(kind, Exception)
        self._stop(lib.defib_beat_leave if left else lib.defib_beat_stop)

    async def __aenter__(self) -> "Heartbeat":
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *exc: Any) -> None:
        await asyncio.to_thread(self.__exit__, *exc)
