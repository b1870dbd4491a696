# SPDX-License-Identifier: Apache-2.0
"""Ruvon (C) end to end on PostgreSQL: beats, crashes, retries on time, and sagas.

The test controls the time where it matters: the server has a clock that stands still until it is
moved, so that "not a second before" can be checked.
"""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from harness.databases import PgDatabase
from harness.pgserver import PgServer
from harness.program import ROOT
from harness.ruvon import STEP
from harness.table_workers import TableWorkers

WORKFLOW = "550e8400-e29b-41d4-a716-446655440000"
STATUS = f"SELECT status FROM workflow_executions WHERE id = '{WORKFLOW}'"
BEATS = "SELECT count(*) FROM workflow_heartbeats"

# Beats of a worker that knows nothing of defib.
FOREIGN = """
import os, sys, time
import psycopg2
session = psycopg2.connect(sys.argv[1])
session.autocommit = True
while True:
    session.cursor().execute(
        "INSERT INTO workflow_heartbeats (workflow_id, worker_id, current_step, step_started_at)"
        " VALUES (%s, 'celery@worker1', 'Process_Payment', now()) ON CONFLICT (workflow_id)"
        " DO UPDATE SET last_heartbeat = now()", (sys.argv[2],))
    time.sleep(0.05)
"""


class Ruvon(TableWorkers):
    """The shipped example, with steps that a test can hold, fail and count."""

    def __init__(self, db, defib):
        super().__init__("ruvon", db, defib)
        script = self.dir / "order.sh"
        script.write_text(STEP)
        script.chmod(0o755)

    def add(self, key=WORKFLOW, status="ACTIVE", **metadata):
        self.insert("workflow_executions", id=key, workflow_type="Order", status=status,
                    current_step=None if status == "ACTIVE" else "Process_Payment",
                    metadata=json.dumps(metadata))

    def beat(self, seconds_ago=0, key=WORKFLOW):
        self.insert("workflow_heartbeats", workflow_id=key, worker_id="celery@worker1",
                    last_heartbeat=self.ago(seconds_ago), current_step="Process_Payment")

    @property
    def status(self):
        return self.cell(STATUS)

    def hold(self, step):
        (self.dir / f"hold.{step}").touch()

    def let_go(self, step):
        (self.dir / f"hold.{step}").unlink()

    def fails(self, step):
        (self.dir / f"fail.{step}").touch()

    def fix(self):
        ran = self("scan", "--fix", "--json")
        assert ran.code == 0, ran.err
        return ran.json

    def events(self):
        """What the ledger says, oldest first."""
        ran = self("ledger", "--json")
        assert ran.code == 0, ran.err
        return [json.loads(line)["event"] for line in ran.out.splitlines()]


def closing(system):
    try:
        yield system
    finally:
        system.close()


@pytest.fixture
def ruvon(pg, defib):
    yield from closing(Ruvon(pg, defib))


@pytest.fixture
def clocked(defib):
    """Ruvon on a server whose time is the test's."""
    server = PgServer(clocked=True).start()
    try:
        yield from closing(Ruvon(PgDatabase(server), defib))
    finally:
        server.remove()


# ---- beats ----

@pytest.mark.covers("C1", "C2")
def test_a_beat_appears_with_the_step_moves_and_goes_with_it(ruvon):
    ruvon.change(("beat: ${HEARTBEAT_INTERVAL_SECONDS:-30}s", "beat: 200ms"))
    ruvon.add()
    ruvon.hold("Process_Payment")
    worker = ruvon.work("workflows", "--name", "w", "--drain")
    ruvon.until("SELECT current_step FROM workflow_executions", "Process_Payment")
    ruvon.until_lines("began", 2)
    row = "SELECT worker_id, current_step, step_started_at, last_heartbeat FROM workflow_heartbeats"
    who, step, started, first = ruvon.rows(row)[0]
    assert (who, step) == ("w", "Process_Payment")
    assert ruvon.cell("SELECT metadata FROM workflow_heartbeats") == {"epoch": 2, "attempt": 0}
    assert ruvon.status == "PENDING_ASYNC"
    ruvon.until(f"SELECT last_heartbeat > '{first}' FROM workflow_heartbeats", True)
    assert ruvon.cell("SELECT step_started_at FROM workflow_heartbeats") == started
    ruvon.let_go("Process_Payment")
    assert worker.wait() == 0
    assert ruvon.status == "COMPLETED"
    assert ruvon.cell(BEATS) == 0
    assert ruvon.lines("ended") == ["Reserve_Inventory", "Process_Payment", "Ship_Order"]


@pytest.mark.covers("C1")
def test_a_beat_that_fails_is_tried_again_and_never_ends_the_job(ruvon):
    ruvon.change(("beat: ${HEARTBEAT_INTERVAL_SECONDS:-30}s", "beat: 200ms"))
    ruvon.add()
    ruvon.hold("Reserve_Inventory")
    worker = ruvon.work("workflows", "--drain")
    ruvon.until_lines("began", 1)
    ruvon.rows("ALTER TABLE workflow_heartbeats RENAME TO away")
    worker.wait_log("heartbeat failed; will retry")
    ruvon.rows("ALTER TABLE away RENAME TO workflow_heartbeats")
    before = ruvon.cell("SELECT last_heartbeat FROM workflow_heartbeats")
    ruvon.until(f"SELECT last_heartbeat > '{before}' FROM workflow_heartbeats", True)
    ruvon.let_go("Reserve_Inventory")
    assert worker.wait() == 0
    assert ruvon.status == "COMPLETED"
    assert ruvon.lines("began").count("Reserve_Inventory") == 1


@pytest.mark.covers("C3")
def test_a_workflow_without_a_heartbeat_row_is_left_alone(clocked):
    clocked.add(status="PENDING_ASYNC")
    clocked.db.server.clock.forward(7 * 86400)
    assert clocked.fix()["found"] == 0
    assert clocked.status == "PENDING_ASYNC"


# ---- a crash of a worker that knows nothing of defib ----

@pytest.mark.covers("C4")
def test_a_killed_worker_is_noticed_after_the_threshold_and_its_traces_are_kept(clocked):
    clocked.add(status="PENDING_ASYNC")
    foreign = subprocess.Popen([sys.executable, "-c", FOREIGN, clocked.db.url, WORKFLOW])
    try:
        clocked.until(BEATS, 1)
        clocked.db.server.clock.forward(300)
        clocked.until("SELECT last_heartbeat = now() FROM workflow_heartbeats", True)
        assert clocked.fix()["found"] == 0
    finally:
        foreign.send_signal(signal.SIGKILL)
        foreign.wait()
    clocked.db.server.clock.forward(119)
    assert clocked.fix()["found"] == 0
    assert clocked.status == "PENDING_ASYNC"
    last = clocked.cell("SELECT last_heartbeat FROM workflow_heartbeats")
    clocked.db.server.clock.forward(2)
    assert clocked.fix()["recovered"] == 1
    assert clocked.status == "FAILED_WORKER_CRASH"
    (event, data), = clocked.rows("SELECT event_type, event_data FROM workflow_audit_log")
    assert event == "ZOMBIE_DETECTED"
    assert data["last_heartbeat"][:19] == f"{last:%Y-%m-%dT%H:%M:%S}"
    assert data["current_step"] == "Process_Payment"
    assert float(data["stale_duration_seconds"]) == 121
    assert clocked.cell(BEATS) == 0


@pytest.mark.covers("C9")
def test_without_a_saga_a_crash_is_only_marked(clocked):
    clocked.add(status="PENDING_ASYNC", zombie_retry_count=3)
    clocked.beat(seconds_ago=600)
    clocked.fix()
    clocked.db.server.clock.forward(86400)
    clocked.fix()
    assert clocked.status == "FAILED_WORKER_CRASH"


# ---- retries on time ----

def crash(ruvon):
    """Its worker took it, beat once and was never heard of again."""
    ruvon.rows("UPDATE workflow_executions SET status = 'PENDING_ASYNC'")
    ruvon.beat(seconds_ago=121)
    ruvon.fix()
    assert ruvon.status == "FAILED_WORKER_CRASH"


@pytest.mark.covers("C8")
def test_it_is_active_again_after_one_two_and_four_minutes_and_not_a_second_before(clocked):
    clock = clocked.db.server.clock
    clocked.add(status="PENDING_ASYNC")
    for minutes in (1, 2, 4):
        crash(clocked)
        clock.forward(60 * minutes - 1)
        clocked.fix()
        assert clocked.status == "FAILED_WORKER_CRASH"
        clock.forward(1)
        clocked.fix()
        assert clocked.rows("SELECT status, current_step FROM workflow_executions") == \
            [("ACTIVE", "Process_Payment")], f"after {minutes} min"
    assert clocked.cell("SELECT metadata ->> 'zombie_retry_count' FROM workflow_executions") == "3"
    assert clocked.events().count("RETRY_SCHEDULED") == clocked.events().count("RETRIED") == 3


@pytest.mark.covers("C8")
def test_after_the_third_retry_the_ledger_says_that_they_are_exhausted(clocked):
    clocked.add(zombie_retry_count=3)
    crash(clocked)
    assert "RETRIES_EXHAUSTED" in clocked.events()
    assert "RETRY_SCHEDULED" not in clocked.events()
    clocked.db.server.clock.forward(3600)
    clocked.fix()
    assert clocked.status == "FAILED_WORKER_CRASH"


@pytest.mark.covers("C8")
def test_a_pending_retry_outlives_a_restart_of_everything(clocked):
    server = clocked.db.server
    clocked.add()
    crash(clocked)
    server.stop()
    server.clock.forward(59)
    server.start()
    clocked.db.hang_up()
    clocked.fix()
    assert clocked.status == "FAILED_WORKER_CRASH"
    server.clock.forward(1)
    clocked.fix()
    assert clocked.status == "ACTIVE"


@pytest.mark.covers("C8")
def test_what_a_killed_worker_of_ours_had_goes_on_at_its_step(ruvon):
    ruvon.change(("backoff: {base: 60s, factor: 2}", "backoff: {base: 10ms}"))
    ruvon.add()
    ruvon.hold("Process_Payment")
    first = ruvon.work("workflows", "--name", "first")
    ruvon.until_lines("began", 2)
    ruvon.work("workflows", "--name", "second")
    first.kill()
    ruvon.until("SELECT metadata ->> 'zombie_retry_count' FROM workflow_executions", "1")
    ruvon.let_go("Process_Payment")
    ruvon.until(STATUS, "COMPLETED")
    assert ruvon.lines("began") == ["Reserve_Inventory", "Process_Payment", "Process_Payment",
                                    "Ship_Order"]


# ---- by hand ----

@pytest.mark.covers("C5")
def test_a_person_retries_a_crashed_workflow_from_a_step(ruvon):
    ruvon.add()
    ruvon.fails("Ship_Order")
    ruvon.rows("UPDATE workflow_executions SET metadata = '{\"zombie_retry_count\": 3}'")
    ruvon.drain("workflows")
    assert ruvon.status == "FAILED"
    assert ruvon.lines("ended") == ["Reserve_Inventory", "Process_Payment", "Ship_Order"]
    (ruvon.dir / "fail.Ship_Order").unlink()
    ran = ruvon("retry", f"workflows/{WORKFLOW}", "--from-step", "Process_Payment", "--yes")
    assert ran.code == 0, ran.err
    assert ruvon.rows("SELECT status, current_step FROM workflow_executions") == \
        [("ACTIVE", "Process_Payment")]
    ruvon.drain("workflows")
    assert ruvon.status == "COMPLETED"
    assert ruvon.lines("ended")[3:] == ["Process_Payment", "Ship_Order"]
    assert "RETRY_FROM_STEP" in ruvon.events()


# ---- sagas ----

@pytest.mark.covers("C9")
def test_a_saga_whose_worker_is_killed_is_rolled_back_even_if_that_worker_is_killed_too(ruvon):
    ruvon.add(saga_enabled=True)
    ruvon.hold("Ship_Order")
    ruvon.hold("Reserve_Inventory.undo")
    first = ruvon.work("workflows", "--name", "first")
    ruvon.until_lines("began", 3)
    second = ruvon.work("workflows", "--name", "second")
    first.kill()
    # The dead worker's step is not finished: what was finished before it is undone.
    ruvon.until_lines("began", 5)
    assert ruvon.lines("began")[3:] == ["Process_Payment.undo", "Reserve_Inventory.undo"]
    assert ruvon.status == "FAILED"
    second.kill()
    ruvon.let_go("Reserve_Inventory.undo")
    ruvon.work("workflows", "--name", "third")
    ruvon.until(STATUS, "FAILED_ROLLED_BACK")
    assert ruvon.lines("began").count("Process_Payment.undo") == 1
    assert ruvon.lines("began").count("Reserve_Inventory.undo") == 2
    assert ruvon.lines("ended")[-1] == "Reserve_Inventory.undo"
    assert ruvon.rows("SELECT step, state FROM defib.step ORDER BY position") == \
        [("Reserve_Inventory", "undone"), ("Process_Payment", "undone")]
    assert ruvon.cell(BEATS) == 0
    assert ruvon.cell("SELECT event_type FROM workflow_audit_log") == "ZOMBIE_DETECTED"


@pytest.mark.covers("C9")
def test_a_saga_whose_step_fails_for_good_is_rolled_back(ruvon):
    ruvon.add(saga_enabled=True, zombie_retry_count=3)
    ruvon.fails("Ship_Order")
    ruvon.drain("workflows")
    assert ruvon.status == "FAILED_ROLLED_BACK"
    assert ruvon.lines("ended")[2:] == ["Ship_Order", "Process_Payment.undo",
                                        "Reserve_Inventory.undo"]
    assert ruvon.events() == ["ROLLBACK_STARTED", "ROLLED_BACK"]


@pytest.mark.covers("C9")
def test_an_undo_that_cannot_be_done_is_told_and_the_rest_is_undone(ruvon):
    ruvon.change(("backoff: {base: 60s, factor: 2}", "backoff: {base: 10ms}"))
    ruvon.add(saga_enabled=True, zombie_retry_count=3)
    ruvon.fails("Ship_Order")
    ruvon.fails("Process_Payment.undo")
    ruvon.work("workflows", "--poll", "50ms")
    ruvon.until(STATUS, "FAILED_ROLLED_BACK")
    assert ruvon.lines("ended").count("Process_Payment.undo") == 3
    assert ruvon.events() == ["ROLLBACK_STARTED", "UNDO_FAILED", "ROLLED_BACK"]
    said, = ruvon.rows("SELECT reason FROM defib.ledger WHERE event = 'ROLLED_BACK'")[0]
    assert said.startswith("could not undo: Process_Payment")


@pytest.mark.covers("C2")
def test_the_example_runs_as_it_is_shipped(db, defib):
    system = TableWorkers("ruvon", db, defib)
    shipped = ROOT / "examples" / "ruvon" / "order.sh"
    shutil.copy(shipped, system.dir / "order.sh")
    system.insert("workflow_executions", id=WORKFLOW, workflow_type="Order")
    system.insert("workflow_executions", id=WORKFLOW[:-1] + "1", workflow_type="Order",
                  status="FAILED", metadata='{"saga_enabled": true}', current_step="Ship_Order")
    system.insert("workflow_executions", id=WORKFLOW[:-1] + "2", workflow_type="Refund")
    system.drain("workflows")
    rows = system.rows("SELECT status FROM workflow_executions ORDER BY id")
    assert [row[0] for row in rows] == ["COMPLETED", "FAILED_ROLLED_BACK", "ACTIVE"]
    state = system.cell("SELECT state FROM workflow_executions ORDER BY id")
    state = json.loads(state) if isinstance(state, str) else state
    assert state["Process_Payment"] == {"payment": f"p-{WORKFLOW}"}
