# SPDX-License-Identifier: Apache-2.0
"""The systems of examples/ as tests use them: a fresh database, the shipped configuration."""

import types

from harness.program import ROOT

EXAMPLES = ROOT / "examples"
SQLITE_TIME = "%Y-%m-%d %H:%M:%f"


def ago(db, seconds):
    """SQL for an instant in the past, as the table writes time."""
    if db.engine == "postgres":
        return f"now() - interval '{seconds} seconds'"
    return f"strftime('{SQLITE_TIME}', 'now', '-{seconds} seconds')"


def age(db, column):
    """SQL for the seconds since then."""
    if db.engine == "postgres":
        return f"extract(epoch FROM clock_timestamp() - {column})::float"
    return f"(julianday('now') - julianday({column})) * 86400"


def ledger(db):
    return "defib.ledger" if db.engine == "postgres" else "defib_ledger"


def holds(db):
    return "defib.hold" if db.engine == "postgres" else "defib_hold"


class Example:
    """One system: its schema loaded, its configuration run with DATABASE_URL set."""

    def __init__(self, name, db, defib):
        self.db = db
        self.defib = defib
        self.dir = EXAMPLES / name
        self.load(db)
        variant = self.dir / f"defib.{db.engine}.yaml"
        self.config = variant if variant.exists() else self.dir / "defib.yaml"

    def load(self, db):
        db.sql((self.dir / f"schema.{db.engine}.sql").read_text())

    def __call__(self, *args, env=None, **options):
        env = {"DATABASE_URL": self.db.url, **(env or {})}
        return self.defib(*args, config=self.config, env=env, **options)

    def insert(self, table, **values):
        """A row; a value of the form ("sql", text) is taken as SQL."""
        marks = [v[1] if isinstance(v, tuple) else "%s" for v in values.values()]
        given = [v for v in values.values() if not isinstance(v, tuple)]
        self.db.sql(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(marks)})",
                    *given)

    def ago(self, seconds):
        return ("sql", ago(self.db, seconds))

    def row(self, table, columns, where="true"):
        """The one row there is, by column name."""
        rows = self.db.sql(f"SELECT {', '.join(columns)} FROM {table} WHERE {where}")
        assert len(rows) == 1, rows
        return types.SimpleNamespace(**dict(zip(columns, rows[0])))
