# SPDX-License-Identifier: Apache-2.0
"""Workflows on the built-in queue: a worker with a `workflows:` section."""

import json

import pytest

from harness.queue_workers import Worker
from harness.waiting import HANGS_S, eventually

class Flow:
    """A workflow `flow` of shell snippets, and workers for it."""

    def __init__(self, queue):
        self.queue = queue
        self.dir = queue.program.dir
        self.log_path = self.dir / "log"

    def write(self, steps, saga=True, name="flow"):
        """steps: {name: run} or {name: (run, undo)} or {name: (run, undo, timeout)}."""
        listed = []
        for step, how in steps.items():
            run, undo, timeout = ((how, None, None) if isinstance(how, str)
                                  else (*how, None)[:3])
            one = {"name": step, "run": self._script(f"run-{step}", f"run {step}", run)}
            if undo is not None:
                one["undo"] = self._script(f"undo-{step}", f"undo {step}", undo)
            if timeout:
                one["timeout"] = timeout
            listed.append(one)
        config = {"databases": [{"url": self.queue.url}],
                  "workflows": [{"name": name, "saga": saga, "steps": listed}]}
        (self.dir / "defib.yaml").write_text(json.dumps(config))

    def _script(self, name, line, text):
        path = self.dir / name
        path.write_text(f"#!/bin/sh\necho {line} >>log\n{text}\n")
        path.chmod(0o755)
        return [str(path)]

    def enqueue(self, *args, kind="flow"):
        return self.queue.enqueue(*args, kind=kind)

    def work(self, *options, wait=True, program=()):
        log = self.dir / f"worker{len(self.queue.workers)}.log"
        with open(log, "wb") as out:
            process = self.queue.program.start("work", "--verbose", *options, *program,
                                               stdout=out, stderr=out)
        worker = Worker(process, log)
        self.queue.workers.append(worker)
        if wait:
            worker.wait_log("worker started")
        return worker

    def drain(self, *options, program=()):
        worker = self.work("--drain", *options, wait=False, program=program)
        assert worker.wait() == 0, worker.log
        return worker

    def until(self, job, state, limit=HANGS_S):
        self.queue.wait_state(job, state, limit=limit)

    @property
    def log(self):
        return self.log_path.read_text().splitlines() if self.log_path.exists() else []

    def steps(self, job):
        return dict(self.queue.db.sql(
            f"SELECT step, state FROM {self.queue.table('step')} WHERE watch = 'queue' AND "
            "job = %s ORDER BY position", str(job)))

    def wait_for(self, name):
        """A shell snippet that waits for the file `name`."""
        return f"await {name}"

    def touch(self, name):
        (self.dir / name).touch()

    def logged(self, line):
        eventually(lambda: line in self.log)


@pytest.fixture
def flow(queue):
    return Flow(queue)
