# SPDX-License-Identifier: Apache-2.0
"""`defib daemon --work`: workers are children of the daemon, separate from its scans: each may
crash, be replaced by a reload, and ends with the daemon, however that ends.
"""

import os
import pathlib
import signal

import pytest

from harness.daemon import Daemon
from harness.databases import initialize
from harness.waiting import eventually, running

CREATE = "CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'queued', " \
         "beat_at {time})"

CONFIG = """
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
    every: 300ms
    requeue: status = 'queued'
    startup: {{do: requeue}}
    work:
      ready: status = 'queued'
      order: id
      claim: status = 'running', beat_at = :now
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
      poll: {poll}
      grace: {grace}
      concurrency: {concurrency}
      command: [/bin/sh, -c, '{run}']
"""
HOLD = 'echo $$ >>began; await go'


def config(db, run="true", poll="50ms", grace="10s", concurrency=1):
    return f"databases:\n  - name: main\n    url: {db.url}" + CONFIG.format(
        run=run, poll=poll, grace=grace, concurrency=concurrency)


class Shop:
    """A table of jobs and daemons that work on it; all end with the test."""

    def __init__(self, program, db):
        self.program, self.db, self.daemons = program, db, []
        db.sql(CREATE.format(time="timestamptz" if db.engine == "postgres" else "text"))
        initialize(db, program)

    def add(self, n):
        for i in range(n):
            self.db.sql("INSERT INTO jobs (id) SELECT coalesce(max(id), 0) + 1 FROM jobs")

    def count(self, status):
        return self.db.sql("SELECT count(*) FROM jobs WHERE status = %s", status)[0][0]

    def daemon(self, text, *options, **more):
        daemon = Daemon(self.program, text, "--work", "--no-queue", *options, **more)
        self.daemons.append(daemon)
        return daemon

    def close(self):
        (self.program.dir / "go").touch()
        for daemon in self.daemons:
            daemon.kill()


@pytest.fixture
def shop(db, defib, with_tables):
    own = Shop(defib, db)
    yield own
    own.close()


@pytest.fixture
def lite_shop(lite, defib, with_tables):
    own = Shop(defib, lite)
    yield own
    own.close()


def worker_of(daemon, watch="jobs"):
    """The pid of the worker that was started last, once it has registered."""
    starts = daemon.lines("a worker was started", watch=watch)
    ready = daemon.lines("worker started")
    return int(starts[-1]["pid"]) if starts and len(ready) >= len(starts) else None


def wait_worker(daemon, other_than=None):
    return eventually(lambda: (pid := worker_of(daemon)) and pid != other_than and pid)


def rewrite(daemon, text):
    """Another configuration, and the signal to read it."""
    daemon.config.write_text(text)
    done = len(daemon.lines("configuration reloaded"))
    daemon.signal(signal.SIGHUP)
    eventually(lambda: len(daemon.lines("configuration reloaded")) > done)


@pytest.mark.covers("E8")
def test_workers_run_beside_the_scans_and_end_with_the_daemon(shop):
    shop.add(5)
    daemon = shop.daemon(config(shop.db))
    eventually(lambda: shop.count("done") == 5)
    pid = worker_of(daemon)
    assert pid in daemon.children()
    assert pathlib.Path(f"/proc/{pid}/comm").read_text() == "defib\n"
    daemon.wait_passes("jobs", 2)
    assert daemon.stop() == 0
    assert not running(pid)
    assert daemon.lines("a worker ended", how="exit 0")


def test_a_worker_that_is_killed_is_started_again_and_scans_go_on(lite_shop):
    """The jobs it had in hand are done by its successor, after its start."""
    lite_shop.add(1)
    daemon = lite_shop.daemon(config(lite_shop.db, run=HOLD))
    pid = wait_worker(daemon)
    eventually(lambda: lite_shop.count("running") == 1)
    os.kill(pid, signal.SIGKILL)
    second = wait_worker(daemon, other_than=pid)
    end = daemon.lines("a worker ended")[0]
    assert (end["how"], end["restarts"], end["next_start_s"]) == ("Killed", "1", "1")
    (lite_shop.program.dir / "go").touch()
    eventually(lambda: lite_shop.count("done") == 1)
    daemon.wait_passes("jobs", 2)
    assert daemon.stop() == 0
    assert not running(second)


def test_a_stop_waits_for_what_workers_have_in_hand_and_gives_the_rest_back(lite_shop):
    lite_shop.add(3)
    daemon = lite_shop.daemon(config(lite_shop.db, run=HOLD, grace="1s"))
    eventually(lambda: lite_shop.count("running") == 1)
    assert daemon.stop() == 0
    assert lite_shop.count("queued") == 3
    assert daemon.lines("a worker ended", how="exit 0")


@pytest.mark.covers("E8")
def test_a_killed_daemon_leaves_neither_workers_nor_rows_behind(shop):
    shop.add(2)
    daemon = shop.daemon(config(shop.db, run=HOLD, grace="1s"))
    pid = wait_worker(daemon)
    began = shop.program.dir / "began"
    eventually(lambda: began.exists() and began.read_text().endswith("\n"))
    job = int(began.read_text())
    daemon.kill()
    eventually(lambda: not running(pid) and not running(job))
    assert shop.count("queued") == 2


def test_a_password_is_never_in_the_arguments_of_a_worker(pg, defib):
    shop = Shop(defib, pg)
    url = pg.url.replace("postgres@", "postgres:pa55word@", 1)
    assert url != pg.url
    try:
        daemon = shop.daemon(config(pg), "--db", url)
        pid = wait_worker(daemon)
        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        assert argv[1:3] == [b"work", b"jobs"]
        assert b"pa55word" not in b" ".join(argv)
        shop.add(1)
        eventually(lambda: shop.count("done") == 1)
        assert daemon.stop() == 0
        assert "pa55word" not in daemon.log
    finally:
        shop.close()


def test_secrets_of_the_service_are_not_in_the_environment_of_workers(lite_shop):
    text = config(lite_shop.db) + "http: {tokens: [{name: anna, role: admin, env: ANNAS}]}\n"
    daemon = lite_shop.daemon(text, env={"ANNAS": "a-secret-of-hers", "OTHER": "kept"})
    pid = wait_worker(daemon)
    env = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert b"OTHER=kept" in env and b"ANNAS" not in env
    assert daemon.stop() == 0


# ---- reload ----

@pytest.mark.covers("D4")
def test_new_numbers_reach_a_worker_that_goes_on(lite_shop):
    lite_shop.add(4)
    daemon = lite_shop.daemon(config(lite_shop.db, run=HOLD))
    pid = wait_worker(daemon)
    eventually(lambda: lite_shop.count("running") == 1)
    rewrite(daemon, config(lite_shop.db, run=HOLD, concurrency=3))
    eventually(lambda: lite_shop.count("running") == 3)
    assert worker_of(daemon) == pid and running(pid)
    (lite_shop.program.dir / "go").touch()
    assert daemon.stop() == 0


@pytest.mark.covers("D4")
def test_a_worker_whose_command_changed_finishes_and_is_followed_by_another(lite_shop):
    lite_shop.add(1)
    daemon = lite_shop.daemon(config(lite_shop.db, run=HOLD, grace="30s"))
    pid = wait_worker(daemon)
    # A job that is claimed and not started yet would be released, and run by the next worker.
    eventually((lite_shop.program.dir / "began").exists)
    rewrite(daemon, config(lite_shop.db, run="echo $DEFIB_JOB_ID >>other"))
    lite_shop.add(1)
    (lite_shop.program.dir / "go").touch()
    eventually(lambda: lite_shop.count("done") == 2)
    assert wait_worker(daemon, other_than=pid)
    assert (lite_shop.program.dir / "other").read_text() == "2\n"
    assert daemon.lines("a worker ended", pid=str(pid))[0]["restarts"] == "0"
    assert daemon.stop() == 0


def test_a_watch_that_is_turned_off_has_no_worker_any_more(lite_shop):
    daemon = lite_shop.daemon(config(lite_shop.db))
    pid = wait_worker(daemon)
    rewrite(daemon, config(lite_shop.db).replace("    work:\n", "    work:\n      enabled: false\n"))
    eventually(lambda: not running(pid))
    rewrite(daemon, config(lite_shop.db))
    assert wait_worker(daemon, other_than=pid)
    assert daemon.stop() == 0


# ---- the built-in queue ----

def test_workflows_of_the_built_in_queue_are_run_too(queue):
    text = f"databases:\n  - name: main\n    url: {queue.url}\nworkflows:\n  - name: order\n" \
           "    steps:\n" + "".join(f"      - {{name: {word}, run: [/bin/sh, -c, "
                                    f"'echo {word} >>steps']}}\n" for word in ("pay", "ship"))
    job = queue.enqueue(kind="order")
    daemon = Daemon(queue.program, text, "--work")
    try:
        queue.wait_state(job, "done")
        assert (queue.program.dir / "steps").read_text() == "pay\nship\n"
        assert daemon.stop() == 0
    finally:
        daemon.kill()
