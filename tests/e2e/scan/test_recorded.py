# SPDX-License-Identifier: Apache-2.0
"""What a remedy writes is in the ledger, or it is not written; and what it leaves was recovered."""

import json

import pytest

from harness import stuck_jobs
from harness.example_systems import ago

PARTITIONED = """
CREATE TABLE parts (id bigint NOT NULL, status text NOT NULL, updated_at timestamptz NOT NULL,
    attempts int DEFAULT 0, error text, PRIMARY KEY (id, status)) PARTITION BY LIST (status);
CREATE TABLE parts_running PARTITION OF parts FOR VALUES IN ('running');
CREATE TABLE parts_rest PARTITION OF parts DEFAULT;
INSERT INTO parts (id, status, updated_at, attempts) VALUES
    (1, 'running', now() - interval '2 hours', 0), (2, 'running', now() - interval '2 hours', 9)
"""
# The trigger changes a row's key: the configuration does not show that.
RENAMES = {
    "postgres": "CREATE FUNCTION rename() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := "
                "NEW.id + 1000; RETURN NEW; END'; CREATE TRIGGER rename BEFORE UPDATE ON jobs "
                "FOR EACH ROW WHEN (OLD.id = 2) EXECUTE FUNCTION rename()",
}


def watch(db, **changes):
    lines = {"table": "jobs", "key": "id", "running": "status = 'running'",
             "alive_at": "updated_at", "stuck_after": "1h",
             "requeue": "status = 'queued', error = :reason, updated_at = :now",
             "reason": stuck_jobs.REASON, **changes}
    return (f"databases:\n  - {{name: main, url: '{db.url}'}}\nwatches:\n  - name: jobs\n"
            + "".join(f"    {name}: {value}\n" for name, value in lines.items() if value))


def entries(db, event="REQUEUED"):
    if not stuck_jobs.has_ledger(db):
        return []
    return [job for job, in db.sql(
        f"SELECT job FROM {stuck_jobs.ledger(db)} WHERE event = %s ORDER BY id", event)]


def statuses(db):
    return [s for s, in db.sql("SELECT status FROM jobs ORDER BY id")]


# ---- keys

def test_a_remedy_that_writes_the_key_is_refused_before_anything_is_written(pg, defib):
    """A table partitioned by status: the requeued row had another key, and was in no ledger."""
    pg.sql(PARTITIONED)
    config = watch(pg, table="parts", key="[id, status]", attempts="attempts", max_attempts=3)
    for command in (("config", "check"), ("scan", "--fix"), ("doctor",)):
        ran = defib(*command, config=config)
        assert ran.code == 3 and "requeue writes status, a column of the key" in ran.err + ran.out
    assert pg.sql("SELECT count(*) FROM parts WHERE status = 'running'") == [(2,)]
    ran = defib("scan", "--fix", config=config.replace("[id, status]", "id"))
    assert pg.sql("SELECT id, status FROM parts ORDER BY id") == [(1, "queued"), (2, "running")]
    assert (ran.code, entries(pg), entries(pg, "HELD")) == (1, ["1"], ["2"]), ran.out


@pytest.mark.parametrize("list_name", ["claim", "done", "release"])
def test_a_worker_s_list_that_writes_the_key_is_refused(lite, defib, list_name):
    work = {"ready": "status = 'queued'", "claim": "status = 'running'", "command": "[true]",
            list_name: "id = id + 1"}
    block = "".join(f"\n      {name}: {value}" for name, value in work.items())
    ran = defib("config", "check", config=watch(lite, work=block))
    assert ran.code == 3 and f"work.{list_name} writes id, a column of the key" in ran.err


def test_a_key_that_a_trigger_changes_takes_nothing_else_with_it(pg, defib):
    stuck_jobs.make(pg, 3)
    pg.sql(RENAMES["postgres"])
    config = watch(pg)
    ran = defib("scan", "--fix", "--json", config=config)
    assert ran.code == 6, ran.err
    assert pg.sql("SELECT id, status FROM jobs ORDER BY id") == [
        (1, "queued"), (2, "running"), (3, "queued")]
    assert sorted(entries(pg)) == ["1", "3"]
    refused = [j for j in ran.json["watches"][0]["jobs"] if j["outcome"] == "refused"]
    assert [j["key"] for j in refused] == ["2"] and "changes its key" in json.dumps(refused)


def test_a_key_that_a_trigger_changes_is_refused_by_the_function_too(pg, defib):
    stuck_jobs.make(pg, 3)
    pg.sql(RENAMES["postgres"])
    assert defib("install", "jobs", "--yes", config=watch(pg)).code == 0
    assert pg.sql("SELECT defib.recover_jobs()") == [(2,)]
    assert pg.sql("SELECT id, status FROM jobs ORDER BY id") == [
        (1, "queued"), (2, "running"), (3, "queued")]
    assert sorted(entries(pg)) == ["1", "3"]


def shared_key(db):
    """Two rows of one key, one of them stuck, beside a good one."""
    time = {"postgres": "timestamptz", "sqlite": "TEXT"}[db.engine]
    db.sql(f"CREATE TABLE jobs (id integer, status text, updated_at {time}, error text)")
    for job, status, age in ((1, "running", 7200), (1, "done", 7200), (2, "running", 7200),
                             (3, "running", 7200), (3, "running", 7200)):
        db.sql(f"INSERT INTO jobs VALUES (%s, %s, {ago(db, age)}, NULL)", job, status)


STATEMENT = {"sql": ["UPDATE jobs SET status = 'queued' WHERE id IN (SELECT id FROM stuck)"]}


@pytest.mark.parametrize("how", [{}, {"requeue": json.dumps(STATEMENT)}], ids=["list", "sql"])
def test_rows_that_share_a_key_are_refused_and_said(db, defib, how):
    """Rows that share a key were written together, or called changed with exit 0."""
    shared_key(db)
    ran = defib("scan", "--fix", "--json", config=watch(db, **how))
    assert ran.code == 6, ran.out
    assert sorted(db.sql("SELECT id, status FROM jobs")) == [
        (1, "done"), (1, "running"), (2, "queued"), (3, "running"), (3, "running")]
    assert entries(db) == ["2"]
    said = {(j["key"], j["outcome"]) for j in ran.json["watches"][0]["jobs"]}
    assert said == {("1", "refused"), ("2", "recovered"), ("3", "refused")}
    text = defib("scan", "--fix", config=watch(db, **how))
    assert text.code == 6 and "names more than one row" in text.out


def test_rows_that_share_a_key_are_refused_by_hand(db, defib):
    shared_key(db)
    ran = defib("requeue", "jobs/1", "jobs/3", "--yes", config=watch(db))
    assert ran.code == 5 and "names more than one row" in ran.out
    assert (entries(db), len(db.sql("SELECT 1 FROM jobs WHERE status = 'running'"))) == ([], 4)


def test_rows_that_share_a_key_are_refused_by_the_function(pg, defib):
    shared_key(pg)
    assert defib("install", "jobs", "--yes", config=watch(pg)).code == 0
    assert pg.sql("SELECT defib.recover_jobs()") == [(1,)]
    assert (entries(pg), pg.sql("SELECT id FROM jobs WHERE status = 'queued'")) == (["2"], [(2,)])


def test_doctor_says_which_key_names_several_rows(db, defib):
    shared_key(db)
    ran = defib("doctor", config=watch(db))
    assert 'the key ("id") is not unique' in ran.out and "2 keys" in ran.out, ran.out


def test_a_key_that_names_a_column_twice_is_refused(db, defib):
    ran = defib("config", "check", config=watch(db, key="[id, id]"))
    assert ran.code == 3 and "key names id twice" in ran.err


# ---- remedies that do not help

RENEWS = "owner = NULL, updated_at = :now"  # the status stays as it is


def test_a_remedy_that_leaves_the_row_running_is_refused(db, defib):
    """`requeue: worker = NULL, updated_at = :now` said "2 recovered" at each pass, forever."""
    stuck_jobs.make(db, 2)
    before = db.sql("SELECT * FROM jobs ORDER BY id")
    ran = defib("scan", "--fix", config=watch(db, requeue=RENEWS))
    assert ran.code == 6 and "requeue leaves running true" in ran.out, ran.out
    assert (db.sql("SELECT * FROM jobs ORDER BY id"), entries(db)) == (before, [])


@pytest.mark.parametrize("how", [
    {"requeue": {"sql": ["UPDATE jobs SET owner = NULL WHERE id IN (SELECT id FROM stuck)"]}},
    {"remedies": [{"do": "fail"}], "fail": "error = :reason"},
    {"remedies": [{"do": "hold"}], "hold": "error = :reason"},
    {"remedies": [{"do": "retry"}], "retry": "owner = NULL, updated_at = :retry_at"},
    {"remedies": [{"do": "rollback"}], "rollback": "owner = NULL"},
], ids=["sql", "fail", "hold", "retry", "rollback"])
def test_every_remedy_must_end_the_run(db, defib, how):
    stuck_jobs.make(db, 1)
    config = watch(db, **{name: json.dumps(value) for name, value in how.items()})
    ran = defib("scan", "--fix", config=config)
    assert ran.code == 6 and "leaves running true" in ran.out, ran.out + ran.err
    assert statuses(db) == ["running"]


def test_one_row_that_stays_running_does_not_hold_up_the_others(db, defib):
    stuck_jobs.make(db, 300)
    half = "status = CASE WHEN t.id <= 100 THEN 'running' ELSE 'queued' END, error = :reason"
    ran = defib("scan", "--fix", "--json", config=watch(db, requeue=half))
    counts = ran.json["watches"][0]
    assert (ran.code, counts["recovered"], counts["refused"]) == (6, 200, 100)
    assert len(entries(db)) == 200 and statuses(db).count("queued") == 200
    batches = {b for b, in db.sql(f"SELECT DISTINCT batch FROM {stuck_jobs.ledger(db)}")}
    assert len(batches) == 1  # not halved until each was found


def test_the_function_refuses_what_stays_running(pg, defib):
    stuck_jobs.make(pg, 3)
    half = "status = CASE WHEN t.id = 2 THEN 'running' ELSE 'queued' END, error = :reason"
    assert defib("install", "jobs", "--yes", config=watch(pg, requeue=half)).code == 0
    assert pg.sql("SELECT defib.recover_jobs()") == [(2,)]
    assert (sorted(entries(pg)), statuses(pg)) == (["1", "3"], ["queued", "running", "queued"])


def test_by_hand_too(db, defib):
    stuck_jobs.make(db, 1)
    ran = defib("requeue", "jobs/1", "--yes", config=watch(db, requeue=RENEWS))
    assert ran.code == 5 and "leaves running true" in ran.out
    assert entries(db) == []


def test_what_also_ends_counts(db, defib):
    """`running` may ask another table, which only the statements of also: change."""
    stuck_jobs.make(db, 2)
    db.sql("CREATE TABLE taken (job integer)")
    db.sql("INSERT INTO taken SELECT id FROM jobs")
    config = watch(db, running="EXISTS (SELECT 1 FROM taken k WHERE k.job = t.id)",
                   also=json.dumps(["DELETE FROM taken WHERE job IN (SELECT id FROM stuck)"]))
    ran = defib("scan", "--fix", config=config)
    assert (ran.code, len(entries(db))) == (0, 2), ran.out + ran.err


def test_where_waiting_rows_look_like_running_ones_the_watch_says_so(db, defib):
    """With stays_running a job may run on by the predicate, if it no longer looks stuck."""
    stuck_jobs.make(db, 2)
    ran = defib("scan", "--fix", config=watch(db, requeue=RENEWS, stays_running="true"))
    assert (ran.code, len(entries(db))) == (0, 2), ran.out + ran.err
    db.sql("UPDATE jobs SET updated_at = " + ago(db, 7200))
    ran = defib("scan", "--fix", config=watch(db, requeue="owner = NULL", stays_running="true"))
    assert ran.code == 6 and "leaves it stuck" in ran.out and len(entries(db)) == 2


def test_a_trigger_that_puts_the_row_back_is_seen(pg, defib):
    """The row changed again after the UPDATE returned."""
    stuck_jobs.make(pg, 2)
    pg.sql("CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN UPDATE jobs SET "
           "status = 'running' WHERE id = NEW.id; RETURN NULL; END$$; CREATE TRIGGER back AFTER "
           "UPDATE ON jobs FOR EACH ROW WHEN (NEW.status = 'queued' AND NEW.id = 1) "
           "EXECUTE FUNCTION back()")
    ran = defib("scan", "--fix", config=watch(pg))
    assert (ran.code, entries(pg), statuses(pg)) == (6, ["2"], ["running", "queued"]), ran.out


# ---- times in text

def text_times(db, *times):
    db.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, updated_at text, error text, "
           "owner text)")
    for number, time in enumerate(times, 1):
        db.sql("INSERT INTO jobs (id, status, updated_at) VALUES (%s, 'running', %s)", number, time)


@pytest.mark.parametrize("bad", ["yesterday noon", "2026-02-30 10:00:00", "", "2026-13-01"])
def test_one_time_that_cannot_be_read_does_not_block_the_others(db, defib, bad):
    """A text that is no time failed every look at the watch, or hid its row."""
    if db.engine == "sqlite" and bad == "2026-02-30 10:00:00":
        bad = "2026-02-99 10:00:00"  # SQLite takes it for the 2nd of March
    text_times(db, "2020-01-02 03:04:05", bad, "2020-01-02T03:04:05.123Z")
    for options, code in (((), 6), (("--fix",), 6), (("--fix",), 6)):
        ran = defib("scan", *options, config=watch(db))
        assert ran.code == code and f"alive_at is not a time: {bad}" in ran.out, ran.out + ran.err
    assert statuses(db) == ["queued", "running", "queued"]
    assert sorted(entries(db)) == ["1", "3"]
    told = defib("doctor", config=watch(db))
    assert "1 running row has an alive_at that cannot be read as a time" in told.out


def test_the_function_sets_aside_a_time_that_cannot_be_read(pg, defib):
    text_times(pg, "2020-01-02 03:04:05", "yesterday noon")
    assert defib("install", "jobs", "--yes", config=watch(pg)).code == 0
    session = pg.connect()
    cursor = session.cursor()
    cursor.execute("SELECT defib.recover_jobs()")
    assert cursor.fetchone() == (1,)
    assert any("1 running rows have a sign of life that is no time" in n for n in session.notices)
    session.close()
    assert statuses(pg) == ["queued", "running"]


def test_a_number_that_is_no_time_does_not_block_the_others(pg, defib):
    pg.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, updated_at float8, error text);"
           "INSERT INTO jobs VALUES (1, 'running', 1577934245), (2, 'running', 'NaN'), "
           "(3, 'running', '-infinity')")
    ran = defib("scan", "--fix", config=watch(pg, time_type="epoch"))
    assert (ran.code, statuses(pg)) == (6, ["queued", "running", "running"]), ran.out + ran.err


def test_what_is_taken_for_a_time_can_be_cast(pg, defib):
    """Every text that the look lets through is one that PostgreSQL's cast takes."""
    import random
    chance = random.Random(7)
    zones = ["", "Z", "+02", "-0530", "+05:30", " UTC", " +00:00"]
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    times = ["2020-02-29", "2000-02-29 00:00", "Sat, 29 Feb 2020 23:59:59 GMT"]
    for _ in range(600):
        year, month, day = (chance.randint(*span) for span in ((0, 9999), (0, 13), (0, 32)))
        clock = f"{chance.randint(0, 24):02}:{chance.randint(0, 60):02}:{chance.randint(0, 60):02}"
        zone = chance.choice(zones)
        times.append(f"{year:04}-{month:02}-{day:02}{chance.choice(' T')}{clock}"
                     f"{chance.choice(['', '.5', '.123456'])}{zone}")
        times.append(f"{day:02} {months[month % 12]} {year:04} {clock} +0000")
    text_times(pg, *times)
    ran = defib("scan", "--json", config=watch(pg))
    assert ran.code in (1, 6) and not ran.json["watches"][0].get("error"), ran.err
    assert ran.json["watches"][0]["found"] > 100
