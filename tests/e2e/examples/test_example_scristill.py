# SPDX-License-Identifier: Apache-2.0
"""Scristill (B): thresholds by type, and a rule for jobs that were being cancelled."""

import pytest

from harness.example_systems import Example, age


@pytest.fixture
def scristill(db, defib, with_tables):
    example = Example("scristill", db, defib)
    example.insert("projects", name="p")
    return example


def add_job(example, kind, seconds, status="running"):
    example.insert("jobs", project_id=("sql", "(SELECT id FROM projects)"), type=kind,
                   status=status, updated_at=example.ago(seconds))


@pytest.mark.covers("B5")
@pytest.mark.parametrize("kind,limit", [("scrape", 300), ("extract", 900), ("crawl", 1800)])
def test_each_type_has_its_own_threshold(scristill, kind, limit):
    add_job(scristill, kind, limit - 60)
    assert scristill("scan", "--json").json["found"] == 0
    add_job(scristill, kind, limit + 60)
    job, = scristill("scan", "--json").json["watches"][0]["jobs"]
    assert job["evidence"]["kind"] == kind
    assert job["evidence"]["limit_s"] == limit


@pytest.mark.covers("B5")
def test_a_stale_running_job_is_queued_again(scristill):
    add_job(scristill, "scrape", 600)
    assert scristill("scan", "--fix").code == 0
    row = scristill.row("jobs", ["status", "error", "completed_at"])
    assert (row.status, row.completed_at) == ("queued", None)
    assert row.error == "Stale scrape job: no update for 10m"


@pytest.mark.covers("B5")
def test_a_stale_cancelling_job_becomes_failed(scristill):
    add_job(scristill, "crawl", 3600, "cancelling")
    ran = scristill("scan", "--fix", "--json")
    job, = ran.json["watches"][0]["jobs"]
    assert (job["remedy"], job["rule"]) == ("fail", "rule-1")
    assert scristill.row("jobs", ["status"]).status == "failed"
    assert scristill.db.sql(f"SELECT {age(scristill.db, 'completed_at')} FROM jobs")[0][0] < 60


@pytest.mark.covers("B1", "B9")
def test_queued_jobs_are_untouched_and_none_is_deleted(scristill):
    for status in ("queued", "completed", "failed"):
        add_job(scristill, "crawl", 36000, status)
    add_job(scristill, "crawl", 36000)
    before = scristill.db.sql("SELECT * FROM jobs WHERE status <> 'running' ORDER BY id")
    assert scristill("scan", "--fix", "--json").json["recovered"] == 1
    assert scristill.db.sql("SELECT count(*) FROM jobs") == [(4,)]
    left = scristill.db.sql("SELECT * FROM jobs WHERE error IS NULL ORDER BY id")
    assert left == before


@pytest.mark.covers("B5")
def test_a_threshold_by_type_without_a_default_is_refused(scristill):
    text = scristill.config.read_text().replace(", default: 1800s", "")
    ran = scristill.defib("config", "check", config=text, env={"DATABASE_URL": "sqlite:x.db"})
    assert ran.code == 3
    assert "needs a default" in ran.err


@pytest.mark.covers("F8")
def test_a_job_that_is_stale_for_the_third_time_is_failed_and_not_left_running(scristill):
    scristill.insert("jobs", project_id=("sql", "(SELECT id FROM projects)"), type="scrape",
                     status="running", updated_at=scristill.ago(7200))
    for _ in range(2):
        assert scristill("scan", "--fix").code == 0
        scristill.db.sql("UPDATE jobs SET status = 'running', updated_at = "
                         + scristill.ago(7200)[1])
    assert scristill("scan", "--fix", "--json").json["held"] == 1
    row = scristill.row("jobs", ["id", "status", "error", "completed_at"])
    assert (row.status, row.completed_at is None) == ("failed", False)
    assert row.error == "Held for an operator: stuck 3 times within 3d"
    assert scristill("release", f"jobs/{row.id}", "--yes").code == 0
    row = scristill.row("jobs", ["status", "completed_at"])
    assert (row.status, row.completed_at) == ("queued", None)
