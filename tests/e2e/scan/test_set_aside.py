# SPDX-License-Identifier: Apache-2.0
"""Results that the database refuses to record are kept, and operators see that."""

import json

from harness.metrics import wait_scrape
from harness.two_tables import TwoTables, config
from harness.http_daemon import serving


def test_results_set_aside_are_seen_everywhere(db, defib):
    tables = TwoTables(defib, db)
    try:
        tables.add("one")
        worker = tables.work("one")
        tables.until(lambda: len(tables.began()) == 1)
        db.sql("ALTER TABLE one RENAME TO elsewhere")
        tables.go()
        worker.wait_log("RESULTS SET ASIDE")
        file = tables.dir / "defib.yaml"

        def told():
            return "1 result is set aside" in defib("status", "-c", file).out
        tables.until(told)
        ran = defib("status", "-c", file, "--json")
        assert ran.code == 1
        kept, = json.loads(ran.out)["results_kept"]
        assert kept["worker"] == "anna" and kept["spool"]["set_aside"] == 1
        assert kept["spool"]["why"].startswith("one: ")
        watched(tables, db)
    finally:
        tables.close()


def watched(tables, db):
    """By the daemon: metrics, workers and the alert, which is over when the table is back."""
    folder = tables.dir / "daemon"
    folder.mkdir()
    text = config(tables.url, "two", more="alerts: {every: 1s}\n")
    with serving(folder, text, tokens=True) as web:
        wait_scrape(web, lambda s: s.get("defib_worker_set_aside_jobs", worker="anna") == 1)
        alert(tables, web, "firing")
        row, = [w for w in web.get("/api/v1/workers").json["workers"] if w["name"] == "anna"]
        assert row["info"]["spool"]["set_aside"] == 1
        db.sql("ALTER TABLE elsewhere RENAME TO one")
        tables.add("one")
        tables.until(lambda: tables.states("one") == ["done", "done"])
        wait_scrape(web, lambda s: s.get("defib_worker_set_aside_jobs", worker="anna") == 0)
        alert(tables, web, "resolved")


def alert(tables, web, state):
    def so():
        found = [a for a in web.get("/api/v1/alerts").json["alerts"]
                 if a["rule"] == "results_set_aside"]
        return found and found[0]["state"] == state
    tables.until(so)
