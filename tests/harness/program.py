# SPDX-License-Identifier: Apache-2.0
"""The program under test, in an empty directory and environment."""

import dataclasses
import json
import os
import pathlib
import subprocess

from harness.await_program import tools
from harness.waiting import patience

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DEFIB_BIN", ROOT / "build" / "defib")).resolve()
SANITIZER_SAYS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")


@dataclasses.dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Program:
    """defib("scan", "--json", db=…, config=…): the program in an empty directory and environment.
    """

    def __init__(self, folder):
        self.dir = folder
        self.bin = BIN

    def _env(self, extra):
        kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        if os.geteuid() != 0:  # tests look into /proc, which is root's alone otherwise
            kept["DEFIB_DUMPABLE"] = "1"
        return {"HOME": str(self.dir), "PATH": f"/usr/bin:/bin:{tools()}", **kept,
                **(extra or {})}

    def _argv(self, args, db, config):
        argv = [str(self.bin), *map(str, args)]
        if config is not None:
            path = pathlib.Path(config) if "\n" not in str(config) else self.dir / "defib.yaml"
            if "\n" in str(config):
                path.write_text(config)
            argv += ["-c", str(path)]
        if db is not None:
            argv += ["--db", getattr(db, "url", db)]
        return argv

    def start(self, *args, db=None, config=None, env=None, **options):
        """Without waiting: the Popen, for tests that act while it runs."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen(self._argv(args, db, config), cwd=self.dir,
                                env=self._env(env), **options)

    def __call__(self, *args, timeout=patience(), **options):
        child = self.start(*args, **options)
        try:
            out, err = child.communicate(timeout=timeout)
        finally:
            child.kill()
            child.wait()
        for word in SANITIZER_SAYS:
            assert word not in (err or ""), err
        return Ran(child.returncode, out, err)
