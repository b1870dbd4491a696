# SPDX-License-Identifier: Apache-2.0
"""A table of jobs in all states, for the commands that show jobs."""

import json

from harness.example_systems import ago

CONFIG = """
databases:
  - name: main
    url: {url}
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 1h
    owner: owner
    kind: kind
    attempts: attempts
    max_attempts: 3
    show: [title]
    mask: [owner]
    requeue: state = 'queued', error = :reason, beat = :now
    reason: freed by a test
"""
PAIRS = """
  - name: pairs
    table: pairs
    key: [a, b]
    running: t.code IN (6, 7)
    states: {6: WORKING, 3: FREE}
    alive_at: beat
    stuck_after: 1h
    requeue: code = 3
"""


def config(db, more=""):
    return CONFIG.format(url=db.url) + more


def make_jobs(db):
    time = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE jobs (id bigint PRIMARY KEY, state text, beat {time}, error text,"
           " owner text, kind text, attempts integer DEFAULT 0, title text)")


def add_job(db, key, state="running", minutes=None, kind="crawl", attempts=1, title=None,
            owner=None, error=None):
    beat = ago(db, minutes * 60) if minutes is not None else "NULL"
    db.sql("INSERT INTO jobs (id, state, beat, error, owner, kind, attempts, title) VALUES "
           f"(%s, %s, {beat}, %s, %s, %s, %s, %s)", key, state, error,
           owner or f"worker-number-{key}", kind, attempts, title or f"title {key}")


def make_pairs(db):
    time = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE pairs (a text, b integer, code integer, beat {time})")
    db.sql(f"INSERT INTO pairs VALUES ('x\"y', 1, 6, {ago(db, 7200)})")
    db.sql(f"INSERT INTO pairs VALUES ('z', 2, 3, {ago(db, 60)})")


def ids(ran):
    assert ran.code == 0, ran.err
    return ran.out.split()


def json_lines(ran):
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]
