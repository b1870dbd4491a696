# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear line, the right exit code, and nothing half-written."""

import os
import pathlib

import pytest

from harness import stuck_jobs as jobs
from harness.doctor_setup import role
from harness.small_disk import tiny_filesystem
from harness.waiting import patience

pytestmark = pytest.mark.sanitized

EXIT_CLEAN, EXIT_STUCK, EXIT_USAGE, EXIT_CONFIG = 0, 1, 2, 3
EXIT_DATABASE, EXIT_REFUSED, EXIT_PARTLY = 4, 5, 6

# What is wrong with the watch: key, value, part of the message.
WRONG_WATCH = [
    ("stuk_after", "1h", ["stuk_after", "stuck_after"]),
    ("stuck_after", "[1, 2]", ["stuck_after"]),
    ("stuck_after", "-5m", ["stuck_after", "-5m"]),
    ("stuck_after", "soon", ["stuck_after", "soon"]),
    ("stuck_after", "99999999999999999999h", ["stuck_after"]),
    ("batch", "0", ["batch"]),
    ("batch", "-1", ["batch"]),
    ("batch", "many", ["batch", "many"]),
    ("limit", "-1", ["limit"]),
    ("enabled", "perhaps", ["enabled", "perhaps"]),
    ("key", "[]", ["key"]),
    ("remedies", "[{do: explode}]", ["explode"]),
    ("remedies", "[{do: fail}]", ["fail"]),
    ("time_type", "lunar", ["lunar"]),
    ("statement_timeout", "-1s", ["statement_timeout"]),
    ("crash_budget", "sometimes", ["crash_budget"]),
]

# The same for errors that only the database can find.
WRONG_FOR_DATABASE = [
    ("table", "jbos", ["jbos", "jobs"]),
    ("key", "idd", ["idd"]),
    ("alive_at", "updated", ["alive_at", "updated"]),
    ("running", "status = ", ["running"]),
    ("running", "status = 'running') OR (1 = 1", ["running"]),
    ("running", "stauts = 'running'", ["running", "stauts"]),
    ("owner", "nobody", ["owner", "nobody"]),
    ("owner", "frobnicate(owner)", ["owner", "frobnicate"]),
    ("requeue", "status == 'queued' oops", ["requeue"]),
    ("requeue", "stauts = 'queued'", ["requeue", "stauts"]),
    ("requeue", "status = :wrong", ["requeue", "wrong"]),
    ("requeue", "status = 'queued'; DROP TABLE jobs", ["requeue"]),
    ("running", "status = 'running' -- mine", ["running"]),
]


def with_key(db, key, value):
    """The configuration with one key of the watch replaced or added."""
    text = jobs.config(db)
    quoted = value if value[:1] in "[{" else '"' + value.replace('"', '\\"') + '"'
    lines = [line for line in text.split("\n") if not line.strip().startswith(f"{key}:")]
    return "\n".join(lines).rstrip("\n") + f"\n    {key}: {quoted}\n"


def refuses(ran, code, *words):
    line = jobs.one_line(ran)
    assert ran.code == code, ran
    for word in words:
        assert word in line
    return line


@pytest.mark.parametrize("key, value, words", WRONG_WATCH, ids=lambda x: str(x)[:24])
def test_wrong_configuration_is_refused_with_its_place(defib, lite, key, value, words):
    jobs.make(lite, 3)
    config = with_key(lite, key, value)
    line = refuses(defib("scan", "--fix", config=config), EXIT_CONFIG, *words)
    assert "defib.yaml:" in line
    jobs.untouched(lite, 3)


@pytest.mark.parametrize("key, value, words", WRONG_FOR_DATABASE, ids=lambda x: str(x)[:24])
def test_wrong_sql_or_name_is_refused(defib, db, key, value, words):
    jobs.make(db, 3)
    refuses(defib("scan", "--fix", config=with_key(db, key, value)), EXIT_CONFIG, *words)
    jobs.untouched(db, 3)


@pytest.mark.parametrize("args, words", [
    (["--stuck-after", "-1h"], ["stuck", "-1h"]),
    (["--threshold", "-1h"], ["threshold"]),
    (["--limit", "-3"], ["limit"]),
    (["--limit", "x"], ["limit"]),
    (["--remedy", "explode"], ["explode"]),
    (["--frobnicate"], ["frobnicate"]),
])
def test_wrong_option_is_refused(defib, lite, args, words):
    jobs.make(lite, 3)
    ran = defib("scan", "--fix", "--table", "jobs", "--key", "id", "--running",
                "status = 'running'", "--alive-at", "updated_at",
                *([] if args[0] == "--stuck-after" else ["--stuck-after", "1h"]),
                "--requeue", jobs.REQUEUE, *args, db=lite)
    line = jobs.one_line(ran)
    assert ran.code in (EXIT_USAGE, EXIT_CONFIG)
    for word in words:
        assert word in line
    jobs.untouched(lite, 3)


@pytest.mark.parametrize("args", [["--version"], ["config", "docs"]], ids=["short", "long"])
def test_output_that_a_full_disk_does_not_take_is_said(defib, args):
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = defib(*args, stdout=full)
    assert ran.code == EXIT_PARTLY
    assert "the output is not complete" in ran.err and ran.err.count("\n") == 1


def test_a_reader_that_had_enough_is_told_nothing(defib):
    end, start = os.pipe()
    os.close(end)
    with os.fdopen(start, "w") as pipe:
        assert defib("config", "docs", stdout=pipe).err == ""


@pytest.mark.parametrize("text", ["watches: [", "\t- a", "a: 1\na: 2\n", "- 1\n- 2\n", "\x01\n",
                                  "watches: {name: x}\n"])
def test_broken_yaml_is_refused_with_its_place(defib, text):
    line = refuses(defib("scan", config=text + "\n"), EXIT_CONFIG)
    assert "defib.yaml" in line


def test_file_that_is_not_there(defib):
    refuses(defib("scan", config="/nowhere/defib.yaml"), EXIT_CONFIG, "/nowhere/defib.yaml")


# Databases that cannot be used.


@pytest.mark.parametrize("command", [["scan"], ["scan", "--fix"], ["explain", "jobs", "1"],
                                     ["sql", "jobs"]])
@pytest.mark.parametrize("url, words", [
    ("postgres://nobody:s3cret@127.0.0.1:1/none", ["127.0.0.1"]),
    ("postgres://nobody@no-such-host.invalid/none", ["no-such-host.invalid"]),
    ("sqlite:/nowhere/at/all.db", ["/nowhere/at/all.db"]),
])
def test_unreachable_database(defib, command, url, words):
    ran = defib(*command, config=jobs.config(url))
    refuses(ran, EXIT_DATABASE, *words)
    assert "s3cret" not in ran.err + ran.out


def test_database_that_does_not_exist(defib, shared_server):
    refuses(defib("scan", config=jobs.config(shared_server.url("nope"))), EXIT_DATABASE, "nope")


@pytest.mark.parametrize("content", [b"this is not a database\n" * 100, b"SQLite format 3\0oops"],
                         ids=["text", "header only"])
def test_file_that_is_no_database(defib, tmp_path, content):
    path = tmp_path / "no.db"
    path.write_bytes(content)
    refuses(defib("scan", "--fix", config=jobs.config(f"sqlite:{path}")), EXIT_DATABASE, "no.db")
    assert path.read_bytes() == content


def test_damaged_database(defib, lite):
    jobs.make(lite, 2000)
    lite.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    lite.drop()
    lite._session = None
    with open(lite.path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * 8192)
    ran = defib("scan", "--fix", config=jobs.config(lite))
    assert ran.code in (EXIT_DATABASE, EXIT_PARTLY)
    jobs.one_line(ran)


def test_read_only_server_is_scanned_but_not_fixed(defib, pg):
    jobs.make(pg, 3)
    pg.sql(f"ALTER DATABASE {pg.name} SET default_transaction_read_only = on")
    assert defib("scan", config=jobs.config(pg)).code == EXIT_STUCK
    refuses(defib("scan", "--fix", config=jobs.config(pg)), EXIT_DATABASE, "read-only")
    pg.sql("SET default_transaction_read_only = off")
    jobs.untouched(pg, 3)


def as_nobody(run):
    """The program as a user without privileges, if we are root."""
    if os.getuid() != 0:
        return run
    return lambda *args, **options: run(*args, user=65534, group=65534, extra_groups=[], **options)


def test_read_only_file_is_scanned_but_not_fixed(defib, lite):
    """Without a WAL: with one, readers too must write beside the file."""
    jobs.make(lite, 3)
    lite.sql("PRAGMA journal_mode = DELETE")
    lite.path.chmod(0o444)
    for folder in [pathlib.Path(defib.dir), *lite.path.parents]:
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    config = jobs.config(lite)
    run = as_nobody(defib)
    assert run("scan", config=config).code == EXIT_STUCK
    refuses(run("scan", "--fix", config=config), EXIT_DATABASE, "read")
    jobs.untouched(lite, 3)


def test_full_disk_leaves_rows_and_ledger_agreeing(defib, tmp_path):
    from harness.databases import LiteDatabase
    with tiny_filesystem(tmp_path / "tiny", "3m") as tiny:
        db = LiteDatabase(tiny / "jobs.db")
        jobs.make(db, 8000)
        (tiny / "ballast").write_bytes(b"x" * (1 << 20))
        ran = defib("scan", "--fix", config=jobs.config(db, statement_timeout="60s"))
        assert ran.code in (EXIT_DATABASE, EXIT_PARTLY), ran
        assert "full" in jobs.one_line(ran).lower()
        (tiny / "ballast").unlink()
        done = jobs.agree(db)
        assert done < 8000
        assert db.sql("PRAGMA integrity_check") == [("ok",)]
        assert (ran.code == EXIT_PARTLY) == (done > 0)
        db.drop()


# What a role may not do.


COLUMNS = "GRANT SELECT (id, status, updated_at, error), UPDATE (status, error, updated_at) ON jobs TO ROLE"


def test_no_right_to_read(defib, pg):
    jobs.make(pg, 3)
    with role(pg) as url:
        refuses(defib("scan", "--fix", config=jobs.config(url)), EXIT_DATABASE, "jobs", "permission")
    jobs.untouched(pg, 3)


def test_no_right_to_a_column_that_is_read(defib, pg):
    jobs.make(pg, 3)
    with role(pg, "GRANT SELECT (id, status) ON jobs TO ROLE") as url:
        refuses(defib("scan", config=jobs.config(url)), EXIT_DATABASE, "permission")


def test_no_right_to_write(defib, pg):
    jobs.make(pg, 3)
    with role(pg, "GRANT SELECT ON jobs TO ROLE", "GRANT CREATE ON DATABASE " + pg.name + " TO ROLE") as url:
        assert defib("scan", config=jobs.config(url)).code == EXIT_STUCK
        refuses(defib("scan", "--fix", "--quiet", config=jobs.config(url)), EXIT_DATABASE,
                "permission")
        jobs.untouched(pg, 3)


def test_no_right_to_one_column_that_is_written(defib, pg):
    jobs.make(pg, 3)
    with role(pg, "GRANT SELECT ON jobs TO ROLE", "GRANT UPDATE (status) ON jobs TO ROLE",
              "GRANT CREATE ON DATABASE " + pg.name + " TO ROLE") as url:
        refuses(defib("scan", "--fix", "--quiet", config=jobs.config(url)), EXIT_DATABASE,
                "permission")
        jobs.untouched(pg, 3)


def test_column_grants_suffice(defib, pg):
    """No privilege on the whole table, none to create: works without a ledger, and says so."""
    jobs.make(pg, 3)
    with role(pg, COLUMNS) as url:
        ran = defib("scan", "--fix", config=jobs.config(url, max_attempts=3, attempts=1))
        assert ran.code == EXIT_CLEAN, ran
        assert "no ledger" in jobs.one_line(ran)
    assert jobs.requeued(pg) == 3


def test_requeue_without_ledger_and_attempts_is_refused(defib, pg):
    jobs.make(pg, 3)
    with role(pg, COLUMNS) as url:
        refuses(defib("scan", "--fix", config=jobs.config(url)), EXIT_REFUSED, "loop")
    jobs.untouched(pg, 3)


# Tables that are not what they seem.


def test_view_that_can_be_updated(defib, pg):
    jobs.make(pg, 3)
    pg.sql("CREATE VIEW work AS SELECT * FROM jobs WHERE id < 3")
    ran = defib("scan", "--fix", config=with_key(pg, "table", "work"))
    assert ran.code == EXIT_CLEAN, ran
    assert jobs.agree(pg) == 2


def test_view_that_cannot_be_updated(defib, db):
    jobs.make(db, 3)
    db.sql("CREATE VIEW work AS SELECT DISTINCT * FROM jobs")
    config = with_key(db, "table", "work")
    assert defib("scan", "--fix", config=config).code == EXIT_CONFIG
    refuses(defib("scan", "--fix", config=config), EXIT_CONFIG, "view")
    jobs.untouched(db, 3)


def test_partitioned_table(defib, pg):
    pg.sql("CREATE TABLE jobs (id bigint, status text, updated_at timestamptz, error text, "
           "owner text, attempts int, PRIMARY KEY (id, status)) PARTITION BY LIST (status)")
    pg.sql("CREATE TABLE jobs_running PARTITION OF jobs FOR VALUES IN ('running')")
    pg.sql("CREATE TABLE jobs_rest PARTITION OF jobs DEFAULT")
    jobs.fill(pg, 10)
    ran = defib("scan", "--fix", config=jobs.config(pg))
    assert ran.code == EXIT_CLEAN, ran
    assert pg.sql("SELECT count(*) FROM jobs_rest WHERE status = 'queued'") == [(10,)]
    assert jobs.agree(pg) == 10


def test_trigger_that_keeps_a_write_back_is_counted_refused(defib, db):
    jobs.make(db, 4)
    if db.engine == "postgres":
        db.sql("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS "
               "'BEGIN IF new.id = 2 THEN RETURN NULL; END IF; RETURN new; END'")
        db.sql("CREATE TRIGGER keep BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION keep()")
    else:
        db.connect().execute("CREATE TRIGGER keep BEFORE UPDATE ON jobs WHEN new.id = 2 "
                             "BEGIN SELECT raise(IGNORE); END")
    refused_one_of_four(defib, db, 2)


@pytest.mark.parametrize("code", ["P0001", "42501", "SHOP1"])
def test_trigger_that_raises_is_counted_refused_whatever_its_code(defib, pg, code):
    jobs.make(pg, 4)
    pg.sql(f"CREATE FUNCTION say_no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF new.id = 2 "
           f"THEN RAISE 'not today' USING ERRCODE = '{code}'; END IF; RETURN new; END$$")
    pg.sql("CREATE TRIGGER no BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION say_no()")
    refused_one_of_four(defib, pg, 2)


def test_row_policy_that_forbids_a_write_is_counted_refused(defib, pg):
    jobs.make(pg, 4)
    pg.sql("ALTER TABLE jobs ENABLE ROW LEVEL SECURITY")
    pg.sql("CREATE POLICY look ON jobs FOR SELECT USING (true)")
    pg.sql("CREATE POLICY move ON jobs FOR UPDATE USING (true) WITH CHECK (id <> 2)")
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE",
              f"GRANT CREATE ON DATABASE {pg.name} TO ROLE") as url:
        ran = defib("scan", "--fix", "--json", config=jobs.config(url))
        assert ran.code == EXIT_PARTLY, ran
        assert (ran.json["recovered"], ran.json["refused"]) == (3, 1)
        assert jobs.agree(pg) == 3


def test_row_policy_that_hides_rows_from_updates(defib, pg):
    """FOR UPDATE returns only rows that may be updated: such a row is refused, and reported as
    hidden."""
    jobs.make(pg, 4)
    pg.sql("ALTER TABLE jobs ENABLE ROW LEVEL SECURITY")
    pg.sql("CREATE POLICY look ON jobs FOR SELECT USING (true)")
    pg.sql("CREATE POLICY move ON jobs FOR UPDATE USING (id <> 2)")
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE",
              f"GRANT CREATE ON DATABASE {pg.name} TO ROLE") as url:
        ran = defib("scan", "--fix", "--json", config=jobs.config(url))
        assert (ran.code, ran.json["recovered"], ran.json["refused"]) == (EXIT_PARTLY, 3, 1)
        assert jobs.agree(pg) == 3


def refused_one_of_four(defib, db, which):
    ran = defib("scan", "--fix", "--json", config=jobs.config(db))
    assert ran.code == EXIT_PARTLY, ran
    assert (ran.json["found"], ran.json["recovered"], ran.json["refused"]) == (4, 3, 1)
    left = [job for job in ran.json["watches"][0]["jobs"] if job["outcome"] == "refused"]
    assert [job["key"] for job in left] == [str(which)]
    assert left[0]["refusal"]
    assert db.sql("SELECT id FROM jobs WHERE status = 'running'") == [(which,)]
    assert jobs.agree(db) == 3


def test_constraint_refuses_one_row_of_a_batch(defib, db):
    jobs.make(db, 4)
    db.sql("INSERT INTO jobs (id, status, updated_at, owner) "
           "SELECT 9, 'queued', '2000-01-01', 'one' FROM jobs WHERE id = 1")
    db.sql("UPDATE jobs SET owner = CASE id WHEN 3 THEN 'one' ELSE 'w' || id END WHERE id < 9")
    db.sql("CREATE UNIQUE INDEX one_queued ON jobs (owner) WHERE status = 'queued'")
    db.sql("UPDATE jobs SET error = 'old' WHERE id = 9")
    refused_one_of_four(defib, db, 3)


def test_value_that_a_type_refuses_is_the_row_s_own_fault(defib, pg):
    jobs.make(pg, 4)
    pg.sql("ALTER TABLE jobs ADD note varchar(4)")
    pg.sql("UPDATE jobs SET owner = CASE id WHEN 2 THEN 'far too long' ELSE 'w' END")
    ran = defib("scan", "--fix", "--json",
                config=jobs.config(pg, requeue=jobs.REQUEUE + ", note = owner"))
    assert (ran.code, ran.json["recovered"], ran.json["refused"]) == (EXIT_PARTLY, 3, 1)
    assert jobs.agree(pg) == 3


# Hostile names and values.

HOSTILE = ["plain", "it's", 'a "quoted" name', "semi;colon", "drop'; DROP TABLE victim; --",
           "übergrün 你好 🚑", "back\\slash", "percent %s %n", "dollar $1 $$", "brace {reason} {x}",
           "?1 :owner @a", "tab\tname", "line\nbreak", " lead and trail ", "comment -- /* x"]


def run_sql(db, statement):
    """One statement as it is, whatever stands in its names."""
    session = db.connect()
    try:
        cursor = session.cursor()
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []
    finally:
        session.close()


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def yaml_text(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace(
        "\t", "\\t") + '"'


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_table_column_and_watch_names(defib, db, name):
    table, key, column = name + " t", name + " k", name + " c"
    db.sql("CREATE TABLE victim (x int)")
    run_sql(db, f"CREATE TABLE {quoted(table)} ({quoted(key)} text PRIMARY KEY, {quoted(column)} text, "
           "at timestamp, note text)")
    run_sql(db, f"INSERT INTO {quoted(table)} VALUES ('1', 'running', '2020-01-01', NULL)")
    config = f"""
databases:
  - name: {yaml_text(name)}
    url: {db.url}
watches:
  - name: {yaml_text(name)}
    table: {yaml_text(quoted(table))}
    key: {yaml_text(key)}
    running: {yaml_text(quoted(column) + " = 'running'")}
    alive_at: at
    stuck_after: 1h
    requeue: {yaml_text(quoted(column) + " = 'queued', note = :reason")}
    reason: {yaml_text(name)}
    show: [{yaml_text(column)}]
"""
    ran = defib("scan", "--fix", "--json", config=config)
    assert ran.code == EXIT_CLEAN, ran
    assert ran.json["recovered"] == 1
    assert ran.json["watches"][0]["watch"] == name
    rows = run_sql(db, f"SELECT {quoted(column)}, note FROM {quoted(table)}")
    assert rows[0][0] == "queued"
    if "{" not in name:
        assert rows[0][1] == name
    assert db.sql("SELECT count(*) FROM victim") == [(0,)]
    for command in (["sql", name], ["explain", name, "1"], ["scan"]):
        assert defib(*command, config=config).code in (EXIT_CLEAN, EXIT_STUCK), command


def test_hostile_key_and_owner_values(defib, db):
    values = [v for v in HOSTILE] + ["NULL", "", "{}", "[1]", '{"a": 1}', "true", "1e9", "007",
                                    "x" * 100_000]
    db.sql("CREATE TABLE jobs (id text PRIMARY KEY, status text, updated_at timestamp, error text, "
           "owner text)")
    for value in values:
        db.sql("INSERT INTO jobs VALUES (%s, 'running', '2020-01-01', NULL, %s)", value, value)
    config = jobs.config(db, owner="owner", batch=4)
    found = defib("scan", "--json", config=config)
    assert sorted(job["key"] for job in found.json["watches"][0]["jobs"]) == sorted(values)
    assert defib("scan", config=config).code == EXIT_STUCK
    assert defib("explain", "jobs", values[4], config=config).code in (EXIT_CLEAN, EXIT_STUCK)
    ran = defib("scan", "--fix", "--json", config=config)
    assert (ran.code, ran.json["recovered"]) == (EXIT_CLEAN, len(values)), ran.err
    stored = db.sql(f"SELECT job FROM {jobs.ledger(db)}")
    assert sorted(row[0] for row in stored) == sorted(values)
    assert jobs.requeued(db) == len(values)


def test_hostile_parts_of_a_composite_key(defib, db):
    db.sql("CREATE TABLE jobs (a text, b text, status text, updated_at timestamp, error text, "
           "PRIMARY KEY (a, b))")
    pairs = [(a, b) for a in HOSTILE[:8] for b in ('","', "]", '\\"')]
    for a, b in pairs:
        db.sql("INSERT INTO jobs VALUES (%s, %s, 'running', '2020-01-01', NULL)", a, b)
    ran = defib("scan", "--fix", "--json", config=with_key(db, "key", "[a, b]"))
    assert (ran.code, ran.json["recovered"]) == (EXIT_CLEAN, len(pairs)), ran.err
    assert sorted(map(tuple, (job["key"] for job in ran.json["watches"][0]["jobs"]))) == \
        sorted(pairs)
    assert jobs.requeued(db) == len(pairs)


def test_null_key_is_refused_and_the_others_recovered(defib, db):
    db.sql("CREATE TABLE jobs (id text, status text, updated_at timestamp, error text)")
    for key in ("a", None, "b"):
        db.sql("INSERT INTO jobs VALUES (%s, 'running', '2020-01-01', NULL)", key)
    ran = defib("scan", "--fix", "--json", config=jobs.config(db))
    assert ran.code == EXIT_PARTLY, ran
    assert (ran.json["recovered"], ran.json["refused"]) == (2, 1)
    assert db.sql("SELECT id FROM jobs WHERE status = 'running'") == [(None,)]


def test_invalid_utf8_in_sqlite_text(defib, lite):
    """Bytes that are not text: shown readably, and each row is recovered or refused, never lost."""
    lite.sql("CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT, updated_at TEXT, error TEXT, "
             "owner TEXT)")
    lite.sql("INSERT INTO jobs VALUES ('good', 'running', '2020-01-01', NULL, CAST(x'ff41' AS TEXT))")
    lite.sql("INSERT INTO jobs VALUES (CAST(x'fe42' AS TEXT), 'running', '2020-01-01', NULL, 'w')")
    config = jobs.config(lite, owner="owner")
    assert defib("scan", config=config).code == EXIT_STUCK
    ran = defib("scan", "--fix", "--json", config=config)
    assert ran.code == EXIT_PARTLY, ran
    assert (ran.json["recovered"], ran.json["refused"]) == (1, 1)
    assert lite.sql("SELECT status FROM jobs WHERE id = 'good'") == [("queued",)]
    assert lite.sql(f"SELECT count(*) FROM {jobs.ledger(lite)}")[0][0] == ran.json["recovered"]


def test_sqlite_key_without_a_declared_type(defib, lite):
    lite.sql("CREATE TABLE jobs (id PRIMARY KEY, status, updated_at, error)")
    for key in (1, "1x", 2.5):
        lite.sql("INSERT INTO jobs VALUES (?, 'running', '2020-01-01', NULL)", key)
    ran = defib("scan", "--fix", "--json", config=jobs.config(lite))
    assert (ran.code, ran.json["recovered"]) == (EXIT_CLEAN, 3), ran


def test_huge_text_is_carried(defib, db):
    jobs.make(db, 2)
    db.sql("UPDATE jobs SET owner = %s WHERE id = 1", "ö" * 2_000_000)
    reason = "r" * 100_000
    ran = defib("scan", "--fix", "--json", "--reason", reason,
                config=jobs.config(db, owner="owner", show="[owner]", statement_timeout="1h"))
    assert (ran.code, ran.json["recovered"]) == (EXIT_CLEAN, 2), ran.err[:500]
    assert db.sql("SELECT DISTINCT error FROM jobs") == [(reason,)]


def test_empty_table_and_empty_database(defib, db):
    jobs.make(db, 0)
    assert defib("scan", "--fix", config=jobs.config(db)).code == EXIT_CLEAN


def test_one_bad_database_does_not_stop_the_others(defib, db):
    jobs.make(db, 3)
    text = jobs.config(db).replace(
        "watches:", "  - name: gone\n    url: sqlite:/nowhere.db\nwatches:"
        + jobs.WATCH.format(requeue=jobs.REQUEUE, reason="x").replace("name: jobs", "name: other")
        + "    database: gone\n", 1)
    ran = defib("scan", "--fix", "--json", "--quiet", config=text)
    assert ran.code == EXIT_PARTLY, ran
    assert "/nowhere.db" in jobs.one_line(ran)
    assert [w["error"] is None for w in ran.json["watches"]] == [False, True]
    assert jobs.agree(db) == 3


def test_password_is_never_shown(defib, shared_server):
    """Neither in messages nor in the process title."""
    url = shared_server.url().replace("postgres@", "postgres:s3cret@")
    child = defib.start("scan", config=jobs.config(url), env={"PGCONNECT_TIMEOUT": "5"})
    out, err = child.communicate(timeout=patience())
    assert "s3cret" not in out + err


def test_nothing_is_left_in_the_folder(defib, lite):
    jobs.make(lite, 1)
    defib("scan", "--fix", config=jobs.config(lite))
    assert {p.name for p in pathlib.Path(defib.dir).iterdir()} == {"defib.yaml"}


@pytest.mark.parametrize("absurd", ["294276-12-31 23:59:59+00", "infinity", "-infinity",
                                    "4713-01-01 00:00:00+00 BC"])
def test_a_time_at_the_end_of_time_fails_no_scan(defib, pg, absurd):
    """It is read as far as it can be; the rows beside it are recovered."""
    jobs.make(pg, 2)
    pg.sql("UPDATE jobs SET updated_at = %s WHERE id = 1", absurd)
    ran = defib("scan", "--fix", config=jobs.config(pg))
    assert ran.code in (EXIT_CLEAN, EXIT_STUCK, EXIT_PARTLY), ran
    assert pg.sql("SELECT status FROM jobs WHERE id = 2") == [("queued",)]
    for command in (["list"], ["show", "jobs/1"], ["explain", "jobs", "1"], ["stats"], ["doctor"]):
        ran = defib(*command, config=jobs.config(pg))
        assert ran.code in (EXIT_CLEAN, EXIT_STUCK), (command, ran)


@pytest.mark.parametrize("absurd", [-2 ** 63, 2 ** 63 - 1, -10 ** 13, 1e300, -1e300])
def test_a_number_that_is_no_time_is_no_sign_of_life(defib, lite, absurd):
    lite.sql("CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, updated_at, error TEXT)")
    lite.sql("INSERT INTO jobs VALUES (1, 'running', %s, NULL), (2, 'running', 1, NULL)", absurd)
    ran = defib("scan", config=jobs.config(lite, time_type="epoch"))
    assert ran.code in (EXIT_STUCK, EXIT_PARTLY), ran
    assert "\n  2    silent" in ran.out, ran.out
    assert "alive_at is not a time" in ran.out + ran.err, ran
