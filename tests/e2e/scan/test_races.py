# SPDX-License-Identifier: Apache-2.0
"""Concurrent scans: each stuck row is recovered by exactly one of them."""

import json
import re
import subprocess

import pytest

from harness import stuck_jobs as jobs
from harness.install_gate import GATE
from harness.waiting import eventually, patience

N = 20_000


def scans(defib, db, count, *args, **watch):
    """So many scans at once, to their ends: (exit code, counts) of each."""
    config = defib.dir / "defib.yaml"
    config.write_text(jobs.config(db, **watch))
    children = [defib.start("scan", "--fix", *args, config=str(config)) for _ in range(count)]
    ended = []
    for child in children:
        out, err = child.communicate(timeout=patience())
        counts = {word: int(n.replace(",", ""))
                  for n, word in re.findall(r"([\d,]+) (recovered|changed|locked|refused)", out)}
        assert child.returncode in (0, 1), (child.returncode, out, err)
        assert "deadlock" not in err
        ended.append(counts)
    return ended


@pytest.mark.covers("F4")
@pytest.mark.parametrize("n", [N, pytest.param(5 * N, marks=pytest.mark.proof)])
def test_two_scans_at_once_recover_each_row_once(defib, db, n):
    jobs.make(db, n)
    ended = scans(defib, db, 2)
    assert sum(counts.get("recovered", 0) for counts in ended) == n
    assert jobs.agree(db) == n


def test_a_ledger_that_was_small_is_asked_by_job_alone(defib, pg):
    """Read through for each job, it would take minutes when another scan fills it meanwhile."""
    def read_through():
        return pg.sql("SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = "
                      "'defib.ledger'::regclass")[0][0]
    jobs.make(pg, 60)
    assert scans(defib, pg, 1) == [{"recovered": 60}]
    pg.sql("ANALYZE defib.ledger")
    jobs.fill(pg, 500, first=1_000)
    before = read_through()
    assert scans(defib, pg, 1) == [{"recovered": 500}]
    # The statistics of a session are there when it has ended; the check by us reads it once.
    assert read_through() - before < 1_000
    assert jobs.agree(pg) == 560


def test_scans_at_once_that_make_the_ledger(defib, db):
    for _ in range(3):
        db.sql("DROP SCHEMA IF EXISTS defib CASCADE" if db.engine == "postgres"
               else "DROP TABLE IF EXISTS defib_ledger")
        db.sql("DROP TABLE IF EXISTS jobs")
        jobs.make(db, 10)
        ended = scans(defib, db, 4)
        assert sum(counts.get("recovered", 0) for counts in ended) == 10
        assert jobs.agree(db) == 10


def test_scans_whose_remedies_touch_the_same_rows_do_not_deadlock(defib, pg):
    """`also` updates one row for all: the scans wait for each other, try again, and finish."""
    jobs.make(pg, 4_000)
    pg.sql("CREATE TABLE tally (name text PRIMARY KEY, n bigint)")
    pg.sql("INSERT INTO tally VALUES ('a', 0), ('b', 0)")
    also = ("[\"UPDATE tally SET n = tally.n + s.n FROM (SELECT count(*) AS n FROM stuck) s\"]")
    ended = scans(defib, pg, 3, also=also, batch=100)
    assert sum(counts.get("recovered", 0) for counts in ended) == 4_000
    assert jobs.agree(pg) == 4_000
    assert pg.sql("SELECT DISTINCT n FROM tally") == [(4_000,)]


@pytest.mark.covers("F4")
def test_scan_beside_a_worker_that_takes_rows_back(defib, pg):
    """A worker wakes up and beats every row it owns: what it reached first is left to it."""
    jobs.make(pg, 20_000)
    worker = subprocess.Popen(
        ["/usr/bin/psql", "-q", "-X", pg.url], stdin=subprocess.PIPE, text=True)
    for low in range(20_000, 0, -500):
        worker.stdin.write("UPDATE jobs SET updated_at = now(), owner = 'back' WHERE id > "
                           f"{low - 500} AND id <= {low} AND status = 'running';\n")
    worker.stdin.close()
    ended = scans(defib, pg, 1)[0]
    assert worker.wait(patience()) == 0
    freed = ended.get("recovered", 0)
    assert jobs.agree(pg) == freed
    assert pg.sql("SELECT count(*) FROM jobs WHERE status = 'running' AND owner = 'back'") == \
        [(20_000 - freed,)]


@pytest.mark.covers("F4")
@pytest.mark.parametrize("change", ["updated_at = now()", "owner = 'w-2'",
                                    "attempts = attempts + 1", "status = 'done'"])
def test_a_row_that_changes_between_the_look_and_the_write_of_a_scan_is_left_alone(
        defib, pg, change):
    """Another sign of life, owner, attempt or state than was judged: nothing happens to it."""
    jobs.make(pg, 2)
    pg.sql(GATE)
    pg.sql("SELECT pg_advisory_lock(77)")
    text = jobs.config(pg, owner="owner", attempts="attempts", max_attempts=5).replace(
        "alive_at: updated_at", "alive_at: (CASE WHEN gate() THEN updated_at END)")
    scan = defib.start("scan", "--fix", "--json", config=text)
    eventually(lambda: pg.sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' "
                              "AND objid = 78 AND granted"))
    pg.sql(f"UPDATE jobs SET {change} WHERE id = 1")
    as_changed = pg.sql("SELECT * FROM jobs WHERE id = 1")
    pg.sql("SELECT pg_advisory_unlock(77)")
    out, err = scan.communicate(timeout=patience())
    assert scan.returncode in (0, 1), err
    outcomes = {job["key"]: job["outcome"] for job in json.loads(out)["watches"][0]["jobs"]}
    assert outcomes == {"1": "changed", "2": "recovered"}
    assert pg.sql("SELECT * FROM jobs WHERE id = 1") == as_changed
    assert jobs.requeued(pg) == 1
