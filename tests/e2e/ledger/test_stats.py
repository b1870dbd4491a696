# SPDX-License-Identifier: Apache-2.0
"""`defib stats`: the numbers of each watch."""

import pytest

from harness.job_table import PAIRS, add_job, config, make_jobs, make_pairs
from harness.databases import LiteDatabase
from harness.example_systems import Example, ago


@pytest.fixture
def jobs(db):
    make_jobs(db)
    for i in range(1, 8):
        add_job(db, i, "running" if i < 4 else "queued", i * 30, attempts=0)
    return db


def stats(defib, db, *args, more=""):
    ran = defib("stats", *args, "--json", config=config(db, more))
    assert ran.code == 0, ran.err
    return ran.json["watches"]


def test_rows_by_state_what_runs_and_what_is_stuck(jobs, defib):
    numbers, = stats(defib, jobs)
    assert [(s["state"], s["n"]) for s in numbers["states"]] == [("queued", 4), ("running", 3)]
    assert numbers["running"] == 3
    assert numbers["stuck"] == {"dead": 0, "silent": 2, "overdue": 0, "orphan": 0, "stalled": 0}


def test_what_was_recovered_lately_is_counted_by_event(jobs, defib):
    add_job(jobs, 9, "running", 120, attempts=3)
    defib("scan", "--fix", config=config(jobs))
    numbers, = stats(defib, jobs)
    assert numbers["events"]["REQUEUED"] == {"day": 2, "week": 2}
    assert numbers["recovered"] == {"day": 2, "week": 2}
    assert (numbers["held"], numbers["retries"]) == (1, 0)
    assert numbers["late"] == {"day": 0, "week": 0}


def test_old_recoveries_are_not_of_today(lite, defib):
    make_jobs(lite)
    add_job(lite, 1, "running", 120, attempts=0)
    defib("scan", "--fix", config=config(lite))
    old = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-2 days')"
    lite.sql("INSERT INTO defib_ledger (at, batch, watch, job, event, actor) "
             f"VALUES ({old}, 'b', 'jobs', '1', 'REQUEUED', 'test')")
    numbers, = stats(defib, lite)
    assert numbers["events"]["REQUEUED"] == {"day": 1, "week": 2}


def test_without_a_ledger_it_says_so(jobs, defib):
    out = defib("stats", config=config(jobs)).out
    assert "none yet" in out
    numbers, = stats(defib, jobs)
    assert (numbers["held"], numbers["events"]) == (None, {})


def test_text_for_people(jobs, defib):
    make_pairs(jobs)
    defib("scan", "--fix", config=config(jobs))
    out = defib("stats", config=config(jobs, PAIRS)).out
    assert "main/jobs\n" in out and "main/pairs\n" in out
    for said in ("queued: 6, running: 1", "FREE (3): 1, WORKING (6): 1", "1 (silent: 1)",
                 "2 in 24 hours, 2 in 7 days"):
        assert said in out


def test_watches_by_name(jobs, defib):
    make_pairs(jobs)
    assert [w["watch"] for w in stats(defib, jobs, "pairs", more=PAIRS)] == ["pairs"]
    ran = defib("stats", "jbos", config=config(jobs))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert 'did you mean "jobs"?' in ran.err


def test_a_count_that_takes_too_long_is_told_and_the_others_come(pg, defib):
    make_jobs(pg)
    add_job(pg, 1, "running", 120)
    slow = "    statement_timeout: 300ms\n    state: (SELECT 'x' FROM pg_sleep(2))\n"
    numbers, = stats(defib, pg, more=slow)
    assert numbers["states"] == [] and numbers["states_error"]
    assert numbers["stuck"]["silent"] == 1
    out = defib("stats", config=config(pg, slow)).out
    assert "not counted: it took longer than statement_timeout allows" in out


def test_durations_of_jobs_that_ended(db, defib):
    time = "timestamptz" if db.engine == "postgres" else "text"
    make_jobs(db)
    db.sql(f"ALTER TABLE jobs ADD COLUMN ended {time}")
    for i in range(1, 21):
        add_job(db, i, "done", 60)
        db.sql(f"UPDATE jobs SET ended = {ago(db, 3600 - i * 60)} WHERE id = %s", i)
    add_job(db, 30, "done", 60, error="broken")
    more = ("    stats: {failed: error IS NOT NULL, started_at: beat, finished_at: ended}\n")
    numbers, = stats(defib, db, more=more)
    assert (numbers["completed"], numbers["failed"], numbers["measured"]) == (20, 1, 20)
    assert numbers["average_s"] == pytest.approx(630, abs=2)
    assert numbers["p95_s"] == pytest.approx(1140, abs=2)


def test_the_queue_counts_its_own(queue, defib):
    queue.enqueue()
    queue.enqueue()
    queue.drain()
    numbers, = defib("stats", "--json", db=queue.db).json["watches"]
    assert (numbers["watch"], numbers["completed"], numbers["failed"]) == ("queue", 2, 0)
    assert numbers["average_s"] > 0


def test_a_database_that_is_down_does_not_hide_the_others(jobs, defib):
    text = config(jobs).replace("watches:", "  - name: gone\n    url: "
                                "postgres://x@127.0.0.1:1/y?connect_timeout=2\nwatches:")
    ran = defib("stats", "--json", config=text + PAIRS + "    database: gone\n")
    assert ran.code == 6 and [w["watch"] for w in ran.json["watches"]] == ["jobs"]
    assert "gone" in ran.err


@pytest.mark.covers("E7")
def test_the_numbers_of_the_ocr_document(db, defib, tmp_path):
    """Its query: processing, completed, failed (an error is there), average duration."""
    ocr = Example("ocr", db, defib)
    staging = LiteDatabase(tmp_path / "staging.db")
    ocr.load(staging)
    rows = [("p1", 6, 60, None, None), ("c1", 5, 600, 480, None), ("c2", 5, 600, 360, None),
            ("f1", 3, 600, None, "boom"), ("new", 3, None, None, None)]
    for key, status, started, completed, error in rows:
        ocr.insert("extraction_queue", id=key, status_id=status, document_number=key,
                   ocr_started_at=ocr.ago(started) if started else None,
                   ocr_completed_at=ocr.ago(completed) if completed else None, ocr_error=error)
    ran = ocr("stats", "ocr", "--json", env={"STAGING_DATABASE_URL": staging.url})
    numbers, = ran.json["watches"]
    states = {s["name"]: s["n"] for s in numbers["states"]}
    assert states == {"OCR_PROCESSING": 1, "EXTRACTION_COMPLETE": 2, "COMPLETE": 1}
    assert (numbers["running"], numbers["completed"], numbers["failed"]) == (1, 2, 1)
    assert numbers["average_s"] == pytest.approx(180, abs=1)
    staging.drop()
