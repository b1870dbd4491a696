# SPDX-License-Identifier: Apache-2.0
"""Workers that beat and get nowhere, under a daemon: what it remembers of their jobs outlives it."""

import signal
import subprocess
import sys

import pytest

from harness.daemon import BEATING, World, config, make_jobs
from harness.waiting import eventually

pytestmark = pytest.mark.covers("F15")
HOUR_US = 3600 * 1000000
# Another process writes the progress of one worker's jobs, which beats like the other.
GETS_ON = """
import sys, time, psycopg2
session = psycopg2.connect(sys.argv[1])
session.autocommit = True
while True:
    session.cursor().execute("UPDATE jobs SET done = done + 1 WHERE owner = %s", (sys.argv[2],))
    time.sleep(0.05)
"""


def watch(stalled_after):
    return BEATING + f"""    progress: done
    stalled_after: {stalled_after}
    remedies: [{{{{verdict: stalled, do: requeue}}}}, {{{{do: report}}}}]
"""


@pytest.fixture
def world(pg, defib):
    own = World(defib, pg)
    make_jobs(pg, 2, lanes=["beating"])
    yield own
    own.close()


def remembered(world):
    if not world.db.sql("SELECT to_regclass('defib.seen')")[0][0]:
        return 0
    return world.db.sql("SELECT count(*) FROM defib.seen WHERE what = 'progress'")[0][0]


def an_hour_earlier(world):
    """As if it had been seen that long, look by look."""
    world.db.sql(f"UPDATE defib.seen SET since_us = since_us - {HOUR_US} WHERE what <> 'look'")


def stalled(world):
    return world.db.sql("SELECT job, event FROM defib.ledger WHERE verdict = 'stalled' ORDER BY 1")


def test_a_worker_that_beats_and_gets_nowhere_is_stalled_and_one_that_gets_on_is_not(world):
    world.work(count=2, rows=1)
    (slow,), (fast,) = world.db.sql("SELECT owner FROM jobs ORDER BY owner")
    helper = subprocess.Popen([sys.executable, "-c", GETS_ON, world.url, fast])
    try:
        eventually(lambda: world.count("done > 0") == 1)
        daemon = world.daemon(config(world.url, watch("3s"), every="300ms", stuck=600), "--no-queue")
        eventually(lambda: world.count("status = 'queued'") == 1)
        assert world.db.sql("SELECT status, done = 0 FROM jobs WHERE owner IS NULL") == \
            [("queued", True)]
        daemon.wait_passes("beating", 3)
        assert world.db.sql("SELECT status FROM jobs WHERE owner = %s", fast) == [("running",)]
        assert [event for _, event in stalled(world)] == ["REQUEUED"]
        assert slow != fast and daemon.stop() == 0
    finally:
        helper.kill()
        helper.wait()


def test_what_was_seen_outlives_a_restart(world):
    world.work(count=2, rows=1)
    text = config(world.url, watch("1h"), every="300ms", stuck=600)
    first = world.daemon(text, "--no-queue")
    eventually(lambda: remembered(world) == 2)
    first.wait_passes("beating", 2)
    assert first.stop() == 0 and stalled(world) == []
    an_hour_earlier(world)
    second = world.daemon(text, "--no-queue")
    eventually(lambda: world.count("status = 'queued'") == 2)
    assert second.stop() == 0
    assert [event for _, event in stalled(world)] == ["REQUEUED"] * 2


def test_what_was_seen_outlives_a_change_of_leader(world):
    world.work(count=2, rows=1)
    text = config(world.url, watch("1h"), every="300ms", stuck=600)
    first = world.daemon(text, "--no-queue")
    eventually(lambda: remembered(world) == 2)
    second = world.daemon(text, "--no-queue")
    first.wait_passes("beating", 2)
    first.signal(signal.SIGKILL)
    an_hour_earlier(world)
    second.wait_log("leads the watch")
    eventually(lambda: world.count("status = 'queued'") == 2)
    assert second.stop() == 0
