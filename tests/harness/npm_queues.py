# SPDX-License-Identifier: Apache-2.0
"""Foreign queues from npm: the real graphile-worker and pg-boss.

Their workers (tests/node/*.js) are written as their users would write them and record what they run
in a table of the test, by the database's clock. The fixtures `graphile` and `pgboss` of conftest.py
provide one of them on a fresh database.
"""

import contextlib
import os
import shutil
import subprocess

import pytest

from harness.program import ROOT
from harness.queue_workers import Worker
from harness.waiting import HANGS_S, eventually, patience

NODE = ROOT / "tests" / "node"
INSTALL = NODE.parents[1] / "scripts" / "npm-install"
INSTALL_S = 240
# The first to need them installs them: a test's own limit would end that.
RAN = """
CREATE TABLE ran (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job text NOT NULL,
    worker text,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz)
"""


def install(folder, source=NODE):
    """The packages of a lock file; the directory belongs to the build."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("no node and npm")
    ran = subprocess.run([INSTALL, source, folder], capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"graphile-worker and pg-boss: {ran.stderr.strip()}")
    return folder / "node_modules"


class Strangers:
    """One foreign queue on one database: add() jobs, start() workers, see what they ran.

    is_running(key) returns whether the queue's own table marks a job as running."""

    def __init__(self, script, db, folder, modules):
        self.script = NODE / script
        self.db = db
        self.dir = folder
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "NODE_PATH": str(modules),
                    "DATABASE_URL": db.url}
        self.workers = []
        self._node("migrate")
        db.sql(RAN)

    def _node(self, *args):
        ran = subprocess.run(["node", self.script, *map(str, args)], env=self.env, cwd=self.dir,
                             capture_output=True, text=True, timeout=patience(), check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def add(self, name, hold_s=0):
        """A job; its first run takes hold_s seconds, later ones no time. Returns its key as text.
        """
        return self._node("add", name, hold_s)

    def start(self, name, under=(), **env):
        """A worker in a process, two jobs at a time; `under` precedes it on the command line."""
        log = self.dir / f"{name}.log"
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen([*map(str, under), "node", str(self.script), "work"],
                                       env={**self.env, "STRANGER": name, **env}, cwd=self.dir,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True)
        worker = Worker(process, log)
        self.workers.append(worker)
        return worker

    def runs(self, job):
        """(worker, began_at, ended_at) of each run of a job, in order."""
        return self.db.sql("SELECT worker, began_at, ended_at FROM ran WHERE job = %s ORDER BY id",
                           job)

    def wait_runs(self, job, n=1, ended=False, limit=HANGS_S):
        """The first n runs of a job, as soon as that many exist (or have ended)."""
        def enough():
            runs = [run for run in self.runs(job) if run[2] or not ended]
            return runs if len(runs) >= n else None
        return eventually(enough, limit)

    def close(self):
        """What `defib run` started has its own group, and outlives it."""
        for worker in self.workers:
            groups = [worker.pid, *(worker.children() if worker.process.poll() is None else [])]
            for group in groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, 9)
            worker.process.wait()


class Graphile(Strangers):
    def __init__(self, *args):
        super().__init__("graphile.js", *args)

    def is_running(self, key):
        return self.db.sql("SELECT locked_at IS NOT NULL FROM graphile_worker._private_jobs "
                           "WHERE id = %s", key) == [(True,)]


class PgBoss(Strangers):
    def __init__(self, *args):
        super().__init__("pgboss.js", *args)

    def is_running(self, key):
        return self.db.sql("SELECT state = 'active' FROM pgboss.job WHERE id = %s",
                           key) == [(True,)]
