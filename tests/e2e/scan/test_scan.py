# SPDX-License-Identifier: Apache-2.0
"""`defib scan`: the contract of its output, its exit codes and its options."""

import json
import os
import pathlib
import pty
import re
import socket

import pytest

from harness import stuck_jobs
from harness.example_systems import ago, ledger
from harness.waiting import patience

pytestmark = pytest.mark.sanitized
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
    requeue: state = 'queued', owner = NULL, note = :reason
    fail: state = 'failed', note = :reason
"""
TIME = {"postgres": "timestamptz", "sqlite": "text"}
PASSWORD = "s3cret-pa55"


def make_jobs(db):
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL, owner text,"
           f" attempts integer NOT NULL DEFAULT 1, note text, beat {TIME[db.engine]})")


def add(db, key, seconds, state="running", owner="w1", attempts=1):
    db.sql(f"INSERT INTO jobs (id, state, owner, attempts, beat)"
           f" VALUES (%s, %s, %s, %s, {ago(db, seconds)})", key, state, owner, attempts)


def states(db):
    return [row[0] for row in db.sql("SELECT state FROM jobs ORDER BY id")]


@pytest.fixture
def jobs(db):
    make_jobs(db)
    return db


# ---- JSON ----

NUMBER = (int, float)
TOP = {"found": int, "recovered": int, "held": int, "changed": int, "locked": int, "watches": list}
OF_WATCH = {"watch": str, "database": str, "running": int, "found": int, "recovered": int,
            "held": int, "changed": int, "locked": int, "took_ms": NUMBER,
            "error": (str, type(None)), "jobs": list}
OF_JOB = {"key": str, "verdict": str, "remedy": str, "rule": str, "evidence": dict,
          "silent_s": NUMBER, "owner": str, "attempt": int}


def assert_shape(value, shape):
    for key, kind in shape.items():
        assert key in value, key
        assert isinstance(value[key], kind) and not isinstance(value[key], bool), key


@pytest.mark.parametrize("args", [(), ("--fix",)], ids=["dry run", "fix"])
def test_json_has_every_promised_key_with_its_type(jobs, defib, args):
    add(jobs, 1, 3600)
    report = defib("scan", "--json", *args, db=jobs, config=WATCH).json
    assert_shape(report, TOP)
    watch, = report["watches"]
    assert_shape(watch, OF_WATCH)
    job, = watch["jobs"]
    assert_shape(job, OF_JOB)


def test_json_tells_one_job_as_it_is(jobs, defib):
    add(jobs, 7, 3600, owner="worker-9", attempts=2)
    watch, = defib("scan", "--json", db=jobs, config=WATCH).json["watches"]
    job, = watch["jobs"]
    told = [job[key] for key in ("key", "verdict", "remedy", "rule", "owner", "attempt")]
    assert told == ["7", "silent", "requeue", "attempts-left", "worker-9", 2]
    assert 3600 <= job["silent_s"] < 3660
    assert job["evidence"]["limit_s"] == 600


def test_json_gives_null_for_what_is_not_known(jobs, defib):
    add(jobs, 1, 3600, owner=None)
    text = WATCH.replace("    attempts: attempts\n    max_attempts: 3\n", "")
    job, = defib("scan", "--json", db=jobs, config=text).json["watches"][0]["jobs"]
    assert job["owner"] is None and job["attempt"] is None


def test_the_totals_of_json_agree_with_its_jobs(jobs, defib):
    for key in range(1, 8):
        add(jobs, key, 3600, attempts=3 if key > 5 else 1)
    add(jobs, 8, 5)
    report = defib("scan", "--fix", "--json", db=jobs, config=WATCH).json
    watch, = report["watches"]
    outcomes = [job["outcome"] for job in watch["jobs"]]
    assert (report["found"], report["recovered"], report["held"]) == (7, 5, 2)
    for scope in (report, watch):
        assert scope["found"] == len(watch["jobs"])
        for name in ("recovered", "held", "changed", "locked"):
            assert scope[name] == outcomes.count(name)
    assert watch["running"] == 8


def test_json_of_a_watch_that_failed_has_the_same_shape(jobs, defib):
    ran = defib("scan", "--json", db=jobs, config=WATCH.replace("table: jobs", "table: jbos"))
    assert ran.code == 3
    watch, = ran.json["watches"]
    assert_shape(watch, OF_WATCH)
    assert 'did you mean "jobs"?' in ran.err and "jbos" in watch["error"]


def test_json_stays_json_whatever_a_row_holds(jobs, defib):
    owner = 'a"b\\c\n\x01 é 💥'
    add(jobs, 1, 3600, owner=owner)
    job, = defib("scan", "--json", db=jobs, config=WATCH).json["watches"][0]["jobs"]
    assert job["owner"] == owner


# ---- exit codes ----

def test_exit_0_when_nothing_is_stuck(jobs, defib):
    add(jobs, 1, 5)
    assert defib("scan", db=jobs, config=WATCH).code == 0


def test_exit_0_when_everything_was_recovered(jobs, defib):
    add(jobs, 1, 3600)
    assert defib("scan", "--fix", db=jobs, config=WATCH).code == 0
    assert states(jobs) == ["queued"]


def test_exit_1_when_stuck_jobs_were_found_and_left(jobs, defib):
    add(jobs, 1, 3600)
    assert defib("scan", db=jobs, config=WATCH).code == 1
    assert states(jobs) == ["running"]


def test_exit_1_when_a_job_is_held_for_a_person(jobs, defib):
    add(jobs, 1, 3600, attempts=3)
    assert defib("scan", "--fix", db=jobs, config=WATCH).code == 1


@pytest.mark.parametrize("args,says", [
    (("scan", "--fixx"), "did you mean --fix?"),
    (("scna",), 'did you mean "scan"?'),
    (("scan", "jbos"), 'did you mean "jobs"?'),
    (("scan", "--limit", "some"), "--limit expects a whole number"),
    (("scan", "--threshold", "soon"), "--threshold expects a duration"),
    (("scan", "--remedy", "pray"), 'there is no remedy "pray"; there are requeue, retry'),
    (("scan", "--fix=yes"), "--fix takes no value"),
    (("scan", "--color", "pink"), 'there is no --color "pink"; there are auto, always and never'),
])
def test_exit_2_on_wrong_usage(lite, defib, args, says):
    make_jobs(lite)
    ran = defib(*args, db=lite, config=WATCH)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err and ran.err.count("\n") == 1


def test_exit_2_when_an_option_lacks_its_value(defib):
    ran = defib("scan", "--limit")
    assert (ran.code, ran.err) == (2, "defib: --limit needs a value\n")


def test_exit_3_when_the_configuration_does_not_fit_the_database(jobs, defib):
    ran = defib("scan", db=jobs, config=WATCH.replace("alive_at: beat", "alive_at: baet"))
    assert ran.code == 3
    assert "alive_at" in ran.err and "defib.yaml:7:15" in ran.err


@pytest.mark.parametrize("url", ["postgres://x@127.0.0.1:1/x", "sqlite:/nowhere/x.db"])
def test_exit_4_when_the_database_cannot_be_had(defib, url):
    ran = defib("scan", db=url, config=WATCH)
    assert (ran.code, ran.err.count("\n")) == (4, 1)


def test_exit_5_when_it_is_refused(jobs, defib):
    add(jobs, 1, 3600)
    unbounded = WATCH.replace("    attempts: attempts\n    max_attempts: 3\n", "")
    ran = defib("scan", "--fix", db=jobs, config=unbounded + "ledger: off\n")
    assert ran.code == 5
    assert states(jobs) == ["running"]


def test_exit_6_when_one_of_two_watches_failed(jobs, defib):
    add(jobs, 1, 3600)
    second = WATCH.split("watches:\n")[1].replace("name: jobs", "name: more")
    text = WATCH + second.replace("table: jobs", "table: none")
    ran = defib("scan", "--fix", db=jobs, config=text)
    assert ran.code == 6
    assert states(jobs) == ["queued"]


def test_exit_6_when_the_database_refused_one_row(jobs, defib):
    make = "CREATE UNIQUE INDEX one_note ON jobs (note)"
    jobs.sql(make)
    add(jobs, 1, 3600)
    add(jobs, 2, 3600)
    ran = defib("scan", "--fix", "--json", db=jobs, config=WATCH, timeout=patience())
    assert ran.code == 6
    assert (ran.json["recovered"], ran.json["refused"]) == (1, 1)
    assert sorted(states(jobs)) == ["queued", "running"]


# ---- options ----

def test_global_options_may_stand_before_the_command(jobs, defib):
    add(jobs, 1, 3600)
    (defib.dir / "f.yaml").write_text(WATCH)
    ran = defib("--json", "-c", "f.yaml", "--db", jobs.url, "scan")
    assert (ran.code, ran.json["found"]) == (1, 1)


def test_named_watches_are_scanned_and_others_not(jobs, defib):
    second = WATCH.split("watches:\n")[1].replace("name: jobs", "name: more")
    ran = defib("scan", "more", "--json", db=jobs, config=WATCH + second)
    assert [w["watch"] for w in ran.json["watches"]] == ["more"]


def test_a_remedy_chosen_by_hand_goes_before_the_rules(jobs, defib):
    add(jobs, 1, 3600)
    ran = defib("scan", "--fix", "--remedy", "fail", "--json", db=jobs, config=WATCH)
    job, = ran.json["watches"][0]["jobs"]
    assert (job["remedy"], job["rule"]) == ("fail", "chosen-by-hand")
    assert states(jobs) == ["failed"]


def test_a_remedy_that_the_watch_cannot_do_is_told(jobs, defib):
    ran = defib("scan", "--remedy", "rollback", db=jobs, config=WATCH)
    assert ran.code == 3
    assert "does not say how to rollback" in ran.err


def test_a_reason_given_by_hand_is_written(jobs, defib):
    add(jobs, 1, 3600)
    defib("scan", "--fix", "--reason", "{owner} was unplugged", db=jobs, config=WATCH)
    assert jobs.sql("SELECT note FROM jobs") == [("w1 was unplugged",)]


def test_a_threshold_of_zero_is_refused(jobs, defib):
    add(jobs, 1, 0)
    ran = defib("scan", "--fix", "--threshold", "0", db=jobs, config=WATCH)
    assert ran.code == 5
    assert states(jobs) == ["running"]


def test_a_dry_run_writes_nothing_at_all(jobs, defib):
    add(jobs, 1, 3600)
    defib("scan", db=jobs, config=WATCH)
    tables = "pg_tables WHERE schemaname = 'defib'" if jobs.engine == "postgres" else (
        "sqlite_master WHERE name LIKE 'defib%'")
    assert jobs.sql(f"SELECT count(*) FROM {tables}") == [(0,)]


def test_what_was_done_is_in_the_ledger_with_the_same_batch(jobs, defib):
    add(jobs, 1, 3600)
    watch, = defib("scan", "--fix", "--json", db=jobs, config=WATCH).json["watches"]
    (batch, job, event, reason, before, after), = jobs.sql(
        f"SELECT batch, job, event, reason, before, after FROM {ledger(jobs)}")
    assert batch.startswith(watch["batch"])
    assert (job, event) == ("1", "REQUEUED")
    assert reason == jobs.sql("SELECT note FROM jobs")[0][0]
    as_dict = lambda v: v if isinstance(v, dict) else json.loads(v)  # noqa: E731
    assert as_dict(before)["state"] == "running" and as_dict(after)["state"] == "queued"


def test_scan_without_any_file(jobs, defib):
    add(jobs, 1, 7200)
    add(jobs, 2, 60)
    args = ("scan", "--db", jobs.url, "--table", "jobs", "--key", "id",
            "--running", "state = 'running'", "--alive-at", "beat", "--stuck-after", "1h",
            "--requeue", "state = 'queued', note = :reason", "--reason", "freed by hand")
    assert defib(*args).code == 1
    assert defib(*args, "--fix").code == 0
    assert jobs.sql("SELECT state, note FROM jobs ORDER BY id") == [
        ("queued", "freed by hand"), ("running", None)]


def test_scan_without_a_file_says_which_part_is_missing(lite, defib):
    make_jobs(lite)
    ran = defib("scan", "--db", lite.url, "--table", "jobs", "--key", "id",
                "--alive-at", "beat", "--stuck-after", "1h")
    assert ran.code == 3
    assert "running" in ran.err


# ---- what goes where ----

def test_data_goes_to_stdout_and_the_rest_to_stderr(jobs, defib):
    add(jobs, 1, 3600)
    ran = defib("scan", "--fix", "--json", "--verbose", db=jobs, config=WATCH)
    assert json.loads(ran.out)["recovered"] == 1
    assert "created the ledger" in ran.err


def test_quiet_leaves_data_and_errors_only(jobs, defib):
    add(jobs, 1, 3600)
    ran = defib("scan", "--quiet", db=jobs, config=WATCH)
    assert ran.err == "" and "1 stuck of 1 running" in ran.out
    ran = defib("scan", "--quiet", db=jobs, config=WATCH.replace("table: jobs", "table: none"))
    assert "none" in ran.err


def test_the_next_step_is_told_after_a_dry_run(jobs, defib):
    add(jobs, 1, 3600)
    assert "--fix" in defib("scan", db=jobs, config=WATCH).err


def on_terminal(defib, *args, env=None, **options):
    """What the program writes when its stdout is a terminal."""
    ours, theirs = pty.openpty()
    child = defib.start(*args, env={"TERM": "xterm", **(env or {})}, stdout=theirs, **options)
    os.close(theirs)
    child.communicate(timeout=patience())
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # a terminal that is closed on the other side
            part = b""
        if not part:
            break
        said += part
    os.close(ours)
    return said.decode()


def test_colours_are_for_terminals(lite, defib):
    make_jobs(lite)
    add(lite, 1, 3600)
    assert "\033[" in on_terminal(defib, "scan", db=lite, config=WATCH)
    assert "\033[" not in defib("scan", db=lite, config=WATCH, env={"TERM": "xterm"}).out


@pytest.mark.parametrize("args,env", [((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"}),
                                      (("--color", "never"), {})])
def test_colours_can_be_turned_off(lite, defib, args, env):
    make_jobs(lite)
    add(lite, 1, 3600)
    said = on_terminal(defib, "scan", *args, db=lite, config=WATCH, env=env)
    assert "1 stuck of 1 running" in said and "\033[" not in said


def test_colours_can_be_forced(lite, defib):
    make_jobs(lite)
    add(lite, 1, 3600)
    ran = defib("scan", "--color", "always", db=lite, config=WATCH, env={"NO_COLOR": "1"})
    assert "\033[" in ran.out


def test_a_terminal_does_not_obey_what_a_row_holds(lite, defib):
    make_jobs(lite)
    add(lite, 1, 3600, owner="\033[31mred\007\nnext")
    ran = defib("scan", db=lite, config=WATCH)
    assert "\033" not in ran.out and "\007" not in ran.out
    assert len(ran.out.splitlines()) == 3


def test_many_jobs_are_summed_up_for_a_person_and_listed_in_json(lite, defib):
    make_jobs(lite)
    for key in range(50):
        add(lite, key, 3600)
    assert re.search(r"and 30 more", defib("scan", db=lite, config=WATCH).out)
    assert len(defib("scan", "--json", db=lite, config=WATCH).json["watches"][0]["jobs"]) == 50


def test_a_reader_that_went_away_is_no_crash(lite, defib):
    make_jobs(lite)
    for key in range(2000):
        add(lite, key, 3600)
    child = defib.start("scan", "--json", db=lite, config=WATCH)
    child.stdout.close()
    child.stdout = None
    assert child.wait(patience()) >= 0
    child.stderr.close()


# ---- passwords ----

URLS = [
    "postgres://u:{}@127.0.0.1:{}/d",
    "postgresql://127.0.0.1:{1}/d?user=u&password={0}",
]


@pytest.mark.parametrize("joined", [False, True], ids=["--db URL", "--db=URL"])
@pytest.mark.parametrize("url", URLS, ids=["user info", "query"])
def test_a_password_is_wiped_from_the_process_list(defib, url, joined):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        given = url.format(PASSWORD, listener.getsockname()[1])
        args = [f"--db={given}"] if joined else ["--db", given]
        (defib.dir / "w.yaml").write_text(WATCH)
        child = defib.start("scan", "-c", "w.yaml", *args)
        try:
            # It has read its arguments when it connects; then it waits for a greeting.
            session, _ = listener.accept()
            title = pathlib.Path(f"/proc/{child.pid}/cmdline").read_bytes().decode()
            session.close()
        finally:
            out, err = child.communicate(timeout=patience())
    assert "scan" in title and "127.0.0.1" in title
    assert PASSWORD not in title
    assert PASSWORD not in out + err


@pytest.mark.parametrize("args", [
    ("scan",), ("scan", "--json", "--verbose"), ("explain", "jobs", "1"), ("sql", "jobs"),
    ("config", "show"), ("config", "check")])
def test_a_password_is_never_printed(defib, args):
    ran = defib(*args, db=f"postgres://u:{PASSWORD}@127.0.0.1:1/d", config=WATCH)
    assert PASSWORD not in ran.out + ran.err


def test_jobs_that_were_on_hold_before_are_shown_and_are_no_news(db, defib):
    """Exit 1 says that there is something new for a person: held once, it is said once."""
    stuck_jobs.make(db, 1)
    config = stuck_jobs.config(db, remedies="[{do: hold}]")
    assert defib("scan", "--fix", config=config).code == 1
    for how in ((), ("--fix",)):
        ran = defib("scan", *how, config=config)
        assert ran.code == 0, how
        assert "1 stuck of 1 running" in ran.out and "1 already on hold" in ran.out
        assert defib("scan", *how, "--json", config=config).json["held"] == 1
    stuck_jobs.fill(db, 1, first=2)
    assert defib("scan", config=config).code == 1
    assert defib("scan", "--fix", config=config).code == 1


def test_a_limit_is_on_what_is_looked_at_and_not_on_how_many_are_called_stuck(defib, db):
    stuck_jobs.make(db, 7)
    ran = defib("scan", "--limit", "2", config=stuck_jobs.config(db))
    assert "7 stuck of 7 running, 2 examined" in ran.out, ran.out
    told = defib("scan", "--limit", "2", "--json", config=stuck_jobs.config(db)).json["watches"][0]
    assert (told["found"], told["stuck"], told["limited"]) == (2, 7, True)
    told = defib("scan", "--limit", "7", "--json", config=stuck_jobs.config(db)).json["watches"][0]
    assert (told["found"], told["stuck"], told["limited"]) == (7, 7, False)
