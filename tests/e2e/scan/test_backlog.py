# SPDX-License-Identifier: Apache-2.0
"""A backlog that was stale before the daemon started: not held, and recovered at a pace."""

import time
import urllib.request

import pytest

from harness.daemon import BEATING, World, config, make_jobs
from harness.http_daemon import WebDaemon
from harness.metrics import wait_scrape
from harness.waiting import eventually, patience

BURST = 100  # guard.burst, at its default


@pytest.fixture
def world(pg, defib, with_tables):
    own = World(defib, pg)
    yield own
    own.close()


def stale(world, n, owners):
    """Rows whose workers fell silent long ago."""
    make_jobs(world.db, n, lanes=["beating"])
    world.db.sql("UPDATE jobs SET status = 'running', owner = 'w' || id %% %s, "
                 "beat_at = now() - interval '1 hour' - id * interval '1 microsecond'", owners)
    world.db.sql("ANALYZE jobs")


def freed(world):
    return world.count("status = 'queued'")


def by_second(world):
    """The largest number of recoveries in any second."""
    return world.db.sql("SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY at RANGE BETWEEN "
                        "interval '1 second' PRECEDING AND CURRENT ROW) AS n FROM defib.ledger "
                        "WHERE event = 'REQUEUED') AS s")[0][0]


def all_freed_once(world, n):
    ledger = world.db.sql("SELECT count(*), count(DISTINCT job) FROM defib.ledger "
                          "WHERE event = 'REQUEUED'")
    assert ledger == [(n, n)]
    assert freed(world) == n


@pytest.mark.covers("F6", "F9")
def test_231_rows_that_were_stale_at_the_start_are_freed_and_never_held(world):
    """All their owners are silent, but the brake does not apply: they were never seen alive."""
    stale(world, 231, owners=20)
    daemon = world.daemon(config(world.url, BEATING), "--no-queue")
    eventually(lambda: freed(world) == 231)
    all_freed_once(world, 231)
    assert "brake-holds" not in world.events("GUARD_HELD", "rule")
    status = world.wait_status("beating", found=0)
    assert (status["brakes"], status["recovered_total"]) == (0, 231)
    # The first pass recovered the burst, and the rest waited for the pace.
    first = next(p for p in daemon.passes("beating") if p["recovered"] != "0")
    assert BURST <= int(first["recovered"]) < 231
    assert int(first["guarded"]) > 0
    assert daemon.stop() == 0


@pytest.mark.covers("F9")
def test_while_a_backlog_is_replayed_its_status_says_how_many_wait_and_how_long(world):
    stale(world, 2000, owners=20)
    daemon = world.daemon(config(world.url, BEATING, guard="{pace: 10}"), "--no-queue")
    waits = eventually(lambda: world.status("beating").get("waiting") and world.status("beating"))
    assert 0 < waits["waiting"] <= 2000 - BURST
    assert waits["eta_s"] > 0
    assert waits["guarded"]["pace"] > 0 and waits["guarded"]["brake"] == 0
    assert "wait for the pace" in waits["guard"]
    eventually(lambda: world.status("beating")["waiting"] < waits["waiting"])
    assert daemon.stop() == 0
    assert freed(world) < 2000


@pytest.mark.proof
@pytest.mark.covers("B8", "F6", "F9")
def test_100000_rows_that_were_stale_at_the_start_are_freed_at_a_pace(world):
    n = 100_000
    stale(world, n, owners=500)
    begun = time.monotonic()
    daemon = world.daemon(config(world.url, BEATING, guard="{pace: 200}"), "--no-queue",
                          "--listen", "127.0.0.1:0")
    url = daemon.lines("http server started")[0]["url"]
    asked = []

    def over():
        for path in ("/healthz", "/api/v1/watches", "/api/v1/watches/beating/jobs"):
            with urllib.request.urlopen(url + path, timeout=patience()) as answer:
                assert answer.status == 200
            asked.append(freed(world))
        return freed(world) == n
    eventually(over, 600)
    print(f"{n} in {time.monotonic() - begun:.0f} s, {by_second(world)} in a second at most")
    all_freed_once(world, n)
    assert "brake-holds" not in world.events("GUARD_HELD", "rule")
    assert by_second(world) <= 20 * 200 + 200 * 20, "faster than the pace may become"
    assert asked[0] < n, "the first answer came after the backlog"
    assert daemon.stop() == 0


SLOW = """
CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(%s); RETURN NEW; END $$"""


@pytest.mark.covers("F9")
def test_the_pace_falls_while_the_database_is_slow(world):
    stale(world, 400, owners=4)
    world.db.sql(SLOW % 0.01)
    world.db.sql("CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()")
    daemon = WebDaemon(world.program, config(world.url, BEATING, guard="{pace: 40}"), "--no-queue")
    world.daemons.append(daemon)
    wait_scrape(daemon.web(), lambda s: (
        s.get("defib_pace_jobs_per_second", watch="beating") or 40) < 40)


@pytest.mark.proof  # a machine that others use too is a slow database all the time
@pytest.mark.covers("F9")
def test_the_pace_falls_while_the_database_is_slow_and_rises_when_it_is_not(world):
    stale(world, 4000, owners=20)
    world.db.sql(SLOW % 0.01)
    world.db.sql("CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()")
    daemon = WebDaemon(world.program, config(world.url, BEATING, guard="{pace: 40}"), "--no-queue")
    world.daemons.append(daemon)
    web = daemon.web()

    def rate(scrape):
        return scrape.get("defib_pace_jobs_per_second", watch="beating") or 40
    wait_scrape(web, lambda s: rate(s) < 40)
    world.db.sql(SLOW % 0)
    wait_scrape(web, lambda s: rate(s) > 40)
    assert daemon.stop() == 0
    assert by_second(world) <= BURST + 20 * 40, "faster than the pace may become"
