# SPDX-License-Identifier: Apache-2.0
"""Replays of the five documents: an example as it ships, in a copy of its directory.

It is only changed through the environment, as its own users would do. The README is part of it: its
commands are typed, and the lines of configuration that it names must exist.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal

from harness.daemon import Daemon
from harness.example_systems import EXAMPLES
from harness.http_daemon import WebDaemon
from harness.program import BIN, Program
from harness.shell_pages import commands, environment, expected, type_all
from harness.table_workers import TableWorkers
from harness.waiting import eventually, running


class Replay(TableWorkers):
    """The system in `folder`, with its tables, daemons and workers; all end with the test."""

    def __init__(self, name, db, folder):
        home = folder / name
        home.mkdir()
        super().__init__(name, db, Program(home))
        shutil.copytree(EXAMPLES / name, home, dirs_exist_ok=True)
        self.config = self.dir / self.config.name
        self.daemons = []

    def daemon(self, *options, listen=False, env=None):
        daemon = (WebDaemon if listen else Daemon)(self.defib, self.config.read_text(), *options,
                                                   env={**self.env, **(env or {})})
        self.daemons.append(daemon)
        return daemon

    def __call__(self, *args, env=None, **options):
        return super().__call__(*args, env={**self.env, **(env or {})}, **options)

    def close(self):
        super().close()
        for daemon in self.daemons:
            daemon.kill()


def kill_container(daemon):
    """Kill everything in it at once, like the end of a container."""
    workers = daemon.children()
    daemon.signal(signal.SIGSTOP)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(running(pid) for pid in workers))
    daemon.kill()


def program(system, name, text):
    """Replace a program that the example ships."""
    path = system.dir / name
    path.write_text(text)
    path.chmod(0o755)


def type_readme(name, folder, engine, places, modules=None, **env):
    """Type every command of its page, with other paths than the page names; returns their output.

    `modules` are what `npm install` would have put there."""
    copy = shutil.copytree(EXAMPLES / name, folder / name,
                           ignore=shutil.ignore_patterns("node_modules"))
    for module, path in (modules or {}).items():
        (copy / "app" / "node_modules").mkdir(exist_ok=True)
        (copy / "app" / "node_modules" / module).symlink_to(path)
    lines = commands(copy / "README.md", engine)
    for place, own in places.items():
        lines = [line.replace(place, own) for line in lines]
    own = environment(copy, BIN)
    if "PYTHON" in env:  # of a virtual environment
        own["PATH"] = f"{pathlib.Path(env.pop('PYTHON')).parent}:{own['PATH']}"
    said = type_all(lines, copy, {**own, **env})
    for command, code, text in said:
        assert code == expected(command), f"{command}\n{text}"
    return {command.split("#")[0].strip(): text for command, _, text in said}


@contextlib.contextmanager
def page_server(server, *names):
    """Environment of a page's commands, in which PostgreSQL is this server; the databases that
    the page creates are dropped at the end."""
    try:
        yield {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres"}
    finally:
        server.left.extend(names)


def praised_lines(name):
    """The lines that the page's table names; each must be in the configuration."""
    return re.findall(r"^\| `([^`]+)`", (EXAMPLES / name / "README.md").read_text(), re.M)
