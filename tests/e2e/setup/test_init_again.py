# SPDX-License-Identifier: Apache-2.0
"""`defib init` in a database that has defib's tables."""

import pytest

SCHEMA = {
    "postgres": ("SELECT oid, relname, relfilenode, relacl::text FROM pg_class WHERE relnamespace = "
                 "'defib'::regnamespace ORDER BY oid",
                 "SELECT attrelid, attname, atttypid, attnotnull FROM pg_attribute a JOIN pg_class c "
                 "ON c.oid = a.attrelid WHERE c.relnamespace = 'defib'::regnamespace "
                 "ORDER BY attrelid, attnum",
                 "SELECT oid, pg_get_functiondef(oid), proacl::text FROM pg_proc "
                 "WHERE pronamespace = 'defib'::regnamespace ORDER BY oid",
                 "SELECT oid, pg_get_constraintdef(oid) FROM pg_constraint "
                 "WHERE connamespace = 'defib'::regnamespace ORDER BY oid",
                 "SELECT t.oid, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c "
                 "ON c.oid = t.tgrelid WHERE c.relnamespace = 'defib'::regnamespace ORDER BY t.oid"),
    "sqlite": ("SELECT * FROM sqlite_master ORDER BY rowid", "PRAGMA schema_version"),
}
TABLES = {
    "postgres": "SELECT 'defib.' || relname FROM pg_class "
                "WHERE relnamespace = 'defib'::regnamespace AND relkind IN ('r', 'S')",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
}


def content(db):
    """Every object of the schema, and every row."""
    found = {query: db.sql(query) for query in SCHEMA[db.engine]}
    for table, in db.sql(TABLES[db.engine]):
        found[table] = sorted(map(repr, db.sql(f"SELECT * FROM {table}")))
    return found


@pytest.mark.usefixtures("with_tables")
def test_init_again_changes_nothing(db, defib):
    text = f'databases: [{{name: main, url: "{db.url}"}}]\n'
    assert defib("enqueue", "mail", "send", config=text).code == 0
    assert defib("work", "--queue", "mail", "--drain", "--", "false", config=text).code == 0
    before = content(db)
    for _ in range(2):
        ran = defib("init", db=db)
        assert ran.code == 0, ran.err
    assert content(db) == before
