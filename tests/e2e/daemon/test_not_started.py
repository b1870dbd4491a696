# SPDX-License-Identifier: Apache-2.0
"""Work that does not start (F14), under a daemon: one incident and one alert for the watch, which
take two looks, and end when a worker is back."""

import pytest

from harness.daemon import Daemon
from harness.example_systems import ago, ledger
from harness.http_daemon import WebDaemon
from harness.metrics import scrape
from harness.waiting import eventually

pytestmark = pytest.mark.covers("F14")
TIME = {"postgres": "timestamptz", "sqlite": "text"}
WATCH = """databases:
  - name: main
    url: "{url}"
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    started_at: started
    overdue_after: 2h
    waiting: state = 'queued'
    due_at: due
    late_after: 2s
    every: {every}
    requeue: state = 'queued', due = :now
    {more}
alerts:
  every: 200ms
  sinks: [log]
"""


class World:
    def __init__(self, db, program):
        self.db, self.program, self.daemons = db, program, []
        db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL DEFAULT 'queued',"
               f" due {TIME[db.engine]}, started {TIME[db.engine]})")

    def add(self, *keys, due=3600):
        for key in keys:
            self.db.sql(f"INSERT INTO jobs (id, due) VALUES (%s, {ago(self.db, due)})", key)

    def daemon(self, kind=Daemon, every="300ms", more=""):
        self.config = WATCH.format(url=self.db.url, every=every, more=more)
        self.daemons.append(kind(self.program, self.config, "--no-queue"))
        return self.daemons[-1]

    def status(self):
        watch, = self.program("status", "jobs", "--json", config=self.config).json["watches"]
        return watch["info"] or {}

    def unstarted(self):
        return self.status().get("unstarted")

    def incidents(self):
        return [row[0] for row in self.db.sql(
            f"SELECT event FROM {ledger(self.db)} WHERE job = '*' ORDER BY id")]


@pytest.fixture
def world(db, with_tables, defib):
    own = World(db, defib)
    yield own
    for daemon in own.daemons:
        daemon.kill()


def test_jobs_that_nobody_starts_are_one_incident_and_one_alert(world):
    world.add(*range(1, 13))
    daemon = world.daemon(WebDaemon)
    web = daemon.web()
    eventually(lambda: world.status().get("unstarted") == 12)

    def alert():
        rows = web.get("/api/v1/alerts").json["alerts"]
        return next((one for one in rows if one["rule"] == "unstarted" and one["watch"] == "jobs"),
                    {})
    eventually(lambda: alert().get("state") == "firing")
    assert alert()["text"].startswith(
        "12 jobs are late, the oldest has waited 1h (limit 2s); nobody has claimed")
    info = world.status()
    assert info["late"] == 12 and info["stuck"] == 0 and info["late_says"].startswith("12 jobs are late")
    numbers = scrape(web)
    assert numbers.get("defib_jobs_unstarted", watch="jobs") == 12
    assert numbers.get("defib_jobs_stuck", watch="jobs") == 0
    assert 3600 <= numbers.get("defib_jobs_late_oldest_seconds", watch="jobs") < 4000
    said = world.program("status", "jobs", config=world.config).out
    assert "12 jobs are late, the oldest has waited" in said
    daemon.wait_passes("jobs", 2)
    assert world.incidents() == ["UNSTARTED"]

    world.db.sql("DELETE FROM jobs WHERE id < 12")
    world.db.sql(f"UPDATE jobs SET state = 'running', started = {ago(world.db, 0)}")
    eventually(lambda: alert().get("state") == "resolved")
    eventually(lambda: world.incidents() == ["UNSTARTED", "STARTED_AGAIN"])
    assert daemon.stop() == 0
    assert len(daemon.lines("jobs are due and nobody starts them")) == 1


def test_the_first_look_judges_nobody(world):
    """Rows that were late when the daemon came may be started in the next moment."""
    world.add(1)
    daemon = world.daemon(every="1h")
    eventually(lambda: world.status().get("late") == 1)
    assert world.unstarted() == 0
    assert "that takes two looks" in world.status()["late_says"]
    assert world.incidents() == [] and daemon.stop() == 0


def test_a_deep_queue_whose_rows_move_on_is_being_started(world):
    """No column tells: the daemon sees from look to look that the oldest rows leave the queue."""
    world.add(*range(1, 40))
    daemon = world.daemon(more="remedies: [{verdict: unstarted, do: requeue}, {do: requeue}]")
    for _ in range(8):
        world.db.sql("DELETE FROM jobs WHERE id = (SELECT min(id) FROM jobs)")
        daemon.wait_passes("jobs")
    assert world.unstarted() == 0
    says = world.status()["late_says"]
    assert "jobs are being started" in says and "fewer each minute" in says, says
    assert world.incidents() == [] and daemon.stop() == 0
    assert world.db.sql("SELECT count(*) FROM jobs") == [(31,)]
    assert world.db.sql(f"SELECT count(*) FROM jobs WHERE due > {ago(world.db, 3000)}") == [(0,)]


def test_a_rule_requeues_rows_that_were_lost_and_that_is_no_start(world):
    world.add(*range(1, 4))
    daemon = world.daemon(more="remedies: [{verdict: unstarted, do: requeue}, {do: requeue}]")
    entries = f"SELECT count(*) FROM {ledger(world.db)} WHERE event = 'REQUEUED'"
    eventually(lambda: world.db.sql(entries)[0][0] >= 3)
    # They are due anew, and nobody starts them then either.
    eventually(lambda: world.db.sql(entries)[0][0] >= 6)
    assert daemon.stop() == 0


def test_a_paused_daemon_judges_nobody_and_writes_nothing(world):
    more = "remedies: [{verdict: unstarted, do: requeue}, {do: requeue}]"
    daemon = world.daemon(more=more)
    daemon.wait_passes("jobs")
    assert world.program("pause", "jobs", config=world.config).code == 0
    eventually(lambda: world.status().get("paused"))
    world.add(1)
    eventually(lambda: world.status().get("late") == 1)
    daemon.wait_passes("jobs", 10)
    assert world.unstarted() == 0 and "paused" in world.status()["late_says"]
    assert world.incidents() == []
    assert world.program("resume", "jobs", config=world.config).code == 0
    eventually(lambda: world.db.sql(f"SELECT count(*) FROM jobs WHERE due > {ago(world.db, 3000)}")
               == [(1,)])
    assert daemon.stop() == 0


def test_an_incident_that_is_open_is_not_begun_again_by_the_next_daemon(world):
    world.add(1)
    first = world.daemon()
    eventually(lambda: world.incidents() == ["UNSTARTED"])
    assert first.stop() == 0
    second = world.daemon()
    eventually(lambda: world.unstarted() == 1)
    second.wait_passes("jobs", 2)
    assert world.incidents() == ["UNSTARTED"]
    world.db.sql("DELETE FROM jobs")
    eventually(lambda: world.incidents() == ["UNSTARTED", "STARTED_AGAIN"])
    assert second.stop() == 0
