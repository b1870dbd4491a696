# SPDX-License-Identifier: Apache-2.0
"""False positives: recoveries whose worker was alive and finished the job after all, counted."""

import signal

import pytest

from harness import ended_runs
from harness.example_systems import Example, ledger
from harness.waiting import eventually, patience, running

LATE = "    late_when: state = 'done'\n"
WORKFLOW = "550e8400-e29b-41d4-a716-446655440000"
SLOW = 'echo $$ >child; await go'


@pytest.fixture
def jobs(db, with_tables):
    ended_runs.make(db)
    return db


def fix(defib, db, more=LATE):
    ran = defib("scan", "--fix", config=ended_runs.config(db, more=more))
    assert ran.code == 0, ran.err
    return ran


def finish(db, key):
    db.sql(f"UPDATE jobs SET state = 'done', finished_at = {ended_runs.ago(db, 0)} WHERE id = {key}")


def late_entries(db, columns="job, rule"):
    return db.sql(f"SELECT {columns} FROM {ledger(db)} WHERE event = 'LATE_COMPLETION' ORDER BY id")


def stats(defib, db, more=LATE):
    ran = defib("stats", "--json", config=ended_runs.config(db, more=more))
    assert ran.code == 0, ran.err
    return ran.json["watches"][0]["false_positives"]


@pytest.mark.covers("C10")
def test_a_foreign_worker_that_finishes_a_recovered_job_is_a_false_positive(jobs, defib):
    keys = [ended_runs.add_stuck(jobs, 7200) for _ in range(4)]
    fix(defib, jobs)
    assert late_entries(jobs) == []
    finish(jobs, keys[1])
    said = fix(defib, jobs).err
    assert late_entries(jobs) == [(str(keys[1]), "late-when")]
    assert "recovered jobs were finished by their old workers after all" in said
    assert stats(defib, jobs) == {"day": 1, "day_recovered": 4, "week": 1, "week_recovered": 4}
    out = defib("stats", config=ended_runs.config(jobs, more=LATE)).out
    assert "1 of 4 (25.0 %) in 24 hours, 1 of 4 (25.0 %) in 7 days" in out


def test_it_is_noted_once(jobs, defib):
    key = ended_runs.add_stuck(jobs, 7200)
    fix(defib, jobs)
    finish(jobs, key)
    for _ in range(3):
        fix(defib, jobs)
    assert len(late_entries(jobs)) == 1


def test_a_job_that_was_never_recovered_is_none(jobs, defib):
    ended_runs.add_stuck(jobs, 7200)
    other = ended_runs.add_runs(jobs, 3, 20)
    fix(defib, jobs)
    fix(defib, jobs)
    assert other and late_entries(jobs) == []


def test_a_dry_run_notes_nothing(jobs, defib):
    key = ended_runs.add_stuck(jobs, 7200)
    fix(defib, jobs)
    finish(jobs, key)
    defib("scan", config=ended_runs.config(jobs, more=LATE))
    assert late_entries(jobs) == []


def test_what_a_person_requeued_is_no_false_positive(jobs, defib):
    key = ended_runs.add_stuck(jobs, 7200)
    ran = defib("requeue", f"jobs/{key}", "--yes", config=ended_runs.config(jobs, more=LATE))
    assert ran.code == 0, ran.err
    finish(jobs, key)
    fix(defib, jobs)
    assert late_entries(jobs) == [] and stats(defib, jobs)["day_recovered"] == 0


def test_a_wrong_late_when_is_named_with_its_place(jobs, defib):
    ran = defib("scan", config=ended_runs.config(jobs, more="    late_when: no_such_column = 1\n"))
    assert ran.code == 3 and ran.err.count("\n") == 1
    assert "late_when" in ran.err and "no_such_column" in ran.err


@pytest.mark.covers("C10")
def test_a_step_of_ruvons_after_its_zombie_was_detected_shows_it_lived(db, defib):
    """C with its audit log: STEP_EXECUTED after ZOMBIE_DETECTED, while no other worker has the job.
    """
    ruvon = Example("ruvon", db, defib)
    others = [WORKFLOW[:-1] + str(i) for i in range(3)]
    for key in others:
        ruvon.insert("workflow_executions", id=key, workflow_type="Order", status="PENDING_ASYNC")
        ruvon.insert("workflow_heartbeats", workflow_id=key, worker_id="celery@worker1",
                     last_heartbeat=ruvon.ago(300))
    assert ruvon("scan", "--fix").code == 0
    ruvon.insert("workflow_audit_log", workflow_id=others[2], event_type="STEP_EXECUTED")
    ruvon("scan", "--fix")
    assert late_entries(db) == [(others[2], "late-when")]
    numbers, = ruvon("stats", "--json").json["watches"]
    assert numbers["false_positives"]["day"] == 1
    assert numbers["false_positives"]["day_recovered"] == 3


@pytest.mark.covers("C10", "F3")
def test_a_worker_of_ours_that_returns_is_counted_with_its_job(queue, defib):
    queue.enqueue()
    sleeper = queue.work("--lease", "2s", "--name", "sleeper", run=SLOW)
    child = defib.dir / "child"
    child = int(eventually(lambda: child.exists() and child.read_text().strip()))
    queue.work("--lease", "2s", run="true")
    queue.db.freeze(sleeper)
    eventually(lambda: queue.worker_rows("state")[0] == ("dead",))
    eventually(lambda: queue.all("state") == [("done",)])
    (defib.dir / "go").touch()
    eventually(lambda: not running(child))
    sleeper.signal(signal.SIGCONT)
    sleeper.wait_log("registered again")
    eventually(lambda: queue.ledger("LATE_COMPLETION"))
    returned = queue.db.sql(f"SELECT watch, job, actor, rule FROM {ledger(queue.db)} "
                            "WHERE event = 'WORKER_RETURNED'")
    dead, = queue.db.sql("SELECT id FROM defib.worker WHERE state = 'dead'"
                         if queue.db.engine == "postgres" else
                         "SELECT id FROM defib_worker WHERE state = 'dead'")[0]
    assert returned == [("queue", "*", f"worker:{dead}", "lease-lost")]
    numbers, = defib("stats", "--json", db=queue.db).json["watches"]
    assert numbers["false_positives"]["day"] == numbers["false_positives"]["day_recovered"] == 1
    assert numbers["events"]["WORKER_RETURNED"]["day"] == 1


@pytest.mark.covers("C10")
def test_the_daemon_notes_them_and_status_tells_the_rate(jobs, defib):
    path = defib.dir / "saved.yaml"
    path.write_text(ended_runs.config(jobs, more=LATE + "    every: 200ms\n"))
    key = ended_runs.add_stuck(jobs, 7200)
    ended_runs.add_stuck(jobs, 7200)
    fix(defib, jobs)
    finish(jobs, key)
    daemon = defib.start("daemon", "--no-queue", config=path)
    try:
        eventually(lambda: late_entries(jobs))
        said = eventually(lambda: "false positives: " in (ran := defib("status", config=path)).out
                          and ran.out)
    finally:
        daemon.terminate()
        daemon.communicate(timeout=patience())
    assert "false positives: 1 of 2 (50.0 %) in 24h" in said
    assert len(late_entries(jobs)) == 1
