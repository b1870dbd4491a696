# SPDX-License-Identifier: Apache-2.0
"""`defib work` on the tables of examples/: the shipped configuration, or a changed one."""

import json
import re

from harness.databases import initialize
from harness.example_systems import Example, ledger
from harness.queue_workers import Worker
from harness.waiting import HANGS_S, eventually


class TableWorkers(Example):
    """One system with defib's tables; its workers end with the test."""

    def __init__(self, name, db, defib):
        super().__init__(name, db, defib)
        self.workers = []
        self.env = {"DATABASE_URL": db.url, "STAGING_DATABASE_URL": db.url}
        self.dir = defib.dir
        initialize(db, defib)

    def change(self, *pairs):
        """The configuration with parts of it replaced, in a file of the test."""
        text = self.config.read_text()
        for old, new in pairs:
            if old not in text:  # a value that the environment has not set is what is written
                text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
            assert old in text, old
            text = text.replace(old, new)
        self.config = self.dir / "changed.yaml"
        self.config.write_text(text)

    def work(self, watch, *options, run=None, env=None, url=None, wait=True):
        """Start a worker; returns once it is registered. `run` is a shell script, else the
        watch's own command."""
        log = self.dir / f"worker{len(self.workers)}.log"
        command = ["--", "/bin/sh", "-c", run] if run else []
        env = {**self.env, **({"DATABASE_URL": url} if url else {}), **(env or {})}
        with open(log, "wb") as out:
            process = self.defib.start("work", watch, "-c", self.config, *options, *command,
                                       env=env, stdout=out, stderr=out)
        worker = Worker(process, log)
        self.workers.append(worker)
        if wait:
            worker.wait_log("worker started")
        return worker

    def drain(self, watch, *options, **more):
        """Run a worker until nothing is left to claim."""
        worker = self.work(watch, "--drain", *options, wait=False, **more)
        assert worker.wait() == 0, worker.log
        return worker

    def rows(self, query, *params):
        return self.db.sql(query, *params)

    def cell(self, query, *params):
        return self.rows(query, *params)[0][0]

    def until(self, query, wanted, limit=HANGS_S):
        """Wait until the first cell of a query is what a test expects."""
        def reached():
            return self.cell(query) == wanted
        try:
            eventually(reached, limit)
        except AssertionError:
            logs = "\n".join(w.log for w in self.workers)
            raise AssertionError(f"{query}: {self.cell(query)!r}, not {wanted!r}\n{logs}") from None

    def lines(self, name):
        """What jobs wrote to a file in their working directory."""
        path = self.dir / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def until_lines(self, name, count):
        def written():
            return len(self.lines(name)) >= count
        try:
            eventually(written)
        except AssertionError:
            logs = "\n".join(w.log for w in self.workers)
            raise AssertionError(f"{name}: {self.lines(name)}\n{logs}") from None

    def ledger(self):
        """What was recovered: watch, job, verdict, evidence."""
        rows = self.rows(f"SELECT watch, job, verdict, evidence FROM {ledger(self.db)}"
                         " WHERE verdict IS NOT NULL ORDER BY id")
        return [(w, j, v, json.loads(e) if isinstance(e, str) else e) for w, j, v, e in rows]

    def close(self):
        for worker in self.workers:
            worker.kill()
