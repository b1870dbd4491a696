# SPDX-License-Identifier: Apache-2.0
"""What a watch can express, each option on a table of its own, on both engines."""

import datetime
import json
import re

import pytest

from harness.example_systems import ago, holds, ledger

pytestmark = pytest.mark.sanitized
UTC = datetime.timezone.utc


def scan(defib, db, watch, *args, **options):
    """One watch, written as its lines."""
    lines = "".join(f"    {line}\n" for line in watch.strip().splitlines())
    text = f"watches:\n  - name: w\n{lines}"
    return defib("scan", "--json", *args, config=text, db=options.pop("url", db), **options)


def keys(ran):
    watch, = ran.json["watches"]
    assert watch["error"] is None, watch["error"]
    return [job["key"] for job in watch["jobs"]]


# ---- five ways to write time ----

def instant(seconds):
    return datetime.datetime.now(UTC) - datetime.timedelta(seconds=seconds)


def as_naive(when):
    return when.replace(tzinfo=None)


def as_text(when):
    return when.strftime("%Y-%m-%d %H:%M:%S")


def as_iso(when):
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def as_epoch(when):
    return int(when.timestamp())


def as_epoch_ms(when):
    return int(when.timestamp() * 1000)


def from_naive(value):
    return value.replace(tzinfo=UTC)


def from_epoch(value):
    return datetime.datetime.fromtimestamp(value, UTC)


def from_epoch_ms(value):
    return from_epoch(value / 1000)


def from_text(value):
    return datetime.datetime.fromisoformat(value.replace("Z", "")).replace(tzinfo=UTC)


TEXT_FORM = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$")
ISO_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
# engine, the column's type, time_type, how a test writes it, how it reads what defib wrote
TIMES = [
    ("postgres", "timestamptz", "auto", lambda w: w, lambda v: v),
    ("postgres", "timestamp", "auto", as_naive, from_naive),
    ("postgres", "timestamp", "utc", as_naive, from_naive),
    ("postgres", "integer", "auto", as_epoch, from_epoch),
    ("postgres", "bigint", "auto", as_epoch, from_epoch),
    ("postgres", "bigint", "epoch", as_epoch, from_epoch),
    ("postgres", "bigint", "auto", as_epoch_ms, from_epoch_ms),
    ("postgres", "bigint", "epoch_ms", as_epoch_ms, from_epoch_ms),
    ("postgres", "double precision", "auto", lambda w: w.timestamp(), from_epoch),
    ("postgres", "text", "auto", as_text, from_text),
    ("postgres", "text", "text", as_iso, from_text),
    ("sqlite", "text", "auto", as_text, from_text),
    ("sqlite", "text", "auto", as_iso, from_text),
    ("sqlite", "text", "text", as_text, from_text),
    ("sqlite", "timestamp", "utc", as_text, from_text),
    ("sqlite", "integer", "auto", as_epoch, from_epoch),
    ("sqlite", "integer", "epoch", as_epoch, from_epoch),
    ("sqlite", "integer", "auto", as_epoch_ms, from_epoch_ms),
    ("sqlite", "integer", "epoch_ms", as_epoch_ms, from_epoch_ms),
    ("sqlite", "real", "epoch", lambda w: w.timestamp(), from_epoch),
]


@pytest.fixture(params=TIMES, ids=lambda t: f"{t[0]}-{t[1]}-{t[2]}-{t[3].__name__}")
def timed(request):
    """A table with that kind of time, in a database that does not live in UTC."""
    engine, column, time_type, write, read = request.param
    db = request.getfixturevalue({"postgres": "pg", "sqlite": "lite"}[engine])
    if engine == "postgres":
        db.sql(f"ALTER DATABASE {db.name} SET TimeZone = 'America/New_York'")
    db.sql(f"CREATE TABLE j (id integer PRIMARY KEY, s text, at {column})")
    for key, seconds in ((1, 3600), (2, 540), (3, 660)):
        db.sql("INSERT INTO j VALUES (%s, 'run', %s)", key, write(instant(seconds)))
    db.watch = (f"table: j\nkey: id\nrunning: s = 'run'\nalive_at: at\nstuck_after: 10m\n"
                f"time_type: {time_type}\nrequeue: s = 'new', at = :now")
    db.read, db.write = read, write
    return db


def test_each_way_of_writing_time_is_judged_right(timed, defib):
    ran = scan(defib, timed, timed.watch)
    assert keys(ran) == ["1", "3"]
    first = ran.json["watches"][0]["jobs"][0]
    assert 3599 <= first["silent_s"] < 3660


def test_now_is_written_the_way_the_column_is(timed, defib):
    assert scan(defib, timed, timed.watch, "--fix").code == 0
    written, = timed.sql("SELECT at FROM j WHERE id = 1")[0]
    assert abs((timed.read(written) - datetime.datetime.now(UTC)).total_seconds()) < 60
    if isinstance(written, str):
        form = ISO_FORM if timed.write is as_iso else TEXT_FORM
        assert form.match(written)
    else:
        assert type(written) is type(timed.write(instant(0)))


def test_a_date_far_away_is_no_trouble(pg, defib):
    pg.sql("CREATE TABLE j (id integer, s text, at timestamptz)")
    pg.sql("INSERT INTO j VALUES (1, 'run', '-infinity'), (2, 'run', 'infinity'),"
           " (3, 'run', '0001-01-01'), (4, 'run', NULL)")
    watch = ROWS + "alive_at: at\nstuck_after: 10m"
    assert keys(scan(defib, pg, watch)) == ["3"]


def test_a_column_that_is_no_time_is_told(pg, defib):
    pg.sql("CREATE TABLE j (id integer, s text, at boolean)")
    ran = scan(defib, pg, "table: j\nkey: id\nrunning: s = 'run'\nalive_at: at\nstuck_after: 10m")
    assert ran.code == 3
    assert "type boolean is not a time" in ran.err and "alive_at" in ran.err


# ---- signs of life ----

SIGNS = "CREATE TABLE j (id integer PRIMARY KEY, s text, a {t}, e {t}, b {t}, w text)"
ROWS = "table: j\nkey: id\nrunning: s = 'run'\nrequeue: s = 'new'\n"


@pytest.fixture
def signs(db):
    db.sql(SIGNS.format(t="timestamptz" if db.engine == "postgres" else "text"))
    return db


def put(db, key, worker=None, **ages):
    """A running row; each of a, e, b is that many seconds ago (negative: ahead)."""
    def when(seconds):
        if seconds is None:
            return "NULL"
        if db.engine == "postgres":
            return f"now() - interval '{seconds} seconds'"
        return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '{-seconds:+d} seconds')"
    db.sql(f"INSERT INTO j VALUES (%s, 'run', {when(ages.get('a'))}, {when(ages.get('e'))},"
           f" {when(ages.get('b'))}, %s)", key, worker)


def verdicts(ran):
    return {job["key"]: job["verdict"] for job in ran.json["watches"][0]["jobs"]}


def test_alive_at_is_silent_when_it_is_too_old(signs, defib):
    put(signs, 1, a=700)
    put(signs, 2, a=500)
    put(signs, 3, a=-100)
    assert verdicts(scan(defib, signs, ROWS + "alive_at: a\nstuck_after: 10m")) == {"1": "silent"}


def test_expires_at_is_stuck_when_the_deadline_has_passed(signs, defib):
    put(signs, 1, e=5)
    put(signs, 2, e=-60)
    assert verdicts(scan(defib, signs, ROWS + "expires_at: e")) == {"1": "silent"}


def test_stuck_after_is_slack_behind_a_deadline(signs, defib):
    put(signs, 1, e=5)
    put(signs, 2, e=90)
    assert verdicts(scan(defib, signs, ROWS + "expires_at: e\nstuck_after: 1m")) == {"2": "silent"}


def test_started_at_is_overdue_when_it_ran_too_long(signs, defib):
    put(signs, 1, b=700)
    put(signs, 2, b=500)
    found = scan(defib, signs, ROWS + "started_at: b\noverdue_after: 10m")
    assert verdicts(found) == {"1": "overdue"}


def test_a_beating_job_can_be_overdue_and_an_early_one_silent(signs, defib):
    put(signs, 1, a=1, b=700)
    put(signs, 2, a=700, b=1)
    put(signs, 3, a=1, b=1)
    found = scan(defib, signs, ROWS + "alive_at: a\nstuck_after: 5m\n"
                 "started_at: b\noverdue_after: 10m")
    assert verdicts(found) == {"1": "overdue", "2": "silent"}


def test_a_null_is_never_stuck(signs, defib):
    put(signs, 1)
    assert verdicts(scan(defib, signs, ROWS + "alive_at: a\nstuck_after: 10m")) == {}


def test_a_null_is_an_orphan_where_the_watch_says_so(signs, defib):
    put(signs, 1)
    put(signs, 2, a=1)
    found = scan(defib, signs, ROWS + "alive_at: a\nstuck_after: 10m\nmissing: orphan")
    assert verdicts(found) == {"1": "orphan"}


WORKERS = "CREATE TABLE workers (name text PRIMARY KEY, seen {t}, up boolean)"
OTHER = ROWS + ("alive_at: (SELECT p.seen FROM workers p WHERE p.name = t.w)\nstuck_after: 10m\n"
                "owner: w\nmissing: orphan")


def test_a_sign_of_life_in_another_table_and_a_worker_that_is_not_there(signs, defib):
    signs.sql(WORKERS.format(t="timestamptz" if signs.engine == "postgres" else "text"))
    signs.sql(f"INSERT INTO workers (name, seen) VALUES ('lives', {ago(signs, 5)}),"
              f" ('silent', {ago(signs, 900)})")
    for key, worker in ((1, "lives"), (2, "silent"), (3, "gone"), (4, None)):
        put(signs, key, worker)
    found = scan(defib, signs, OTHER, "--fix")
    assert verdicts(found) == {"2": "silent", "3": "orphan", "4": "orphan"}
    assert found.json["recovered"] == 3
    assert signs.sql("SELECT id FROM j WHERE s = 'run'") == [(1,)]


def test_what_is_known_of_the_owner_goes_before_the_age(signs, defib):
    signs.sql(WORKERS.format(t="text"))
    signs.sql("INSERT INTO workers VALUES ('lives', NULL, true), ('dead', NULL, false)")
    for key, worker in ((1, "lives"), (2, "dead"), (3, "unknown")):
        put(signs, key, worker, a=900)
        put(signs, key + 10, worker, a=5)
    alive = "owner_alive: (SELECT p.up FROM workers p WHERE p.name = t.w)"
    found = scan(defib, signs, ROWS + f"alive_at: a\nstuck_after: 10m\nowner: w\n{alive}")
    assert verdicts(found) == {"2": "dead", "12": "dead", "3": "silent"}


def test_an_owner_known_to_live_can_be_overdue(signs, defib):
    put(signs, 1, "w", a=900, b=900)
    found = scan(defib, signs, ROWS + "alive_at: a\nstuck_after: 10m\nstarted_at: b\n"
                                      "overdue_after: 10m\nowner_alive: w = 'w'")
    assert verdicts(found) == {"1": "overdue"}


def test_what_is_known_of_the_owner_is_enough(signs, defib):
    put(signs, 1, "dead")
    put(signs, 2, "other")
    found = scan(defib, signs, ROWS + "owner_alive: w <> 'dead'\nowner: w", "--fix")
    assert verdicts(found) == {"1": "dead"} and found.json["recovered"] == 1


# ---- keys and owners ----

def test_a_composite_key_names_exactly_one_row(db, defib):
    db.sql(f"CREATE TABLE j (task_name text, task_instance text, s text,"
           f" at {'timestamptz' if db.engine == 'postgres' else 'text'},"
           f" PRIMARY KEY (task_name, task_instance))")
    rows = ("a", "b", 900), ("a", "c", 5), ("d", "b", 5), ('q"', "x,y", 900)
    for name, instance, seconds in rows:
        db.sql(f"INSERT INTO j VALUES (%s, %s, 'run', {ago(db, seconds)})", name, instance)
    watch = ("table: j\nkey: [task_name, task_instance]\nrunning: s = 'run'\nalive_at: at\n"
             "stuck_after: 10m\nrequeue: s = 'new ' || :task_instance")
    found = scan(defib, db, watch, "--fix")
    assert sorted(keys(found)) == [["a", "b"], ['q"', "x,y"]]
    assert db.sql("SELECT task_name, s FROM j WHERE s <> 'run' ORDER BY 1") == [
        ("a", "new b"), ('q"', "new x,y")]


def test_the_owner_may_be_the_last_of_an_array(pg, defib):
    pg.sql("CREATE TABLE j (id integer, s text, at timestamptz, attempted_by text[])")
    pg.sql("INSERT INTO j VALUES (1, 'run', now() - interval '1 hour', '{first,second}'),"
           " (2, 'run', now() - interval '1 hour', '{}')")
    watch = ("table: j\nkey: id\nrunning: s = 'run'\nalive_at: at\nstuck_after: 10m\n"
             "requeue: s = 'new'\nowner: attempted_by[array_length(attempted_by, 1)]")
    jobs = scan(defib, pg, watch, "--fix").json["watches"][0]["jobs"]
    assert {job["key"]: job["owner"] for job in jobs} == {"1": "second", "2": None}
    assert pg.sql("SELECT count(*) FROM j WHERE s = 'new'") == [(2,)]


# ---- remedies ----

SOLID = """
CREATE TABLE solid_queue_jobs (id integer PRIMARY KEY, queue_name text, priority integer);
CREATE TABLE solid_queue_processes (id integer PRIMARY KEY, last_heartbeat_at {t});
CREATE TABLE solid_queue_claimed_executions (id integer PRIMARY KEY, job_id integer,
  process_id integer);
CREATE TABLE solid_queue_ready_executions (job_id integer, queue_name text, priority integer,
  created_at {t});
INSERT INTO solid_queue_jobs VALUES (1, 'mail', 5), (2, 'mail', 6), (3, 'web', 7);
INSERT INTO solid_queue_processes VALUES (10, {fresh}), (11, {stale});
INSERT INTO solid_queue_claimed_executions VALUES (100, 1, 10), (101, 2, 11), (102, 3, 99);
"""
SOLID_WATCH = """
table: solid_queue_claimed_executions
key: id
running: "true"
alive_at: (SELECT p.last_heartbeat_at FROM solid_queue_processes p WHERE p.id = t.process_id)
missing: orphan
time_type: utc
beat: 60s
stuck_after: 5m
requeue:
  sql:
    - INSERT INTO solid_queue_ready_executions (job_id, queue_name, priority, created_at)
      SELECT j.id, j.queue_name, j.priority, s.now FROM stuck s
      JOIN solid_queue_claimed_executions c ON c.id = s.id
      JOIN solid_queue_jobs j ON j.id = c.job_id
    - {delete}
"""
SOLID_DELETE = {
    "postgres": "DELETE FROM solid_queue_claimed_executions c USING stuck s WHERE c.id = s.id",
    "sqlite": "DELETE FROM solid_queue_claimed_executions WHERE id IN (SELECT id FROM stuck)",
}


def test_requeue_as_statements_over_stuck(db, defib):
    utc = (lambda e: f"({e}) AT TIME ZONE 'UTC'") if db.engine == "postgres" else (lambda e: e)
    db.sql(SOLID.format(t="timestamp" if db.engine == "postgres" else "text",
                        fresh=utc(ago(db, 5)), stale=utc(ago(db, 900))))
    ran = scan(defib, db, SOLID_WATCH.format(delete=SOLID_DELETE[db.engine]), "--fix")
    assert (ran.code, ran.json["recovered"]) == (0, 2)
    ready = "solid_queue_ready_executions"
    assert db.sql(f"SELECT job_id, queue_name, priority FROM {ready} ORDER BY 1") == [
        (2, "mail", 6), (3, "web", 7)]
    assert db.sql("SELECT id FROM solid_queue_claimed_executions") == [(100,)]
    assert db.sql(f"SELECT count(*) FROM {ready} WHERE created_at IS NULL") == [(0,)]


def test_a_statement_may_have_a_with_of_its_own(signs, defib):
    put(signs, 1, a=900)
    watch = ROWS.replace("requeue: s = 'new'", "requeue:\n  sql:\n"
                         "    - WITH x AS (SELECT id FROM stuck) UPDATE j SET s = 'new'"
                         " WHERE id IN (SELECT id FROM x)")
    assert scan(defib, signs, watch + "alive_at: a\nstuck_after: 10m", "--fix").code == 0
    assert signs.sql("SELECT s FROM j") == [("new",)]


def test_requeue_as_a_function_call(pg, defib):
    pg.sql("CREATE TABLE j (id integer, s text, at timestamptz)")
    pg.sql("CREATE TABLE called (id integer, at timestamptz, why text)")
    pg.sql("CREATE FUNCTION give_back(bigint, timestamptz, text) RETURNS void LANGUAGE sql AS"
           " 'UPDATE j SET s = ''new'' WHERE id = $1; INSERT INTO called VALUES ($1, $2, $3)'")
    pg.sql("INSERT INTO j VALUES (1, 'run', now() - interval '1 hour'), (2, 'run', now())")
    watch = ("table: j\nkey: id\nrunning: s = 'run'\nalive_at: at\nstuck_after: 10m\n"
             "reason: gone\nrequeue: {call: \"give_back(:id, :now, :reason)\"}")
    assert scan(defib, pg, watch, "--fix").json["recovered"] == 1
    assert pg.sql("SELECT id, s FROM j ORDER BY id") == [(1, "new"), (2, "run")]
    assert pg.sql("SELECT id, why, now() - at < '1 minute' FROM called") == [(1, "gone", True)]


ALIVE = ROWS + "alive_at: a\nstuck_after: 10m\n"
HOLD = ALIVE + "owner: w\nremedies: [{do: hold}]"


def test_a_hold_without_words_of_the_table_is_a_row_of_ours(signs, defib):
    put(signs, 1, "w1", a=900)
    before = signs.sql("SELECT * FROM j")
    ran = scan(defib, signs, HOLD, "--fix")
    assert (ran.code, ran.json["held"], ran.json["recovered"]) == (1, 1, 0)
    assert signs.sql("SELECT * FROM j") == before
    assert signs.sql(f"SELECT watch, job, owner FROM {holds(signs)}") == [("w", "1", "w1")]


def test_a_held_job_stays_held_and_is_not_written_again(signs, defib):
    put(signs, 1, "w1", a=900)
    scan(defib, signs, HOLD, "--fix")
    ran = scan(defib, signs, HOLD, "--fix")
    job, = ran.json["watches"][0]["jobs"]
    assert (ran.code, ran.json["held"], job["rule"]) == (0, 1, "already-held")
    assert signs.sql(f"SELECT count(*) FROM {ledger(signs)}") == [(1,)]
    # Another rule does not recover it either: only an operator does.
    assert scan(defib, signs, ALIVE + "owner: w", "--fix").json["held"] == 1


@pytest.mark.parametrize("change", ["a", "w"], ids=["sign of life", "owner"])
def test_a_hold_ends_when_the_job_moves_on(signs, defib, change):
    put(signs, 1, "w1", a=900)
    scan(defib, signs, HOLD, "--fix")
    moved = f"a = {ago(signs, 800)}" if change == "a" else "w = 'w2'"
    signs.sql(f"UPDATE j SET {moved}")
    ran = scan(defib, signs, ALIVE + "owner: w", "--fix")
    assert ran.json["recovered"] == 1
    assert signs.sql("SELECT s FROM j") == [("new",)]


def run_again(db):
    db.sql(f"UPDATE j SET s = 'run', a = {ago(db, 900)}")


@pytest.mark.covers("F8")
def test_the_third_recovery_within_the_budget_is_held_as_poison(signs, defib):
    put(signs, 1, a=900)
    rules = []
    for _ in range(3):
        ran = scan(defib, signs, ALIVE, "--fix")
        rules += [job["rule"] for job in ran.json["watches"][0]["jobs"]]
        if ran.json["recovered"]:
            run_again(signs)
    assert rules == ["attempts-left", "attempts-left", "crash-budget"]
    assert signs.sql("SELECT s FROM j") == [("run",)]
    assert signs.sql(f"SELECT cause FROM {holds(signs)}") == [("poison",)]
    (evidence,), = signs.sql(f"SELECT evidence FROM {ledger(signs)} WHERE event = 'HELD'")
    evidence = evidence if isinstance(evidence, dict) else json.loads(evidence)
    assert [r["verdict"] for r in evidence["recoveries"]] == ["silent", "silent"]


def test_recoveries_of_long_ago_do_not_count(signs, defib):
    put(signs, 1, a=900)
    for _ in range(2):
        scan(defib, signs, ALIVE, "--fix")
        run_again(signs)
    past = ago(signs, 73 * 3600) if signs.engine == "postgres" else (
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-73 hours')")
    signs.sql("ALTER TABLE defib.ledger DISABLE TRIGGER USER" if signs.engine == "postgres"
              else "DROP TRIGGER defib_ledger_no_update")
    signs.sql(f"UPDATE {ledger(signs)} SET at = {past}")
    assert scan(defib, signs, ALIVE, "--fix").json["recovered"] == 1


def test_a_budget_of_the_user_s_own(signs, defib):
    put(signs, 1, a=900)
    ran = scan(defib, signs, ALIVE + "crash_budget: {max: 1, within: 1h}", "--fix")
    assert (ran.json["recovered"], ran.json["held"]) == (0, 1)


def test_without_a_budget_it_is_given_back_for_ever(signs, defib):
    put(signs, 1, a=900)
    for _ in range(4):
        assert scan(defib, signs, ALIVE + "crash_budget: off", "--fix").json["recovered"] == 1
        run_again(signs)


def test_rules_are_tried_in_their_order_with_all_their_terms(signs, defib):
    put(signs, 1, "keep", a=900)
    put(signs, 2, "heavy", a=900)
    put(signs, 3, "light", a=900)
    put(signs, 4, "light", a=1, b=900)
    watch = ALIVE + ("started_at: b\noverdue_after: 10m\nkind: w\nfail: s = 'failed'\n"
                     "remedies:\n  - {when: \"w = 'keep'\", do: report}\n"
                     "  - {kind: heavy, do: fail}\n  - {verdict: overdue, do: hold}\n"
                     "  - {do: requeue}")
    jobs = scan(defib, signs, watch, "--fix").json["watches"][0]["jobs"]
    assert {job["key"]: (job["rule"], job["remedy"]) for job in jobs} == {
        "1": ("rule-1", "report"), "2": ("rule-2", "fail"), "4": ("rule-3", "hold"),
        "3": ("rule-4", "requeue")}
    assert signs.sql("SELECT id, s FROM j ORDER BY id") == [
        (1, "run"), (2, "failed"), (3, "new"), (4, "run")]


def test_a_rule_by_crashes_counts_this_one_too(signs, defib):
    put(signs, 1, a=900)
    watch = ALIVE + ("crash_budget: off\nfail: s = 'failed'\n"
                     "remedies: [{crashes: 2, do: fail}, {do: requeue}]")
    assert scan(defib, signs, watch, "--fix").json["watches"][0]["jobs"][0]["remedy"] == "requeue"
    run_again(signs)
    assert scan(defib, signs, watch, "--fix").json["watches"][0]["jobs"][0]["remedy"] == "fail"


def test_attempts_of_the_table_bound_the_default(signs, defib):
    put(signs, 1, "2", a=900)
    put(signs, 2, "3", a=900)
    tries = "cast(w AS integer)"
    ran = scan(defib, signs, ALIVE + f"attempts: {tries}\nmax_attempts: 3", "--fix")
    rules = {job["key"]: job["rule"] for job in ran.json["watches"][0]["jobs"]}
    assert rules == {"1": "attempts-left", "2": "attempts-exhausted"}


def test_a_retry_is_due_after_its_backoff(signs, defib):
    put(signs, 1, "2", a=900)
    watch = ALIVE + ("attempts: cast(w AS integer)\nmax_attempts: 5\nremedies: [{do: retry}]\n"
                     "retry: s = 'new', e = :retry_at\nbackoff: {base: 60s, factor: 2}")
    assert scan(defib, signs, watch, "--fix").json["recovered"] == 1
    ahead = ("extract(epoch FROM e - now())::float" if signs.engine == "postgres"
             else "(julianday(e) - julianday('now')) * 86400")
    assert 200 < signs.sql(f"SELECT {ahead} FROM j")[0][0] <= 241


def test_rows_of_one_pass_are_bounded_by_the_watch_s_limit(signs, defib):
    for key in range(1, 6):
        put(signs, key, a=900 + key)
    ran = scan(defib, signs, ALIVE + "limit: 3", "--fix")
    assert ran.json["recovered"] == 3 and ran.json["watches"][0]["limited"]
    assert signs.sql("SELECT id FROM j WHERE s = 'run' ORDER BY id") == [(1,), (2,)]


def test_batches_smaller_than_the_work_do_all_of_it(signs, defib):
    for key in range(1, 26):
        put(signs, key, a=900 + key)
    ran = scan(defib, signs, ALIVE + "batch: 4", "--fix")
    assert ran.json["recovered"] == 25
    assert signs.sql(f"SELECT count(DISTINCT batch), count(*) FROM {ledger(signs)}") == [(7, 25)]


# ---- with and without the ledger ----

@pytest.fixture
def worker_url(pg):
    """A role that may work on the table, and nothing else."""
    role = f"worker_{pg.name}"
    pg.sql(SIGNS.format(t="timestamptz"))
    pg.sql(f"CREATE ROLE {role} LOGIN")
    pg.sql(f"GRANT SELECT, UPDATE ON j TO {role}")
    yield pg.server.url(pg.name, user=role)
    pg.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_without_the_right_to_make_a_ledger_an_unbounded_requeue_is_refused(pg, defib, worker_url):
    put(pg, 1, a=900)
    ran = scan(defib, pg, ALIVE, "--fix", url=worker_url)
    assert ran.code == 5
    assert "could loop forever" in ran.err and "crash_budget: off" in ran.err
    assert pg.sql("SELECT s FROM j") == [("run",)]


@pytest.mark.parametrize("bound", ["attempts: 1\nmax_attempts: 3", "crash_budget: off"])
def test_without_the_right_a_bounded_or_accepted_loop_works(pg, defib, worker_url, bound):
    put(pg, 1, a=900)
    ran = scan(defib, pg, ALIVE + bound, "--fix", url=worker_url)
    assert (ran.code, ran.json["recovered"]) == (0, 1)
    assert "hold, undo and crash budget are off" in ran.err
    assert pg.sql("SELECT s FROM j") == [("new",)]


def test_without_a_ledger_a_hold_is_only_reported(pg, defib, worker_url):
    put(pg, 1, "w", a=900)
    ran = scan(defib, pg, HOLD, "--fix", url=worker_url)
    job, = ran.json["watches"][0]["jobs"]
    assert (ran.code, job["remedy"], job["rule"]) == (1, "report", "no-ledger")


def test_a_dry_run_needs_no_rights_but_reading(pg, defib, worker_url):
    put(pg, 1, a=900)
    pg.sql(f"REVOKE UPDATE ON j FROM worker_{pg.name}")
    assert keys(scan(defib, pg, ALIVE, url=worker_url)) == ["1"]


def test_ledger_off_makes_nothing_and_says_what_is_off(signs, defib):
    put(signs, 1, a=900)
    lines = "".join(f"    {line}\n" for line in (ALIVE + "crash_budget: off").splitlines())
    ran = defib("scan", "--fix", config=f"ledger: off\nwatches:\n  - name: w\n{lines}", db=signs)
    assert ran.code == 0 and "no ledger (ledger: off)" in ran.err
    tables = "pg_tables WHERE schemaname = 'defib'" if signs.engine == "postgres" else (
        "sqlite_master WHERE name LIKE 'defib%'")
    assert signs.sql(f"SELECT count(*) FROM {tables}") == [(0,)]
    assert signs.sql("SELECT s FROM j") == [("new",)]
