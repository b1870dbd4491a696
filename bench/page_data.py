# SPDX-License-Identifier: Apache-2.0
"""A large and realistic database for bench/page, on either engine.

600,000 jobs of the built-in queue and 400,000 of a user's own table, in all states
and with payloads; 200,000 entries of the ledger over 40 days; workers alive, left and dead;
jobs that are stuck, held and dead. Everything is a function of the row's number, so that
two runs see the same.
"""

QUEUE_JOBS = 600_000
TABLE_JOBS = 400_000
LEDGER_ENTRIES = 200_000
WORKERS = 60
HOLDS = 400
NEEDLE = "needle-in-a-haystack"  # in the payload of one old job of each
NEEDLE_AT = 4321

CONFIG = """
databases:
  - name: main
    url: "{url}"
watches:
  - name: crawl
    label: Crawl
    table: crawl
    key: id
    running: status = 'running'
    state: status
    since: created_at
    owner: owner
    kind: kind
    attempts: attempts
    max_attempts: 5
    alive_at: beat_at
    beat: 30s
    stuck_after: 10m
    show: [url]
    text: payload
    stats:
      ready: status = 'queued'
      failed: status = 'failed'
      started_at: started_at
      finished_at: finished_at
    remedies: [{{do: report}}]
    requeue: status = 'queued', owner = NULL
  - name: pages
    table: crawl
    key: id
    running: status = 'running' AND kind = 'render'
    alive_at: beat_at
    stuck_after: 20m
    show: [url, owner]
    remedies: [{{do: report}}]
"""

TABLE = {
    "postgres": """
CREATE TABLE crawl (id bigint PRIMARY KEY, status text NOT NULL, kind text NOT NULL, url text,
    owner text, attempts integer NOT NULL, payload jsonb, created_at timestamptz NOT NULL,
    started_at timestamptz, beat_at timestamptz, finished_at timestamptz);
CREATE INDEX crawl_running ON crawl (beat_at, id) WHERE status = 'running';
CREATE INDEX crawl_queued ON crawl (id, created_at) WHERE status = 'queued'
""",
    "sqlite": """
CREATE TABLE crawl (id INTEGER PRIMARY KEY, status TEXT NOT NULL, kind TEXT NOT NULL, url TEXT,
    owner TEXT, attempts INTEGER NOT NULL, payload TEXT, created_at TEXT NOT NULL,
    started_at TEXT, beat_at TEXT, finished_at TEXT);
CREATE INDEX crawl_running ON crawl (beat_at, id) WHERE status = 'running';
CREATE INDEX crawl_queued ON crawl (id, created_at) WHERE status = 'queued';
""",
}

# The younger a job, the less likely it has ended; what is stuck lies at the young end.
STATE = """CASE WHEN i > {n} - 200 THEN 'running' WHEN i > {n} - 8000 THEN 'queued'
    WHEN i % 97 = 0 THEN 'failed' ELSE 'done' END"""
QUEUE_STATE = """CASE WHEN i > {n} - 600 THEN 'running' WHEN i > {n} - 30000 THEN 'queued'
    WHEN i > {n} - 40000 THEN 'scheduled' WHEN i % 997 = 0 THEN 'held'
    WHEN i % 89 = 0 THEN 'failed' WHEN i % 499 = 0 THEN 'timed_out'
    WHEN i % 331 = 0 THEN 'cancelled' ELSE 'done' END"""
KIND = "CASE i % 5 WHEN 0 THEN 'resize' WHEN 1 THEN 'mail' WHEN 2 THEN 'import' " \
       "WHEN 3 THEN 'render' ELSE 'crawl' END"


class Sql:
    """The SQL of each engine: rows 1 to n, times, documents."""

    def __init__(self, engine):
        self.postgres = engine == "postgres"

    def table(self, name):
        return f"defib.{name}" if self.postgres else f"defib_{name}"

    def rows(self, n):
        if self.postgres:
            return f"generate_series(1, {n}) AS n(i)"
        return ("(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                f"WHERE i < {n}) SELECT i FROM n)")

    def ago(self, seconds, form="text"):
        """A time so many seconds ago; on SQLite as text or in milliseconds."""
        if self.postgres:
            return f"now() - ({seconds}) * interval '1 second'"
        if form == "ms":
            return f"CAST((unixepoch() - ({seconds})) * 1000 AS INTEGER)"
        return f"strftime('%Y-%m-%dT%H:%M:%fZ', unixepoch() - ({seconds}), 'unixepoch')"

    def document(self, text):
        return f"({text})::jsonb" if self.postgres else text


def payload(sql, words):
    return sql.document(
        "'{\"url\": \"https://shop-' || (i % 1000) || '.example/item/' || i || '\", \"note\": \"' || "
        f"CASE WHEN i = {NEEDLE_AT} THEN '{NEEDLE}' ELSE '{words}' END || "
        "'\", \"size\": [' || (i % 1920) || ', ' || (i % 1080) || ']}'")


def make_workers(db, sql):
    """A third is alive during the benchmark, the rest has left or died."""
    alive = "i > {n} - {n} / 3".format(n=WORKERS)
    db.sql(f"""INSERT INTO {sql.table('worker')} (name, incarnation, state, started_at, renewed_at,
        lease_ms, expires_at, ended_at, cause, holding)
        SELECT 'worker-' || i, 'host' || (i % 7) || '/boot/' || i || '/1/x',
        CASE WHEN {alive} THEN 'alive' WHEN i % 3 = 0 THEN 'dead' ELSE 'left' END,
        {sql.ago('90000 - i', 'ms')}, {sql.ago('0', 'ms')}, 86400000, {sql.ago('-86400', 'ms')},
        CASE WHEN {alive} THEN NULL ELSE {sql.ago('i * 60', 'ms')} END,
        CASE WHEN {alive} THEN NULL WHEN i % 3 = 0 THEN 'its process ended' END,
        CASE WHEN {alive} THEN 20 ELSE 0 END FROM {sql.rows(WORKERS)}""")


def make_queue(db, sql):
    n, state = QUEUE_JOBS, QUEUE_STATE.format(n=QUEUE_JOBS)
    running = f"i > {n} - 600"
    ended = f"i <= {n} - 40000 AND i % 997 <> 0"
    age = f"({n} - i) * 4 + 30"  # four seconds apart: four weeks
    db.sql(f"""INSERT INTO {sql.table('job')} (id, epoch, owner, created_at, run_at, claimed_at,
        finished_at, attempts, state, queue, kind, error)
        SELECT i, 1, CASE WHEN {running} THEN 1 + i % {WORKERS} END, {sql.ago(age, 'ms')},
        CASE WHEN {state} = 'scheduled' THEN {sql.ago('-86400 - i % 3600', 'ms')}
             ELSE {sql.ago(age, 'ms')} END,
        CASE WHEN {running} OR {ended} THEN {sql.ago(f'{age} - 5', 'ms')} END,
        CASE WHEN {ended} THEN {sql.ago(f'{age} - 5 - i % 20', 'ms')} END,
        CASE WHEN {ended} THEN 1 + i % 3 ELSE 0 END, {state},
        CASE i % 3 WHEN 0 THEN 'mail' ELSE 'default' END, {KIND},
        CASE WHEN {state} = 'failed' THEN 'exit status 1: no such file' END
        FROM {sql.rows(n)}""")
    db.sql(f"INSERT INTO {sql.table('job_data')} (job, payload) SELECT i, "
           f"{payload(sql, 'thumbnail of a picture that somebody sent')} FROM {sql.rows(n)}")
    if sql.postgres:
        db.sql("SELECT setval(pg_get_serial_sequence('defib.job', 'id'), %s)", n)


def make_table(db, sql):
    n, state = TABLE_JOBS, STATE.format(n=TABLE_JOBS)
    running, waits = f"i > {n} - 200", f"i > {n} - 8000"
    age = f"({n} - i) * 6 + 60"
    db.sql(TABLE["postgres" if sql.postgres else "sqlite"])
    db.sql(f"""INSERT INTO crawl SELECT i, {state}, {KIND}, 'https://shop-' || (i % 1000) ||
        '.example/item/' || i, CASE WHEN {running} THEN 'crawler-' || (i % 20) END, i % 5,
        {payload(sql, 'a page of a shop with offers and pictures')}, {sql.ago(age)},
        CASE WHEN {running} OR NOT ({waits}) THEN {sql.ago(f'{age} - 3')} END,
        CASE WHEN {running} THEN {sql.ago('CASE WHEN i % 2 = 0 THEN 7200 + i % 100 ELSE 1 END')}
        END, CASE WHEN NOT ({waits}) THEN {sql.ago(f'{age} - 3 - i % 30')} END
        FROM {sql.rows(n)}""")


def make_ledger(db, sql):
    """One of five is of the queue; the events in the mix of a bad month."""
    evidence = sql.document(
        "'{\"law\": \"silent-alive-at\", \"owner\": \"crawler-' || (i % 20) || '\", \"kind\": \"render\", "
        "\"age_s\": 700, \"alive_at\": \"2026-01-01T00:00:00Z\"}'")
    before, after = (sql.document(f"'{{\"status\": \"{s}\"}}'") for s in ("running", "queued"))
    age = f"({LEDGER_ENTRIES} - i) * 17"
    db.sql(f"""INSERT INTO {sql.table('ledger')} (id, at, batch, watch, job, event, actor, verdict,
        rule, reason, evidence, before, after, epoch)
        SELECT i, {sql.ago(age)}, 'b' || (i / 25), CASE WHEN i % 5 = 0 THEN 'queue' ELSE 'crawl' END,
        CAST(1 + i % 30000 AS text), CASE WHEN i % 50 = 0 THEN 'HELD' WHEN i % 200 = 1 THEN
        'LATE_COMPLETION' WHEN i % 300 = 2 THEN 'FAILED' WHEN i % 20 = 3 THEN 'RETRY_SCHEDULED' WHEN
        i % 400 = 4 THEN 'RELEASED' ELSE 'REQUEUED' END, CASE WHEN i % 400 = 4 THEN 'web:anna' ELSE
        'daemon:host1' END, CASE WHEN i % 3 = 0 THEN 'dead' ELSE 'silent' END, CASE WHEN i % 40 = 0
        THEN 'chosen-by-hand' ELSE 'attempts-left' END, 'its worker gave no sign of life',
        {evidence}, {before},
        {after}, 1 FROM {sql.rows(LEDGER_ENTRIES)}""")
    db.sql(f"INSERT INTO {sql.table('hold')} (watch, job, cause, reason, batch) SELECT 'crawl', "
           f"CAST(i * 7 AS text), 'poison', 'it crashed three workers', 'b1' FROM {sql.rows(HOLDS)}")
    if sql.postgres:
        db.sql("SELECT setval('defib.ledger_id', %s)", LEDGER_ENTRIES)


def make(db):
    """Everything; the tables of defib already exist."""
    sql = Sql(db.engine)
    for part in (make_workers, make_queue, make_table, make_ledger):
        part(db, sql)
    db.sql("VACUUM ANALYZE" if sql.postgres else "ANALYZE")
