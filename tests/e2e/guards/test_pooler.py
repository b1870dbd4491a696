# SPDX-License-Identifier: Apache-2.0
"""Behind pgbouncer in transaction mode: everything works without a session of our own."""

import signal
import time

import psycopg2

from harness import stuck_jobs as jobs
from harness.pooler import pooler, through  # noqa: F401  (fixtures)
from harness.waiting import patience


def test_scan_and_fix_through_a_transaction_pooler(defib, pg, pooler):
    jobs.make(pg, 5_000)
    config = jobs.config(through(pooler, pg), owner="owner")
    assert defib("scan", config=config).code == 1
    jobs.untouched(pg, 5_000)
    for command in (["explain", "jobs", "1"], ["sql", "jobs"]):
        assert defib(*command, config=config).code in (0, 1)
    ran = defib("scan", "--fix", config=config)
    assert ran.code == 0, ran
    assert jobs.agree(pg) == 5_000


def test_settings_do_not_leak_into_others_sessions(defib, pg, pooler):
    """The pooler gives our server session to others: it must be unchanged."""
    jobs.make(pg, 100)
    assert defib("scan", "--fix", config=jobs.config(through(pooler, pg))).code == 0
    other = psycopg2.connect(host="127.0.0.1", port=pooler.port, dbname=pg.name, user="postgres")
    cursor = other.cursor()
    for name in ("statement_timeout", "lock_timeout", "enable_seqscan", "plan_cache_mode", "jit",
                 "default_transaction_read_only", "search_path"):
        cursor.execute("SELECT setting = reset_val FROM pg_settings WHERE name = %s", (name,))
        assert cursor.fetchone() == (True,), name
    cursor.execute("SELECT count(*) FROM pg_prepared_statements")
    assert cursor.fetchone() == (0,)
    other.close()


def test_two_scans_through_a_pooler_recover_each_row_once(defib, pg, pooler):
    jobs.make(pg, 10_000)
    config = defib.dir / "defib.yaml"
    config.write_text(jobs.config(through(pooler, pg)))
    children = [defib.start("scan", "--fix", config=str(config)) for _ in range(2)]
    for child in children:
        out, err = child.communicate(timeout=patience())
        assert child.returncode in (0, 1), (out, err)
    assert jobs.agree(pg) == 10_000


def test_pooler_that_dies_in_the_middle(defib, pg, pooler):
    jobs.make(pg, 30_000)
    config = jobs.config(through(pooler, pg), batch=200)
    child = defib.start("scan", "--fix", config=config)
    while pg.sql("SELECT count(*) FROM jobs WHERE status = 'queued'")[0][0] < 1_000:
        assert child.poll() is None
        time.sleep(0.005)
    pooler.process.send_signal(signal.SIGKILL)
    out, err = child.communicate(timeout=patience())
    assert child.returncode == 6, (out, err)
    end = time.monotonic() + patience()
    while time.monotonic() < end and pg.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND datname = "
            "current_database() AND pid <> pg_backend_pid()")[0][0]:
        time.sleep(0.02)
    assert 1_000 <= jobs.agree(pg) < 30_000
