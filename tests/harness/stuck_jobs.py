# SPDX-License-Identifier: Apache-2.0
"""A plain table of jobs with stuck rows, and checks that rows and ledger agree afterwards."""

CREATE = {
    "postgres": "CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL, "
                "updated_at timestamptz NOT NULL, error text, owner text, attempts int DEFAULT 0)",
    "sqlite": "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT NOT NULL, "
              "updated_at TEXT NOT NULL, error TEXT, owner TEXT, attempts INTEGER DEFAULT 0)",
}
FILL = {
    "postgres": "INSERT INTO jobs (id, status, updated_at, owner) SELECT i, 'running', "
                "now() - interval '2 hours' - i * interval '1 microsecond', 'w' || i %% 7 "
                "FROM generate_series(%s, %s) i",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
              "INSERT INTO jobs (id, status, updated_at, owner) SELECT i, 'running', "
              "datetime('now', '-2 hours'), 'w' || (i % 7) FROM n",
}
REQUEUE = "status = 'queued', error = :reason, updated_at = :now"
REASON = "freed by a test"

WATCH = """
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    requeue: {requeue}
    reason: {reason}
"""


def make(db, n, first=1):
    db.sql(CREATE[db.engine])
    fill(db, n, first)


def fill(db, n, first=1):
    if n:
        db.sql(FILL[db.engine], first, first + n - 1)


def config(db, requeue=REQUEUE, **more):
    """A configuration with the watch `jobs`; further keys of the watch by name."""
    lines = [f"    {key}: {value}\n" for key, value in more.items()]
    return (f"databases:\n  - name: main\n    url: {getattr(db, 'url', db)}\nwatches:"
            + WATCH.format(requeue=requeue, reason=REASON) + "".join(lines))


def ledger(db):
    return "defib.ledger" if db.engine == "postgres" else "defib_ledger"


def has_ledger(db):
    if db.engine == "postgres":
        return db.sql("SELECT to_regclass('defib.ledger') IS NOT NULL")[0][0]
    return bool(db.sql("SELECT 1 FROM sqlite_master WHERE name = 'defib_ledger'"))


def requeued(db):
    return db.sql("SELECT count(*) FROM jobs WHERE status = 'queued' AND error = %s", REASON)[0][0]


def entries(db):
    if not has_ledger(db):
        return 0
    return db.sql(f"SELECT count(*) FROM {ledger(db)} WHERE event = 'REQUEUED'")[0][0]


def agree(db):
    """Each requeued row has one entry and no other row has any; returns their number."""
    n = requeued(db)
    assert entries(db) == n
    if n:
        distinct = db.sql(
            f"SELECT count(DISTINCT j.id) FROM {ledger(db)} l JOIN jobs j "
            "ON j.id = CAST(l.job AS bigint) WHERE l.event = 'REQUEUED' AND j.status = 'queued'")
        assert distinct[0][0] == n
    half = "SELECT count(*) FROM jobs WHERE (status = 'queued') <> (error IS NOT NULL)"
    assert db.sql(half)[0][0] == 0
    return n


def untouched(db, n):
    """All n rows still run and defib has created nothing."""
    assert db.sql("SELECT count(*) FROM jobs WHERE status = 'running' AND error IS NULL")[0][0] == n
    assert entries(db) == 0


def one_line(ran):
    """The text on stderr, which must be one line."""
    lines = ran.err.strip().split("\n")
    assert len(lines) == 1 and lines[0], ran.err
    return lines[0]
