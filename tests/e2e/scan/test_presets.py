# SPDX-License-Identifier: Apache-2.0
"""Every preset on the tables of its queue: stuck jobs are recovered by that queue's own rules, live
ones are left alone, and no CHECK, index or trigger prevents it.
"""

import json
import sys

import pytest

from harness import preset_tables
from harness.databases import LiteDatabase, PgDatabase
from harness.doctor_setup import Findings
from harness.example_systems import ledger
from harness.program import ROOT
from harness.waiting import eventually

PRESETS = ROOT / "presets"
CASES = [(queue, engine) for queue in preset_tables.QUEUES for engine in queue.engines]


def which(test):
    """The queues that a test is about, as parameters of `queue`."""
    found = [case for case in CASES if test(*case)]
    return pytest.mark.parametrize("shared_queue", found, indirect=True, scope="module",
                                   ids=[f"{q.preset}-{e}" for q, e in found])


every = which(lambda q, _: True)


def of(*names):
    return which(lambda q, _: q.preset in names)


@pytest.fixture(scope="module")
def shared_queue(request, shared_server, tmp_path_factory):
    """The tables of one queue, made once."""
    kind, engine = request.param
    db = PgDatabase(shared_server) if engine == "postgres" else \
        LiteDatabase(tmp_path_factory.mktemp("lite") / "test.db")
    yield kind(db)
    db.drop()


@pytest.fixture
def queue(shared_queue):
    """The same without the jobs of other tests: many that are stuck at once count otherwise."""
    shared_queue.clear()
    return shared_queue


@pytest.fixture
def run(queue, defib):
    """defib with the preset's configuration."""
    def go(*args, code=(0, 1), **options):
        ran = defib(*args, config=queue.config, **options)
        assert ran.code in code, ran.out + ran.err
        return ran
    return go


def fix(run):
    return run("scan", "--fix", "--json").json["watches"][0]


def events(queue, key):
    return [e for e, in queue.db.sql(f"SELECT event FROM {ledger(queue.db)} WHERE job = %s "
                                     "ORDER BY id", str(key))]


frees = which(lambda q, _: q.preset != "pgmq")


@frees
@pytest.mark.covers("F1")
def test_a_stuck_job_is_given_back(queue, run):
    job = queue.stuck()
    assert queue.state(job) not in (queue.free, queue.failed)
    fix(run)
    assert queue.state(job) == queue.free
    assert events(queue, job) == ["REQUEUED"]


@which(lambda q, _: q.preset not in ("pgmq", "solid-queue", "laravel"))
def test_what_was_given_back_is_counted_as_waiting_and_what_runs_is_not(queue, run):
    queue.living()
    queue.stuck()
    assert run("stats", "--json").json["watches"][0]["waiting"] == 0
    fix(run)
    told = run("stats", "--json").json["watches"][0]
    assert told["waiting"] == 1 and told["oldest_waiting_s"] >= 0, told


@every
@pytest.mark.covers("F1")
def test_a_living_job_is_left_alone(queue, run):
    job = queue.living()
    before = queue.state(job)
    fix(run)
    assert queue.state(job) == before and events(queue, job) == []


@which(lambda q, _: hasattr(q, "last"))
@pytest.mark.covers("F1")
def test_the_last_attempt_is_not_given_back(queue, run):
    job = queue.last()
    fix(run)
    assert queue.state(job) == queue.failed


@which(lambda q, _: hasattr(q, "orphan"))
@pytest.mark.covers("F1", "F7")
def test_a_job_whose_worker_is_gone_from_its_table_is_an_orphan(queue, run):
    job = queue.orphan()
    assert "[no-sign-orphan]" in run("explain", "work", str(job), code=(1,)).out
    fix(run)
    assert queue.state(job) == queue.free


@which(lambda q, _: q.preset != "pgmq" and not hasattr(q, "last"))
@pytest.mark.covers("F8")
def test_without_a_count_of_its_own_a_job_is_held_at_the_third_recovery(queue, run):
    job = queue.stuck()
    fix(run)
    for _ in range(2):
        assert queue.state(job) == queue.free
        again(queue, job)
        fix(run)
    assert queue.state(job) not in (queue.free, queue.failed)
    assert events(queue, job) == ["REQUEUED", "REQUEUED", "HELD"]


def again(queue, job):
    """Its next worker takes it and dies, long ago."""
    old = queue.ago(86400, "epoch" if queue.preset == "laravel" else "utc")
    if queue.preset == "laravel":
        queue.db.sql(f"UPDATE jobs SET reserved_at = {old} WHERE id = %s", job)
    elif queue.preset == "good-job":
        queue.db.sql("UPDATE good_jobs SET locked_by_id = (SELECT id FROM good_job_processes "
                     "ORDER BY updated_at LIMIT 1) WHERE id = %s", job)
    elif queue.preset == "procrastinate":
        queue.db.sql("UPDATE procrastinate_jobs SET status = 'doing' WHERE id = %s", job)
    else:
        queue.db.sql("DELETE FROM solid_queue_ready_executions WHERE job_id = %s", job)
        queue.insert("solid_queue_claimed_executions", "id", job_id=job, process_id=0,
                     created_at=old)


@frees
@pytest.mark.covers("F1")
def test_a_person_fails_a_job_the_way_the_queue_does(queue, run):
    job = queue.stuck()
    run("fail", "--watch", "work", str(job), "--yes", "--reason", 'a "quoted" \\ reason')
    assert queue.state(job) == queue.failed


@frees
@pytest.mark.covers("F10")
def test_what_was_given_back_is_undone_where_a_set_list_did_it(queue, run):
    job = queue.stuck()
    before = queue.state(job)
    fix(run)
    ran = run("undo", f"work/{job}", "--yes", code=(0, 5))
    if queue.undo:
        assert ran.code == 0 and queue.state(job) == before, ran.out
    else:
        assert ran.code == 5 and queue.state(job) == queue.free, ran.out


@frees
@pytest.mark.covers("F8")
def test_a_held_job_is_left_to_its_person(queue, run):
    job = queue.stuck()
    before = queue.state(job)
    run("hold", "--watch", "work", str(job), "--yes")
    fix(run)
    assert queue.state(job) == before
    run("release", "--watch", "work", str(job), "--yes")
    fix(run)
    assert queue.state(job) == queue.free


@every
def test_the_doctor_finds_no_fault_and_its_indexes_can_be_made(queue, defib):
    queue.living()
    found = Findings(defib("doctor", "--json", config=queue.config)).all
    assert [f for f in found if f["level"] == "FAIL"] == []
    for finding in found:
        if (finding.get("fix") or "").startswith("CREATE INDEX"):
            queue.db.sql(finding["fix"])


@every
@pytest.mark.covers("F7")
def test_explain_list_and_stats_name_the_job_as_its_people_know_it(queue, run):
    job = queue.stuck()
    words = json.loads(job) if isinstance(job, str) and job[0] == "[" else [str(job)]
    assert "is stuck: " in run("explain", "work", *words, code=(1,)).out.splitlines()[0]
    rows = [json.loads(line) for line in
            run("list", "--json", "--where", "stuck").out.splitlines()]
    row = next(r for r in rows if r["job"] == f"work/{job}")
    assert row["verdict"] == "silent"
    assert queue.kind is None or row["kind"] == queue.kind
    assert run("stats", "--json").json["watches"][0]["stuck"]["silent"] >= 1


@which(lambda q, engine: engine == "postgres")
@pytest.mark.covers("F2")
def test_under_defib_run_a_crash_frees_the_job_at_once(queue, run):
    job = waiting(queue, run)
    assert queue.state(job) == queue.free
    run("attach", "work", "--yes")
    # A worker that takes the job by the queue's own statement, and dies with it.
    dies = ("import os, psycopg2, sys; s = psycopg2.connect(sys.argv[1]); "
            "s.cursor().execute(sys.argv[2]); s.commit(); os.kill(os.getpid(), 9)")
    run("run", "--watch", "work", "--", sys.executable, "-c", dies, queue.db.url,
        queue.claim(job), code=(137,))
    eventually(lambda: queue.state(job) == queue.free)
    assert queue.db.sql("SELECT verdict FROM defib.ledger WHERE job = %s ORDER BY id DESC LIMIT 1",
                        str(job)) == [("dead",)]


def waiting(queue, run):
    """A job that is free."""
    if queue.preset == "pgmq":
        queue.db.sql("DELETE FROM pgmq.q_emails")
        return queue.add(0, reads=0)
    job = queue.stuck()
    fix(run)
    return job


def test_the_program_lists_its_presets_and_prints_one(defib):
    ran = defib("config", "presets", "--json")
    listed = {row["preset"]: row for row in map(json.loads, ran.out.splitlines())}
    assert set(listed) == {q.preset for q in preset_tables.QUEUES} | {"graphile-worker"}
    assert listed["river"] == {"preset": "river", "for": "River (Go, PostgreSQL)",
                               "table": "river_job", "judged_by": "its age", "stuck_after": "1h"}
    assert listed["solid-queue"]["judged_by"] == "a beat every 60s"
    assert listed["pg-boss"]["judged_by"] == "its deadline"
    assert defib("config", "presets", "oban").out == (PRESETS / "oban.yaml").read_text()
    ran = defib("config", "presets", "obam")
    assert ran.code == 2 and 'did you mean "oban"?' in ran.err


def test_the_page_of_presets_has_a_line_for_each_with_its_threshold(defib):
    rows = map(json.loads, defib("config", "presets", "--json").out.splitlines())
    page = (PRESETS.parent / "docs" / "presets.md").read_text()
    lines = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    wanted = {row["preset"]: row["stuck_after"] for row in rows}
    assert set(lines) == set(wanted)
    for name, stuck_after in wanted.items():
        assert f"| {stuck_after}" in lines[name], name
