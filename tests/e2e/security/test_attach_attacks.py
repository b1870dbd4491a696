# SPDX-License-Identifier: Apache-2.0
"""What a role without privileges can do with the functions that we put into a database: nothing."""

import contextlib
import re

import psycopg2
import pytest

from harness.attached_table import TABLE, claims, config, do, named
from harness.owners_code import OWNERS_CODE, escaped

pytestmark = pytest.mark.oldest_and_newest

# A key whose cast to text runs its owner's code with the privileges of the reader.
TRAP = """
SET search_path = mallory, public;
CREATE TYPE trap AS (n int);
CREATE FUNCTION sprung(trap) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mallory.loot SELECT current_user::text;
    EXECUTE 'ALTER ROLE mallory SUPERUSER';
    RETURN '1';
END $$;
CREATE CAST (trap AS text) WITH FUNCTION sprung(trap);
CREATE TEMP TABLE bait (id trap, status text, worker text, updated_at timestamptz)
"""
FORGED = "CREATE TEMP TABLE bait (id int, status text, worker text, updated_at timestamptz)"


@pytest.fixture
def mallory(pg):
    """A session of a role that may only use our schema, and create in one of its own."""
    pg.sql("CREATE ROLE mallory LOGIN; CREATE SCHEMA mallory AUTHORIZATION mallory; "
           "CREATE TABLE mallory.loot (who text); GRANT INSERT ON mallory.loot TO PUBLIC; "
           "GRANT USAGE ON SCHEMA mallory TO PUBLIC")
    session = named(pg, "forger", "mallory")
    yield session
    session.close()
    pg.hang_up()
    pg.sql("DROP OWNED BY mallory CASCADE; DROP ROLE mallory")


@pytest.fixture
def owner(pg):
    """A plain role that owns the table."""
    pg.sql("CREATE ROLE owner LOGIN; CREATE SCHEMA app AUTHORIZATION owner")
    session = named(pg, "owner", "owner")
    do(session, "SET search_path = app; " + TABLE)
    yield session
    session.close()
    pg.hang_up()
    pg.sql("DROP OWNED BY owner CASCADE; DROP ROLE owner")


def attach(pg, defib, table="jobs", grant=True):
    ran = defib("attach", "jobs", "--yes", config=config(pg, table))
    assert ran.code == 0, ran.err
    if grant:
        pg.sql("GRANT USAGE ON SCHEMA defib TO mallory")


def gained(pg):
    return pg.sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'") != [(False,)] or \
        pg.sql("SELECT who FROM mallory.loot WHERE who <> 'mallory'") != []


@pytest.mark.parametrize("bait", [TRAP, FORGED], ids=["cast", "forged"])
@pytest.mark.parametrize("granted", [False, True], ids=["plain", "with-execute"])
def test_a_trigger_on_a_table_of_the_attackers_gains_nothing(pg, defib, mallory, bait, granted):
    """A role with USAGE on our schema puts the trigger on a temporary table with a column type of
    its own, or with plain columns, to run code as the attacher or to forge claims. EXECUTE is
    refused, and with EXECUTE the function still works for no table but its own."""
    pg.sql(TABLE)
    attach(pg, defib)
    if granted:
        pg.sql("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA defib TO mallory")
    do(mallory, bait)
    with contextlib.nullcontext() if granted else pytest.raises(
            psycopg2.errors.InsufficientPrivilege):
        do(mallory, "CREATE TRIGGER t AFTER INSERT ON bait FOR EACH ROW "
                    "EXECUTE FUNCTION defib.claimed_jobs()")
    do(mallory, "INSERT INTO bait VALUES (%s, 'running', NULL, now())" %
       ("ROW(1)::mallory.trap" if bait == TRAP else "7"))
    assert not gained(pg) and claims(pg) == []


def test_the_writer_of_claims_is_not_for_others(pg, defib, mallory):
    pg.sql(TABLE)
    attach(pg, defib)
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        do(mallory, "SELECT defib.claim_write_jobs(NULL, '7')")
    assert claims(pg) == []


def test_default_privileges_give_the_functions_to_nobody(pg, defib, mallory):
    """Where new functions go to a role by default, REVOKE … FROM PUBLIC leaves it its right."""
    pg.sql(TABLE)
    pg.sql("ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO mallory")
    attach(pg, defib)
    for name in ("claimed_jobs()", "claim_write_jobs(text, text)"):
        assert pg.sql("SELECT has_function_privilege('mallory', %s, 'EXECUTE')",
                      f"defib.{name}") == [(False,)]
    pg.sql("GRANT EXECUTE ON FUNCTION defib.claim_write_jobs(text, text) TO mallory")
    found, = [one for one in defib("doctor", "--json", config=config(pg)).json["findings"]
              if one["check"] == "attach"]
    assert found["level"] == "FAIL"


def test_code_of_the_tables_owner_runs_with_the_owners_rights(pg, defib, mallory, owner):
    """A superuser attaches a table of a plain role, which then gives its key a type whose cast
    runs code: it runs as that role, who could run it anyway."""
    attach(pg, defib, "app.jobs")
    assert pg.sql("SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'claimed_jobs'") \
        == [("owner",)]
    do(owner, "UPDATE app.jobs SET status = 'running' WHERE id = 3")
    assert [row[:2] for row in claims(pg)] == [("3", "owner")]
    do(owner, "SET search_path = app; CREATE TYPE trap AS (n int); "
              "CREATE FUNCTION wrap(int) RETURNS trap LANGUAGE sql AS 'SELECT ROW($1)::app.trap';"
              "CREATE FUNCTION sprung(trap) RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
              "INSERT INTO mallory.loot SELECT current_user::text; RETURN '1'; END $$; "
              "CREATE CAST (trap AS text) WITH FUNCTION sprung(trap); "
              "ALTER TABLE jobs ALTER id TYPE trap USING wrap(id)")
    pg.sql("UPDATE app.jobs SET status = 'running'")  # as a superuser
    assert pg.sql("SELECT DISTINCT who FROM mallory.loot") in ([], [("owner",)])


@pytest.mark.parametrize("table", ["app.jobs", "app.parts"], ids=["index", "partitions"])
def test_code_in_the_table_does_not_run_with_the_rights_of_who_attaches(pg, defib, owner, table):
    """Index expressions and keys of partitions have functions of the table's owner, which PostgreSQL
    runs when it plans a query or adds a trigger to all partitions."""
    do(owner, OWNERS_CODE)
    assert not escaped(pg)
    # Of a column of text, only the values tell in which form it holds time.
    text = config(pg, table).replace("alive_at: updated_at", "alive_at: worker")
    ran = defib("attach", "jobs", "--yes", config=text)
    assert not escaped(pg)
    if table == "app.jobs":
        assert ran.code == 0, ran.err
        do(owner, "UPDATE app.jobs SET status = 'running' WHERE id = 3")
        assert [row[0] for row in claims(pg)] == ["3"]
    else:
        assert ran.code == 5 and "attach as role owner" in ran.err, ran.err
        assert pg.sql("SELECT to_regclass('defib.claimed_by')") == [(None,)]
    assert defib("detach", "jobs", "--yes", config=text).code == 0
    assert not escaped(pg)


def test_the_owner_attaches_a_table_that_is_partitioned_by_an_expression(pg, defib, owner):
    do(owner, OWNERS_CODE)
    pg.sql("GRANT CREATE ON DATABASE " + pg.name + " TO owner")
    text = config(pg, "app.parts").replace("postgres@", "owner@")
    assert "owner@" in text
    ran = defib("attach", "jobs", "--yes", config=text)
    assert ran.code == 0, ran.err
    do(owner, "INSERT INTO app.parts VALUES (7, 'running', NULL, now())")
    assert [row[0] for row in claims(pg)] == ["7"]
    pg.sql("DROP SCHEMA defib CASCADE")


def test_a_name_in_a_schema_where_others_can_create_is_not_found(pg, defib, mallory):
    """Others must not define what a watch's SQL means: the functions' search_path has no schema in
    which other roles can create, and a watch that needs one is not attached."""
    pg.sql(TABLE)
    pg.sql("CREATE FUNCTION is_running(text) RETURNS boolean LANGUAGE sql AS "
           "$$SELECT $1 = 'running'$$; GRANT CREATE ON SCHEMA public TO mallory")
    needs = config(pg).replace("running: status = 'running'", "running: is_running(status)")
    ran = defib("attach", "jobs", "--yes", config=needs)
    assert ran.code not in (0, 1) and "qualify" in ran.err
    assert pg.sql("SELECT to_regclass('defib.claimed_by')") == [(None,)]
    attach(pg, defib)
    path, = pg.sql("SELECT proconfig FROM pg_proc WHERE proname = 'claimed_jobs'")[0]
    assert "search_path=pg_catalog, pg_temp" in path


@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_public_is_searched_only_if_others_cannot_create_there(pg, defib, mallory, opened):
    """As every role could until PostgreSQL 15."""
    pg.sql(TABLE)
    if opened:
        pg.sql("GRANT CREATE ON SCHEMA public TO PUBLIC")
    attach(pg, defib)
    path, = pg.sql("SELECT proconfig FROM pg_proc WHERE proname = 'claimed_jobs'")[0]
    assert ("public" in path[0]) == (not opened)


def test_doctor_and_run_refuse_functions_that_others_could_misuse(pg, defib, mallory):
    pg.sql(TABLE)
    attach(pg, defib)
    pg.sql("GRANT EXECUTE ON FUNCTION defib.claimed_jobs() TO PUBLIC")
    ran = defib("doctor", "--json", config=config(pg))
    found, = [one for one in ran.json["findings"] if one["check"] == "attach"]
    assert found["level"] == "FAIL" and "by anyone" in found["text"]
    ran = defib("run", "--watch", "jobs", "--", "true", config=config(pg))
    assert ran.code == 5 and "defib db attach jobs" in ran.err
    attach(pg, defib)  # which puts it right
    found, = [one for one in defib("doctor", "--json", config=config(pg)).json["findings"]
              if one["check"] == "attach"]
    assert found["level"] == "ok"


def test_keys_of_foreign_types_are_known_by_their_own_words(pg, defib):
    pg.sql("CREATE TYPE colour AS ENUM ('red', 'blue')")
    pg.sql(TABLE.replace("id int", "shade colour, id int").replace("PRIMARY KEY", "NOT NULL")
           .replace("SELECT n", "SELECT 'red', n").replace("now());", "now(), "
                                                           "PRIMARY KEY (shade, id));"))
    ran = defib("attach", "jobs", "--yes", config=config(pg, key="[shade, id]"))
    assert ran.code == 0, ran.err
    pg.sql("UPDATE jobs SET status = 'running' WHERE id = 3")
    assert [row[0] for row in claims(pg)] == ['["red","3"]']


# ---- every function of ours


def says_whose_names(body):
    """Every function and operator of the text is qualified with its schema: no search_path matters.
    """
    body = re.sub(r"OPERATOR\(pg_catalog\.[^)]*\)", " ", re.sub(r"'[^']*'", " ", body))
    calls = [name for name in re.findall(r"([\w.]+)\(", body) if name != "coalesce"]
    return all(name.startswith("pg_catalog.") for name in calls) \
        and not re.search(r"[+*/<>=|%~!@#&^?]|-(?!\d)", body)


def test_no_function_of_ours_reads_names_that_others_can_make(pg, defib, mallory):
    """The installed function, the queue's, the ledger's and those of attach: each has a search_path
    of its own with pg_temp last, or is SQL that needs none, and none that runs with its owner's
    rights is for everybody."""
    pg.sql(TABLE)
    assert defib("init", config=config(pg)).code == 0
    assert defib("install", "jobs", "--yes", config=config(pg)).code == 0
    attach(pg, defib)
    every = pg.sql("SELECT p.proname, p.prosecdef, array_to_string(p.proconfig, ';'), "
                   "has_function_privilege('public', p.oid, 'EXECUTE'), p.prosrc FROM pg_proc p "
                   "WHERE p.pronamespace = 'defib'::regnamespace")
    assert len(every) > 15
    for name, definer, settings, anybody, body in every:
        if not settings and not definer and says_whose_names(body):
            continue
        path = [one for one in (settings or "").split(";") if one.startswith("search_path=")]
        assert path and path[0].startswith("search_path=pg_catalog") \
            and path[0].endswith("pg_temp"), name
        assert not (definer and anybody), name


def test_a_role_that_may_only_use_our_schema_changes_nothing(pg, defib, mallory):
    """The queue's functions run with the privileges of their caller, who has none."""
    pg.sql(TABLE)
    assert defib("init", config=config(pg)).code == 0
    assert defib("install", "jobs", "--yes", config=config(pg)).code == 0
    pg.sql("UPDATE jobs SET status = 'running', updated_at = now() - interval '1 day'")
    attach(pg, defib)
    for call in ("defib.enqueue('default', 'forged')", "defib.register('m', 'm')",
                 "defib.renew(1, 0)", "defib.leave(1)", "defib.claim(1, 'default', 1)",
                 "defib.settle(1, ARRAY[1]::bigint[], ARRAY[1]::bigint[], ARRAY['done'])",
                 "defib.beat(1, ARRAY[1]::bigint[], ARRAY[1]::bigint[])", "defib.cancel(1)",
                 "defib.promote(1)", "defib.recover_jobs()"):
        with pytest.raises(psycopg2.Error):
            do(mallory, f"SELECT {call}")
    assert pg.sql("SELECT (SELECT count(*) FROM defib.job), (SELECT count(*) FROM defib.worker), "
                  "(SELECT count(*) FROM defib.ledger), (SELECT count(*) FROM jobs "
                  "WHERE status = 'running')") == [(0, 0, 0, 9)]


def test_a_function_of_an_attackers_is_not_called_by_the_queues(pg, defib, mallory):
    """Where anybody can create in public, an overload that fits better than the built-in one would
    run with the rights of the worker that calls the queue's functions."""
    assert defib("init", db=pg.url).code == 0
    pg.sql("GRANT CREATE ON SCHEMA public TO mallory")
    do(mallory, "CREATE FUNCTION public.least(integer, integer) RETURNS integer LANGUAGE sql AS "
                "'SELECT 1'; "
                "CREATE FUNCTION public.power(integer, integer) RETURNS double precision LANGUAGE "
                "plpgsql AS $$ BEGIN INSERT INTO mallory.loot SELECT current_user::text; RETURN 1; "
                "END $$")
    pg.sql("SELECT defib.backoff_ms(3)")
    assert not gained(pg)
