# SPDX-License-Identifier: Apache-2.0
"""What others write into defib's own tables is input: it ends no process, stops no scan and
makes nothing act. All rows are written at once, under a daemon that runs."""

import os
import pathlib

import pytest

from harness import hostile_rows, stuck_jobs
from harness.http_acts import database
from harness.http_daemon import serving, token_env
from harness.program import ROOT, Program
from harness.waiting import eventually

pytestmark = pytest.mark.sanitized

JOBS = 5
CONFIG = """    state: status
    progress: status
    stalled_after: 1h
    owner: owner
    hold: status = 'held'
    cancel: status = 'cancelled'
    fail: status = 'failed'
    retry: {now: "status = 'failed'", then: "status = 'queued'"}
    backoff: {base: 1m}
    attempts: attempts
    max_attempts: 3
    every: 300ms
"""
ROUTES = ("/healthz", "/metrics", "/api/v1/status", "/api/v1/acts", "/api/v1/alerts",
          "/api/v1/deliveries", "/api/v1/incidents", "/api/v1/ledger", "/api/v1/report",
          "/api/v1/trend", "/api/v1/watch-status", "/api/v1/watches",
          "/api/v1/workers", "/api/v1/workers/101", "/api/v1/watches/jobs",
          "/api/v1/watches/jobs/jobs", "/api/v1/watches/jobs/jobs/1",
          "/api/v1/watches/jobs/explain/1", "/api/v1/watches/jobs/learn",
          "/api/v1/watches/jobs/stats", "/api/v1/watches/queue/jobs",
          "/api/v1/watches/queue/jobs/101", "/api/v1/watches/queue/stats")
COMMANDS = ("scan", "list", "list --watch queue", "show jobs/1", "show queue/101", "explain jobs 1",
            "status", "stats", "report", "ledger", "ledger --events", "ledger verify", "learn",
            "whatif jobs --stuck-after 2h", "alert list", "act status", "act status --json",
            "prune --dry-run", "scan --fix", "enqueue mail send {}",
            "work --queue mail --drain -- true")
DEBUG = os.environ.get("HOSTILE_TABLES")  # a few of them, to find the one that does it


def watched(db):
    return db.sql("SELECT id, status, updated_at, error, owner, attempts FROM jobs ORDER BY id")


def write_all(db, rows):
    tables = hostile_rows.columns(db)
    assert len(tables) == hostile_rows.OWN_TABLES[db.engine], sorted(tables)
    writer = hostile_rows.Writer(db)
    for table, kinds in tables.items():
        if DEBUG and table not in DEBUG.split(","):
            continue
        writer.each_column(table, kinds)
        writer.drawn(table, kinds, rows)
    writer.close()
    if db.engine == "postgres":  # only the ledger's owner can skip ids, and then has to say so
        db.sql("SELECT setval('defib.ledger_id', (SELECT max(last_id) FROM defib.ledger_seal))")
    return writer


def asked(web, program):
    """What anybody can read is answered, or refused in a sentence."""
    for route in ROUTES:
        got = web.get(route)
        assert got.status < 600 and "Sanitizer" not in got.text, (route, got.text)
    for command in COMMANDS:
        ran = program(*command.split(), config=web.daemon.config, env=token_env())
        assert 0 <= ran.code <= 6, (command, ran.code, ran.out[-2000:], ran.err[-5000:])


@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
def test_rows_of_any_kind_in_our_tables_end_nothing_and_start_nothing(engine, request,
                                                                     tmp_path_factory):
    db = database(engine, request, tmp_path_factory)
    folder = tmp_path_factory.mktemp("hostile")
    program = Program(folder)
    stuck_jobs.make(db, JOBS)
    stuck_jobs.fill(db, 0)
    db.sql("UPDATE jobs SET status = 'failed'")
    try:
        assert program("init", db=db).code == 0
        if engine == "postgres":
            db.sql((ROOT / "sql" / "postgres_attach.sql").read_text())
        text = stuck_jobs.config(db).rstrip("\n") + "\n" + CONFIG
        with serving(folder, text, tokens=True) as web:
            web.daemon.wait_passes("jobs", 1)
            before = watched(db)
            writer = write_all(db, rows=20)
            web.daemon.wait_passes("jobs", 4)
            asked(web, program)
            web.daemon.wait_passes("jobs", 2)
            assert watched(db) == before
            # It still does what it is for.
            stuck_jobs.fill(db, 1, 9000)
            program("scan", "--fix", config=web.daemon.config, env=token_env())
            eventually(lambda: db.sql("SELECT status FROM jobs WHERE id = 9000") == [("queued",)])
            assert web.get("/healthz").status == 200
            log = pathlib.Path(web.daemon.config).with_suffix(".log").read_text()
            assert (DEBUG or "row set aside" in log) and "runtime error" not in log
            assert DEBUG or sum(writer.written.values()) > 1000, writer.refused
    finally:
        db.drop()
