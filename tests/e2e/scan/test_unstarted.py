# SPDX-License-Identifier: Apache-2.0
"""Work that does not start (F14): rows that are due and that nobody claims, by one scan."""

import pytest

from harness.example_systems import ago, ledger
from harness.waiting import eventually

pytestmark = pytest.mark.covers("F14")
TIME = {"postgres": "timestamptz", "sqlite": "text"}
WATCH = """
watches:
  - name: jobs
    table: jobs
    key: id
    kind: kind
    owner: owner
    running: state = 'running'
    started_at: started
    overdue_after: 2h
    waiting: state = 'queued'
    due_at: due
    late_after: 10m
    requeue: state = 'queued', due = :now, note = :reason
    fail: state = 'failed', note = :reason
"""
REQUEUED = WATCH + "    remedies: [{verdict: unstarted, do: requeue}, {do: requeue}]\n"
FAILED = WATCH + "    remedies: [{verdict: unstarted, do: fail}, {do: requeue}]\n"
HOUR = 3600


def at(db, seconds):
    """SQL for so many seconds ago, or ahead if below 0."""
    ahead = {"postgres": f"now() + interval '{-seconds} seconds'",
             "sqlite": f"strftime('%Y-%m-%d %H:%M:%f', 'now', '+{-seconds} seconds')"}
    return ago(db, seconds) if seconds >= 0 else ahead[db.engine]


@pytest.fixture
def jobs(db):
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, kind text, state text NOT NULL, owner text,"
           f" note text, due {TIME[db.engine]}, started {TIME[db.engine]})")
    return db


def add(db, key, due=None, kind="mail", state="queued", started=None):
    due = "NULL" if due is None else at(db, due)
    started = "NULL" if started is None else ago(db, started)
    owner = "'w1'" if state == "running" else "NULL"
    db.sql(f"INSERT INTO jobs (id, kind, state, owner, due, started)"
           f" VALUES (%s, %s, %s, {owner}, {due}, {started})", key, kind, state)


def scan(db, defib, text=WATCH, *args):
    ran = defib("scan", "--json", *args, db=db, config=text)
    watch, = ran.json["watches"]
    assert watch["error"] is None, watch["error"]
    return watch


def states(db):
    return dict(db.sql("SELECT id, state FROM jobs ORDER BY id"))


def test_a_row_that_is_due_and_that_nobody_claims_is_unstarted(jobs, defib):
    add(jobs, 1, due=3 * HOUR)
    add(jobs, 2, due=HOUR)
    watch = scan(jobs, defib)
    assert [(job["key"], job["verdict"], job["remedy"], job["outcome"]) for job in watch["jobs"]] \
        == [("1", "unstarted", "report", "left"), ("2", "unstarted", "report", "left")]
    first = watch["jobs"][0]["evidence"]
    assert first["law"] == "unstarted" and first["limit_s"] == 600 and first["due_at"]
    assert 3 * HOUR <= first["measured_s"] < 3 * HOUR + 600
    waiting = watch["waiting"]
    assert (waiting["late"], waiting["unstarted"], waiting["at_least"]) == (2, 2, False)
    assert (waiting["kind"], waiting["last_claim"], waiting["running"]) == ("mail", None, 0)
    assert 3 * HOUR <= waiting["waited_s"] < 3 * HOUR + 600
    assert (watch["found"], watch["left"]) == (0, 0), "it is a number of its own"


def test_the_scan_says_why_in_words_and_by_its_exit_code(jobs, defib):
    add(jobs, 1, due=3 * HOUR)
    add(jobs, 2, kind="mail", state="done", started=2 * HOUR)
    ran = defib("scan", db=jobs, config=WATCH)
    assert ran.code == 1
    assert ("1 job is late, the oldest has waited 3h (limit 10m); "
            "nobody has claimed a job of kind mail since ") in ran.out
    assert "unstarted  has waited 3h (limit 10m)  -> report" in ran.out
    assert "silent" not in ran.out


def test_a_row_is_late_after_its_limit_and_not_before(jobs, defib):
    add(jobs, 1, due=590)
    assert scan(jobs, defib)["waiting"]["late"] == 0
    add(jobs, 2, due=601)
    assert [job["key"] for job in scan(jobs, defib)["jobs"]] == ["2"]


def test_a_row_that_is_not_due_yet_or_never_is_left_alone(jobs, defib):
    add(jobs, 1, due=-HOUR)
    add(jobs, 2, due=None)
    watch = scan(jobs, defib)
    assert watch["jobs"] == [] and watch["waiting"]["late"] == 0
    assert watch["waiting"]["says"] is None


def test_a_deep_queue_before_busy_workers_is_not_stuck(jobs, defib):
    """A job was claimed after the oldest one was due: workers are at work."""
    for key in range(1, 30):
        add(jobs, key, due=3 * HOUR)
    add(jobs, 100, state="running", started=1.5 * HOUR)
    watch = scan(jobs, defib, REQUEUED, "--fix")
    assert watch["jobs"] == []
    assert (watch["waiting"]["late"], watch["waiting"]["unstarted"]) == (29, 0)
    assert "29 jobs are late" in watch["waiting"]["says"]
    assert "jobs are being started" in watch["waiting"]["says"]
    assert defib("scan", db=jobs, config=WATCH).code == 0


def test_short_jobs_that_ended_show_that_workers_are_at_work(jobs, defib):
    add(jobs, 1, due=HOUR)
    add(jobs, 2, state="done", started=60)
    assert scan(jobs, defib)["jobs"] == []
    jobs.sql(f"UPDATE jobs SET started = {ago(jobs, 1000)} WHERE id = 2")
    watch = scan(jobs, defib)
    assert [job["key"] for job in watch["jobs"]] == ["1"]
    assert watch["waiting"]["last_claim"]


def test_a_claim_before_the_oldest_was_due_proves_nothing(jobs, defib):
    add(jobs, 1, due=HOUR)
    add(jobs, 2, state="running", started=1.5 * HOUR)
    watch = scan(jobs, defib)
    assert [job["key"] for job in watch["jobs"]] == ["1"]
    assert (watch["waiting"]["running"], watch["waiting"]["owners"]) == (1, 1)
    assert "1 job runs on 1 worker" in watch["waiting"]["says"]


def test_a_running_job_that_is_itself_stuck_is_no_worker_at_work(jobs, defib):
    add(jobs, 1, due=5 * HOUR)
    add(jobs, 2, state="running", started=4 * HOUR)      # overdue after 2h
    watch = scan(jobs, defib)
    assert {job["key"]: job["verdict"] for job in watch["jobs"]} == \
        {"1": "unstarted", "2": "overdue"}
    assert watch["found"] == 1


def test_each_kind_is_judged_by_itself(jobs, defib):
    add(jobs, 1, due=HOUR, kind="mail")
    add(jobs, 2, due=HOUR, kind="report")
    add(jobs, 3, state="running", started=60, kind="mail")
    watch = scan(jobs, defib)
    assert [job["key"] for job in watch["jobs"]] == ["2"]
    assert (watch["waiting"]["late"], watch["waiting"]["unstarted"]) == (2, 1)
    assert "of kind report" in watch["waiting"]["says"]


def test_limits_may_be_by_kind(jobs, defib):
    text = WATCH.replace("late_after: 10m", "late_after: {report: 2h, default: 10m}")
    add(jobs, 1, due=HOUR, kind="mail")
    add(jobs, 2, due=HOUR, kind="report")
    assert [job["key"] for job in scan(jobs, defib, text)["jobs"]] == ["1"]


def test_a_rule_may_requeue_it_and_the_ledger_has_each_row(jobs, defib):
    add(jobs, 1, due=HOUR)
    watch = scan(jobs, defib, REQUEUED, "--fix")
    job, = watch["jobs"]
    assert (job["verdict"], job["remedy"], job["outcome"]) == ("unstarted", "requeue", "recovered")
    assert (watch["found"], watch["recovered"]) == (1, 1)
    (note,), = jobs.sql("SELECT note FROM jobs")
    assert note == "Recovered by defib: unstarted for 1h"
    assert [tuple(row) for row in jobs.sql(f"SELECT job, event, verdict FROM {ledger(jobs)}")] == \
        [("1", "REQUEUED", "unstarted")]
    assert scan(jobs, defib, REQUEUED, "--fix")["jobs"] == [], "it is due from now on"


def test_a_rule_may_fail_it(jobs, defib):
    add(jobs, 1, due=HOUR)
    scan(jobs, defib, FAILED, "--fix")
    assert states(jobs) == {1: "failed"}


def test_a_held_row_is_not_waited_for(jobs, defib):
    text = WATCH + "    remedies: [{verdict: unstarted, do: hold}, {do: requeue}]\n"
    add(jobs, 1, due=HOUR)
    assert scan(jobs, defib, text, "--fix")["jobs"][0]["outcome"] == "held"
    watch = scan(jobs, defib, text, "--fix")
    assert watch["jobs"] == [] and watch["waiting"]["late"] == 0


def test_a_rule_that_names_no_verdict_does_not_act_on_it(jobs, defib):
    text = WATCH + "    remedies: [{do: fail}]\n"
    add(jobs, 1, due=HOUR)
    assert scan(jobs, defib, text, "--fix")["jobs"][0]["remedy"] == "report"
    assert states(jobs) == {1: "queued"}
    # Without a ledger entry by row either: it may be many thousands.
    assert jobs.sql(f"SELECT count(*) FROM {ledger(jobs)}") == [(0,)]


def test_requeues_of_rows_that_were_never_started_count_as_no_crash(jobs, defib):
    text = REQUEUED + "    crash_budget: {max: 2, within: 1d}\n"
    add(jobs, 1, due=HOUR)
    for _ in range(4):
        assert scan(jobs, defib, text, "--fix")["jobs"][0]["outcome"] == "recovered"
        jobs.sql(f"UPDATE jobs SET due = {ago(jobs, HOUR)}")
    jobs.sql(f"UPDATE jobs SET state = 'running', owner = 'w1', started = {ago(jobs, 3 * HOUR)}")
    job, = scan(jobs, defib, text, "--fix")["jobs"]
    assert (job["verdict"], job["remedy"]) == ("overdue", "requeue"), "it is its first crash"


def test_a_remedy_that_leaves_the_row_as_it_was_is_refused(jobs, defib):
    text = REQUEUED.replace("due = :now, ", "")
    add(jobs, 1, due=HOUR)
    job, = scan(jobs, defib, text, "--fix")["jobs"]
    assert job["outcome"] == "refused"
    assert job["refusal"] == "requeue leaves it as it was: it waits, and due_at is the same"
    assert jobs.sql("SELECT note FROM jobs") == [(None,)]


def test_a_row_that_is_claimed_between_look_and_write_is_not_touched(pg, defib):
    """Every remedy reads again, under the lock of the row, what was judged."""
    pg.sql("CREATE TABLE jobs (id integer PRIMARY KEY, kind text, state text NOT NULL, owner text,"
           " note text, due timestamptz, started timestamptz)")
    # The expression tells another due time at each reading, as a scheduler's write would.
    pg.sql("CREATE FUNCTION due_of(timestamptz) RETURNS timestamptz LANGUAGE sql VOLATILE AS "
           "$$SELECT $1 + extract(microseconds FROM clock_timestamp()) * interval '1 us'$$")
    add(pg, 1, due=HOUR)
    job, = scan(pg, defib, FAILED.replace("due_at: due", "due_at: due_of(due)"), "--fix")["jobs"]
    assert job["outcome"] == "changed"
    assert states(pg) == {1: "queued"}


def test_a_locked_row_is_left_alone(pg, defib):
    pg.sql("CREATE TABLE jobs (id integer PRIMARY KEY, kind text, state text NOT NULL, owner text,"
           " note text, due timestamptz, started timestamptz)")
    add(pg, 1, due=HOUR)
    worker = pg.connect()
    worker.cursor().execute("BEGIN; UPDATE jobs SET state = 'running' WHERE id = 1")
    job, = scan(pg, defib, FAILED, "--fix")["jobs"]
    assert job["outcome"] == "locked"
    worker.close()
    assert states(pg) == {1: "queued"}


def test_more_rows_than_are_read_are_counted(jobs, defib):
    jobs.sql(f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
                 INSERT INTO jobs (id, kind, state, due)
                 SELECT i, 'mail', 'queued', {ago(jobs, HOUR)} FROM n""")
    watch = scan(jobs, defib)
    assert watch["waiting"]["unstarted"] == 1500 and len(watch["jobs"]) == 1000


def test_a_dry_run_changes_nothing(jobs, defib):
    add(jobs, 1, due=HOUR)
    assert scan(jobs, defib, REQUEUED)["jobs"][0]["remedy"] == "requeue"
    assert states(jobs) == {1: "queued"}
    assert jobs.sql("SELECT note FROM jobs") == [(None,)]


def test_explain_says_what_it_waits_for(jobs, defib):
    add(jobs, 1, due=HOUR)
    out = defib("explain", "jobs/1", db=jobs, config=WATCH).out
    assert "has waited 1h (limit 10m)" in out and "no job of its kind is being started" in out
    assert "due_at" in out and "waiting" in out
    add(jobs, 2, state="running", started=60)
    out = defib("explain", "jobs/1", db=jobs, config=WATCH).out
    assert "waits to be started" in out and "jobs of its kind are being started" in out
    jobs.sql(f"UPDATE jobs SET due = {at(jobs, -2 * HOUR)} WHERE id = 1")
    assert "is due in 1h 59m" in defib("explain", "jobs/1", db=jobs, config=WATCH).out


def test_a_watch_may_be_about_waiting_rows_alone(jobs, defib):
    text = """
watches:
  - name: jobs
    table: jobs
    key: id
    waiting: state = 'queued'
    due_at: due
    late_after: 10m
"""
    add(jobs, 1, due=HOUR)
    add(jobs, 2, due=10)
    assert [job["key"] for job in scan(jobs, defib, text)["jobs"]] == ["1"]
    ran = defib("list", "--watch", "jobs", "--json", db=jobs, config=text)
    assert ran.code == 0, ran.err
    ran = defib("explain", "jobs/1", db=jobs, config=text)
    assert "no job of its kind is being started" in ran.out and "alive_at" not in ran.out
    ran = defib("doctor", db=jobs, config=text)
    assert ran.code in (0, 1), ran.out + ran.err


@pytest.mark.parametrize("keys, problem", [
    ("waiting: state = 'queued'", "waiting needs due_at"),
    ("due_at: due\n    late_after: 1m", "due_at needs waiting"),
    ("waiting: state = 'queued'\n    due_at: due", "due_at needs late_after"),
    ("late_after: 10m", "late_after needs waiting and due_at"),
    ("last_run_at: started", "last_run_at needs waiting"),
    ("waiting: state = 'queued'\n    due_at: due\n    late_after: 0s", "late_after 0s would report"),
    ("waiting: state = 'queued'\n    due_at: due\n    late_after: {state: {a: 1m}, default: 2m}",
     "late_after is a duration, or durations by kind"),
    ("remedies: [{verdict: unstarted, do: report}]", "rule 1 names unstarted, which needs waiting"),
])
def test_each_key_needs_the_others(defib, keys, problem):
    text = ("databases: [{name: d, url: 'sqlite:x.db'}]\nwatches:\n  - name: jobs\n    table: jobs\n"
            f"    key: id\n    running: r\n    alive_at: a\n    stuck_after: 1h\n    {keys}\n")
    ran = defib("config", "check", config=text)
    assert ran.code != 0 and problem in ran.err + ran.out


def test_workers_are_notified_once_in_a_while_and_that_is_recorded(pg, defib):
    text = WATCH + "    wake: {notify: jobs_ready, every: 1h}\n"
    pg.sql("CREATE TABLE jobs (id integer PRIMARY KEY, kind text, state text NOT NULL, owner text,"
           " note text, due timestamptz, started timestamptz)")
    worker = pg.connect()
    worker.cursor().execute("LISTEN jobs_ready")

    def heard():
        worker.poll()
        got = [(one.channel, one.payload) for one in worker.notifies]
        worker.notifies.clear()
        return got
    assert scan(pg, defib, text, "--fix")["waiting"]["woken"] is False
    add(pg, 1, due=HOUR)
    assert scan(pg, defib, text)["waiting"]["woken"] is False, "a dry run does nothing"
    assert heard() == []
    assert scan(pg, defib, text, "--fix")["waiting"]["woken"] is True
    eventually(lambda: heard() == [("jobs_ready", "jobs")])
    assert scan(pg, defib, text, "--fix")["waiting"]["woken"] is False, "once in an hour"
    assert heard() == []
    entries = pg.sql("SELECT job, event, rule FROM defib.ledger")
    assert [tuple(row) for row in entries] == [("*", "WOKEN", "wake")]
    often = text.replace("every: 1h", "every: 1s")
    eventually(lambda: scan(pg, defib, often, "--fix")["waiting"]["woken"])
    eventually(lambda: heard() == [("jobs_ready", "jobs")])
    worker.close()


def test_notify_is_refused_where_there_is_none(lite, defib):
    text = WATCH + "    wake: {notify: jobs_ready}\n"
    ran = defib("config", "check", db=lite, config=text)
    assert ran.code != 0 and "wake.notify is for PostgreSQL" in ran.err + ran.out


# ---- schedules

SCHEDULES = """
watches:
  - name: schedules
    table: schedules
    key: id
    waiting: enabled
    due_at: next_run_at
    last_run_at: (SELECT max(r.began) FROM runs r WHERE r.schedule = t.id)
    late_after: 10m
"""


@pytest.fixture
def schedules(db):
    db.sql(f"CREATE TABLE schedules (id integer PRIMARY KEY, enabled boolean NOT NULL,"
           f" next_run_at {TIME[db.engine]})")
    db.sql(f"CREATE TABLE runs (schedule integer, began {TIME[db.engine]})")
    return db


def schedule(db, key, due, enabled="true", ran=None):
    db.sql(f"INSERT INTO schedules VALUES (%s, {enabled}, {at(db, due)})", key)
    if ran is not None:
        run(db, key, ran)


def run(db, key, began):
    db.sql(f"INSERT INTO runs VALUES (%s, {at(db, began)})", key)


def found(db, defib, *args):
    return {job["key"]: job["evidence"]["law"]
            for job in scan(db, defib, SCHEDULES, *args)["jobs"]}


def test_a_schedule_whose_next_run_is_in_the_past_is_unstarted(schedules, defib):
    schedule(schedules, 1, due=3 * HOUR, ran=4 * HOUR)
    schedule(schedules, 2, due=3 * HOUR, ran=2 * HOUR)        # it ran
    schedule(schedules, 3, due=3 * HOUR, enabled="false")
    schedule(schedules, 4, due=-HOUR)
    schedule(schedules, 5, due=60)
    assert found(schedules, defib) == {"1": "no-run"}
    says = scan(schedules, defib, SCHEDULES)["waiting"]["says"]
    assert says == "1 schedule has no run, the oldest was due 3h ago (limit 10m)"


def test_a_run_of_another_schedule_says_nothing_about_this_one(schedules, defib):
    schedule(schedules, 1, due=HOUR)
    schedule(schedules, 2, due=HOUR, ran=60)
    assert found(schedules, defib) == {"1": "no-run"}


def test_a_schedule_that_moved_on_without_a_run_is_unstarted(schedules, defib):
    """The scheduler sets the next time and starts nothing: its due_at is never in the past."""
    schedule(schedules, 1, due=300, ran=4 * HOUR)
    schedule(schedules, 2, due=300, ran=4 * HOUR)
    assert found(schedules, defib, "--fix") == {}
    schedules.sql(f"UPDATE schedules SET next_run_at = {at(schedules, -HOUR)}")
    run(schedules, 2, 290)
    assert found(schedules, defib, "--fix") == {}, "it is not late yet"
    seen = "defib.seen" if schedules.engine == "postgres" else "defib_seen"
    schedules.sql(f"UPDATE {seen} SET value = CAST(CAST(value AS bigint) - 3600000000 AS text)"
                  f" WHERE what = 'due' AND job = '1'")
    assert found(schedules, defib, "--fix") == {"1": "moved-on"}
    assert found(schedules, defib) == {"1": "moved-on"}, "it stays so"
    assert "moved on to its next time without a run" in \
        scan(schedules, defib, SCHEDULES)["waiting"]["says"]
    out = defib("explain", "schedules/1", db=schedules, config=SCHEDULES).out
    assert "its schedule moved on without a run" in out
    run(schedules, 1, 0)
    assert found(schedules, defib, "--fix") == {}
    (rows,), = schedules.sql(f"SELECT count(*) FROM {seen} WHERE what = 'due'")
    schedules.sql("DELETE FROM schedules WHERE id = 2")
    found(schedules, defib, "--fix")
    assert (rows, schedules.sql(f"SELECT count(*) FROM {seen} WHERE what = 'due'")) == (2, [(1,)])


def test_a_dry_run_remembers_nothing_of_schedules(schedules, defib):
    schedule(schedules, 1, due=300)
    found(schedules, defib)
    there = schedules.sql("SELECT to_regclass('defib.seen') IS NOT NULL" if schedules.engine ==
                          "postgres" else
                          "SELECT count(*) > 0 FROM sqlite_master WHERE name = 'defib_seen'")
    assert there in ([(False,)], [(0,)])


@pytest.mark.parametrize("value", ["-9223372036854775808", "9223372036854775807", "x", "1e999", ""])
def test_what_others_write_into_the_memory_of_schedules_is_ignored(schedules, defib, value):
    schedule(schedules, 1, due=-HOUR)
    found(schedules, defib, "--fix")
    seen = "defib.seen" if schedules.engine == "postgres" else "defib_seen"
    schedules.sql(f"UPDATE {seen} SET value = %s WHERE what = 'due'", value)
    assert found(schedules, defib) == found(schedules, defib, "--fix") == {}
