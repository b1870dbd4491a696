# SPDX-License-Identifier: Apache-2.0
"""An SQLite file that is replaced or removed while programs have it open: SQLite itself goes on
with the file that has no name any more. They open the new one, as after a failover."""

import time

import pytest

from harness.daemon import Daemon
from harness.outages import spooled
from harness.queue_workers import Queue
from harness.waiting import eventually

pytestmark = pytest.mark.long

# Each run writes a line and waits until it may end.
RUN = ('trap \'echo "$DEFIB_TOKEN" >>stopped; exit 1\' TERM; '
       'echo "$DEFIB_TOKEN" >>runs; await go; echo "\\"$DEFIB_TOKEN\\"" >&3')
REPLACED = "the database file was replaced"


@pytest.fixture
def queue(defib, lite, with_tables):
    own = Queue(defib, lite)
    yield own
    own.close()


def lines(queue, name):
    path = queue.program.dir / name
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("known", [False, True], ids=["worker is not in it", "worker is in it"])
def test_a_job_that_runs_twice_after_a_restore_is_settled_by_its_second_run(queue, lite, known):
    """The backup has the job unclaimed. If it has the worker too, both claims have the same worker
    and the same epoch, and only their order tells them apart."""
    backup = queue.program.dir / "backup.db"
    job = queue.enqueue("--delay", "1d")
    if not known:
        lite.back_up(backup)
    worker = queue.work("--name", "anna", "--concurrency", "2", run=RUN)
    if known:
        lite.back_up(backup)
    ids = [row[0] for row in queue.worker_rows("id")]
    lite.sql("UPDATE defib_job SET run_at = 0 WHERE state = 'scheduled'")
    eventually(lambda: len(lines(queue, "runs")) == 1)
    lite.restore(backup)
    worker.wait_log(REPLACED)
    lite.sql("UPDATE defib_job SET run_at = 0 WHERE state = 'scheduled'")
    # The first run is told to stop, and its end is not taken for that of the second.
    eventually(lambda: lines(queue, "stopped") == lines(queue, "runs")[:1])
    eventually(lambda: len(lines(queue, "runs")) == 2)
    first, second = lines(queue, "runs")
    assert first.split("-")[1] == second.split("-")[1], "the epochs differ: the test shows nothing"
    (queue.program.dir / "go").touch()
    queue.wait_state(job, "done")
    assert queue.result(job) in (second, f'"{second}"')
    assert [row[0] for row in queue.worker_rows("id")] == ids if known else \
        [row[0] for row in queue.worker_rows("id")] != ids
    assert worker.log.count(REPLACED) == 1
    assert worker.stop() == 0


def test_a_job_of_another_database_is_not_settled_by_the_end_of_its_double(queue, lite):
    other = queue.program.dir / "other.db"
    lite.back_up(other)
    job = queue.enqueue()
    worker = queue.work("--name", "anna", "--spool", queue.program.dir / "spool", run=RUN)
    eventually(lambda: len(lines(queue, "runs")) == 1)
    owner, epoch = queue.one(job, "owner, epoch")
    lite.restore(other)
    # A worker that registered there has claimed a job with the same numbers.
    assert queue.enqueue("--delay", "1d") == job
    stranger, now, hour = owner + 1, int(time.time() * 1000), 3_600_000
    lite.sql("INSERT INTO defib_worker (id, name, incarnation, started_at, renewed_at, lease_ms, "
             "expires_at) VALUES (%s, 'stranger', 'test/stranger', %s, %s, %s, %s)",
             stranger, now, now, hour, now + hour)
    lite.sql("UPDATE defib_job SET state = 'running', owner = %s, epoch = %s WHERE id = %s",
             stranger, epoch, job)
    (queue.program.dir / "go").touch()
    worker.wait_log("registered again")
    eventually(lambda: len(queue.worker_rows()) == 2)
    queue.wait_state(queue.enqueue(), "done")
    assert queue.one(job, "state, owner, epoch") == ("running", stranger, epoch)
    assert worker.stop() == 0


def test_a_removed_file_is_waited_for(queue, lite):
    """It is not made anew, and a result that has nowhere to go waits for it."""
    away = queue.program.dir / "away.db"
    job = queue.enqueue()
    worker = queue.work("--name", "anna", "--spool", queue.program.dir / "spool", run=RUN)
    eventually(lambda: len(lines(queue, "runs")) == 1)
    lite.move(away)
    worker.wait_log("the database file was removed")
    before = spooled(queue, "anna")
    (queue.program.dir / "go").touch()
    eventually(lambda: spooled(queue, "anna") > before)
    assert not lite.path.exists()
    away_db = type(lite)(away)
    away_db.move(lite.path)
    queue.wait_state(job, "done")
    assert REPLACED not in worker.log
    assert worker.log.count("the database file was removed") == 1
    assert worker.log.count("the database file is back") == 1
    assert worker.stop() == 0


def test_a_new_file_with_the_log_of_the_old_one_is_not_opened(queue, lite):
    """SQLite would write pages of one into the other."""
    backup = queue.program.dir / "backup.db"
    lite.back_up(backup)
    worker = queue.work("--name", "anna")
    queue.wait_state(queue.enqueue(), "done")
    lite.hang_up()
    whole = backup.read_bytes()
    backup.replace(lite.path)
    worker.wait_log("beside it belong to the file before")
    assert lite.path.read_bytes() == whole
    lite.remove_log()
    worker.wait_log(REPLACED)
    queue.wait_state(queue.enqueue(), "done")
    assert lite.sql("PRAGMA integrity_check") == [("ok",)]
    assert worker.stop() == 0


WATCH = """
databases:
  - name: main
    url: {url}
watches:
  - name: pages
    table: pages
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 2s
    requeue: status = 'queued'
    every: 200ms
    guard: {{pace: 0}}
"""


def test_a_daemon_watches_the_file_that_is_there(defib, lite):
    lite.sql("CREATE TABLE pages (id integer PRIMARY KEY, status text, beat_at text);")
    lite.sql("INSERT INTO pages VALUES (1, 'running', datetime('now', '-1 hour'))")
    ran = defib("init", db=lite)
    assert ran.code == 0, ran.err
    backup = defib.dir / "backup.db"
    lite.back_up(backup)
    daemon = Daemon(defib, WATCH.format(url=lite.url), "--no-queue")
    try:
        eventually(lambda: lite.sql("SELECT status FROM pages") == [("queued",)])
        lite.restore(backup)
        assert lite.sql("SELECT status FROM pages") == [("running",)]
        daemon.wait_log(REPLACED)
        eventually(lambda: lite.sql("SELECT status FROM pages") == [("queued",)])
        assert daemon.log.count(REPLACED) == 1
        # What was silent before may have lost its last signs of life.
        assert "its file was replaced" in daemon.log
    finally:
        assert daemon.stop() == 0
