# SPDX-License-Identifier: Apache-2.0
"""`defib learn`: how long runs take, stored between observations, and what that suggests."""

import json
import shlex
import threading

import pytest

from harness import ended_runs
from harness.daemon import Daemon
from harness.program import ROOT
from harness.shell_pages import commands, expected, sample, shape
from harness.waiting import eventually, patience


DOCS = ROOT / "docs" / "thresholds.md"


def learn(defib, db, *args, **options):
    ran = defib("learn", "--json", *args, config=ended_runs.config(db, **options))
    assert ran.code == 0, ran.err
    watch, = ran.json["watches"]
    return watch


def learned_table(db):
    return "defib.learned" if db.engine == "postgres" else "defib_learned"


@pytest.fixture
def jobs(db, with_tables):
    ended_runs.make(db)
    return db


@pytest.mark.covers("F11")
def test_run_times_by_kind_and_a_suggestion_for_each(jobs, defib):
    ended_runs.add_runs(jobs, 150, 250, "crawl")
    ended_runs.add_runs(jobs, 996, 10, "scrape")
    ended_runs.add_runs(jobs, 4, 600, "scrape")
    ended_runs.add_runs(jobs, 3, 5, "rare")
    watch = learn(defib, jobs, stuck_after="{scrape: 5m, default: 30m}")
    assert watch["observed"] == 1153 and watch["kept"] and not watch["sampled"]
    kinds = {k["kind"]: k for k in watch["kinds"]}
    crawl, scrape, rare = kinds["crawl"], kinds["scrape"], kinds["rare"]
    assert (crawl["runs"], scrape["runs"], rare["runs"]) == (150, 1000, 3)
    assert crawl["p99_s"] == pytest.approx(250, rel=0.1) and crawl["longest_s"] == 250
    assert crawl["sentence"] == "crawl: p99 is 4m 10s; stuck_after 30m could be 6m 15s"
    assert crawl["suggestion_s"] == 375
    assert scrape["over_today"] == pytest.approx(0.004) and scrape["today_s"] == 300
    assert scrape["sentence"].startswith("scrape: 0.4 % of runs take longer than stuck_after 5m: "
                                         "it will recover jobs that are still running")
    assert (rare["suggestion_s"], rare["sentence"]) == (
        None, "rare: 3 runs are recorded; a suggestion needs 100")


def test_text_for_people(jobs, defib):
    ended_runs.add_runs(jobs, 150, 250)
    ran = defib("learn", config=ended_runs.config(jobs))
    assert ran.code == 0 and ran.err == ""
    head, titles, row, sentence = ran.out.splitlines()
    assert head == "main/jobs"
    assert titles.split() == ["KIND", "RUNS", "P50", "P95", "P99", "LONGEST", "TODAY", "SUGGESTED"]
    assert row.split()[:2] == ["crawl", "150"] and row.endswith("6m 15s")
    assert sentence == "crawl: p99 is 4m 10s; stuck_after 30m could be 6m 15s"


def test_the_page_shows_what_learn_prints(jobs, defib):
    ended_runs.add_runs(jobs, 150, 250)
    ended_runs.add_runs(jobs, 1000, 19, "scrape")
    ended_runs.add_runs(jobs, 12, 65, "scrape")
    ran = defib("learn", config=ended_runs.config(jobs, stuck_after="{scrape: 1m, default: 30m}"))
    assert shape(ran.out) == shape(sample("thresholds.md", "main/jobs\n"))


def test_a_run_is_counted_once_however_often_is_looked(jobs, defib):
    ended_runs.add_runs(jobs, 20, 30)
    assert [learn(defib, jobs)["observed"] for _ in range(3)] == [20, 0, 0]
    ended_runs.add_runs(jobs, 5, 30, ended_ago=1)
    watch = learn(defib, jobs)
    assert (watch["observed"], watch["kinds"][0]["runs"]) == (5, 25)


def test_of_several_at_once_each_run_is_counted_by_one(jobs, defib):
    ended_runs.add_runs(jobs, 50, 30)
    path = defib.dir / "saved.yaml"
    path.write_text(ended_runs.config(jobs))
    assert defib("learn", config=path).code == 0  # the tables are there
    for turn in range(5):
        ended_runs.add_runs(jobs, 50, 30, ended_ago=50 - turn)
        threads = [threading.Thread(target=defib, args=("learn",), kwargs={"config": path})
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ran = defib("learn", "--json", config=path)
    assert ran.json["watches"][0]["kinds"][0]["runs"] == 300


def test_failed_runs_and_impossible_times_are_left_out(jobs, defib):
    ended_runs.add_runs(jobs, 10, 30)
    ended_runs.add_runs(jobs, 10, 9000, state="failed")
    ended_runs.add_runs(jobs, 10, -30)
    assert learn(defib, jobs)["kinds"][0]["longest_s"] == 30


def test_an_end_in_the_far_future_does_not_hide_what_follows(jobs, defib):
    ended_runs.add_runs(jobs, 10, 30)
    ended_runs.add_runs(jobs, 1, 30, ended_ago=-86400)
    assert learn(defib, jobs)["observed"] == 10
    ended_runs.add_runs(jobs, 10, 30, ended_ago=1)
    assert learn(defib, jobs)["observed"] == 10


def test_of_very_many_runs_the_newest_are_a_sample(jobs, defib):
    for part in range(6):
        ended_runs.add_runs(jobs, 1000, 30, ended_ago=1000 - part * 10)
    watch = learn(defib, jobs)
    assert watch["observed"] == 5000 and watch["sampled"]
    assert learn(defib, jobs)["observed"] == 0


def test_kinds_beyond_the_bound_are_learnt_together(jobs, defib):
    for i in range(300):
        ended_runs.add_runs(jobs, 1, 30, kind=f"kind-{i}", ended_ago=600 - i)
    kinds = {k["kind"]: k["runs"] for k in learn(defib, jobs)["kinds"]}
    assert len(kinds) == 257 and kinds["other"] == 44 and sum(kinds.values()) == 300


def test_a_watch_that_does_not_say_when_runs_begin_is_told_how(jobs, defib):
    ran = defib("learn", config=ended_runs.config(jobs, without="stats"))
    assert ran.code == 0
    assert "run times are not known: set stats: {started_at: …, finished_at: …}" in ran.out


def test_learn_off_learns_nothing(jobs, defib):
    ended_runs.add_runs(jobs, 10, 30)
    watch = learn(defib, jobs, more="    learn: off\n")
    assert watch["kinds"] == [] and "off" in watch["not_learnt"]


def test_where_workers_beat_it_speaks_of_overdue_after(jobs, defib):
    ended_runs.add_runs(jobs, 150, 250)
    kind, = learn(defib, jobs, more="    beat: 30s\n")["kinds"]
    assert (kind["option"], kind["today_s"], kind["suggestion_s"]) == ("overdue_after", None, 375)


def test_who_may_not_write_learns_for_the_moment(pg, defib):
    ended_runs.make(pg)
    ended_runs.add_runs(pg, 150, 250)
    role = f"reader_{pg.name}"
    pg.sql(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON jobs TO {role}")
    try:
        text = ended_runs.config(pg).replace(pg.url, pg.url.replace("//", f"//{role}@", 1)
                                       if "@" not in pg.url else
                                       "postgres://" + role + "@" + pg.url.split("@", 1)[1])
        ran = defib("learn", config=text)
        assert ran.code == 0, ran.err
        assert "stuck_after 30m could be 6m 15s" in ran.out and "not stored: " in ran.out
    finally:
        pg.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_nothing_but_what_was_learnt_is_written(jobs, defib):
    ended_runs.add_runs(jobs, 150, 250)
    ended_runs.add_stuck(jobs, 7200)
    before = jobs.sql("SELECT * FROM jobs ORDER BY id")
    learn(defib, jobs)
    assert jobs.sql("SELECT * FROM jobs ORDER BY id") == before
    assert jobs.sql(f"SELECT watch, kind FROM {learned_table(jobs)} ORDER BY kind") == [
        ("jobs", ""), ("jobs", "crawl")]


def test_the_queue_knows_its_run_times(queue, defib):
    for _ in range(3):
        queue.enqueue(kind="mail")
    queue.drain()
    watch, = defib("learn", "--json", db=queue.db).json["watches"]
    kind, = watch["kinds"]
    assert (watch["watch"], kind["kind"], kind["runs"]) == ("queue", "mail", 3)


def test_the_daemon_learns_by_itself(jobs, defib):
    ended_runs.add_runs(jobs, 150, 250)
    path = defib.dir / "saved.yaml"
    path.write_text(ended_runs.config(jobs, more="    every: 200ms\n"))
    daemon = defib.start("daemon", "--no-queue", config=path)
    try:
        def document():
            there = jobs.sql("SELECT to_regclass('defib.learned') IS NOT NULL"
                             if jobs.engine == "postgres" else
                             "SELECT count(*) FROM sqlite_master WHERE name = 'defib_learned'")
            rows = there[0][0] and jobs.sql(
                f"SELECT buckets FROM {learned_table(jobs)} WHERE kind = 'crawl'")
            return rows and rows[0][0]
        kept = eventually(document)
    finally:
        daemon.terminate()
        daemon.communicate(timeout=patience())
    kept = kept if isinstance(kept, dict) else json.loads(kept)
    assert sum(kept["counts"].values()) == 150


def test_every_command_of_the_document_does_what_it_says(jobs, defib):
    ended_runs.add_runs(jobs, 150, 250)
    ended_runs.add_stuck(jobs, 7200)
    path = defib.dir / "saved.yaml"
    path.write_text(ended_runs.config(jobs))
    defib("scan", "--fix", config=path)
    typed = commands(DOCS)
    assert len(typed) == 10
    for line in typed:
        program, *args = shlex.split(line, comments=True)
        ran = defib(*args, config=path)
        assert (program, ran.code) == ("defib", expected(line)), f"{line}: {ran.err}"
        assert ran.out or "ledger" in args or "raise" in args, line


def test_a_daemon_that_cannot_observe_quickly_gives_up_and_leads_on(pg, defib):
    ended_runs.make(pg)
    ended_runs.add_runs(pg, 3, 250)
    slow = "(SELECT t.started_at FROM pg_sleep(3))"
    text = ended_runs.config(pg, more="    every: 200ms\n").replace("started_at: started_at",
                                                             f'started_at: "{slow}"')
    daemon = Daemon(defib, text, "--no-queue")
    try:
        daemon.wait_log("run times were not observed")
        daemon.wait_passes("jobs", 3)
        assert pg.sql("SELECT epoch FROM defib.leader WHERE watch = 'jobs'") == [(1,)]
        assert not daemon.lines("another daemon leads the watch")
    finally:
        daemon.kill()
