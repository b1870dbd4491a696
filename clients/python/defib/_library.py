# SPDX-License-Identifier: Apache-2.0
"""libdefib through ctypes: the structs and calls of defib.h, and nothing else.

A test compares every struct and every signature here with the header.
"""

from __future__ import annotations

import atexit
import ctypes
import ctypes.util
import json
import logging
import math
import os
import pathlib
import re
import shutil
import sys
import sysconfig
import weakref
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int, c_int64, c_size_t,
                    c_uint, c_void_p)
from typing import Any, Optional

from .errors import BY_CODE, Error, UsageError

SONAME = "libdefib.so.0"
log = logging.getLogger("defib")


class Sized(Structure):
    """A struct that begins with its own size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **members)


class Message(Structure):
    _fields_ = [("what", c_char * 768), ("next", c_char * 384)]


class JobSpec(Sized):
    _fields_ = [("size", c_size_t), ("queue", c_char_p), ("kind", c_char_p),
                ("payload", c_char_p), ("delay_ms", c_int64), ("priority", c_int64),
                ("max_attempts", c_int64), ("timeout_ms", c_int64), ("unique_key", c_char_p),
                ("tags", c_char_p)]


Handler = CFUNCTYPE(c_int, c_void_p, c_void_p)


class Step(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("run", Handler), ("undo", Handler),
                ("timeout_ms", c_int64)]


class Pool(Sized):
    _fields_ = [("size", c_size_t), ("queue", c_char_p), ("kind", c_char_p), ("handler", Handler),
                ("ctx", c_void_p), ("concurrency", c_int64), ("poll_ms", c_int64),
                ("timeout_ms", c_int64), ("stop_ms", c_int64), ("exclusive", c_int),
                ("steps", POINTER(Step)), ("nsteps", c_int), ("saga", c_int),
                ("watch", c_char_p)]


StuckCall = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)


class WorkerOptions(Sized):
    _fields_ = [("size", c_size_t), ("url", c_char_p), ("name", c_char_p), ("spool", c_char_p),
                ("lease_ms", c_int64), ("grace_ms", c_int64), ("threads", c_int),
                ("drain", c_int), ("on_stuck", StuckCall), ("on_stuck_ctx", c_void_p),
                ("brake_ms", c_int64), ("exit_when_stuck", c_int), ("watches", c_void_p)]


class Counts(Sized):
    _fields_ = [("size", c_size_t), ("settled", c_int64), ("refused", c_int64),
                ("spooled", c_int64), ("abandoned", c_int64)]


class Finding(Structure):
    _fields_ = [("size", c_size_t)] + [(name, c_char_p) for name in (
        "watch", "job", "owner", "kind", "verdict", "rule", "why", "remedy", "remedy_rule",
        "reason", "evidence", "outcome", "refusal")]


FindingCall = CFUNCTYPE(None, c_void_p, POINTER(Finding))


class Result(Sized):
    _fields_ = [("size", c_size_t)] + [(name, c_int64) for name in (
        "found", "recovered", "held", "left", "changed", "locked", "refused", "missing")] + [
        ("batch", c_char * 64)]


class ActOptions(Sized):
    _fields_ = [("size", c_size_t), ("fix", c_int), ("limit", c_int64), ("remedy", c_char_p),
                ("step", c_char_p), ("reason", c_char_p), ("actor", c_char_p),
                ("override_guard", c_int), ("finding", FindingCall), ("ctx", c_void_p),
                ("running_only", c_int), ("database", c_char_p), ("quiet_ms", c_int64)]


class InstanceOptions(Sized):
    _fields_ = [("size", c_size_t), ("watches", c_void_p), ("names", POINTER(c_char_p)),
                ("nnames", c_int), ("name", c_char_p), ("lease_ms", c_int64)]


class LedgerFilter(Sized):
    _fields_ = [("size", c_size_t), ("watch", c_char_p), ("job", c_char_p), ("event", c_char_p),
                ("actor", c_char_p), ("batch", c_char_p), ("after_id", c_int64),
                ("limit", c_int64), ("newest_first", c_int)]


class LedgerEntry(Structure):
    _fields_ = [("size", c_size_t), ("id", c_int64)] + [(name, c_char_p) for name in (
        "at", "batch", "watch", "job", "event", "actor", "verdict", "rule", "reason", "evidence",
        "before", "after")]


EntryCall = CFUNCTYPE(None, c_void_p, POINTER(LedgerEntry))
BeatFailed = CFUNCTYPE(None, c_void_p, c_int, POINTER(Message))


class BeatOptions(Sized):
    _fields_ = [("size", c_size_t), ("url", c_char_p), ("statement", c_char_p),
                ("params", POINTER(c_char_p)), ("nparams", c_int), ("every_ms", c_int64),
                ("tries", c_int), ("retry_ms", c_int64), ("failed", BeatFailed),
                ("ctx", c_void_p), ("watches", c_void_p), ("watch", c_char_p), ("key", c_char_p),
                ("worker", c_char_p), ("step", c_char_p), ("metadata", c_char_p)]


LogCall = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
MemoryCall = CFUNCTYPE(c_int, c_void_p, c_size_t)

_OUT = POINTER(c_void_p)
_MESSAGE = POINTER(Message)
_JOBS = POINTER(c_char_p)

# Every call of the header: what it returns, and its arguments. Handles are void pointers.
CALLS: dict[str, tuple[Any, list[Any]]] = {
    "defib_err_name": (c_char_p, [c_int]),
    "defib_err_text": (c_char_p, [c_int]),
    "defib_version": (c_char_p, []),
    "defib_version_number": (c_int, []),
    "defib_log": (c_int, [c_char_p, c_int]),
    "defib_set_log": (None, [LogCall, c_void_p]),
    "defib_set_out_of_memory": (None, [MemoryCall, c_void_p]),
    "defib_open": (c_int, [c_char_p, c_uint, _OUT, _MESSAGE]),
    "defib_close": (None, [c_void_p]),
    "defib_init_schema": (c_int, [c_void_p, _MESSAGE]),
    "defib_enqueue": (c_int, [c_void_p, POINTER(JobSpec), POINTER(c_int64), _MESSAGE]),
    "defib_enqueue_many": (c_int, [c_void_p, POINTER(JobSpec), c_int, POINTER(c_int64),
                                   _MESSAGE]),
    "defib_enqueue_pg": (c_int, [c_void_p, POINTER(JobSpec), POINTER(c_int64), _MESSAGE]),
    "defib_enqueue_sqlite": (c_int, [c_void_p, POINTER(JobSpec), POINTER(c_int64), _MESSAGE]),
    "defib_notify": (c_int, [c_void_p, _MESSAGE]),
    "defib_cancel": (c_int, [c_void_p, c_int64, _MESSAGE]),
    "defib_job_finish": (None, [c_void_p, c_int]),
    "defib_job_id": (c_int64, [c_void_p]),
    "defib_job_key": (c_char_p, [c_void_p]),
    "defib_job_epoch": (c_int64, [c_void_p]),
    "defib_job_token": (c_char_p, [c_void_p]),
    "defib_job_attempt": (c_int64, [c_void_p]),
    "defib_job_max_attempts": (c_int64, [c_void_p]),
    "defib_job_queue": (c_char_p, [c_void_p]),
    "defib_job_kind": (c_char_p, [c_void_p]),
    "defib_job_payload": (c_char_p, [c_void_p]),
    "defib_job_should_stop": (c_int, [c_void_p]),
    "defib_job_lost": (c_int, [c_void_p]),
    "defib_job_progress": (c_int, [c_void_p, c_char_p, c_char_p]),
    "defib_job_result": (c_int, [c_void_p, c_char_p]),
    "defib_job_error": (None, [c_void_p, c_char_p]),
    "defib_job_retry_in": (None, [c_void_p, c_int64]),
    "defib_job_session": (None, [c_void_p, c_int]),
    "defib_job_step": (c_char_p, [c_void_p]),
    "defib_job_undoing": (c_int, [c_void_p]),
    "defib_job_output": (c_char_p, [c_void_p, c_char_p]),
    "defib_job_settle_pg": (c_int, [c_void_p, c_void_p, _MESSAGE]),
    "defib_job_settle_sqlite": (c_int, [c_void_p, c_void_p, _MESSAGE]),
    "defib_worker_new": (c_int, [POINTER(WorkerOptions), POINTER(Pool), c_int, _OUT, _MESSAGE]),
    "defib_worker_run": (None, [c_void_p]),
    "defib_worker_stop": (None, [c_void_p]),
    "defib_worker_resize": (c_int, [c_void_p, c_int, c_int64, c_int64]),
    "defib_worker_counts": (c_int, [c_void_p, POINTER(Counts)]),
    "defib_worker_free": (None, [c_void_p]),
    "defib_watches_new": (c_int, [c_char_p, _OUT, _MESSAGE]),
    "defib_watches_load_file": (c_int, [c_void_p, c_char_p, _MESSAGE]),
    "defib_watches_load_string": (c_int, [c_void_p, c_char_p, _MESSAGE]),
    "defib_watches_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, _MESSAGE]),
    "defib_watches_name": (c_char_p, [c_void_p, c_int]),
    "defib_watches_free": (None, [c_void_p]),
    "defib_scan": (c_int, [c_void_p, c_char_p, POINTER(ActOptions), POINTER(Result), _MESSAGE]),
    "defib_explain": (c_int, [c_void_p, c_char_p, c_char_p, FindingCall, c_void_p, _MESSAGE]),
    "defib_end": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_char_p, _MESSAGE]),
    "defib_act": (c_int, [c_void_p, c_char_p, c_char_p, _JOBS, c_int, POINTER(ActOptions),
                          POINTER(Result), _MESSAGE]),
    "defib_database": (c_int, [c_void_p, c_char_p, c_char_p, _MESSAGE]),
    "defib_undo": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(ActOptions), POINTER(Result),
                           _MESSAGE]),
    "defib_startup": (c_int, [c_void_p, c_char_p, POINTER(Result), _MESSAGE]),
    "defib_instance_start": (c_int, [POINTER(InstanceOptions), _OUT, POINTER(Result), _MESSAGE]),
    "defib_instance_wait_ms": (c_int64, [c_void_p]),
    "defib_instance_session": (None, [c_void_p, c_int]),
    "defib_instance_stop": (None, [c_void_p]),
    "defib_ledger_read": (c_int, [c_void_p, POINTER(LedgerFilter), EntryCall, c_void_p,
                                  _MESSAGE]),
    "defib_beat_start": (c_int, [POINTER(BeatOptions), _OUT, _MESSAGE]),
    "defib_beat_step": (c_int, [c_void_p, c_char_p, c_char_p]),
    "defib_beat_stop": (None, [c_void_p]),
    "defib_beat_leave": (None, [c_void_p]),
}


def candidates() -> list[str]:
    """Where the library is looked for: DEFIB_LIBRARY, or beside this package, where the system's
    loader searches, where it was installed."""
    named = os.environ.get("DEFIB_LIBRARY")
    if named:
        return [named]
    beside = pathlib.Path(__file__).with_name(SONAME)
    places = [str(path) for path in _installed() if path.exists()]
    return [str(beside)] * beside.exists() + [SONAME] + places


def _installed() -> list[pathlib.Path]:
    """Where `make install` with a prefix puts it, which the system's loader does not search: beside
    the program `defib` in the PATH, in this environment, of this user, of this host."""
    program = shutil.which("defib")
    prefixes = [pathlib.Path(program).resolve().parent.parent] if program else []
    prefixes += [pathlib.Path(sys.prefix), pathlib.Path.home() / ".local",
                 pathlib.Path("/usr/local")]
    parts = ["lib", "lib64", f"lib/{sysconfig.get_config_var('MULTIARCH')}"]
    return [prefix / part / SONAME for prefix in dict.fromkeys(prefixes) for part in parts]


def _load() -> ctypes.CDLL:
    why = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
            for name, (returns, takes) in CALLS.items():
                call = getattr(library, name)
                call.restype, call.argtypes = returns, takes
            return library
        except (OSError, AttributeError) as error:
            why.append(str(error))
    raise ImportError(f"libdefib cannot be loaded: {'; '.join(why)}; run `make install` in defib's "
                      f"source tree, or set DEFIB_LIBRARY to the path of {SONAME}")


lib = _load()


MOST_S = 36525 * 86400.0  # 100 years, as in the library; ctypes would cut a larger number silently


def milliseconds(seconds: float) -> int:
    """Rounded up: where 0 means no limit, a short one must not become none."""
    if not -MOST_S <= seconds <= MOST_S:
        raise UsageError(f"a time in seconds must be at most {MOST_S:.0f}, not {seconds}")
    return math.ceil(round(seconds * 1000, 3))


def text(value: Any) -> Optional[bytes]:
    """A value as the library takes it."""
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def key_text(key: Any) -> bytes:
    """A key; a composite one is a tuple or list of its parts."""
    if isinstance(key, (tuple, list)):
        return json.dumps([part if isinstance(part, str) else str(part) for part in key]).encode()
    return str(key).encode()


def words(value: Optional[bytes]) -> Optional[str]:
    return None if value is None else value.decode(errors="replace")


def document(value: Any) -> Optional[bytes]:
    return None if value is None else json.dumps(value).encode()


def check(err: int, message: Optional[Message] = None, subject: str = "") -> None:
    """Raise what the library reports: its class of error, and its one line."""
    if not err:
        return
    name = lib.defib_err_name(err).decode()
    what = words(message.what) if message is not None and message.what else ""
    what = what or f"{subject}: " * bool(subject) + lib.defib_err_text(err).decode()
    raise BY_CODE.get(name, Error)(what, words(message.next) or "" if message is not None else "",
                                   name)


# ---- the log

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING,
           "error": logging.ERROR, "critical": logging.CRITICAL}


_LINE = re.compile(r"ts=\S+ level=(\w+) msg=(.*)", re.S)


def log_line(line: str, level: str = "") -> str:
    """A line of the library or of the daemon, as the logger `defib` has it: time and level are the
    logger's own. What it says."""
    entry = _LINE.match(line)
    level, said = entry.groups() if entry else (level, line)
    log.log(_LEVELS.get(level, logging.INFO), "%s", said)
    return said


def _log_line(_ctx: Any, level: Optional[bytes], line: Optional[bytes]) -> None:
    log_line(words(line) or "", words(level) or "")


_log_call = LogCall(_log_line)
lib.defib_set_log(_log_call, None)


# ---- handles with threads of their own end before the interpreter does

_open: "weakref.WeakSet[Any]" = weakref.WeakSet()


def ends_at_exit(thing: Any) -> None:
    """Call its _end() before the interpreter ends: its threads call into Python."""
    _open.add(thing)


def _end_all() -> None:
    for thing in list(_open):
        thing._end()
    lib.defib_set_log(LogCall(0), None)


atexit.register(_end_all)
