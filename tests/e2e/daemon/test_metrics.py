# SPDX-License-Identifier: Apache-2.0
"""Metrics: what a running daemon reports about itself, its watches and its workers, from memory.

Most tests share one daemon on PostgreSQL; its first pass recovers what is stuck at its start, so
that its numbers are known; by run time, which doubt about a new server does not excuse.
"""

import json
import re
import signal
import time

import pytest
import yaml

from harness.databases import PgDatabase
from harness.http_daemon import WebDaemon, serving
from harness.metrics import ROOT, RULES, Prometheus, Scrape, promtool, scrape, wait_scrape
from harness.program import Program
from harness.queue_workers import Queue
from harness.waiting import eventually

TABLES = """
CREATE TABLE pages (id {serial}, status text, kind text, updated_at {time}, started_at {time},
                    finished_at {time});
CREATE TABLE labs (id {serial}, status text, updated_at {time})
"""
WATCHES = """
watches:
  - name: pages
    table: pages
    key: id
    kind: kind
    running: status = 'Processing'
    started_at: updated_at
    overdue_after: 60m
    every: 1s
    requeue: status = 'Queued', updated_at = :now
    stats: {started_at: started_at, finished_at: finished_at}
    work:
      ready: status = 'Queued'
      claim: status = 'Processing', updated_at = :now
      done: status = 'Complete'
      failed: status = 'Failed'
      release: status = 'Queued'
      command: ["true"]
"""
LABS = """
  - name: labs
    table: labs
    key: id
    running: status = 'ending'
    alive_at: updated_at
    stuck_after: 10m
    every: 1s
    remedies: [{do: report}]
"""
ENGINES = {
    "postgres": {"serial": "bigserial PRIMARY KEY", "time": "timestamptz",
                 "ago": "clock_timestamp() - interval '{} seconds'"},
    "sqlite": {"serial": "INTEGER PRIMARY KEY", "time": "text",
               "ago": "datetime('now', '-{} seconds')"},
}
PAGES = {"watch": "pages", "database": "main"}


def make_tables(db):
    """Five stuck pages, two that wait, one lab that has been stuck for two hours."""
    engine = ENGINES[db.engine]
    for statement in TABLES.format(**engine).split(";"):
        db.sql(statement)
    stuck, fresh = engine["ago"].format(3700), engine["ago"].format(60)
    for _ in range(5):
        db.sql(f"INSERT INTO pages (status, kind, updated_at) VALUES ('Processing', 'a', {stuck})")
    for _ in range(2):
        db.sql(f"INSERT INTO pages (status, kind, updated_at) VALUES ('Queued', 'a', {fresh})")
    db.sql(f"INSERT INTO labs (status, updated_at) VALUES ('ending', {engine['ago'].format(7800)})")


def config(db, *watches):
    return f"databases:\n  - {{name: main, url: '{db.url}'}}\n" + "".join(watches or (WATCHES, LABS))


class Scene:
    """A database, a worker of the built-in queue that has done three jobs, and the daemon."""

    def __init__(self, db, queue, web):
        self.db, self.queue, self.web = db, queue, web
        self.daemon = web.daemon

    def reload(self, configuration):
        self.daemon.config.write_text(configuration)
        self.daemon.signal(signal.SIGHUP)

    def read_again(self):
        """Have the daemon read its tables again, which a reload makes it do; a scrape after."""
        before = scrape(self.web).get("defib_reading_time_seconds", **PAGES)
        self.daemon.signal(signal.SIGHUP)
        return wait_scrape(self.web, lambda s: s.get("defib_reading_time_seconds",
                                                     **PAGES) > before)


@pytest.fixture(scope="module")
def scene(shared_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    db = PgDatabase(shared_server)
    make_tables(db)
    queue = Queue(Program(folder), db)
    for kind in ("good", "good", "bad"):
        queue.enqueue("--max-attempts", "1", kind=kind)
    queue.work("--name", "anna", "--lease", "3s",
               run='if [ "$DEFIB_KIND" = bad ]; then exit 1; fi')
    eventually(lambda: worker_info(db).get("settled") == {"done": 2, "failed": 1})
    with serving(folder, config(db)) as web:
        own = Scene(db, queue, web)
        wait_scrape(web, lambda s: s.get("defib_reading_time_seconds", watch="pages"))
        wait_scrape(web, lambda s: s.get("defib_passes_total", watch="queue", result="ok"))
        yield own
    queue.close()
    db.drop()


def worker_info(db):
    return db.sql("SELECT coalesce(info, '{}') FROM defib.worker ORDER BY id DESC")[0][0]


# ---- formats

@pytest.mark.covers("C13")
def test_promtool_finds_nothing_wrong_with_a_live_scrape(scene):
    answer = scene.web.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert promtool("check", "metrics", stdin=answer.text) == ""


def test_openmetrics_is_said_to_who_asks_for_it(scene):
    answer = scene.web.get("/metrics", headers={
        "Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    assert "# TYPE defib_recovered counter" in answer.text
    assert "# UNIT defib_detection_seconds seconds" in answer.text
    both = Scrape(answer.text).samples.keys()
    assert {n for n, _ in both} <= {n for n, _ in scrape(scene.web).samples}


@pytest.mark.parametrize("aliases, says", [
    ("{defib_recoverd_total: a_total}", 'did you mean "defib_recovered_total"?'),
    ("{defib_recovered_total: Zombies_total}", "lower-case letters, digits and _"),
    ("{defib_recovered_total: 'a b_total'}", "lower-case letters, digits and _"),
    ("{defib_recovered_total: 1_total}", "not begin with a digit"),
    ("{defib_recovered_total: zombies}", "must end in _total, because it is a counter"),
    ("{defib_jobs_stuck: zombies_total}", "must not end in _total, because it is not a counter"),
    ("{defib_jobs_stuck: zombies_count}", "must not end in _bucket, _sum or _count"),
    ("{defib_jobs_stuck: defib_zombies}", "must not begin with defib_"),
    ("{defib_jobs_stuck: zombies, defib_recovered_total: zombies_total}", "is used twice"),
    (f"{{defib_jobs_stuck: {'z' * 101}}}", "is too long"),
    ("[zombies]", "expects a map"),
])
def test_a_second_name_that_no_scraper_takes_is_refused_in_one_line(lite, defib, aliases, says):
    ran = defib("config", "check", config=config(lite, f"metrics: {{aliases: {aliases}}}\n"))
    assert ran.code == 3 and says in ran.err, ran.err
    assert len(ran.err.splitlines()) == 1, ran.err


# ---- what a watch says

@pytest.mark.covers("A9", "C12", "C13")
def test_counts_are_those_of_the_ledger(scene):
    s = wait_scrape(scene.web, lambda s: s.get("defib_ledger_events_total", event="REQUEUED"))
    in_ledger = scene.db.sql("SELECT count(*) FROM defib.ledger WHERE watch = 'pages' "
                             "AND event = 'REQUEUED'")[0][0]
    assert in_ledger == 5
    assert s.get("defib_recovered_total", **PAGES) == 5
    assert s.get("defib_recovered_total", remedy="requeue", **PAGES) == 5
    assert s.get("defib_stuck_detected_total", verdict="overdue", **PAGES) == 5
    assert s.get("defib_ledger_events_total", event="REQUEUED", **PAGES) == 5
    assert scene.read_again().get("defib_ledger_events_total", event="REQUEUED", **PAGES) == 5
    assert s.get("defib_held_total", **PAGES) == 0
    assert s.get("defib_not_written_total", **PAGES) == 0


@pytest.mark.covers("C12")
def test_detection_and_recovery_count_from_the_last_sign_of_life(scene):
    s = wait_scrape(scene.web, lambda s: s.get("defib_detection_seconds_count", **PAGES))
    assert s.get("defib_detection_seconds_count", **PAGES) == 5
    assert 5 * 3700 <= s.get("defib_detection_seconds_sum", **PAGES) < 5 * 3900
    assert s.get("defib_detection_seconds_bucket", le="3600.0", **PAGES) == 0
    assert s.get("defib_detection_seconds_bucket", le="86400.0", **PAGES) == 5
    assert s.get("defib_recovery_seconds_count", **PAGES) == 5
    assert 5 * 3700 <= s.get("defib_recovery_seconds_sum", **PAGES) < 5 * 3900


@pytest.mark.covers("D10")
def test_what_stays_stuck_is_shown_with_its_age_and_detected_once(scene):
    s = wait_scrape(scene.web, lambda s: s.get("defib_stuck_found_total", watch="labs") >= 3)
    assert s.get("defib_jobs_stuck", watch="labs") == 1
    # Its age, not its age beyond the threshold of ten minutes.
    assert 7800 <= s.get("defib_jobs_stuck_oldest_seconds", watch="labs") < 8100
    assert s.get("defib_stuck_detected_total", watch="labs") == 1
    assert s.get("defib_last_pass_jobs", watch="labs", outcome="left") == 1


@pytest.mark.covers("F13")
def test_the_dead_man_s_number_moves_with_every_pass(scene):
    first = scrape(scene.web).get("defib_last_pass_time_seconds", **PAGES)
    s = wait_scrape(scene.web, lambda s: s.get("defib_last_pass_time_seconds", **PAGES) > first)
    assert abs(s.get("defib_last_pass_time_seconds", **PAGES) - time.time()) < 60
    assert s.get("defib_leader", **PAGES) == 1
    assert s.get("defib_pass_every_seconds", **PAGES) == 1


@pytest.mark.covers("D10")
def test_ticks_are_measured(scene):
    s = wait_scrape(scene.web, lambda s: s.get("defib_pass_interval_seconds", **PAGES))
    passes = s.get("defib_passes_total", result="ok", **PAGES)
    assert passes >= 1 and s.get("defib_passes_total", result="failed", **PAGES) == 0
    assert s.get("defib_scan_seconds_count", **PAGES) == passes
    assert s.get("defib_pass_lag_seconds_count", **PAGES) >= 1
    assert s.get("defib_pass_interval_seconds", **PAGES) > 0


# ---- readings

@pytest.mark.covers("D10")
def test_what_waits_is_counted_with_the_age_of_the_oldest(scene):
    s = wait_scrape(scene.web, lambda s: s.get("defib_queue_jobs", state="ready", **PAGES) == 7 and
                    s.get("defib_queue_jobs", state="ready", watch="queue") is not None)
    assert s.get("defib_queue_jobs", state="ready", **PAGES) == 7
    assert 60 <= s.get("defib_queue_oldest_seconds", state="ready", **PAGES) < 3600
    assert s.get("defib_queue_jobs", state="ready", watch="queue") == 0
    assert s.get("defib_queue_jobs", state="scheduled", watch="queue") == 0


@pytest.mark.covers("D10")
def test_runs_that_end_are_a_histogram_by_kind(scene):
    scene.db.sql("INSERT INTO pages (status, kind, started_at, finished_at) "
                 "SELECT 'Complete', CASE WHEN i <= 19 THEN 'quick' ELSE 'slow' END, "
                 "now() - i * interval '1 second', now() "
                 "FROM generate_series(1, 20) i")
    s = scene.read_again()
    assert s.get("defib_job_seconds_count", **PAGES) == 20
    assert s.get("defib_job_seconds_count", kind="quick", **PAGES) == 19
    assert s.get("defib_job_seconds_bucket", kind="quick", le="10.0", **PAGES) == 10
    assert s.get("defib_job_seconds_bucket", kind="slow", le="30.0", **PAGES) == 1


def test_beyond_the_first_kinds_the_rest_is_called_other(scene):
    scene.db.sql("INSERT INTO pages (status, kind, started_at, finished_at) SELECT 'Complete', "
                 "'k' || i, clock_timestamp(), clock_timestamp() FROM generate_series(1, 30) i")
    s = scene.read_again()
    kinds = {dict(labels)["kind"] for labels in s.all("defib_job_seconds_count", **PAGES)}
    assert len(kinds) == 21 and "other" in kinds


@pytest.mark.covers("A9", "D10")
def test_a_worker_s_own_numbers_are_shown_by_its_name(scene):
    s = wait_scrape(scene.web, lambda s: s.get("defib_worker_claims_total", worker="anna"))
    assert s.get("defib_worker_up", worker="anna", database="main") == 1
    assert s.get("defib_worker_claims_total", worker="anna") == 3
    assert s.get("defib_worker_settled_total", worker="anna", end="done") == 2
    assert s.get("defib_worker_settled_total", worker="anna", end="failed") == 1
    assert s.get("defib_worker_job_seconds_count", worker="anna") == 3
    assert s.get("defib_worker_job_seconds_bucket", worker="anna", le="86400.0") == 3
    assert 1 <= s.get("defib_worker_ticks_total", worker="anna")
    assert s.get("defib_worker_connection_tries_total", worker="anna") >= 4
    assert s.get("defib_worker_connection_failures_total", worker="anna") == 0
    for name in ("jobs", "breaker_open", "spool_jobs", "spool_bytes"):
        assert s.get(f"defib_worker_{name}", worker="anna") == 0
    assert abs(s.get("defib_worker_clock_skew_seconds", worker="anna")) < 30
    assert s.get("defib_workers", watch="queue") == 1
    assert s.get("defib_worker_serves", worker="anna", watch="queue") == 1
    assert s.get("defib_workers", **PAGES) == 0


@pytest.mark.covers("A9")
def test_failures_of_a_team_s_own_sessions_are_counted(scene):
    """As the client packages report them: 6 of 200."""
    (worker,), = scene.db.sql("SELECT defib.register('team', 'team-1', 600000)")
    scene.db.sql("SELECT defib.renew(%s, 0, %s)", worker, '{"tries": 200, "failures": 6}')
    s = scene.read_again()
    assert s.get("defib_worker_connection_failures_total", worker="team") == 6
    assert s.get("defib_worker_connection_tries_total", worker="team") == 200
    scene.db.sql("SELECT defib.leave(%s)", worker)


def test_a_worker_that_was_killed_and_came_again_is_a_death_and_a_restart(scene):
    before = scrape(scene.web)
    scene.queue.workers[-1].kill()
    scene.queue.work("--name", "anna", "--lease", "3s")
    eventually(lambda: scene.db.sql("SELECT count(*) FROM defib.worker WHERE state = 'dead'")[0][0])
    for _ in range(2):  # each is counted once, however often it is read
        s = scene.read_again()
        for name in ("deaths", "starts", "restarts"):
            name = f"defib_worker_{name}_total"
            assert s.get(name, watch="queue") == before.get(name, watch="queue") + 1, name


def test_a_reading_that_takes_too_long_is_counted_and_holds_up_nothing(scene):
    slow = WATCHES.replace("name: pages", "name: slow").replace("watches:\n", "").replace(
        "ready: status = 'Queued'", "ready: status = 'Queued' AND pg_sleep(2) IS NULL")
    scene.reload(config(scene.db, WATCHES, LABS, slow))
    s = wait_scrape(scene.web, lambda s: s.get("defib_reading_failures_total", watch="slow"))
    passes = s.get("defib_passes_total", result="ok", watch="slow")
    s = wait_scrape(scene.web, lambda s: s.get("defib_passes_total", result="ok",
                                               watch="slow") > passes)
    assert s.get("defib_leader", watch="slow") == 1
    assert s.get("defib_queue_jobs", watch="slow") is None


# ---- the daemon

def test_a_watch_that_a_reload_removes_is_gone_from_the_metrics(scene):
    reloads = scrape(scene.web).get("defib_reloads_total", result="ok")
    scene.reload(config(scene.db, WATCHES, LABS.replace("name: labs", "name: other")))
    s = wait_scrape(scene.web, lambda s: s.get("defib_jobs_stuck", watch="other") == 1)
    assert not [key for key in s.samples if ("watch", "labs") in key[1]]
    assert s.get("defib_recovered_total", **PAGES) == 5
    assert s.get("defib_reloads_total", result="ok") == reloads + 1
    scene.reload(config(scene.db))
    wait_scrape(scene.web, lambda s: s.get("defib_jobs_stuck", watch="labs") == 1)


def test_a_configuration_that_is_wrong_is_a_failed_reload(scene):
    scene.reload("watches: nonsense\n")
    wait_scrape(scene.web, lambda s: s.get("defib_reloads_total", result="failed") == 1)
    scene.reload(config(scene.db))


def test_only_the_leader_shows_what_a_watch_is_like(scene):
    other = WebDaemon(Program(scene.daemon.config.parent), config(scene.db))
    try:
        s = wait_scrape(other.web(), lambda s: s.get("defib_database_up", database="main") == 1)
        assert s.get("defib_leader", **PAGES) == 0
        assert s.get("defib_jobs_stuck", **PAGES) is None
        assert s.get("defib_recovered_total", **PAGES) is None
    finally:
        other.kill()


def test_a_database_that_is_away_is_told_from_memory(lite, tmp_path):
    gone = config(lite).replace(lite.url, "postgres://nobody@127.0.0.1:1/none")
    with serving(tmp_path, gone) as web:
        s = wait_scrape(web, lambda s: s.get("defib_connection_failures_total", database="main"))
        assert s.get("defib_database_up", database="main") == 0
        assert s.get("defib_leader", **PAGES) == 0
        assert s.get("defib_last_pass_time_seconds", **PAGES) is None


def test_sqlite_has_the_same_numbers(lite, tmp_path):
    make_tables(lite)
    with serving(tmp_path, config(lite)) as web:
        s = wait_scrape(web, lambda s: s.get("defib_ledger_events_total", event="REQUEUED"))
        assert s.get("defib_recovered_total", **PAGES) == 5
        assert s.get("defib_ledger_events_total", event="REQUEUED", **PAGES) == 5
        s = wait_scrape(web, lambda s: s.get("defib_queue_jobs", **PAGES))
        assert s.get("defib_queue_jobs", state="ready", **PAGES) == 7
        assert promtool("check", "metrics", stdin=web.get("/metrics").text) == ""


# ---- Prometheus, rules and dashboard

@pytest.mark.covers("A10", "C12", "C13", "F13")
def test_a_real_prometheus_scrapes_the_daemon_and_the_shipped_alert_fires(scene, tmp_path):
    prometheus = Prometheus(tmp_path, scene.daemon.address)
    try:
        fired = eventually(lambda: prometheus.firing("DefibStuckLong"))
        assert fired[0]["watch"] == "labs" and fired[0]["severity"] == "critical"
        assert prometheus.value('sum(defib_recovered_total{watch="pages"})') == 5
        target, = prometheus.ask("targets")["activeTargets"]
        assert target["health"] == "up" and target["lastError"] == ""
        rules = [r for group in prometheus.ask("rules")["groups"] for r in group["rules"]]
        assert len(rules) >= 25
        assert {r["health"] for r in rules} <= {"ok", "unknown"}, rules
    finally:
        prometheus.close()


@pytest.mark.covers("A10", "C10", "C12", "C13", "D10")
def test_the_shipped_rules_do_what_they_say():
    promtool("check", "rules", RULES)
    promtool("test", "rules", *sorted((ROOT / "deploy" / "prometheus" / "tests").glob("*.yml")))


def known_names():
    """Every series that is in the table of metrics or is recorded by the rules."""
    names = set(re.findall(r"record: (\S+)", RULES.read_text()))
    for name, kind in re.findall(r"^\| `(defib_\w+)` \| (\w+) \|",
                                 (ROOT / "docs" / "metrics.md").read_text(), re.M):
        names |= {name} if kind != "histogram" else {
            f"{name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def used_names(text):
    return set(re.findall(r"\bdefib(?:_\w+|:[\w:]+)", text))


def test_rules_name_only_metrics_that_exist():
    expressions = "\n".join(re.findall(r"expr: ((?:\|\n(?: {10}.*\n)+)|.*)", RULES.read_text()))
    assert len(used_names(expressions)) > 20
    assert used_names(expressions) <= known_names()


def test_questions_of_the_reference_are_answered_by_metrics_that_exist(tmp_path):
    text = (ROOT / "docs" / "metrics.md").read_text()
    questions = text[text.index("## Questions"):text.index("## All")]
    expressions = re.findall(r"`([^`]+)`", questions)
    assert len(expressions) > 10 and used_names(questions) <= known_names()
    path = tmp_path / "questions.yml"
    path.write_text(json.dumps({"groups": [{"name": "questions", "rules": [
        {"record": f"question:{i}", "expr": e} for i, e in enumerate(expressions)]}]}))
    promtool("check", "rules", path)


@pytest.mark.covers("A11", "C13")
def test_the_dashboard_names_only_metrics_that_exist_and_has_the_three_panels():
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "defib.json").read_text())
    panels = [p for p in dashboard["panels"] if p["type"] != "row"]
    expressions = "\n".join(t["expr"] for p in panels for t in p["targets"])
    queries = "\n".join(v.get("definition", "") for v in dashboard["templating"]["list"])
    assert used_names(expressions + queries) <= known_names()
    assert {"Zombies detected", "Recovery rate", "Detection time"} <= {p["title"] for p in panels}
    assert len({p["id"] for p in dashboard["panels"]}) == len(dashboard["panels"])
    # The line in each of the three is where its alert fires.
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"]
             for rule in group["rules"]]
    for title, alert, sign in (("Zombies detected", "DefibStuckFast", ">"),
                               ("Recovery rate", "DefibRecoveryRate", "<"),
                               ("Detection time", "DefibDetectionSlow", ">")):
        panel, = [p for p in panels if p["title"] == title]
        limit = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
        expression, = [rule["expr"] for rule in rules if rule.get("alert") == alert]
        assert expression.strip().endswith(f"{sign} {limit}"), (title, expression)


def test_every_expression_of_the_dashboard_is_one_for_prometheus(tmp_path):
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "defib.json").read_text())
    rules = [{"record": f"panel:{i}", "expr": t["expr"].replace("$__rate_interval", "5m")}
             for i, t in enumerate(t for p in dashboard["panels"] if p["type"] != "row"
                                   for t in p["targets"])]
    path = tmp_path / "panels.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


def test_the_reference_of_metrics_is_up_to_date(defib):
    ran = defib("config", "metrics")
    assert ran.code == 0
    assert (ROOT / "docs" / "metrics.md").read_text() == ran.out, (
        "run: scripts/references")


def test_every_metric_of_a_live_daemon_is_documented(scene):
    assert {name for name, _ in scrape(scene.web).samples} <= known_names()


@pytest.mark.covers("A9", "C12")
def test_resets_of_a_run_of_a_day_and_of_a_week_are_the_rows(lite, tmp_path):
    """The daemon passes once; what was reset in the days before is in the ledger."""
    make_tables(lite)
    with serving(tmp_path, config(lite, WATCHES.replace("every: 1s", "every: 1h"))) as web:
        # The pass sets its numbers when it ends; counters follow, from what is in the ledger.
        s = wait_scrape(web, lambda s: s.get("defib_recoveries_recent", window="day", **PAGES) and
                        s.get("defib_recovered_total", **PAGES))
        assert s.get("defib_recoveries_recent", window="day", **PAGES) == 5
        assert s.get("defib_last_pass_jobs", outcome="recovered", **PAGES) == 5
        assert s.get("defib_recoveries_recent", window="week", **PAGES) == 5
        assert s.get("defib_recovered_total", **PAGES) == 5
        assert s.get("defib_stuck_detected_total", **PAGES) == 5


@pytest.mark.covers("D10")
def test_a_worker_that_comes_again_is_a_restart(lite, defib, tmp_path):
    queue = Queue(defib, lite)
    defib("init", db=lite)
    first = queue.work("--name", "anna")
    with serving(tmp_path, config(lite, "watches: []\n")) as web:
        wait_scrape(web, lambda s: s.get("defib_workers", watch="queue") == 1)
        assert scrape(web).get("defib_worker_restarts_total", watch="queue") == 0
        first.kill()
        queue.work("--name", "anna")
        web.daemon.signal(signal.SIGHUP)  # has it read the workers at once
        wait_scrape(web, lambda s: s.get("defib_worker_restarts_total", watch="queue") == 1)
        wait_scrape(web, lambda s: s.get("defib_worker_deaths_total", watch="queue") == 1)
    queue.close()
