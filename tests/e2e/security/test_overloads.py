# SPDX-License-Identifier: Apache-2.0
"""A role that may create in the schema defib cannot make its functions be called by defib."""

import pytest

from harness import overloads
from harness.attached_table import named

pytestmark = pytest.mark.oldest_and_newest

CLOSED = "REVOKE CREATE ON SCHEMA defib FROM intruder;"


@pytest.fixture
def intruder(with_tables, pg):
    pg.sql("CREATE ROLE intruder LOGIN; GRANT CREATE, USAGE ON SCHEMA defib TO intruder")
    session = named(pg, "intruder", "intruder")
    assert overloads.plant(pg, session) > 20
    yield session
    session.close()
    pg.hang_up()
    pg.sql("DROP OWNED BY intruder CASCADE; DROP ROLE intruder")


def test_no_function_of_ours_is_found_by_the_types_of_a_call(intruder, pg, defib):
    text = f'databases: [{{name: main, url: "{pg.url}"}}]\n'

    def run(*argv):
        ran = defib(*argv, config=text)
        assert ran.code == 0, ran.out + ran.err

    for _ in range(2):
        run("enqueue", "mail", "send", "{}", "--unique-key", "one")
    run("enqueue", "mail", "fail", "--max-attempts", "1")
    run("enqueue", "other", "send")
    run("enqueue", "mail", "later", "--delay", "1ms")  # and due when the worker starts
    run("work", "--queue", "mail", "--drain", "--", "sh", "-c", 'test "$DEFIB_KIND" != fail')
    waiting, = pg.sql("SELECT id FROM defib.job WHERE queue = 'other'")[0]
    run("cancel", f"queue/{waiting}", "--yes", "--reason", "r")
    run("ledger", "prune", "--older-than", "1ms", "--yes")
    states = dict(pg.sql("SELECT kind, min(state) FROM defib.job GROUP BY 1"))
    assert states["fail"] == "failed" and states["later"] == "done"
    pg.sql("SELECT defib.claim(id, 'mail'::text, 1, NULL::text, 32767, 0::bigint, NULL::text[]) "
           "FROM defib.register('w'::text, 'w'::text, 15000, NULL::text) AS r(id)")
    assert not overloads.called(pg)


def test_doctor_fails_until_only_the_owner_may_create_in_our_schema(intruder, pg, defib):
    def schema():
        return next(one for one in defib("doctor", "--json", db=pg).json["findings"]
                    if one["check"] == "schema")
    assert schema()["level"] == "FAIL" and schema()["fix"] == CLOSED
    pg.sql(CLOSED)
    assert schema()["level"] == "FAIL" and "belongs to role intruder" in schema()["text"]
    pg.sql("DROP OWNED BY intruder CASCADE")
    assert schema()["level"] == "ok"
