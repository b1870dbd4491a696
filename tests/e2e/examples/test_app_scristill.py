# SPDX-License-Identifier: Apache-2.0
"""Scristill's own program (B): eight workers on the event loop of the API, and restarts that leave
jobs `running`. examples/scristill/README.md lists the document's verification, step by step, with
the tests that replay it.
"""

import datetime
import re
import signal

import pytest

from harness.databases import PgDatabase, stopped
from harness.program import Program
from harness.python_apps import App
from harness.python_package import Scripts, package, script  # noqa: F401
from harness.scristill import ANSWER_S, FAKE_STALE_JOBS, REASON
from harness.waiting import NotYet, eventually

pytestmark = pytest.mark.plain
QUICK = {"SCHEDULER_STARTUP_STAGGER_SECONDS": "0.01", "POLL_SECONDS": "0.05",
         "JOB_SECONDS": "0.001"}
WAIT = '{"seconds": 3600}'


class Scheduler(App):
    def __init__(self, *args):
        super().__init__(*args)
        self.db.sql("INSERT INTO projects (name) VALUES ('one')")

    def add(self, count, kind, status="queued", seconds=60, payload="{}"):
        return [str(row[0]) for row in self.db.sql(
            "INSERT INTO jobs (project_id, type, status, payload, updated_at) SELECT (SELECT id "
            "FROM projects), %s, %s, %s, now() - %s * interval '1 second' "
            "FROM generate_series(1, %s) RETURNING id", kind, status, payload, seconds, count)]

    def stale(self):
        """The 231 jobs of the document, two of them as its verification types them."""
        self.db.sql(FAKE_STALE_JOBS)
        for count, kind, status in ((59, "scrape", "running"), (93, "crawl", "running"),
                                    (77, "extract", "cancelling")):
            self.add(count, kind, status, seconds=3600)

    def counts(self):
        return dict(self.db.sql("SELECT status, count(*) FROM jobs GROUP BY status"))

    def errors(self):
        return {row[0] for row in self.db.sql("SELECT error FROM jobs WHERE status = 'failed'")}

    def until(self, **counts):
        eventually(lambda: self.counts() == counts)


@pytest.fixture
def scheduler(pg, with_tables, defib, script):
    return Scheduler("scristill", pg, defib, script)


# ---- before

def test_before_the_stale_jobs_are_run_again_and_the_api_hangs(scheduler):
    scheduler.stale()
    server = scheduler.start(wait=False, STARTUP="before", JOB_SECONDS="6")
    # Eight workers keep the loop busy at once: nothing is answered within the five seconds.
    eventually(lambda: scheduler.counts().get("completed", 0) >= 1)
    with pytest.raises(OSError, match="timed out"):
        scheduler.ask("GET", "/health", timeout=ANSWER_S)
    assert server.process.poll() is None
    assert "failed" not in scheduler.counts()


# ---- after: the restart of the 27th of February

class Restart:
    """231 stale jobs and a backlog of 84; the API is asked all the time."""

    stagger_s = 0.2

    def __init__(self, server, package, folder):
        self.scripts = Scripts(package, folder / "python")
        program = Program(folder)
        self.system = system = Scheduler("scristill", PgDatabase(server, program), program,
                                         self.scripts)
        system.stale()
        self.left = {row[0] for row in system.db.sql("SELECT id::text FROM jobs")}
        for kind, count in (("scrape", 12), ("crawl", 60), ("extract", 12)):
            system.add(count, kind)
        self.server = system.start(JOB_SECONDS="0.01", POLL_SECONDS="0.05",
                                   SCHEDULER_STARTUP_STAGGER_SECONDS=str(self.stagger_s))
        self.answers = []  # how many jobs were done at each
        eventually(self.replayed)

    def replayed(self):
        status, counts, _ = self.system.ask("GET", "/jobs")
        assert status == 200
        self.answers.append(counts.get("completed", 0))
        return counts.get("completed", 0) >= 40

    def times(self, line):
        """When the log says this, with what it captures."""
        found = re.findall(rf"^(\S+ \S+) \w+ \w+ {line}", self.server.log, re.M)
        return [(datetime.datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").timestamp(), what)
                for at, what in found]

    def starts(self):
        """When each job began, in the order of the log, with its type."""
        return self.times(r"job_started id=\S+ type=(\w+)$")

    def close(self):
        self.scripts.close()
        self.system.db.drop()


@pytest.fixture(scope="module")
def restart(shared_server, package, tmp_path_factory):
    own = Restart(shared_server, package, tmp_path_factory.mktemp("restart"))
    yield own
    own.close()


@pytest.mark.covers("B1", "B9")
def test_after_running_and_cancelling_jobs_are_failed_and_queued_ones_are_not(restart):
    failed = restart.system.db.sql("SELECT id::text, error, completed_at IS NOT NULL FROM jobs "
                                   "WHERE status = 'failed'")
    assert {row[0] for row in failed} == restart.left and len(failed) == 231
    assert {row[1:] for row in failed} == {(REASON, True)}
    assert restart.system.counts() == {"failed": 231, "completed": 40, "queued": 44}


@pytest.mark.covers("B2")
def test_after_the_start_logs_one_summary_and_a_line_for_each_job(restart):
    log = restart.server.log
    summary, = re.findall(r"scheduler_startup_cleanup.*", log)
    assert " running_failed=154 cancelling_failed=77 " in summary
    assert {"scrape=60", "crawl=94", "extract=77"} <= set(summary.split())
    lines = re.findall(r'job of an instance that is gone"? .*', log)
    assert {re.search(r"job=(\S+)", line)[1] for line in lines} == restart.left
    assert all(re.search(r"kind=\w+ .*silent_s=\d{4}", line) for line in lines), lines[0]


@pytest.mark.covers("B1")
def test_after_the_cleanup_comes_before_any_worker(restart):
    log = restart.server.log
    assert log.index("scheduler_startup_cleanup") < log.index("job_started")


@pytest.mark.covers("B6")
def test_after_workers_start_one_after_another(restart):
    """Before the n-th stagger after the clean-up, n workers have taken at most five jobs each."""
    (cleaned, _), = restart.times("(scheduler_startup_cleanup)")
    starts = restart.starts()
    for n in range(1, 8):
        taken = [kind for at, kind in starts if at < cleaned + n * restart.stagger_s]
        assert len(taken) <= 5 * n, (n, starts)
    assert starts[0][1] == "scrape"
    # The last worker is the only one for extracts.
    assert min(at for at, kind in starts if kind == "extract") >= cleaned + 7 * restart.stagger_s


@pytest.mark.covers("B7")
def test_after_there_is_no_flood_of_jobs(restart):
    """Within the first minute, 1, 6 and 1 workers take five jobs each."""
    kinds = [kind for _, kind in restart.starts()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "scrape": 5, "crawl": 30, "extract": 5}


@pytest.mark.covers("B8")
def test_after_the_api_answers_while_the_backlog_is_replayed(restart):
    assert restart.answers[0] < 40
    assert len([done for done in restart.answers if done < 40]) > 1


@pytest.mark.covers("B7")
def test_after_the_window_has_passed_there_is_no_limit(scheduler):
    scheduler.add(12, "extract")
    server = scheduler.start(**QUICK, SCHEDULER_STARTUP_WINDOW_SECONDS="1")
    scheduler.until(completed=12)
    assert server.stop() == 0, server.log


@pytest.mark.covers("B3")
def test_after_the_switch_turns_the_cleanup_off(scheduler):
    scheduler.add(2, "crawl", "running")
    scheduler.add(1, "scrape", "cancelling")
    scheduler.add(1, "extract")
    server = scheduler.start(**QUICK, SCHEDULER_CLEANUP_STALE_ON_STARTUP="false")
    scheduler.until(running=2, cancelling=1, completed=1)
    assert "scheduler_startup_cleanup" not in server.log


# ---- after: instances that end

def eight_jobs(scheduler, **env):
    """One instance with a job in every worker."""
    for kind, count in (("scrape", 1), ("crawl", 6), ("extract", 1)):
        scheduler.add(count, kind, payload=WAIT)
    server = scheduler.start(**QUICK, **env)
    scheduler.until(running=8)
    return server


@pytest.mark.covers("B1", "B4", "B6")
def test_after_a_kill_no_young_row_stays_running(scheduler):
    eight_jobs(scheduler).kill()
    scheduler.add(1, "scrape")
    scheduler.start(**QUICK)
    scheduler.until(failed=8, completed=1)
    assert scheduler.errors() == {REASON}


@pytest.mark.covers("B1")
def test_after_a_restart_no_young_row_stays_running(scheduler):
    first = eight_jobs(scheduler)
    assert first.stop() == 0, first.log
    second = scheduler.start(**QUICK)
    scheduler.until(failed=8)
    assert "running_failed=8" in second.log


@pytest.mark.covers("B1")
def test_after_the_kernel_killed_it_for_its_memory_no_row_stays_running(scheduler):
    first = scheduler.start(**QUICK)
    scheduler.kill_by_memory(
        first, lambda: scheduler.add(1, "crawl", payload='{"megabytes": 600}'))
    assert scheduler.counts() == {"running": 1}
    scheduler.start(**QUICK)
    scheduler.until(failed=1)


@pytest.mark.covers("B4")
def test_after_a_second_instance_leaves_the_jobs_of_the_first(scheduler):
    first = eight_jobs(scheduler)
    stale, = scheduler.add(1, "scrape", "running", seconds=600)
    port = scheduler.port
    second = scheduler.start(**QUICK)
    eventually(lambda: scheduler.counts().get("failed") == 1 or
               scheduler.counts().get("completed") == 1)
    assert scheduler.counts()["running"] == 8 and first.process.poll() is None, second.log
    assert scheduler.cell("SELECT status FROM jobs WHERE id::text = %s", stale) != "running"
    scheduler.port = port
    assert scheduler.answers()


@pytest.mark.covers("B4", "F2")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_after_an_instance_ends_while_others_live_its_rows_are_freed(scheduler, how):
    """Long before their threshold, and those of the others stay theirs."""
    db = scheduler.db
    its_own, = scheduler.add(1, "crawl", payload=WAIT)
    survivor = scheduler.start(**QUICK)
    scheduler.until(running=1)
    eventually(lambda: scheduler.cell("SELECT count(*) FROM defib.lease WHERE owner > 0") == 1)
    ends = scheduler.start(**QUICK, SCHEDULER_STARTUP_BURST_LIMIT="100")
    taken = scheduler.add(2, "scrape", payload=WAIT)
    eventually(lambda: scheduler.cell("SELECT count(DISTINCT owner) FROM defib.lease "
                                      "WHERE owner > 0") == 2 and
               scheduler.counts() == {"running": 3})
    lost = [job for job in taken if job in ends.log]
    assert len(lost) == 1, "each instance scrapes one"
    getattr(ends, how)()
    eventually(lambda: db.sql("SELECT job, event, evidence->>'law' FROM defib.ledger") ==
               [(lost[0], "REQUEUED", "owner-gone")])
    # The survivor has no free worker for it.
    assert scheduler.counts() == {"running": 2, "queued": 1}, survivor.log
    assert scheduler.cell("SELECT status FROM jobs WHERE id::text = %s", its_own) == "running"


def freeze_between_transactions(db, server):
    """A row that it had locked would be left alone: nobody knows what it is about to write."""
    def frozen():
        server.signal(signal.SIGSTOP)
        eventually(lambda: stopped(server.process.pid))
        if not db.sql("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                      "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"):
            return True
        server.signal(signal.SIGCONT)
        return False
    eventually(frozen)


@pytest.mark.covers("F3")
def test_after_a_late_result_of_a_frozen_instance_is_refused(scheduler):
    """It was stopped for so long that another one failed its job."""
    scheduler.add(1, "crawl", payload='{"seconds": 3}')
    first = scheduler.start(**QUICK)
    scheduler.until(running=1)
    freeze_between_transactions(scheduler.db, first)
    scheduler.db.sql("UPDATE defib.worker SET state = 'dead', cause = 'test'")
    scheduler.start(**QUICK)
    scheduler.until(failed=1)
    first.signal(signal.SIGCONT)
    eventually(lambda: "too late" in first.log or NotYet(first.log))
    assert scheduler.counts() == {"failed": 1}


def test_after_it_needs_no_other_privileges_than_init_prints(scheduler, defib):
    scheduler.add(2, "crawl", "running")
    scheduler.add(1, "scrape")
    with scheduler.as_own_role(defib, "jobs, projects"):
        server = scheduler.start(**QUICK)
        scheduler.until(failed=2, completed=1)
        assert server.stop() == 0, server.log
        assert "permission denied" not in server.log


# ---- after: at run time

@pytest.mark.covers("B5")
def test_after_a_job_that_falls_silent_at_run_time_is_processed_again(scheduler):
    """Each type after its own time, with a warning; one that was being cancelled is failed."""
    server = scheduler.start(**QUICK)
    for kind, seconds in (("scrape", 360), ("extract", 960), ("crawl", 1860)):
        scheduler.add(1, kind, "running", seconds=seconds)
        scheduler.add(1, kind, "running", seconds=seconds - 120)
    scheduler.add(1, "crawl", "cancelling", seconds=1860)
    scheduler.until(running=3, completed=3, failed=1)
    assert scheduler.errors().pop().startswith("Stale crawl job: no update for 31m")
    assert len(re.findall(r'WARNING defib .*job of a lost worker.*', server.log)) == 4


@pytest.mark.covers("B10")
def test_after_a_running_job_can_be_asked_to_stop(scheduler):
    job, = scheduler.add(1, "crawl", payload=WAIT)
    scheduler.start(**QUICK)
    scheduler.until(running=1)
    assert scheduler.ask("POST", f"/jobs/{job}/cancel")[0] == 202
    scheduler.until(cancelled=1)
    assert scheduler.ask("POST", f"/jobs/{job}/cancel")[0] == 404
