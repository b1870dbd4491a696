# SPDX-License-Identifier: Apache-2.0
"""A daemon over HTTP and a table of jobs in every state, shared by the tests of a module.

No pass interferes: every watch is scanned once an hour.
"""

import contextlib
import json

from harness import act_table, stuck_jobs
from harness.databases import LiteDatabase, PgDatabase
from harness.example_systems import ago
from harness.http_daemon import serving
from harness.program import Program
from harness.waiting import eventually

ACTS = {act: how for act, how in act_table.HOW.items() if act != "show"}
ACTS["retry"] = "status = 'queued', error = NULL"
# Also: one without acts, one with a key of two parts, one that can be ended, one whose owners beat,
# one whose remedies write more than the row.
MORE = """
  - name: bare
    table: jobs
    key: id
    running: status = 'running' AND owner = 'bare'
    alive_at: updated_at
    stuck_after: 1h
    every: 1h
  - name: pairs
    table: pairs
    key: [left_part, right_part]
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued'
    every: 1h
  - name: ends
    table: jobs
    key: id
    running: status = 'going'
    alive_at: updated_at
    stuck_after: 1h
    end_when: status = 'up'
    end: status = 'going'
    every: 1h
  - name: beating
    table: jobs
    key: id
    running: status = 'beating'
    owner: owner
    alive_at: updated_at
    beat: 10m
    stuck_after: 30m
    requeue: status = 'queued'
    every: 1h
  - name: noted
    table: jobs
    key: id
    running: status = 'noted'
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued'
    also: ["DELETE FROM pairs WHERE left_part IN (SELECT reason FROM stuck)"]
    every: 1h
"""
PAIRS = ("CREATE TABLE pairs (left_part text, right_part text, status text, updated_at {time}, "
         "PRIMARY KEY (left_part, right_part))")


class Acting:
    def __init__(self, db, program, web):
        self.db, self.program, self.web = db, program, web
        self.n = 0

    def add(self, status="running", age_s=7200, owner="w1"):
        self.n += 1
        self.db.sql("INSERT INTO jobs (id, status, updated_at, owner) VALUES "
                    f"(%s, %s, {ago(self.db, age_s)}, %s)", self.n, status, owner)
        return self.n

    def act(self, job, verb, body=None, watch="jobs", by="operator"):
        return self.web.by(by).post(f"/api/v1/watches/{watch}/jobs/{job}/{verb}", body)

    def row(self, job):
        return self.db.sql("SELECT * FROM jobs WHERE id = %s", job)[0]

    def status(self, job):
        return self.row(job)[1]

    def ledger(self, job, columns="event, actor, reason", watch="jobs"):
        return self.db.sql(f"SELECT {columns} FROM {stuck_jobs.ledger(self.db)} "
                           "WHERE watch = %s AND job = %s ORDER BY id", watch, str(job))

    def evidence(self, job, watch="jobs"):
        newest = self.ledger(job, "evidence", watch)[-1][0]
        return json.loads(newest) if isinstance(newest, str) else newest


def database(engine, request, tmp_path_factory):
    if engine == "postgres":
        return PgDatabase(request.getfixturevalue("shared_server"))
    return LiteDatabase(tmp_path_factory.mktemp("lite") / "test.db")


def all_scanned(web):
    """Wait for the first pass: what a test adds afterwards is not scanned for an hour."""
    return all(w["last_scan"] for w in web.get("/api/v1/watches").json["watches"])


@contextlib.contextmanager
def acting(engine, request, tmp_path_factory, more="", tables=()):
    """`more` is added to the configuration, after its watches; `tables` are statements that create
    what it needs."""
    db = database(engine, request, tmp_path_factory)
    folder = tmp_path_factory.mktemp("acting")
    program = Program(folder)
    db.sql(stuck_jobs.CREATE[engine])
    db.sql(PAIRS.format(time="timestamptz" if engine == "postgres" else "TEXT"))
    for statement in tables:
        db.sql(statement)
    assert program("init", db=db).code == 0
    configuration = stuck_jobs.config(db, show="[owner]", every="1h", **ACTS) + MORE + more
    try:
        with serving(folder, configuration, tokens=True) as web:
            eventually(lambda: all_scanned(web))
            yield Acting(db, program, web)
    finally:
        db.drop()
