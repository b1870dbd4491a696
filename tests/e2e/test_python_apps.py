# SPDX-License-Identifier: Apache-2.0
"""The teams' own programs: each shows its zombie first, then the lines of defib that end it."""

import threading

import pytest

from python_apps import App
from python_package import package, script  # noqa: F401
from workers import eventually


# ---- A: ScraperSky, FastAPI and SQLAlchemy with a pool of 2

class Pages(App):
    def add(self, url, count=1):
        return [row[0] for row in self.db.sql(
            "INSERT INTO pages (url) SELECT %s FROM generate_series(1, %s) RETURNING id", url,
            count)]

    def states(self):
        return sorted(self.db.sql("SELECT page_processing_status::text, page_processing_error "
                                  "FROM pages"))

    def waiting_for(self, lock):
        """How many sessions wait for an advisory lock."""
        return self.cell("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND "
                         "objid = %s AND NOT granted AND database = (SELECT oid FROM pg_database "
                         "WHERE datname = current_database())", lock)

    def run_dry(self):
        """Three pages are claimed; while the first is processed, reports take the pool's
        connections, and none is left for the others."""
        gate, reports = self.db.connect(), self.db.connect()
        reports.cursor().execute("SELECT pg_advisory_lock(8)")
        gate.cursor().execute("SELECT pg_advisory_lock(7)")
        self.add("slow", 3)
        asking = []
        try:
            eventually(lambda: self.waiting_for(7) == 1)
            for _ in range(2):
                asking.append(threading.Thread(target=self.ask, args=("POST", "/report")))
                asking[-1].start()
            eventually(lambda: self.waiting_for(8) == 1)
            eventually(lambda: self.ask("GET", "/health")[1] == {"reports": 2})
            gate.close()
            eventually(lambda: self.waiting_for(8) == 2)
            yield
        finally:
            gate.close()
            reports.close()
            for one in asking:
                one.join()


@pytest.fixture
def pages(pg, with_tables, defib, script):
    return Pages("scrapersky", pg, defib, script)


def test_scrapersky_before_leaves_zombies(pages):
    server = pages.start(LOOP="before", POLL_SECONDS="0.1")
    for _ in pages.run_dry():
        eventually(lambda: server.log.count("Skipping.") == 2)
    done, = pages.add("quick")
    # The loop goes on, and never looks at them again.
    eventually(lambda: pages.ask("GET", f"/pages/{done}")[1]["status"] == "Complete")
    assert pages.states() == 2 * [("Complete", None)] + 2 * [("Processing", None)]


@pytest.mark.covers("A6", "A7", "A9")
def test_scrapersky_after_fails_them_with_the_reason(pages):
    server = pages.start(POLL_SECONDS="0.1")
    lost = ("Failed", "Failed to obtain processing session")
    for _ in pages.run_dry():
        eventually(lambda: pages.states().count(lost) == 2)
    assert pages.states() == [("Complete", None), lost, lost]
    # Three tries each, counted where the daemon's metrics read it.
    eventually(lambda: pages.cell("SELECT (info->>'failures')::int FROM defib.worker") == 6)
    bad, = pages.add("bad")
    eventually(lambda: pages.ask("GET", f"/pages/{bad}")[1] == {
        "status": "Failed", "error": "ValueError: no such page"})
    assert server.stop() == 0, server.log
    assert pages.cell("SELECT state FROM defib.worker") == "left"


@pytest.mark.covers("A2")
def test_scrapersky_after_recovers_what_a_killed_server_left(pages):
    config = pages.dir.parent / "defib.yaml"
    # The server has just started: otherwise silence would prove nothing yet.
    config.write_text(config.read_text().replace("name: pages\n", "name: pages\n    guard: off\n"))
    gate = pages.db.connect()
    gate.cursor().execute("SELECT pg_advisory_lock(7)")
    pages.add("slow")
    first = pages.start(POLL_SECONDS="0.1")
    eventually(lambda: pages.waiting_for(7) == 1)
    first.kill()
    gate.close()
    assert pages.states() == [("Processing", None)]
    pages.db.sql("UPDATE pages SET updated_at = now() - interval '61 minutes'")
    server = pages.start(POLL_SECONDS="0.1")
    eventually(lambda: pages.states() == [("Complete", "Auto-reset from stuck Processing state")],
               limit=100)
    assert server.stop() == 0, server.log


# ---- B: Scristill, a scheduler of 1, 6 and 1 workers on the server's event loop

class Scheduler(App):
    def __init__(self, *args):
        super().__init__(*args)
        self.db.sql("INSERT INTO projects (name) VALUES ('one')")

    def add(self, count, kind, status, seconds=3600, payload="{}"):
        self.db.sql("INSERT INTO jobs (project_id, type, status, payload, updated_at) "
                    "SELECT (SELECT id FROM projects), %s, %s, %s, now() - %s * interval '1 second' "
                    "FROM generate_series(1, %s)", kind, status, payload, seconds, count)

    def stale(self):
        """The 231 jobs of the document."""
        for count, kind, status in ((60, "scrape", "running"), (94, "crawl", "running"),
                                    (77, "extract", "cancelling")):
            self.add(count, kind, status)

    def counts(self):
        return dict(self.db.sql("SELECT status, count(*) FROM jobs GROUP BY status"))


@pytest.fixture
def scheduler(pg, with_tables, defib, script):
    return Scheduler("scristill", pg, defib, script)


def test_scristill_before_runs_the_stale_jobs_and_hangs_the_api(scheduler):
    scheduler.stale()
    server = scheduler.start(wait=False, STARTUP="before", JOB_SECONDS="6")
    # Eight workers keep the loop busy at once: nothing is answered within the five seconds.
    eventually(lambda: scheduler.counts().get("completed", 0) >= 1)
    with pytest.raises(OSError, match="timed out"):
        scheduler.ask("GET", "/health", timeout=5)
    assert server.process.poll() is None
    assert "failed" not in scheduler.counts()


@pytest.mark.covers("B1", "B2", "B6", "B7", "B8")
def test_scristill_after_fails_them_and_answers(scheduler):
    scheduler.stale()
    scheduler.add(40, "crawl", "queued")
    server = scheduler.start(JOB_SECONDS="0.01", SCHEDULER_STARTUP_STAGGER_SECONDS="0.05",
                             POLL_SECONDS="0.05")
    assert scheduler.ask("GET", "/health")[2] < 5  # while the backlog is replayed
    assert ("running_failed=154" in server.log and "cancelling_failed=77" in server.log), server.log
    # Six crawl workers with a burst of five each, and then no more within the window.
    eventually(lambda: scheduler.counts() == {"failed": 231, "completed": 30, "queued": 10})
    assert scheduler.cell("SELECT DISTINCT error FROM jobs WHERE status = 'failed'") == (
        "Container restart: job was running when previous instance stopped")
    assert server.stop() == 0, server.log


@pytest.mark.covers("B1", "B4")
def test_scristill_after_leaves_no_young_row_of_a_killed_instance_running(scheduler):
    scheduler.add(3, "crawl", "queued", payload='{"wait": true}')
    env = {"SCHEDULER_STARTUP_STAGGER_SECONDS": "0.01", "POLL_SECONDS": "0.05"}
    first = scheduler.start(**env)
    eventually(lambda: scheduler.counts() == {"running": 3})
    first.kill()
    scheduler.start(**env)
    assert scheduler.counts() == {"failed": 3}
