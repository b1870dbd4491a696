# SPDX-License-Identifier: Apache-2.0
"""`defib explain WATCH KEY`: everything about one job, and nothing changed."""

import pytest

from harness.example_systems import ago

WATCH = """
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 10m
    owner: owner
    attempts: attempts
    max_attempts: 3
    requeue: state = 'queued', note = :reason
    reason: "{owner} was {verdict} for {silent}"
"""


@pytest.fixture
def jobs(db):
    kind = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL, owner text,"
           f" attempts integer, note text, beat {kind})")
    for key, state, attempts, seconds in ((1, "running", 1, 3600), (2, "running", 1, 5),
                                          (3, "queued", 1, 3600), (4, "running", 3, 3600)):
        db.sql(f"INSERT INTO jobs VALUES (%s, %s, 'w1', %s, NULL, {ago(db, seconds)})",
               key, state, attempts)
    return db


@pytest.mark.covers("F7")
def test_a_stuck_job_with_its_facts_its_verdict_and_its_remedy(jobs, defib):
    ran = defib("explain", "jobs", "1", db=jobs, config=WATCH)
    assert (ran.code, ran.err) == (1, "")
    assert "main/jobs 1 is stuck: no sign of life for 1h (limit 10m)." in ran.out
    for said in ("state = 'running'", "the limit is 10m", "w1", "1 of 3",
                 "silent: its sign of life is older than stuck_after [silent]",
                 "requeue: default: requeue while attempts are left [attempts-left]",
                 "w1 was silent for 1h", "defib scan jobs --fix"):
        assert said in ran.out


@pytest.mark.covers("F7")
def test_a_fresh_job_is_told_why_it_is_not_stuck(jobs, defib):
    ran = defib("explain", "jobs", "2", db=jobs, config=WATCH)
    assert ran.code == 0
    assert "is not stuck" in ran.out and "[fresh]" in ran.out


def test_a_job_that_does_not_run_is_told_so(jobs, defib):
    ran = defib("explain", "jobs", "3", db=jobs, config=WATCH)
    assert ran.code == 0
    assert "[not-running]" in ran.out


def test_a_job_without_attempts_left_would_be_held(jobs, defib):
    ran = defib("explain", "jobs", "4", db=jobs, config=WATCH)
    assert "hold: default: hold when attempts are exhausted [attempts-exhausted]" in ran.out


@pytest.mark.covers("F7")
def test_a_held_job_is_told_to_be_held(jobs, defib):
    defib("scan", "--fix", db=jobs, config=WATCH)
    ran = defib("explain", "jobs", "4", db=jobs, config=WATCH)
    assert "[already-held]; nothing is written" in ran.out
    assert defib("explain", "jobs", "4", "--json", db=jobs, config=WATCH).json["held"] is True


def test_json_tells_the_same(jobs, defib):
    told = defib("explain", "jobs", "1", "--json", db=jobs, config=WATCH).json
    wanted = {"database": "main", "watch": "jobs", "key": "1", "running": True, "stuck": True,
              "verdict": "silent", "verdict_rule": "silent", "held": False, "remedy": "requeue",
              "rule": "attempts-left", "acts": True}
    assert {key: told[key] for key in wanted} == wanted
    assert told["evidence"]["limit_s"] == 600 and told["why"]


def test_json_of_a_job_that_is_not_stuck_has_no_remedy(jobs, defib):
    told = defib("explain", "jobs", "2", "--json", db=jobs, config=WATCH).json
    assert (told["stuck"], told["verdict"], told["verdict_rule"]) == (False, "none", "fresh")
    assert "remedy" not in told


def test_nothing_is_written_and_no_ledger_made(jobs, defib):
    before = jobs.sql("SELECT * FROM jobs ORDER BY id")
    defib("explain", "jobs", "1", db=jobs, config=WATCH)
    assert jobs.sql("SELECT * FROM jobs ORDER BY id") == before
    tables = "pg_tables WHERE schemaname = 'defib'" if jobs.engine == "postgres" else (
        "sqlite_master WHERE name LIKE 'defib%'")
    assert jobs.sql(f"SELECT count(*) FROM {tables}") == [(0,)]


def test_times_are_iso_and_in_utc(jobs, defib):
    out = defib("explain", "jobs", "1", db=jobs, config=WATCH).out
    line, = [line for line in out.splitlines() if line.strip().startswith("alive_at")]
    assert line.split()[1].rstrip(",").endswith("Z") and "T" in line.split()[1]


@pytest.mark.parametrize("args,says", [
    (("jobs", "99"), "has no row with that key"),
    (("jobs", "1", "2"), "has 1 part"),
    (("jobs",), "takes a watch and the key"),
    (("jbos", "1"), 'did you mean "jobs"?'),
])
def test_a_job_that_cannot_be_named_is_told_in_one_line(jobs, defib, args, says):
    ran = defib("explain", *args, db=jobs, config=WATCH)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_a_key_of_the_wrong_type_is_told_in_one_line(pg, defib):
    pg.sql("CREATE TABLE jobs (id integer, state text, owner text, attempts integer, note text,"
           " beat timestamptz)")
    ran = defib("explain", "jobs", "x'; DROP TABLE jobs", db=pg, config=WATCH)
    assert ran.out == "" and ran.err.count("\n") == 1
    assert ran.code == 2
    assert pg.sql("SELECT count(*) FROM jobs") == [(0,)]


def test_a_composite_key_is_given_part_by_part(db, defib):
    kind = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE jobs (a text, b integer, state text, owner text, attempts integer,"
           f" note text, beat {kind})")
    db.sql(f"INSERT INTO jobs VALUES ('x', 1, 'running', 'w', 1, NULL, {ago(db, 3600)})")
    text = WATCH.replace("key: id", "key: [a, b]")
    told = defib("explain", "jobs", "x", "1", "--json", db=db, config=text).json
    assert (told["key"], told["stuck"]) == (["x", "1"], True)
    as_scan_prints_it = defib("explain", "jobs", '["x","1"]', "--json", db=db, config=text).json
    assert as_scan_prints_it["key"] == ["x", "1"]
    assert defib("explain", "jobs", "x", db=db, config=text).code == 2


def test_a_job_by_its_qualified_name(jobs, defib):
    by_parts = defib("explain", "jobs", "3", db=jobs, config=WATCH)
    by_name = defib("explain", "jobs/3", db=jobs, config=WATCH)
    assert (by_name.code, by_parts.code) == (0, 0)
    for said in ("main/jobs 3 is not stuck", "[not-running]"):
        assert said in by_name.out and said in by_parts.out


def test_a_composite_key_by_its_qualified_name(db, defib):
    kind = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE jobs (a text, b integer, state text, owner text, attempts integer,"
           f" note text, beat {kind})")
    db.sql(f"INSERT INTO jobs VALUES ('x', 1, 'running', 'w', 1, NULL, {ago(db, 3600)})")
    text = WATCH.replace("key: id", "key: [a, b]")
    assert defib("explain", 'jobs/["x", 1]', "--json", db=db, config=text).json["stuck"] is True


def test_a_held_job_says_why_since_when_and_how_it_is_released(jobs, defib):
    defib("scan", "--fix", db=jobs, config=WATCH)
    out = defib("explain", "jobs/4", db=jobs, config=WATCH).out
    held, = [line for line in out.splitlines() if line.strip().startswith("held")]
    assert "since 20" in held and "attempts" in held and "defib release jobs/4" in held
    assert "nothing, until an operator releases it" in out
    told = defib("explain", "jobs/4", "--json", db=jobs, config=WATCH).json
    assert (told["held"], told["hold_cause"]) == (True, "attempts")


def test_a_pending_retry_says_when_it_is_due(jobs, defib):
    text = WATCH.replace("    requeue: state = 'queued', note = :reason\n", """\
    remedies: [{do: retry}]
    backoff: {base: 10m}
    retry: {now: "state = 'waiting'", then: "state = 'queued'"}
""")
    assert defib("scan", "--fix", db=jobs, config=text).code == 0
    out = defib("explain", "jobs/1", db=jobs, config=text).out
    assert "due in " in out and "defib scan jobs --fix, when it is due" in out
    assert defib("explain", "jobs/1", "--json", db=jobs, config=text).json["retry_at"]


def test_long_names_do_not_push_their_values_aside(db, defib):
    kind = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text, owner text, attempts integer,"
           f" note text, beat {kind}, a_very_long_column_name text)")
    db.sql(f"INSERT INTO jobs VALUES (1, 'running', 'w', 1, NULL, {ago(db, 60)}, 'seen')")
    out = defib("explain", "jobs/1", db=db, config=WATCH + "    show: [a_very_long_column_name]\n")
    lines = out.out.splitlines()[1:]
    at = len("  a_very_long_column_name ")
    assert all(line[at - 1] == " " and line[at] != " " for line in lines), out.out
