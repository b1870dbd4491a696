# SPDX-License-Identifier: Apache-2.0
"""A worker: the library claims, beats, recovers and settles; handlers are functions or coroutines.

Threads of the library call functions directly. A coroutine runs on the event loop that started the
worker, and no thread waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import signal
import sys
import threading
import traceback
from ctypes import c_void_p
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Optional, TypeVar

from . import _library as c
from ._library import lib
from .errors import Cancelled, LostLease, Permanent, Retry, UsageError
from .watches import Watches

DONE, FAILED, RETRY, PERMANENT, STOPPED, SETTLED, LATER = range(100, 107)
STOP_CHECK_S = 0.1  # how soon a coroutine whose job must stop is cancelled

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Job:
    """A job that a handler runs; valid until the handler returns."""

    def __init__(self, pointer: int) -> None:
        self._pointer: Optional[int] = pointer
        self._settled = False
        self._asked = False
        self.id: int = lib.defib_job_id(pointer)
        self.kind = c.words(lib.defib_job_kind(pointer))
        self.attempt: int = lib.defib_job_attempt(pointer)

    def _valid(self) -> int:
        if self._pointer is None:
            raise UsageError("the job's handler has returned", code="USAGE")
        return self._pointer

    @property
    def key(self) -> str:
        """The key as text; of a composite key, a JSON array of its parts."""
        return c.words(lib.defib_job_key(self._valid())) or ""

    @property
    def queue(self) -> str:
        """The queue, or the watch."""
        return c.words(lib.defib_job_queue(self._valid())) or ""

    @property
    def payload(self) -> Any:
        """The payload of a job; of a row, its columns."""
        given = lib.defib_job_payload(self._valid())
        return None if given is None else json.loads(given)

    @property
    def epoch(self) -> int:
        """Rises with every claim of the job."""
        return int(lib.defib_job_epoch(self._valid()))

    @property
    def token(self) -> str:
        """Unique to this claim, for effects that must not happen twice."""
        return c.words(lib.defib_job_token(self._valid())) or ""

    @property
    def max_attempts(self) -> int:
        return int(lib.defib_job_max_attempts(self._valid()))

    @property
    def should_stop(self) -> bool:
        """It was cancelled, exceeds its time limit or is lost, or the worker stops."""
        return bool(lib.defib_job_should_stop(self._valid()))

    @property
    def lost(self) -> bool:
        """The job no longer belongs to this worker."""
        return bool(lib.defib_job_lost(self._valid()))

    def check(self) -> None:
        """Raise LostLease or Cancelled if the handler should stop. Call it now and then."""
        if self.lost:
            raise LostLease(f"job {self.key} no longer belongs to this worker")
        if self.should_stop:
            raise Cancelled(f"job {self.key} was asked to stop")

    def progress(self, step: Optional[str] = None, text: Optional[str] = None) -> None:
        """Report progress; never waits. Raises as check() does."""
        if lib.defib_job_progress(self._valid(), c.text(step), c.text(text)):
            raise LostLease(f"job {self.key} no longer belongs to this worker")
        self.check()

    def settle(self, connection: Any) -> None:
        """Settle a job of the queue as done, in the open transaction of a psycopg or psycopg2
        connection: both commit or neither. Commit after it, and return."""
        pointer = getattr(connection, "pgconn", connection).pgconn_ptr
        message = c.Message()
        self._settled = True
        c.check(lib.defib_job_settle_pg(self._valid(), pointer, message), message)

    @property
    def step(self) -> Optional[str]:
        """The step of a workflow that is run or undone; None: the job is not a workflow."""
        return c.words(lib.defib_job_step(self._valid()))

    @property
    def undoing(self) -> bool:
        """The step is to be undone."""
        return bool(lib.defib_job_undoing(self._valid()))

    def output(self, step: str) -> Any:
        """What a finished step returned; None if it is not finished, or returned nothing."""
        given = lib.defib_job_output(self._valid(), c.text(step))
        return None if given is None else json.loads(given)

    def got_session(self, got: bool) -> None:
        """The handler got a session of its own, or did not: counted in the metrics, and after
        five failures in a row the worker pauses its claims."""
        lib.defib_job_session(self._valid(), int(got))

    def _over(self) -> None:
        self._pointer = None


@dataclass(frozen=True)
class Step:
    """A step of a workflow: a handler, and one that undoes what it did. `timeout` in seconds."""

    name: str
    run: Callable[[Job], Any]
    undo: Optional[Callable[[Job], Any]] = None
    timeout: float = 0


@dataclass
class _Pool:
    handlers: list[Callable[[Job], Any]]
    where: dict[str, Any]
    steps: tuple[Step, ...] = ()
    calls: Any = None


class Worker:
    """Handlers for rows of your own tables (`watches`) and for queues.

        worker = Worker(watches=Watches("defib.yaml"))

        @worker.watch("pages")
        async def process(job): …

        worker.run()            # a program: until SIGTERM or stop()
        async with worker: …    # beside a server, on its event loop
        with worker: …          # beside other code
    """

    def __init__(self, url: Optional[str] = None, *, watches: Optional[Watches] = None,
                 name: Optional[str] = None, spool: Optional[str] = None, lease: float = 15,
                 grace: float = 30, threads: int = 0, drain: bool = False) -> None:
        self._options: dict[str, Any] = {
            "url": c.text(url), "name": c.text(name), "spool": c.text(spool),
            "lease_ms": c.milliseconds(lease), "grace_ms": max(1, c.milliseconds(grace)),
            "threads": threads, "drain": drain}
        self._watches = watches
        self._pools: list[_Pool] = []
        self._handle: Optional[c_void_p] = None
        self._watches_handle: Optional[c_void_p] = None
        self._thread: Optional[threading.Thread] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._own_loop: Optional[threading.Thread] = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._running: "dict[Job, Optional[asyncio.Task[Any]]]" = {}
        self._checks: Optional[asyncio.TimerHandle] = None
        self._pid = 0
        self.counts = {"settled": 0, "refused": 0, "spooled": 0, "abandoned": 0}

    # ---- handlers

    def watch(self, watch: str, kind: Optional[str] = None, **options: Any) -> Callable[
            [Handler], Handler]:
        """A handler for rows of a watch with a `work` part; options as of queue()."""
        return self._pool(watch=watch, kind=kind, **options)

    def queue(self, queue: str, kind: Optional[str] = None, **options: Any) -> Callable[
            [Handler], Handler]:
        """A handler for jobs of a queue. Options: concurrency, poll, timeout and stop_after in
        seconds, exclusive."""
        return self._pool(queue=queue, kind=kind, **options)

    def workflow(self, steps: Iterable[Step], *, watch: Optional[str] = None,
                 queue: Optional[str] = None, kind: Optional[str] = None, saga: bool = False,
                 **options: Any) -> None:
        """Run workflows step by step, and undo them: rows of a watch with `work.workflow`, which
        has the same steps, or jobs of a queue and kind. Options as of queue()."""
        steps = tuple(steps)
        handlers = [one for step in steps for one in (step.run, step.undo) if one is not None]
        where = self._where(queue=queue, watch=watch, kind=kind, **options)
        self._pools.append(_Pool(handlers, {**where, "saga": saga}, steps))

    def _pool(self, **options: Any) -> Callable[[Handler], Handler]:
        where = self._where(**options)

        def add(handler: Handler) -> Handler:
            self._pools.append(_Pool([handler], where))
            return handler
        return add

    @staticmethod
    def _where(*, queue: Optional[str] = None, watch: Optional[str] = None,
               kind: Optional[str] = None, concurrency: int = 0, poll: float = 0,
               timeout: float = 0, stop_after: float = 0, exclusive: bool = False) -> dict[
                   str, Any]:
        return {"queue": c.text(queue), "watch": c.text(watch), "kind": c.text(kind),
                "concurrency": concurrency, "poll_ms": c.milliseconds(poll),
                "timeout_ms": c.milliseconds(timeout), "stop_ms": c.milliseconds(stop_after),
                "exclusive": exclusive}

    def _made(self, pool: _Pool) -> c.Pool:
        """As the library takes it; what it refers to is kept."""
        if not pool.steps:
            pool.calls = self._runner(pool.handlers[0])
            return c.Pool(handler=pool.calls, **pool.where)
        made = [c.Step(name=c.text(one.name), run=self._runner(one.run),
                       undo=self._runner(one.undo) if one.undo else c.Handler(0),
                       timeout_ms=c.milliseconds(one.timeout)) for one in pool.steps]
        pool.calls = made, (c.Step * len(made))(*made)
        return c.Pool(steps=pool.calls[1], nsteps=len(made), **pool.where)

    def _runner(self, handler: Callable[[Job], Any]) -> Any:
        """What a thread of the library calls for each job."""
        if _awaits(handler):
            return c.Handler(lambda pointer, _ctx: self._begin(Job(pointer), handler))

        def call(pointer: int, _ctx: Any) -> int:
            job = Job(pointer)
            try:
                return _outcome(job, lambda: _here(lambda: handler(job)))
            finally:
                job._over()
        return c.Handler(call)

    # ---- coroutines: the thread returns at once, and the loop ends the job

    def _begin(self, job: Job, handler: Callable[[Job], Any]) -> int:
        loop = self._loop
        assert loop is not None
        with self._lock:
            self._running[job] = None
        try:
            loop.call_soon_threadsafe(self._create, job, handler)
        except RuntimeError:  # the loop has ended
            with self._lock:
                del self._running[job]
            return STOPPED
        return LATER

    def _create(self, job: Job, handler: Callable[[Job], Any]) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(_here_too(handler(job)))
        task.add_done_callback(lambda over: self._finish(job, lambda: over.result()))
        if job in self._running:
            self._running[job] = task
        if self._checks is None:
            self._checks = loop.call_later(STOP_CHECK_S, self._check, loop)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel tasks whose jobs must stop; goes on while there are any."""
        running = list(self._running.items())
        for job, task in running:
            if task and not job._asked and job._pointer is not None and job.should_stop:
                job._asked = True
                task.cancel()
        self._checks = loop.call_later(STOP_CHECK_S, self._check, loop) if running else None

    def _finish(self, job: Job, run: Callable[[], Any]) -> None:
        with self._lock:
            if job not in self._running:
                return
            del self._running[job]
        outcome, pointer = _outcome(job, run), job._pointer
        job._over()
        lib.defib_job_finish(pointer, outcome)

    # ---- starting and stopping

    def _start(self) -> None:
        if self._handle is not None:
            raise UsageError("the worker has been started", code="USAGE")
        if not self._pools:
            raise UsageError("the worker has no handlers", code="USAGE")
        pools = (c.Pool * len(self._pools))(*map(self._made, self._pools))
        if self._watches is not None:
            self._watches_handle = self._watches.new_handle()
        handle, message = c_void_p(), c.Message()
        options = c.WorkerOptions(watches=self._watches_handle, **self._options)
        with _signals_elsewhere():
            err = lib.defib_worker_new(options, pools, len(pools), handle, message)
            if err:
                lib.defib_watches_free(self._watches_handle)
                self._watches_handle = None
            c.check(err, message)
            self._handle, self._pid = handle, os.getpid()
            self._ended.clear()
            c.ends_at_exit(self)
            self._thread = threading.Thread(target=self._work, name="defib-worker", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        lib.defib_worker_run(self._handle)
        self._ended.set()

    def stop(self) -> None:
        """Stop claiming and let handlers finish; a second call asks them to stop at once."""
        if self._handle is not None and self._pid == os.getpid():
            lib.defib_worker_stop(self._handle)

    def _close(self) -> None:
        """After it has ended."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        assert self._thread is not None
        self._thread.join()
        counts = c.Counts()
        c.check(lib.defib_worker_counts(handle, counts))
        self.counts = {name: getattr(counts, name) for name in self.counts}
        lib.defib_worker_free(handle)
        lib.defib_watches_free(self._watches_handle)
        self._watches_handle = None
        if self._own_loop is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._own_loop.join()
            self._own_loop = None
        self._loop = self._checks = None

    def _end(self) -> None:
        """At the end of the interpreter: jobs are released."""
        if self._handle is not None and self._pid == os.getpid():
            self.stop()
            self.stop()
            for job in list(self._running):  # of a loop that has ended
                if self._loop is None or self._loop.is_closed():
                    self._finish(job, _stopped)
            self._close()

    def _start_loop(self) -> None:
        """A loop of its own, if there are coroutines and nobody else's loop."""
        if not any(_awaits(one) for pool in self._pools for one in pool.handlers):
            return
        loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(loop)
            loop.run_forever()
            loop.close()
        self._loop = loop
        with _signals_elsewhere():
            self._own_loop = threading.Thread(target=run, name="defib-loop", daemon=True)
            self._own_loop.start()

    def __enter__(self) -> "Worker":
        self._start_loop()
        self._start()
        return self

    def _forked(self) -> bool:
        """This is a child that the caller forked: its copy of the worker has no threads."""
        return self._pid not in (0, os.getpid())

    def __exit__(self, *_exc: Any) -> None:
        if self._forked():
            return
        self.stop()
        self._wait()
        self._close()

    def _wait(self) -> None:
        while not self._ended.wait(0.5):  # in between, the interpreter handles signals
            pass

    async def __aenter__(self) -> "Worker":
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._start)
        return self

    async def __aexit__(self, *_exc: Any) -> None:
        if self._forked():
            return
        self.stop()
        await asyncio.to_thread(self._ended.wait)
        await asyncio.to_thread(self._close)

    def run(self) -> dict[str, int]:
        """Work until SIGTERM, SIGINT or stop(); a second signal releases jobs at once."""
        with _stops_on_signals(self) as early:
            self._start_loop()
            self._start()
            for _ in early:
                self.stop()
            self._wait()
            self._close()
        return self.counts


def _awaits(handler: Callable[[Job], Any]) -> bool:
    """A coroutine function, or an object whose call is one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None))


# A handler may fork. What it forked has a copy of this interpreter, but none of the worker's
# threads: it ends where it leaves the handler, and never runs the worker's code.

def _leave(why: Optional[BaseException]) -> None:
    """End a forked child as Python would end: with its exit code, or the traceback and 1."""
    code = 1
    try:
        if why is None:
            code = 0
        elif not isinstance(why, SystemExit):
            traceback.print_exception(type(why), why, why.__traceback__)
        elif why.code is None or isinstance(why.code, int):
            code = (why.code or 0) & 0xff
        else:
            print(why.code, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
    finally:
        os._exit(code)


def _here(run: Callable[[], Any]) -> Any:
    """What run() returns or raises, in this process alone."""
    process = os.getpid()
    try:
        value = run()
    except BaseException as why:
        if os.getpid() != process:
            _leave(why)
        raise
    if os.getpid() != process:
        _leave(None)
    return value


async def _here_too(coroutine: Any) -> Any:
    process = os.getpid()
    try:
        value = await coroutine
    except BaseException as why:
        if os.getpid() != process:
            _leave(why)
        raise
    if os.getpid() != process:
        _leave(None)
    return value


def _stopped() -> None:
    raise Cancelled("the event loop has ended")


def _result(job: Job, value: Any) -> int:
    if job._settled:
        return SETTLED
    if value is not None:
        err = lib.defib_job_result(job._valid(), json.dumps(value).encode())
        c.check(err, subject="the handler's result")
    return DONE


def _outcome(job: Job, run: Callable[[], Any]) -> int:
    """Run it, and say how it ended as the library understands it."""
    pointer = job._valid()
    try:
        return _result(job, run())
    except Retry as why:
        lib.defib_job_error(pointer, c.text(str(why)))
        if why.after is not None:
            lib.defib_job_retry_in(pointer, c.milliseconds(min(max(0.0, why.after), c.MOST_S)))
        return RETRY
    except Permanent as why:
        lib.defib_job_error(pointer, c.text(str(why)))
        return PERMANENT
    except LostLease:
        return SETTLED if job._settled else STOPPED
    except (Cancelled, asyncio.CancelledError):
        return STOPPED
    except BaseException as why:
        # Where it happened; what it says is in the library's own line, in which secrets are masked.
        c.log.warning("job %s: %s\n%s", job.key, type(why).__name__,
                      "".join(traceback.format_tb(why.__traceback__)).rstrip())
        said = f"{type(why).__name__}: {why}" if str(why) else type(why).__name__
        lib.defib_job_error(pointer, c.text(said))
        return FAILED


@contextlib.contextmanager
def _signals_elsewhere() -> Iterator[None]:
    """Threads that begin here get no signals, which are for the program's own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _stops_on_signals(worker: Worker) -> Iterator[list[int]]:
    """Jobs may run before the worker's start is over, so signals are handled from before it. The
    list has those that came while there was nothing to stop."""
    early: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        if worker._handle is None:
            early.append(number)
        else:
            worker.stop()

    if threading.current_thread() is not threading.main_thread():
        yield early
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield early
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


