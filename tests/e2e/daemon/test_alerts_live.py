# SPDX-License-Identifier: Apache-2.0
"""Each alert that the five documents ask for, seen firing and resolving in a running daemon.

Windows are seconds instead of an hour, limits are those of the documents. Each alert has its own
watch, so that none disturbs another.
"""

import pytest

from harness.http_daemon import serving
from harness.metrics import scrape
from harness.waiting import eventually

WINDOW = "3s"
TIMES = {"postgres": ("timestamptz", "now() - interval '{} seconds'"),
         "sqlite": ("text", "datetime('now', '-{} seconds')")}
WATCH = """
  - name: {name}
    table: jobs
    key: id
    running: status = 'running' AND lane = '{name}'
    alive_at: updated_at
    attempts: tries
    max_attempts: 3
    stuck_after: 1h
    every: 300ms
    requeue: status = 'queued'
    late_when: status = 'done'
    {more}
"""
REPORTS = "remedies: [{do: report}]"
LANES = {"many": REPORTS, "long": REPORTS, "recovering": "", "holding": "", "mistaken": "",
         "slow": ""}
RULES = """
alerts:
  every: 200ms
  rules:
    - {{name: stuck_doubled, window: {w}}}
    - {{name: recovered_many, window: {w}}}
    - {{name: recovered_fast, window: {w}}}
    - {{name: detection_slow, window: {w}}}
    - {{name: recovery_rate, window: {w}}}
    - {{name: false_positives, window: {w}}}
    - {{name: connection_failures, window: {w}, floor: 1}}
"""


class Live:
    """A daemon and its table; a lane of jobs for each alert."""

    def __init__(self, db, program):
        self.db, self.program = db, program
        kind, self.ago = TIMES[db.engine]
        db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, lane text, status text, "
               f"tries integer NOT NULL DEFAULT 0, updated_at {kind} NOT NULL)")
        self.ids = iter(range(1, 10000))
        watches = "".join(WATCH.format(name=name, more=more) for name, more in LANES.items())
        self.config = (f'databases:\n  - name: main\n    url: "{db.url}"\nwatches:{watches}'
                       + RULES.format(w=WINDOW))

    def add(self, lane, n, seconds=7200, tries=0):
        for _ in range(n):
            self.db.sql("INSERT INTO jobs (id, lane, status, tries, updated_at) VALUES "
                        f"(%s, %s, 'running', %s, {self.ago.format(seconds)})", next(self.ids),
                        lane, tries)

    def clear(self, lane):
        self.db.sql("DELETE FROM jobs WHERE lane = %s", lane)

    def alert(self, watch, rule):
        rows = self.web.get("/api/v1/alerts").json["alerts"]
        return next((r for r in rows if r["watch"] == watch and r["rule"] == rule), None)

    def state(self, watch, rule):
        one = self.alert(watch, rule)
        return one["state"] if one else None

    def fires(self, watch, rule):
        eventually(lambda: self.state(watch, rule) == "firing", 30)
        return self.alert(watch, rule)

    def resolves(self, watch, rule):
        eventually(lambda: self.state(watch, rule) == "resolved", 30)


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def live(request, tmp_path_factory):
    from harness.program import Program
    from harness.databases import LiteDatabase, PgDatabase
    folder = tmp_path_factory.mktemp("live")
    db = (PgDatabase(request.getfixturevalue("shared_server")) if request.param == "postgres"
          else LiteDatabase(folder / "live.db"))
    try:
        world = Live(db, Program(folder))
        with serving(folder, world.config) as web:
            world.web = web
            eventually(web.ready)
            yield world
    finally:
        db.drop()


@pytest.mark.covers("A10")
def test_stuck_jobs_warn_above_10_are_critical_above_50_and_page_when_they_double(live):
    live.add("many", 10)
    eventually(lambda: live.web.get("/api/v1/watches/many").json["info"]["found"] == 10)
    assert live.state("many", "stuck_warning") != "firing"
    live.add("many", 1)
    assert "11 jobs are stuck (alert above 10)" in live.fires("many", "stuck_warning")["text"]
    assert live.state("many", "stuck_critical") != "firing"
    assert live.state("many", "stuck_doubled") != "firing", "from none to 11: the floor is 10"
    live.add("many", 40)
    assert "51 jobs are stuck" in live.fires("many", "stuck_critical")["text"]
    live.fires("many", "stuck_doubled")
    assert live.web.get("/api/v1/watches/many").json["status"] == "alerting"
    live.clear("many")
    for rule in ("stuck_warning", "stuck_critical", "stuck_doubled"):
        live.resolves("many", rule)
    eventually(lambda: live.web.get("/api/v1/watches/many").json["status"] == "well")


@pytest.mark.covers("A10")
def test_a_sign_of_life_older_than_an_hour_is_told_and_not_first_an_hour_beyond_the_threshold(live):
    live.add("long", 1, seconds=3600 + 90)
    fired = live.fires("long", "stuck_long")
    assert "gave its last sign of life 1h 1m before" in fired["text"]
    live.clear("long")
    live.resolves("long", "stuck_long")


@pytest.mark.covers("C12")
def test_more_than_10_recovered_and_above_a_tenth_a_second_fire_until_the_window_is_over(live):
    live.add("recovering", 11)
    fired = live.fires("recovering", "recovered_many")
    assert "11 jobs were recovered" in fired["text"]
    assert "alert above 0.1" in live.fires("recovering", "recovered_fast")["text"]
    live.resolves("recovering", "recovered_many")
    live.resolves("recovering", "recovered_fast")


@pytest.mark.covers("C12")
def test_detection_that_takes_more_than_its_limit_on_average_fires(live):
    """From the last sign of life; a threshold of an hour raises the limit of 300 s to twice that."""
    live.add("slow", 2, seconds=8 * 3600)
    live.fires("slow", "detection_slow")
    live.resolves("slow", "detection_slow")


@pytest.mark.covers("C12")
def test_a_recovery_rate_below_nine_of_ten_counts_the_held(live):
    live.add("holding", 4)
    live.add("holding", 1, tries=3)
    fired = live.fires("holding", "recovery_rate")
    assert "only 80 % of the jobs found stuck" in fired["text"]
    live.resolves("holding", "recovery_rate")


@pytest.mark.covers("C10")
def test_more_than_5_percent_of_false_positives_fire(live):
    live.add("mistaken", 2)
    eventually(lambda: not live.db.sql("SELECT 1 FROM jobs WHERE lane = 'mistaken' AND status = "
                                       "'running'"))
    # The worker was alive after all, and finishes one of them.
    live.db.sql("UPDATE jobs SET status = 'done' WHERE lane = 'mistaken'")
    path = live.program.dir / "late.yaml"
    path.write_text(live.config)
    assert live.program("scan", "mistaken", "--fix", "-c", path).code in (0, 1)
    live.fires("mistaken", "false_positives")
    live.resolves("mistaken", "false_positives")


@pytest.mark.covers("A10")
def test_connection_failures_above_1_percent_fire_when_the_database_is_back_and_resolve(live):
    """Sessions are ended, or the file is locked: the daemon's attempts fail."""
    def fires():
        return live.state("*", "connection_failures") == "firing"

    def end_sessions():
        live.db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                    "current_database() AND pid <> pg_backend_pid()")
        failed = scrape(live.web).get("defib_connection_failures_total", database="main")
        return failed > before
    if live.db.engine == "postgres":
        before = scrape(live.web).get("defib_connection_failures_total", database="main")
        eventually(end_sessions)
    else:
        holder = live.db.connect()
        holder.execute("BEGIN IMMEDIATE")
        live.web.daemon.wait_log("the database cannot be queried")
        holder.execute("ROLLBACK")
        holder.close()
    eventually(fires, 30)
    live.resolves("*", "connection_failures")
