# SPDX-License-Identifier: Apache-2.0
"""A table of jobs that ended after chosen times, and a watch that has their start and end."""

CONFIG = """
databases:
  - name: main
    url: {url}
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    alive_at: updated_at
    kind: kind
    stuck_after: {stuck_after}
    requeue: state = 'queued', updated_at = :now
    stats: {{started_at: started_at, finished_at: finished_at, failed: state = 'failed'}}
"""


def config(db, stuck_after="30m", more="", without=""):
    text = CONFIG.format(url=db.url, stuck_after=stuck_after) + more
    return "".join(line for line in text.splitlines(True)
                   if not without or not line.lstrip().startswith(without + ":"))


def make(db):
    time = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE jobs (id bigint PRIMARY KEY, state text, kind text, started_at {time},"
           f" finished_at {time}, updated_at {time})")


def ago(db, seconds):
    if db.engine == "postgres":
        return f"statement_timestamp() - interval '{seconds:.3f} seconds'"
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-{seconds:.3f} seconds')"


def next_id(db):
    return db.sql("SELECT coalesce(max(id), 0) + 1 FROM jobs")[0][0]


def add_runs(db, n, took, kind="crawl", ended_ago=60, state="done"):
    """n runs of this many seconds, each ended a little before the next."""
    first = next_id(db)
    values = ", ".join(
        f"({first + i}, '{state}', '{kind}', {ago(db, ended_ago + took + i / 1000)},"
        f" {ago(db, ended_ago + i / 1000)}, {ago(db, ended_ago)})" for i in range(n))
    db.sql(f"INSERT INTO jobs (id, state, kind, started_at, finished_at, updated_at) "
           f"VALUES {values}")
    return first


def add_stuck(db, silent, kind="crawl"):
    """A job whose worker has been silent for this many seconds."""
    key = next_id(db)
    db.sql(f"INSERT INTO jobs (id, state, kind, started_at, updated_at) VALUES "
           f"({key}, 'running', '{kind}', {ago(db, silent)}, {ago(db, silent)})")
    return key
