# SPDX-License-Identifier: Apache-2.0
"""Ruvon (C): workflows whose sign of life is a beat in another table."""

import json

import pytest

from harness.example_systems import Example


@pytest.fixture
def ruvon(db, defib, with_tables):
    return Example("ruvon", db, defib)


IDS = [f"550e8400-e29b-41d4-a716-44665544000{n}" for n in range(10)]


def add_workflow(ruvon, key, beat_s=None, status="PENDING_ASYNC", metadata="{}"):
    ruvon.insert("workflow_executions", id=key, workflow_type="Order", status=status,
                 current_step="Process_Payment", metadata=metadata)
    if beat_s is not None:
        ruvon.insert("workflow_heartbeats", workflow_id=key, worker_id="celery@worker1",
                     last_heartbeat=ruvon.ago(beat_s), current_step="Process_Payment")


def statuses(ruvon):
    return [row[0] for row in ruvon.db.sql("SELECT status FROM workflow_executions ORDER BY id")]


def audit(ruvon):
    rows = ruvon.db.sql("SELECT event_type, event_data FROM workflow_audit_log ORDER BY id")
    return [(kind, data if isinstance(data, dict) else json.loads(data)) for kind, data in rows]


@pytest.mark.covers("C3")
def test_a_scan_is_a_dry_run_unless_told_to_fix(ruvon):
    add_workflow(ruvon, IDS[0], 600)
    ran = ruvon("scan")
    assert ran.code == 1
    assert statuses(ruvon) == ["PENDING_ASYNC"]
    assert audit(ruvon) == []
    assert ruvon.db.sql("SELECT count(*) FROM workflow_heartbeats") == [(1,)]
    assert "--fix" in ran.err


@pytest.mark.covers("C3")
def test_the_summary_says_how_many_were_found_and_recovered(ruvon):
    for key in IDS[:3]:
        add_workflow(ruvon, key, 600)
    found = ruvon("scan")
    assert "main/workflows: 3 stuck of 3 running" in found.out
    fixed = ruvon("scan", "--fix")
    assert "main/workflows: 3 stuck of 3 running, 3 recovered" in fixed.out
    assert fixed.code == 0


@pytest.mark.covers("C3", "C5")
def test_json_has_the_counts_for_monitoring(ruvon):
    add_workflow(ruvon, IDS[0], 600)
    assert ruvon("scan", "--json").json["found"] == 1
    fixed = ruvon("scan", "--fix", "--json").json
    assert (fixed["found"], fixed["recovered"]) == (1, 1)


@pytest.mark.covers("C3")
def test_a_workflow_without_a_heartbeat_is_never_a_zombie(ruvon):
    add_workflow(ruvon, IDS[0])
    ran = ruvon("scan", "--fix", "--threshold", "60", "--json")
    assert (ran.code, ran.json["found"]) == (0, 0)
    assert statuses(ruvon) == ["PENDING_ASYNC"]
    assert "no sign of life yet" in ruvon("explain", "workflows", IDS[0]).out


@pytest.mark.covers("C3")
def test_a_stale_beat_of_a_workflow_that_does_not_wait_is_no_zombie(ruvon):
    add_workflow(ruvon, IDS[0], 600, status="ACTIVE")
    assert ruvon("scan", "--fix", "--json").json["found"] == 0


@pytest.mark.covers("C3", "C5")
def test_a_threshold_on_the_command_line_is_in_seconds(ruvon):
    add_workflow(ruvon, IDS[0], 150)
    assert ruvon("scan", "--json").json["found"] == 1
    assert ruvon("scan", "--json", "--threshold", "180").json["found"] == 0
    assert ruvon("scan", "--json", "--threshold", "2m20s").json["found"] == 1


@pytest.mark.covers("C4")
def test_recovery_marks_the_workflow_as_crashed(ruvon):
    add_workflow(ruvon, IDS[0], 600)
    ruvon("scan", "--fix")
    assert statuses(ruvon) == ["FAILED_WORKER_CRASH"]


@pytest.mark.covers("C4")
def test_the_audit_log_keeps_the_last_beat_the_step_and_the_stale_duration(ruvon):
    add_workflow(ruvon, IDS[0], 600)
    beat, = ruvon.db.sql("SELECT last_heartbeat FROM workflow_heartbeats")[0]
    ruvon("scan", "--fix")
    (kind, data), = audit(ruvon)
    assert kind == "ZOMBIE_DETECTED"
    assert data["last_heartbeat"][:19].replace("T", " ") == str(beat)[:19]
    assert data["current_step"] == "Process_Payment"
    assert 600 <= float(data["stale_duration_seconds"]) < 660
    assert data["owner"] == "celery@worker1"


@pytest.mark.covers("C4")
def test_recovery_removes_the_heartbeat_and_no_other(ruvon):
    add_workflow(ruvon, IDS[0], 600)
    add_workflow(ruvon, IDS[1], 5)
    ruvon("scan", "--fix")
    left, = ruvon.db.sql("SELECT workflow_id FROM workflow_heartbeats")
    assert str(left[0]) == IDS[1]
    assert statuses(ruvon) == ["FAILED_WORKER_CRASH", "PENDING_ASYNC"]


@pytest.mark.covers("C8")
def test_each_crash_counts_and_the_fourth_is_not_retried(ruvon):
    add_workflow(ruvon, IDS[0], 600)
    remedies = []
    for _ in range(4):
        ran = ruvon("scan", "--fix", "--json")
        remedies += [job["remedy"] for job in ran.json["watches"][0]["jobs"]]
        ruvon.db.sql("UPDATE workflow_executions SET status = 'PENDING_ASYNC'")
        ruvon.insert("workflow_heartbeats", workflow_id=IDS[0], worker_id="w",
                     last_heartbeat=ruvon.ago(600))
    assert remedies == ["retry", "retry", "retry", "fail"]


@pytest.mark.covers("C9")
def test_a_workflow_with_a_saga_fails_so_that_it_can_be_compensated(ruvon):
    add_workflow(ruvon, IDS[0], 600, metadata='{"saga_enabled": true}')
    add_workflow(ruvon, IDS[1], 600, metadata='{"saga_enabled": false}')
    ruvon("scan", "--fix")
    assert statuses(ruvon) == ["FAILED", "FAILED_WORKER_CRASH"]


def with_threshold(ruvon, threshold):
    """The watch alone: beats of our own workers must be more frequent still."""
    watch = ruvon.config.read_text().partition("    work:")[0]
    return watch.replace("stuck_after: ${STALE_THRESHOLD_SECONDS:-120}s", f"stuck_after: {threshold}")


@pytest.mark.covers("C7")
def test_a_threshold_under_twice_the_beat_is_refused(ruvon):
    ran = ruvon.defib("config", "check", config=with_threshold(ruvon, "59s"),
                      env={"DATABASE_URL": ruvon.db.url})
    assert ran.code == 3
    assert "stuck_after 59s is under twice the beat of 30s" in ran.err


@pytest.mark.covers("C7")
def test_a_threshold_of_just_twice_the_beat_is_warned_about(ruvon):
    ran = ruvon.defib("config", "check", config=with_threshold(ruvon, "60s"),
                      env={"DATABASE_URL": ruvon.db.url})
    assert ran.code == 0
    assert "warning: " in ran.err and "just twice the beat" in ran.err


@pytest.mark.covers("C7")
def test_a_threshold_on_the_command_line_under_twice_the_beat_is_refused(ruvon):
    add_workflow(ruvon, IDS[0], 600)
    ran = ruvon("scan", "--fix", "--threshold", "59")
    assert ran.code == 5
    assert "twice its beat of 30s" in ran.err
    assert statuses(ruvon) == ["PENDING_ASYNC"]


@pytest.mark.covers("C7")
def test_a_threshold_on_the_command_line_of_just_twice_the_beat_is_warned_about(ruvon):
    ran = ruvon("scan", "--threshold", "60")
    assert ran.code == 0
    assert "just twice" in ran.err
