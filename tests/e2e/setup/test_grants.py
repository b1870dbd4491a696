# SPDX-License-Identifier: Apache-2.0
"""The grants that `defib init --print --for GROUP` prints, both ways: what a role of the group needs
works with exactly these, and whatever else it tries is refused and changes nothing."""

import contextlib
import re

import psycopg2
import pytest

from harness.daemon import World
from harness.doctor_setup import config, make_jobs, role
from harness.limited_role import COUNTED, WORK, dba, stuck
from harness.proof_results import record
from harness.waiting import eventually

COMMAND = "make test T=test_grants"
# The role that each group is for, and commands that its grants are there for.
GROUPS = {
    "view": ("scan", "list", "show jobs/1", "explain jobs 1", "status", "stats", "ledger", "report",
             "whatif jobs --stuck-after 2h", "doctor", "alert list", "ledger verify"),
    "act": ("scan --fix", "hold jobs/2 --yes --reason r", "release jobs/2 --yes --reason r",
            "requeue jobs/3 --yes --reason r", "fail jobs/4 --yes --reason r", "cancel jobs/5 --yes",
            "pause jobs --reason r", "resume jobs", "raise jobs --by 2 --reason r",
            "raise jobs --off", "retry jobs/3 --yes --reason r", "hold queue/1 --yes --reason r",
            "release queue/1 --yes --reason r", "cancel queue/2 --yes",
            "requeue queue/3 --yes --reason r", "fail queue/3 --yes --reason r",
            "retry queue/3 --yes --reason r",
            "undo LAST --yes --reason r"),
    "daemon": (),  # it runs: see below
    "work": ("enqueue mail send {}", "work --queue mail --drain -- true", "work jobs --drain"),
}
# Commands of others, which change something: none of them may succeed.
OTHERS = {
    "view": GROUPS["act"][:6] + ("pause jobs --reason r", "raise jobs --by 2 --reason r",
                                 *GROUPS["work"], "prune --yes", "init"),
    "act": ("enqueue mail send {}", "work --queue mail --drain -- true", "prune --yes"),
    "daemon": (),
    "work": ("pause jobs --reason r", "raise jobs --by 2 --reason r"),
}
# What no group may do, as its own SQL.
STATEMENTS = (
    "DELETE FROM jobs", "UPDATE jobs SET kind = 'x'", "UPDATE jobs SET id = id + 1000",
    "INSERT INTO jobs (id) VALUES (999)", "TRUNCATE jobs", "DROP TABLE jobs",
    "ALTER TABLE jobs ADD COLUMN x int", "CREATE INDEX ON jobs (kind)", "LOCK TABLE jobs",
    "CREATE TRIGGER t AFTER UPDATE ON jobs EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_"
    "trigger()",
    "SELECT * FROM salaries", "UPDATE salaries SET n = 0", "DELETE FROM defib.ledger",
    "UPDATE defib.ledger SET actor = 'x'", "TRUNCATE defib.ledger", "DROP TABLE defib.ledger",
    "DELETE FROM defib.ledger_seal", "UPDATE defib.ledger_seal SET seal = 'x'",
    "ALTER TABLE defib.ledger DISABLE TRIGGER ALL", "CREATE TABLE defib.mine (x int)",
    "CREATE TABLE public.mine (x int)", "DROP SCHEMA defib CASCADE", "CREATE SCHEMA other",
    "CREATE ROLE other", "ALTER ROLE postgres PASSWORD 'x'", "SET ROLE postgres",
    "GRANT SELECT ON jobs TO PUBLIC_ROLE", "COPY jobs TO PROGRAM 'true'", "COPY jobs TO '/tmp/x'",
    "SELECT pg_read_file('/etc/passwd')", "CHECKPOINT",
    "ALTER FUNCTION defib.turn RENAME TO torn",
)
WRITES = {"SELECT": False, "INSERT": True, "UPDATE": True, "DELETE": True, "TRUNCATE": True,
          "REFERENCES": True, "TRIGGER": True}


@contextlib.contextmanager
def role_of(pg, defib, group):
    """A role with exactly the grants of a group: its URL, and its configuration."""
    with role(pg) as url:
        text = config(url, work=WORK if group == "work" else None, **COUNTED)
        dba(pg, defib, text, "--for", group)
        yield url, text


@pytest.fixture
def jobs(pg):
    pg.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    make_jobs(pg)
    pg.sql("CREATE TABLE salaries (n int)")
    pg.sql("INSERT INTO salaries VALUES (1)")
    stuck(pg, 6)
    return pg


def rows(pg):
    """Everything, to see that nothing of it changed."""
    tables = pg.sql("SELECT schemaname, tablename FROM pg_tables "
                    "WHERE schemaname IN ('public', 'defib') ORDER BY 1, 2")
    return {f"{s}.{t}": sorted(map(str, pg.sql(f'SELECT * FROM "{s}"."{t}"'))) for s, t in tables}


@pytest.mark.parametrize("group", ["view", "act", "work"])
def test_each_command_of_a_group_runs_with_its_grants_alone(jobs, defib, group):
    with role_of(jobs, defib, group) as (_, text):
        for _ in range(3):
            assert defib("enqueue", "mail", "send", db=jobs).code == 0
        left_behind(jobs)
        stuck(jobs, 6)
        for command in GROUPS[group]:
            newest = jobs.sql("SELECT batch FROM defib.ledger ORDER BY id DESC LIMIT 1")
            ran = defib(*command.replace("LAST", newest[0][0] if newest else "").split(),
                        config=text)
            # A doctor of whoever may not write says so: that is a finding, not a failure.
            allowed = (0, 1, 3) if command == "doctor" else (0, 1)
            assert ran.code in allowed, (command, ran.code, ran.out, ran.err)
            assert "permission denied" not in ran.out + ran.err, (command, ran.err)
            stuck(jobs, 6) if "fix" in command else None


def left_behind(pg):
    """A job of the queue whose worker is gone."""
    pg.sql("INSERT INTO defib.worker (name, incarnation, started_at, renewed_at, lease_ms, "
           "expires_at) VALUES ('w', 'gone', now() - interval '1 day', now() - interval '1 day', "
           "1000, now() - interval '1 day')")
    pg.sql("UPDATE defib.job SET state = 'running', epoch = 1, claimed_at = now() - interval '1 day'"
           ", owner = (SELECT max(id) FROM defib.worker) WHERE id = 3")


@pytest.mark.parametrize("group", ["view", "act", "work"])
def test_commands_of_others_are_refused_and_change_nothing(jobs, defib, group):
    with role_of(jobs, defib, group) as (_, text):
        both = config(re.search("url: '(.*)'", text)[1], work=WORK, **COUNTED)
        before = rows(jobs)
        for command in OTHERS[group]:
            ran = defib(*command.split(), config=both)
            assert ran.code != 0 or "nothing" in ran.out + ran.err, (command, ran.out, ran.err)
            assert len(ran.err.strip().splitlines()) <= 3, (command, ran.err)
            changed = {k: v for k, v in rows(jobs).items() if v != before[k]}
            assert changed == {}, (command, changed)


@pytest.mark.parametrize("group", GROUPS)
def test_statements_that_no_command_needs_are_refused(jobs, defib, group):
    with role_of(jobs, defib, group) as (url, _):
        before = rows(jobs)
        session = psycopg2.connect(url)
        try:
            for statement in STATEMENTS:
                with session.cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
                    cursor.execute(statement.replace("PUBLIC_ROLE", "PUBLIC"))
                    if "GRANT" in statement:  # a warning is all that a server says of this
                        raise psycopg2.errors.InsufficientPrivilege("not granted")
                assert refused.value.pgcode in ("42501", None), (statement, refused.value)
                session.rollback()
        finally:
            session.close()
        assert rows(jobs) == before
        assert jobs.sql("SELECT has_table_privilege('public', 'jobs', 'SELECT')") == [(False,)]
    record(f"with the grants for {group}, statements that no command needs are refused", COMMAND,
           f"0 of {len(STATEMENTS)} were done", len(STATEMENTS))


def printed_privileges(text):
    """{(table, privilege)} of the GRANT statements in what init prints, but for those on columns."""
    found = set()
    for what, tables in re.findall(r"^(?:DO .*THEN )?GRANT ([A-Z, ]+) ON (?:TABLE )?(.+?) TO",
                                   re.sub(r"(?:, )?UPDATE [(].*?[)]", "", text), re.M):
        if "SEQUENCE" in tables or "SCHEMA" in tables:
            continue
        for table in tables.split(", "):
            found |= {(table.strip().strip('"'), one.strip()) for one in what.split(",")}
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_a_role_has_what_is_printed_and_nothing_more(jobs, defib, group):
    """As the server sees it: nothing comes through PUBLIC, an owner or a default."""
    with role(jobs) as url:
        text = config(url, **COUNTED)
        name = f"r_{jobs.name}"
        printed = printed_privileges(defib("init", "--print", "--for", group, config=text).out)
        dba(jobs, defib, text, "--for", group)
        has = {(table.removeprefix("public."), privilege) for table, privilege, granted in jobs.sql(
            "SELECT format('%%s.%%s', schemaname, tablename), p, has_table_privilege(%s, "
            "format('%%I.%%I', schemaname, tablename), p) FROM pg_tables, unnest(%s::text[]) p "
            "WHERE schemaname IN ('public', 'defib')", name, list(WRITES)) if granted}
        assert has == {(t, p) for t, p in printed
                       if t not in ("defib.claimed_by", "defib.program")} - {("jobs", "UPDATE")}
        written = {c for c, in jobs.sql(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'jobs'::regclass AND attnum > 0 AND "
            "has_column_privilege(%s, 'jobs', attname, 'UPDATE')", name)}
        assert written == (set() if group == "view" else {"status", "attempts", "updated_at"})
        if group == "view":
            assert not [one for one in has if WRITES[one[1]]]


def test_no_function_of_ours_lends_the_rights_of_its_owner(jobs, defib):
    """Whoever may use the schema may call its functions: each runs with the caller's rights."""
    with role_of(jobs, defib, "view"):
        lent = jobs.sql("SELECT proname FROM pg_proc WHERE pronamespace = 'defib'::regnamespace "
                        "AND prosecdef AND has_function_privilege('public', oid, 'EXECUTE')")
        assert lent == []


def test_a_viewer_changes_nothing_through_the_functions(jobs, defib):
    with role_of(jobs, defib, "view") as (url, _):
        before = rows(jobs)
        functions = jobs.sql(
            "SELECT oid::regproc::text, ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) t)"
            " FROM pg_proc WHERE pronamespace = 'defib'::regnamespace AND prokind = 'f' "
            "AND prorettype <> 'trigger'::regtype")
        session = psycopg2.connect(url)
        session.autocommit = True
        values = {"bigint": "1", "integer": "1", "text": "'x'", "jsonb": "'{}'", "boolean": "true",
                  "bigint[]": "'{1}'", "text[]": "'{x}'", "jsonb[]": "'{}'", "interval": "'1s'",
                  "integer[]": "'{1}'", "timestamp with time zone": "now()", "regclass": "'jobs'"}
        for name, types in functions:
            given = ", ".join(f"{values.get(t, 'NULL')}::{t}" for t in types)
            with contextlib.suppress(psycopg2.Error), session.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {name}({given})")
        session.close()
        assert len(functions) >= 5 and rows(jobs) == before


def test_a_daemon_recovers_with_its_grants_alone(jobs, defib):
    world = World(defib, jobs)
    try:
        with role_of(jobs, defib, "daemon") as (_, text):
            stuck(jobs)
            daemon = world.daemon(text)
            eventually(lambda: jobs.sql("SELECT status FROM jobs WHERE id = 1") == [("queued",)])
            eventually(lambda: jobs.sql("SELECT count(*) FROM defib.ledger")[0][0] > 0)
            assert "permission denied" not in daemon.log, daemon.log
            assert daemon.stop() == 0
    finally:
        world.close()
