# SPDX-License-Identifier: Apache-2.0
"""Programs in Node.js that use the package of clients/node; a test hears what they print."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from harness.pgserver import signal_all
from harness.program import ROOT, SANITIZER_SAYS
from harness.waiting import HANGS_S, eventually

PACKAGE = ROOT / "clients" / "node"


def need_node():
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("no node and npm")


class NodeProgram:
    """One process; it prints one JSON value per line."""

    def __init__(self, argv, folder, env, log):
        self.out_path, self.log_path = log.with_suffix(".out"), log
        with open(self.out_path, "wb") as out, open(log, "wb") as err:
            self.process = subprocess.Popen(
                argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, env={"PATH": os.environ["PATH"], "HOME": str(folder), **env})
        self.pid = self.process.pid

    @property
    def out(self):
        return self.out_path.read_text(errors="replace")

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def said(self, what=None):
        """What it printed, all or only values whose first item is `what`."""
        lines = [json.loads(line) for line in self.out.splitlines(True) if line.endswith("\n")]
        return [line for line in lines if what is None or line[0] == what]

    def hear(self, what, n=1):
        """The n-th value that begins with `what`, without it."""
        def heard():
            if self.process.poll() is not None and len(self.said(what)) < n:
                raise AssertionError(f"ended without {what}: {self.out}\n{self.log}")
            return len(self.said(what)) >= n
        try:
            eventually(heard)
        except AssertionError as failed:
            raise AssertionError(f"{failed}\n{self.out}\n{self.log}") from None
        return self.said(what)[n - 1][1:]

    def children(self):
        """Processes that it started."""
        path = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def wait(self, limit=HANGS_S):
        return self.process.wait(limit)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """kill -9, alone: what it started must see that by itself."""
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait()


class NodePrograms:
    """Starts programs in one directory, where `defib` is the package; they end with the test."""

    def __init__(self, program):
        need_node()
        self.dir = program.dir
        self.env = {"DEFIB_BIN": str(program.bin)}
        self.programs = []

    def run(self, script, *args, **env):
        """A script, or its text, which may use the package as `defib` and print with say()."""
        path = script
        if "\n" in str(script):
            path = self.dir / f"program{len(self.programs)}.mjs"
            path.write_text(f"import * as defib from '{PACKAGE}/lib/index.mjs'\n"
                            "const say = (...what) => console.log(JSON.stringify(what))\n"
                            f"{script}")
        one = NodeProgram(["node", path, *map(str, args)], self.dir, {**self.env, **env},
                          self.dir / f"program{len(self.programs)}.log")
        self.programs.append(one)
        return one

    def close(self):
        for one in self.programs:
            if one.process.poll() is None:
                signal_all(one.children(), signal.SIGCONT)  # what is stopped would not see the end
            one.kill()
            assert not [word for word in SANITIZER_SAYS if word in one.log], one.log
