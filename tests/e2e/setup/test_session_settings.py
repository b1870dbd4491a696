# SPDX-License-Identifier: Apache-2.0
"""Defaults of a role that change what SQL means, or how values are written: sessions of defib have
their own (docs/internals/foundations.md lists them), so everything works the same."""

import psycopg2
import psycopg2.sql
import pytest

from harness.act_table import batch_of
from harness.queue_workers import Queue

# Each as far from what our statements assume as the server allows.
NASTY = {
    "array_nulls": "off", "standard_conforming_strings": "off", "extra_float_digits": "-15",
    "TimeZone": "Asia/Kathmandu", "DateStyle": "SQL, DMY", "IntervalStyle": "sql_standard",
    "bytea_output": "escape", "xmloption": "document", "backslash_quote": "off",
    "escape_string_warning": "off", "transform_null_equals": "on", "quote_all_identifiers": "on",
    "row_security": "off", "gin_fuzzy_search_limit": "1", "exit_on_error": "on",
    "default_transaction_isolation": "serializable", "default_transaction_deferrable": "on",
    "client_encoding": "LATIN1", "client_min_messages": "debug5", "check_function_bodies": "off",
    "lock_timeout": "1ms",  # the others end a session that is slow to set its own
    "synchronous_commit": "off", "work_mem": "64kB", "from_collapse_limit": "1",
    "join_collapse_limit": "1", "plan_cache_mode": "force_generic_plan", "jit": "on",
    "jit_above_cost": "0", "enable_indexscan": "off", "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
    "enable_sort": "off", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C",
    "default_table_access_method": "heap", "temp_buffers": "100",
}

TABLE = """
CREATE TABLE public.jobs (
    id float8 PRIMARY KEY, status text, weight float8, span interval, body bytea, at timestamptz,
    note text, tags text[]);
INSERT INTO public.jobs VALUES (
    0.1::float8 + 0.2::float8, 'running', 1.0 / 3, '1 mon -2 days 03:04:05.678', '\\xdeadbeef00',
    now() - interval '2 hours', E'a\\\\b''c', ARRAY['x', NULL, 'null'])
"""
CONFIG = """
databases:
  - {{name: main, url: "{url}"}}
watches:
  - name: jobs
    table: {table}
    key: id
    running: status = 'running' AND (note <> 'a\\c' OR note IS NULL)
    alive_at: at
    stuck_after: 1h
    requeue: status = 'queued', weight = 7, span = NULL, body = NULL, at = now(), note = 'a\\d', tags = NULL
"""


def role_with(pg, settings, name="nasty", options=""):
    """A role that owns the database, and its URL."""
    pg.sql(f"DROP ROLE IF EXISTS {name}")
    pg.sql(f"CREATE ROLE {name} LOGIN {options}")
    pg.sql(f"ALTER DATABASE {pg.name} OWNER TO {name}")
    pg.sql(f"ALTER SCHEMA public OWNER TO {name}")
    with pg.connect() as session, session.cursor() as cursor:
        for key, value in settings.items():
            cursor.execute(psycopg2.sql.SQL("ALTER ROLE {} SET {} = %s").format(
                psycopg2.sql.Identifier(name), psycopg2.sql.Identifier(key)), (value,))
    return pg.url.replace("postgres@", f"{name}@")


@pytest.fixture
def nasty(pg):
    """The database, to be used as a role with all of these defaults."""
    url = role_with(pg, NASTY)
    yield url
    pg.drop_now()
    with pg.server.admin().cursor() as cursor:
        cursor.execute("DROP ROLE nasty")


def row(pg):
    pg.sql("SET extra_float_digits = 1")
    return pg.sql("SELECT to_jsonb(j) FROM public.jobs j")[0][0]


def test_the_defaults_of_the_role_are_in_force(nasty):
    """Otherwise the tests below show nothing."""
    session = psycopg2.connect(nasty)
    with session.cursor() as cursor:
        for name in ("array_nulls", "transform_null_equals", "standard_conforming_strings"):
            cursor.execute(f"SHOW {name}")
            assert cursor.fetchone() == (NASTY[name],)
    session.close()


def test_scan_acts_and_undo_restore_every_value(pg, nasty, defib):
    pg.sql(TABLE)
    pg.sql("ALTER TABLE public.jobs OWNER TO nasty")
    config = CONFIG.format(url=nasty, table="jobs")
    assert defib("init", "--db", nasty, "--yes").code == 0
    was = row(pg)
    for command in (["scan", "--fix"], ["requeue", "jobs/0.30000000000000004", "--yes"]):
        ran = defib(*command, config=config)
        assert ran.code == 0, ran
        assert row(pg)["status"] == "queued" and row(pg)["note"] == "a\\d", ran
        ran = defib("undo", batch_of(ran), "--yes", config=config)
        assert ran.code == 0, ran
        assert row(pg) == was
    for command in (["list", "--watch", "jobs", "--json"], ["explain", "jobs/0.30000000000000004"],
                    ["show", "jobs/0.30000000000000004"], ["ledger"], ["stats"]):
        ran = defib(*command, config=config)
        assert ran.code in (0, 1), ran
    assert "0.30000000000000004" in defib("list", "--watch", "jobs", config=config).out


def test_the_queue_works(pg, nasty, defib):
    ran = defib("init", "--db", nasty, "--yes")
    assert ran.code == 0, ran
    pg.initialized = True
    queue = Queue(defib, pg, url=nasty)
    try:
        bulk = defib.dir / "bulk.jsonl"
        bulk.write_text('{"a\\\\b": "c"}\n{"n": null}\n"null"\n')
        for more in ([], ["--timeout", "1h"], ["--tags", "null,x", "--unique-key", "null"]):
            ran = defib("enqueue", "default", "k", "--bulk", bulk, *more, "--db", nasty)
            assert ran.code == 0, ran
        first = int(defib("enqueue", "default", "k", '{"a": "\\u00fc"}', "--db", nasty).out)
        worker = queue.drain(run="cat >&3")
        assert "level=error" not in worker.log and "warn" not in worker.log, worker.log
        states = queue.all("state, error, timeout_ms, unique_key")
        assert {state for state, *_ in states} == {"done"}
        assert {(error, limit) for _, error, limit, _ in states} == {(None, None), (None, 3600000)}
        assert queue.result(first) == {"a": "ü"}
        assert {str(tags) for tags, in queue.db.sql("SELECT tags FROM defib.job_data")} == {
            "None", "['null', 'x']"}
        failing = queue.enqueue("--max-attempts", "1")
        queue.drain(run="echo 'a\\b' >&2; exit 1")
        assert queue.state(failing) == "failed"
        ran = defib("requeue", f"queue/{failing}", "--yes", "--db", nasty)
        assert ran.code == 0, ran
        ran = defib("undo", batch_of(ran), "--yes", "--db", nasty)
        assert ran.code == 0 and queue.state(failing) == "failed", ran
    finally:
        queue.close()


def test_a_claim_of_an_attached_table_has_the_key_of_our_sessions(pg, nasty, defib):
    pg.sql(TABLE)
    pg.sql("ALTER TABLE public.jobs OWNER TO nasty")
    config = CONFIG.format(url=nasty, table="jobs")
    assert defib("init", "--db", nasty, "--yes").code == 0
    ran = defib("attach", "jobs", "--yes", config=config)
    assert ran.code == 0, ran
    ran = defib("doctor", config=config)
    assert ran.code == 0 and " 0 FAIL" in ran.out, ran
    session = psycopg2.connect(nasty)
    with session, session.cursor() as cursor:
        cursor.execute("UPDATE public.jobs SET status = 'queued'")
        cursor.execute("UPDATE public.jobs SET status = 'running', at = now()")
    assert pg.sql("SELECT job FROM defib.claimed_by") == [("0.30000000000000004",)]
    session.close()


def test_a_path_without_schemas(pg, defib):
    """The table is found by its whole name; without it, the next step is said."""
    url = role_with(pg, {})
    try:
        pg.sql(TABLE)
        pg.sql("ALTER TABLE public.jobs OWNER TO nasty")
        assert defib("init", "--db", url, "--yes").code == 0
        pg.sql(f"ALTER DATABASE {pg.name} SET search_path = ''")
        ran = defib("scan", config=CONFIG.format(url=url, table="jobs"))
        assert ran.code == 3 and "public.jobs" in ran.err, ran
        ran = defib("scan", "--fix", config=CONFIG.format(url=url, table="public.jobs"))
        assert ran.code == 0 and "1 recovered" in ran.out, ran
        ran = defib("enqueue", "q", "k", "--db", url)
        assert ran.code == 0, ran
    finally:
        pg.drop_now()
        with pg.server.admin().cursor() as cursor:
            cursor.execute("DROP ROLE nasty")


def test_triggers_run_though_the_role_is_one_of_replication(pg, defib):
    """defib's tables rely on them: ids of workers, seals and actors are theirs."""
    try:
        url = role_with(pg, {"session_replication_role": "replica"}, options="SUPERUSER")
        ran = defib("init", "--db", url, "--yes")
        assert ran.code == 0, ran
        assert defib("enqueue", "default", "k", "--db", url).code == 0
        ran = defib("work", "--drain", "--spool", "off", "--db", url, "--", "true")
        assert ran.code == 0, ran
        (worker,), = pg.sql("SELECT id FROM defib.worker")
        assert worker > 1_000_000_000
        pg.sql("ALTER ROLE nasty NOSUPERUSER")
        ran = defib("enqueue", "default", "k", "--db", url)
        assert ran.code == 4 and "RESET session_replication_role" in ran.err, ran
    finally:
        pg.drop_now()
        with pg.server.admin().cursor() as cursor:
            cursor.execute("DROP ROLE nasty")
