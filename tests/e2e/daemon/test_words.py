# SPDX-License-Identifier: Apache-2.0
"""pause, resume, raise: a daemon obeys within about a second, without a restart."""

import pytest

from harness import stuck_jobs
from harness.paused_daemon import BRAKED, Told
from harness.waiting import eventually


@pytest.fixture
def told(defib, db, with_tables):
    made = []

    def make(**options):
        made.append(Told(defib, db, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


def words(jobs):
    return jobs.db.sql(f"SELECT watch, name, value, actor, reason FROM {jobs.table('setting')} "
                       "ORDER BY watch, name")


# ---- pause and resume

def test_a_paused_daemon_recovers_nothing_and_goes_on_at_once_when_resumed(told):
    jobs = told(every="1h")  # nobody waits for the interval
    jobs.say("pause", "jobs")
    jobs.daemon()
    assert jobs.wait_info(paused=True, waiting=5)["guarded"]["paused"] == 5
    stuck_jobs.untouched(jobs.db, 5)
    jobs.say("resume", "jobs")
    jobs.wait_recovered(5)


def test_a_pause_reaches_a_daemon_that_runs(told):
    jobs = told(rows=0, every="200ms")
    jobs.daemon()
    jobs.wait_info(paused=False)
    jobs.say("pause", "jobs")
    passes = jobs.wait_info(paused=True)["passes"]
    stuck_jobs.fill(jobs.db, 5)

    def looked_again():
        return jobs.info()["passes"] > passes + 3
    eventually(looked_again)
    stuck_jobs.untouched(jobs.db, 5)


def test_a_pause_with_a_time_ends_by_itself(told):
    jobs = told(every="1h")
    jobs.say("pause", "jobs")
    jobs.daemon()
    jobs.wait_info(paused=True)
    jobs.say("pause", "jobs", "--for", "1s")
    jobs.wait_recovered(5)
    jobs.wait_info(paused=False)  # the daemon reports a pass after its commit
    assert jobs.standing(code=0)["overrides"] == []


def test_a_pause_outlives_the_daemon(told):
    jobs = told(every="200ms")
    jobs.say("pause", "jobs")
    jobs.daemon().kill()
    jobs.daemon()
    jobs.wait_info(paused=True, waiting=5)
    stuck_jobs.untouched(jobs.db, 5)


def test_all_watches_are_paused_and_resumed_together(told):
    jobs = told(every="1h")
    jobs.say("pause", "--all")
    jobs.say("pause", "jobs")
    jobs.daemon()
    jobs.wait_info(paused=True)
    jobs.say("resume", "--all")
    jobs.wait_recovered(5)
    assert words(jobs) == []


def test_one_watch_is_not_taken_out_of_a_pause_of_all(told):
    jobs = told()
    jobs.say("pause", "--all", "--reason", "the disk is full")
    ran = jobs("resume", "jobs")
    assert ran.code == 5 and ran.out == ""
    assert "the disk is full" in stuck_jobs.one_line(ran)
    assert "defib resume --all" in ran.err


def test_a_word_is_kept_with_who_said_it_and_why(told):
    jobs = told()
    ran = jobs.say("pause", "jobs", "--reason", "release night")
    assert ran.out.startswith("main/jobs: recovery is paused by cli:")
    assert ran.out.endswith("until it is cleared, because: release night\n")
    (watch, name, _, actor, reason), = words(jobs)
    assert (watch, name, reason) == ("jobs", "pause", "release night")
    assert actor.startswith("cli:")


def test_a_new_word_takes_the_place_of_the_old(told):
    jobs = told()
    jobs.say("raise", "jobs", "--by", "2", "--for", "1h")
    ran = jobs.say("raise", "jobs", "--by", "3.5", "--json")
    word = ran.json["overrides"][0]["override"]
    assert (word["value"], word["until"]) == ("3.5", None)
    assert [row[:3] for row in words(jobs)] == [("jobs", "raise", "3.5")]


def test_resuming_what_was_not_paused_says_so(told):
    jobs = told()
    assert jobs.say("resume", "jobs").out == "main/jobs: recovery was not paused\n"


def test_a_persons_own_scan_obeys_no_pause(told):
    jobs = told()
    jobs.say("pause", "jobs")
    assert jobs("scan", "--fix").code == 0
    assert stuck_jobs.agree(jobs.db) == 5


# ---- raise

@pytest.mark.covers("C11")
def test_raised_thresholds_are_in_force_at_once_and_without_a_restart(told):
    jobs = told(rows=0, every="200ms")
    jobs.daemon()
    jobs.wait_info(factor=1)
    jobs.say("raise", "jobs", "--by", "3", "--reason", "sale")  # rows are 2 h old, the limit is 1 h
    jobs.wait_info(factor=3)
    stuck_jobs.fill(jobs.db, 5)
    jobs.wait_info(running=5, found=0)
    stuck_jobs.untouched(jobs.db, 5)
    jobs.say("raise", "jobs", "--off")
    jobs.wait_recovered(5)


@pytest.mark.covers("C11")
def test_thresholds_are_raised_by_the_hours_of_the_watch(told):
    jobs = told(**{"raise": "[{factor: 3}]"})
    jobs.daemon()
    jobs.wait_info(factor=3, running=5, found=0)
    stuck_jobs.untouched(jobs.db, 5)


def test_hours_that_are_not_now_raise_nothing(told):
    jobs = told()
    day = {"postgres": "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '3 days', 'dy')",
           "sqlite": "SELECT substr('sunmontuewedthufrisat', "
                     "1 + 3 * strftime('%w', 'now', '+3 days'), 3)"}[jobs.db.engine]
    jobs.configure(**{"raise": f"[{{days: [{jobs.db.sql(day)[0][0]}], factor: 3}}]"})
    jobs.daemon()
    jobs.wait_recovered(5)


def test_of_word_and_hours_the_greater_counts(told):
    jobs = told(**{"raise": "[{factor: 3}]"})
    jobs.say("raise", "jobs", "--by", "2")
    jobs.daemon()
    jobs.wait_info(factor=3)
    jobs.say("raise", "jobs", "--by", "4")
    jobs.wait_info(factor=4)


@pytest.mark.parametrize("by, says", [
    ("0.5", "can only be raised"), ("101", "from 1 to 100"), ("nan", "from 1 to 100"),
    ("-2", "from 1 to 100"), ("much", "a number such as 2.5"), ("2x", "a number such as 2.5"),
])
def test_a_factor_that_cannot_be_meant_is_refused(defib, lite, by, says):
    jobs = Told(defib, lite, rows=0)
    ran = jobs("raise", "jobs", f"--by={by}")
    assert ran.code == 2
    assert says in stuck_jobs.one_line(ran)


@pytest.mark.parametrize("args, says", [
    (("pause",), "pause: name watches, or give --all"),
    (("pause", "jobs", "--all"), "not both"),
    (("pause", "jbos"), 'there is no watch "jbos"; did you mean "jobs"?'),
    (("pause", "jobs", "--for", "soon"), "--for expects a duration"),
    (("pause", "jobs", "--for", "0s"), "defib resume"),
    (("raise", "jobs"), "give --by FACTOR, such as --by 2.5, or --off"),
    (("raise", "jobs", "--off", "--by", "2"), "cannot be combined with"),
])
def test_what_is_missing_or_too_much_is_said_in_one_line(defib, lite, args, says):
    ran = Told(defib, lite, rows=0)(*args)
    assert ran.code == 2 and ran.out == ""
    assert says in stuck_jobs.one_line(ran)


# ---- a scan despite a brake

def overrides(jobs):
    rows = jobs.db.sql(f"SELECT evidence FROM {jobs.table('ledger')} WHERE event = 'REQUEUED'")
    return sum('"override_guard":true' in str(row[0]).replace("'", '"').replace(" ", "")
               .replace("True", "true") for row in rows)


def test_a_scan_is_refused_where_the_brake_of_a_daemon_holds(told):
    jobs = told(**BRAKED)
    jobs.brake()
    ran = jobs("scan", "--fix")
    assert ran.code == 5, ran.err
    assert "7 of 7 owners fell silent" in stuck_jobs.one_line(ran)
    assert "--override-guard" in ran.err
    stuck_jobs.untouched(jobs.db, 7)


def test_a_scan_that_only_looks_is_not_refused(told):
    jobs = told(**BRAKED)
    jobs.brake()
    assert jobs("scan").code == 1


def test_a_person_goes_past_the_brake_and_the_ledger_says_so(told):
    jobs = told(**BRAKED)
    jobs.brake()
    assert jobs("scan", "--fix", "--override-guard").code == 0
    assert stuck_jobs.agree(jobs.db) == 7
    assert overrides(jobs) == 7


def test_the_brake_of_a_daemon_that_is_gone_refuses_nothing(told):
    jobs = told(**BRAKED)
    jobs.brake().kill()

    def allowed():
        return jobs("scan", "--fix").code == 0
    eventually(allowed)
    assert stuck_jobs.agree(jobs.db) == 7
    assert overrides(jobs) == 0
