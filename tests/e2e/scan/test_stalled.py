# SPDX-License-Identifier: Apache-2.0
"""Beats without progress (F15), and states whose beginning no column tells (F21): what defib
remembers between looks."""

import pytest

from harness.example_systems import ago, ledger

pytestmark = pytest.mark.covers("F15")
TIME = {"postgres": "timestamptz", "sqlite": "text"}
WATCH = """
watches:
  - name: jobs
    table: jobs
    key: id
    running: state <> 'queued' AND state <> 'failed'
    owner: owner
    attempts: attempts
    max_attempts: 5
    alive_at: beat
    stuck_after: 1h
    requeue: state = 'queued', owner = NULL
    fail: state = 'failed'
"""
PROGRESS = WATCH + """
    progress: progress
    stalled_after: 10m
    remedies:
      - {verdict: stalled, do: requeue}
      - {do: fail}
"""
STATES = WATCH + """
    overdue_after: {state: {cancelling: 5m}, default: 1h}
    remedies: [{state: cancelling, do: fail}, {do: report}]
"""


def seen(db):
    return "defib.seen" if db.engine == "postgres" else "defib_seen"


def make_jobs(db):
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL DEFAULT 'running',"
           f" owner text, attempts integer DEFAULT 1, progress text, beat {TIME[db.engine]})")


def add(db, key, progress="41 %", state="running", beat=5):
    db.sql(f"INSERT INTO jobs (id, state, owner, progress, beat)"
           f" VALUES (%s, %s, 'w1', %s, {ago(db, beat)})", key, state, progress)


@pytest.fixture
def jobs(db):
    make_jobs(db)
    return db


def look(db, defib, text=PROGRESS):
    ran = defib("scan", "--fix", "--json", db=db, config=text)
    watch, = ran.json["watches"]
    assert watch["error"] is None
    return {int(job["key"]): job for job in watch["jobs"]}


def passes(db, seconds, looked=True):
    """Time passes: all that is remembered began so much earlier, and was looked at meanwhile."""
    what = "" if not looked else " WHERE what <> 'look'"
    db.sql(f"UPDATE {seen(db)} SET since_us = since_us - {seconds * 1000000}{what}")


def states(db):
    return dict(db.sql("SELECT id, state FROM jobs"))


def test_a_job_that_beats_and_makes_no_progress_is_stalled_at_the_second_look(jobs, defib):
    add(jobs, 1)
    add(jobs, 2)
    assert look(jobs, defib) == {}
    passes(jobs, 11 * 60)
    jobs.sql(f"UPDATE jobs SET beat = {ago(jobs, 0)}")
    jobs.sql("UPDATE jobs SET progress = '42 %' WHERE id = 2")
    job, = look(jobs, defib).values()
    assert (job["key"], job["verdict"], job["remedy"], job["rule"]) == \
        ("1", "stalled", "requeue", "rule-1")
    assert job["evidence"]["progress"] == "41 %" and job["evidence"]["limit_s"] == 600
    assert 660 <= job["evidence"]["measured_s"] < 720
    assert states(jobs) == {1: "queued", 2: "running"}


def test_one_look_is_never_enough(jobs, defib):
    add(jobs, 1, beat=3000)
    assert look(jobs, defib) == {}
    assert look(jobs, defib) == {}
    assert states(jobs) == {1: "running"}


def test_a_job_that_makes_progress_is_never_stalled(jobs, defib):
    add(jobs, 1)
    for percent in range(5):
        jobs.sql("UPDATE jobs SET progress = %s", f"{percent} %")
        assert look(jobs, defib) == {}
        passes(jobs, 11 * 60)
    jobs.sql("UPDATE jobs SET progress = 'done'")
    assert look(jobs, defib) == {}


def test_a_job_that_reports_no_progress_is_left_alone(jobs, defib):
    add(jobs, 1, progress=None)
    look(jobs, defib)
    passes(jobs, 3600)
    assert look(jobs, defib) == {}


def test_another_run_of_the_job_begins_anew(jobs, defib):
    add(jobs, 1, progress="0 %")
    look(jobs, defib)
    passes(jobs, 11 * 60)
    jobs.sql("UPDATE jobs SET attempts = 2")
    assert look(jobs, defib) == {}
    passes(jobs, 11 * 60)
    assert list(look(jobs, defib)) == [1]


def test_by_default_it_is_only_reported_and_once(jobs, defib):
    text = PROGRESS[:PROGRESS.index("    remedies:")]
    add(jobs, 1)
    look(jobs, defib, text)
    passes(jobs, 11 * 60)
    for _ in range(3):
        job, = look(jobs, defib, text).values()
        assert (job["verdict"], job["remedy"]) == ("stalled", "report")
        jobs.sql(f"UPDATE jobs SET beat = {ago(jobs, 0)}")
    assert states(jobs) == {1: "running"}
    events = jobs.sql(f"SELECT event FROM {ledger(jobs)} WHERE verdict = 'stalled'")
    assert [tuple(row) for row in events] == [("ZOMBIE_DETECTED",)]


def test_a_rule_that_names_no_verdict_does_not_act_on_it(jobs, defib):
    text = PROGRESS.replace("      - {verdict: stalled, do: requeue}\n", "")
    add(jobs, 1)
    look(jobs, defib, text)
    passes(jobs, 11 * 60)
    job, = look(jobs, defib, text).values()
    assert job["remedy"] == "report" and states(jobs) == {1: "running"}


def test_progress_between_look_and_write_saves_the_job(jobs, defib):
    """Every scan reads again under a lock what it judged."""
    add(jobs, 1)
    look(jobs, defib)
    passes(jobs, 11 * 60)
    if jobs.engine == "postgres":
        jobs.sql("CREATE FUNCTION moved(text) RETURNS text LANGUAGE sql VOLATILE AS "
                 "$$SELECT $1 || clock_timestamp()$$")
        text = PROGRESS.replace("progress: progress", "progress: moved(progress)")
        look(jobs, defib, text)
        passes(jobs, 11 * 60)
        assert look(jobs, defib, text) == {}
    jobs.sql("UPDATE jobs SET progress = '43 %'")
    assert look(jobs, defib) == {}


def test_time_in_which_nobody_looked_does_not_count(jobs, defib):
    add(jobs, 1)
    look(jobs, defib)
    passes(jobs, 3600, looked=False)     # nobody looked for an hour
    assert look(jobs, defib) == {}
    passes(jobs, 11 * 60)
    assert list(look(jobs, defib)) == [1]


def test_scans_by_a_timer_count_the_time_between_them(jobs, defib):
    """The second one learns how far they are apart; from the third on it counts."""
    add(jobs, 1)
    look(jobs, defib)
    for _ in range(2):
        assert look(jobs, defib) == {}
        passes(jobs, 900, looked=False)
    assert list(look(jobs, defib)) == [1]


def test_a_dry_run_writes_nothing_and_says_what_it_cannot_know(jobs, defib):
    add(jobs, 1)
    ran = defib("scan", db=jobs, config=PROGRESS)
    assert "progress and time in a state are not known yet: that takes two looks" in ran.err
    look(jobs, defib)
    before = jobs.sql(f"SELECT * FROM {seen(jobs)} ORDER BY job, what")
    passes(jobs, 11 * 60)
    ran = defib("scan", "--json", db=jobs, config=PROGRESS)
    job, = ran.json["watches"][0]["jobs"]
    assert (job["verdict"], job["remedy"]) == ("stalled", "requeue")
    after = jobs.sql(f"SELECT * FROM {seen(jobs)} ORDER BY job, what")
    assert [row[-1] for row in after] == [row[-1] for row in before]
    assert states(jobs) == {1: "running"}


def test_explain_says_the_value_and_since_when(jobs, defib):
    add(jobs, 1)
    look(jobs, defib)
    passes(jobs, 12 * 60)
    out = defib("explain", "jobs/1", db=jobs, config=PROGRESS).out
    assert "its progress has been 41 % for 12m" in out and "(limit 10m)" in out
    assert "41 %, the same for 12m" in out
    jobs.sql("UPDATE jobs SET progress = '50 %'")
    assert "50 %, not seen before" in defib("explain", "jobs/1", db=jobs, config=PROGRESS).out


def test_a_long_value_is_kept_as_a_hash(jobs, defib):
    add(jobs, 1, progress="x" * 5000)
    look(jobs, defib)
    (value,), = jobs.sql(f"SELECT value FROM {seen(jobs)} WHERE what = 'progress'")
    assert value.startswith("sha256 ") and len(value) < 80
    passes(jobs, 11 * 60)
    assert list(look(jobs, defib)) == [1]


def test_jobs_that_ended_are_forgotten(jobs, defib):
    add(jobs, 1)
    look(jobs, defib)
    jobs.sql("UPDATE jobs SET state = 'queued'")
    look(jobs, defib)
    assert jobs.sql(f"SELECT count(*) FROM {seen(jobs)} WHERE what <> 'look'") == [(0,)]


def test_what_is_remembered_is_bounded_and_the_scan_says_so(jobs, defib):
    jobs.sql(f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
                 INSERT INTO jobs (id, progress, owner, beat)
                 SELECT i, '1 %', 'w1', {ago(jobs, 1)} FROM n""")
    look(jobs, defib)
    assert jobs.sql(f"SELECT count(*) FROM {seen(jobs)} WHERE what <> 'look'") == [(10000,)]
    ran = defib("scan", "--fix", db=jobs, config=PROGRESS)
    assert "more than 10000 jobs are running" in ran.err


def test_when_progress_last_changed_may_be_in_the_table(db, defib):
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL, owner text,"
           f" attempts integer DEFAULT 1, beat {TIME[db.engine]}, moved {TIME[db.engine]})")
    for key, moved in ((1, 700), (2, 500)):
        db.sql(f"INSERT INTO jobs (id, state, owner, beat, moved)"
               f" VALUES ({key}, 'running', 'w1', {ago(db, 1)}, {ago(db, moved)})")
    text = PROGRESS.replace("    progress: progress", "    progress_at: moved")
    job, = look(db, defib, text).values()
    assert (job["key"], job["verdict"], job["remedy"]) == ("1", "stalled", "requeue")


def test_the_function_in_the_database_judges_a_time_and_refuses_what_must_be_remembered(pg, defib):
    pg.sql("CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL, owner text, progress "
           "text, attempts integer DEFAULT 1, beat timestamptz, moved timestamptz)")
    for key, moved in ((1, 700), (2, 500)):
        pg.sql(f"INSERT INTO jobs (id, state, owner, beat, moved)"
               f" VALUES ({key}, 'running', 'w1', {ago(pg, 1)}, {ago(pg, moved)})")
    ran = defib("install", "jobs", "--yes", db=pg, config=PROGRESS)
    assert ran.code != 0 and "which a function does not remember" in ran.err
    text = PROGRESS.replace("    progress: progress", "    progress_at: moved")
    assert defib("install", "jobs", "--yes", db=pg, config=text).code == 0
    pg.sql("SELECT defib.recover_jobs()")
    assert states(pg) == {1: "queued", 2: "running"}


@pytest.mark.covers("F21")
def test_a_state_counts_from_when_it_was_first_seen(jobs, defib):
    add(jobs, 1, state="cancelling")
    add(jobs, 2, state="running")
    add(jobs, 3, state="running")
    assert look(jobs, defib, STATES) == {}
    passes(jobs, 400)
    jobs.sql("UPDATE jobs SET state = 'cancelling' WHERE id = 2")
    job, = look(jobs, defib, STATES).values()
    assert (job["key"], job["verdict"], job["remedy"]) == ("1", "overdue", "fail")
    assert job["evidence"]["law"] == "lingers"
    assert job["evidence"]["limit_of"] == "state cancelling"
    assert states(jobs) == {1: "failed", 2: "cancelling", 3: "running"}
    assert jobs.sql(f"SELECT job FROM {seen(jobs)} WHERE what = 'state' AND job <> '1'") == [("2",)]
