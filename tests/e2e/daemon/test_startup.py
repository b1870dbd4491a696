# SPDX-License-Identifier: Apache-2.0
"""The calm start: cleanup after dead instances happens before any job is claimed (system B)."""

import datetime
import re
import signal
import time

import pytest

from harness.daemon import Daemon
from harness.example_systems import age
from harness.queue_workers import up_for
from harness.startup import IDLE, System
from harness.waiting import eventually

REASON = "Container restart: job was running when previous instance stopped"
STARTUP = f'    startup:\n      enabled: true\n      do: fail\n      reason: "{REASON}"\n'
BURST = "      burst:\n        limit: 5\n        window: 60s\n"
HELD = 'echo $$ >>began; await go'


@pytest.fixture
def scristill(db, defib, with_tables):
    own = System("scristill", db, defib)
    own.insert("projects", name="p")
    yield own
    own.close()


def summaries(worker):
    return re.findall(r"scheduler_startup_cleanup .*", worker.log)


@pytest.mark.covers("B1", "B2", "B9")
def test_231_jobs_that_a_dead_instance_left_become_failed_with_the_reason(scristill):
    """None is past its threshold: that they run at a start is the only evidence."""
    scristill.change(*IDLE)
    scristill.add("running", 100, "scrape")
    scristill.add("running", 54, "crawl")
    scristill.add("cancelling", 77, "crawl")
    waiting = scristill.add("queued", 5)
    before = scristill.rows("SELECT * FROM jobs WHERE status = 'queued' ORDER BY id")
    worker = scristill.start()
    assert scristill.counts() == {"failed": 231, "queued": 5}
    assert scristill.rows("SELECT * FROM jobs WHERE status = 'queued' ORDER BY id") == before
    assert scristill.ids("status = 'queued'") == waiting
    assert scristill.rows("SELECT DISTINCT error FROM jobs WHERE status = 'failed'") == [(REASON,)]
    newest = f"SELECT max({age(scristill.db, 'completed_at')}) FROM jobs WHERE status = 'failed'"
    assert scristill.cell(newest) < 60
    line, = summaries(worker)
    assert line.startswith("scheduler_startup_cleanup running_failed=154 cancelling_failed=77 ")
    assert "scrape=100" in line and "crawl=131" in line


@pytest.mark.covers("B2")
def test_each_is_in_the_log_with_its_type_and_how_long_it_had_run(scristill):
    scristill.change(*IDLE)
    job, = scristill.add("running", kind="extract", seconds=120)
    worker = scristill.start()
    line, = re.findall(r"job of an instance that is gone.*", worker.log)
    assert f"job={job}" in line and "kind=extract" in line and "state=running" in line
    # The table does not say when it began.
    assert 120 <= int(re.search(r"silent_s=(\d+)", line)[1]) < 180 and "ran_s" not in line
    assert scristill.entries() == [("FAILED", "startup", "startup", REASON)]


@pytest.mark.covers("B2")
def test_it_had_run_since_its_start_where_the_table_knows_that(scristill):
    scristill.change(*IDLE, ("alive_at: updated_at", "alive_at: updated_at\n    "
                             "started_at: created_at\n    overdue_after: 1d"))
    scristill.add("running", seconds=120)
    scristill.rows(f"UPDATE jobs SET created_at = {scristill.ago(7200)[1]}")
    line, = re.findall(r"job of an instance that is gone.*", scristill.start().log)
    assert 7200 <= int(re.search(r"ran_s=(\d+)", line)[1]) < 7260 and "silent_s" not in line


@pytest.mark.covers("B2")
def test_a_start_that_finds_nothing_says_so(scristill):
    scristill.change(*IDLE)
    scristill.add("queued")
    line, = summaries(scristill.start())
    assert line.startswith("scheduler_startup_cleanup running_failed=0 cancelling_failed=0")


@pytest.mark.covers("B3")
@pytest.mark.parametrize("off", ["option", "switch"])
def test_a_switch_turns_it_off(scristill, off):
    scristill.change(*IDLE, *([(STARTUP, "    startup: off\n")] if off == "option" else []))
    scristill.add("running", 3)
    worker = scristill.start(*(["--no-startup"] if off == "switch" else []))
    assert scristill.counts() == {"running": 3}
    assert summaries(worker) == []


def test_by_default_the_rules_of_the_watch_decide(scristill):
    scristill.change(*IDLE, (STARTUP, ""))
    gone = scristill.instance("gone", state="left")
    for job in scristill.add("running", 2) + scristill.add("cancelling", 1):
        scristill.lease(job, gone)
    scristill.add("running", 1)  # never had a lease: a worker that knows nothing of defib may have it
    worker = scristill.start()
    assert scristill.counts() == {"queued": 2, "failed": 1, "running": 1}
    line, = summaries(worker)
    assert "running_requeued=2" in line and "cancelling_failed=1" in line


@pytest.mark.covers("B4")
def test_while_others_live_only_the_dead_ones_rows_are_touched(scristill):
    scristill.change(*IDLE)
    owners = {name: scristill.instance(name, state) for name, state in
              (("one", "alive"), ("second", "alive"), ("gone", "dead"))}
    jobs = {name: scristill.add("running")[0] for name in owners}
    for name, owner in owners.items():
        scristill.lease(jobs[name], owner)
    unowned, = scristill.add("running")
    stale, = scristill.add("running", seconds=1900)
    worker = scristill.start()
    assert scristill.ids("status = 'failed'") == sorted([jobs["gone"], stale])
    assert scristill.ids("status = 'running'") == sorted([jobs["one"], jobs["second"], unowned])
    line, = summaries(worker)
    assert "running_failed=2 cancelling_failed=0 watch=jobs live_instances=2" in line


@pytest.mark.covers("B4")
def test_instances_of_other_watches_are_none_of_this_one(scristill):
    scristill.change(*IDLE)
    scristill.instance("mailer", serves="queue\nmails")
    scristill.add("running", 2)
    scristill.start()
    assert scristill.counts() == {"failed": 2}


@pytest.mark.covers("B4")
def test_an_instance_of_which_nobody_knows_what_it_serves_counts_everywhere(scristill):
    scristill.change(*IDLE)
    scristill.instance("foreign", serves=None)
    scristill.add("running", 2)
    scristill.start()
    assert scristill.counts() == {"running": 2}


@pytest.mark.covers("B4")
def test_instances_whose_leases_are_over_do_not_live(scristill):
    scristill.change(*IDLE)
    owner = scristill.instance("silent", lease_s=-600, lease_ms=1)
    job, = scristill.add("running")
    scristill.lease(job, owner)
    up_for(scristill.db, 11)
    scristill.start()
    assert scristill.counts() == {"failed": 1}


@pytest.mark.covers("B4")
def test_after_a_restart_of_the_server_leases_that_are_over_prove_nothing(server, defib):
    from harness.databases import PgDatabase
    own = System("scristill", PgDatabase(server), defib)
    try:
        own.change(*IDLE)
        own.insert("projects", name="p")
        owner = own.instance("silent", lease_s=-600)
        job, = own.add("running")
        own.lease(job, owner)
        worker = own.start("--lease", "900ms")
        line, = summaries(worker)
        assert "live_instances=1" in line
        # Neither by the start-up nor by what the worker sees of its fellows, round after round.
        beats = set()
        eventually(lambda: beats.add(own.cell("SELECT max(renewed_at) FROM defib.worker WHERE "
                                              "name <> 'silent'")) or len(beats) >= 15)
        assert own.counts() == {"running": 1}
        assert own.cell("SELECT state FROM defib.worker WHERE name = 'silent'") == "alive"
    finally:
        own.close()


@pytest.mark.covers("B1", "B4")
def test_a_killed_worker_of_this_host_is_gone_although_its_lease_is_not_over(scristill):
    scristill.change(("stagger: 1s", "stagger: 0s"), ("poll: 5s", "poll: 100ms"))
    scristill.add("queued", 6)
    first = scristill.start("--lease", "1h", run=HELD)
    scristill.until_lines("began", 6)
    first.kill()
    scristill.change(("poll: 100ms", "poll: 1h\n      startup_tick: false"))
    line, = summaries(scristill.start())
    assert "running_failed=6 cancelling_failed=0" in line
    assert scristill.counts() == {"failed": 6}
    assert scristill.rows(f"SELECT state, cause FROM {scristill.own('worker')} ORDER BY id")[0] \
        == ("dead", "exit seen")


@pytest.mark.covers("B4")
def test_a_second_instance_leaves_the_first_ones_jobs_alone(scristill):
    scristill.change(("stagger: 1s", "stagger: 0s"), ("poll: 5s", "poll: 100ms"))
    scristill.add("queued", 6)
    scristill.start("--lease", "1h", run=HELD)
    scristill.until_lines("began", 6)
    assert "running_failed=0" in summaries(scristill.start())[0]
    assert scristill.counts() == {"running": 6}


@pytest.mark.covers("B4")
def test_a_stopped_instance_of_this_host_is_not_gone(scristill):
    """Its lease has expired, its process exists: it may continue at any moment."""
    scristill.change(*IDLE)
    first = scristill.start("--lease", "1s")
    scristill.db.freeze(first)
    over = "expires_at < now()" if scristill.db.engine == "postgres" else \
        "expires_at < (julianday('now') - 2440587.5) * 86400000"
    eventually(lambda: scristill.cell(f"SELECT {over} FROM {scristill.own('worker')}"))
    scristill.add("running", 2)
    assert "live_instances=1" in summaries(scristill.start())[0]
    assert scristill.counts() == {"running": 2}
    first.signal(signal.SIGCONT)


@pytest.mark.covers("B4")
def test_of_two_that_start_together_one_cleans_up(scristill):
    scristill.change(*IDLE)
    scristill.add("running", 50)
    workers = [scristill.start("--name", f"w{n}", wait=False) for n in range(2)]
    for worker in workers:
        worker.wait_log("worker started")
    assert scristill.counts() == {"failed": 50}
    assert len(scristill.entries()) == 50


def test_a_row_that_somebody_has_locked_is_left_alone(scristill):
    if scristill.db.engine == "sqlite":
        pytest.skip("SQLite locks the whole database")
    scristill.change(*IDLE)
    jobs = scristill.add("running", 3)
    session = scristill.db.connect()
    session.autocommit = False
    session.cursor().execute("SELECT 1 FROM jobs WHERE id = %s FOR UPDATE", (jobs[0],))
    line, = summaries(scristill.start())
    session.rollback()
    session.close()
    assert scristill.counts() == {"failed": 2, "running": 1}
    assert "running_failed=2" in line and "locked=1" in line


# Of the hold's words, as where a watch has none.
UNWORDED = (("    hold: status = 'failed', error = :reason, completed_at = :now, updated_at = :now\n",
             ""),
            ("    release: status = 'queued', error = NULL, completed_at = NULL, "
             "updated_at = :now\n", ""))


def test_what_a_person_has_on_hold_is_left_alone(scristill):
    scristill.change(*IDLE, *UNWORDED)
    job, = scristill.add("running", seconds=1900)
    assert scristill("hold", f"jobs/{job}", "--yes").code == 0
    assert "running_failed=0" in summaries(scristill.start())[0]
    assert scristill.counts() == {"running": 1}


@pytest.mark.covers("B1")
def test_no_row_of_a_gone_instance_is_left_running_by_a_hold_of_automation(scristill):
    scristill.change(*IDLE, *UNWORDED,
                     ("remedies: [{when: \"status = 'cancelling'\", do: fail}, {do: requeue}]",
                      "remedies: [{do: hold}]"))
    scristill.add("running", seconds=1900)
    assert scristill("scan", "--fix", "--json").json["held"] == 1
    assert "running_failed=1" in summaries(scristill.start())[0]
    assert scristill.counts() == {"failed": 1}


@pytest.mark.covers("B1")
def test_no_row_of_a_gone_instance_is_left_running_by_a_budget(scristill):
    """Stuck twice before, which is all that its crash budget allows."""
    scristill.change(*IDLE, *UNWORDED, ("do: fail\n      reason", "do: requeue\n      reason"))
    scristill.add("running", seconds=1900)
    for _ in range(2):
        assert scristill("scan", "--fix", "--json").json["recovered"] == 1
        scristill.rows(f"UPDATE jobs SET status = 'running', updated_at = {scristill.ago(1900)[1]}")
    scristill.start()
    assert scristill.counts() == {"queued": 1}


@pytest.mark.covers("B1", "F8")
def test_rows_that_a_start_gave_back_are_not_crashes_of_their_jobs(scristill):
    """Three restarts are three restarts: the job is not held as one that kills its workers."""
    scristill.change(*IDLE, ("do: fail\n      reason", "do: requeue\n      reason"))
    scristill.add("running", seconds=1)
    for _ in range(3):
        scristill.start().stop()
        assert scristill.counts() == {"queued": 1}
        scristill.db.sql("UPDATE jobs SET status = 'running'")
    assert [rule for _, rule, _, _ in scristill.entries()] == ["startup"] * 3
    scristill.db.sql("UPDATE jobs SET updated_at = %s", "2020-01-01 00:00:00")
    assert scristill("scan", "--fix", "--json").json["held"] == 0
    assert scristill.counts() == {"queued": 1}


# ---- the order after it ----

@pytest.mark.covers("B6", "B7")
def test_workers_start_one_by_one_each_under_its_burst_limit(scristill):
    """From the claims' own times: worker n takes nothing before n staggers have passed."""
    stagger, limit = 0.25, 2
    scristill.change(("stagger: 1s", "stagger: 250ms"), ("poll: 5s", "poll: 20ms"),
                     ("limit: 5", f"limit: {limit}"), ("window: 60s", "window: 1h"))
    for kind in ("scrape", "crawl", "extract"):
        scristill.add("queued", 20, kind)
    began = time.time()
    scristill.start(run="true")
    slots = {"scrape": [0], "crawl": [1, 2, 3, 4, 5, 6], "extract": [7]}
    scristill.until("SELECT count(*) FROM jobs WHERE status = 'completed'", limit * 8)
    job = "CAST(j.id AS text)" if scristill.db.engine == "postgres" else "j.id"
    rows = scristill.rows(f"SELECT j.type, l.claimed_at FROM {scristill.own('lease')} l "
                          f"JOIN jobs j ON {job} = l.job ORDER BY l.claimed_at")
    times = {kind: [at.timestamp() if isinstance(at, datetime.datetime) else at / 1000
                    for k, at in rows if k == kind] for kind in slots}
    for kind, mine in slots.items():
        assert len(times[kind]) == limit * len(mine)
        for n, at in enumerate(times[kind]):
            # The n-th claim of a pool can only be its worker n / limit's, at the earliest; its
            # start is some time after ours. SQLite's clock has whole milliseconds.
            assert at - began > mine[n // limit] * stagger - 0.01, (kind, n, times)


@pytest.mark.covers("B7")
def test_without_these_options_nothing_waits_and_nothing_is_limited(scristill):
    scristill.change(("      stagger: 1s\n", ""), (BURST, ""),
                     ("poll: 5s", "poll: 1h"))
    scristill.add("queued", 12, "extract")
    scristill.add("queued", 12, "scrape")
    scristill.drain("jobs", run="true")
    assert scristill.counts() == {"completed": 24}


# ---- the daemon ----

def daemon(scristill, until):
    log = scristill.dir / "daemon.log"
    with open(log, "wb") as out:
        process = scristill.defib.start("daemon", "-c", scristill.config, env=scristill.env,
                                        stdout=out, stderr=out)
    try:
        eventually(lambda: until in log.read_text() or process.poll() is not None)
    finally:
        process.terminate()
        process.wait()
    return log.read_text()


@pytest.mark.covers("B4")
def test_a_daemon_takes_all_where_the_workers_that_registered_are_gone(scristill):
    scristill.instance("gone", "dead")
    scristill.add("running", 3)
    scristill.add("queued", 2)
    said = daemon(scristill, "scheduler_startup_cleanup")
    assert "running_failed=3 cancelling_failed=0" in said
    assert scristill.counts() == {"failed": 3, "queued": 2}


@pytest.mark.covers("B1", "B4")
def test_a_daemon_that_follows_a_killed_one_at_once_starts_when_its_lease_is_over(scristill):
    """Until then the dead one leads. It is a start all the same: nothing is given back."""
    gone = scristill.instance("gone", "dead")
    for job in scristill.add("running", 3):
        scristill.lease(job, gone)
    leads = Daemon(scristill.defib, scristill.config.read_text(), env=scristill.env)
    scristill.workers.append(leads)
    eventually(lambda: scristill.counts() == {"failed": 3})
    leads.kill()
    for job in scristill.add("running", 2):
        scristill.lease(job, gone)
    said = daemon(scristill, "running_failed=2")
    assert "running_failed=2 cancelling_failed=0" in said
    assert scristill.counts() == {"failed": 5}


@pytest.mark.covers("B4")
def test_a_daemon_knows_nothing_of_workers_that_never_register(scristill):
    """They may be running: only jobs past their threshold were left behind."""
    scristill.add("running", 3)
    stale, = scristill.add("running", seconds=1900)
    up_for(scristill.db, 31)
    said = daemon(scristill, "scheduler_startup_cleanup")
    assert "running_failed=1 cancelling_failed=0" in said
    assert scristill.ids("status = 'failed'") == [stale]
