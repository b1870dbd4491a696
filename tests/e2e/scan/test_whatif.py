# SPDX-License-Identifier: Apache-2.0
"""`defib whatif`: another threshold, evaluated with the ledger and the runs that ended."""

import pytest
from harness import ended_runs
from harness.job_table import config as plain_config
from harness.job_table import add_job, make_jobs
from harness.shell_pages import sample, shape


def whatif(defib, config, *args):
    ran = defib("whatif", "jobs", *args, "--json", config=config)
    assert ran.code == 0, ran.err
    return ran.json["answers"]


@pytest.fixture
def jobs(db):
    ended_runs.make(db)
    return db


@pytest.mark.covers("F11")
def test_a_threshold_that_living_runs_exceed_is_too_short(jobs, defib):
    ended_runs.add_runs(jobs, 190, 20)
    ended_runs.add_runs(jobs, 10, 240)
    answer, = whatif(defib, ended_runs.config(jobs), "--stuck-after", "60s")
    assert answer["runs"] == 200 and answer["today"]["wrongly"] == 0
    assert answer["then"] == {"recovered": 10, "wrongly": 10, "noticed_mean_s": None,
                              "noticed_worst_s": None}
    assert answer["advice"] == ("too short: it would have recovered 10 more jobs of live workers than the current threshold; 6m leaves room")


@pytest.mark.covers("F11")
def test_lost_jobs_are_noticed_sooner_by_so_much(jobs, defib):
    ended_runs.add_runs(jobs, 200, 20)
    for minutes in (31, 39):
        ended_runs.add_stuck(jobs, minutes * 60)
    assert defib("scan", "--fix", config=ended_runs.config(jobs)).code == 0
    answer, = whatif(defib, ended_runs.config(jobs), "--stuck-after", "5m")
    assert (answer["recoveries"], answer["then"]["wrongly"]) == (2, 0)
    assert answer["today"]["noticed_mean_s"] == pytest.approx(35 * 60, abs=10)
    assert answer["today"]["noticed_worst_s"] == pytest.approx(39 * 60, abs=10)
    assert answer["then"]["noticed_mean_s"] == pytest.approx(10 * 60, abs=10)
    assert answer["then"]["noticed_worst_s"] == pytest.approx(14 * 60, abs=10)
    assert answer["advice"] == ("no more jobs of live workers would have been recovered; 2 lost jobs would have been detected 25m sooner on average")


def test_a_longer_one_would_have_spared_who_came_back(jobs, defib):
    late = "    late_when: state = 'done'\n"
    key = ended_runs.add_stuck(jobs, 1860)
    defib("scan", "--fix", config=ended_runs.config(jobs, more=late))
    jobs.sql(f"UPDATE jobs SET state = 'done', finished_at = {ended_runs.ago(jobs, 0)} WHERE id = {key}")
    defib("scan", "--fix", config=ended_runs.config(jobs, more=late))
    answer, = whatif(defib, ended_runs.config(jobs), "--stuck-after", "60m")
    assert (answer["today"]["wrongly"], answer["then"]["wrongly"]) == (1, 0)
    assert answer["advice"] == "it would have spared 1 job of live workers"
    answer, = whatif(defib, ended_runs.config(jobs), "--stuck-after", "20m")
    assert (answer["today"]["wrongly"], answer["then"]["wrongly"]) == (1, 1)


def test_what_happened_before_is_not_weighed(jobs, defib):
    ended_runs.add_runs(jobs, 10, 240, ended_ago=7200)
    answer, = whatif(defib, ended_runs.config(jobs), "--stuck-after", "60s", "--since", "1h")
    assert (answer["runs"], answer["then"]["wrongly"]) == (0, 0)
    assert answer["advice"] == "there are no records for that time"


def test_without_times_of_runs_only_the_ledger_speaks_and_that_is_said(db, defib):
    make_jobs(db)
    add_job(db, 1, "running", 120, attempts=0)
    defib("scan", "--fix", config=plain_config(db))
    answer, = whatif(defib, plain_config(db), "--stuck-after", "10m")
    assert (answer["recoveries"], answer["runs"], answer["then"]["recovered"]) == (1, None, 1)
    assert any("does not say when runs begin and end" in said for said in answer["not_known"])


def test_where_workers_beat_run_times_say_nothing_of_silence(jobs, defib):
    ended_runs.add_runs(jobs, 200, 240)
    config = ended_runs.config(jobs, more="    beat: 30s\n    overdue_after: 1h\n"
                                    "    started_at: started_at\n")
    stuck, overdue = whatif(defib, config, "--stuck-after", "45s", "--overdue-after", "3m")
    assert stuck["runs"] is None and stuck["then"]["wrongly"] == 0
    assert any("is not recorded" in said for said in stuck["not_known"])
    assert stuck["advice"].startswith("too short: under twice the beat of 30s")
    assert (overdue["option"], overdue["then"]["wrongly"]) == ("overdue_after", 200)


def test_text_for_people(jobs, defib):
    ended_runs.add_runs(jobs, 190, 20)
    ended_runs.add_runs(jobs, 10, 240)
    ended_runs.add_stuck(jobs, 1860)
    defib("scan", "--fix", config=ended_runs.config(jobs))
    ran = defib("whatif", "jobs", "--stuck-after", "1m", config=ended_runs.config(jobs))
    lines = ran.out.splitlines()
    assert lines[0] == "main/jobs: stuck_after 1m instead of 30m, over the last 7d"
    assert lines[1].split() == ["TODAY", "1m"]
    assert lines[2].split() == ["would", "be", "recovered", "1", "11"]
    assert lines[3].split("  ")[0] == "of live workers" and lines[3].endswith("10 of 11 (90.9 %)")
    assert lines[4].startswith("lost jobs detected after") and lines[5].startswith("at worst")
    assert lines[6].startswith("too short") and lines[7].startswith("not known: ")
    assert shape(ran.out) == shape(sample("thresholds.md", "main/jobs: stuck_after"))


def test_nothing_is_changed(jobs, defib):
    ended_runs.add_stuck(jobs, 7200)
    before = jobs.sql("SELECT * FROM jobs")
    whatif(defib, ended_runs.config(jobs), "--stuck-after", "1m")
    assert jobs.sql("SELECT * FROM jobs") == before
    names = ("SELECT count(*) FROM pg_namespace WHERE nspname = 'defib'"
             if jobs.engine == "postgres" else
             "SELECT count(*) FROM sqlite_master WHERE name LIKE 'defib%'")
    assert jobs.sql(names) == [(0,)]


@pytest.mark.parametrize("args,says", [
    (("jobs",), "give --stuck-after or --overdue-after"),
    (("jobs", "--stuck-after", "soon"), "soon"),
    (("jbos", "--stuck-after", "20s"), 'did you mean "jobs"?'),
])
def test_bad_words_get_one_line(jobs, defib, args, says):
    ran = defib("whatif", *args, config=ended_runs.config(jobs))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
