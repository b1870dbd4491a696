# SPDX-License-Identifier: Apache-2.0
"""The Python package as users have it: a wheel in a virtual environment, with the built library."""

import fcntl
import os
import shutil
import signal
import subprocess

import pytest

from harness.program import BIN, ROOT
from harness.waiting import HANGS_S, eventually, patience

LIBRARY = BIN.parent / "libdefib.so"


def sources():
    """What the wheel is made of, with its state."""
    files = sorted((ROOT / "clients" / "python").rglob("*"))
    return "".join(f"{path} {path.stat().st_mtime_ns}\n" for path in files if path.is_file())


class Environment:
    """A virtual environment with the package, beside Debian's packages.

    It is made once for all processes that run tests, and again when the sources have changed.
    """

    def __init__(self, folder):
        self.wheels = folder / "wheels"
        self.home = folder / "venv"
        self.python = self.home / "bin" / "python"
        folder.mkdir(exist_ok=True)
        made = folder / "made"
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists() or made.read_text() != sources():
                self._make()
                made.write_text(sources())
        self.wheel, = self.wheels.glob("*.whl")

    def _make(self):
        for old in (self.wheels, self.home):
            shutil.rmtree(old, ignore_errors=True)
        run(ROOT / "scripts" / "wheel", self.wheels)
        run("/usr/bin/python3", "-m", "venv", "--system-site-packages", "--without-pip", self.home)
        site, = self.home.glob("lib/python3*/site-packages")
        run("/usr/bin/python3", "-m", "pip", "-q", "install", "--no-index", "--no-deps",
            "--target", site, *self.wheels.glob("*.whl"))

    def env(self, **more):
        return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8",
                "PYTHONDONTWRITEBYTECODE": "1", "DEFIB_LIBRARY": str(LIBRARY),
                "DEFIB_BIN": str(BIN), **more}

    def run(self, script, *args, folder=None, timeout=patience(), **env):
        """A script until it ends: its output."""
        ran = subprocess.run([self.python, "-c", script, *map(str, args)], cwd=folder,
                             env=self.env(**env), capture_output=True, text=True, timeout=timeout,
                             check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


def run(*argv):
    ran = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False,
                         timeout=patience())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


class Script:
    """A Python program that runs; its output is a file."""

    def __init__(self, package, folder, argv, name, env):
        self.path = folder / f"{name}.log"
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen([package.python, *map(str, argv)], cwd=folder,
                                            env=package.env(**env), stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out, start_new_session=True)
        self.pid = self.process.pid

    @property
    def log(self):
        return self.path.read_text(errors="replace")

    def wait_log(self, text, limit=HANGS_S):
        def said():
            assert self.process.poll() is None or text in self.log, self.log
            return text in self.log
        eventually(said, limit)

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, limit=HANGS_S):
        """TERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(limit)

    def kill(self):
        """kill -9 of the program and of what it started."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="session")
def package():
    if "asan" in BIN.parent.name or "tsan" in BIN.parent.name:
        pytest.skip("a sanitized library needs a sanitized program")
    return Environment(BIN.parent / "python-tests")


class Scripts:
    """Start programs in a folder; all end with close()."""

    def __init__(self, package, folder):
        self.package, self.folder, self.started = package, folder, []
        folder.mkdir()

    def __call__(self, text, *args, **env):
        path = self.folder / f"program{len(self.started)}.py"
        path.write_text(text)
        return self._start(self.folder, [path, *args], path.stem, env)

    def module(self, *argv, folder, **env):
        return self._start(folder, ["-m", *argv], f"module{len(self.started)}", env)

    def program(self, *argv, folder, **env):
        return self._start(folder, argv, f"program{len(self.started)}", env)

    def _start(self, folder, argv, name, env):
        self.started.append(Script(self.package, folder, argv, name, env))
        return self.started[-1]

    def close(self):
        for one in self.started:
            one.kill()


@pytest.fixture
def script(package, tmp_path):
    scripts = Scripts(package, tmp_path / "python")
    yield scripts
    scripts.close()


__all__ = ["package", "script"]
