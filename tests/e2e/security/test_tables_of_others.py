# SPDX-License-Identifier: Apache-2.0
"""A superuser who looks for queues, or asks doctor, runs no code of those who own the tables."""

import pytest

from harness.program import ROOT

pytestmark = pytest.mark.oldest_and_newest

SCHEMAS = ROOT / "tests" / "schemas"

# The planner calls the function of the index; what it logs stays, also after a rollback.
OWNED = """
CREATE SCHEMA app AUTHORIZATION owner; SET SESSION AUTHORIZATION owner; SET search_path = app;
CREATE TABLE workers (id int PRIMARY KEY, heartbeat_at timestamptz NOT NULL DEFAULT now(),
                      name text);
CREATE TABLE jobs (id int PRIMARY KEY, status text NOT NULL CHECK (status IN ('queued', 'running')),
                   worker_id int REFERENCES workers, updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO workers VALUES (1);
INSERT INTO jobs SELECT n, 'running', 1 FROM generate_series(1, 9) n;
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE INDEX ON workers ((id + f(1)));
CREATE INDEX ON jobs ((id + f(1)));
CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN RAISE LOG ''code of the owner ran as %'', current_user; RETURN 1; END';
RESET SESSION AUTHORIZATION; SET search_path = public;
CREATE TABLE mine (id int PRIMARY KEY, status text NOT NULL CHECK (status IN ('queued', 'running')),
                   worker_id int REFERENCES app.workers, updated_at timestamptz NOT NULL);
CREATE TABLE parted (LIKE mine) PARTITION BY LIST (status);
CREATE TABLE part PARTITION OF parted FOR VALUES IN ('running');
GRANT USAGE ON SCHEMA public TO owner;
ALTER TABLE part OWNER TO owner; ALTER FUNCTION app.f(int) OWNER TO owner
"""
WATCH = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: jobs
    table: {table}
    key: id
    running: status = 'running'
    alive_at: {alive}
    stuck_after: 1h
    requeue: status = 'queued'
    attempts: '0'
    max_attempts: 3
"""


@pytest.fixture
def owned(pg):
    pg.sql("CREATE ROLE owner LOGIN")
    pg.sql(OWNED)
    began = len(log(pg))
    yield pg
    pg.hang_up()
    pg.sql("DROP OWNED BY owner CASCADE; DROP ROLE owner")
    assert "code of the owner ran as postgres" not in log(pg)[began:]


def log(pg):
    return pg.server.log.read_text(errors="replace")


def test_the_search_for_queues_leaves_tables_of_others_out(owned, defib):
    ran = defib("init", "--detect", db=owned)
    assert ran.code == 0 and "mine" in ran.out and "app.jobs" not in ran.out
    assert "tables were left out: role postgres is a superuser" in ran.err, ran.err
    assert "app.workers" not in ran.out
    ran = defib("init", "--table", "app.jobs", db=owned)
    assert ran.code == 5 and "belongs to role owner" in ran.err, ran.err
    ran = defib("init", "--table", "mine", db=owned)
    assert ran.code == 0 and "app.workers" not in ran.out, ran.out


def test_a_known_queue_of_another_role_is_left_out_too(owned, defib):
    """Presets are tried on the tables that they name."""
    owned.sql((SCHEMAS / "laravel.postgres.sql").read_text())
    owned.sql("DROP TABLE mine; ALTER TABLE public.jobs OWNER TO owner; "
              "CREATE INDEX ON public.jobs ((attempts + app.f(1)))")
    ran = defib("init", "--detect", db=owned)
    assert ran.code == 5 and "laravel" not in ran.out + ran.err, ran.err


def test_nor_does_another_role_run_their_code_unless_it_asks_for_the_table(owned, defib):
    """Everybody who can create a table can put code into it, and grant the right to read it."""
    owned.sql(f"CREATE ROLE r_{owned.name} LOGIN; GRANT SELECT ON mine TO r_{owned.name}; "
              f"GRANT USAGE ON SCHEMA app TO PUBLIC; GRANT SELECT ON ALL TABLES IN SCHEMA app "
              "TO PUBLIC; CREATE TABLE plain (LIKE mine INCLUDING ALL); ALTER TABLE plain OWNER TO "
              f"owner; CREATE INDEX ON plain (lower(status)); GRANT SELECT ON plain TO PUBLIC")
    url = owned.server.url(owned.name, f"r_{owned.name}")
    ran = defib("init", "--detect", db=url)
    assert ran.code == 0 and "table: plain" in ran.out and "table: mine" in ran.out, ran.out
    assert "tables were left out: table app.jobs belongs to role owner" in ran.err, ran.err
    assert f"ran as r_{owned.name}" not in log(owned)
    ran = defib("init", "--table", "app.jobs", db=url)
    assert ran.code == 0 and f"ran as r_{owned.name}" in log(owned)
    owned.hang_up()
    owned.sql(f"DROP OWNED BY r_{owned.name}; DROP ROLE r_{owned.name}")


def test_its_owner_finds_them(owned, defib):
    ran = defib("init", "--detect", db=owned.server.url(owned.name, "owner"))
    assert ran.code == 0 and "app.jobs" in ran.out and "left out" not in ran.err
    assert "code of the owner ran as owner" in log(owned)


@pytest.mark.parametrize("table, alive", [
    ("app.jobs", "updated_at"), ("parted", "updated_at"),
    ("mine", "(SELECT w.heartbeat_at FROM app.workers w WHERE w.id = t.worker_id)")],
    ids=["table", "partition", "other-table"])
def test_doctor_and_install_stop_before_they_read_a_table_of_another_role(owned, defib, table, alive):
    """What install makes would later run as the superuser who schedules it."""
    text = WATCH.format(url=owned.url, table=table, alive=f'"{alive}"')
    ran = defib("install", "jobs", "--yes", config=text)
    assert ran.code == 5 and "belongs to role owner" in ran.err, ran.err
    assert owned.sql("SELECT to_regnamespace('defib')") == [(None,)]
    ran = defib("doctor", "--json", config=text)
    found, = [one for one in ran.json["findings"] if one["check"] == "code"]
    assert found["level"] == "FAIL" and "belongs to role owner" in found["text"], found
