# SPDX-License-Identifier: Apache-2.0
"""The daemon beside a program: scans, alerts, reports, metrics and the page while it lives."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from typing import Any, Optional, Union

from . import _library as c
from .errors import ConfigError, ConnectionLost, Error, Refused, UsageError
from .worker import _signals_elsewhere

RESTART_FIRST_S = 0.1
RESTART_MOST_S = 30.0
STEADY_S = 30.0  # after so long, a start counts as successful
STOP_S = 20.0

_BY_EXIT: dict[int, type[Error]] = {2: UsageError, 3: ConfigError, 4: ConnectionLost, 5: Refused}


class Monitor:
    """`defib daemon` beside this process, for every watch of a configuration, or for those named.

        with Monitor("defib.yaml", listen="127.0.0.1:7433"): …
        async with Monitor("defib.yaml"): …

    It ends with this process, even if that is killed, and is started again if it ends by itself.
    Its log goes to the logger `defib`. The program is `bin`, $DEFIB_BIN, or `defib` on the PATH.
    """

    def __init__(self, config: Union[str, "os.PathLike[str]", None] = None, *watches: str,
                 listen: Optional[str] = None, work: bool = False, queue: bool = False,
                 bin: Optional[str] = None, env: Optional[dict[str, str]] = None) -> None:
        self._argv = [bin or os.environ.get("DEFIB_BIN") or "defib", "daemon", *watches,
                      "--while-stdin-open", "--log", "logfmt"]
        self._argv += [] if config is None else ["-c", os.fspath(config)]
        self._argv += [] if listen is None else ["--listen", listen]
        self._argv += ["--work"] * work + ["--no-queue"] * (not queue and not watches)
        self._env = None if env is None else {**os.environ, **env}
        self._child: Optional["subprocess.Popen[str]"] = None
        self._thread: Optional[threading.Thread] = None
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._failed: Optional[Error] = None
        self._last = ""
        self._pid = 0
        self._lock = threading.Lock()

    def start(self) -> "Monitor":
        """Start it, and wait until it runs."""
        self._ready.clear()
        self._stopping.clear()
        self._failed, self._pid = None, os.getpid()
        with _signals_elsewhere():
            self._thread = threading.Thread(target=self._supervise, name="defib-monitor",
                                            daemon=True)
            self._thread.start()
        c.ends_at_exit(self)
        self._ready.wait()
        if self._failed is not None:
            self._thread.join()
            raise self._failed
        return self

    def stop(self) -> None:
        """Stop it, and wait until it has ended."""
        if self._thread is None or self._pid != os.getpid():
            return
        self._stopping.set()
        with self._lock:
            child = self._child
            if child is not None and child.stdin is not None:
                child.stdin.close()
        self._thread.join(STOP_S)
        if self._thread.is_alive() and child is not None:
            child.kill()
            self._thread.join()
        self._thread = None

    _end = stop

    # ---- its thread

    def _supervise(self) -> None:
        pause = RESTART_FIRST_S
        while not self._stopping.is_set():
            began = time.monotonic()
            why = self._run()
            if not self._ready.is_set():
                self._failed = why
                self._ready.set()
                return
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_S:
                pause = RESTART_FIRST_S
            c.log.error("the monitor ended, and is started again: %s", why)
            self._stopping.wait(pause)
            pause = min(2 * pause, RESTART_MOST_S)

    def _run(self) -> Error:
        """One process until it ends: why it did."""
        try:
            child = subprocess.Popen(self._argv, env=self._env, stdin=subprocess.PIPE,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     errors="replace", start_new_session=True)
        except OSError as why:
            return UsageError(f"cannot start {self._argv[0]}: {why.strerror}",
                              "install defib, or set DEFIB_BIN", "USAGE")
        with self._lock:
            self._child = child
            if self._stopping.is_set() and child.stdin is not None:
                child.stdin.close()
        assert child.stderr is not None
        for line in child.stderr:
            self._heard(line.rstrip("\n"))
        code = child.wait()
        with self._lock:
            self._child = None
        child.stderr.close()
        said = self._last.removeprefix("defib: ") or f"defib daemon ended with exit code {code}"
        return _BY_EXIT.get(code, Error)(said)

    def _heard(self, line: str) -> None:
        self._last = c.log_line(line, "error")
        if "daemon started" in self._last:
            self._ready.set()

    def __enter__(self) -> "Monitor":
        return self.start()

    def __exit__(self, *_exc: Any) -> None:
        self.stop()

    async def __aenter__(self) -> "Monitor":
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_exc: Any) -> None:
        await asyncio.to_thread(self.stop)
