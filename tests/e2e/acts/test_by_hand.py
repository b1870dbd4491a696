# SPDX-License-Identifier: Apache-2.0
"""Operators' acts on jobs: each act's effect, its question, its guard, its record."""

import json

import pytest

from harness import stuck_jobs
from harness.act_table import ACTOR, Jobs, batch_of


@pytest.fixture
def jobs(db, defib, with_tables):
    return Jobs(db, defib)


ACTS = [  # command, status of the job, what becomes of it, the ledger's word
    ("requeue", "running", "queued", "REQUEUED"),
    ("requeue", "failed", "queued", "REQUEUED"),
    ("retry", "failed", "queued", "RETRY_SCHEDULED"),
    ("fail", "running", "failed", "FAILED"),
    ("rollback", "running", "rolling back", "ROLLBACK_STARTED"),
    ("cancel", "running", "cancelling", "CANCELLED"),
]


# ---- what each does ----

@pytest.mark.parametrize("act, before, after, event", ACTS)
def test_an_act_writes_the_row_and_the_ledger(jobs, act, before, after, event):
    one, other = jobs.add(before, before)
    ran = jobs(act, one, "--yes", "--reason", "said by a test")
    assert ran.code == 0, ran.err
    assert (jobs.status(one), jobs.status(other)) == (after, before)
    assert jobs.ledger() == [(event, ACTOR, "said by a test")]
    assert f"jobs/{one}  " in ran.out and "main/jobs: 1 " in ran.out


@pytest.mark.parametrize("act", ["requeue", "retry", "fail", "rollback", "cancel", "hold"])
def test_every_act_says_how_to_undo_it(jobs, act):
    ran = jobs(act, jobs.add("running"), "--yes")
    batch, = jobs.ledger("batch")[-1]
    assert batch.startswith(batch_of(ran))


def test_a_job_is_named_with_what_changed(jobs):
    ran = jobs("requeue", jobs.add("running"), "--yes")
    assert "jobs/1  requeued  owner=w1  status: running -> queued\n" in ran.out


def test_the_columns_have_titles_also_for_what_was_refused(jobs):
    jobs.add("failed")
    jobs.add("running", age_s=1)
    lines = jobs("requeue", 1, 2, 77, "--yes").out.splitlines()
    assert lines[0].split() == ["JOB", "OUTCOME", "DETAIL"]
    assert [line.index("requeued") for line in lines if line.startswith("jobs/1")] == [
        lines[0].index("OUTCOME")]
    assert "refused: " in lines[2] and lines[3] == "jobs/77  not found"


def test_without_a_reason_the_row_says_it_was_by_hand(jobs):
    job = jobs.add("running")
    jobs("fail", job, "--yes")
    assert jobs.db.sql("SELECT error FROM jobs") == [("by hand",)]


def test_retry_of_a_watch_with_two_phases_does_the_second_at_once(db, defib):
    jobs = Jobs(db, defib, retry="{now: status = 'crashed', then: status = 'active'}")
    job = jobs.add("crashed")
    assert jobs("retry", job, "--yes").code == 0
    assert jobs.status(job) == "active"
    assert [event for event, in jobs.ledger("event")] == ["RETRIED"]


def test_a_hold_keeps_the_scan_away_until_it_is_released(jobs):
    job = jobs.add("running")
    assert jobs("hold", job, "--yes", "--reason", "being looked at").code == 0
    assert jobs.held() == [str(job)] and jobs.status(job) == "running"
    assert jobs("scan", "--fix").code == 0 and jobs.status(job) == "running"
    ran = jobs("release", job, "--yes")
    assert ran.code == 0 and f"jobs/{job}  released" in ran.out
    assert jobs.held() == []
    assert [event for event, in jobs.ledger("event")] == ["HELD", "RELEASED"]
    assert jobs("scan", "--fix").code == 0 and jobs.status(job) == "queued"


def test_release_of_a_job_that_is_not_held_is_refused(jobs):
    ran = jobs("release", jobs.add("running"), "--yes")
    assert ran.code == 5 and "it is not on hold" in ran.out


# ---- which jobs ----

def test_where_selects(jobs):
    jobs.add("running", "running", "failed")
    jobs.add("failed", age_s=60)
    ran = jobs("requeue", "--where", "state=failed", "--where", "age>1h", "--yes")
    assert ran.code == 0, ran.err
    assert jobs.statuses() == ["running", "running", "queued", "failed"]


def test_ids_come_from_standard_input_as_list_prints_them(jobs):
    jobs.add("running", "failed", "running")
    path = jobs.defib.dir / "ids"
    path.write_text("jobs/1\n\n3\n")
    with open(path) as ids:
        ran = jobs("requeue", "-", "--yes", stdin=ids)
    assert ran.code == 0, ran.err
    assert jobs.statuses() == ["queued", "failed", "queued"]


def test_a_limit_takes_so_many_and_says_that_there_are_more(jobs):
    jobs.add(*["failed"] * 5)
    ran = jobs("requeue", "--where", "state=failed", "--limit", "2", "--yes")
    assert ran.code == 0 and "--limit" in ran.err
    assert jobs.statuses().count("queued") == 2


def test_everything_needs_to_be_said(jobs):
    jobs.add("failed", "failed")
    ran = jobs("requeue", "--yes")
    assert ran.code == 2 and "--all" in ran.err
    assert jobs.statuses() == ["failed", "failed"]
    assert jobs("requeue", "--all", "--yes").code == 0
    assert jobs.statuses() == ["queued", "queued"]


def test_nothing_that_matches_is_no_error(jobs):
    jobs.add("running")
    ran = jobs("fail", "--where", "state=nonsense", "--yes")
    assert (ran.code, ran.out) == (0, "no jobs match: nothing to fail\n")


def test_many_jobs_are_summed_up_and_still_all_done(jobs):
    jobs.add(*["failed"] * 45)
    ran = jobs("requeue", "--all", "--yes")
    assert ran.code == 0 and set(jobs.statuses()) == {"queued"}
    assert ran.out.count("  requeued") == 20
    assert "… and 25 more" in ran.out and "main/jobs: 45 requeued" in ran.out


def test_several_thousand_jobs_are_one_batch_to_undo(db, defib):
    jobs = Jobs(db, defib)
    stuck_jobs.fill(db, 4800)
    db.sql("UPDATE jobs SET status = 'failed'")
    ran = jobs("requeue", "--all", "--yes")
    assert "main/jobs: 4,800 requeued" in ran.out and ran.out.count("undo with") == 1
    assert ran.code == 0 and set(jobs.statuses()) == {"queued"}
    assert jobs("undo", batch_of(ran), "--yes").code == 0
    assert set(jobs.statuses()) == {"failed"}


# ---- dry runs and questions ----

@pytest.mark.parametrize("act, before, after, event", ACTS + [("hold", "running", "", ""),
                                                              ("excuse", "running", "", "")])
def test_a_dry_run_changes_nothing(jobs, act, before, after, event):
    job = jobs.add(before)
    jobs("scan", "--fix", "--limit", "0")
    dump = jobs.dump()
    ran = jobs(act, job, "--dry-run")
    assert ran.code == 0, ran.err
    assert f"jobs/{job}  would be " in ran.out and "Nothing was changed" in ran.err
    assert jobs.dump() == dump


def test_a_dry_run_makes_no_tables(db, defib):
    jobs = Jobs(db, defib)
    jobs("requeue", jobs.add("running"), "--dry-run")
    assert not stuck_jobs.has_ledger(jobs.db)


def test_a_dry_run_says_what_would_be_refused(jobs):
    ran = jobs("fail", jobs.add("running", age_s=1), 77, "--dry-run")
    assert ran.code == 5
    assert "--override-guard" in ran.out and "jobs/77  not found" in ran.out


@pytest.mark.parametrize("act", ["requeue", "retry", "fail", "rollback", "cancel", "hold",
                                 "excuse", "release"])
def test_without_a_terminal_it_needs_yes(jobs, act):
    job = jobs.add("running")
    dump = jobs.dump()
    ran = jobs(act, job)
    assert ran.code == 5
    assert "--yes" in stuck_jobs.one_line(ran)
    assert f"{act} 1 job of watch jobs in database main" in ran.err
    assert jobs.dump() == dump


def test_ids_on_standard_input_leave_nobody_to_ask(jobs):
    jobs.add("running")
    path = jobs.defib.dir / "ids"
    path.write_text("1\n")
    with open(path) as ids:
        ran = jobs("requeue", "-", stdin=ids)
    assert ran.code == 5 and "--yes" in ran.err
    assert jobs.statuses() == ["running"]


@pytest.mark.parametrize("answer, code, status", [("y", 0, "queued"), ("yes", 0, "queued"),
                                                  ("n", 5, "failed"), ("", 5, "failed")])
def test_on_a_terminal_it_asks(jobs, answer, code, status):
    jobs.add("failed", "failed")
    got, shown = jobs.on_terminal("requeue", "--all", answer=answer)
    assert "requeue 2 jobs of watch jobs in database main (" in shown
    assert (got, set(jobs.statuses())) == (code, {status}), shown


def test_with_ids_on_standard_input_the_terminal_is_asked(jobs):
    jobs.add("failed", "failed")
    got, shown = jobs.on_terminal("requeue", "-", answer="y", stdin="2\n")
    assert "requeue 1 job of watch jobs" in shown
    assert (got, jobs.statuses()) == (0, ["failed", "queued"]), shown


def test_the_question_shows_no_password(pg, defib):
    jobs = Jobs(pg, defib)
    jobs.add("failed")
    jobs.config = jobs.config.replace("postgres@", "postgres:secret@")
    ran = jobs("requeue", "--all")
    assert "postgres:***@" in ran.err and "secret" not in ran.err


# ---- guards ----

@pytest.mark.parametrize("act", ["requeue", "retry", "fail", "rollback"])
def test_a_live_job_is_left_to_its_worker(jobs, act):
    job = jobs.add("running", age_s=1)
    row = jobs.row(job)
    ran = jobs(act, job, "--yes")
    assert ran.code == 5
    assert f"jobs/{job}  refused" in ran.out and "--override-guard" in ran.out
    assert jobs.row(job) == row


def test_the_guard_can_be_overridden_and_the_ledger_says_so(jobs):
    job = jobs.add("running", age_s=1)
    assert jobs("requeue", job, "--yes", "--override-guard").code == 0
    assert jobs.status(job) == "queued"
    assert jobs.evidence()["override_guard"] is True


def test_a_late_result_leaves_a_job_alone_that_has_ended(jobs):
    done = jobs.add("done")
    ran = jobs("fail", done, "--override-guard", "--running-only", "--yes")
    assert ran.code == 5 and "refused" in ran.out, ran.out
    assert jobs.status(done) == "done"
    assert jobs("fail", done, "--override-guard", "--yes").code == 0


def test_some_done_and_some_refused_is_partly_done(jobs):
    stuck = jobs.add("running")
    live = jobs.add("running", age_s=1)
    ran = jobs("requeue", stuck, live, 99, "--yes")
    assert ran.code == 6
    assert jobs.statuses() == ["queued", "running"]
    assert "main/jobs: 1 requeued, 1 refused, 1 not found" in ran.out


def test_what_changed_nothing_names_no_batch_to_undo(jobs):
    job, _ = jobs.add("running", "queued")
    jobs.db.sql("CREATE UNIQUE INDEX one_queued ON jobs (status) WHERE status = 'queued'")
    ran = jobs("requeue", job, "--yes")
    assert ran.code == 5 and "1 refused" in ran.out
    assert "undo with" not in ran.out


def test_json_has_every_job_and_the_batch(jobs):
    stuck = jobs.add("running")
    jobs.add("running", age_s=1)
    ran = jobs("requeue", stuck, 2, "--yes", "--json")
    said, = ran.json["watches"]
    assert ran.json["act"] == "requeue" and ran.json["dry_run"] is False
    assert sorted((j["job"], j["outcome"]) for j in said["jobs"]) == [
        ("jobs/1", "done"), ("jobs/2", "refused")]
    assert (said["recovered"], said["refused"]) == (1, 1)
    assert jobs.ledger("batch")[0][0].startswith(said["batch"])


# ---- bad input ----

@pytest.mark.parametrize("args, code, says", [
    (("requeue", "1", "--watch", "jobz", "--yes"), 2, 'did you mean "jobs"?'),
    (("requeue", "1", "--limit", "few", "--yes"), 2, "--limit"),
    (("requeue", "1", "--resaon", "x"), 2, "--reason"),
    (("retry", "--where", "sate=failed", "--yes"), 2, "state"),
])
def test_bad_input_is_one_clear_line(jobs, args, code, says):
    jobs.add("running")
    ran = jobs(*args)
    assert ran.code == code and says in stuck_jobs.one_line(ran)


def test_an_unknown_watch_before_the_key_gets_the_nearest_known(jobs):
    jobs.config += stuck_jobs.WATCH.format(requeue=stuck_jobs.REQUEUE, reason="x").replace(
        "name: jobs", "name: others")
    ran = jobs("requeue", "jobz/1", "--yes")
    assert ran.code == 2 and 'did you mean "jobs"?' in stuck_jobs.one_line(ran)


def test_a_word_that_is_no_key_is_wrong_usage(pg, defib):
    ran = Jobs(pg, defib)("requeue", "seventeen", "--yes")
    assert ran.code == 2 and "seventeen" in stuck_jobs.one_line(ran)


def test_a_job_that_is_not_there_is_named(jobs):
    jobs.add("running")
    ran = jobs("requeue", "4711", "--yes")
    assert ran.code == 5 and "jobs/4711  not found" in ran.out


@pytest.mark.parametrize("act", ["fail", "rollback", "cancel"])
def test_a_watch_that_does_not_say_how_says_what_to_add(db, defib, act):
    jobs = Jobs(db, defib, **{act: None})
    ran = jobs(act, f"jobs/{jobs.add('running')}", "--yes")
    assert ran.code == 3
    line = stuck_jobs.one_line(ran)
    assert f"watch jobs does not say how to {act}" in line and f"{act}: " in line


def test_a_step_of_a_job_without_steps_is_refused(jobs):
    job = jobs.add("failed")
    ran = jobs("retry", job, "--from-step", "Charge_Card", "--yes")
    assert ran.code == 5 and "step" in ran.out
    assert jobs.status(job) == "failed"


def test_a_step_that_the_retry_writes_is_written(db, defib):
    jobs = Jobs(db, defib, retry="status = 'queued', error = :step")
    assert jobs("retry", jobs.add("failed"), "--from-step", "Charge_Card", "--yes").code == 0
    assert db.sql("SELECT status, error FROM jobs") == [("queued", "Charge_Card")]


def test_a_database_that_is_down_is_one_line(jobs):
    jobs.config = jobs.config.replace(jobs.db.url, "postgres://postgres@127.0.0.1:1/none")
    ran = jobs("requeue", "1", "--yes")
    assert ran.code == 4 and stuck_jobs.one_line(ran)


# ---- the built-in queue ----

@pytest.mark.covers("B10")
def test_jobs_of_the_queue_are_cancelled_by_terms_after_a_question(queue):
    ids = [queue.enqueue(), queue.enqueue()]
    ran = queue.program("cancel", "--where", "state=queued", db=queue.db)
    assert ran.code == 5 and "cancel 2 jobs of watch queue" in ran.err
    ran = queue.program("cancel", "--where", "state=queued", "--yes", db=queue.db)
    assert ran.code == 0, ran.err
    assert [queue.state(i) for i in ids] == ["cancelled", "cancelled"]


def test_a_failed_job_of_the_queue_runs_again(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.drain(run="exit 1")
    assert queue.state(job) == "failed"
    ran = queue.program("requeue", f"queue/{job}", "--yes", db=queue.db)
    assert ran.code == 0, ran.out + ran.err
    queue.drain(run="true")
    assert queue.state(job) == "done"


def test_a_job_of_the_queue_is_held_and_released(queue):
    job = queue.enqueue()
    assert queue.program("hold", f"queue/{job}", "--yes", db=queue.db).code == 0
    queue.drain(run="touch ran")
    assert not (queue.program.dir / "ran").exists()
    ran = queue.program("release", f"queue/{job}", "--yes", db=queue.db)
    assert ran.code == 0, ran.out + ran.err
    queue.drain(run="touch ran")
    assert queue.state(job) == "done"


def test_json_of_nothing_is_json(jobs):
    assert json.loads(jobs("fail", "--where", "state=none", "--json", "--yes").out)["watches"] == []
