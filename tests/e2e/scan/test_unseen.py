# SPDX-License-Identifier: Apache-2.0
"""Watches that see nothing: a misspelt predicate, an empty table, row-level security."""

import pytest

from harness.doctor_setup import config, doctor, make_jobs, role  # noqa: F401
from harness.example_systems import ago
from harness.paused_daemon import Told

SLIP = {"running": "status = 'runing'"}
HINT = "check `running` in the watch, or run defib doctor"


def secured(pg, *policies):
    pg.sql("ALTER TABLE jobs ENABLE ROW LEVEL SECURITY")
    for i, policy in enumerate(policies):
        pg.sql(f"CREATE POLICY p{i} ON jobs {policy}")


def of_role(pg):
    return role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE")


# ---- doctor: what is there instead ----

def test_a_misspelt_value_is_found_by_the_values_that_are_there(db, doctor):
    make_jobs(db)
    found = doctor(config=config(db.url, **SLIP)).one("running", "warn")
    assert found["text"] == ("no row matches running (status = 'runing'); status is 'done' (98), "
                             "'running' (2): 'runing' does not occur, did you mean 'running'?")
    assert "running" in found["fix"]


def test_the_slip_is_found_in_a_large_table_that_no_index_serves(db, doctor):
    make_jobs(db, rows=12000)
    found = doctor(config=config(db.url, **SLIP))
    assert found.of("index", "FAIL")
    assert "did you mean 'running'?" in found.one("running", "warn")["text"]


@pytest.mark.parametrize("running, says", [
    ("status IN ('RUNNING', 'x')", "'RUNNING' does not occur, did you mean 'running'?"),
    ("'runing' = t.status", "did you mean 'running'?"),
    ("\"status\" = 'busy' AND kind IS NOT NULL", "kind is null (100)"),
    ("kind = 'mail' AND status <> 'don'", "kind is null (100): 'mail' does not occur; status is 'done'"
                                          " (98), 'running' (2)"),
])
def test_predicates_of_other_shapes_are_understood(db, doctor, running, says):
    make_jobs(db)
    assert says in doctor(config=config(db.url, running=running)).one("running", "warn")["text"]


def test_values_of_a_masked_column_are_not_shown(db, doctor):
    make_jobs(db)
    seen = doctor(config=config(db.url, mask="[status]", state="'job'", **SLIP))
    text = seen.one("running", "warn")["text"]
    assert "status is masked" in text and "done" not in text and "'running'" not in text


def test_a_column_of_many_values_lists_none_of_them(db, doctor):
    make_jobs(db)
    text = doctor(config=config(db.url, running="id = 0")).one("running", "warn")["text"]
    assert "id has more than 50 values" in text


def test_an_empty_table_is_called_empty(db, doctor):
    make_jobs(db)
    db.sql("DELETE FROM jobs")
    assert doctor(config=config(db.url)).one("running", "ok")["text"] == "table jobs is empty"


def test_a_watch_that_the_ledger_knows_may_rest(db, doctor, defib):
    make_jobs(db)
    db.sql(f"UPDATE jobs SET updated_at = {ago(db, 7200)} WHERE status = 'running'")
    text = config(db.url)
    assert doctor(config=text).one("running", "ok")["text"].startswith("rows match running")
    assert defib("scan", "--fix", config=text).code == 0
    found = doctor(config=text).one("running", "ok")
    assert found["text"].startswith("no row matches running") and "'queued' (2)" in found["text"]


# ---- doctor: row-level security ----

def test_security_without_a_policy_hides_every_row_until_the_printed_policy(pg, doctor):
    make_jobs(pg)
    secured(pg)
    with of_role(pg) as url:
        seen = doctor(config=config(url))
        fail = seen.one("policy", "FAIL")
        assert "hides every row" in fail["text"] and seen.code == 3
        assert "row-level security" in seen.one("running", "warn")["text"]
        pg.sql(fail["fix"])
        seen = doctor(config=config(url))
        assert seen.one("policy", "ok") and seen.one("running", "ok")


def test_a_policy_for_select_only_fails_until_the_printed_policy(pg, doctor):
    make_jobs(pg)
    secured(pg, "FOR SELECT USING (true)")
    with of_role(pg) as url:
        fail = doctor(config=config(url)).one("policy", "FAIL")
        assert "p0 (SELECT)" in fail["text"] and "never be locked or written" in fail["text"]
        pg.sql(fail["fix"])
        assert "p0 (SELECT)" in doctor(config=config(url)).one("policy", "ok")["text"]


def test_a_policy_that_may_hide_rows_is_named(pg, doctor):
    make_jobs(pg)
    secured(pg, "USING (id < 60)", "AS RESTRICTIVE FOR UPDATE USING (id <> 7)",
            f"FOR DELETE TO {pg.sql('SELECT current_user')[0][0]} USING (true)")
    with of_role(pg) as url:
        warn = doctor(config=config(url)).one("policy", "warn")
        assert "p0 (ALL), p1 (UPDATE, restrictive)" in warn["text"] and "p2" not in warn["text"]


def test_security_that_does_not_apply_to_the_role_is_no_trouble(pg, doctor):
    make_jobs(pg)
    secured(pg)
    assert doctor(config=config(pg.url)).of("policy") == []


# ---- apply ----

def stuck(pg):
    make_jobs(pg)
    pg.sql("UPDATE jobs SET updated_at = now() - interval '2 hours' WHERE status = 'running'")


def outcomes(ran):
    watch, = ran.json["watches"]
    return {job["key"]: job["outcome"] for job in watch["jobs"]}, watch


def test_rows_that_a_policy_hides_from_writers_are_refused_and_not_locked(pg, defib):
    stuck(pg)
    secured(pg, "FOR SELECT USING (true)")
    with of_role(pg) as url:
        ran = defib("scan", "--fix", "--json", config=config(url, crash_budget="off"))
        found, watch = outcomes(ran)
        assert found == {"50": "refused", "100": "refused"} and ran.code == 6
        assert "row-level security" in watch["jobs"][0]["refusal"]
        assert (watch["locked"], watch["refused"]) == (0, 2)


def test_a_person_is_told_of_the_policy_too(pg, defib):
    stuck(pg)
    secured(pg, "FOR SELECT USING (true)")
    with of_role(pg) as url:
        ran = defib("requeue", "50", "--yes", config=config(url, crash_budget="off"))
        assert ran.code != 0 and "row-level security" in ran.out + ran.err
        assert "locked" not in ran.out + ran.err


def test_a_locked_row_beside_one_that_a_policy_hides_stays_locked(pg, defib):
    stuck(pg)
    pg.sql("INSERT INTO jobs (id, status, updated_at) SELECT i, 'running', now() - interval '2h'"
           " FROM generate_series(200, 204) AS i")
    secured(pg, "FOR SELECT USING (true)", "FOR UPDATE USING (id IN (50, 200, 204))")
    holders = [pg.connect(), pg.connect()]
    for holder in holders:  # two at once: no single transaction can be named
        holder.autocommit = False
        holder.cursor().execute("SELECT 1 FROM jobs WHERE id IN (50, 204) FOR SHARE")
    with of_role(pg) as url:
        ran = defib("scan", "--fix", "--json", config=config(url, crash_budget="off"))
        assert outcomes(ran)[0] == {"50": "locked", "100": "refused", "200": "recovered",
                                    "201": "refused", "202": "refused", "203": "refused",
                                    "204": "locked"}
    for holder in holders:
        holder.close()


# ---- scan and the daemon ----

def test_scan_says_that_no_row_is_running_and_that_none_ever_was(db, defib):
    make_jobs(db)
    ran = defib("scan", config=config(db.url, **SLIP))
    assert ran.code == 0 and "db1/jobs: nothing stuck; no row of jobs is running (" in ran.out
    assert HINT in ran.err
    assert HINT not in defib("scan", "--quiet", config=config(db.url, **SLIP)).err
    watch, = defib("scan", "--json", config=config(db.url, **SLIP)).json["watches"]
    assert (watch["running"], watch["never_seen_running"]) == (0, True)


def test_scan_gives_no_hint_where_rows_run_or_ran_or_none_are_there(db, defib):
    make_jobs(db)
    text = config(db.url)
    ran = defib("scan", config=text)
    assert "nothing stuck, 2 running" in ran.out and ran.err == ""
    db.sql(f"UPDATE jobs SET updated_at = {ago(db, 7200)} WHERE status = 'running'")
    assert defib("scan", "--fix", config=text).code == 0
    ran = defib("scan", config=text)
    assert "no row of jobs is running" in ran.out and ran.err == ""
    db.sql("DELETE FROM jobs")
    watch, = defib("scan", "--json", config=config(db.url, **SLIP)).json["watches"]
    assert watch["never_seen_running"] is False


def test_scan_leads_to_the_doctor_where_security_hides_every_row(pg, defib):
    make_jobs(pg)
    secured(pg)
    with of_role(pg) as url:
        ran = defib("scan", config=config(url))
        assert "no row of jobs is running" in ran.out
        assert "row-level security" in ran.err and "defib doctor" in ran.err


def test_the_daemon_says_in_its_status_that_it_never_saw_a_running_row(db, defib):
    jobs = Told(defib, db, rows=3, every="200ms")
    db.sql("UPDATE jobs SET status = 'runing'")
    try:
        jobs.daemon()
        jobs.wait_info(running=0, never_seen_running=True)
        assert HINT in jobs("status").out
        db.sql(f"UPDATE jobs SET status = 'running', updated_at = {ago(db, 0)}")
        jobs.wait_info(running=3, never_seen_running=False)
        db.sql("UPDATE jobs SET status = 'done'")
        jobs.wait_info(running=0, never_seen_running=False)
        assert HINT not in jobs("status").out
    finally:
        jobs.close()
