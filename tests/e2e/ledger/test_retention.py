# SPDX-License-Identifier: Apache-2.0
"""Retention: everything that defib stores is limited by policy, and pruned in small steps."""


import pytest

from harness.daemon import Daemon
from harness.http_daemon import serving
from harness.retention import config, fill
from harness.waiting import eventually, patience

JOB = {"postgres": "defib.job", "sqlite": "defib_job"}
DATA = {"postgres": "defib.job_data", "sqlite": "defib_job_data"}


def count(db, table, where="1 = 1"):
    return db.sql(f"SELECT count(*) FROM {table[db.engine]} WHERE {where}")[0][0]


@pytest.fixture
def queue_db(db, with_tables):
    return db


@pytest.mark.covers("F20")
def test_prune_removes_what_is_old_and_nothing_else(queue_db, defib):
    """Done jobs and what belongs to them go; those that wait, run, are held or failed lately stay."""
    db = queue_db
    fill(db, 2500)
    fill(db, 10, days=1)
    fill(db, 10, state="failed", days=8)
    fill(db, 3, state="held", days=900)
    fill(db, 3, state="queued", days=900)
    text = config(db)
    ran = defib("prune", "--dry-run", "--json", config=text)
    assert ran.code == 0 and ran.json["old"]["done"] == 2500 and ran.json["old"]["failed"] == 0
    assert count(db, JOB) == 2526
    ran = defib("prune", config=text)
    assert ran.code == 5 and "--yes" in ran.err and count(db, JOB) == 2526
    ran = defib("prune", "--yes", "--json", config=text)
    assert ran.code == 0 and ran.json["removed"]["done"] == 2500
    assert count(db, JOB) == 26 and count(db, DATA) == 26
    assert "nothing is old enough" in defib("prune", config=text).out
    assert defib("prune", "--yes", "--json",
                 config=config(db, failed="7d")).json["removed"]["failed"] == 10


@pytest.mark.covers("F20")
def test_the_daemon_keeps_the_tables_at_the_size_of_the_policy(queue_db, defib):
    """After many jobs the tables have the size that the policy says; status and metrics show it."""
    db = queue_db
    fill(db, 5000)
    fill(db, 7, days=1)
    with serving(defib.dir, config(db)) as web:
        eventually(lambda: count(db, JOB) == 7)
        assert count(db, DATA) == 7
        removed = 5000

        def told():
            kept = defib("status", "--json", config=config(db)).json["retention"][0]["kept"]["done"]
            return kept["rows"] == 7 and kept["removed"] == removed and kept["oldest_s"] > 86000
        eventually(told)
        text = defib("status", config=config(db)).out
        assert "done jobs: 7," in text and f"{removed:,} removed so far" in text
        eventually(lambda: 'defib_kept_rows{database="main",what="done"} 7' in
                   web.get("/metrics").text)


@pytest.mark.covers("F20")
def test_workers_do_it_where_no_daemon_runs(queue, defib):
    """And leave it to the daemon where one leads."""
    db = queue.db
    fill(db, 1500)
    path = defib.dir / "own.yaml"
    path.write_text(config(db))
    worker = defib.start("work", "--queue", "q", "-c", path, "--", "true")
    try:
        eventually(lambda: count(db, JOB, "state = 'done'") == 0)
    finally:
        worker.kill()
        worker.wait()


def test_it_can_be_turned_off_and_bad_ages_are_refused(queue_db, defib):
    db = queue_db
    ran = defib("config", "check", config=config(db, done="1s"))
    assert ran.code == 3 and "done is at least 1h" in ran.err + ran.out
    fill(db, 5)
    daemon = Daemon(defib, config(db, enabled="false"))
    try:
        eventually(lambda: defib("status", config=config(db)).code == 0)
        assert count(db, JOB) == 5
    finally:
        daemon.kill()
    assert defib("prune", "--yes", "--json", config=config(db, done="0s")).code == 0
    assert count(db, JOB) == 5, "0s keeps forever"


@pytest.mark.covers("F20")
def test_a_step_reads_only_what_it_removes_and_waits_for_nobody(pg, defib):
    """By its index, past locked rows, without a long statement, and without bloat."""
    assert defib("init", db=pg).code == 0
    fill(pg, 20000, days=1)
    fill(pg, 3000)
    pg.sql("ANALYZE defib.job")
    pg.sql("SET enable_seqscan = off")
    plan = "\n".join(row[0] for row in pg.sql(
        "EXPLAIN SELECT t.id FROM defib.job t WHERE t.state = 'done' AND t.finished_at < "
        "now() - interval '7 days' ORDER BY t.finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED"))
    assert "job_done_at" in plan and "Sort" not in plan, plan
    holder = pg.server.connect(pg.name)
    holder.autocommit = False
    holder.cursor().execute("SELECT 1 FROM defib.job WHERE id = (SELECT max(id) FROM defib.job) "
                            "FOR UPDATE")
    ran = defib("prune", "--yes", "--json", config=config(pg))
    assert ran.json["removed"]["done"] == 2999, "the lock is still held"
    holder.close()
    assert defib("prune", "--yes", "--json", config=config(pg)).json["removed"]["done"] == 1
    assert pg.sql("SELECT count(*) FROM defib.job") == [(20000,)]
    for table in ("job", "job_data", "lease", "step", "worker", "progress", "enqueued"):
        (options,), = pg.sql("SELECT reloptions::text FROM pg_class WHERE oid = %s::regclass",
                             f"defib.{table}")
        assert "autovacuum_vacuum_scale_factor=0.01" in options


@pytest.mark.covers("F20")
@pytest.mark.proof
def test_a_million_jobs_later(pg, defib):
    """The tables are the size that the policy says, and what went is free space again."""
    assert defib("init", db=pg).code == 0
    for _ in range(10):
        fill(pg, 100000)
    fill(pg, 1000, days=1)
    ran = defib("prune", "--yes", "--json", config=config(pg), timeout=patience())
    assert ran.json["removed"]["done"] == 1000000
    assert pg.sql("SELECT count(*) FROM defib.job") == [(1000,)]
    pg.sql("VACUUM defib.job")
    before = pg.sql("SELECT pg_relation_size('defib.job')")[0][0]
    fill(pg, 100000, days=1)
    assert pg.sql("SELECT pg_relation_size('defib.job')")[0][0] <= before
