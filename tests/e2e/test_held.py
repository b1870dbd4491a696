"""Jobs that a watch puts on hold in its table's own words: shown as held until they move on."""

import pytest

import stuck_jobs
from hand_jobs import Jobs
from told import Told
from web import serving
from workers import eventually

HOLD = "status = 'parked', owner = NULL, error = :reason"
# Only a person gives it back, and by these words.
WORDS = {"hold": HOLD, "release": "status = 'queued', attempts = 0",
         "owner": "owner", "attempts": "attempts", "max_attempts": "3"}


@pytest.fixture
def jobs(db, defib):
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
    assert "is held since" in jobs("show", f"jobs/{job}").out
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
        assert "2 wait for a person at the last scan: defib list --watch jobs --where held" \
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
    assert jobs("scan", "--fix").code == 1 and jobs.status(job) == "running"


MOVED_ON = {
    "claimed": "UPDATE jobs SET status = 'running', owner = 'w2', updated_at = %s",
    # As the hold left it, but for its state.
    "done": "UPDATE jobs SET status = 'done'",
    "gone": "DELETE FROM jobs",
}


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
