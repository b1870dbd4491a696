# SPDX-License-Identifier: Apache-2.0
"""Scristill (B): the document "Scheduler Startup Resilience" replayed: its tasks' tests, its
verification and its constraints, on the example as it ships.

The container is the daemon with its workers and their jobs, and is killed like a container: all of
it at once. The payload of a job says how long it takes, and run-job.sh obeys it.
"""

import contextlib
import json
import re

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.document_replay import Replay, kill_container, page_server, praised_lines, type_readme
from harness.example_systems import EXAMPLES
from harness.pgserver import free_port
from harness.python_package import LIBRARY, package  # noqa: F401
from harness.scristill import FAKE_STALE_JOBS, REASON
from harness.waiting import eventually

CLEANUP = "scheduler_startup_cleanup"
POOLS = {"scrape": 1, "crawl": 6, "extract": 1}
LONG = {"seconds": 3600}


class Scristill(Replay):
    def __init__(self, db, folder):
        super().__init__("scristill", db, folder)
        self.insert("projects", name="example.com")
        self.env["SCHEDULER_STARTUP_STAGGER_SECONDS"] = "0.1"

    def add(self, kind, n=1, status="queued", seconds=10, payload=None):
        """Jobs of one kind; their ids."""
        before = self.ids()
        for _ in range(n):
            self.insert("jobs", project_id=("sql", "(SELECT id FROM projects)"), type=kind,
                        status=status, payload=json.dumps(payload or {}),
                        updated_at=self.ago(seconds))
        return sorted(set(self.ids()) - set(before))

    def ids(self, where="true"):
        return sorted(str(row[0]) for row in self.rows(f"SELECT id FROM jobs WHERE {where}"))

    def counts(self, column="status", where="true"):
        return dict(self.rows(f"SELECT {column}, count(*) FROM jobs WHERE {where} GROUP BY 1"))

    def scheduler(self, *options, **more):
        """The container; a test that waits in vain shows its log."""
        daemon = self.daemon("--work", "--no-queue", *options, **more)
        self.workers.append(daemon)
        return daemon

    def until_running(self, n):
        self.until("SELECT count(*) FROM jobs WHERE status = 'running'", n)

    def close(self):
        super().close()
        self.db.drop()


def summaries(log):
    """What the workers' starts said, each as a dictionary of its numbers."""
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in
            re.findall(rf"{CLEANUP}\W.*", log) if "running_failed" in line]


@pytest.fixture
def scristill(shared_server, tmp_path):
    own = Scristill(PgDatabase(shared_server), tmp_path)
    yield own
    own.close()


@pytest.fixture(params=["postgres", "sqlite"])
def either(request, tmp_path):
    own = Scristill(PgDatabase(request.getfixturevalue("shared_server"))
                    if request.param == "postgres" else LiteDatabase(tmp_path / "test.db"),
                    tmp_path)
    yield own
    own.close()


# ---- the restart of the 27th of February: 231 stale jobs, and a backlog ----


class Restart:
    """A container starts on what a crashed one left, and is asked all the time."""

    def __init__(self, server, folder):
        self.system = system = Scristill(PgDatabase(server), folder)
        system.rows(FAKE_STALE_JOBS)
        system.rows("INSERT INTO jobs (project_id, type, status, created_at, updated_at) "
                    "SELECT p.id, CASE WHEN i <= 99 THEN 'scrape' ELSE 'crawl' END, "
                    "CASE WHEN i <= 152 THEN 'running' ELSE 'cancelling' END, "
                    "now() - interval '2 days', now() - interval '2 days' "
                    "FROM projects p, generate_series(1, 229) i")
        self.stale = system.ids()
        for kind, n in (("scrape", 12), ("crawl", 60), ("extract", 12)):
            system.add(kind, n)
        self.burst = {kind: 5 * n for kind, n in POOLS.items()}
        # The limit holds for an hour: whoever is past it did not just wait long enough.
        self.daemon = system.scheduler(listen=True, env={
            "SCHEDULER_STARTUP_WINDOW_SECONDS": "3600"})
        self.web = self.daemon.web()
        assert self.web.get("/healthz").status == 200
        self.done_at_first_answer = system.counts().get("completed", 0)
        self.answers, self.most = 0, {}
        self.look(until=sum(self.burst.values()))

    def look(self, until):
        """Ask the API and count who works, until so many jobs are done."""
        def done():
            for path in ("/healthz", "/api/v1/watches", "/api/v1/watches/jobs/jobs"):
                assert self.web.get(path).status == 200
                self.answers += 1
            mine = "status = 'running' AND created_at > now() - interval '30 minutes'"
            for kind, n in self.system.counts("type", mine).items():
                self.most[kind] = max(self.most.get(kind, 0), n)
            return self.system.counts().get("completed", 0) >= until
        eventually(done)

    def close(self):
        self.system.close()


@pytest.fixture(scope="module")
def restart(shared_server, tmp_path_factory):
    own = Restart(shared_server, tmp_path_factory.mktemp("restart"))
    yield own
    own.close()


@pytest.mark.covers("B1", "B9")
def test_only_running_and_cancelling_are_marked_failed(restart):
    failed = restart.system.ids("status = 'failed'")
    assert failed == restart.stale and len(failed) == 231
    assert restart.system.rows("SELECT DISTINCT error, completed_at IS NOT NULL FROM jobs "
                               "WHERE status = 'failed'") == [(REASON, True)]


@pytest.mark.covers("B1", "B9")
def test_queued_jobs_are_left_untouched(restart):
    """None was failed or deleted: those that are not done yet wait as they did."""
    assert restart.system.cell("SELECT count(*) FROM jobs") == 231 + 84
    assert restart.system.rows("SELECT DISTINCT error FROM jobs WHERE status <> 'failed'") == [
        (None,)]


@pytest.mark.covers("B2")
def test_cleanup_logs_correct_counts(restart):
    said = summaries(restart.daemon.log)
    total = {name: sum(int(one.get(name, 0)) for one in said)
             for name in ("running_failed", "cancelling_failed", "scrape", "crawl")}
    assert total == {"running_failed": 154, "cancelling_failed": 77, "scrape": 100, "crawl": 131}
    # Its workers start beside it: who comes second finds a job changed, and says that too.
    lines = restart.daemon.lines("job of an instance that is gone", outcome="recovered")
    assert sorted(line["job"] for line in lines) == restart.stale
    assert all(line["kind"] in POOLS and int(line["silent_s"]) >= 3600 for line in lines)


@pytest.mark.covers("B1", "B2")
def test_cleanup_comes_before_any_worker(restart):
    assert restart.system.cell("SELECT max(completed_at) FROM jobs WHERE status = 'failed'") <= \
        restart.system.cell("SELECT min(claimed_at) FROM defib.lease")


@pytest.mark.covers("B6")
def test_workers_start_with_expected_delays(restart):
    """Worker n takes nothing before n staggers have passed. The first claim is the start."""
    claims = restart.system.rows("SELECT j.type, extract(epoch FROM l.claimed_at)::float "
                                 "FROM defib.lease l JOIN jobs j ON j.id::text = l.job ORDER BY 2")
    first = claims[0][1]
    for kind, before in (("scrape", 0), ("crawl", 1), ("extract", 7)):
        times = [at for k, at in claims if k == kind]
        for n, at in enumerate(times):
            assert at - first > 0.1 * (before + n // 5) - 0.2, (kind, n, times)


@pytest.mark.covers("B7", "B6")
def test_burst_limit_is_respected_during_window(restart):
    assert restart.system.counts("type", "status = 'completed'") == restart.burst
    assert restart.system.counts("type", "status = 'queued'") == {
        "scrape": 7, "crawl": 30, "extract": 7}
    assert all(n <= POOLS[kind] for kind, n in restart.most.items()), restart.most


@pytest.mark.covers("B8")
def test_api_responds_while_the_backlog_is_replayed(restart):
    assert restart.done_at_first_answer < sum(restart.burst.values())
    assert restart.answers > 3


# ---- the other tests of its tasks ----


@pytest.mark.covers("B1", "B2", "B6")
def test_restart_container(either):
    """Eight jobs run when it is killed. The next one fails them, and goes on with the queue."""
    jobs = [job for kind, n in POOLS.items() for job in either.add(kind, n, payload=LONG)]
    first = either.scheduler()
    either.until_running(8)
    waiting = either.add("scrape") + either.add("extract")
    kill_container(first)
    assert either.counts() == {"running": 8, "queued": 2}

    second = either.scheduler()
    either.until("SELECT count(*) FROM jobs WHERE status = 'completed'", 2)
    assert either.ids("status = 'failed'") == sorted(jobs)
    assert either.rows("SELECT DISTINCT error FROM jobs WHERE status = 'failed'") == [(REASON,)]
    assert either.ids("status = 'completed'") == sorted(waiting)
    assert sum(int(one["running_failed"]) for one in summaries(second.log)) == 8
    # Two that start together may meet at a row; only one of them fails it.
    lines = [line for line in second.lines("job of an instance that is gone")
             if line["outcome"] == "recovered"]
    assert sorted(line["job"] for line in lines) == sorted(jobs)
    assert second.stop() == 0


@pytest.mark.covers("B3")
def test_cleanup_is_skipped_when_config_flag_is_false(either):
    either.add("crawl", 2, "running")
    either.add("scrape", 1, "cancelling")
    daemon = either.scheduler(env={"SCHEDULER_CLEANUP_STALE_ON_STARTUP": "false"})
    eventually(lambda: daemon.lines("tick"))
    assert either.counts() == {"running": 2, "cancelling": 1}
    assert summaries(daemon.log) == []
    assert daemon.stop() == 0


@pytest.mark.covers("B7")
def test_normal_operation_after_window_expires(scristill):
    scristill.add("extract", 12)
    daemon = scristill.scheduler(env={"SCHEDULER_STARTUP_WINDOW_SECONDS": "1"})
    scristill.until("SELECT count(*) FROM jobs WHERE status = 'completed'", 12)
    assert daemon.stop() == 0


# ---- what the document does not think of, and its constraints ----


@pytest.mark.covers("B4")
def test_a_second_instance_leaves_what_the_first_one_works_on(scristill):
    """But not what is past its threshold and nobody's. The first one stands still, so that it
    does not look for such rows itself."""
    working = scristill.add("crawl", 2, payload=LONG)
    first = scristill.work("jobs", "--lease", "1h")
    scristill.until_running(2)
    scristill.db.freeze(first)
    stale, = scristill.add("scrape", 1, "running", seconds=600)
    young, = scristill.add("scrape", 1, "running", seconds=60)
    second = scristill.work("jobs")
    said, = summaries(second.log)
    assert (said["running_failed"], said["live_instances"]) == ("1", "1"), second.log
    assert scristill.ids("status = 'failed'") == [stale]
    assert scristill.ids("status = 'running'") == sorted([*working, young])
    assert second.stop() == 0
    first.kill()


@pytest.mark.covers("B5")
def test_stale_threshold_detection_is_still_useful_for_runtime_recovery(scristill):
    """Each type after its own time: a warning, and the job is processed again."""
    daemon = scristill.scheduler(listen=True)
    eventually(lambda: daemon.lines("tick") and daemon.passes("jobs"))
    stale = [scristill.add(kind, 1, "running", seconds=seconds)[0]
             for kind, seconds in (("scrape", 360), ("extract", 960), ("crawl", 1860))]
    young = [scristill.add(kind, 1, "running", seconds=seconds)[0]
             for kind, seconds in (("scrape", 200), ("extract", 360), ("crawl", 960))]
    cancelled, = scristill.add("crawl", 1, "cancelling", seconds=1860)
    answer = daemon.web().post("/api/v1/watches/jobs/scan", {"fix": True})
    assert answer.status == 200, answer.text
    scristill.until("SELECT count(*) FROM jobs WHERE status = 'completed'", 3)
    assert scristill.ids("status = 'completed'") == sorted(stale)
    assert scristill.ids("status = 'running'") == sorted(young)
    row = scristill.row("jobs", ["status", "error"], f"id = '{cancelled}'")
    assert row.status == "failed" and row.error.startswith("Stale crawl job: no update for 31m")
    assert daemon.stop() == 0


@pytest.mark.covers("B10")
@pytest.mark.parametrize("how", ["command", "update"])
def test_a_running_job_can_be_asked_to_stop(either, how):
    job, = either.add("crawl", 1, payload=LONG)
    daemon = either.scheduler()
    either.until_running(1)
    if how == "command":
        ran = either("cancel", f"jobs/{job}", "--yes")
        assert ran.code == 0, ran.err
    else:
        either.rows("UPDATE jobs SET status = 'cancelling'")
    either.until("SELECT status FROM jobs", "failed")
    row = either.row("jobs", ["error", "completed_at"])
    assert row.error and row.completed_at is not None
    assert daemon.stop() == 0


@pytest.mark.covers("B9")
def test_claims_skip_what_others_have_locked(scristill):
    first, = scristill.add("extract")
    second, = scristill.add("extract")
    with contextlib.closing(scristill.db.connect()) as session:
        session.autocommit = False
        session.cursor().execute("SELECT 1 FROM jobs WHERE id = %s FOR UPDATE", (first,))
        daemon = scristill.scheduler()
        scristill.until(f"SELECT status FROM jobs WHERE id = '{second}'", "completed")
        session.rollback()
    scristill.until(f"SELECT status FROM jobs WHERE id = '{first}'", "completed")
    assert daemon.stop() == 0


def check_by_hand(said, states):
    assert "running_failed=2 cancelling_failed=1" in said["defib work jobs --drain"]
    assert said["defib ledger --watch jobs"].count(REASON) == 3
    assert dict(states) == {"completed": 1, "failed": 2, "queued": 1}


STATES = "SELECT status, count(*) FROM jobs GROUP BY 1"


def test_every_command_of_the_readme_does_what_it_says_on_sqlite(tmp_path):
    db = LiteDatabase(tmp_path / "scristill.db")
    said = type_readme("scristill", tmp_path, "sqlite", {"scristill.db": str(db.path)},
                       SCHEDULER_STARTUP_STAGGER_SECONDS="0.1")
    check_by_hand(said, db.sql(STATES))
    db.drop()


@pytest.mark.covers("B1", "B2", "B8")
def test_every_command_of_the_readme_does_what_it_says(shared_server, tmp_path,
                                                       package):  # noqa: F811
    """The program that hangs, the one that answers, and its restart; then the same by hand."""
    port = free_port()
    places = {"127.0.0.1:8000": f"127.0.0.1:{port}", "--port 8000": f"--port {port}"}
    with page_server(shared_server, "scristill", "scristill_hand") as env:
        said = type_readme("scristill", tmp_path, "postgres", places, PYTHON=package.python,
                           DEFIB_LIBRARY=str(LIBRARY), POLL_SECONDS="0.2",
                           SCHEDULER_STARTUP_STAGGER_SECONDS="0.1", **env)
        with contextlib.closing(shared_server.connect("scristill_hand")) as session:
            cursor = session.cursor()
            cursor.execute(STATES)
            check_by_hand(said, cursor.fetchall())
    summary = said["grep scheduler_startup_cleanup server.log"]
    assert "cancelling_failed=77" in summary and "extract=77" in summary
    assert "running" not in said[f"curl -sS http://127.0.0.1:{port}/jobs"]
    young, = [text for command, text in said.items() if "$JOB" in command]
    assert young.strip() == f"failed|{REASON}"


def test_the_lines_that_the_readme_praises_are_there():
    text = (EXAMPLES / "scristill" / "defib.yaml").read_text()
    praised = praised_lines("scristill")
    assert len(praised) >= 9 and [line for line in praised if line not in text] == []
