# SPDX-License-Identifier: Apache-2.0
"""Scristill (B): pools by kind that start one after the other, limited at first; cancelling."""

import collections
import time

import pytest

from harness.table_workers import TableWorkers
from harness.waiting import running

POOLS = {"scrape": 1, "crawl": 6, "extract": 1}
# Says when it begins and ends: lines of a file are in the order of time.
SPAN = 'echo "$DEFIB_KIND +" >>spans; await go; ' \
       'echo "$DEFIB_KIND -" >>spans'
UNSTAGGERED = ("stagger: 1s", "stagger: 0s")


@pytest.fixture
def scristill(db, defib, with_tables):
    own = TableWorkers("scristill", db, defib)
    own.insert("projects", name="p")
    yield own
    own.close()


def add_jobs(scristill, **kinds):
    project = scristill.cell("SELECT id FROM projects")
    for kind, count in kinds.items():
        for n in range(count):
            scristill.insert("jobs", project_id=project, type=kind, created_at=scristill.ago(99 - n))


def count(scristill, status):
    return dict(scristill.rows("SELECT type, count(*) FROM jobs WHERE status = %s GROUP BY type",
                               status))


def most_at_once(spans):
    now, most = collections.Counter(), collections.Counter()
    for line in spans:
        kind, sign = line.split()
        now[kind] += 1 if sign == "+" else -1
        most[kind] = max(most[kind], now[kind])
    return dict(most)


@pytest.mark.covers("B6", "B9")
def test_each_kind_has_a_pool_that_is_never_exceeded(scristill):
    scristill.change(UNSTAGGERED)
    add_jobs(scristill, scrape=4, crawl=20, extract=4)
    worker = scristill.work("jobs", "--poll", "50ms", run=SPAN)
    scristill.until_lines("spans", 8)
    assert count(scristill, "running") == POOLS
    (scristill.dir / "go").touch()
    scristill.until("SELECT count(*) FROM jobs WHERE status = 'completed'", 28)
    assert worker.stop() == 0
    assert most_at_once(scristill.lines("spans")) == POOLS
    # Nothing is deleted, and what ended has its time.
    assert scristill.cell("SELECT count(*) FROM jobs WHERE completed_at IS NOT NULL") == 28


@pytest.mark.covers("B6")
def test_slots_of_a_pool_start_one_after_the_other(scristill):
    """No slot takes a job before its turn, counted from before the worker was started."""
    scristill.change(("stagger: 1s", "stagger: 400ms"))
    add_jobs(scristill, crawl=6)
    start = time.time()
    scristill.work("jobs", "--poll", "50ms", run="date +%s.%N >>began; await go")
    scristill.until_lines("began", 6)
    (scristill.dir / "go").touch()
    began = sorted(float(line) - start for line in scristill.lines("began"))
    assert [at >= 0.4 * n for n, at in enumerate(began)] == [True] * 6, began


@pytest.mark.covers("B7")
def test_a_slot_takes_no_more_than_the_burst_limit_within_the_window(scristill):
    scristill.change(UNSTAGGERED, ("limit: 5", "limit: 2"), ("window: 60s", "window: 1h"))
    add_jobs(scristill, scrape=5, crawl=20, extract=1)
    worker = scristill.work("jobs", "--poll", "20ms", run="true")
    scristill.until("SELECT count(*) FROM jobs WHERE status = 'completed'", 2 + 12 + 1)
    assert worker.stop() == 0
    assert count(scristill, "completed") == {"scrape": 2, "crawl": 12, "extract": 1}
    assert count(scristill, "queued") == {"scrape": 3, "crawl": 8}


@pytest.mark.covers("B7")
def test_after_the_window_the_limit_is_gone(scristill):
    scristill.change(UNSTAGGERED, ("limit: 5", "limit: 2"), ("window: 60s", "window: 1s"))
    add_jobs(scristill, scrape=7)
    start = time.monotonic()
    scristill.work("jobs", "--poll", "20ms", run="true")
    scristill.until("SELECT count(*) FROM jobs WHERE status = 'completed'", 7)
    assert time.monotonic() - start >= 1


@pytest.mark.covers("B7")
def test_without_stagger_and_burst_nothing_is_held_back(scristill):
    scristill.change(("      stagger: 1s\n", ""),
                     ("      burst:\n        limit: 5\n        window: 60s\n", ""))
    add_jobs(scristill, scrape=12)
    scristill.drain("jobs", "--poll", "1h", run="true")
    assert count(scristill, "completed") == {"scrape": 12}


@pytest.mark.covers("B10", "B9")
def test_a_running_job_that_is_cancelled_stops_and_fails(scristill):
    """The watch's `cancel` list says what a request looks like; anybody may write it."""
    scristill.change(UNSTAGGERED)
    add_jobs(scristill, crawl=2)
    worker = scristill.work("jobs", run='echo "$$ $DEFIB_JOB_ID" >>began; '
                            'await go')
    scristill.until_lines("began", 2)
    pid, job = scristill.lines("began")[0].split()
    scristill.rows("UPDATE jobs SET status = 'cancelling' WHERE CAST(id AS text) = %s", job)
    scristill.until(f"SELECT status FROM jobs WHERE CAST(id AS text) = '{job}'", "failed")
    assert not running(int(pid))
    assert count(scristill, "running") == {"crawl": 1}
    (scristill.dir / "go").touch()
    scristill.until("SELECT count(*) FROM jobs WHERE status = 'completed'", 1)
    assert worker.stop() == 0
    assert scristill.cell("SELECT count(*) FROM jobs") == 2
    row = scristill.row("jobs", ["error", "completed_at"], f"CAST(id AS text) = '{job}'")
    assert row.error and row.completed_at is not None
