# SPDX-License-Identifier: Apache-2.0
"""What each queue's own rules require of a recovery, beyond test_presets.py: marks that its own
tools read, jobs that were told to stop, unique indexes, dead letters, late completions.
"""

import json

import pytest

from harness import preset_tables as tables
from harness.example_systems import ledger

# SQL is what is tried here; sanitizers see the same code of ours in test_presets.py.
class Preset:
    """One queue on a fresh database, and defib with its preset."""

    def __init__(self, kind, db, defib):
        self.queue = kind(db)
        self.db = db
        self.defib = defib
        self.more = ""

    def __call__(self, *args):
        return self.defib(*args, config=self.queue.config + self.more)

    def fix(self):
        ran = self("scan", "--fix", "--json")
        assert ran.code in (0, 1, 6), ran.out + ran.err  # 6: a constraint refused some
        return ran.json["watches"][0]

    def one(self, query, *params):
        return self.db.sql(query, *params)[0]

    def events(self):
        return [e for e, in self.db.sql(f"SELECT event FROM {ledger(self.db)} ORDER BY id")]


@pytest.fixture
def preset(pg, defib, with_tables):
    return lambda kind: Preset(kind, pg, defib)


@pytest.mark.covers("F1")
def test_river_s_errors_get_an_entry_of_their_form(preset):
    river = preset(tables.River)
    job = river.queue.stuck()
    river.fix()
    errors, due = river.one("SELECT to_json(errors), scheduled_at <= now() FROM river_job "
                            "WHERE id = %s", job)
    assert [(e["attempt"], e["trace"]) for e in errors] == [(1, "")] and due
    assert errors[0]["error"].startswith("Recovered by defib: silent for 2h 10m, taken by host-b")


@pytest.mark.covers("F1")
def test_a_river_job_that_was_asked_to_stop_is_cancelled(preset):
    river = preset(tables.River)
    job = river.queue.stuck(metadata="'{\"cancel_attempted_at\": \"2026-01-01T00:00:00Z\"}'")
    river.fix()
    assert river.one("SELECT state::text, finalized_at IS NOT NULL FROM river_job WHERE id = %s",
                     job) == ("cancelled", True)


@pytest.mark.covers("F1")
def test_river_s_unique_key_refuses_one_row_and_the_others_go_on(preset):
    river = preset(tables.River)
    first, other = river.queue.stuck(), river.queue.stuck()
    # Unique while it waits for a retry; another one of its key does so already.
    river.db.sql("UPDATE river_job SET unique_key = 'k', unique_states = B'00100000' "
                 "WHERE id = %s", first)
    river.queue.insert("river_job", "id", state="'retryable'", kind="'mail'", args="'{}'",
                       unique_key="'k'", unique_states="B'00100000'")
    assert river.fix()["refused"] == 1
    assert [river.queue.state(j) for j in (first, other)] == ["running", "retryable"]


@pytest.mark.covers("F1", "C10")
def test_oban_s_late_completion_by_id_alone_is_counted_as_our_mistake(preset):
    oban = preset(tables.Oban)
    late, honest = oban.queue.stuck(), oban.queue.stuck()
    oban.fix()
    done = "UPDATE oban_jobs SET state = 'completed', completed_at = timezone('utc', now())"
    oban.db.sql(f"{done} WHERE id = %s", late)
    oban.db.sql(f"{done}, attempt = attempt + 1 WHERE id = %s", honest)
    oban.fix()
    assert oban.db.sql("SELECT job FROM defib.ledger WHERE event = 'LATE_COMPLETION'") \
        == [(str(late),)]


@pytest.mark.covers("F1")
def test_a_pg_boss_job_has_the_time_that_it_was_given(preset):
    boss = preset(tables.PgBoss12)
    long = boss.queue.add(3600, expire_seconds=7200)
    beats = boss.queue.add(3600, heartbeat_seconds=60, heartbeat_on="now()")
    silent = boss.queue.add(300, heartbeat_seconds=60, heartbeat_on="now() - interval '4 minutes'")
    boss.fix()
    assert [boss.queue.state(j) for j in (long, beats, silent)] == ["active", "active", "retry"]


@pytest.mark.covers("F1")
def test_a_pg_boss_job_that_fails_for_good_is_in_its_dead_letter_queue_once(preset):
    boss = preset(tables.PgBoss12)
    boss.queue.last()
    boss.fix()
    boss.fix()
    assert boss.db.sql("SELECT state::text, policy, output->'value'->>'message' LIKE "
                       "'Recovered by defib%' FROM pgboss.job WHERE name = 'dead'") \
        == [("created", "standard", True)]


@pytest.mark.covers("F1")
def test_pg_boss_s_singleton_refuses_one_row_and_nothing_is_lost(preset):
    boss = preset(tables.PgBoss12)
    blocked = boss.queue.stuck(singleton_key="'k'")
    boss.queue.insert("pgboss.job", "id", name="'mail'", state="'retry'", policy="'stately'",
                      singleton_key="'k'")
    other = boss.queue.stuck()
    assert boss.fix()["refused"] == 1
    assert [boss.queue.state(j) for j in (blocked, other)] == ["active", "retry"]
    assert boss.one("SELECT count(*) FROM pgboss.job")[0] == 3


@pytest.mark.covers("F1")
def test_a_solid_queue_job_goes_back_with_its_queue_and_priority(preset):
    solid = preset(tables.SolidQueue)
    job = solid.queue.stuck()
    solid.fix()
    assert solid.one("SELECT job_id, queue_name, priority, created_at > timezone('utc', now()) "
                     "- interval '1 minute' FROM solid_queue_ready_executions") \
        == (job, "default", 7, True)


@pytest.mark.covers("F1")
def test_solid_queue_s_error_is_json_whatever_the_reason(preset):
    solid = preset(tables.SolidQueue)
    job = solid.queue.stuck()
    assert solid("fail", str(job), "--yes", "--reason", 'a "quoted" \\ reason').code == 0
    error = json.loads(solid.one("SELECT error FROM solid_queue_failed_executions")[0])
    assert error == {"exception_class": "Defib::Lost", "message": "a 'quoted' / reason",
                     "backtrace": []}


@pytest.mark.covers("F1")
def test_a_good_job_whose_session_holds_its_lock_is_alive(preset):
    good = preset(tables.GoodJob)
    job = good.queue.stuck()
    session = good.db.connect()
    try:
        session.cursor().execute(
            "SELECT pg_advisory_lock(('x' || substr(md5('good_jobs' || '-' || %s), 1, 16))"
            "::bit(64)::bigint)", [job])
        good.fix()
        assert good.queue.state(job) == "running"
        assert "[owner-lives]" in good("explain", "work", job).out
    finally:
        session.close()


@pytest.mark.covers("F1", "C10")
def test_runs_of_a_good_job_that_overlap_are_counted_as_our_mistake(preset):
    good = preset(tables.GoodJob)
    jobs = [good.queue.stuck(), good.queue.stuck()]
    good.fix()
    for job, error in zip(jobs, (None, "Interrupted")):
        for begin, end, what in ((60, 10, error), (30, 5, None)):
            good.db.sql(
                "INSERT INTO good_job_executions (active_job_id, created_at, updated_at, "
                "finished_at, error) SELECT active_job_id, n - %s * s, n, n - %s * s, %s FROM "
                "good_jobs, timezone('utc', now()) n, make_interval(secs => 1) s WHERE id = %s",
                begin, end, what, job)
    good.fix()
    assert good.db.sql("SELECT job FROM defib.ledger WHERE event = 'LATE_COMPLETION'") \
        == [(jobs[0],)]


@pytest.mark.covers("F1")
def test_a_procrastinate_job_comes_back_by_its_own_function(preset):
    own = preset(tables.Procrastinate)
    job = own.queue.stuck()
    own.fix()
    assert own.one("SELECT status::text, attempts, scheduled_at <= now() FROM procrastinate_jobs "
                   "WHERE id = %s", job) == ("todo", 1, True)
    worker = own.queue.insert("procrastinate_workers", "id", last_heartbeat="now()")
    own.queue.take(job, worker)
    assert [e for e, in own.db.sql("SELECT type::text FROM procrastinate_events ORDER BY id")] \
        == ["deferred", "started", "deferred_for_retry", "scheduled", "started"]


@pytest.mark.covers("F1")
def test_a_procrastinate_job_that_was_asked_to_abort_does_not_run_again(preset):
    own = preset(tables.Procrastinate)
    job = own.queue.stuck()
    own.db.sql("UPDATE procrastinate_jobs SET abort_requested = true")
    own.fix()
    assert own.one("SELECT status::text, abort_requested FROM procrastinate_jobs WHERE id = %s",
                   job) == ("failed", False)


@pytest.mark.covers("F1")
def test_procrastinate_s_queueing_lock_refuses_one_row_and_the_others_go_on(preset):
    own = preset(tables.Procrastinate)
    first, other = own.queue.stuck(), own.queue.stuck()
    own.db.sql("UPDATE procrastinate_jobs SET queueing_lock = 'k' WHERE id = %s", first)
    own.queue.insert("procrastinate_jobs", "id", queue_name="'default'", task_name="'send_mail'",
                     queueing_lock="'k'")
    assert own.fix()["refused"] == 1
    assert [own.queue.state(j) for j in (first, other)] == ["doing", "todo"]


@pytest.mark.covers("F1", "C10")
def test_procrastinate_s_late_completion_is_counted_as_our_mistake(preset):
    own = preset(tables.Procrastinate)
    late, honest = own.queue.stuck(), own.queue.stuck()
    own.fix()
    own.db.sql("SELECT procrastinate_finish_job_v1(%s, 'succeeded', false)", late)
    worker = own.queue.insert("procrastinate_workers", "id", last_heartbeat="now()")
    own.queue.take(honest, worker)
    own.db.sql("SELECT procrastinate_finish_job_v1(%s, 'succeeded', false)", honest)
    own.fix()
    assert own.db.sql("SELECT job FROM defib.ledger WHERE event = 'LATE_COMPLETION'") \
        == [(str(late),)]


@pytest.mark.covers("F1", "F8")
def test_a_pgmq_message_that_is_read_for_ever_is_held_also_while_somebody_reads_it(preset):
    pgmq = preset(tables.Pgmq)
    young, poison = pgmq.queue.add(10, reads=3), pgmq.queue.add(120, reads=10)
    pgmq.db.sql("SELECT * FROM pgmq.read('emails', 600, 2)")
    pgmq.fix()
    assert [pgmq.queue.state(m) for m in (young, poison)] == ["running", "held"]
    assert pgmq.db.sql("SELECT * FROM pgmq.read('emails', 600, 9)") == []


@pytest.mark.covers("F1", "F10")
def test_a_released_pgmq_message_starts_again_at_no_reads(preset):
    pgmq = preset(tables.Pgmq)
    poison = pgmq.queue.last()
    pgmq.fix()
    assert pgmq("release", str(poison), "--yes").code == 0
    assert pgmq.db.sql("SELECT msg_id, read_ct FROM pgmq.read('emails', 60, 9)") == [(poison, 1)]


@pytest.mark.covers("F1", "F8")
def test_pgmq_archives_instead_where_the_watch_says_so(preset):
    pgmq = preset(tables.Pgmq)
    pgmq.more = ("    fail: {call: \"pgmq.archive('emails', :msg_id)\"}\n"
                 "    remedies: [{verdict: dead, do: requeue}, {do: fail}]\n")
    poison = pgmq.queue.last()
    pgmq.fix()
    assert pgmq.db.sql("SELECT msg_id, read_ct FROM pgmq.a_emails") == [(poison, 10)]
    assert pgmq.events() == ["FAILED"]


@pytest.mark.covers("F1")
def test_laravel_s_failed_job_keeps_its_payload_and_says_why(preset):
    laravel = preset(tables.Laravel)
    job = laravel.queue.stuck()
    assert laravel("fail", str(job), "--yes", "--reason", "poison").code == 0
    assert laravel.one("SELECT connection, queue, payload, exception FROM failed_jobs") \
        == ("database", "default", "{}", "poison")
