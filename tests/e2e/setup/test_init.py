# SPDX-License-Identifier: Apache-2.0
"""`defib init --table` and `--detect`: a configuration for unknown tables.

What is proposed is read by `config check`, accepted by `doctor` and tried by `scan`; on both
engines, for the five systems and for unusual tables.
"""


import pytest

from harness.example_systems import Example
from harness.program import ROOT

SCHEMAS = ROOT / "tests" / "schemas"

SYSTEMS = [
    ("scrapersky", "pages", {"running: page_processing_status = 'Processing'",
                             "alive_at: updated_at", "key: id"}),
    ("scrapersky", "sitemap_files", {"running: sitemap_import_status = 'Processing'"}),
    ("scristill", "jobs", {"running: status = 'running'", "kind: type",
                           "requeue: status = 'queued', error = :reason, updated_at = :now"}),
    ("ruvon", "workflow_executions", {
        "running: status = 'PENDING_ASYNC'",
        "alive_at: (SELECT h.last_heartbeat FROM workflow_heartbeats h "
        "WHERE h.workflow_id = t.id)"}),
    ("octolab", "labs", {"running: status = 'ending'", "remedies: [{do: report}]"}),
    ("ocr", "extraction_queue", {"attempts: ocr_attempts", "owner: ocr_worker_id",
                                 "remedies: [{do: report}]"}),
]


def lines(ran):
    return {line.strip() for line in ran.out.splitlines()}


def propose(defib, db, table, *args):
    ran = defib("init", "--table", table, *args, db=db)
    assert ran.code == 0, ran.err
    return ran


def holds(defib, config):
    """The configuration is valid, doctor finds no problem, a dry scan runs."""
    assert defib("config", "check", config=config).code == 0
    doctor = defib("doctor", "--json", config=config)
    assert doctor.json["fail"] == 0, doctor.out
    scan = defib("scan", "--json", config=config)
    assert scan.code in (0, 1), scan.err
    return scan.json


@pytest.mark.covers("F1")
@pytest.mark.parametrize("system, table, expected", SYSTEMS, ids=[t for _, t, _ in SYSTEMS])
def test_each_of_the_five_systems_gets_a_watch_that_holds(system, table, expected, db, defib):
    Example(system, db, defib)
    ran = propose(defib, db, table)
    assert expected <= lines(ran), ran.out
    holds(defib, ran.out)


def test_the_evidence_stands_above_the_line(db, defib):
    sky = Example("scrapersky", db, defib)
    for i in range(7):
        sky.insert("pages", url=f"u{i}", page_processing_status="Queued")
    sky.insert("pages", url="lost", page_processing_status="Processing",
               updated_at=sky.ago(91 * 86400))
    ran = propose(defib, db, "pages")
    assert ("    # 1 of 8 rows say 'Processing'; the oldest is 91d old\n"
            "    running: page_processing_status = 'Processing'\n") in ran.out
    assert "with it 1 of 1 running rows are stuck now" in ran.out


def test_a_threshold_that_nobody_measured_is_to_be_checked_and_nothing_is_changed(db, defib):
    sky = Example("scrapersky", db, defib)
    sky.insert("pages", url="lost", page_processing_status="Processing", updated_at=sky.ago(86400))
    ran = propose(defib, db, "pages")
    assert "# CHECK: longer than the longest time" in ran.out
    assert defib("scan", "--fix", config=ran.out).code == 1
    assert db.sql("SELECT page_processing_status FROM pages") == [("Processing",)]
    assert "CHECK" in ran.err


TIMED = {
    "postgres": "CREATE TABLE tasks (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'queued', "
                "started_at timestamptz, finished_at timestamptz, worker_id text);"
                "INSERT INTO tasks SELECT i, 'done', now() - interval '2 hours' - i * "
                "interval '1 minute', now() - interval '2 hours' - i * interval '1 minute' + "
                "interval '100 seconds' FROM generate_series(1, 300) i",
    "sqlite": "CREATE TABLE tasks (id INTEGER PRIMARY KEY, state TEXT NOT NULL DEFAULT 'queued', "
              "started_at INTEGER, finished_at INTEGER, worker_id TEXT);"
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
              "INSERT INTO tasks SELECT i, 'done', unixepoch('now') - 7200 - i * 60, "
              "unixepoch('now') - 7200 - i * 60 + 100, NULL FROM n",
}


OLD = {"postgres": "now() - interval '1 day'", "sqlite": "unixepoch('now') - 86400"}


def test_run_times_that_are_known_make_the_threshold_and_the_watch_acts(db, defib):
    """p99 is 100 s: half as much again, up to whole minutes, and nothing is left to check."""
    db.sql(TIMED[db.engine])
    new = {"postgres": "now()", "sqlite": "unixepoch('now')"}
    db.sql(f"INSERT INTO tasks VALUES (1000, 'running', {new[db.engine]}, NULL, 'w1')")
    ran = propose(defib, db, "tasks")
    assert "overdue_after: 3m" in lines(ran), ran.out
    assert "CHECK:" not in ran.out and "remedies:" not in ran.out
    db.sql(f"UPDATE tasks SET started_at = {OLD[db.engine]} WHERE id = 1000")
    assert holds(defib, ran.out)["watches"][0]["found"] == 1
    assert defib("scan", "--fix", config=ran.out).code == 0
    assert db.sql("SELECT state, worker_id FROM tasks WHERE id = 1000") == [("queued", None)]


def test_what_would_act_on_rows_of_now_waits_for_a_person(db, defib):
    """Every line is sure, and one of one running rows counts as stuck: it is only reported."""
    db.sql(TIMED[db.engine])
    db.sql(f"INSERT INTO tasks VALUES (1000, 'running', {OLD[db.engine]}, NULL, 'w1')")
    ran = propose(defib, db, "tasks")
    assert "remedies: [{do: report}]" in lines(ran), ran.out
    said = " ".join(line.strip(" #") for line in ran.out.splitlines())
    assert "CHECK: the first scan --fix would change 1 of 1 running rows" in said
    assert "1 line is marked CHECK" in ran.err
    assert defib("scan", "--fix", config=ran.out).code == 1
    assert db.sql("SELECT state FROM tasks WHERE id = 1000") == [("running",)]
    confirmed = ran.out.replace("    remedies: [{do: report}]\n", "")
    assert defib("scan", "--fix", config=confirmed).code == 0
    assert db.sql("SELECT state FROM tasks WHERE id = 1000") == [("queued",)]


def test_a_column_that_is_empty_is_no_sign_of_life_beside_one_that_is_written(db, defib):
    time = {"postgres": "timestamptz", "sqlite": "timestamp"}[db.engine]
    now = {"postgres": "now()", "sqlite": "datetime('now')"}[db.engine]
    db.sql(f"CREATE TABLE tasks (id INTEGER PRIMARY KEY, state TEXT NOT NULL, claimed_at {time}, "
           f"updated_at {time}, tries INTEGER NOT NULL DEFAULT 0)")
    db.sql(f"INSERT INTO tasks VALUES (1, 'running', NULL, {now}, 0), "
           f"(2, 'queued', NULL, {now}, 0), (3, 'failed', NULL, {now}, 7)")
    ran = propose(defib, db, "tasks")
    assert {"alive_at: updated_at", "attempts: tries", "max_attempts: 7"} <= lines(ran), ran.out
    assert "claimed_at = NULL" not in ran.out.split("requeue:")[0]
    requeue, = [line for line in lines(ran) if line.startswith("requeue:")]
    assert "tries = tries + 1" in requeue, requeue
    holds(defib, ran.out)


def test_times_that_are_text_are_proposed_as_text(pg, defib):
    pg.sql("CREATE TABLE jobs (id bigint PRIMARY KEY, status text, heartbeat_at text)")
    pg.sql("INSERT INTO jobs VALUES (1, 'running', now()::text), (2, 'queued', NULL)")
    ran = defib("init", "--table", "jobs", "--db", pg.url)
    assert ran.code == 0 and "time_type: text" in ran.out, ran
    proposed = "databases: [{name: main, url: '" + pg.url + "'}]\n" + ran.out[ran.out.index("watches:"):]
    assert defib("scan", config=proposed).code == 0


def test_kinds_whose_run_times_differ_have_limits_of_their_own(db, defib):
    db.sql(TIMED[db.engine])
    long = {"postgres": "interval '1000 seconds'", "sqlite": "1000"}[db.engine]
    db.sql("ALTER TABLE tasks ADD COLUMN kind TEXT")
    db.sql("UPDATE tasks SET kind = 'short'")
    db.sql(f"INSERT INTO tasks (id, state, started_at, finished_at, kind) SELECT id + 5000, state, "
           f"started_at, started_at + {long}, 'long' FROM tasks")
    ran = propose(defib, db, "tasks")
    limit, = [line for line in lines(ran) if line.startswith("overdue_after:")]
    assert '"short": 3m' in limit and '"long": 25m' in limit and "default: 25m" in limit, limit
    holds(defib, ran.out)


ODD = {
    "postgres": 'CREATE SCHEMA "My Work"; CREATE TYPE "My Work".st AS ENUM '
                "('New', 'InProgress', 'Done');"
                'CREATE TABLE "My Work"."Order" ("Tenant" int, "Nr" int, "end" text, '
                '"Status" "My Work".st NOT NULL DEFAULT \'New\', "LockedUntil" timestamptz, '
                'PRIMARY KEY ("Tenant", "Nr"));'
                'INSERT INTO "My Work"."Order" VALUES (1, 2, NULL, \'InProgress\', '
                "now() - interval '1 hour')",
    "sqlite": 'CREATE TABLE "Order" ("Tenant" INTEGER, "Nr" INTEGER, "end" TEXT, "Status" TEXT '
              "NOT NULL DEFAULT 'New' CHECK (\"Status\" IN ('New', 'InProgress', 'Done')), "
              '"LockedUntil" INTEGER, PRIMARY KEY ("Tenant", "Nr"));'
              'INSERT INTO "Order" VALUES (1, 2, NULL, \'InProgress\', '
              "(unixepoch('now') - 3600) * 1000)",
}


def test_names_that_must_be_quoted_and_a_key_of_two_columns(db, defib):
    db.sql(ODD[db.engine])
    table = "My Work.Order" if db.engine == "postgres" else "Order"
    ran = propose(defib, db, table)
    assert "key: [Tenant, Nr]" in lines(ran), ran.out
    assert ran.out.count("CHECK:") == 1  # one of one running rows is stuck
    assert holds(defib, ran.out)["watches"][0]["found"] == 1
    confirmed = ran.out.replace("    remedies: [{do: report}]\n", "")
    assert defib("scan", "--fix", config=confirmed).code == 0
    quoted = '"My Work"."Order"' if db.engine == "postgres" else '"Order"'
    assert db.sql(f'SELECT "Status", "LockedUntil" FROM {quoted}') == [("New", None)]


def test_codes_are_known_by_the_table_that_names_them(db, defib):
    db.sql("CREATE TABLE states (id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
           "INSERT INTO states VALUES (1, 'Waiting'), (2, 'Processing'), (3, 'Failed');"
           "CREATE TABLE mails (id INTEGER PRIMARY KEY, status_id INTEGER NOT NULL DEFAULT 1 "
           "REFERENCES states (id), locked_until BIGINT)")
    db.sql("INSERT INTO mails VALUES (1, 2, 1000000000000)")
    ran = propose(defib, db, "mails")
    assert {"running: status_id = 2", "requeue: status_id = 1, locked_until = NULL",
            "time_type: epoch_ms"} <= lines(ran), ran.out
    assert "2, which is 'Processing'" in ran.out
    holds(defib, ran.out)


NOTHING = [
    ("id INTEGER PRIMARY KEY, status TEXT CHECK (status IN ('queued', 'running'))",
     "no column could be a sign of life"),
    ("status TEXT CHECK (status IN ('queued', 'running')), locked_until BIGINT",
     "no primary key"),
    ("id INTEGER PRIMARY KEY, name TEXT, updated_at BIGINT",
     "nothing tells which rows are running"),
]


@pytest.mark.parametrize("columns, why", NOTHING, ids=["sign", "key", "running"])
def test_what_a_watch_cannot_do_without_is_said_and_nothing_is_written(columns, why, db, defib):
    db.sql(f"CREATE TABLE t (id2 INTEGER, {columns})")
    ran = defib("init", "--table", "t", "--write", "out.yaml", db=db)
    assert ran.code == 5
    assert why in ran.err
    assert all(line.lstrip().startswith("#") for line in ran.out.splitlines())
    assert not (defib.dir / "out.yaml").exists()


def test_a_large_table_is_sampled(pg, defib):
    pg.sql("CREATE TABLE big (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'queued', "
           "locked_until timestamptz)")
    pg.sql("INSERT INTO big SELECT i, CASE i % 10 WHEN 0 THEN 'running' ELSE 'done' END, "
           "now() + interval '1 hour' FROM generate_series(1, 150000) i")
    pg.sql("ANALYZE big")
    ran = propose(defib, pg, "big")
    assert "about 150000 rows" in ran.out, ran.out
    assert "of a sample say 'running'" in ran.out


def test_a_table_that_is_not_there_has_a_likely_name(db, defib):
    db.sql("CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
    ran = defib("init", "--table", "invoice", db=db)
    assert ran.code == 2
    assert 'did you mean "invoices"?' in ran.err


# ---- where it is written

def test_a_new_file_is_a_whole_configuration_and_a_second_table_is_added(db, defib):
    Example("scrapersky", db, defib)
    first = propose(defib, db, "pages", "--write", "out.yaml")
    assert "written to out.yaml" in first.out
    before = (defib.dir / "out.yaml").read_text()
    refused = defib("init", "--table", "sitemap_files", "--write", "out.yaml", db=db)
    assert refused.code == 5 and "pass --yes to add to the file" in refused.err
    assert (defib.dir / "out.yaml").read_text() == before
    propose(defib, db, "sitemap_files", "--write", "out.yaml", "--yes")
    assert (defib.dir / "out.yaml").read_text().startswith(before)
    watches = holds(defib, defib.dir / "out.yaml")["watches"]
    assert [w["watch"] for w in watches] == ["pages", "sitemap_files"]


@pytest.mark.parametrize("config, why", [
    ("watches: []\nledger: auto\n", "watches: is not the last key"),
    ("watches:\n- {name: a}\n", "indented differently"),
    ("databases:\n  - {name: main, url: 'sqlite:x.db'}\nwatches:\n"
     "  - {name: pages, preset: laravel}\n", 'two watches are named "pages"'),
], ids=["key", "indent", "name"])
def test_a_file_that_cannot_be_added_to_stays_as_it_is(config, why, lite, defib):
    Example("scrapersky", lite, defib)
    (defib.dir / "out.yaml").write_text(config)
    ran = defib("init", "--table", "pages", "--write", "out.yaml", "--yes", db=lite)
    assert ran.code == 5
    assert why in ran.err
    assert (defib.dir / "out.yaml").read_text() == config


def test_of_several_databases_the_watch_names_its_own(lite, defib):
    Example("scrapersky", lite, defib)
    config = defib.dir / "defib.yaml"
    config.write_text("databases:\n  - {name: first, url: 'sqlite:other.db'}\n"
                      f"  - {{name: second, url: '{lite.url}'}}\n")
    ran = defib("init", "--table", "pages", "--write", "defib.yaml", "--yes", db="second")
    assert ran.code == 0, ran.err
    assert "    database: second\n" in config.read_text()
    watch, = defib("scan", "--json").json["watches"]
    assert (watch["database"], watch["watch"]) == ("second", "pages")


def test_a_password_is_not_written(pg, defib):
    pg.sql("CREATE TABLE t (id bigint PRIMARY KEY, state text CHECK (state IN ('new', 'running')),"
           " locked_until timestamptz)")
    secret = pg.url.replace("://", "://", 1)
    head, at, tail = secret.partition("@")
    url = f"{head}:geheim@{tail}" if at else secret.replace("://", "://postgres:geheim@", 1)
    ran = defib("init", "--table", "t", db=url)
    assert ran.code == 0, ran.err
    assert "geheim" not in ran.out
    assert "url: ${DATABASE_URL}" in ran.out


def test_it_only_looks(db, defib):
    Example("scrapersky", db, defib)
    propose(defib, db, "pages")
    tables = {"postgres": "SELECT count(*) FROM pg_class WHERE relnamespace = "
                          "to_regnamespace('defib')",
              "sqlite": "SELECT count(*) FROM sqlite_master WHERE name LIKE 'defib%'"}
    assert db.sql(tables[db.engine]) == [(0,)]


@pytest.mark.parametrize("args, why", [
    (("--table", "t", "--detect"), "give one of them"),
    (("--write", "x.yaml"), "--write requires --table or --detect"),
], ids=["both", "write"])
def test_words_that_do_not_go_together(args, why, lite, defib):
    ran = defib("init", *args, db=lite)
    assert ran.code == 2 and why in ran.err


# ---- a whole database

@pytest.mark.covers("F1")
def test_known_queues_are_found_and_the_configuration_holds(pg, defib):
    for name in ("river", "oban", "procrastinate"):
        pg.sql((SCHEMAS / f"{name}.postgres.sql").read_text())
    pg.sql("CREATE TABLE customers (id bigint PRIMARY KEY, name text, updated_at timestamptz)")
    pg.sql("INSERT INTO procrastinate_jobs (queue_name, task_name, status) "
           "VALUES ('q', 'a', 'todo'), ('q', 'b', 'todo')")
    ran = defib("init", "--detect", "--write", "defib.yaml", db=pg)
    assert ran.code == 0, ran.err
    for name in ("river", "oban", "procrastinate"):
        assert f"(preset {name})" in ran.err
    assert "(preset procrastinate): 0 running, 0 stuck; todo 2" in ran.err
    assert "customers" not in ran.err
    watches = holds(defib, defib.dir / "defib.yaml")["watches"]
    assert {"river", "oban", "procrastinate"} <= {w["watch"] for w in watches}


def test_a_known_queue_with_stuck_rows_is_only_reported_until_somebody_looked(pg, defib):
    pg.sql((SCHEMAS / "procrastinate.postgres.sql").read_text())
    pg.sql("INSERT INTO procrastinate_jobs (queue_name, task_name, status) "
           "VALUES ('q', 'a', 'doing')")
    ran = defib("init", "--detect", db=pg)
    assert ran.code == 0, ran.err
    assert "1 running, 1 stuck" in ran.err
    assert "remedies: [{do: report}]" in lines(ran), ran.out
    assert "1 of 1 only reports until the lines marked CHECK are right" in ran.err
    assert defib("scan", "--fix", config=ran.out).code == 1
    assert pg.sql("SELECT status FROM procrastinate_jobs") == [("doing",)]


def test_a_table_of_a_known_queue_is_better_served_by_its_preset(lite, defib):
    lite.sql((SCHEMAS / "laravel.sqlite.sql").read_text())
    assert "preset laravel fits it better" in propose(defib, lite, "jobs").err


def test_pgmq_has_a_watch_for_each_queue(pg, defib):
    pg.sql((SCHEMAS / "pgmq.postgres.sql").read_text())
    ran = defib("init", "--detect", db=pg)
    assert ran.code == 0, ran.err
    assert "preset: pgmq" in ran.out
    assert "table: pgmq.q_" in ran.out


def test_tables_that_look_like_queues_are_proposed(db, defib):
    Example("scristill", db, defib)
    ran = defib("init", "--detect", db=db)
    assert ran.code == 0, ran.err
    assert "looks like a queue: jobs" in ran.err
    assert "projects" not in ran.err
    assert "running: status = 'running'" in lines(ran)
    holds(defib, ran.out)


def test_nothing_found_is_said(db, defib):
    db.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, updated_at TEXT)")
    ran = defib("init", "--detect", "--write", "x.yaml", db=db)
    assert ran.code == 5
    assert "no known queue, and none of 1 tables looks like one" in ran.err
    assert not (defib.dir / "x.yaml").exists()
