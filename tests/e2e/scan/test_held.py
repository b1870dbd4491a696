# SPDX-License-Identifier: Apache-2.0
"""Jobs that a watch holds in the user's table: shown as held until they move on."""

import pytest

from harness import stuck_jobs
from harness.act_table import Jobs
from harness.http_daemon import serving
from harness.paused_daemon import Told
from harness.waiting import eventually

HOLD = "status = 'parked', owner = NULL, error = :reason"
# Only an operator requeues it, by this list.
WORDS = {"hold": HOLD, "release": "status = 'queued', attempts = 0",
         "owner": "owner", "attempts": "attempts", "max_attempts": "3"}


@pytest.fixture
def jobs(db, defib, with_tables):
    return Jobs(db, defib, **WORDS)


def spent(jobs):
    """A job whose worker is gone with its last attempt."""
    job = jobs.add("running")
    jobs.db.sql("UPDATE jobs SET attempts = 3 WHERE id = %s", job)
    return job


def parked(jobs):
    job = spent(jobs)
    assert jobs("scan", "--fix").code == 1
    assert jobs.status(job) == "parked"
    return job


def listed(jobs):
    return jobs("list", "--where", "held", "--ids").out.split()


def stats(jobs):
    return jobs("stats", "jobs", "--json").json["watches"][0]


# ---- where it is shown ----

@pytest.mark.covers("E5")
def test_it_is_listed_counted_and_explained_after_it_left_the_running_ones(jobs):
    job = parked(jobs)
    jobs.add("queued", "running")
    assert listed(jobs) == [f"jobs/{job}"]
    told = stats(jobs)
    # One is stuck besides it, which the held one is not.
    assert (told["held"], told["held_running"], sum(told["stuck"].values())) == (1, 0, 1)
    shown = jobs("show", f"jobs/{job}", "--json").json
    assert (shown["held"], shown["hold"]["holds"], shown["state"]) == ("attempts", True, "parked")
    assert "has been held since" in jobs("show", f"jobs/{job}").out
    assert f"defib release jobs/{job}" in jobs("explain", f"jobs/{job}").out


def test_it_is_in_the_api_as_held(jobs):
    job = parked(jobs)
    with serving(jobs.defib.dir, jobs.config, "--no-queue") as web:
        eventually(web.ready)
        found, = web.get("/api/v1/watches/jobs/jobs?where=held").json["jobs"]
        assert (found["key"], found["held"]) == (str(job), "attempts")
        assert web.get(f"/api/v1/watches/jobs/jobs/{job}").json["hold"]["holds"] is True
        assert web.get("/api/v1/watches/jobs/stats").json["held"] == 1


@pytest.mark.parametrize("words", [{"hold": HOLD}, {}], ids=["in-its-words", "in-our-table"])
def test_status_says_how_many_wait_for_a_person(db, defib, words):
    jobs = Told(defib, db, rows=2, remedies="[{do: hold}]", **words)
    try:
        jobs.daemon()
        jobs.wait_info(on_hold=2)
        assert "2 waiting for an operator at the last scan: defib list --watch jobs --where held" \
            in jobs("status").out
    finally:
        jobs.close()


def test_jobs_of_the_queue_that_are_held_are_counted(queue, defib):
    job = queue.enqueue()
    assert defib("hold", job, "--watch", "queue", "--yes", db=queue.db).code == 0
    told, = defib("stats", "queue", "--json", db=queue.db).json["watches"]
    assert (told["held"], told["held_running"]) == (1, 0)


# ---- how it leaves ----

@pytest.mark.covers("E5")
def test_a_person_releases_it_by_the_watch_s_words(jobs):
    job = parked(jobs)
    ran = jobs("release", f"jobs/{job}", "--yes", "--reason", "mended")
    assert ran.code == 0, ran.err
    assert jobs.db.sql("SELECT status, attempts FROM jobs") == [("queued", 0)]
    assert [event for event, in jobs.ledger("event")][-2:] == ["HELD", "RELEASED"]
    assert jobs.held() == [] and listed(jobs) == []
    assert "it is not on hold" in jobs("release", f"jobs/{job}", "--yes").out


def test_all_held_ones_are_released_by_a_term(jobs):
    parked(jobs)
    spent(jobs)
    assert jobs("scan", "--fix").code == 1
    assert jobs("release", "--where", "held", "--yes").code == 0
    assert jobs.statuses() == ["queued", "queued"] and jobs.held() == []


@pytest.mark.parametrize("act", ["requeue", "fail"])
def test_any_other_act_ends_it_too(jobs, act):
    job = parked(jobs)
    assert jobs(act, f"jobs/{job}", "--yes").code == 0
    assert jobs.held() == [] and listed(jobs) == []


def test_an_undo_takes_it_back_and_holds_it_as_it_was(jobs):
    job = parked(jobs)
    assert jobs("undo", f"jobs/{job}", "--yes").code == 0
    assert jobs.status(job) == "running"
    assert jobs("show", f"jobs/{job}", "--json").json["held"] == "undone"
    assert jobs("scan", "--fix").code == 0 and jobs.status(job) == "running"


MOVED_ON = {
    "claimed": "UPDATE jobs SET status = 'running', owner = 'w2', updated_at = %s",
    # As the hold left it, but for its state.
    "done": "UPDATE jobs SET status = 'done'",
    "gone": "DELETE FROM jobs",
}


def waiting(jobs):
    """What the report says of holds: how many, and which are the oldest."""
    told, = jobs("report", "--format", "json").json["watches"]
    assert told["missing"] is None
    return told["waiting"], [h["job"] for h in told["holds"]]


@pytest.mark.covers("E5")
@pytest.mark.parametrize("words", [WORDS, {"remedies": "[{do: hold}]", "owner": "owner"}],
                         ids=["in-its-words", "in-our-table"])
def test_a_report_counts_only_holds_that_are_in_force(db, defib, words):
    jobs = Jobs(db, defib, **words)
    spent(jobs)
    second = spent(jobs)
    assert jobs("scan", "--fix").code == 1
    assert waiting(jobs)[0] == 2
    jobs.db.sql("UPDATE jobs SET status = 'running', owner = 'w2', updated_at = "
                "'2030-01-01 00:00:00' WHERE id <> %s", second)
    assert len(jobs.held()) == 2, "the hold that is over is still in the table"
    assert waiting(jobs) == (1, [str(second)])


@pytest.mark.parametrize("how", MOVED_ON)
def test_it_is_over_when_the_job_moved_on_and_is_forgotten_by_the_next_scan(jobs, how):
    parked(jobs)
    change = MOVED_ON[how]
    moment = "2030-01-01 00:00:00"
    jobs.db.sql(change, *([moment] if "%s" in change else []))
    assert listed(jobs) == [] and stats(jobs)["held"] == 0
    jobs("scan", "--fix")
    assert jobs.held() == []


def test_a_note_on_the_row_does_not_end_it(jobs):
    job = parked(jobs)
    jobs.db.sql("UPDATE jobs SET error = 'looked at by anna'")
    assert jobs("scan", "--fix").code == 0
    assert listed(jobs) == [f"jobs/{job}"] and jobs.held() == [str(job)]
    assert jobs("release", f"jobs/{job}", "--yes").code == 0


def test_one_that_runs_again_is_recovered_as_any_other(jobs):
    job = parked(jobs)
    # Neither a name nor a beat: by these alone it would still be the held one.
    jobs.db.sql("UPDATE jobs SET status = 'running', attempts = 0 WHERE id = %s", job)
    assert jobs("scan", "--fix").code == 0
    assert jobs.status(job) == "queued"


def test_recovery_inside_the_database_holds_it_the_same(pg, defib):
    jobs = Jobs(pg, defib, **WORDS)
    job = spent(jobs)
    assert jobs("install", "jobs", "--yes").code == 0
    jobs.db.sql("SELECT defib.recover_jobs()")
    assert jobs.status(job) == "parked" and listed(jobs) == [f"jobs/{job}"]
    jobs.db.sql("UPDATE jobs SET status = 'running', attempts = 0")
    jobs.db.sql("SELECT defib.recover_jobs()")
    assert jobs.status(job) == "queued" and listed(jobs) == []


def test_without_a_ledger_the_row_is_parked_all_the_same(db, defib):
    jobs = Jobs(db, defib, **WORDS)
    job = spent(jobs)
    jobs.config += "ledger: off\n"
    assert jobs("scan", "--fix").code == 1
    assert jobs.status(job) == "parked" and not stuck_jobs.has_ledger(db)


# ---- jobs that an operator released ----

LAST = {"owner": "owner", "attempts": "attempts", "max_attempts": "3"}
# Where a hold is stored, and how the watch defines requeue.
RELEASES = {
    "our-table": (LAST, "queued"),
    "no-way-back": ({**LAST, "requeue": None, "retry": None, "remedies": "[{do: hold}]"},
                    "running"),
    "only-retry": ({**LAST, "requeue": None, "remedies": "[{do: hold}]"}, "queued"),
    "in-its-words": ({**LAST, "hold": HOLD}, "queued"),
}


@pytest.mark.covers("E5")
@pytest.mark.parametrize("how", RELEASES)
def test_a_released_job_may_run_again_and_is_not_held_again_for_the_same_facts(db, defib, how):
    """`release` of an exhausted job: it can be claimed again, and the next scan leaves it alone."""
    words, becomes = RELEASES[how]
    jobs = Jobs(db, defib, **words)
    job = spent(jobs)
    assert jobs("scan", "--fix").code == 1 and listed(jobs) == [f"jobs/{job}"]
    assert jobs("release", job, "--yes").code == 0
    assert jobs.status(job) == becomes
    for _ in range(2):
        jobs("scan", "--fix")
        assert (listed(jobs), jobs.held(), jobs.status(job)) == ([], [], becomes)
    # Its next run counts for itself.
    jobs.db.sql("UPDATE jobs SET status = 'running', attempts = 4, owner = 'w9', "
                "updated_at = '2020-01-01 00:00:00'")
    assert jobs("scan", "--fix").code == 1
    assert listed(jobs) == [f"jobs/{job}"]


def test_the_function_in_the_database_does_not_hold_again_what_a_person_let_go(pg, defib):
    words, _ = RELEASES["no-way-back"]
    jobs = Jobs(pg, defib, **words)
    job = spent(jobs)
    assert jobs("install", "jobs", "--yes").code == 0
    recover = "SELECT defib.recover_jobs()"
    pg.sql(recover)
    assert jobs.held() == [str(job)]
    assert jobs("release", job, "--yes").code == 0
    pg.sql(recover)
    assert jobs.held() == [] and jobs.ledger("event")[-1] == ("ZOMBIE_DETECTED",)
    pg.sql("UPDATE jobs SET attempts = 4")
    pg.sql(recover)
    assert jobs.held() == [str(job)]


def test_a_hold_that_was_undone_is_made_again_for_the_same_facts(db, defib):
    """An undo is no release: what led to the hold still counts, and the job is not requeued."""
    jobs = Jobs(db, defib, **RELEASES["our-table"][0])
    job = spent(jobs)
    assert jobs("scan", "--fix").code == 1
    assert jobs("undo", f"jobs/{job}", "--yes").code == 0
    assert jobs.held() == []
    assert jobs("scan", "--fix").code == 1
    assert jobs.status(job) == "running" and jobs.held() == [str(job)]


def test_the_end_of_a_hold_takes_nothing_from_a_living_worker(db, defib):
    jobs = Jobs(db, defib)
    live, waits = jobs.add("running", age_s=1), jobs.add("done")
    assert jobs("hold", live, waits, "--yes").code == 0
    ran = jobs("release", live, waits, "--yes")
    assert ran.code == 0 and jobs.held() == []
    assert jobs.statuses() == ["running", "done"]


def test_a_job_of_the_queue_is_let_go_without_a_crash_to_its_name(queue, defib):
    job = queue.enqueue()
    assert defib("hold", job, "--watch", "queue", "--yes", db=queue.db).code == 0
    assert defib("release", job, "--watch", "queue", "--yes", db=queue.db).code == 0
    shown = defib("show", f"queue/{job}", "--json", db=queue.db).json
    assert (shown["state"], shown["row"]["crashes"], shown["row"]["cause"]) == ("queued", "0", None)


# ---- why it is held, and what its release means ----

WHY = "kills the parser, see incident 4711"


def test_the_reason_of_a_hold_is_shown_wherever_the_job_is(jobs):
    """`hold --reason`: in list, show, explain and the API, with who holds it."""
    job = jobs.add("running")
    assert jobs("hold", job, "--reason", WHY, "--yes").code == 0
    assert f"held: by hand, {WHY}" in jobs("list", "--where", "held").out
    assert f"an operator holds it ({WHY})" in jobs("show", f"jobs/{job}").out
    assert WHY in jobs("explain", f"jobs/{job}").out
    shown = jobs("show", f"jobs/{job}", "--json").json
    assert (shown["held"], shown["hold_reason"]) == ("by hand", WHY)
    assert WHY in jobs("list", "--json").out


def test_the_reason_of_a_hold_in_the_queue_is_kept_too(queue, defib):
    job = queue.enqueue()
    assert defib("hold", job, "--watch", "queue", "--reason", WHY, "--yes", db=queue.db).code == 0
    shown = defib("show", f"queue/{job}", "--json", db=queue.db).json
    assert (shown["held"], shown["hold_reason"]) == ("by hand", WHY)
    told, = defib("stats", "queue", "--json", db=queue.db).json["watches"]
    assert (told["held"], told["held_running"]) == (1, 0)
    assert len(defib("list", "--watch", "queue", "--where", "held", "--ids",
                     db=queue.db).out.split()) == 1
    assert defib("release", job, "--watch", "queue", "--yes", db=queue.db).code == 0
    told, = defib("stats", "queue", "--json", db=queue.db).json["watches"]
    assert told["held"] == 0


POISON = "its next worker may crash as the earlier ones did"


def poisoned(db, defib):
    jobs = Jobs(db, defib, owner="owner")
    job = jobs.add("running")
    for number in range(3):
        jobs("scan", "--fix")
        if number < 2:
            jobs.db.sql("UPDATE jobs SET status = 'running', owner = %s", f"w{number + 2}")
    assert jobs("show", f"jobs/{job}", "--json").json["held"] == "poison"
    return jobs, job


def test_a_poison_job_says_why_and_its_release_warns(db, defib):
    """In the question, in a dry run and in what was done."""
    jobs, job = poisoned(db, defib)
    assert "held: poison, Held for an operator: stuck 3 times within 3d" \
        in jobs("list", "--where", "held").out
    assert "may kill its workers" in jobs("show", f"jobs/{job}").out
    assert POISON in jobs("release", job).err
    assert POISON in jobs("release", job, "--dry-run").out
    done = jobs("release", job, "--yes")
    assert done.code == 0 and POISON in done.out
    assert jobs.status(job) == "queued"


def test_a_poison_job_s_release_warns_over_http(lite, defib):
    jobs, job = poisoned(lite, defib)
    with serving(jobs.defib.dir, jobs.config, "--no-queue") as web:
        eventually(web.ready)
        found, = web.get("/api/v1/watches/jobs/jobs?where=held").json["jobs"]
        assert (found["held"], found["hold_reason"][:8]) == ("poison", "Held for")
        got = web.post(f"/api/v1/watches/jobs/jobs/{job}/release", {"dry_run": True})
        assert POISON in got.json["watches"][0]["jobs"][0]["warning"]


# ---- several watches on one table ----

@pytest.mark.covers("E5")
@pytest.mark.parametrize("sign", ["alive_at: updated_at", "started_at: updated_at"])
def test_a_hold_of_one_watch_keeps_the_others_on_its_table_away(db, defib, sign):
    jobs = Jobs(db, defib, owner="owner")
    second = stuck_jobs.WATCH.format(requeue=stuck_jobs.REQUEUE, reason="freed by the other")
    limit = "stuck_after" if sign.startswith("alive") else "overdue_after"
    jobs.config += second.replace("name: jobs", "name: others").replace(
        "alive_at: updated_at", sign).replace("stuck_after", limit)
    job = jobs.add("running")
    assert jobs("hold", f"jobs/{job}", "--yes").code == 0
    assert jobs("scan", "others", "--fix").code in (0, 1)
    assert (jobs.status(job), jobs.held()) == ("running", [str(job)])
    # Released by either, it is released for both.
    ran = jobs("release", f"others/{job}", "--yes")
    assert ran.code == 0 and jobs.held() == [], ran.out + ran.err


def test_a_hold_of_another_watch_is_over_when_the_job_was_heard_of_since(db, defib):
    jobs = Jobs(db, defib, owner="owner")
    second = stuck_jobs.WATCH.format(requeue=stuck_jobs.REQUEUE, reason="freed by the other")
    jobs.config += second.replace("name: jobs", "name: others").replace("stuck_after: 1h",
                                                                        "stuck_after: 1s")
    job = jobs.add("running")
    jobs("hold", f"jobs/{job}", "--yes")
    now = "clock_timestamp()" if db.engine == "postgres" else "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    db.sql(f"UPDATE jobs SET updated_at = {now} WHERE id = %s", job)
    eventually(lambda: jobs("scan", "others", "--fix").code in (0, 1)
               and jobs.status(job) == "queued")


def test_what_another_watch_holds_is_counted_once_and_is_not_stuck(db, defib):
    jobs = Jobs(db, defib, owner="owner")
    jobs.config += stuck_jobs.WATCH.format(
        requeue=stuck_jobs.REQUEUE, reason="freed by the other").replace("name: jobs", "name: others")
    held, _ = jobs.add("running", "running")
    assert jobs("hold", f"jobs/{held}", "--yes").code == 0
    told = {one["watch"]: one for one in jobs("stats", "--json").json["watches"]}
    counted = {name: (told[name]["held"], told[name]["stuck_total"] - told[name]["held_running"])
               for name in ("jobs", "others")}
    assert counted == {"jobs": (1, 1), "others": (0, 1)}
