# SPDX-License-Identifier: Apache-2.0
"""Attempts of rows: as many as the watch allows, with waits between them, whoever runs them."""

import contextlib

import pytest

from harness.databases import initialize
from harness.node_programs import NodePrograms
from harness.python_package import Script, package  # noqa: F401  (a fixture)
from harness.queue_workers import Worker
from harness.waiting import eventually

CONFIG = """
databases: [{{name: main, url: '{url}'}}]
watches:
  - name: mails
    table: mails
    key: id
    running: status = 'running'
    started_at: updated_at
    overdue_after: 1h
    time_type: text
    attempts: tries
    max_attempts: 3
    requeue: status = 'queued', updated_at = :now
    work:
      ready: status = 'queued'
      claim: status = 'running', tries = tries + 1, error = NULL, updated_at = :now
      done: status = 'done'
      failed: status = 'failed', error = :error
      release: status = 'queued'
      poll: 20ms
"""

SHELL = """echo $DEFIB_JOB_ID $DEFIB_ATTEMPT $DEFIB_MAX_ATTEMPTS >>runs
echo "run $DEFIB_ATTEMPT" >&2
[ $DEFIB_JOB_ID = 1 ] && exit 75
exit 1"""

PYTHON = """
import sys
import defib
worker = defib.Worker(watches=defib.Watches(sys.argv[1]))

@worker.watch("mails")
def send(job):
    with open("runs", "a") as out:
        print(job.key, job.attempt, job.max_attempts, file=out)
    raise (defib.Retry if job.key == "1" else ValueError)(f"run {job.attempt}")

worker.run()
"""

NODE = """
import fs from 'node:fs'
const worker = new defib.Worker({
  watch: 'mails', config: process.argv[2],
  handler: async (job) => {
    fs.appendFileSync('runs', `${job.key} ${job.attempt} ${job.maxAttempts}\\n`)
    throw new (job.key === '1' ? defib.Retry : Error)(`run ${job.attempt}`)
  },
})
await worker.run()
"""


@contextlib.contextmanager
def programs(defib, config):
    with open(defib.dir / "log", "wb") as log:
        one = Worker(defib.start("work", "mails", "-c", config, "--", "/bin/sh", "-c", SHELL,
                                 stdout=log, stderr=log), defib.dir / "log")
    yield one
    one.kill()


@contextlib.contextmanager
def python(defib, config, package):
    (defib.dir / "work.py").write_text(PYTHON)
    one = Script(package, defib.dir, ["work.py", config], "python", {})
    yield one
    one.process.kill()
    one.process.wait()


@contextlib.contextmanager
def node(defib, config):
    nodes = NodePrograms(defib)
    yield nodes.run(NODE, config)
    nodes.close()


def every_attempt_is_made(db, defib, run, *more):
    """One row whose job fails, and one whose job asks to be run again later: three times each."""
    db.sql("CREATE TABLE mails (id integer PRIMARY KEY, status text DEFAULT 'queued', "
           "tries integer DEFAULT 0, error text, updated_at text)")
    db.sql("INSERT INTO mails (id) VALUES (1), (2)")
    initialize(db, defib)
    config = defib.dir / "mails.yaml"
    config.write_text(CONFIG.format(url=db.url))
    with run(defib, config, *more) as worker:
        try:
            eventually(lambda: db.sql("SELECT status, tries FROM mails") == [("failed", 3)] * 2)
        except AssertionError as failed:
            raise AssertionError(f"{failed}\n{db.sql('SELECT * FROM mails')}\n"
                                 f"{worker.log}") from None
    runs = (defib.dir / "runs").read_text().splitlines()
    assert sorted(runs) == [f"{job} {attempt} 3" for job in (1, 2) for attempt in (1, 2, 3)]
    for error, in db.sql("SELECT error FROM mails"):
        assert "run 3" in error


def test_a_program_gets_all_attempts_of_its_row_and_no_more(db, defib):
    every_attempt_is_made(db, defib, programs)


@pytest.mark.plain
@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
def test_a_python_handler_gets_as_many(db, defib, package):
    every_attempt_is_made(db, defib, python, package)


@pytest.mark.plain
@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
def test_a_node_handler_gets_as_many(db, defib):
    every_attempt_is_made(db, defib, node)
