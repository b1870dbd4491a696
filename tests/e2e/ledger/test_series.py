# SPDX-License-Identifier: Apache-2.0
"""Numbers over time (src/insight/series.h): they are those of metrics, stats and the ledger, each
counted once, and the next daemon continues them."""

import signal

import pytest

from harness.http_daemon import serving
from harness.metrics import scrape
from harness.waiting import eventually

SQL = {"postgres": {"time": "timestamptz", "ago": "now() - interval '{} seconds'"},
       "sqlite": {"time": "text", "ago": "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{} seconds')"}}
CONFIG = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: mails
    table: mails
    key: id
    running: status = 'running'
    since: created_at
    alive_at: beat_at
    stuck_after: 1m
    every: 300ms
    requeue: status = 'queued'
    stats:
      ready: status = 'queued'
      failed: status = 'failed'
      started_at: created_at
      finished_at: ended_at
  - name: silent
    table: mails
    key: id
    running: status = 'nothing'
    alive_at: beat_at
    stuck_after: 1m
    every: 1h
"""
RANGES = {"1h": 60, "24h": 96, "7d": 84}


class Mails:
    """A table of jobs, and what is written into it."""

    def __init__(self, db):
        self.db, self.sql = db, SQL[db.engine]
        self.ids = iter(range(1, 10000))
        db.sql(f"CREATE TABLE mails (id integer PRIMARY KEY, status text NOT NULL, created_at "
               f"{self.sql['time']}, beat_at {self.sql['time']}, ended_at {self.sql['time']})")

    def add(self, status, n=1, age=3000, beat=None, ended=None):
        when = [self.sql["ago"].format(s) if s is not None else "NULL" for s in (age, beat, ended)]
        for _ in range(n):
            self.db.sql(f"INSERT INTO mails VALUES (%s, %s, {', '.join(when)})", next(self.ids),
                        status)


def read_again(web):
    """A reload makes the daemon read its tables, and record what it read."""
    web.daemon.signal(signal.SIGHUP)


def series(web, watch="mails", since="1h"):
    got = web.get(f"/api/v1/series?since={since}" + (f"&watch={watch}" if watch else ""))
    assert got.status == 200, got.text
    return got.json


def last(values):
    return next((v for v in reversed(values) if v is not None), None)


@pytest.fixture
def mails(db):
    return Mails(db)


@pytest.fixture
def serve(mails, tmp_path):
    """serve(): a daemon, as a context."""
    folders = iter(range(100))

    def start():
        folder = tmp_path / f"daemon{next(folders)}"
        folder.mkdir()
        return serving(folder, CONFIG.format(url=mails.db.url))
    return start


def test_the_same_numbers_everywhere_at_one_moment(mails, serve, defib):
    mails.add("queued", 5, age=3000)
    mails.add("running", 2, beat=0)
    mails.add("done", 3, ended=30)
    mails.add("failed", 1, ended=30)
    with serve() as web:
        eventually(web.ready)
        read_again(web)
        eventually(lambda: last(series(web)["waiting"]) == 5 and series(web)["totals"]["done"] == 3)
        eventually(lambda: read_again(web) or last(series(web)["running"]) == 2)
        got, told = series(web), web.get("/api/v1/watches/mails/stats").json
        numbers = scrape(web)
        command = defib("stats", "mails", "--json", config=web.daemon.config.read_text())
        printed, = command.json["watches"]
        waiting = {last(got["waiting"]), told["waiting"], printed["waiting"],
                   numbers.get("defib_queue_jobs", watch="mails", state="ready")}
        assert waiting == {5}
        assert {last(got["running"]), told["running"], printed["running"],
                numbers.get("defib_jobs_running", watch="mails")} == {2}
        assert [got["totals"][end] for end in ("done", "failed")] == [3, 1]
        assert [numbers.get("defib_jobs_ended_total", watch="mails", end=end)
                for end in ("done", "failed")] == [3, 1]
        oldest = numbers.get("defib_queue_oldest_seconds", watch="mails", state="ready")
        assert told["oldest_waiting_s"] == pytest.approx(oldest, abs=60)
        assert last(got["oldest_s"]) == pytest.approx(oldest, abs=60)


def test_every_range_has_the_same_totals_and_a_step_for_all_of_it(mails, serve):
    mails.add("done", 4, ended=30)
    with serve() as web:
        eventually(lambda: series(web)["totals"]["done"] == 4)
        for since, steps in RANGES.items():
            got = series(web, since=since)
            assert got["totals"]["done"] == sum(n or 0 for n in got["done"]) == 4
            for name in ("waiting", "oldest_s", "running", "failed", "detection_p50_s"):
                assert len(got[name]) == steps
            assert all(len(values) == steps for values in got["recovered"].values())
            assert steps * got["step_s"] == got["totals"]["step_s"]


def test_recoveries_are_in_the_series_by_verdict_with_the_time_to_detection(mails, serve, defib):
    mails.add("running", 6, beat=90)
    with serve() as web:
        ran = defib("scan", "mails", "--fix", config=web.daemon.config.read_text())
        assert ran.code == 0, ran.err
        eventually(lambda: read_again(web) or series(web)["totals"]["recovered"] == 6)
        got = series(web)
        assert sum(n or 0 for n in got["recovered"]["silent"]) == 6
        # Silent since about 90 s: between the bounds 60 and 120.
        assert 60 <= got["totals"]["detection_p50_s"] <= got["totals"]["detection_p95_s"] <= 120
        eventually(lambda: scrape(web).get("defib_recovered_total", watch="mails") == 6)


def test_a_killed_daemon_loses_nothing_and_the_next_counts_nothing_twice(mails, serve, defib):
    mails.add("done", 2, ended=10)
    with serve() as web:
        eventually(lambda: series(web)["totals"]["done"] == 2)
        config = web.daemon.config.read_text()
        web.daemon.kill()
        mails.add("done", 3, ended=0)
        mails.add("running", 4, beat=600)
        ran = defib("scan", "mails", "--fix", config=config)
        assert ran.code == 0, ran.err
        web.daemon.stop = lambda: 0
    with serve() as web:
        eventually(lambda: read_again(web) or (
            series(web)["totals"]["done"], series(web)["totals"]["recovered"]) == (5, 4))
        read_again(web)
        eventually(lambda: last(series(web)["waiting"]) == 4)
        assert [series(web)["totals"][n] for n in ("done", "recovered")] == [5, 4]


def test_what_a_watch_does_not_say_is_not_zero(mails, serve):
    with serve() as web:
        eventually(lambda: last(series(web, "silent")["running"]) == 0)
        got = series(web, "silent")
        assert {*got["waiting"], *got["done"], *got["failed"]} == {None}
        assert got["totals"]["done"] is None


def test_all_watches_together_are_the_sum(mails, serve):
    mails.add("queued", 3)
    with serve() as web:
        eventually(lambda: last(series(web)["waiting"]) == 3)
        assert last(series(web, None)["waiting"]) == 3
        assert series(web, None)["watch"] is None


def test_other_periods_and_watches_are_refused(lite, tmp_path):
    Mails(lite)
    with serving(tmp_path, CONFIG.format(url=lite.url)) as web:
        eventually(web.ready)
        got = web.get("/api/v1/series?since=8d")
        assert got.status == 400 and "1h, 24h or 7d" in got.detail
        got = web.get("/api/v1/series?watch=nobody")
        assert got.status == 404 and "nobody" in got.detail
        assert web.get("/api/v1/series?watch=queue").status == 200
