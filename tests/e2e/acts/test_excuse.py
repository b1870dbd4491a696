# SPDX-License-Identifier: Apache-2.0
"""`excuse`: a stuck job is not stuck until what was judged changes."""

import pytest

from harness import stuck_jobs
from harness.act_table import ACTOR, Jobs, batch_of
from harness.example_systems import ago
from harness.http_daemon import serving
from harness.paused_daemon import Told
from harness.waiting import eventually

pytestmark = pytest.mark.covers("F23")

OF_RUN = {"owner": "owner", "attempts": "attempts", "max_attempts": "3", "state": "status"}


@pytest.fixture
def jobs(db, defib, with_tables):
    return Jobs(db, defib, **OF_RUN, every="300ms")


def excused(jobs, job, reason="a large import"):
    ran = jobs("excuse", f"jobs/{job}", "--yes", "--reason", reason)
    assert ran.code == 0, (ran.out, ran.err)
    return ran


def fixed(jobs, *watch):
    """What a scan with --fix recovered and left out."""
    ran = jobs("scan", *watch, "--fix", "--json")
    watches = ran.json["watches"]
    return sum(w["recovered"] for w in watches), sum(w["excused"] for w in watches)


def listed(jobs, term, watch="jobs"):
    return jobs("list", "--watch", watch, "--where", term, "--ids").out.split()


def long_runs(db, defib, **more):
    """Jobs with a start, a sign of life and progress; the first stuck sign is that they run long."""
    place = Jobs(db, defib)
    kind = {"postgres": "timestamptz", "sqlite": "TEXT"}[db.engine]
    db.sql(f"ALTER TABLE jobs ADD COLUMN started_at {kind}")
    watch = {**OF_RUN, "started_at": "started_at", "overdue_after": "1h", **more}
    place.config = stuck_jobs.config(
        db, requeue="status = 'queued', started_at = NULL", **watch)
    return place


def beats(jobs, job):
    jobs.db.sql(f"UPDATE jobs SET updated_at = {ago(jobs.db, 0)} WHERE id = %s", job)


def started(jobs, job, age_s=7200):
    jobs.db.sql(f"UPDATE jobs SET started_at = {ago(jobs.db, age_s)} WHERE id = %s", job)


def stuck_metric(web):
    """None before the first pass."""
    lines = [line for line in web.get("/metrics").text.splitlines()
             if line.startswith("defib_jobs_stuck{")]
    return float(lines[0].split()[-1]) if lines else None


# ---- it is left alone ----

def test_an_excused_job_is_left_alone_and_its_neighbour_is_not(jobs):
    job, other = jobs.add("running", "running")
    ran = excused(jobs, job)
    assert "1 excused" in ran.out
    assert fixed(jobs) == (1, 1)
    assert jobs.statuses() == ["running", "queued"]
    assert jobs.ledger()[0] == ("EXCUSED", ACTOR, "a large import")
    # Nothing is stuck: neither a row, nor an entry, nor the exit code.
    ran = jobs("scan", "--fix")
    assert ran.code == 0 and "nothing stuck" in ran.out and "1 excused" in ran.out
    assert f"jobs/{job}" not in ran.out
    assert [event for event, in jobs.ledger("event")] == ["EXCUSED", "REQUEUED"]


@pytest.mark.parametrize("change", ["owner = 'w2'", "attempts = 1", "updated_at = {later}"])
def test_it_comes_back_when_owner_attempt_or_sign_of_life_changes(jobs, change):
    job = jobs.add("running")
    excused(jobs, job)
    assert fixed(jobs) == (0, 1)
    change = change.format(later=ago(jobs.db, 5400))
    jobs.db.sql(f"UPDATE jobs SET {change} WHERE id = %s", job)
    assert "no longer" in jobs("explain", f"jobs/{job}").out
    assert fixed(jobs) == (1, 0)
    # The row of the excuse went with the requeue.
    assert jobs.status(job) == "queued" and jobs.held() == []


def test_other_columns_do_not_end_it(jobs):
    job = jobs.add("running")
    excused(jobs, job)
    jobs.db.sql("UPDATE jobs SET error = 'of no matter' WHERE id = %s", job)
    assert fixed(jobs) == (0, 1)


def test_an_overdue_job_stays_excused_over_beats_until_it_starts_again(db, defib, with_tables):
    jobs = long_runs(db, defib)
    job = jobs.add("running")
    started(jobs, job)
    for _ in range(3):
        beats(jobs, job)
        if not jobs.held():
            excused(jobs, job)
        assert fixed(jobs) == (0, 1)
    started(jobs, job, 7000)
    assert fixed(jobs) == (1, 0)


def test_a_stalled_job_stays_excused_until_it_gets_on(db, defib, with_tables):
    kind = "timestamptz" if db.engine == "postgres" else "text"
    jobs = long_runs(db, defib, overdue_after="30d", progress_at="moved_at",
                     stalled_after="1h", remedies="[{verdict: stalled, do: requeue}]")
    db.sql(f"ALTER TABLE jobs ADD COLUMN moved_at {kind}")
    job = jobs.add("running")
    started(jobs, job)
    db.sql(f"UPDATE jobs SET moved_at = {ago(db, 7200)}")
    beats(jobs, job)
    excused(jobs, job)
    beats(jobs, job)
    assert fixed(jobs) == (0, 1)
    db.sql(f"UPDATE jobs SET moved_at = {ago(db, 5400)}")
    beats(jobs, job)
    assert fixed(jobs) == (1, 0)


def test_an_excuse_covers_no_other_verdict(db, defib, with_tables):
    jobs = long_runs(db, defib)
    job = jobs.add("running")
    started(jobs, job)
    beats(jobs, job)
    excused(jobs, job)
    assert fixed(jobs) == (0, 1)
    # Its worker falls silent, of which nobody has said anything.
    db.sql(f"UPDATE jobs SET updated_at = {ago(db, 6000)}")
    assert fixed(jobs) == (1, 0)


# ---- whose it is ----

def test_another_watch_on_the_table_respects_it(jobs):
    job = jobs.add("running")
    other = stuck_jobs.WATCH.format(requeue=stuck_jobs.REQUEUE, reason="of the other")
    jobs.config += other.replace("name: jobs", "name: other").replace("1h", "90m")
    excused(jobs, job)
    assert fixed(jobs, "other") == (0, 1)
    assert listed(jobs, "excused", "other") == [f"other/{job}"]
    jobs.db.sql(f"UPDATE jobs SET updated_at = {ago(jobs.db, 0)}")
    jobs.config = jobs.config.replace("90m", "1us")
    eventually(lambda: fixed(jobs, "other") == (1, 0))


def test_a_daemon_leaves_it_alone_and_says_how_many(db, defib):
    jobs = Told(defib, db, rows=2, every="300ms", owner="owner")
    try:
        jobs.say("excuse", "jobs/1", "--yes", "--reason", "r")
        jobs.daemon()
        jobs.wait_info(excused=1, found=0)
        jobs.wait_recovered(1)
        assert "excused      1 at the last scan" in jobs("status").out
        db.sql("UPDATE jobs SET owner = 'another' WHERE id = 1")
        jobs.wait_info(excused=0)
        jobs.wait_recovered(2)
    finally:
        jobs.close()


@pytest.mark.parametrize("change", ["owner = 'w2'", "attempts = 1", "started_at = {later}"])
def test_the_function_in_the_database_respects_it(pg, defib, with_tables, change):
    jobs = long_runs(pg, defib)
    long, silent = jobs.add("running", "running")
    for job in (long, silent):
        started(jobs, job)
    beats(jobs, long)
    excused(jobs, long)
    excused(jobs, silent)
    beats(jobs, long)
    ran = jobs("install", "jobs", "--yes")
    assert ran.code == 0, ran.err
    recover = 'SELECT defib."recover_jobs"()'
    assert pg.sql(recover) == [(0,)]
    change = change.format(later=ago(pg, 5400))
    pg.sql(f"UPDATE jobs SET {change} WHERE id = %s", long)
    pg.sql(f"UPDATE jobs SET updated_at = {ago(pg, 5400)} WHERE id = %s", silent)
    assert pg.sql(recover) == [(2,)]
    assert jobs.statuses() == ["queued", "queued"]


# ---- where it is shown, and counted ----

def test_it_is_shown_with_person_reason_and_time(jobs):
    job = jobs.add("running")
    excused(jobs, job)
    assert listed(jobs, "excused") == [f"jobs/{job}"]
    shown = jobs("show", f"jobs/{job}", "--json").json
    assert (shown["verdict"], shown["remedy"], shown["held"]) == (None, None, None)
    told = shown["excuse"]
    assert (told["verdict"], told["by"], told["reason"]) == ("silent", ACTOR, "a large import")
    assert told["at"].endswith("Z")
    for command in ("show", "explain", "list"):
        said = jobs(command, *([f"jobs/{job}"] if command != "list" else ["--where", "excused"])).out
        assert ACTOR in said and "a large import" in said, said
    explained = jobs("explain", f"jobs/{job}", "--json").json
    assert (explained["stuck"], explained["held"]) == (False, False)


def test_all_counts_of_stuck_jobs_leave_it_out(jobs):
    one, _ = jobs.add("running", "running")
    excused(jobs, one)
    scan, = jobs("scan", "--json").json["watches"]
    assert (scan["found"], scan["stuck"], scan["excused"]) == (1, 1, 1)
    limited, = jobs("scan", "--limit", "1", "--json").json["watches"]
    assert (limited["stuck"], limited["limited"]) == (1, False)
    stats, = jobs("stats", "jobs", "--json").json["watches"]
    assert (stats["stuck_total"], sum(stats["stuck"].values())) == (1, 1)
    assert (stats["excused"], stats["held"], stats["held_running"]) == (1, 0, 0)
    assert len(listed(jobs, "stuck")) == len(listed(jobs, "verdict=silent")) == 1
    assert listed(jobs, "held") == []
    with serving(jobs.defib.dir, jobs.config, "--no-queue") as web:
        eventually(web.ready)
        api = "/api/v1/watches/jobs/"
        # Its daemon has freed the other one: nothing is left that anybody calls stuck.
        eventually(lambda: jobs.statuses() == ["running", "queued"])
        assert web.get(api + "jobs?where=stuck").json["jobs"] == []
        row, = web.get(api + "jobs?where=excused").json["jobs"]
        assert (row["verdict"], row["excuse"]["by"]) == (None, ACTOR)
        stats = web.get(api + "stats").json
        assert (stats["stuck_total"], stats["excused"]) == (0, 1)
        eventually(lambda: stuck_metric(web) == 0)
        info = web.get("/api/v1/watches").json["watches"][0]["info"]
        assert (info["excused"], info["on_hold"]) == (1, 0)


# ---- what is refused, and how it ends ----

def test_a_job_that_is_not_stuck_has_nothing_to_excuse(jobs):
    fresh, queued = jobs.add("running", age_s=5), jobs.add("queued")
    for job in (fresh, queued):
        ran = jobs("excuse", f"jobs/{job}", "--yes")
        assert ran.code == 5 and "it is not stuck, so there is nothing to excuse" in ran.out
    held = jobs.add("running")
    assert jobs("hold", f"jobs/{held}", "--yes").code == 0
    ran = jobs("excuse", f"jobs/{held}", "--yes")
    assert ran.code == 5 and "it is on hold" in ran.out
    assert [event for event, in jobs.ledger("event")] == ["HELD"]


def test_release_ends_it_without_a_write_and_the_ledger_says_who(jobs):
    job = jobs.add("running")
    excused(jobs, job)
    before = jobs.row(job)
    ran = jobs("release", f"jobs/{job}", "--yes", "--reason", "it was not")
    assert ran.code == 0, ran.out
    assert jobs.row(job) == before and jobs.held() == []
    assert jobs.ledger()[-1] == ("EXCUSE_ENDED", ACTOR, "it was not")
    assert fixed(jobs) == (1, 0)


def test_an_undo_does_not_apply_and_says_what_does(jobs):
    job = jobs.add("running")
    batch = batch_of(excused(jobs, job))
    ran = jobs("undo", batch, "--yes")
    assert ran.code == 5 and "defib release ends it" in ran.out
    assert fixed(jobs) == (0, 1)


def test_a_hold_by_hand_takes_its_place(jobs):
    job = jobs.add("running")
    excused(jobs, job)
    assert jobs("hold", f"jobs/{job}", "--yes").code == 0
    assert listed(jobs, "excused") == [] and listed(jobs, "held") == [f"jobs/{job}"]


def test_what_is_over_is_removed_by_a_scan(jobs):
    job = jobs.add("running")
    excused(jobs, job)
    jobs.db.sql("UPDATE jobs SET status = 'done' WHERE id = %s", job)
    assert fixed(jobs) == (0, 0)
    assert jobs.held() == []


def test_many_are_excused_by_a_term_and_a_dry_run_changes_nothing(jobs):
    jobs.add("running", "running", "queued")
    before = jobs.dump()
    assert jobs("excuse", "--where", "stuck", "--watch", "jobs", "--dry-run").code == 0
    assert jobs.dump() == before
    assert jobs("excuse", "--where", "stuck", "--watch", "jobs", "--yes").code == 0
    assert fixed(jobs) == (0, 2)


def test_a_role_without_rights_on_the_table_cannot_excuse(pg, defib, with_tables):
    jobs = Jobs(pg, defib, **OF_RUN)
    job = jobs.add("running")
    pg.sql("CREATE ROLE excuses_nothing")
    try:
        pg.sql("GRANT USAGE ON SCHEMA defib TO excuses_nothing")
        pg.sql("GRANT ALL ON ALL TABLES IN SCHEMA defib TO excuses_nothing")
        with pytest.raises(Exception, match="may not write"):
            pg.sql("SET ROLE excuses_nothing; INSERT INTO defib.hold (table_key, watch, job, cause,"
                   " batch, verdict) VALUES ('public.jobs (id)', 'jobs', '1', 'excuse', 'b', "
                   "'silent')")
        pg.sql("RESET ROLE")
    finally:
        pg.sql("DROP OWNED BY excuses_nothing")
        pg.sql("DROP ROLE excuses_nothing")
    assert fixed(jobs) == (1, 0) and jobs.status(job) == "queued"


def test_a_row_with_an_unknown_verdict_excuses_nothing(jobs):
    job = jobs.add("running")
    excused(jobs, job)
    table = "defib.hold" if jobs.db.engine == "postgres" else "defib_hold"
    jobs.db.sql(f"UPDATE {table} SET verdict = 'of another kind', sign = 'none'")
    assert fixed(jobs) == (1, 0) and jobs.status(job) == "queued"
