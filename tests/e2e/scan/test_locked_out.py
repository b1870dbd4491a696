# SPDX-License-Identifier: Apache-2.0
"""Writes to the table are locked out (as by CREATE INDEX): nobody can send a heartbeat, and nobody
is dead. The daemon would write as soon as the lock ends, perhaps before the workers do."""

import contextlib
import signal

import pytest

from harness.daemon import BEATING, World, config, make_jobs
from harness.waiting import eventually

ROWS, WORKERS = 20, 2  # too few for the brake
# One statement writes where nothing else is to be done; with also: there are three.
THREE = BEATING.replace("    every:",
                        "    also: [\"INSERT INTO noted SELECT 1 FROM stuck\"]\n    every:")
WAITS = ("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'defib' AND "
         "wait_event_type = 'Lock' AND datname = current_database()")


@pytest.fixture
def world(pg, defib):
    own = World(defib, pg)
    yield own
    own.close()


@pytest.mark.parametrize("watch", [BEATING, THREE], ids=["one statement", "three statements"])
def test_who_is_kept_from_writing_is_not_recovered(world, watch):
    world.db.sql("CREATE TABLE noted (n integer)")
    make_jobs(world.db, ROWS * WORKERS, lanes=["beating"])
    crew = world.work(count=WORKERS, rows=ROWS)
    daemon = world.daemon(config(world.url, watch, beat=1, stuck=3, guard="{pace: 0}"),
                          "--no-queue")
    daemon.wait_passes("beating", 3)
    with contextlib.closing(world.db.server.connect(world.db.name)) as session:
        session.autocommit = False
        session.cursor().execute("LOCK TABLE jobs IN SHARE MODE")
        # All are silent, for long enough that two looks have seen it.
        eventually(lambda: world.count("beat_at < clock_timestamp() - interval '7 s'")
                   == ROWS * WORKERS)
        held = world.status("beating")["guarded"]["look"]
        waits = world.db.sql(WAITS)[0][0]
        session.rollback()
    eventually(lambda: world.count("beat_at > clock_timestamp() - interval '2 s'")
               == ROWS * WORKERS or world.events("REQUEUED"))
    daemon.wait_passes("beating", 2)
    assert (held, waits) == (ROWS * WORKERS, 0), "the daemon was about to write"
    assert world.events("REQUEUED") == []

    # Those that are dead are still found.
    crew.signal(signal.SIGKILL)
    eventually(lambda: len(world.events("REQUEUED")) == ROWS * WORKERS)
