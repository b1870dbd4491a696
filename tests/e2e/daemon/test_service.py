# SPDX-License-Identifier: Apache-2.0
"""The daemon as a service: several databases of which one is down, answers while a backlog is
cleaned up, logs for programs and people, and a stop that never takes long.
"""

import contextlib
import json
import random
import re
import signal
import time

import pytest

from harness.daemon import AGED, SLOW_WRITE, Daemon, World, config, make_jobs, parse_logfmt
from harness.example_systems import Example
from harness.http_daemon import WebDaemon
from harness.queue_workers import Wire, up_for
from harness.receivers import Receiver
from harness.shell_pages import sample
from harness.table_workers import TableWorkers
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain


@pytest.fixture
def world(pg, defib):
    own = World(defib, pg)
    yield own
    own.close()


@pytest.fixture
def daemon(defib):
    started = []

    def start(kind, *args, **more):
        started.append(kind(defib, *args, **more))
        return started[-1]
    yield start
    for one in started:
        one.kill()


# ---- several databases ----

LITE = "CREATE TABLE jobs (id integer PRIMARY KEY, lane text, status text, owner text, beat_at text)"


def three(world, lite, far_url):
    """Each watch has its database: main and far on PostgreSQL, lite on SQLite."""
    text = config(world.url, AGED, every="300ms", guard="{pace: 0}")
    for name, url in (("lite", lite.url), ("far", far_url)):
        text = text.replace("watches:", f"  - name: {name}\n    url: {url}\nwatches:")
        text += AGED.format(stuck=5, every="300ms").replace("name: aged",
                                                            f"name: {name}\n    database: {name}")
    return text


@pytest.mark.covers("E3")
def test_of_three_databases_one_is_down_and_comes_back_by_itself(world, lite, daemon):
    make_jobs(world.db, 4, lanes=["aged"])
    lite.sql(LITE)
    with contextlib.closing(Wire(world.db.server)) as wire:
        wire.away()
        one = daemon(WebDaemon, three(world, lite, wire.url(world.db)), "--no-queue")
        web = one.web()
        one.wait_log("the database cannot be queried")
        for watch in ("aged", "lite"):
            one.wait_passes(watch, 3)
        assert len(one.lines("the database cannot be queried")) == 1, "it is told once"
        assert one.passes("far") == []

        seen = web.get("/api/v1/status").json
        assert {d["name"]: d["up"] for d in seen["databases"]} == {
            "main": True, "lite": True, "far": False}
        error, = [d["error"] for d in seen["databases"] if d["name"] == "far"]
        assert "far: " in error
        assert web.get("/readyz").status == 503 and web.get("/healthz").status == 200

        wire.back()
        one.wait_passes("far", 2)
        one.wait_log("the database is back")
        eventually(web.ready)
        assert one.stop() == 0


# ---- a backlog ----

@pytest.mark.covers("B8", "B6", "B7")
def test_http_answers_while_231_stale_jobs_are_replayed(pg, defib, daemon):
    jobs = TableWorkers("scristill", pg, defib)
    jobs.change(("stagger: 1s", "stagger: 100ms"), ("poll: 5s", "poll: 100ms"),
                ("command: [./run-job.sh]", "command: [/bin/sh, -c, sleep 0.05]"))
    jobs.insert("projects", name="p")
    jobs.rows("INSERT INTO jobs (project_id, type, status, created_at, updated_at) SELECT p.id, "
              "(ARRAY['scrape', 'crawl', 'extract'])[1 + i % 3], CASE WHEN i % 7 = 0 THEN 'running' "
              "ELSE 'queued' END, now() - interval '2 days', now() - interval '2 days' "
              "FROM projects p, generate_series(1, 231) i")
    completed = "SELECT count(*) FROM jobs WHERE status = 'completed'"
    one = daemon(WebDaemon, jobs.config.read_text(), "--work", env=jobs.env)
    web = one.web()
    assert web.get("/healthz").status == 200
    assert jobs.cell(completed) < 40, "the first answer came after the burst"
    left = jobs.cell("SELECT count(*) FROM jobs WHERE status = 'running'")

    def burst_is_done():
        for path in ("/healthz", "/metrics", "/api/v1/watches", "/api/v1/watches/jobs/jobs"):
            assert web.get(path).status == 200
        return jobs.cell(completed) >= 40  # five jobs of each of eight slots

    eventually(burst_is_done)
    # Nothing is lost: what ran when the instance before stopped is failed, with the reason.
    assert left <= 33
    jobs.until("SELECT count(*) FROM jobs WHERE error LIKE 'Container restart%'", 33)
    assert jobs.cell("SELECT count(*) FROM jobs") == 231
    assert one.stop() == 0


# ---- logs ----

LOGFMT = re.compile(r'(?:[^\s="]+=(?:"(?:[^"\\]|\\.)*"|[^\s"=]*))(?: [^\s="]+=(?:"(?:[^"\\]|\\.)*"'
                    r'|[^\s"=]*))*')


def parse_json(line):
    return json.loads(line)


def parse_strictly(line):
    assert LOGFMT.fullmatch(line), line
    return dict(parse_logfmt(line))


@pytest.mark.parametrize("form, parse", [("json", parse_json), ("logfmt", parse_strictly)])
def test_every_line_of_a_log_can_be_parsed(lite, defib, form, parse):
    """Also those of workers, of a wrong configuration, and of text that has everything in it."""
    jobs = TableWorkers("scrapersky", lite, defib)
    hostile = 'a "b" = \\ \t\n {é} \x01'
    jobs.insert("pages", url=hostile, page_processing_status="Processing", updated_at=jobs.ago(9e4))
    for watch in ("sitemaps", "pages"):
        jobs.change((f"  - name: {watch}\n", f"  - name: {watch}\n    guard: {{pace: 0}}\n"))
    noisy = "command: [/bin/sh, -c, 'echo \"x; exit 1']"
    jobs.change(*((f'command: ["./process.sh", {what}]', noisy) for what in ("sitemap", "page")))
    path, log = jobs.config, defib.dir / "log"
    with open(log, "wb") as out:
        process = defib.start("daemon", "--work", "--log", form, "--verbose", "-c", path,
                              env=jobs.env, stdout=out, stderr=out)
    try:
        eventually(lambda: jobs.cell("SELECT page_processing_status FROM pages") != "Processing")
        eventually(lambda: "worker started" in log.read_text())
        good = path.read_text()
        path.write_text("watches: {\"\n")
        process.send_signal(signal.SIGHUP)
        eventually(lambda: "is invalid" in log.read_text())
        path.write_text(good)
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience()) == 0
    finally:
        process.kill()
        process.wait()
    lines = [parse(line) for line in log.read_text().splitlines()]
    assert all({"ts", "level", "msg"} <= set(line) for line in lines)
    assert {"daemon started", "scan", "worker started", "daemon stopping"} <= {
        line["msg"] for line in lines}


def test_a_log_of_an_unknown_form_is_refused_in_one_line(defib, lite):
    ran = defib("daemon", "--log", "xml", db=lite)
    assert (ran.code, ran.err) == (2, 'defib: there is no log format "xml"; there '
                                    'are plain, logfmt and json\n')


@pytest.mark.covers("A3", "E9")
def test_a_group_is_told_in_one_warning_with_the_count_of_each_table(db, defib, daemon):
    """And each watch in one line, which names jobs by the column that a person knows."""
    example = Example("scrapersky", db, defib)
    for i in range(7):
        table = "sitemap_files" if i < 2 else "pages"
        column = "sitemap_import_status" if i < 2 else "page_processing_status"
        example.insert(table, updated_at=example.ago(7200 - i), **{
            column: "Processing", "domain" if i < 2 else "url": f"name{i}"})
    up_for(db, 31)  # else doubt may end between the scans of one cycle
    one = daemon(Daemon, example.config.read_text(), env={"DATABASE_URL": db.url})
    one.wait_log("stuck jobs reset")
    line, = one.lines("stuck jobs reset")
    assert (line["level"], line["group"], line["total"], line["Sitemaps"], line["Pages"]) == (
        "warn", "Zombie Record Cleanup", "7", "2", "5")
    sitemaps = one.passes("sitemaps")[-1]
    assert (sitemaps["level"], sitemaps["label"], sitemaps["found"], sitemaps["recovered"],
            sitemaps["jobs"]) == ("warn", "Sitemaps", "2", "2", "name0, name1")
    assert 890 <= int(sitemaps["next_check_s"]) <= 900
    for printed, begins in ((line, 'level=warn msg="stuck'), (sitemaps, "level=warn msg=scan")):
        shown = dict(parse_logfmt(sample("daemon.md", begins)))
        assert list(printed)[1:] == list(shown)
    assert one.stop() == 0


@pytest.mark.covers("A3")
def test_a_quiet_cycle_is_a_debug_line(lite, defib, daemon):
    example = Example("scrapersky", lite, defib)
    text = example.config.read_text().replace("every: ${ZOMBIE_CLEANUP_INTERVAL_MINUTES:-15}m",
                                              "every: 2s")
    one = daemon(Daemon, text, env={"DATABASE_URL": lite.url})
    eventually(lambda: len(one.lines("no stuck jobs")) >= 2)
    for line in one.lines("no stuck jobs"):
        assert (line["level"], line["total"], line["Sitemaps"], line["Pages"]) == (
            "debug", "0", "0", "0")
    assert one.stop() == 0


@pytest.mark.covers("D9")
def test_owner_ids_are_masked_in_the_log(lite, defib, daemon):
    example = Example("octolab", lite, defib)
    owner = "3f0c7a52-1111-4222-8333-abcdefabc123"
    example.insert("labs", owner_id=owner, status="ending", updated_at=example.ago(7200))
    text = example.config.read_text().replace("[{do: report}]", "[{do: fail}]")
    one = daemon(Daemon, text, env={"DATABASE_URL": lite.url})
    eventually(lambda: example.row("labs", ["status"]).status == "failed")
    eventually(lambda: one.lines("scan", jobs="****abc123"))
    assert one.stop() == 0
    assert owner not in one.log


# ---- the end ----

def test_a_stop_takes_no_longer_because_a_database_is_frozen(world, daemon):
    """Every statement is sent and no reply comes: neither for the scan nor for stepping down."""
    make_jobs(world.db, 4, lanes=["aged"])
    with contextlib.closing(Wire(world.db.server)) as wire:
        patient = config(wire.url(world.db), AGED).replace(
            "    every:", "    statement_timeout: 24h\n    every:")
        one = daemon(WebDaemon, patient, "--no-queue")
        one.wait_passes("aged", 1)
        wire.loses = lambda sent: True
        assert wire.held.wait(patience())
        assert one.stop() == 0


def test_a_stop_before_any_database_was_reached_is_quick_and_clean(defib, daemon):
    one = daemon(WebDaemon, config("postgres://postgres@127.0.0.1:1/x", AGED))
    assert one.web().get("/healthz").status == 200
    assert one.stop() == 0


# ---- killed at any moment ----

WORDS = [("pause", "other", None), ("raise", "late", "1.5")]

# By age alone, where no doubt about a server that has just come up stands before a verdict.
LATE = """
  - name: late
    table: jobs
    key: id
    running: status = 'running'
    started_at: beat_at
    overdue_after: 1m
    batch: 5
    remedies: [{when: 'id % 20 = 0', do: hold}, {do: requeue}]
    requeue: status = 'queued'
    guard: {pace: 0}
    every: 300ms
"""


class Killed:
    """A daemon that recovers, alerts and obeys while it is killed repeatedly."""

    def __init__(self, world, receiver):
        self.world, self.jobs = world, 0
        make_jobs(world.db, 0)
        world.db.sql(SLOW_WRITE)
        other = LATE.replace("name: late", "name: other").replace("running: status = 'running'",
                                                                  "running: status = 'other'")
        self.text = (f"databases:\n  - name: main\n    url: {world.url}\nwatches:{LATE}{other}"
                     f'sinks: [{{name: hook, type: webhook, url: "{receiver.url}"}}]\n'
                     "alerts: {every: 200ms, sinks: [hook]}\n")

    def add_stuck(self, n):
        self.world.db.sql(
            "INSERT INTO jobs (id, lane, status, owner, beat_at) SELECT %s + i, 'x', 'running', "
            "'gone', now() - interval '1 hour' FROM generate_series(1, %s) i", self.jobs, n)
        self.jobs += n

    def say_words(self):
        for name, watch, by in WORDS:
            ran = self.world.program(name, watch, *(["--by", by] if by else []), config=self.text)
            assert ran.code == 0, ran.err

    def kill_at_random(self, seed, kills):
        chance = random.Random(seed)
        for _ in range(kills):
            self.add_stuck(60)
            daemon = Daemon(self.world.program, self.text, "--no-queue")
            if chance.random() < 0.8:  # else it waits for the lease of the one before
                daemon.wait_log("leads the watch")
            end = time.monotonic() + chance.uniform(0, 1)
            eventually(lambda: time.monotonic() >= end)
            daemon.kill()

    def kill_in_a_pass(self):
        """Until it has met one: of 60 jobs 57 are queued by whole passes, 3 are held."""
        def done():
            return self.world.count("status = 'queued'")
        for _ in range(50):
            before = done()
            self.add_stuck(60)
            daemon = Daemon(self.world.program, self.text, "--no-queue")
            eventually(lambda: done() > before)
            daemon.kill()
            if done() % 57:
                return
        raise AssertionError("no kill met a pass")

    def words(self):
        return self.world.db.sql("SELECT name, watch, value, actor FROM defib.setting "
                                 "ORDER BY name")

    def check_ledger(self):
        """Each was recovered once, and stands in the ledger once, with its remedy."""
        held, db = self.jobs // 20, self.world.db
        eventually(lambda: self.world.count("status = 'queued'") == self.jobs - held)
        eventually(lambda: db.sql("SELECT count(*) FROM defib.hold") == [(held,)])
        assert db.sql("SELECT event, count(*), count(DISTINCT job) FROM defib.ledger "
                      "WHERE event IN ('REQUEUED', 'HELD') GROUP BY 1 ORDER BY 1") == [
            ("HELD", held, held), ("REQUEUED", self.jobs - held, self.jobs - held)]

    def check_alerts(self, receiver):
        """What fired was written with its message, and each message arrived, if need be twice."""
        db = self.world.db

        def sent():
            rows = db.sql("SELECT id, coalesce(ended, '') FROM defib.delivery")
            return {row[0] for row in rows if row[1] == "sent"} if all(
                row[1] == "sent" for row in rows) else set()
        eventually(lambda: any("stuck_warning" in one for one in sent()))
        eventually(lambda: sent() == {got.json["id"] for got in receiver.taken()})
        for (topic,) in db.sql("SELECT topic FROM defib.alert WHERE fired_at IS NOT NULL"):
            eventually(lambda: any(one.startswith(f"{topic}@") for one in sent()))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.proof)
                                       for seed in range(2, 22))])
def test_killed_at_any_moment_it_loses_no_entry_hold_word_or_alert(world, seed):
    with contextlib.closing(Receiver()) as receiver:
        run = Killed(world, receiver)
        run.kill_at_random(seed, kills=1)
        run.say_words()
        said = run.words()
        assert len(said) == len(WORDS)
        run.kill_at_random(seed + 100, kills=5)
        run.kill_in_a_pass()
        run.add_stuck(60)
        last = world.daemon(run.text, "--no-queue")
        run.check_ledger()
        assert run.words() == said
        assert world.wait_status("other", paused=True)
        run.check_alerts(receiver)
        assert last.stop() == 0
