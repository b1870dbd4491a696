# SPDX-License-Identifier: Apache-2.0
"""Where another role has the schema defib, or something in it, nobody is made to run its code."""

import pytest

from harness.attached_table import TABLE, config, do, named

pytestmark = pytest.mark.oldest_and_newest

# What attach would use if it were there: the table that its functions write, which are the
# superuser's, with a trigger.
TRAP = """
CREATE TABLE defib.claimed_by (watch text, job text, claim bigint GENERATED ALWAYS AS IDENTITY,
                               application text, pid integer, at timestamptz DEFAULT now(),
                               PRIMARY KEY (watch, job));
CREATE TABLE defib.program (application text, watch text, watcher text, leader text, command text,
                            started_at timestamptz, ended_at timestamptz, ending text, clean boolean);
GRANT ALL ON ALL TABLES IN SCHEMA defib TO PUBLIC;
CREATE FUNCTION defib.sprung() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO public.loot VALUES (current_user); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON defib.claimed_by FOR EACH ROW EXECUTE FUNCTION defib.sprung()
"""
# Of the names and parameters of what attach and install make.
FUNCTIONS = """
CREATE FUNCTION defib.claim_write_jobs(text, text) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION defib.recover_jobs("limit" integer DEFAULT NULL) RETURNS void LANGUAGE sql AS ''
"""
COMMANDS = (("attach", "jobs", "--yes"), ("install", "jobs", "--yes"), ("init",))


@pytest.fixture
def eve(pg):
    pg.sql("CREATE ROLE eve LOGIN; CREATE TABLE loot (who text); GRANT INSERT ON loot TO PUBLIC")
    pg.sql(TABLE)
    session = named(pg, "eve", "eve")
    yield session
    session.close()
    pg.hang_up()
    pg.sql("DROP OWNED BY eve CASCADE; DROP ROLE eve")


def checked(pg, defib):
    found, = [one for one in defib("doctor", "--json", db=pg.url).json["findings"]
              if one["check"] == "schema"]
    return found


def refused(pg, defib, *words):
    """The same reason everywhere, and no function of ours."""
    for command in COMMANDS:
        ran = defib(*command, config=config(pg)) if command != ("init",) else defib(*command, db=pg)
        assert ran.code not in (0, 1) and all(word in ran.err for word in words), ran.err
    found = checked(pg, defib)
    assert found["level"] == "FAIL" and words[0] in found["text"], found


def test_a_schema_that_somebody_made_first_is_not_used_by_a_superuser(pg, defib, eve):
    pg.sql(f"GRANT CREATE ON DATABASE {pg.name} TO eve")
    do(eve, "CREATE SCHEMA defib;" + TRAP)
    refused(pg, defib, "belongs to role eve")
    pg.sql("UPDATE jobs SET status = 'running' WHERE id = 3")
    assert pg.sql("SELECT * FROM loot") == []
    # Its owner may use it, and who connects as another role learns whose it is.
    mine = pg.server.url(pg.name, "eve")
    do(eve, "DROP SCHEMA defib CASCADE")
    assert defib("init", db=mine).code == 0
    found, = [one for one in defib("doctor", "--json", db=mine).json["findings"]
              if one["check"] == "schema"]
    assert found["level"] == "ok" and "role eve" in found["text"]


def test_what_others_made_in_the_schema_is_not_taken_for_ours(pg, defib, eve):
    assert defib("init", db=pg).code == 0
    assert checked(pg, defib)["level"] == "ok"
    pg.sql("GRANT CREATE, USAGE ON SCHEMA defib TO eve")
    do(eve, FUNCTIONS)
    refused(pg, defib, "other roles can create in schema defib",
            "REVOKE CREATE ON SCHEMA defib FROM eve;")
    pg.sql("REVOKE CREATE ON SCHEMA defib FROM eve")
    refused(pg, defib, "function defib.claim_write_jobs(text,text) belongs to role eve")
    pg.sql("DROP OWNED BY eve CASCADE; GRANT INSERT ON loot TO PUBLIC")
    for command in COMMANDS[:2]:
        assert defib(*command, config=config(pg)).code == 0
    assert checked(pg, defib)["level"] == "ok"


def test_a_trigger_of_another_role_on_our_tables_is_found(pg, defib, eve):
    """As a role with the privilege TRIGGER can make one: it runs with the rights of who writes."""
    assert defib("init", db=pg).code == 0
    pg.sql(f"GRANT USAGE ON SCHEMA defib TO eve; GRANT TRIGGER ON defib.ledger TO eve; "
           f"GRANT CREATE ON DATABASE {pg.name} TO eve")
    do(eve, "CREATE SCHEMA eve; CREATE FUNCTION eve.f() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN RETURN NEW; END'; CREATE TRIGGER t BEFORE INSERT ON defib.ledger "
            "FOR EACH ROW EXECUTE FUNCTION eve.f()")
    found = checked(pg, defib)
    assert found["level"] == "FAIL" and "trigger t on table defib.ledger" in found["text"], found
