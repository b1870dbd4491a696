# SPDX-License-Identifier: Apache-2.0
"""Steps that a foreign worker has finished: undone by a rollback, never run again unrequested."""

import json

import pytest

from harness.document_replay import program
from harness.ruvon import FIRST, STEP, Ruvon
from harness.waiting import eventually

SAID = "steps_done: current_step"


@pytest.fixture
def foreign(db, tmp_path):
    """Ruvon's table, whose rows Ruvon's own workers ran until now."""
    own = Ruvon(db, tmp_path)
    program(own, "order.sh", STEP)
    yield own
    own.close()


def add(own, step, status, saga=False):
    own.insert("workflow_executions", id=FIRST, workflow_type="Order", status=status,
               current_step=step, metadata=json.dumps({"saga_enabled": saga}))


def silence(own):
    """The watch says nothing of finished steps."""
    own.config.write_text(own.config.read_text().replace(SAID, ""))


def entries(own, event):
    ran = own("ledger", "--json")
    return [e for e in map(json.loads, ran.out.splitlines()) if e["event"] == event]


def held_reason(own):
    return [e["reason"] for e in entries(own, "HELD")]


@pytest.mark.covers("C9")
def test_a_rollback_undoes_what_another_worker_has_finished(foreign):
    """It ended FAILED_ROLLED_BACK with nothing undone: a rollback that never happened."""
    add(foreign, "Ship_Order", "FAILED", saga=True)
    foreign.work("workflows")
    foreign.until("SELECT status FROM workflow_executions", "FAILED_ROLLED_BACK")
    assert foreign.lines("ended") == ["Process_Payment.undo", "Reserve_Inventory.undo"]
    entry, = entries(foreign, "ROLLED_BACK")
    assert entry["evidence"] == {"undone": ["Process_Payment", "Reserve_Inventory"],
                                 "not_undone": []}


@pytest.mark.covers("C9")
def test_a_rollback_of_which_nobody_knows_what_was_done_is_held_with_the_reason(foreign):
    silence(foreign)
    add(foreign, "Ship_Order", "FAILED", saga=True)
    foreign.work("workflows", "--poll", "100ms")
    assert "is not known" in eventually(lambda: held_reason(foreign))[0]
    assert foreign.status() == "FAILED"
    assert "is not known" in foreign("show", f"workflows/{FIRST}").out
    # Reported once: later polls leave it to the operator.
    add_second = "650e8400-e29b-41d4-a716-446655440099"
    foreign.insert("workflow_executions", id=add_second, workflow_type="Order", status="ACTIVE",
                   metadata="{}")
    eventually(lambda: foreign.status(add_second) == "COMPLETED")
    assert len(held_reason(foreign)) == 1
    ran = foreign("release", "--yes", f"workflows/{FIRST}")
    assert ran.code != 0 and "steps_done" in ran.out + ran.err
    assert foreign.status() == "FAILED"


@pytest.mark.covers("C9")
def test_a_hold_of_unknown_steps_is_over_when_the_row_was_run_elsewhere(foreign):
    """The claim skipped it forever, while list and show said that nothing holds it."""
    silence(foreign)
    add(foreign, "Ship_Order", "FAILED", saga=True)
    foreign.work("workflows", "--poll", "100ms")
    eventually(lambda: held_reason(foreign))
    foreign.beat(FIRST, 0)
    eventually(lambda: len(held_reason(foreign)) == 2)
    assert foreign("list", "--watch", "workflows", "--where", "held", "--ids").out.split() \
        == [f"workflows/{FIRST}"]


@pytest.mark.covers("C9")
def test_a_rollback_of_a_workflow_that_has_finished_nothing_says_so(foreign):
    add(foreign, "Reserve_Inventory", "FAILED", saga=True)
    foreign.work("workflows")
    foreign.until("SELECT status FROM workflow_executions", "FAILED_ROLLED_BACK")
    entry, = entries(foreign, "ROLLED_BACK")
    assert "no step has finished" in entry["evidence"]["note"]


@pytest.mark.covers("C5", "C8")
def test_an_automatic_retry_goes_on_at_the_step_that_the_row_is_at(foreign):
    """All three steps ran again, and the outputs of the finished ones were overwritten."""
    add(foreign, "Ship_Order", "ACTIVE")
    foreign.work("workflows")
    foreign.until("SELECT status FROM workflow_executions", "COMPLETED")
    assert foreign.lines("ended") == ["Ship_Order"]


@pytest.mark.covers("C5", "C8")
def test_an_automatic_retry_of_which_nobody_knows_how_far_it_was_is_held(foreign):
    silence(foreign)
    add(foreign, "Ship_Order", "PENDING_ASYNC")
    foreign.beat(FIRST, 600)
    foreign.fix()
    foreign.rows("UPDATE workflow_executions SET status = 'ACTIVE'")
    foreign.work("workflows", "--poll", "100ms")
    assert "is not known" in eventually(lambda: held_reason(foreign))[0]
    assert not (foreign.dir / "ended").exists()
    assert foreign.status() == "ACTIVE"


@pytest.mark.covers("C5")
def test_a_retry_from_a_step_that_another_worker_has_finished_needs_the_override(foreign):
    add(foreign, "Ship_Order", "FAILED_WORKER_CRASH")
    job = f"workflows/{FIRST}"
    ran = foreign("retry", "--yes", job, "--from-step", "Process_Payment")
    assert ran.code != 0 and "--override-guard" in ran.out + ran.err, ran
    assert "Process_Payment" in ran.out + ran.err
    assert foreign.status() == "FAILED_WORKER_CRASH"
    ran = foreign("retry", "--yes", job, "--from-step", "No_Such")
    assert ran.code != 0 and "no step of that name" in ran.out + ran.err, ran
    ran = foreign("retry", "--yes", job, "--from-step", "Reserve_Inventory")  # its first step
    assert ran.code != 0 and "--override-guard" in ran.out + ran.err, ran
    ran = foreign("retry", "--yes", job, "--from-step", "Process_Payment", "--override-guard")
    assert ran.code == 0, ran
    foreign.work("workflows")
    foreign.until("SELECT status FROM workflow_executions", "COMPLETED")
    assert foreign.lines("ended") == ["Process_Payment", "Ship_Order"]


@pytest.mark.covers("C5")
def test_a_retry_by_hand_of_which_nothing_is_known_is_refused_and_can_be_forced(foreign):
    silence(foreign)
    add(foreign, "Ship_Order", "FAILED_WORKER_CRASH")
    job = f"workflows/{FIRST}"
    ran = foreign("retry", "--yes", job)
    assert ran.code != 0 and "--override-guard" in ran.out + ran.err, ran
    assert foreign.status() == "FAILED_WORKER_CRASH"
    ran = foreign("retry", "--yes", job, "--from-step", "Ship_Order", "--override-guard")
    assert ran.code == 0, ran
    foreign.work("workflows")
    foreign.until("SELECT status FROM workflow_executions", "COMPLETED")
    assert foreign.lines("ended") == ["Ship_Order"]
