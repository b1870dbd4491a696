# SPDX-License-Identifier: Apache-2.0
"""Large tables: bounded memory, and with the right index only the pages that are needed."""

import pathlib
import re
import threading

import pytest

from harness import stuck_jobs as jobs
from harness.waiting import patience

pytestmark = pytest.mark.proof

MEMORY_MIB = 64
MILLION = 1_000_000


class HighWater(threading.Thread):
    """VmHWM of a process, read until it ends."""

    def __init__(self, pid):
        super().__init__()
        self.path = pathlib.Path(f"/proc/{pid}/status")
        self.mib, self.ended = 0.0, threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            try:
                found = re.search(r"VmHWM:\s+(\d+) kB", self.path.read_text())
            except OSError:
                return
            if found:
                self.mib = max(self.mib, int(found.group(1)) / 1024)


def fix_and_measure(defib, db, *args):
    child = defib.start("scan", "--fix", *args, config=jobs.config(db, statement_timeout="60s"),
                        stdout=open(defib.dir / "out", "w"))
    water = HighWater(child.pid)
    water.start()
    _out, err = child.communicate(timeout=patience())
    water.ended.set()
    water.join()
    assert child.returncode == 0, err
    return water.mib


@pytest.mark.parametrize("args", [[], ["--json"]], ids=["text", "json"])
def test_million_stuck_rows_in_bounded_memory(defib, db, args):
    jobs.make(db, MILLION)
    mib = fix_and_measure(defib, db, *args)
    assert 0 < mib < MEMORY_MIB
    assert jobs.agree(db) == MILLION


def look(defib, config):
    """The look that `defib sql` prints, ready to be explained."""
    said = defib("sql", "jobs", config=config).out
    text = said[said.index("SELECT"):]
    return text[:text.index(";")].replace(":'p1'", "'1000'")


def explain(pg, query):
    """(pages read, whether the table is scanned completely)"""
    plan = "\n".join(r[0] for r in pg.sql("EXPLAIN (ANALYZE, BUFFERS) " + query))
    top = re.search(r"Buffers: (.*)", plan)
    pages = sum(map(int, re.findall(r"(?:hit|read)=(\d+)", top.group(1)))) if top else 0
    return pages, "Seq Scan" in plan, plan


def test_ten_million_rows_are_not_read_through(defib, pg):
    pg.sql(jobs.CREATE["postgres"])
    pg.sql("INSERT INTO jobs (id, status, updated_at) SELECT i, 'done', now() "
           f"FROM generate_series({MILLION}, {11 * MILLION - 1}) i")
    pg.sql("VACUUM (ANALYZE) jobs")
    config = jobs.config(pg)
    said = defib("doctor", "--json", config=config).json["findings"]
    index = [f for f in said if f["check"] == "index"]
    assert [f["level"] for f in index] == ["FAIL"]
    assert index[0]["fix"].startswith("CREATE INDEX")
    pg.sql(index[0]["fix"])

    pages, through, plan = explain(pg, look(defib, config))
    assert pages < 50 and not through, plan
    said = defib("doctor", "--json", config=config).json["findings"]
    assert [f["level"] for f in said if f["check"] == "index"] == ["ok"]

    jobs.fill(pg, 1000)
    pages, through, plan = explain(pg, look(defib, config))
    assert pages < 3000 and not through, plan
    ran = defib("scan", "--fix", "--json", config=config)
    assert (ran.code, ran.json["recovered"]) == (0, 1000)
    assert jobs.agree(pg) == 1000
