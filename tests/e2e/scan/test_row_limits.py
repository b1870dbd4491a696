# SPDX-License-Identifier: Apache-2.0
"""Limits of single rows (F21): a row's own time-out, and a limit of the state that it is in."""

import pytest

from harness.example_systems import ago

pytestmark = [pytest.mark.sanitized, pytest.mark.covers("F21")]
TIME = {"postgres": "timestamptz", "sqlite": "text"}
BASE = """
watches:
  - name: jobs
    table: jobs
    key: id
    running: state <> 'queued' AND state <> 'failed'
    requeue: state = 'queued'
    fail: state = 'failed'
"""
BY_ROW = BASE + """
    alive_at: beat
    stuck_after: {sql: timeout, default: 10m}
"""
BY_STATE = BASE + """
    started_at: began
    state_since: entered
    overdue_after: {state: {cancelling: 5m, assigned: 2m}, default: 1h}
    remedies:
      - {state: cancelling, do: fail}
      - {do: requeue}
"""


def make_jobs(db, timeout="integer"):
    time = TIME[db.engine]
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL, timeout {timeout},"
           f" beat {time}, began {time}, entered {time})")


def add(db, key, state="running", timeout="NULL", **ages):
    columns = "".join(f", {name}" for name in ages)
    values = "".join(f", {ago(db, seconds)}" for seconds in ages.values())
    db.sql(f"INSERT INTO jobs (id, state, timeout{columns})"
           f" VALUES ({key}, '{state}', {timeout}{values})")


def states(db):
    return dict(db.sql("SELECT id, state FROM jobs"))


def found(ran):
    return {int(job["key"]): job for job in ran.json["watches"][0]["jobs"]}


def test_a_row_with_a_time_out_of_its_own_has_that_limit(db, defib):
    make_jobs(db)
    add(db, 1, timeout=60, beat=90)        # past its own
    add(db, 2, timeout=7200, beat=3600)    # not past its own, although past the default
    add(db, 3, beat=90)                    # has none: the default counts
    add(db, 4, beat=3600)
    add(db, 5, timeout=0, beat=90)         # no time-out either
    add(db, 6, timeout=-5, beat=90)
    jobs = found(defib("scan", "--json", db=db, config=BY_ROW))
    assert sorted(jobs) == [1, 4]
    assert jobs[1]["evidence"]["limit_s"] == 60
    assert jobs[1]["evidence"]["limit_of"] == "its own time-out"
    assert jobs[4]["evidence"]["limit_s"] == 600
    assert "limit_of" not in jobs[4]["evidence"]
    defib("scan", "--fix", db=db, config=BY_ROW)
    assert sorted(key for key, state in states(db).items() if state == "queued") == [1, 4]


def test_show_says_whose_limit_it_is(db, defib):
    make_jobs(db)
    add(db, 1, timeout=60, beat=90)
    out = defib("show", "jobs/1", db=db, config=BY_ROW).out
    assert "the limit is 1m, its own time-out" in out
    assert "(limit 1m, its own time-out)" in out


def test_a_time_out_may_be_an_interval(pg, defib):
    make_jobs(pg, "interval")
    add(pg, 1, timeout="interval '1 minute'", beat=90)
    add(pg, 2, timeout="interval '2 hours'", beat=3600)
    add(pg, 3, timeout="interval '-1 minute'", beat=90)
    assert sorted(found(defib("scan", "--json", db=pg, config=BY_ROW))) == [1]


def test_a_time_out_that_is_no_length_of_time_is_refused_in_words(pg, defib):
    make_jobs(pg, "text")
    ran = defib("scan", db=pg, config=BY_ROW)
    assert ran.code != 0
    assert "stuck_after.sql" in ran.err and "type text is not a length of time" in ran.err
    assert "an interval, or a number of seconds" in ran.err


def test_texts_in_a_column_without_types_are_no_time_out(lite, defib):
    make_jobs(lite, "text")
    add(lite, 1, timeout="'10 minutes'", beat=90)
    add(lite, 2, timeout="'1'", beat=90)
    assert found(defib("scan", "--json", db=lite, config=BY_ROW)) == {}


def test_a_time_out_is_never_under_two_beats(db, defib):
    make_jobs(db)
    add(db, 1, timeout=1, beat=50)
    add(db, 2, timeout=1, beat=70)
    jobs = found(defib("scan", "--json", db=db, config=BY_ROW + "    beat: 30s\n"))
    assert sorted(jobs) == [2] and jobs[2]["evidence"]["limit_s"] == 60


def test_a_state_on_the_way_has_a_limit_and_a_remedy_of_its_own(db, defib):
    make_jobs(db)
    add(db, 1, "cancelling", began=3000, entered=400)
    add(db, 2, "cancelling", began=7200, entered=200)   # it ran long before it was cancelled
    add(db, 3, "assigned", entered=130)
    add(db, 4, "assigned", entered=100)
    add(db, 5, "running", began=3000, entered=3000)
    add(db, 6, "running", began=4000, entered=10)
    add(db, 7, "cancelling", began=3000)                # nobody knows since when
    jobs = found(defib("scan", "--json", db=db, config=BY_STATE))
    assert {key: (job["verdict"], job["remedy"]) for key, job in jobs.items()} == {
        1: ("overdue", "fail"), 3: ("overdue", "requeue"), 6: ("overdue", "requeue")}
    evidence = jobs[1]["evidence"]
    assert (evidence["limit_s"], evidence["limit_of"]) == (300, "state cancelling")
    assert evidence["state"] == "cancelling" and evidence["law"] == "lingers"
    assert 400 <= evidence["measured_s"] < 500
    assert jobs[6]["evidence"]["law"] == "overdue"
    defib("scan", "--fix", db=db, config=BY_STATE)
    assert states(db) == {1: "failed", 2: "cancelling", 3: "queued", 4: "assigned",
                          5: "running", 6: "queued", 7: "cancelling"}


def test_explain_says_the_state_and_its_limit(db, defib):
    make_jobs(db)
    add(db, 1, "cancelling", began=3000, entered=400)
    add(db, 2, "running", began=60, entered=60)
    out = defib("explain", "jobs/1", db=db, config=BY_STATE).out
    assert "in its state for 6m" in out and "(limit 5m of state cancelling)" in out
    out = defib("explain", "jobs/2", db=db, config=BY_STATE).out
    assert "no limit in this state" in out


def test_silence_may_have_a_limit_by_state_too(db, defib):
    make_jobs(db)
    text = BASE + "    alive_at: beat\n    stuck_after: {state: {cancelling: 1m}, default: 10m}\n"
    add(db, 1, "cancelling", beat=90)
    add(db, 2, "running", beat=90)
    jobs = found(defib("scan", "--json", db=db, config=text))
    assert sorted(jobs) == [1] and jobs[1]["verdict"] == "silent"


def test_states_are_named_as_people_name_them(db, defib):
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, status integer, beat {TIME[db.engine]})")
    for key, status in ((1, 6), (2, 3)):
        db.sql(f"INSERT INTO jobs VALUES ({key}, {status}, {ago(db, 90)})")
    text = """
watches:
  - {name: jobs, table: jobs, key: id, running: "status IN (3, 6)", alive_at: beat,
     states: {3: RUNNING, 6: CANCELLING}, requeue: status = 1, fail: status = 9,
     stuck_after: {state: {CANCELLING: 1m}, default: 10m},
     remedies: [{state: CANCELLING, do: fail}, {do: requeue}]}
"""
    jobs = found(defib("scan", "--json", db=db, config=text))
    assert {key: job["remedy"] for key, job in jobs.items()} == {1: "fail"}
    assert jobs[1]["evidence"]["limit_of"] == "state CANCELLING"


def test_the_function_in_the_database_knows_them(pg, defib):
    make_jobs(pg)
    add(pg, 1, "cancelling", timeout=5, began=3000, entered=400)
    add(pg, 2, "cancelling", began=7200, entered=200)
    add(pg, 3, "running", timeout=60, began=90)
    add(pg, 4, "running", timeout=7200, began=5000)
    add(pg, 5, "running", began=90)
    text = BY_STATE.replace("{state: {", "{sql: timeout, state: {")
    scanned = found(defib("scan", "--json", db=pg, config=text))
    assert sorted(scanned) == [1, 3]
    defib("install", "jobs", "--yes", db=pg, config=text)
    pg.sql("SELECT defib.recover_jobs()")
    assert states(pg) == {1: "failed", 2: "cancelling", 3: "queued", 4: "running", 5: "running"}
    kept = dict(pg.sql("SELECT job, evidence FROM defib.ledger WHERE verdict IS NOT NULL"))
    for key, job in scanned.items():
        ours, theirs = job["evidence"], kept[str(key)]
        assert {k: theirs[k] for k in ("law", "limit_s", "state")} == \
            {k: ours[k] for k in ("law", "limit_s", "state")}
        assert theirs["limit_of"] == ours["limit_of"]
