# SPDX-License-Identifier: Apache-2.0
"""What the queue promises: order, delay, unique keys, attempts, cancel, bulk, waking up."""

import json

import pytest

from harness.waiting import eventually

pytestmark = pytest.mark.sanitized


def order_of(queue):
    return [int(line) for line in (queue.program.dir / "order").read_text().split()]


LOG_ORDER = 'echo "$DEFIB_JOB_ID" >>order'


def test_init_can_be_run_again_and_changes_nothing(queue):
    job = queue.enqueue()
    assert queue.program("init", db=queue.db).code == 0
    assert queue.state(job) == "queued"


def test_init_prints_its_sql_without_running_it(defib, db):
    ran = defib("init", "--print", db=db)
    assert ran.code == 0 and "CREATE TABLE" in ran.out
    tables = {"postgres": "SELECT to_regclass('defib.job')",
              "sqlite": "SELECT max(name) FROM sqlite_master WHERE name = 'defib_job'"}
    assert db.sql(tables[db.engine])[0][0] is None


@pytest.mark.covers("B9")
def test_jobs_are_kept_when_they_are_done(queue):
    queue.enqueue()
    queue.drain()
    assert queue.all("state") == [("done",)]


def test_a_job_is_run_once_when_all_is_well(queue):
    for _ in range(3):
        queue.enqueue()
    queue.drain(run=LOG_ORDER)
    assert sorted(order_of(queue)) == [job for job, in queue.all("id")]
    assert queue.all("epoch, attempts, crashes") == [(1, 1, 0)] * 3


@pytest.mark.covers("D13")
def test_higher_priority_goes_first_then_the_oldest(queue):
    low, high, mid, high2 = (queue.enqueue("--priority", p) for p in ("-5", "9", "0", "9"))
    queue.drain(run=LOG_ORDER)
    assert order_of(queue) == [high, high2, mid, low]


def test_a_worker_takes_only_its_queue_and_kind(queue):
    other_queue = queue.enqueue(queue="other")
    other_kind = queue.enqueue(kind="other")
    mine = queue.enqueue(kind="mine")
    queue.drain("--kind", "mine")
    assert [queue.state(j) for j in (other_queue, other_kind, mine)] == ["queued", "queued", "done"]


def test_a_delayed_job_waits(queue):
    job = queue.enqueue("--delay", "1h")
    queue.drain()
    assert queue.state(job) == "scheduled"


def test_a_delayed_job_runs_when_it_is_due(queue):
    queue.enqueue("--delay", "1h")
    queue.drain()
    assert queue.all("state") == [("scheduled",)]
    soon = {"postgres": "clock_timestamp() + interval '700 ms'",
            "sqlite": "strftime('%s', 'now') * 1000 + 1700"}[queue.db.engine]
    queue.db.sql(f"UPDATE {queue.table('job')} SET run_at = {soon}")
    worker = queue.work("--poll", "100ms", run=LOG_ORDER)
    eventually(lambda: queue.all("state") == [("done",)])
    assert not queue.all("id", "claimed_at < run_at")
    assert worker.stop() == 0


def test_a_unique_key_is_not_enqueued_twice_while_it_waits(queue):
    first = queue.enqueue("--unique-key", "invoice-7")
    assert queue.enqueue("--unique-key", "invoice-7") == first
    assert queue.enqueue("--unique-key", "invoice-8") != first
    assert queue.enqueue("--unique-key", "invoice-7", queue="other") != first
    queue.drain()
    assert queue.enqueue("--unique-key", "invoice-7") != first


@pytest.mark.covers("E6", "D12")
def test_failures_are_tried_to_the_maximum_and_then_failed(queue):
    job = queue.enqueue("--max-attempts", "2")
    queue.work("--poll", "200ms", run='echo "try $DEFIB_ATTEMPT" >&2; exit 1')
    queue.wait_state(job, "failed")
    assert queue.one(job, "attempts, cause, error") == (2, "error", "exit code 1: try 2")
    assert queue.one(job, "finished_at") is not None


@pytest.mark.covers("D12")
def test_the_dead_letter_tells_error_time_out_and_crash_apart(queue):
    error, late, crash = (queue.enqueue("--max-attempts", "1", "--timeout", "500ms", kind=kind)
                          for kind in ("error", "late", "crash"))
    queue.drain(run='case $DEFIB_KIND in error) exit 1;; late) exec sleep 600;; '
                    'crash) kill -ABRT $$;; esac')
    assert queue.one(error, "state, cause") == ("failed", "error")
    assert queue.one(late, "state, cause") == ("timed_out", "time-out")
    assert queue.one(crash, "state, cause") == ("failed", "crash")


def waits_after_failing(queue, attempt, n=200):
    """Seconds from the claim to the next run, of n jobs that failed in this attempt."""
    queue.bulk(n, "--max-attempts", "30")
    queue.db.sql(f"UPDATE {queue.table('job')} SET attempts = {attempt - 1}")
    queue.drain("--concurrency", "8", run="exit 1")
    wait = {"postgres": "extract(epoch FROM run_at - claimed_at)::float8",
            "sqlite": "(run_at - claimed_at) / 1000.0"}[queue.db.engine]
    # Those that drew almost nothing have run again meanwhile.
    return [w for w, in queue.all(wait, f"attempts = {attempt}")]


@pytest.mark.covers("D12")
def test_backoff_has_full_jitter(queue):
    """Anywhere between at once and the whole backoff, evenly."""
    waits = waits_after_failing(queue, attempt=7)
    assert min(waits) >= 0 and max(waits) < 128 + 60, waits  # the run itself is part of it
    quarters = [sum(1 for w in waits if min(w // 32, 3) == i) for i in range(4)]
    quarters[0] += 200 - len(waits)  # on a slow machine more of them have run again
    assert all(20 <= n <= 90 for n in quarters), quarters


@pytest.mark.covers("D12")
def test_backoff_grows_with_the_attempts_up_to_an_hour(queue):
    waits = waits_after_failing(queue, attempt=8)
    assert 60 < sum(waits) / len(waits) < 196
    queue.db.sql(f"DELETE FROM {queue.table('job')}")
    assert 1200 < max(waits_after_failing(queue, attempt=20, n=50)) < 3660


@pytest.mark.covers("B10")
def test_cancel_of_a_waiting_job(queue):
    queued, delayed = queue.enqueue(), queue.enqueue("--delay", "1h")
    ran = queue.program("cancel", queued, delayed, db=queue.db)
    assert (ran.code, ran.out.count("  cancelled  ")) == (0, 2), ran.out
    queue.drain(run=LOG_ORDER)
    assert not (queue.program.dir / "order").exists()


@pytest.mark.covers("B10")
def test_cancel_of_a_running_job_reaches_its_worker(queue):
    job = queue.enqueue()
    queue.work("--poll", "60s", run="trap 'touch told; exit 1' TERM; touch up; sleep 600 & wait")
    eventually((queue.program.dir / "up").exists)
    ran = queue.program("cancel", job, db=queue.db)
    assert ran.code == 0 and "state: running -> cancelling" in ran.out
    queue.wait_state(job, "cancelled")
    assert (queue.program.dir / "told").exists()
    assert queue.one(job, "owner") is None and queue.one(job, "finished_at") is not None


def test_what_a_cancelled_job_exits_with_does_not_count(queue):
    """Many programs exit 0 on TERM, half done."""
    job = queue.enqueue()
    queue.work(run="trap 'echo 1 >&3; exit 0' TERM; touch up; sleep 600 & wait")
    eventually((queue.program.dir / "up").exists)
    queue.program("cancel", job, db=queue.db)
    queue.wait_state(job, "cancelled")
    assert queue.result(job) is None


@pytest.mark.covers("B10")
def test_a_job_being_cancelled_whose_worker_dies_ends_cancelled(queue):
    job = queue.enqueue()
    first = queue.work("--grace", "60s", run="trap '' TERM; touch up; while :; do sleep 1; done")
    eventually((queue.program.dir / "up").exists)
    queue.program("cancel", job, db=queue.db)
    queue.work(run="touch again")
    first.kill()
    queue.wait_state(job, "cancelled")
    assert not (queue.program.dir / "again").exists()


def test_cancel_of_what_is_not_there_or_over_is_refused(queue):
    job = queue.enqueue()
    queue.drain()
    ran = queue.program("cancel", 999, job, db=queue.db)
    assert ran.code == 5
    assert "queue/999  not found" in ran.out
    assert f"queue/{job}    refused: it is done: cancel_when does not hold" in ran.out
    assert queue.state(job) == "done"


def test_cancel_answers_in_json_and_names_the_batch(queue):
    job = queue.enqueue()
    ran = queue.program("cancel", job, "--json", db=queue.db)
    group, = json.loads(ran.out)["watches"]
    assert [(j["job"], j["outcome"]) for j in group["jobs"]] == [(f"queue/{job}", "done")]
    assert queue.program("undo", group["batch"], "--yes", db=queue.db).code == 0
    assert queue.state(job) == "queued"


def test_cancel_of_some_is_partly_done(queue):
    job = queue.enqueue()
    assert queue.program("cancel", 999, job, db=queue.db).code == 6
    assert queue.state(job) == "cancelled"


def test_a_cancel_by_command_stands_in_the_ledger_as_one_over_http_does(queue):
    waiting, other = queue.enqueue(), queue.enqueue()
    queue.program("cancel", waiting, "--reason", "not needed", db=queue.db)
    queue.program("cancel", f"queue/{other}", "--yes", db=queue.db)
    rows = queue.db.sql(f"SELECT job, event, rule, reason, actor FROM {queue.table('ledger')} "
                        "ORDER BY id")
    assert [row[:4] for row in rows] == [
        (str(waiting), "CANCELLED", "chosen-by-hand", "not needed"),
        (str(other), "CANCELLED", "chosen-by-hand", "by hand")]
    assert all(row[4].startswith("cli:") for row in rows)


def test_cancel_of_no_number_is_wrong_usage(queue):
    ran = queue.program("cancel", "abc", db=queue.db)
    assert ran.code == 2 and '"abc"' in ran.err


def test_bulk_enqueues_twenty_thousand_lines(queue):
    queue.bulk(20_000, "--priority", "3")
    rows = queue.db.sql(f"SELECT count(*), min(priority), max(priority) FROM {queue.table('job')}")
    assert rows == [(20_000, 3, 3)]
    rows = queue.db.sql(f"SELECT count(DISTINCT payload) FROM {queue.table('job_data')}")
    assert rows == [(20_000,)]


def test_a_line_of_a_bulk_that_is_too_long_is_refused_with_the_reason(queue, defib):
    lines = defib.dir / "lines.jsonl"
    lines.write_text('{"a": 1}\n"' + "x" * (1 << 20) + '"\n')
    ran = queue.program("enqueue", "q", "k", "--bulk", lines, db=queue.db)
    assert (ran.code, ran.out) == (6, "1 jobs enqueued\n")
    assert ran.err == ("defib: line 2 has 1048578 bytes; a payload may have at most 1048576: "
                       "store large data in a file, and its name in the job\n")


def test_bulk_reads_standard_input(queue, defib):
    path = defib.dir / "in"
    path.write_text('{"a": 1}\n\n[2]\r\n"three"')
    with open(path) as lines:
        ran = defib("enqueue", "q", "k", "--bulk", "-", "--json", db=queue.db, stdin=lines)
    assert (ran.code, ran.json) == (0, {"enqueued": 3})


def test_a_bad_line_keeps_what_came_before_and_says_so(queue, defib):
    path = defib.dir / "bad.jsonl"
    path.write_text("".join(f"{i}\n" for i in range(1500)) + "{oops\n" + "7\n" * 500)
    ran = defib("enqueue", "q", "k", "--bulk", path, db=queue.db)
    assert ran.code == 6
    assert "line 1501 is not JSON" in ran.err
    assert ran.out == "1500 jobs enqueued\n"
    assert len(queue.all("id")) == 1500


def test_a_bad_first_line_enqueues_nothing(queue, defib):
    (defib.dir / "bad.jsonl").write_text("nonsense\n1\n")
    ran = defib("enqueue", "q", "k", "--bulk", defib.dir / "bad.jsonl", db=queue.db)
    assert ran.code == 2 and "line 1 is not JSON" in ran.err
    assert not queue.all("id")


def test_a_payload_that_is_no_json_is_refused(queue):
    ran = queue.program("enqueue", "q", "k", "{oops", db=queue.db)
    assert ran.code == 2 and "the payload is not JSON" in ran.err
    assert not queue.all("id")


def test_without_init_every_command_says_what_to_do(defib, db):
    db.sql("CREATE TABLE users_own (id integer)")
    for args in (["enqueue", "q", "k"], ["cancel", "1"], ["work", "--drain", "--", "true"]):
        ran = defib(args[0], "--db", db.url, *args[1:])
        assert ran.code == 4, (args, ran)
        assert "defib init" in ran.err, (args, ran.err)


def test_an_idle_worker_is_woken_by_an_enqueue(queue):
    """At a poll of ten minutes nothing but the wake-up can start it."""
    worker = queue.work("--poll", "10m")
    queue.wait_state(queue.enqueue(), "done", limit=30)
    # The first claim is a worker's first act, so a second job shows that it was woken.
    queue.wait_state(queue.enqueue(), "done", limit=30)
    assert worker.stop() == 0


def test_an_idle_worker_is_woken_by_a_bulk(queue):
    queue.work("--poll", "10m", "--concurrency", "4")
    queue.wait_state(queue.enqueue(), "done", limit=30)
    queue.bulk(50)
    eventually(lambda: not queue.all("id", "state <> 'done'"))


@pytest.mark.covers("D5")
def test_what_waits_at_the_start_is_run(queue):
    queue.bulk(5)
    queue.work("--poll", "10m")
    eventually(lambda: not queue.all("id", "state <> 'done'"))
