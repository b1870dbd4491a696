# SPDX-License-Identifier: Apache-2.0
"""Rows of defib's own tables that no program of ours wrote: each column of each table once with each
hostile value of its type, in a row that is plausible otherwise, and drawn rows with several."""

import random
import sqlite3

import psycopg2

BIG = 2 ** 63 - 1
LONG = "x" * 100_000
TEXTS = ["", LONG, "\x1b[2J\x07\r\n", "\u202e\ufeff\u2028", "%s%n%5$n", "'; DROP TABLE jobs; --",
         "[1]", "{", "{}", "[]", "[null]", "null", "-1", str(BIG + 1), "nan", "infinity", "*", "..",
         "a/b", "=1+1", "<script>", "x\ny\nz", "1.1.1.1", "\U0010ffff" * 70]
DOCUMENTS = ["null", "7", '"text"', "[1]", "[]", "{}", "[" * 1000 + "]" * 1000, '{"":null}',
             '{"v":1,"counts":{"0":1e300,"-1":1,"99999999999":1,"x":[]}}',
             '{"v":1,"halved_us":%d,"longest_us":%d,"counts":{"3":1}}' % (BIG, -BIG),
             '{"cursor_us":%d,"turn":%d,"ledger":%d,"ended_us":%d}' % (BIG, BIG, BIG, -BIG),
             '{"waiting":%d,"running":%d,"done":%d,"recovered":{"silent":%d}}' % ((BIG,) * 4),
             '{"counted":%d,"found":%d,"guard":[1],"watch":{},"reset":-1}' % (-BIG, BIG),
             '{"rule":1,"watch":[],"severity":{},"text":null,"alerts":[1,null]}',
             '{"id":"%s","status":"done"}' % LONG]
NUMBERS = [0, -1, 1, BIG, -BIG - 1, 2 ** 62, 2 ** 31, 2 ** 31 - 1, -2 ** 31, 10 ** 15]
TIMES = ["infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC",
         "1969-12-31", "9999-12-31"]
FLOATS = ["NaN", "Infinity", "-Infinity", "1e308", "-1", "0"]
BYTES = [b"", b"\xff\xfe\x00\x80", b"\xf0\x9f", b"\0" * 300]

BY_TYPE = {
    "text": TEXTS + DOCUMENTS[:6], "jsonb": DOCUMENTS, "bigint": NUMBERS,
    "integer": [n for n in NUMBERS if abs(n) <= 2 ** 31 - 1] + [-2 ** 31, 2 ** 31 - 1],
    "smallint": [0, -1, 2 ** 15 - 1, -2 ** 15], "boolean": [True, False],
    "timestamp with time zone": TIMES, "double precision": FLOATS,
    "ARRAY": ["{}", "{NULL}", "{{1,2},{3,4}}", "{%d}" % BIG],
}
# SQLite stores any type in any column.
ANY = TEXTS + DOCUMENTS + NUMBERS + BYTES + [1e300, -1e300, 0.5, float("inf")]

# What a plausible row has, by table and column, or by column; `{n}` is a number of its own. None of
# these makes defib do anything: times are now, retries do not fit their job, acts have ended.
PLAUSIBLE = {
    "watch": "jobs", "job": "{n}", "batch": "20260101-000000-{n:08x}", "event": "REQUEUED",
    "actor": "daemon", "verdict": "silent", "rule": "by-hand", "reason": "a reason", "epoch": 1,
    "evidence": "{}", "before": "{}", "after": "{}", "kind": "mail", "queue": "mail", "name": "n{n}",
    "cause": "poison", "owner": 1, "state": "done", "holder": "h", "value": "2", "info": "{}",
    "expected": '{"status": "no such state"}', "buckets": "{}", "numbers": "{}", "sink": "none",
    "topic": "t", "document": "{}", "severity": "warning", "sentence": "s", "act": "requeue",
    "terms": '["state=failed"]', "step": "s{n}", "total": 1, "done": 0, "parts": 0, "others": "{}",
    "token": "t{n}", "progress": "1/2", "outcome": "done", "application": "a{n}", "command": "true",
    "watcher": "w", "leader": "l", "pid": 1, "incarnation": "i{n}", "lease_ms": 15000,
    "attempts": 0, "attempt": 1, "tries": 0, "position": 1, "step_s": 60, "form": "f{n}",
    "what": "progress", "run": "r{n}", "since_us": 1,
    "events": "", "tops": "", "times": "", "role": None, "seal": "0" * 64, "entries": 1,
    "first_id": 1, "last_id": "{n}", "next_id": 1, "from_us": 0, "to_us": 0, "payload": "{}",
    "result": "{}", "tags": None, "jobs": "{}", "serves": "jobs", "rows": 1, "removed": 1,
    "id": "{n}", "at": "now", "sign_us": 1, "up_to": None, "unique_key": None, "secret": None,
    "timeout_ms": None, "run_at": "now", "ended_at": "now", "claim": None, "output": "{}",
    "max_attempts": 5, "crashes": 0, "priority": 0, "holding": 0, "repeats": 0, "error": None,
    "until": "now", "series.step": 60, "series.at": "{n}", "meta.value": "1", "seq": "{n}",
    "alert.state": "resolved", "alert.rule": "r{n}", "setting.name": "raise{n}", "delivery.id": "{n}",
    "act.id": "20260101-000000-{n:08x}", "act.position": None, "kept.rule": "r{n}",
    "learned.kind": "k{n}", "status.watch": "w{n}", "leader.watch": "w{n}", "lease.owner": None,
    "job.owner": None, "worker.state": "left", "program.ended_at": None, "hold.owner": "w1",
    "enqueued.at": "now", "step_attempt.step": "s{n}",
}
OWN_TABLES = {"postgres": 27, "sqlite": 24}


def columns(db):
    """{table without prefix: {column: type}} of all own tables."""
    if db.engine == "postgres":
        found = db.sql("SELECT table_name, column_name, data_type FROM information_schema.columns "
                       "JOIN information_schema.tables USING (table_schema, table_name) WHERE "
                       "table_schema = 'defib' AND table_type = 'BASE TABLE' "
                       "ORDER BY table_name, ordinal_position")
    else:
        found = db.sql("SELECT substr(m.name, 7), c.name, 'any' FROM sqlite_master m, "
                       "pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name LIKE "
                       "'defib!_%' ESCAPE '!' ORDER BY 1, c.cid")
    tables = {}
    for table, column, kind in found:
        tables.setdefault(table, {})[column] = kind
    return tables


class Writer:
    """Writes rows; what a constraint or a trigger of the table refuses is counted only."""

    def __init__(self, db, seed=1):
        self.db, self.random = db, random.Random(seed)
        self.n, self.written, self.refused = 100, {}, {}
        self.session = db.connect()
        if db.engine == "postgres":
            self.session.cursor().execute("SET synchronous_commit = off")
        else:
            self.session.execute("PRAGMA synchronous = OFF")

    def plausible(self, table, column, kind):
        value = PLAUSIBLE.get(f"{table}.{column}", PLAUSIBLE.get(column))
        lite = self.db.engine == "sqlite"
        if column.endswith("_at") or column in ("at", "since", "oldest", "until"):
            value = "now" if f"{table}.{column}" not in PLAUSIBLE else value
        if value == "now":
            return int(1e12) if lite else "2026-01-01"
        if isinstance(value, str) and "{n" in value:
            text = value.format(n=self.n)
            return int(text) if text.isdigit() and (lite or kind in ("bigint", "integer")) else text
        if kind == "boolean":
            return False
        return value

    def row(self, table, kinds, wrong):
        """A plausible row with these columns replaced."""
        self.n += 1
        return {**{c: self.plausible(table, c, kind) for c, kind in kinds.items()}, **wrong}

    def write(self, table, row):
        name = f"defib.{table}" if self.db.engine == "postgres" else f"defib_{table}"
        mark = "%s" if self.db.engine == "postgres" else "?"
        over = "OVERRIDING SYSTEM VALUE " if self.db.engine == "postgres" else ""
        names = ", ".join(f'"{c}"' for c in row)
        text = f"INSERT INTO {name} ({names}) {over}VALUES ({', '.join([mark] * len(row))})"
        try:
            if self.db.engine == "postgres":
                with self.session.cursor() as cursor:
                    cursor.execute(text, list(row.values()))
            else:
                self.session.execute(text, list(row.values()))
            self.written[table] = self.written.get(table, 0) + 1
        except (psycopg2.Error, sqlite3.Error) as error:
            self.refused.setdefault(table, []).append(str(error).splitlines()[0])

    def values(self, table, column, kind):
        """SQLite has no id after the highest, so that one row would fill the table by itself; and
        PostgreSQL lets only the ledger's owner skip ids, through which a daemon then counts."""
        filled = column in ("id", "seq", "last_id", "first_id") and (
            self.db.engine == "sqlite" or table.startswith("ledger"))
        values = [None] + (ANY if kind == "any" else BY_TYPE[kind])
        return [v for v in values if not (filled and isinstance(v, int) and v > 10 ** 6)]

    def each_column(self, table, kinds):
        for column, kind in kinds.items():
            for value in self.values(table, column, kind):
                self.write(table, self.row(table, kinds, {column: value}))

    def drawn(self, table, kinds, rows):
        for _ in range(rows):
            wrong = {c: self.random.choice(self.values(table, c, kind)) for c, kind in kinds.items()
                     if self.random.random() < 0.4}
            self.write(table, self.row(table, kinds, wrong))

    def close(self):
        self.session.close()
