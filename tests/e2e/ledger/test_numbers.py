# SPDX-License-Identifier: Apache-2.0
"""One definition of detected, recovered, held and rolled back (docs/ledger.md, "What is counted").

Every kind of actor does its part beside one running daemon; then every reader is queried, and all
of them agree exactly. An installed function and `defib run` need PostgreSQL.
"""

import collections
import json
import os
import signal
import sys

import pytest

from harness.http_daemon import serving
from harness.metrics import scrape
from harness.program import ROOT
from harness.queue_workers import Queue, Worker
from harness.terminals import Terminal
from harness.waiting import eventually

STRANGER = ROOT / "tests" / "harness" / "foreign_program.py"
TIMES = {"postgres": "timestamptz NOT NULL DEFAULT now()",
         "sqlite": "text NOT NULL DEFAULT CURRENT_TIMESTAMP"}
WATCH = """
  - name: {name}
    table: jobs
    key: id
    running: status = 'running' AND lane = '{name}'
    alive_at: updated_at
    attempts: tries
    max_attempts: 3
    stuck_after: 1h
    every: {every}
    requeue: status = 'queued'
    fail: status = 'failed'
    {more}
"""
WORK = """startup: {enabled: true, do: requeue}
    work:
      ready: status = 'queued' AND lane = 'nobody'
      claim: status = 'running', updated_at = :now
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'"""
# By watch: what was detected, recovered (by scans, by operators), held (by both), rolled back.
Numbers = collections.namedtuple("Numbers", "detected recovered by_hand held rolled_back",
                                 defaults=(0, 0, 0, 0, 0))
WANTED = {
    "watched": Numbers(detected=4, recovered=3, held=1),                # the daemon
    "scanned": Numbers(detected=3, recovered=2, held=1),                # defib scan --fix
    "started": Numbers(detected=5, recovered=5),                        # a worker's start
    "reported": Numbers(detected=2),
    "by_person": Numbers(recovered=2, by_hand=2, held=1),               # requeue, fail, hold
    "queue": Numbers(detected=3, recovered=3, rolled_back=2),           # a sweep, and sagas
    "installed": Numbers(detected=2, recovered=2),                      # a function, PostgreSQL only
    "ran": Numbers(detected=1, recovered=1),                            # defib run, PostgreSQL only
}
ONLY_POSTGRES = ("installed", "ran")


def wanted(db):
    return {watch: n for watch, n in WANTED.items()
            if db.engine == "postgres" or watch not in ONLY_POSTGRES}


class World:
    """A table with a lane for each actor, the built-in queue, and one daemon that leads all."""

    def __init__(self, db, program):
        self.db, self.program = db, program
        db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, lane text, status text, "
               f"tries integer NOT NULL DEFAULT 0, updated_at {TIMES[db.engine]})")
        self.ids = iter(range(1, 1000))
        self.queue = Queue(program, db)
        self.config = self.text()
        self.path = program.dir / "numbers.yaml"
        self.path.write_text(self.config)

    def text(self):
        lanes = {"watched": ("300ms", ""), "scanned": ("1h", ""), "started": ("1h", WORK),
                 "reported": ("300ms", "remedies: [{do: report}]"), "by_person": ("1h", ""),
                 "installed": ("1h", ""), "ran": ("1h", "")}
        watches = "".join(WATCH.format(name=name, every=every, more=more)
                          for name, (every, more) in lanes.items() if name in wanted(self.db))
        step = [str(self.script("step", "exec sleep 600"))]
        undo, true = [str(self.script("undo", "true"))], [str(self.script("true", "true"))]
        flows = [{"name": "lost", "saga": True, "steps": [
                    {"name": "one", "run": true, "undo": undo}, {"name": "two", "run": step}]},
                 {"name": "failing", "saga": True, "steps": [
                     {"name": "one", "run": true, "undo": undo},
                     {"name": "two", "run": [str(self.script("no", "exit 65"))]}]}]
        return (f'databases:\n  - name: main\n    url: "{self.db.url}"\nwatches:{watches}'
                f"workflows: {json.dumps(flows)}\n"
                "alerts:\n  every: 300ms\n  rules:\n    - {name: recovered_many, above: 0}\n"
                "    - {name: recovery_rate, floor: 1, below: 1.1}\n")

    def script(self, name, text):
        path = self.program.dir / name
        path.write_text(f"#!/bin/sh\necho {name} >>{self.program.dir}/log\n{text}\n")
        path.chmod(0o755)
        return path

    def add(self, lane, n=1, status="running", tries=0):
        """Jobs whose last sign of life is two hours old."""
        ago = ("now() - interval '2 hours'" if self.db.engine == "postgres"
               else "datetime('now', '-2 hours')")
        keys = [next(self.ids) for _ in range(n)]
        for key in keys:
            self.db.sql(f"INSERT INTO jobs VALUES (%s, %s, %s, %s, {ago})", key, lane, status, tries)
        return keys

    def left(self, lane):
        return self.db.sql("SELECT count(*) FROM jobs WHERE lane = %s AND status = 'running'",
                           lane)[0][0]

    def entries(self, watch):
        return self.db.sql(f"SELECT count(*) FROM {self.queue.table('ledger')} WHERE watch = %s "
                           "AND job <> '*'", watch)[0][0]

    def command(self, *args):
        return self.program(*args, "-c", self.path)

    def work(self, *args):
        log = self.program.dir / f"numbers-worker{len(self.queue.workers)}.log"
        with open(log, "wb") as out:
            process = self.program.start("work", "-c", self.path, "--verbose", *args, stdout=out,
                                         stderr=out)
        worker = Worker(process, log)
        self.queue.workers.append(worker)
        worker.wait_log("worker started")
        return worker

    # ---- who does what

    def let_the_daemon_recover(self):
        self.add("watched", 3)
        self.add("watched", tries=3)  # no attempts left: on hold, and still running
        eventually(lambda: self.entries("watched") == 4)
        self.add("reported", 2)
        eventually(lambda: self.entries("reported") == 2)

    def let_a_scan_recover(self):
        self.add("scanned", 2)
        self.add("scanned", tries=3)
        ran = self.command("scan", "scanned", "--fix")
        assert "2 recovered" in ran.out, ran.out + ran.err

    def let_a_start_clean_up(self):
        self.add("started", 5)
        worker = self.work("started", "--name", "starter", "--poll", "1h", "--", "true")
        eventually(lambda: self.left("started") == 0)
        assert worker.stop() == 0, worker.log

    def let_a_person_act(self):
        requeued, failed, held = self.add("by_person", 3)
        waiting, = self.add("by_person", status="queued")
        for act, key in (("requeue", requeued), ("fail", failed), ("hold", held)):
            ran = self.command(act, f"by_person/{key}", "--yes", "--reason", "seen")
            assert ran.code == 0, ran.out + ran.err
        # It was not stuck: this is no recovery.
        assert self.command("fail", f"by_person/{waiting}", "--yes", "--reason", "no").code == 0

    def let_workers_sweep(self):
        """Two plain jobs and a saga in its last attempt are lost with their worker."""
        jobs = [self.queue.enqueue(kind="plain") for _ in range(2)]
        saga = self.queue.enqueue("--max-attempts", "1", kind="lost")
        lost = self.work("--lease", "3s", "--concurrency", "3", "--", "sleep", "600")
        eventually(lambda: (self.program.dir / "log").exists()
                   and "step" in (self.program.dir / "log").read_text()
                   and all(self.queue.state(job) == "running" for job in jobs))
        self.work("--lease", "3s", "--name", "second", "--", "true")
        lost.signal(signal.SIGKILL)
        self.queue.wait_state(saga, "rolled_back")
        for job in jobs:
            self.queue.wait_state(job, "done")

    def let_a_saga_fail(self):
        """A step that fails: rolled back, and nothing that was stuck."""
        self.queue.wait_state(self.queue.enqueue(kind="failing"), "rolled_back")

    def let_the_database_recover(self):
        assert self.command("install", "installed", "--yes").code == 0
        self.add("installed", 2)
        self.db.sql("SELECT defib.recover_installed()")
        assert self.left("installed") == 0

    def let_run_recover(self):
        """A program that knows nothing of us is killed with one job in its hands."""
        assert self.command("attach", "ran", "--yes").code == 0
        key, = self.add("ran", status="queued")
        log = self.program.dir / "run.log"
        with open(log, "wb") as out:
            process = self.program.start("run", "--watch", "ran", "-c", self.path, "--",
                                         sys.executable, STRANGER, self.db.url, str(key), "work",
                                         stdout=out, stderr=out)
        run = Worker(process, log)
        self.queue.workers.append(run)
        run.wait_log("took ")
        os.kill(int(run.log.split("took ")[1].split()[0]), signal.SIGKILL)
        run.wait()
        assert self.left("ran") == 0, run.log

    def everybody(self):
        self.let_the_daemon_recover()
        self.let_a_scan_recover()
        self.let_a_start_clean_up()
        self.let_a_person_act()
        self.let_workers_sweep()
        self.let_a_saga_fail()
        if self.db.engine == "postgres":
            self.let_the_database_recover()
            self.let_run_recover()


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def scene(request, tmp_path_factory):
    """After all actors have done their part; the daemon and `defib top` ran from the start."""
    from harness.program import Program
    from harness.databases import LiteDatabase, PgDatabase
    folder = tmp_path_factory.mktemp("numbers")
    program = Program(folder)
    if request.param == "postgres":
        db = PgDatabase(request.getfixturevalue("shared_server"))
    else:
        db = LiteDatabase(folder / "numbers.db")
    world = World(db, program)
    try:
        with serving(folder, world.config) as web:
            world.web = web
            eventually(lambda: all(scrape(web).get("defib_leader", watch=w) == 1
                                   and scrape(web).get("defib_passes_total", watch=w)
                                   for w in wanted(db)))
            (folder / "top").mkdir()
            argv = program._argv(["top", "--every", "200ms", "-c", world.path], None, None)
            world.top = Terminal(folder / "top", argv, {"LC_ALL": "C.UTF-8"}, width=160, height=40)
            world.top.shows("watched", "queue")
            world.everybody()
            yield world
    finally:
        if getattr(world, "top", None):
            world.top.close()
        for worker in world.queue.workers:
            worker.kill()
        db.drop()


def by_watch(scene, what):
    return {watch: what(watch) for watch in wanted(scene.db)}


def metrics_of(web, watch):
    s = scrape(web)

    def sum_of(name, **labels):
        return int(s.get(name, watch=watch, **labels) or 0)
    return Numbers(sum_of("defib_stuck_detected_total"), sum_of("defib_recovered_total"),
                   sum_of("defib_recovered_total", by="person"), sum_of("defib_held_total"),
                   sum_of("defib_rolled_back_total"))


@pytest.mark.covers("A3", "A9", "C12")
def test_counters_move_by_exactly_the_rows_whoever_did_it(scene):
    def they_agree():
        return by_watch(scene, lambda w: metrics_of(scene.web, w)) == wanted(scene.db)
    try:
        eventually(they_agree, 20)
    except AssertionError:
        assert by_watch(scene, lambda w: metrics_of(scene.web, w)) == wanted(scene.db)


@pytest.mark.covers("C12")
def test_each_detection_has_its_time_whoever_detected_it(scene):
    def counts(watch):
        s = scrape(scene.web)
        return [int(s.get(name, watch=watch) or 0) for name in
                ("defib_stuck_detected_total", "defib_detection_seconds_count")]

    def they_agree():
        return all(detected == timed for detected, timed in by_watch(scene, counts).values())
    eventually(they_agree, 20)
    assert any(detected for detected, _ in by_watch(scene, counts).values())


@pytest.mark.covers("A9", "A11")
def test_the_report_agrees(scene):
    told = scene.command("report", "--json").json
    got = {w["watch"]: w["now"] for w in told["watches"]}
    assert by_watch(scene, lambda w: Numbers(
        got[w]["detected"], got[w]["recovered"], got[w]["recovered_by_hand"], got[w]["held"],
        got[w]["rolled_back"])) == wanted(scene.db)
    for n in got.values():
        assert n["requeued"] + n["retried"] + n["failed"] + n["rollbacks"] == n["recovered"]


def from_stats(got):
    return Numbers(*(got[name]["day"] for name in (
        "detected", "recovered", "recovered_by_hand", "put_on_hold", "rolled_back")))


@pytest.mark.covers("A9", "E7")
def test_stats_agree_on_the_command_line_and_over_http(scene):
    told = {one["watch"]: one for one in scene.command("stats", "--json").json["watches"]}
    assert by_watch(scene, lambda w: from_stats(told[w])) == wanted(scene.db)
    assert by_watch(scene, lambda w: from_stats(
        scene.web.get(f"/api/v1/watches/{w}/stats").json)) == wanted(scene.db)


def test_the_trend_on_the_page_agrees(scene):
    got = {w["watch"]: w for w in scene.web.get("/api/v1/trend?since=24h").json["watches"]}
    assert by_watch(scene, lambda w: (sum(got[w]["detected"]), sum(got[w]["recovered"]))) == {
        w: (n.detected, n.recovered) for w, n in wanted(scene.db).items()}


def test_status_agrees(scene):
    def told():
        rows = {w["watch"]: w["info"] for w in scene.command("status", "--json").json["watches"]}
        return by_watch(scene, lambda w: (rows[w]["recovered_total"], rows[w]["held_total"]))
    want = {w: (n.recovered, n.held) for w, n in wanted(scene.db).items()}
    eventually(lambda: told() == want, 20)


def test_top_agrees(scene):
    want = {w: str(n.recovered) for w, n in wanted(scene.db).items()}

    def shown(screen):
        rows = {}
        titles = next((line for line in screen.splitlines() if "RECOVERED" in line), "")
        at = titles.find("RECOVERED")
        for line in screen.splitlines():
            if line.split() and line.split()[0] in want and at > 0:
                rows[line.split()[0]] = (line[at:].split() or [""])[0]
        return rows
    scene.top.until(lambda screen: shown(screen) == want, want)


@pytest.mark.covers("C12")
def test_alerts_count_the_same_without_what_persons_did(scene):
    """The number that a rule measures is the ledger's, to the unit."""
    want = {w: n.recovered - n.by_hand for w, n in wanted(scene.db).items()}

    def facts():
        rows = scene.web.get("/api/v1/alerts").json["alerts"]
        got = {r["watch"]: r["value"] for r in rows
               if r["rule"] == "recovered_many" and r["state"] == "firing"}
        return {w: got.get(w, 0) for w in want}
    try:
        eventually(lambda: facts() == want, 20)
    except AssertionError:
        assert facts() == want
