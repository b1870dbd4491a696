# SPDX-License-Identifier: Apache-2.0
"""What the tests of defib doctor share: a table, a configuration, a role, and its findings."""

import contextlib

import pytest

PG_TABLE = """
CREATE TABLE jobs (id bigint PRIMARY KEY, status text, error text, kind text, attempts int,
                   updated_at timestamptz DEFAULT now());
INSERT INTO jobs (id, status) SELECT i, CASE WHEN i % 50 = 0 THEN 'running' ELSE 'done' END
    FROM generate_series(1, {rows}) AS i;
ANALYZE jobs
"""
LITE_TABLE = """
CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, error TEXT, kind TEXT, attempts INT,
                   updated_at TEXT DEFAULT (datetime('now')));
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
    INSERT INTO jobs (id, status) SELECT i, CASE WHEN i % 50 = 0 THEN 'running' ELSE 'done' END
    FROM n;
"""
WATCH = {
    "table": "jobs",
    "key": "id",
    "running": "status = 'running'",
    "alive_at": "updated_at",
    "stuck_after": "1h",
    "requeue": "status = 'queued', error = :reason, updated_at = :now",
}
INDEX = {
    "postgres": "CREATE INDEX jobs_look ON jobs (updated_at, id) WHERE status = 'running'",
    "sqlite": "CREATE INDEX jobs_look ON jobs (julianday(updated_at), id) WHERE status = 'running'",
}


def make_jobs(db, rows=100, index=True):
    db.sql((PG_TABLE if db.engine == "postgres" else LITE_TABLE).replace("{rows}", str(rows)))
    if index:
        db.sql(INDEX[db.engine])


def quoted(value):
    return "'" + str(value).replace("'", "''") + "'"


def config(*urls, top="", **watch):
    """One database per URL, and a watch on the first one; None leaves a key out."""
    lines = [top, "databases:"]
    for i, url in enumerate(urls):
        lines += [f"  - name: db{i + 1}", f"    url: {quoted(url)}"]
    lines += ["watches:", "  - name: jobs"]
    for key, value in {**WATCH, **watch}.items():
        if value is not None:
            plain = str(value).startswith(("{", "["))
            lines.append(f"    {key}: {value if plain else quoted(value)}")
    return "\n".join(lines) + "\n"


class Findings:
    def __init__(self, ran):
        self.ran = ran
        self.code = ran.code
        self.doc = ran.json
        self.all = self.doc["findings"]

    def of(self, check, level=None):
        return [f for f in self.all if f["check"] == check and level in (None, f["level"])]

    def one(self, check, level):
        found = self.of(check)
        assert [f["level"] for f in found] == [level], self.all
        return found[0]

    def troubles(self):
        return [(f["check"], f["level"]) for f in self.all if f["level"] != "ok"]


@pytest.fixture
def doctor(defib):
    def run(*args, **options):
        ran = defib("doctor", "--json", *args, **options)
        assert ran.out, ran.err
        return Findings(ran)

    return run


@contextlib.contextmanager
def role(pg, *grants):
    """A role with only these privileges; its URL."""
    name = f"r_{pg.name}"
    pg.sql(f"CREATE ROLE {name} LOGIN")
    try:
        for grant in grants:
            pg.sql(grant.replace("ROLE", name))
        yield pg.server.url(pg.name, name)
    finally:
        pg.sql(f"DROP OWNED BY {name}; DROP ROLE {name}")
