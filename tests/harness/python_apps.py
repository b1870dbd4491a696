# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/*/app, as their READMEs start them: real servers on real PostgreSQL."""

import contextlib
import json
import shutil
import signal
import time
import urllib.error
import urllib.request

import pytest

from harness.databases import initialize
from harness.pgserver import free_port
from harness.program import ROOT
from harness.small_memory import small_memory
from harness.waiting import eventually, patience

EXAMPLES = ROOT / "examples"
ALLOWED_MB = 200


class App:
    """One program in a copy of its folder; each start is a process of its own."""

    def __init__(self, name, db, defib, script):
        self.db = db
        self.script = script
        self.dir = script.folder / name / "app"
        shutil.copytree(EXAMPLES / name, self.dir.parent)
        db.sql((self.dir.parent / "schema.postgres.sql").read_text())
        initialize(db, defib)
        self.port = None

    def start(self, wait=True, *options, **env):
        self.port = free_port()
        server = self.script.module("uvicorn", "app:app", "--port", self.port, *options,
                                    folder=self.dir, DATABASE_URL=self.db.url, **env)
        if wait:
            eventually(lambda: server.process.poll() is not None or self.answers())
            assert server.process.poll() is None, server.log
        return server

    @contextlib.contextmanager
    def as_own_role(self, defib, tables):
        """A role with what its program always needed, and the grants that `init --print` prints."""
        role = f"app_{self.db.name}"
        superuser, self.db.url = self.db.url, self.db.url.replace("postgres@", f"{role}@")
        assert superuser != self.db.url
        self.db.sql(f"CREATE ROLE {role} LOGIN")
        self.db.sql(f"GRANT SELECT, INSERT, UPDATE ON {tables} TO {role}")
        ran = defib("init", "--print", config=self.dir.parent / "defib.yaml",
                    env={"DATABASE_URL": self.db.url})
        assert ran.code == 0, ran.err
        self.db.sql(ran.out)
        try:
            yield
        finally:
            for one in self.script.started:
                one.kill()
            self.db.sql(f"DROP OWNED BY {role}")
            self.db.sql(f"DROP ROLE {role}")

    def answers(self):
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def kill_by_memory(self, server, job):
        """The kernel kills it: a memory cgroup is too small for what `job` makes it do."""
        with small_memory(ALLOWED_MB) as group:
            try:
                (group / "cgroup.procs").write_text(str(server.pid))
            except OSError as why:
                pytest.skip(f"a process cannot be moved into a memory cgroup here: {why}")
            job()
            server.process.wait(patience())
            assert "oom_kill 1" in (group / "memory.oom_control").read_text()
        assert server.process.returncode == -signal.SIGKILL

    def ask(self, method, path, timeout=patience(), **headers):
        """Status, document and how long it took."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                       headers={name.replace("_", "-"): value
                                                for name, value in headers.items()})
        began = time.monotonic()
        try:
            with urllib.request.urlopen(asked, timeout=timeout) as got:
                status, body = got.status, got.read()
        except urllib.error.HTTPError as refused:
            status, body = refused.code, refused.read()
        return status, json.loads(body) if body else None, time.monotonic() - began

    def cell(self, query, *params):
        return self.db.sql(query, *params)[0][0]

    def lines(self, name):
        path = self.dir / name
        return path.read_text().split("\n")[:-1] if path.exists() else []
