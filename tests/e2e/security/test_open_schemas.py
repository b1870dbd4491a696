# SPDX-License-Identifier: Apache-2.0
"""Where others can create in a schema of the search path, nothing of theirs runs as defib."""

import pytest

from harness.open_schema import OpenSchema
from harness.pooler import pooler, through  # noqa: F401  (fixtures)
from harness.python_package import package  # noqa: F401

pytestmark = pytest.mark.oldest_and_newest
CLOSE = "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"


@pytest.fixture
def opened(pg):
    opened = OpenSchema(pg)
    yield opened
    opened.drop()


def failed(defib, text, *words):
    """The watch is refused with one line, and doctor fails with the same advice."""
    ran = defib("scan", "--fix", config=text)
    assert ran.code == 3 and ran.err.count("\n") == 1, ran.out + ran.err
    assert all(word in ran.err for word in (*words, CLOSE)), ran.err
    found, = [one for one in defib("doctor", "--json", config=text).json["findings"]
              if one["check"] == "fits"]
    assert found["level"] == "FAIL" and CLOSE in found["fix"]


def test_planted_operators_and_functions_do_not_run(opened, defib):
    """The table's schema is found all the same, in each command and with attach."""
    opened.table()
    opened.plant()
    text = opened.config()
    assert defib("scan", config=text).code == 1
    assert defib("explain", "jobs", "1", config=text).code in (0, 1)
    assert "public.jobs" in defib("doctor", config=text).out
    ran = defib("scan", "--fix", config=text)
    assert ran.code == 0 and opened.state() == "queued", ran.out + ran.err
    opened.pg.sql(f"REASSIGN OWNED BY {opened.role} TO postgres")  # the schema defib
    assert defib("attach", "jobs", "--yes", config=opened.config(url=opened.pg.url)).code == 0
    assert defib("detach", "jobs", "--yes", config=opened.config(url=opened.pg.url)).code == 0
    assert opened.seen() == []


def test_nor_do_they_through_a_transaction_pooler(opened, defib, pooler):
    opened.table()
    opened.plant()
    text = opened.config(url=through(pooler, opened.pg))
    assert defib("scan", "--fix", config=text).code == 0
    assert opened.state() == "queued" and opened.seen() == []


def test_a_schema_that_somebody_named_like_our_role_is_not_searched(opened, defib):
    """The path begins with "$user", whoever made that schema."""
    opened.pg.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    opened.table()
    opened.as_eve(f"CREATE SCHEMA {opened.role}; GRANT USAGE ON SCHEMA {opened.role} TO PUBLIC")
    opened.plant(opened.role)
    assert defib("scan", "--fix", config=opened.config()).code == 0
    assert opened.state() == "queued" and opened.seen() == []


@pytest.mark.needs("citext")
@pytest.mark.parametrize("type, running", [
    ("citext", "status = 'RUNNING'"), ("citext[]", "status @> ARRAY['RUNNING'::citext]"),
    ("text", "status::public.citext = 'RUNNING'")], ids=["column", "array", "cast"])
def test_a_type_whose_operators_are_in_an_open_schema_is_refused(opened, defib, type, running):
    """Without the schema, the equality of citext would silently become that of text."""
    opened.pg.sql("CREATE EXTENSION citext")
    opened.table(type if type != "citext[]" else "text")
    if type == "citext[]":
        opened.pg.sql("ALTER TABLE jobs ALTER status TYPE citext[] USING ARRAY[status]")
    text = opened.config(running=f'"{running}"').replace(
        "status = 'queued'", "status = '{queued}'" if type == "citext[]" else "status = 'queued'")
    failed(defib, text, "citext", "public")
    opened.pg.sql(CLOSE)
    ran = defib("scan", "--fix", config=text)
    assert ran.code == 0 and "queued" in opened.state(), ran.out + ran.err


@pytest.mark.parametrize("running", ["public.runs(status)", "status OPERATOR(public.=) 'running'",
                                     "runs(status)", "EXISTS (SELECT 1 FROM other)"])
def test_what_is_only_in_an_open_schema_is_refused(opened, defib, running):
    """An overload that somebody adds beside it could fit better."""
    opened.table()
    opened.pg.sql("CREATE FUNCTION runs(text) RETURNS boolean LANGUAGE sql AS "
                  f"$$SELECT $1 = 'running'$$; CREATE TABLE other (n int); GRANT SELECT ON other "
                  f"TO {opened.role}")
    opened.plant()
    failed(defib, opened.config(running=running), "public")
    assert opened.state() == "running" and opened.seen() == []


def test_a_table_of_an_open_schema_may_be_named_with_it(opened, defib):
    opened.table()
    opened.pg.sql(f"CREATE TABLE other (n int); GRANT SELECT, UPDATE ON other TO {opened.role}")
    text = opened.config(running="NOT EXISTS (SELECT 1 FROM public.other) AND status = 'running'")
    assert defib("scan", "--fix", config=text).code == 0 and opened.state() == "queued"


def test_a_table_that_is_in_two_open_schemas_must_be_named_with_its_schema(opened, defib):
    """Whoever can create in the first one could put another table before it."""
    opened.table()
    opened.as_eve("CREATE SCHEMA a; GRANT ALL ON SCHEMA a TO PUBLIC; CREATE TABLE a.jobs (id int, "
                  "status text, updated_at timestamptz); GRANT ALL ON a.jobs TO PUBLIC")
    text = opened.config(url=opened.url + "?options=-csearch_path%3Da,public")
    ran = defib("scan", "--fix", config=text)
    assert ran.code == 3 and "name its schema" in ran.err and opened.state() == "running"


# The library's statements in a caller's own transaction find names by the caller's path.
ENQUEUE = """
import ctypes, sys
import psycopg2
from defib import _library as c

session = psycopg2.connect(sys.argv[1])
session.cursor().execute("SELECT 1")
spec = c.JobSpec(queue=b"mail", kind=b"send", payload=b"{}", delay_ms=60000, max_attempts=5,
                 timeout_ms=1000, tags=b'["a"]')
number, message = ctypes.c_int64(), c.Message()
c.check(c.lib.defib_enqueue_pg(session.pgconn_ptr, spec, ctypes.byref(number), message), message)
session.commit()
"""
MULTIPLIED = """
CREATE FUNCTION public.times(bigint, interval) RETURNS interval LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.seen VALUES (current_user); RETURN $2; END $$;
CREATE OPERATOR public.* (leftarg = bigint, rightarg = interval, function = public.times)
"""


def test_planted_operators_do_not_run_in_a_transaction_of_the_librarys_caller(opened, defib,
                                                                              package):
    assert defib("init", db=opened.pg).code == 0
    opened.as_eve(MULTIPLIED)
    package.run(ENQUEUE, opened.pg.url)
    assert opened.pg.sql("SELECT state FROM defib.job") == [("scheduled",)]
    assert opened.seen() == []
