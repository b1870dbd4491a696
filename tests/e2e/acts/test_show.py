# SPDX-License-Identifier: Apache-2.0
"""`defib show JOB`: one sentence, the facts, the verdict and what follows, and the history."""

import json

import pytest

from harness.job_table import PAIRS, add_job, config, make_jobs, make_pairs
from harness.example_systems import Example


@pytest.fixture
def jobs(db):
    make_jobs(db)
    return db


def show(defib, db, *args, more=""):
    ran = defib("show", *args, config=config(db, more))
    assert (ran.code, ran.err) == (0, ""), ran.err
    return ran.out


def sentence(out):
    return out.splitlines()[0]


def test_a_stuck_job_with_what_will_be_done_about_it(jobs, defib):
    add_job(jobs, 1, minutes=125)
    first = sentence(show(defib, jobs, "jobs/1"))
    assert first == ("Job jobs/1 is stuck: no sign of life for 2h 5m (limit 1h); it will be "
                     "requeued at the next scan with --fix, by attempts-left.")


def test_a_running_job_that_is_not_stuck(jobs, defib):
    add_job(jobs, 1, minutes=5)
    first = sentence(show(defib, jobs, "jobs/1"))
    assert "is running on ****mber-1 and not stuck: its last sign of life is 5m" in first


def test_a_held_job_with_the_way_to_release_it(jobs, defib):
    add_job(jobs, 1, minutes=125, attempts=3)
    defib("scan", "--fix", config=config(jobs))
    first = sentence(show(defib, jobs, "jobs/1"))
    assert first.startswith("Job jobs/1 has been held since 20")
    assert "attempts" in first and "defib release jobs/1" in first


def test_a_recovered_job_with_what_was_done_and_by_whom(jobs, defib):
    add_job(jobs, 1, minutes=125)
    defib("scan", "--fix", config=config(jobs))
    out = show(defib, jobs, "jobs/1")
    assert "is not running; its state is queued; " in sentence(out)
    assert "it was requeued (silent): freed by a test (by cli:" in sentence(out)
    line, = [line for line in out.splitlines() if "REQUEUED" in line]
    assert "was requeued (silent): freed by a test (state: running -> queued)" in line
    assert "attempts-left, batch 20" in line and "cli:" in line


def test_facts_with_their_limits(jobs, defib):
    add_job(jobs, 1, minutes=125)
    out = show(defib, jobs, "jobs/1")
    for said in ("state = 'running'", "the limit is 1h", "****mber-1", "crawl", "1 of 3",
                 "title 1"):
        assert said in out
    assert "worker-number-1" not in out


def part(out, title):
    return out.partition(f"\n{title}\n")[2].partition("\n\n")[0]


def test_why_it_is_stuck_and_what_would_be_done_are_between_facts_and_history(jobs, defib):
    add_job(jobs, 1, minutes=125)
    out = show(defib, jobs, "jobs/1")
    verdict = part(out, "Verdict")
    for said in ("silent: its sign of life is older than stuck_after [silent]",
                 "requeue: default: requeue while attempts are left [attempts-left]",
                 "freed by a test", "defib scan jobs --fix"):
        assert said in verdict
    # All that explain prints, below its first line.
    told = defib("explain", "jobs/1", config=config(jobs)).out.splitlines()[1:]
    assert {" ".join(line.split()) for line in told} <= \
        {" ".join(line.split()) for line in out.splitlines()}
    defib("scan", "--fix", config=config(jobs))
    out = show(defib, jobs, "jobs/1")
    assert "not stuck: the row does not say that it is running [not-running]" in \
        part(out, "Verdict")
    assert out.index("\nFacts\n") < out.index("\nVerdict\n") < out.index("\nTimeline\n")


def test_the_document_has_the_explanation_of_explain(jobs, defib):
    add_job(jobs, 1, minutes=125)
    told = json.loads(show(defib, jobs, "jobs/1", "--json"))["explanation"]
    wanted = defib("explain", "jobs/1", "--json", config=config(jobs)).json
    assert wanted["remedy"] == "requeue" and wanted["evidence"].pop("now")
    told["evidence"].pop("now")
    told["evidence"].pop("measured_s"), wanted["evidence"].pop("measured_s")
    assert told == wanted


def test_the_story_is_in_the_order_of_time(jobs, defib):
    add_job(jobs, 1, minutes=125)
    defib("scan", "--fix", config=config(jobs))
    ran = defib("hold", "jobs/1", "--yes", "--reason", "let me look", config=config(jobs))
    assert ran.code == 0, ran.err
    lines = show(defib, jobs, "jobs/1").splitlines()
    lines = lines[lines.index("Timeline") + 1:]
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    assert "REQUEUED" in lines[0] and "HELD" in lines[-1] and "let me look" in lines[-1]


def test_logs_have_evidence_before_and_after(jobs, defib):
    add_job(jobs, 1, minutes=125)
    defib("scan", "--fix", config=config(jobs))
    assert "evidence" not in show(defib, jobs, "jobs/1")
    lines = show(defib, jobs, "jobs/1", "--logs").splitlines()
    found = {line.split()[0]: json.loads(line.split(None, 1)[1]) for line in lines
             if line.split()[:1] and line.split()[0] in ("evidence", "before", "after")}
    assert found["evidence"]["limit_s"] == 3600
    assert (found["before"]["state"], found["after"]["state"]) == ("running", "queued")


def test_state_is_the_whole_row_masked(jobs, defib):
    add_job(jobs, 1, minutes=125, error="x" * 1000)
    out = show(defib, jobs, "jobs/1", "--state")
    assert "Row of jobs" in out and "1,000 bytes; --raw has all" in out
    assert "worker-number" not in out
    names = [line.split()[0] for line in out.partition("Row of jobs")[2].splitlines()[1:]]
    assert names == ["id", "state", "beat", "error", "owner", "kind", "attempts", "title"]


@pytest.mark.parametrize("flag", ["--raw", "--json"])
def test_raw_is_one_document_of_all_of_it(jobs, defib, flag):
    add_job(jobs, 1, minutes=125, error="x" * 1000)
    defib("scan", "--fix", config=config(jobs))
    told = json.loads(show(defib, jobs, "jobs/1", flag))
    assert told["sentence"].startswith("Job jobs/1 is not running")
    assert (told["job"], told["state"], told["verdict"]) == ("jobs/1", "queued", None)
    assert told["row"]["owner"] == "****mber-1" and told["row"]["error"] == "freed by a test"
    entry, = told["ledger"]
    assert (entry["event"], entry["before"]["error"]) == ("REQUEUED", "x" * 1000)
    assert (told["hold"], told["retry"], told["steps"]) == (None, None, [])


def test_a_composite_key(jobs, defib):
    make_pairs(jobs)
    out = show(defib, jobs, 'pairs/["x\\"y", 1]', more=PAIRS)
    assert sentence(out).startswith('Job pairs/["x\\"y","1"] is stuck')
    assert "WORKING (6)" in out


@pytest.mark.parametrize("args,says", [
    (("jobs/99",), "there is no job jobs/99"),
    (("jbos/1",), "there is no job jobs/jbos/1"),
    ((), "takes one job"),
    (("jobs/1", "jobs/2"), "takes one job"),
])
def test_a_job_that_is_not_there_is_one_line(lite, defib, args, says):
    make_jobs(lite)
    ran = defib("show", *args, config=config(lite))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_a_key_of_the_wrong_type_is_one_line(pg, defib):
    make_jobs(pg)
    ran = defib("show", "jobs/abc", config=config(pg))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def test_nothing_is_written_by_looking(jobs, defib):
    add_job(jobs, 1, minutes=125)
    before = jobs.sql("SELECT * FROM jobs")
    show(defib, jobs, "jobs/1", "--logs", "--state")
    assert jobs.sql("SELECT * FROM jobs") == before
    tables = ("pg_tables WHERE schemaname = 'defib'" if jobs.engine == "postgres"
              else "sqlite_master WHERE name LIKE 'defib%'")
    assert jobs.sql(f"SELECT count(*) FROM {tables}") == [(0,)]


def test_a_job_of_the_queue_from_its_row(queue, defib):
    job = queue.enqueue('{"n": 1}', kind="bad", queue="q")
    queue.drain("--queue", "q", run="echo broken >&2; exit 3")
    queue.db.sql(f"UPDATE {queue.table('job')} SET state = 'failed', finished_at = claimed_at "
                 "WHERE id = %s", job)
    ran = defib("show", f"queue/{job}", db=queue.db)
    assert ran.code == 0, ran.err
    assert sentence(ran.out).startswith(f"Job queue/{job} failed ")
    assert "exit" in sentence(ran.out) or "broken" in sentence(ran.out)
    story = ran.out.partition("Timeline")[2]
    assert "created" in story and "started, attempt 1 of 5" in story and "finished" in story


def test_progress_of_a_running_job_is_in_its_story(queue, defib):
    job = queue.enqueue()
    db = queue.db
    now = "clock_timestamp()" if db.engine == "postgres" else "1794744017054"
    db.sql(f"INSERT INTO {queue.table('progress')} (job, epoch, at, step, progress) "
           f"VALUES (%s, 1, {now}, 'upload', '40 of 100')", job)
    out = defib("show", f"queue/{job}", db=db).out
    assert "progress: upload, 40 of 100" in out


def test_recorded_steps_are_told_with_their_outputs(queue, defib):
    job = queue.enqueue()
    db = queue.db
    now = "clock_timestamp()" if db.engine == "postgres" else "1794744017054"
    db.sql(f"INSERT INTO {queue.table('step')} (watch, job, step, position, state, epoch, output,"
           f" finished_at) VALUES ('queue', %s, 'charge', 1, 'done', 1, '{{\"paid\": 5}}', {now})",
           str(job))
    out = defib("show", f"queue/{job}", "--state", db=db).out
    assert "step charge: done" in out
    assert '"paid": 5' in out.partition("Steps")[2]
    assert defib("show", f"queue/{job}", "--raw", db=db).json["steps"][0]["output"] == {"paid": 5}


@pytest.mark.covers("C5")
def test_a_crashed_workflow_with_logs_and_state(db, defib):
    ruvon = Example("ruvon", db, defib)
    key = "550e8400-e29b-41d4-a716-446655440000"
    ruvon.insert("workflow_executions", id=key, workflow_type="Order", status="PENDING_ASYNC",
                 current_step="Process_Payment", metadata="{}")
    ruvon.insert("workflow_heartbeats", workflow_id=key, worker_id="celery@worker1",
                 last_heartbeat=ruvon.ago(7500), current_step="Process_Payment")
    first = sentence(ruvon("show", f"workflows/{key}").out)
    assert first == (f"Job workflows/{key} is stuck: no sign of life for 2h 5m (limit 2m); it will "
                     "be retried at the next scan with --fix, by rule-2.")
    assert ruvon("scan", "--fix").code == 0
    ran = ruvon("show", key, "--logs", "--state")
    assert ran.code == 0, ran.err
    assert "waits for its retry, due in" in sentence(ran.out)
    for said in ("RETRY_SCHEDULED", "status: PENDING_ASYNC -> FAILED_WORKER_CRASH",
                 "celery@worker1", "retry is due then", "current_step", "Process_Payment",
                 "zombie_retry_count"):
        assert said in ran.out


@pytest.mark.covers("E4", "E9")
def test_a_document_by_its_id_before_and_after_the_reset(db, defib, tmp_path):
    ocr = Example("ocr", db, defib)
    env = {"STAGING_DATABASE_URL": f"sqlite:{tmp_path}/none.db"}
    ocr.insert("extraction_queue", id="abc-123", status_id=6, document_number="12345678",
               ocr_worker_id="ocr-monitor-1", ocr_started_at=ocr.ago(900), ocr_attempts=1)
    out = ocr("show", "ocr/abc-123", env=env).out
    assert sentence(out).startswith("Job ocr/abc-123 is stuck: running for 15m")
    for said in ("OCR_PROCESSING (6)", "12345678", "ocr-monitor-1", "1 of 3", "started"):
        assert said in out
    assert ocr("scan", "--fix", "--db", "production", env=env).code == 0
    out = ocr("show", "ocr/abc-123", env=env).out
    assert "status_id: OCR_PROCESSING (6) -> COMPLETE (3)" in out
    assert "Reset by stale OCR monitor (processing for 15m" in out


def test_of_a_paused_watch_it_says_by_whom_and_why(jobs, defib):
    add_job(jobs, 1, minutes=125)
    assert defib("pause", "jobs", "--reason", "a move", config=config(jobs)).code == 0
    last = show(defib, jobs, "jobs/1").splitlines()[-1]
    assert last.startswith("recovery of jobs is paused by cli:")
    assert last.endswith("because: a move")


def test_a_masked_owner_is_masked_in_the_reason_too(jobs, defib):
    add_job(jobs, 1, minutes=125, owner="host-7/secret-name")
    text = config(jobs).replace("reason: freed by a test", "reason: 'left by {owner}'")
    assert defib("scan", "--fix", config=text).code == 0
    assert jobs.sql("SELECT error FROM jobs") == [("left by ****t-name",)]
    ledger = "defib.ledger" if jobs.engine == "postgres" else "defib_ledger"
    said = jobs.sql(f"SELECT reason, evidence, before, after FROM {ledger} WHERE event = 'REQUEUED'")
    assert len(said) == 1
    assert "left by ****t-name" in str(said) and "secret" not in str(said)
