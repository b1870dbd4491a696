# SPDX-License-Identifier: Apache-2.0
"""Claims stay as fast at the end of a long queue as at its start, whatever runs in parallel."""

import re
import statistics
import time

import pytest

JOBS = 300_000
BATCH = 10
SAMPLE = 50
RATIO_MOST = 3.0


def fill(pg, n):
    pg.sql("INSERT INTO defib.job (queue, kind, priority) "
           f"SELECT 'default', 'test', 0 FROM generate_series(1, {n})")


class Timed:
    """A worker that claims and settles in batches, and times its claims."""

    def __init__(self, pg):
        self.session = pg.connect()
        self.cursor = self.session.cursor()
        self.cursor.execute("SELECT defib.register('timed', 'test/timed')")
        self.worker = self.cursor.fetchone()[0]
        self.floor = (32767, 0)

    def claim(self):
        """Seconds, and how many; with the floor that our own workers use."""
        begun = time.perf_counter()
        self.cursor.execute("SELECT id, epoch, priority FROM defib.claim(%s, 'default', %s, NULL, "
                            "%s, %s)", (self.worker, BATCH, *self.floor))
        rows = self.cursor.fetchall()
        took = time.perf_counter() - begun
        if rows:
            lowest = min(row[2] for row in rows)
            self.floor = (lowest, max(row[0] for row in rows if row[2] == lowest))
            ids, epochs = [r[0] for r in rows], [r[1] for r in rows]
            self.cursor.execute("SELECT count(*) FROM defib.settle(%s, %s, %s, %s)",
                                (self.worker, ids, epochs, ["done"] * len(ids)))
        return took, len(rows)

    def drain(self):
        """Times of all claims, in order."""
        times = []
        while True:
            took, n = self.claim()
            if not n:
                return times
            times.append(took)


def check_flat(times):
    first, last = statistics.median(times[:SAMPLE]), statistics.median(times[-SAMPLE:])
    print(f"claim of {BATCH}: first {first * 1000:.2f} ms, last {last * 1000:.2f} ms, "
          f"ratio {last / first:.2f}")
    assert last / first < RATIO_MOST


@pytest.mark.proof
def test_claims_stay_flat_over_a_long_queue(pg_queue):
    fill(pg_queue.db, JOBS)
    times = Timed(pg_queue.db).drain()
    assert len(times) == JOBS // BATCH
    check_flat(times)
    assert pg_queue.db.sql("SELECT count(*) FROM defib.job WHERE state <> 'done'") == [(0,)]


@pytest.mark.proof
def test_claims_stay_flat_beside_a_long_transaction(pg_queue):
    """Nothing can be cleaned up while it is open: every job leaves dead entries behind."""
    fill(pg_queue.db, JOBS)
    long = pg_queue.db.connect()
    long.autocommit = False
    with long.cursor() as cursor:
        cursor.execute("SET default_transaction_isolation = 'repeatable read'")
        cursor.execute("SELECT count(*) FROM defib.job")
    times = Timed(pg_queue.db).drain()
    assert len(times) == JOBS // BATCH
    check_flat(times)
    long.rollback()
    long.close()


def plan_of(pg, sql):
    """The plan of a statement as the claim function would run it."""
    session = pg.connect()
    with session.cursor() as cursor:
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
            cursor.execute(f"SET {setting} = off")
        cursor.execute("EXPLAIN " + sql)
        lines = [line for line, in cursor.fetchall()]
    session.close()
    return "\n".join(lines)


def plans_of(pg, sql, params):
    """What was really done by each statement inside a function, in words."""
    session = pg.connect()
    with session.cursor() as cursor:
        cursor.execute("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; "
                       "SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; "
                       "SET auto_explain.log_nested_statements = on; SET client_min_messages = log")
        cursor.execute(sql, params)
    session.close()
    return "\n".join(session.notices)


def rows_of(plans, what):
    """Rows that the lines named so count, over all loops."""
    return sum(int(n) for n in re.findall(rf"Rows {what} (\d+)", plans))


READY = ("SELECT r.id FROM defib.job r WHERE r.state = 'queued' AND r.queue = 'default' "
         "ORDER BY r.priority DESC, r.id LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED")


@pytest.mark.parametrize("analyzed", [False, True])
def test_ready_jobs_are_read_in_order_from_their_index(pg_queue, analyzed):
    """With and without statistics, and with all of them stale."""
    fill(pg_queue.db, 5_000)
    if analyzed:
        pg_queue.db.sql("ANALYZE defib.job")
    pg_queue.db.sql("UPDATE defib.job SET state = 'done' WHERE id < 4000")
    plan = plan_of(pg_queue.db, READY)
    assert "Index Scan using job_ready" in plan
    assert "Sort" not in plan


def test_the_settings_that_keep_the_plan_are_in_the_function(pg_queue):
    settings = pg_queue.db.sql("SELECT unnest(proconfig) FROM pg_proc WHERE proname = 'turn' "
                               "AND pronamespace = 'defib'::regnamespace")
    assert {("enable_seqscan=off",), ("enable_bitmapscan=off",), ("enable_sort=off",),
            ("plan_cache_mode=force_generic_plan",)} <= set(settings)


def in_hand(pg, n):
    """A worker that has claimed n jobs: its id, and lists of theirs and of their epochs."""
    fill(pg, n)
    worker = pg.sql("SELECT defib.register('holds', 'test/holds')")[0][0]
    jobs = pg.sql(f"SELECT id, epoch FROM defib.claim({worker}, 'default', {n})")
    return worker, [job for job, _ in jobs], [epoch for _, epoch in jobs]


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("batch", [1, 100, 1_000])
def test_a_list_of_jobs_is_not_compared_with_all_that_a_worker_has(pg_queue, batch, analyzed):
    """A worker's rows look like one row to the planner; they were read for each job of the list."""
    pg = pg_queue.db
    worker, ids, epochs = in_hand(pg, 1_000)
    if analyzed:
        pg.sql("ANALYZE defib.job")
    beats = plans_of(pg, "SELECT count(*) FROM defib.beat(%s, %s, %s, %s)",
                     (worker, ids[:batch], epochs[:batch], ["step"] * batch))
    ends = plans_of(pg, "SELECT count(*) FROM defib.settle(%s, %s, %s, %s)",
                    (worker, ids[:batch], epochs[:batch], ["done"] * batch))
    for plans, wanted in ((beats, "Insert on progress"), (ends, "Update on job")):
        assert wanted in plans
        assert rows_of(plans, "Removed by (?:Join )?Filter:") <= batch
    assert pg.sql("SELECT count(*) FROM defib.job WHERE state = 'done'") == [(batch,)]


SCANS = re.compile(r"(Index (?:Only )?Scan using (\w+)|Seq Scan) on \w+.*?rows=(\d+) loops=(\d+)")


def rows_read(plans):
    """Rows that scans gave, and those that they threw away."""
    return sum(int(rows) * int(loops) for _, _, rows, loops in SCANS.findall(plans)) \
        + rows_of(plans, "Removed by (?:Join )?Filter:")


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("batch", [1, 100, 1_000])
@pytest.mark.parametrize("outcome", [None, "done", "failed", "released"])
def test_a_turn_reads_no_more_than_it_was_given_and_gives(pg_queue, batch, outcome, analyzed):
    """Made on an empty table that nobody has analysed, the plans are kept while it grows; made
    again where one queue is all there is, they are not for reading all of it."""
    pg = pg_queue.db
    session = pg.connect()
    cursor = session.cursor()
    cursor.execute("SELECT defib.register('turns', 'test/turns')")
    worker = cursor.fetchone()[0]

    def turn(ids, epochs, room):
        outcomes = [outcome] * len(ids) if outcome else None
        cursor.execute("SELECT id, epoch FROM defib.turn(%s, %s::bigint[], %s::bigint[], "
                       "%s::text[], NULL, NULL, NULL, NULL, %s, 'default', %s)",
                       (worker, ids, epochs, outcomes, worker, room))
        rows = cursor.fetchall()
        return [row[0] for row in rows], [row[1] for row in rows]

    assert turn([], [], 1) == ([], [])
    fill(pg, 10)
    turn(*turn([], [], 2), 2)  # all its statements are planned now
    fill(pg, 3_000)
    if analyzed:
        pg.sql("VACUUM ANALYZE defib.job")
    held = turn([], [], 1_000)
    cursor.execute("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; "
                   "SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; "
                   "SET auto_explain.log_nested_statements = on; SET client_min_messages = log")
    claimed, _ = turn(held[0][:batch], held[1][:batch], batch)
    plans = "\n".join(session.notices)
    session.close()
    assert len(claimed) == batch
    assert "Update on job" in plans and "Seq Scan" not in plans
    # Ends by their key; claims from the index, by their place, with their payload.
    assert rows_read(plans) <= 5 * batch + 20


def test_a_priority_above_the_floor_is_found_when_the_floor_is_dropped(pg_queue):
    """The floor skips what was claimed a moment ago; a new urgent job waits a blink at most."""
    fill(pg_queue.db, 2_000)
    queue = pg_queue
    script = '[ "$DEFIB_KIND" = urgent ] && touch urgent; sleep 0.02'
    queue.work(run=script)
    urgent = queue.enqueue("--priority", "100", kind="urgent")
    queue.wait_state(urgent, "done")
    assert queue.all("id", "state = 'queued'"), "it waited for the whole queue"
