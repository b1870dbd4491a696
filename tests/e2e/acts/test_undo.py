# SPDX-License-Identifier: Apache-2.0
"""`defib undo`: a remedy is undone as long as the job was not touched since."""

import pytest

from harness import stuck_jobs
from harness.act_table import ACTOR, Jobs, batch_of


@pytest.fixture
def jobs(db, defib, with_tables):
    return Jobs(db, defib)


@pytest.fixture
def requeued(jobs):
    """A job that was requeued by hand, as it was before, and the batch."""
    job = jobs.add("running")
    before = jobs.row(job)
    ran = jobs("requeue", job, "--yes")
    assert ran.code == 0, ran.err
    return jobs, job, before, batch_of(ran)


@pytest.mark.covers("F10")
def test_undo_of_a_batch_puts_the_row_back_exactly(requeued):
    jobs, job, before, batch = requeued
    ran = jobs("undo", batch, "--yes", "--reason", "wrong batch")
    assert ran.code == 0, ran.err
    assert jobs.row(job) == before
    assert f"jobs/{job}  reverted" in ran.out and "main/jobs: 1 reverted" in ran.out
    assert jobs.ledger()[-1] == ("UNDONE", ACTOR, "wrong batch")


@pytest.mark.covers("F10")
def test_undo_of_a_job_takes_back_the_latest(requeued):
    jobs, job, before, _ = requeued
    assert jobs("undo", f"jobs/{job}", "--yes").code == 0
    assert jobs.row(job) == before


@pytest.mark.covers("F10")
def test_undo_of_a_scan_puts_all_of_it_back(jobs):
    jobs.add("running", "running", "running")
    before = jobs.dump()["jobs"]
    batch = jobs("scan", "--fix", "--json").json["watches"][0]["batch"]
    assert jobs.dump()["jobs"] != before
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 0, ran.err
    assert jobs.dump()["jobs"] == before


@pytest.mark.covers("F10")
def test_what_was_undone_is_not_done_again_by_the_next_scan(requeued):
    jobs, job, before, batch = requeued
    assert "defib release" in jobs("undo", batch, "--yes").err
    jobs("scan", "--fix")
    assert jobs.row(job) == before
    assert jobs("release", job, "--yes").code == 0
    jobs("scan", "--fix")
    assert jobs.status(job) == "queued"


@pytest.mark.covers("F10")
def test_undo_is_refused_after_a_new_claim(requeued):
    jobs, job, _, batch = requeued
    jobs.db.sql("UPDATE jobs SET status = 'running', owner = 'w2' WHERE id = %s", job)
    claimed = jobs.row(job)
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 5
    assert f"jobs/{job}  changed since: " in ran.out
    assert jobs.row(job) == claimed


@pytest.mark.covers("F10")
def test_undo_is_refused_after_a_claim_by_a_worker_of_ours(queue):
    job = queue.enqueue("--max-attempts", "1")
    queue.drain(run="exit 1")
    ran = queue.program("requeue", f"queue/{job}", "--yes", db=queue.db)
    batch = batch_of(ran)
    queue.drain(run="true")
    ran = queue.program("undo", batch, "--yes", db=queue.db)
    assert ran.code == 5 and "claimed since" in ran.out
    assert queue.state(job) == "done"


def test_undo_of_several_jobs_of_the_queue(queue):
    ids = [queue.enqueue("--max-attempts", "1") for _ in range(3)]
    queue.drain(run="exit 1")
    batch = batch_of(queue.program("requeue", *ids, "--yes", db=queue.db))
    ran = queue.program("undo", batch, db=queue.db)
    assert "3 jobs of watch queue" in ran.err
    ran = queue.program("undo", batch, "--yes", db=queue.db)
    assert ran.code == 0 and "main/queue: 3 reverted" in ran.out
    assert {queue.state(i) for i in ids} == {"failed"}


@pytest.fixture
def second(pg, lite, defib):
    """A requeued job in the second of two databases, and the batch."""
    jobs = Jobs(pg, defib)
    jobs.add("running")
    batch = batch_of(jobs("requeue", "--all", "--yes"))
    both = (f"databases:\n  - {{name: first, url: '{lite.url}'}}\n"
            f"  - {{name: main, url: '{pg.url}'}}")
    jobs.config = jobs.config.replace(f"databases:\n  - name: main\n    url: {pg.url}", both) \
        .replace("  - name: jobs\n", "  - name: jobs\n    database: main\n")
    return jobs, batch


@pytest.mark.covers("F10")
def test_a_batch_is_found_in_whichever_database_it_is(second, lite):
    jobs, batch = second
    lite.sql("CREATE TABLE theirs (id integer)")
    ran = jobs("undo", batch, "--yes")
    assert (ran.code, jobs.statuses()) == (0, ["running"]), ran.err


@pytest.mark.covers("F10")
def test_a_database_that_is_down_does_not_keep_the_others_from_being_asked(second):
    jobs, batch = second
    ran = jobs("undo", batch, "--yes")
    assert (ran.code, jobs.statuses()) == (6, ["running"])
    assert "defib: first: " in ran.err


def test_undo_is_refused_where_somebody_did_something_since(requeued):
    jobs, job, _, batch = requeued
    jobs("fail", job, "--yes")
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 5 and "FAILED by " in ran.out
    assert jobs.status(job) == "failed"


def test_undo_twice_is_refused(requeued):
    jobs, job, before, batch = requeued
    assert jobs("undo", batch, "--yes").code == 0
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 5 and jobs.row(job) == before


def test_undo_of_a_job_twice_is_refused(requeued):
    """The newest change of the job is the undo itself, and that is not taken back."""
    jobs, job, before, _ = requeued
    assert jobs("undo", f"jobs/{job}", "--yes").code == 0
    ran = jobs("undo", f"jobs/{job}", "--yes")
    assert ran.code == 5 and "already undone" in ran.out
    assert jobs.row(job) == before


def test_part_of_a_batch_that_changed_leaves_the_rest_undone(jobs):
    jobs.add("running", "running")
    batch = batch_of(jobs("requeue", "--all", "--yes"))
    jobs.db.sql("UPDATE jobs SET status = 'done' WHERE id = 1")
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 6
    assert jobs.statuses() == ["done", "running"]


@pytest.mark.covers("F10")
def test_undo_of_a_hold_lets_go(jobs):
    job = jobs.add("running")
    batch = batch_of(jobs("hold", job, "--yes"))
    assert jobs.held() == [str(job)]
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 0, ran.out + ran.err
    assert jobs.held() == []


@pytest.mark.covers("F10")
def test_a_job_whose_hold_was_undone_is_held_again_and_not_requeued(db, defib):
    """A batch with a hold in it: what led to the hold still counts."""
    jobs = Jobs(db, defib, attempts="attempts", max_attempts="3")
    spent, _ = jobs.add("running", "running")
    db.sql("UPDATE jobs SET attempts = 3 WHERE id = %s", spent)
    batch = jobs("scan", "--fix", "--json").json["watches"][0]["batch"]
    assert (jobs.statuses(), jobs.held()) == (["running", "queued"], [str(spent)])
    says = "1 of them was only put on hold. The hold "
    assert says + "would end" in jobs("undo", batch, "--dry-run").err
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 0 and says + "ended" in ran.err, ran.out + ran.err
    assert jobs.statuses() == ["running", "running"]
    assert [entry[0] for entry in jobs.ledger()][-2:] == ["HOLD_REVERTED", "UNDONE"]
    jobs("scan", "--fix")
    assert jobs.statuses() == ["running", "running"]
    assert str(spent) in jobs.held()


@pytest.mark.covers("F10")
def test_undo_brings_back_the_hold_that_an_act_ended(jobs):
    job = jobs.add("failed")
    jobs("hold", job, "--reason", "looking", "--yes")
    batch = batch_of(jobs("cancel", job, "--yes"))
    assert (jobs.status(job), jobs.held()) == ("cancelling", [])
    assert jobs("undo", batch, "--yes").code == 0
    assert (jobs.status(job), jobs.held()) == ("failed", [str(job)])
    shown = jobs("show", f"jobs/{job}", "--json").json
    assert (shown["held"], shown["hold"]["reason"]) == ("by hand", "looking")
    ran = jobs("release", job, "--yes")
    assert (ran.code, jobs.held()) == (0, []), ran.out + ran.err


@pytest.mark.covers("F10")
def test_a_dry_run_changes_nothing(requeued):
    jobs, job, _, batch = requeued
    dump = jobs.dump()
    ran = jobs("undo", batch, "--dry-run")
    assert ran.code == 0 and f"jobs/{job}  would be reverted" in ran.out
    assert jobs.dump() == dump


def test_without_a_terminal_it_needs_yes(requeued):
    jobs, _, _, batch = requeued
    dump = jobs.dump()
    ran = jobs("undo", batch)
    assert ran.code == 5 and "--yes" in stuck_jobs.one_line(ran)
    assert "undo what was done to 1 job of watch jobs in database main" in ran.err
    assert jobs.dump() == dump


def test_on_a_terminal_it_asks(requeued):
    jobs, job, before, batch = requeued
    code, _ = jobs.on_terminal("undo", batch, answer="n")
    assert code == 5 and jobs.status(job) == "queued"
    code, _ = jobs.on_terminal("undo", batch, answer="y")
    assert code == 0 and jobs.row(job) == before


def test_what_statements_of_the_user_s_own_did_is_not_undone(db, defib):
    own = "{sql: [\"UPDATE jobs SET status = 'queued' WHERE id IN (SELECT id FROM stuck)\"]}"
    jobs = Jobs(db, defib, requeue=own)
    job = jobs.add("running")
    batch = batch_of(jobs("requeue", job, "--yes"))
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 5 and "your own statements" in ran.out
    assert jobs.status(job) == "queued"


def test_a_batch_that_nobody_knows_says_where_to_look(requeued):
    ran = requeued[0]("undo", "20260101-000000-deadbeef", "--yes")
    assert ran.code == 2 and "defib ledger" in stuck_jobs.one_line(ran)


def test_a_job_to_which_nothing_was_done_says_so(jobs):
    ran = jobs("undo", jobs.add("running"), "--yes")
    assert ran.code == 5 and "nothing to undo" in stuck_jobs.one_line(ran)


def test_no_words_are_wrong_usage(jobs):
    ran = jobs("undo", "--yes")
    assert ran.code == 2 and "a batch" in stuck_jobs.one_line(ran)


# ---- what a claim changes, whatever the remedy wrote

@pytest.mark.covers("F10")
def test_an_epoch_that_the_remedy_raised_is_no_claim(db, defib):
    """`epoch: version` with `requeue: …, version = version + 1` was called claimed at once."""
    jobs = Jobs(db, defib, requeue="status = 'queued', attempts = attempts + 1", epoch="attempts")
    job = jobs.add("running")
    before = jobs.row(job)
    batch = batch_of(jobs("requeue", job, "--yes"))
    ran = jobs("undo", batch, "--yes")
    assert (ran.code, jobs.row(job)) == (0, before), ran.out


def test_an_epoch_that_a_claim_raised_after_the_remedy_is_one(db, defib):
    jobs = Jobs(db, defib, requeue="status = 'queued', attempts = attempts + 1", epoch="attempts")
    job = jobs.add("running")
    batch = batch_of(jobs("requeue", job, "--yes"))
    jobs.db.sql("UPDATE jobs SET attempts = attempts + 1")
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 5 and "claimed since then: its epoch is 2 and was 1" in ran.out
    assert jobs.status(job) == "queued"


RUNS = "(SELECT count(*) FROM runs r WHERE r.job = t.id)"
CLAIMS = {
    "attempts": ({"attempts": "attempts", "max_attempts": 9}, "attempts = 2"),
    "owner": ({"owner": "owner", "requeue": "status = 'queued'"}, "owner = NULL"),
    "sign of life": ({"requeue": "status = 'queued'", "retry": None},
                     "updated_at = '2026-01-02 03:04:05'"),
    "state": ({"requeue": "status = 'queued'", "fail": "status = 'failed'", "retry": None},
              "error = 'failed again'"),
}


@pytest.mark.covers("F10")
@pytest.mark.parametrize("fact", CLAIMS)
def test_undo_is_refused_after_a_run_that_gave_the_job_back(db, defib, fact):
    """Claimed, failed and given back by another worker: the row looks as the remedy left it, but
    for what that run changed. The job was put back to `running` under its dead owner."""
    how, change = CLAIMS[fact]
    jobs = Jobs(db, defib, **how)
    if fact == "state":
        jobs.config = jobs.config.replace("running: status = 'running'",
                                          "running: status = 'running' AND error IS NULL")
    job = jobs.add("running")
    batch = batch_of(jobs("requeue", job, "--yes"))
    jobs.db.sql(f"UPDATE jobs SET {change}")
    after = jobs.row(job)
    for dry in ("--dry-run", "--yes"):
        ran = jobs("undo", batch, dry)
        assert ran.code == 5 and "changed since: " in ran.out, ran.out
    assert jobs.row(job) == after


def test_undo_is_refused_after_a_run_that_only_another_table_shows(db, defib):
    """What counts the attempts may be a table of runs."""
    db.sql("CREATE TABLE runs (job integer)")
    jobs = Jobs(db, defib, attempts=RUNS, max_attempts=9)
    job = jobs.add("running")
    batch = batch_of(jobs("requeue", job, "--yes"))
    db.sql("INSERT INTO runs VALUES (%s)", job)
    ran = jobs("undo", batch, "--yes")
    assert (ran.code, jobs.status(job)) == (5, "queued") and "changed since: " in ran.out


def test_a_note_on_the_row_does_not_keep_it_from_being_undone(db, defib):
    jobs = Jobs(db, defib, requeue="status = 'queued'", fail="status = 'failed'", retry=None)
    job = jobs.add("running")
    batch = batch_of(jobs("requeue", job, "--yes"))
    db.sql("UPDATE jobs SET error = 'a note'")
    assert jobs("undo", batch, "--yes").code == 0
    assert jobs.status(job) == "running"


ALSO = '["INSERT INTO notes SELECT id FROM stuck"]'


@pytest.mark.covers("F10")
@pytest.mark.parametrize("later", ["as it was", "without also"])
def test_what_also_went_with_is_not_undone(db, defib, later):
    """The job was put back, what also: did was not, and the exit code was 0. The ledger knows,
    also when the watch has no also: any more."""
    db.sql("CREATE TABLE notes (job integer)")
    jobs = Jobs(db, defib, also=ALSO)
    job = jobs.add("running")
    batch = batch_of(jobs("requeue", job, "--yes"))
    if later == "without also":
        jobs.config = jobs.config.replace(f"    also: {ALSO}\n", "")
    for words in ((batch,), (f"jobs/{job}",)):
        ran = jobs("undo", *words, "--yes")
        assert ran.code == 5 and "(also:) ran with it" in ran.out
    assert (jobs.status(job), db.sql("SELECT job FROM notes")) == ("queued", [(job,)])


def test_a_hold_that_also_did_not_go_with_is_undone(db, defib):
    """A hold in defib's own table writes nothing of the user's, and also: nothing with it."""
    db.sql("CREATE TABLE notes (job integer)")
    jobs = Jobs(db, defib, also=ALSO)
    batch = batch_of(jobs("hold", jobs.add("running"), "--yes"))
    assert jobs("undo", batch, "--yes").code == 0 and jobs.held() == []
