# SPDX-License-Identifier: Apache-2.0
"""The real graphile-worker and pg-boss, judged by age alone: their own migrations make the tables,
their own worker takes a job and is killed, and after defib their own worker runs it to its end.
"""

import os
import signal

import pytest

from harness.doctor_setup import Findings
from harness.waiting import eventually

# The first to need the packages installs them; mostly they wait for workers to come up.
WATCH = "watches:\n  - {name: work, preset: %s}\n"
PRESETS = {"graphile": "graphile-worker", "pgboss": "pg-boss"}
HOLD_S = 600  # longer than any test: it ends by a kill only
LONG_AGO = {  # 5 hours: beyond what each queue would allow itself
    "graphile": "UPDATE graphile_worker._private_jobs SET locked_at = locked_at - interval '5 h' "
                "WHERE id = %s",
    "pgboss": "UPDATE pgboss.job SET started_on = started_on - interval '5 h' WHERE id = %s",
}


@pytest.fixture(params=PRESETS)
def own(request, defib):
    """Either queue, with defib's preset for it."""
    queue = request.getfixturevalue(request.param)
    return prepared(queue, request.param, defib)


def prepared(queue, name, defib):
    config = WATCH % PRESETS[name]
    queue.defib = lambda *args: defib(*args, db=queue.db, config=config)
    queue.long_ago = lambda key: queue.db.sql(LONG_AGO[name], key)
    return queue


def kill(worker):
    os.killpg(worker.pid, signal.SIGKILL)
    worker.process.wait()


def lose(queue, name, **options):
    """A job whose worker is killed while it runs it; nobody is left."""
    key = options.get("key") or queue.add(name, HOLD_S)
    worker = queue.start(f"dies-with-{name}")
    queue.wait_runs(name)
    kill(worker)
    assert queue.is_running(key)
    return key


def fix(queue):
    ran = queue.defib("scan", "--fix", "--json")
    assert ran.code in (0, 1, 6), ran.out + ran.err
    return ran.json


@pytest.mark.covers("F1")
def test_by_age_alone_a_lost_job_runs_again_and_a_living_one_is_left_alone(own):
    seen = Findings(own.defib("doctor", "--json"))
    assert seen.doc["fail"] == 0 and seen.doc["ok"] > 0, seen.all
    lost = lose(own, "lost")
    assert fix(own)["found"] == 0  # what is gone for a moment may be alive
    own.long_ago(lost)
    assert fix(own)["recovered"] == 1
    own.start("lives")
    own.wait_runs("lost", 2, ended=False)
    eventually(lambda: not own.is_running(lost))
    living = own.add("living", HOLD_S)
    own.wait_runs("living")
    assert fix(own)["found"] == 0
    assert own.is_running(living) and len(own.runs("living")) == 1


@pytest.fixture
def graphile_own(graphile, defib):
    return prepared(graphile, "graphile", defib)


@pytest.fixture
def pgboss_own(pgboss, defib):
    return prepared(pgboss, "pgboss", defib)


def add_job(queue, name, hold_s, more):
    """By graphile-worker's own SQL function, which knows queues and attempts."""
    return queue.db.sql("SELECT id FROM graphile_worker.add_job('hold', json_build_object('name', "
                        f"%s, 'hold_s', %s), {more})", name, hold_s)[0][0]


@pytest.mark.covers("F1")
def test_a_named_queue_of_graphile_worker_goes_on(graphile_own):
    own = graphile_own
    lost = add_job(own, "lost", HOLD_S, "queue_name := 'letters'")
    add_job(own, "next", 0, "queue_name := 'letters'")
    lose(own, "lost", key=lost)
    own.long_ago(lost)
    assert fix(own)["recovered"] == 1
    assert own.db.sql("SELECT locked_at, locked_by FROM graphile_worker._private_job_queues") \
        == [(None, None)]
    own.start("lives")
    for name, runs in (("lost", 2), ("next", 1)):
        own.wait_runs(name, runs)


@pytest.mark.covers("F1")
def test_graphile_worker_s_last_attempt_is_over(graphile_own):
    own = graphile_own
    lost = add_job(own, "lost", HOLD_S, "max_attempts := 1")
    lose(own, "lost", key=lost)
    own.long_ago(lost)
    fix(own)
    assert own.db.sql("SELECT attempts, max_attempts, locked_at, is_available, last_error LIKE "
                      "'Recovered by defib: silent for 5h%%, locked by %%' "
                      "FROM graphile_worker._private_jobs WHERE id = %s", lost) \
        == [(1, 1, None, False, True)]
    own.start("lives")
    own.add("after")
    own.wait_runs("after", ended=True)
    assert len(own.runs("lost")) == 1


@pytest.mark.covers("F1")
def test_pg_boss_s_last_retry_is_over(pgboss_own):
    own = pgboss_own
    lost = own.add("lost", HOLD_S)
    own.db.sql("UPDATE pgboss.job SET retry_limit = 0 WHERE id = %s", lost)
    lose(own, "lost", key=lost)
    own.long_ago(lost)
    fix(own)
    assert own.db.sql("SELECT state::text, completed_on IS NOT NULL, output->'value'->>'message' "
                      "LIKE 'Recovered by defib: not ended 4h 45m%%' FROM pgboss.job WHERE id = %s",
                      lost) == [("failed", True, True)]
    own.start("lives")
    own.add("after")
    own.wait_runs("after", ended=True)
    assert len(own.runs("lost")) == 1


@pytest.mark.covers("F1")
def test_pg_boss_s_real_singleton_index_refuses_one_row_and_nothing_is_lost(pgboss_own):
    own = pgboss_own
    own.db.sql("""SELECT pgboss.create_queue('one', '{"policy": "stately"}')""")
    for state, key in (("active", "k"), ("retry", "k"), ("active", "other")):
        own.db.sql("INSERT INTO pgboss.job (name, state, policy, singleton_key, started_on) "
                   "VALUES ('one', %s, 'stately', %s, now() - interval '1 h')", state, key)
    done = fix(own)
    assert (done["refused"], done["recovered"]) == (1, 1)
    assert own.db.sql("SELECT singleton_key, state::text FROM pgboss.job WHERE name = 'one' "
                      "ORDER BY 1, 2") == [("k", "active"), ("k", "retry"), ("other", "retry")]
