# SPDX-License-Identifier: Apache-2.0
"""defib status: the state of the daemons, from any host, also when none is left."""

import json
import re
import signal
import time

import pytest

from harness import stuck_jobs
from harness.paused_daemon import BRAKED, Told
from harness.shell_pages import sample, shape
from harness.waiting import eventually


@pytest.fixture
def told(defib, db):
    made = []

    def make(**options):
        made.append(Told(defib, db, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


def lines(ran):
    """The lines of one watch by their names; the head is ''."""
    head, *rest = ran.out.strip("\n").split("\n")
    return {"": head, **{line[2:14].strip(): line[15:] for line in rest}}


def test_before_any_daemon_it_says_that_nobody_leads_and_what_to_do(told):
    ran = told()("status")
    assert ran.code == 1 and ran.err == ""
    assert lines(ran)[""] == "main/jobs: no daemon leads this watch"
    assert lines(ran)["leader"].endswith("Start one: defib daemon")


def test_what_the_table_has_now_is_counted_beside_what_a_daemon_stored(told):
    jobs = told()
    assert lines(jobs("status"))["now"] == "5 running, 5 stuck"
    brief = jobs.standing(code=1)["numbers"]
    assert (brief["running"], brief["stuck_total"]) == (5, 5) and "states" not in brief
    all_of_it = jobs.standing("--numbers", code=1)["numbers"]
    counted = jobs("stats", "--json").json["watches"][0]
    for numbers in (all_of_it, counted):
        assert [(s["state"], s["n"]) for s in numbers["states"]] == [("running", 5)]
    assert all_of_it == counted
    printed = jobs("status", "--numbers").out.partition("\nNumbers of jobs\n")
    assert "  now          5 running, 5 stuck\n" in printed[0]
    # Below a title of its own, what stats prints.
    assert printed[2] == jobs("stats").out.partition("\n")[2]


def test_a_table_that_cannot_be_counted_hides_nothing_else(told):
    jobs = told()
    jobs.db.sql("ALTER TABLE jobs RENAME TO moved")
    ran = jobs("status")
    assert (ran.code, ran.err) == (1, "")
    assert lines(ran)[""] == "main/jobs: no daemon leads this watch"
    assert lines(ran)["now"].startswith("not counted: ")
    assert jobs.standing(code=1)["numbers"] is None


def test_a_watch_that_is_well_says_who_leads_and_when_it_was_scanned(told):
    jobs = told(rows=0, every="10m")
    jobs.daemon()
    jobs.wait_info(found=0)
    ran = jobs("status")
    assert ran.code == 0
    said = lines(ran)
    assert said[""] == "main/jobs: well"
    holder = jobs.db.sql(f"SELECT holder FROM {jobs.table('leader')}")[0][0]
    assert said["leader"].startswith(f"{holder}, for ")
    assert said["last scan"].endswith(", every 10m")
    assert said["jobs"] == "0 running, 0 of them stuck at the last scan"
    assert not {"guard", "doubt", "brake", "waiting", "paused", "raised"} & set(said)


def test_the_page_shows_what_a_held_watch_prints(told):
    shown = sample("daemon.md", "main/pages: ").replace("pages", "jobs")
    leader, guard = (re.search(rf"^  {name} +(.*)$", shown, re.M)[1] for name in ("leader", "guard"))
    holder = leader.split(",")[0]
    jobs = told()
    jobs.say("raise", "jobs", "--by", "2.5", "--for", "4h", "--reason", "sale")
    now, later = "clock_timestamp()", "clock_timestamp() + interval '1 hour'"
    begun = "clock_timestamp() - interval '76 hours'"
    if jobs.db.engine == "sqlite":
        now = "unixepoch() * 1000"
        later, begun = f"{now} + 3600000", f"{now} - 76 * 3600000"
    scanned = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2))
    info = {"factor": 1, "every_s": 60, "running": 430, "found": 412, "stuck": 412, "on_hold": 3,
            "guarded": {"total": 412}, "guard": guard, "braking": True, "brakes": 1,
            "brake_until": "2026-01-02T03:12:00Z", "suspects": 412, "recovered_total": 1204,
            "held_total": 3, "retried_total": 12, "last_finished_scan": scanned,
            "false_positives": {"day": 0, "day_recovered": 12}}
    jobs.db.sql(f"INSERT INTO {jobs.table('leader')} (watch, holder, since, expires_at) "
                f"VALUES ('jobs', %s, {begun}, {later})", holder)
    jobs.db.sql(f"INSERT INTO {jobs.table('status')} (watch, at, holder, info) "
                f"VALUES ('jobs', {now}, %s, %s)", holder, json.dumps(info))
    ran = jobs("status")
    assert ran.code == 1
    printed = re.sub("cli:[^ ]+", "cli:anna", ran.out)
    assert shape(printed) == shape(shown)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_leader_that_is_killed_or_stopped_leads_no_more(told, number):
    jobs = told(rows=0)
    daemon = jobs.daemon()
    jobs.wait_info(found=0)
    holder = jobs.standing(code=0)["leader"]["holder"]
    daemon.signal(number)

    def nobody():
        return jobs("status").code == 1
    eventually(nobody)
    said = lines(jobs("status"))
    assert said[""] == "main/jobs: no daemon leads this watch"
    assert holder in said["leader"]
    daemon.signal(signal.SIGCONT)


def test_what_a_pause_holds_is_told_with_who_until_when_and_why(told):
    jobs = told()
    jobs.say("pause", "jobs", "--for", "2h", "--reason", "release night")
    jobs.daemon()
    jobs.wait_info(paused=True)
    ran = jobs("status")
    said = lines(ran)
    assert ran.code == 1
    assert said[""] == "main/jobs: a guard holds stuck jobs back"
    assert said["guard"] == ("held 5 of 5, because an operator paused recovery of this "
                             "watch; 5 wait until it is resumed")
    until = jobs.standing(code=1)["overrides"][0]["until"]
    assert f"until {until[:19]}Z, because: release night" in said["paused"]


def test_a_pause_that_holds_nothing_is_no_trouble(told):
    jobs = told(rows=0)
    jobs.say("pause", "jobs")
    jobs.daemon()
    jobs.wait_info(paused=True)
    assert jobs.standing(code=0)["status"] == "paused"


def test_a_word_stands_there_before_any_daemon_has_heard_it(told):
    jobs = told()
    jobs.say("raise", "--all", "--by", "2.5")
    assert "thresholds multiplied by 2.5, by cli:" in lines(jobs("status"))["raised"]


@pytest.mark.covers("F6")
def test_what_the_brake_holds_is_told_with_the_reason_and_its_end(told):
    jobs = told(**BRAKED)
    jobs.brake()
    ran = jobs("status")
    said = lines(ran)
    assert ran.code == 1
    assert said["guard"].startswith("held 7 of 7, because 7 of 7 owners fell silent within 3s; "
                                    "releases when they return or their end is known, at ")
    assert said["brake"].startswith("is on, until ")
    assert said["brake"].endswith(" at the latest; held 1 time so far")
    jobs.beat()
    jobs.wait_info(braking=False)
    assert lines(jobs("status"))["brake"] == "is off; held 1 time so far, last released by: returned"


def test_what_waits_for_its_turn_is_told_with_the_rate_and_an_end(told):
    jobs = told(rows=3000, guard="{pace: 1, burst: 10}")
    jobs.daemon()

    def waits():
        return jobs.info().get("waiting")
    eventually(waits)
    ran = jobs("status")
    assert ran.code == 1
    assert " per second, the last in about " in lines(ran)["waiting"]


def test_a_scan_that_fails_is_told_with_its_cause(told):
    jobs = told(every="200ms")
    jobs.daemon()
    jobs.wait_recovered(5)
    jobs.db.sql("ALTER TABLE jobs RENAME TO away")

    def failed():
        return "failure" in jobs.info()
    eventually(failed)
    ran = jobs("status")
    assert ran.code == 1
    assert lines(ran)[""] == "main/jobs: the last scan failed"
    assert "jobs" in lines(ran)["failure"]


def lead_by_hand(jobs, since, last_scan, **more):
    """Rows as a daemon with this lease and this last scan would have left them."""
    jobs.say("raise", "jobs", "--by", "2")  # makes the tables
    info = json.dumps({"every_s": 60, "last_finished_scan": last_scan, **more})
    if jobs.db.engine == "postgres":
        jobs.db.sql("INSERT INTO defib.leader (watch, holder, since, expires_at) VALUES ('jobs', "
                    "'me', now() - %s * interval '1 second', now() + interval '1 hour')", since)
        jobs.db.sql("INSERT INTO defib.status (watch, holder, info) VALUES ('jobs', 'me', %s)", info)
    else:
        now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
        jobs.db.sql("INSERT INTO defib_leader (watch, holder, since, expires_at) VALUES ('jobs', "
                    f"'me', {now} - 1000 * ?, {now} + 3600000)", since)
        jobs.db.sql(f"INSERT INTO defib_status (watch, at, holder, info) VALUES ('jobs', {now}, "
                    "'me', ?)", info)


def test_a_leader_whose_scans_do_not_finish_is_told_of(told):
    jobs = told(rows=0)
    lead_by_hand(jobs, 3600, "2020-01-01T00:00:00.000Z")
    standing = jobs.standing(code=1)
    assert standing["status"] == "silent"
    assert standing["last_scan_s"] > 1e6


def test_a_leader_that_has_only_just_begun_owes_no_scan_yet(told):
    jobs = told(rows=0)
    lead_by_hand(jobs, 60, "2020-01-01T00:00:00.000Z")
    assert jobs.standing(code=0)["status"] == "well"


@pytest.mark.covers("F7")
def test_explain_says_which_guard_of_the_daemon_holds_a_job(told):
    jobs = told()
    assert "guard" not in jobs("explain", "jobs/1").out
    jobs.say("pause", "jobs")
    jobs.say("raise", "jobs", "--by", "1.5")
    jobs.daemon()
    jobs.wait_info(paused=True, factor=1.5, found=5)
    out = jobs("explain", "jobs/1").out
    assert "the daemon that leads jobs held 5 of 5, because an operator paused recovery" in out
    assert "multiplies its thresholds by 1.5" in out
    said = jobs("explain", "jobs/1", "--json").json
    assert said["guard"].startswith("held 5 of 5") and said["factor"] == 1.5


@pytest.mark.covers("F5")
def test_a_daemon_that_was_away_says_why_and_until_when_it_doubts(told):
    jobs = told(rows=0)
    lead_by_hand(jobs, 60, "2020-01-01T00:00:00.000Z", doubting=True,
                 doubt_cause="the session was lost", doubt_until="2030-01-02T03:04:05.000Z")
    said = lines(jobs("status"))["doubt"]
    assert said == ("the daemon itself was away (the session was lost): silence since then proves "
                    "nothing until 03:04:05Z")


def test_who_is_seen_silent_once_is_a_suspect_and_a_near_miss_when_he_beats_again(told):
    jobs = told(rows=1, owner="owner", beat="15s", stuck_after="45s", every="200ms")
    long_ago = {"postgres": "clock_timestamp() - interval '45 seconds'",
                "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '-45 seconds')"}
    jobs.beat()
    jobs.daemon()
    jobs.wait_info(running=1, found=0)
    # Its limit ends now, after the daemon's first look: a backlog would be freed at once.
    jobs.db.sql(f"UPDATE jobs SET updated_at = {long_ago[jobs.db.engine]}")
    jobs.wait_info(suspects=1)
    assert lines(jobs("status"))["suspects"] == "1 seen silent"
    jobs.beat()
    jobs.wait_info(near_misses_total=1, suspects=0)
    assert lines(jobs("status"))["suspects"] == "1 near miss: silent once, then heard again"
    watch, = [w for w in jobs("report", "--json").json["watches"] if w["watch"] == "jobs"]
    assert watch["near_misses"] == 1
    assert stuck_jobs.entries(jobs.db) == 0


def test_json_has_everything_that_the_text_says(told):
    jobs = told(rows=0)
    jobs.say("raise", "jobs", "--by", "2")
    jobs.daemon()
    jobs.wait_info(factor=2)
    standing = jobs.standing("jobs", code=0)
    assert (standing["database"], standing["status"], standing["trouble"]) == (
        "main", "well", False)
    assert standing["leader"]["leads"] and standing["leader"]["since"].endswith("Z")
    assert standing["last_scan_s"] < 600
    assert standing["overrides"][0]["name"] == "raise"
    assert standing["info"]["guarded"] == {
        "total": 0, "doubt": 0, "brake": 0, "look": 0, "pace": 0, "paused": 0}


def test_the_built_in_queue_is_told_of_where_a_daemon_has_it(told):
    jobs = told(rows=0)
    assert jobs("init").code == 0
    jobs.daemon()

    def queue_too():
        return {w["watch"] for w in jobs("status", "--json").json["watches"]} == {"jobs", "queue"}
    eventually(queue_too)
    assert jobs("status", "queue").code == 0


def test_a_database_that_is_away_is_said_in_one_line(defib):
    ran = defib("status", db="postgres://127.0.0.1:1/nowhere")
    assert ran.code == 4
    assert stuck_jobs.one_line(ran)


def test_a_reason_cannot_command_the_terminal(told):
    jobs = told(rows=0)
    jobs.say("pause", "jobs", "--reason", "\x1b[2Jgone")
    ran = jobs("status")
    assert "?[2Jgone" in ran.out and "\x1b" not in ran.out
