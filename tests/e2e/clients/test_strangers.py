# SPDX-License-Identifier: Apache-2.0
"""Real graphile-worker and pg-boss under `defib run`: killed in the middle of a job.

Their own second worker gets the job at once; jobs of another live worker are left alone. Neither
queue knows defib. Times are the database's own.
"""

import os
import signal

import pytest

pytestmark = pytest.mark.plain

# bench/strangers has a second, on a machine of its own, and prints what it took; their own
# defaults are 4 h and 15 min.
LIMIT_S = float(os.environ.get("DEFIB_STRANGERS_S", "30"))
CONFIG = """
databases: [{name: main, url: "%s"}]
watches:
  - {name: queue_of_others, preset: %s}
"""


@pytest.fixture(params=["graphile", "pgboss"])
def stranger(request, defib):
    """One of the queues, attached; under() is what stands before a worker's command line."""
    own = request.getfixturevalue(request.param)
    preset = {"graphile": "graphile-worker", "pgboss": "pg-boss"}[request.param]
    path = defib.dir / "defib.yaml"
    path.write_text(CONFIG % (own.db.url, preset))
    ran = defib("attach", "queue_of_others", "--yes", "-c", path)
    assert ran.code == 0, ran.err
    own.under = [defib.bin, "run", "-c", path, "--watch", "queue_of_others", "--"]
    return own


def program_of(wrapper):
    """The pid of the program under a `defib run`."""
    pid, = wrapper.children()
    return pid


def hold(stranger, worker, *jobs):
    """A worker with both hands full: who starts next gets what comes next."""
    own = stranger.start(worker, stranger.under)
    keys = [stranger.add(job, 3600) for job in jobs]
    for job in jobs:
        assert [run[0] for run in stranger.wait_runs(job)] == [worker]
    return own, keys


@pytest.mark.covers("F1")
def test_a_killed_worker_of_others_loses_no_time(stranger):
    living, kept = hold(stranger, "living", "long", "long too")
    doomed, lost = hold(stranger, "doomed", "first", "second")
    stranger.start("heir", stranger.under)
    stranger.add("ping")
    stranger.wait_runs("ping", ended=True)  # the heir is there, with free hands

    killed_at = stranger.db.sql("SELECT clock_timestamp()")[0][0]
    os.kill(program_of(doomed), signal.SIGKILL)
    for job in ("first", "second"):
        runs = stranger.wait_runs(job, 2)
        took = (runs[1][1] - killed_at).total_seconds()
        print(f"\n{stranger.script.stem}: {job} runs again {took:.3f} s after kill -9")
        assert runs[1][0] == "heir" and took < LIMIT_S
    assert doomed.wait() == 128 + signal.SIGKILL

    assert [len(stranger.runs(job)) for job in ("long", "long too")] == [1, 1]
    assert all(map(stranger.is_running, kept)) and living.process.poll() is None
    entries = stranger.db.sql("SELECT job, verdict, evidence->>'exit' FROM defib.ledger")
    assert {entry[1:] for entry in entries} == {("dead", "signal 9 (KILL)")}
    assert len(entries) == 2 and all(any(key in row[0] for row in entries) for key in lost)
