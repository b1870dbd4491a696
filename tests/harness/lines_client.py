# SPDX-License-Identifier: Apache-2.0
"""A program beside `defib work --lines`, for tests: it reads and writes the lines of docs/lines.md."""

import json
import os
import queue
import subprocess
import threading

from harness.program import SANITIZER_SAYS
from harness.waiting import patience


class LinesClient:
    """One process of defib and the lines that it wrote, in order."""

    def __init__(self, program, *args, log, **options):
        with open(log, "wb") as err:
            self.process = program.start("work", *args, "--lines", stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=err, text=False, **options)
        self.pid = self.process.pid
        self.log_path = log
        self.lines = queue.Queue()
        self.seen = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def next(self, what=None):
        """The next line; with `what`, the next of that kind. None: there are no more."""
        while True:
            try:
                line = self.lines.get(timeout=patience())
            except queue.Empty:
                raise AssertionError(f"no {what}; {self.seen}\n{self.log}") from None
            self.seen.append(line)
            if line is None or what is None or line["is"] == what:
                assert line or not what, f"ended without {what}: {self.seen}\n{self.log}"
                return line

    def say(self, do, run=None, **more):
        self.write(json.dumps({"do": do, **({} if run is None else {"run": run}), **more}) + "\n")

    def write(self, text):
        self.process.stdin.write(text if isinstance(text, bytes) else text.encode())
        self.process.stdin.flush()

    def close(self):
        """As if the program beside it had been killed."""
        self.process.stdin.close()

    def wait(self):
        return self.process.wait(patience())

    def stop(self):
        self.say("stop")
        return self.wait()

    def kill(self):
        if self.process.poll() is None:
            os.kill(self.pid, 9)
        self.process.wait()
        self.reader.join(patience())
        assert not [word for word in SANITIZER_SAYS if word in self.log], self.log
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                pass
