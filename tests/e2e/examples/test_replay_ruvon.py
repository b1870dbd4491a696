# SPDX-License-Identifier: Apache-2.0
"""Ruvon (C): the document "Zombie Workflow Recovery" replayed, chapter by chapter.

Workers are real processes, of Ruvon's kind (they beat into a table and do not know defib) and of
ours. Where minutes matter, the times in the rows are changed.
"""

import contextlib
import datetime
import json
import signal
import subprocess
import sys

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.deployment import DEPLOY, Host, argv_of, container_of, cron_line, manifests
from harness.document_replay import page_server, praised_lines, program, type_readme
from harness.example_systems import EXAMPLES
from harness.metrics import promtool, wait_scrape
from harness.python_package import LIBRARY, package  # noqa: F401
from harness.ruvon import FIRST, SECOND, STEP, Ruvon
from harness.small_memory import small_memory
from harness.waiting import eventually, patience

DAY_S = 86400
# A daemon gives the workers of a server that has just come up two beats to be heard again.
SHORT_BEAT = {"HEARTBEAT_INTERVAL_SECONDS": "1"}

# The document's worker: a thread beats while the step runs; the upload may take all memory.
WORKER = """
import sys, threading, psycopg2
url, workflow, hungry = sys.argv[1], sys.argv[2], len(sys.argv) > 3
def beat():
    session = psycopg2.connect(url)
    session.autocommit = True
    while True:
        session.cursor().execute(
            "INSERT INTO workflow_heartbeats (workflow_id, worker_id, current_step, step_started_at)"
            " VALUES (%s, 'celery@worker1', 'Process_Payment', now()) ON CONFLICT (workflow_id)"
            " DO UPDATE SET last_heartbeat = now()", (workflow,))
        beaten.set()
        if over.wait(0.5):
            return
beaten, over = threading.Event(), threading.Event()
thread = threading.Thread(target=beat)
thread.start()
beaten.wait()
upload = []
while hungry:
    upload.append(bytearray(1 << 20))
thread.join()
"""


def start_worker(ruvon, workflow, group=None):
    """One that is killed by the kernel where it is in a group of little memory."""
    ruvon.add(workflow)
    argv = [sys.executable, "-c", WORKER, ruvon.db.url, workflow]
    if group:
        into = f'echo $$ >{group}/cgroup.procs && exec "$@"'
        argv = ["/bin/sh", "-c", into, "sh", *argv, "hungry"]
    return subprocess.Popen(argv)


@pytest.fixture
def ruvon(db, tmp_path):
    own = Ruvon(db, tmp_path)
    yield own
    own.close()


@pytest.fixture
def pg_ruvon(pg, tmp_path):
    own = Ruvon(pg, tmp_path)
    yield own
    own.close()


# ---- The Problem ----

@pytest.mark.covers("C3", "C4")
@pytest.mark.parametrize("how", ["oom", "sigkill"])
def test_the_problem_a_killed_worker_leaves_a_zombie_and_the_scanner_ends_it(pg_ruvon, how):
    """"OOM Killer terminates worker … Workflow remains: PENDING_ASYNC … Forever"."""
    if how == "oom":
        with small_memory() as group:
            assert start_worker(pg_ruvon, FIRST, group).wait(patience()) == -signal.SIGKILL
    else:
        worker = start_worker(pg_ruvon, FIRST)
        pg_ruvon.until("SELECT count(*) FROM workflow_heartbeats", 1)
        worker.kill()
        assert worker.wait(patience()) == -signal.SIGKILL
    pg_ruvon.age(60)
    assert pg_ruvon.fix()["found"] == 0, "a minute of silence is none"
    assert pg_ruvon.status() == "PENDING_ASYNC"
    pg_ruvon.age(121)
    summary = pg_ruvon.fix()
    assert (summary["found"], summary["recovered"]) == (1, 1)
    assert pg_ruvon.status() == "FAILED_WORKER_CRASH"
    (event, data), = pg_ruvon.rows("SELECT event_type, event_data FROM workflow_audit_log")
    assert event == "ZOMBIE_DETECTED"
    assert data["current_step"] == "Process_Payment" and "last_heartbeat" in data
    assert float(data["stale_duration_seconds"]) > 120
    assert pg_ruvon.rows("SELECT * FROM workflow_heartbeats") == []


# ---- How Zombie Detection Works ----

@pytest.mark.covers("C1", "C2")
def test_heartbeat_during_execution_starts_and_stops_with_the_step(ruvon):
    program(ruvon, "order.sh", STEP)
    (ruvon.dir / "hold.Reserve_Inventory").touch()
    ruvon.insert("workflow_executions", id=FIRST, workflow_type="Order")
    worker = ruvon.work("workflows", "--name", "worker1", "--drain")
    ruvon.until_lines("began", 1)
    beat = ruvon.row("workflow_heartbeats", ["workflow_id", "worker_id", "current_step",
                                             "last_heartbeat", "step_started_at", "metadata"])
    assert (str(beat.workflow_id), beat.worker_id) == (FIRST, "worker1")
    assert beat.current_step == "Reserve_Inventory"
    assert beat.last_heartbeat and beat.step_started_at and "attempt" in beat.metadata
    assert ruvon.status() == "PENDING_ASYNC"
    (ruvon.dir / "hold.Reserve_Inventory").unlink()
    assert worker.wait() == 0, worker.log
    assert ruvon.status() == "COMPLETED"
    assert ruvon.rows("SELECT * FROM workflow_heartbeats") == []


@pytest.mark.proof
@pytest.mark.covers("C1")
def test_a_heartbeat_that_fails_is_tried_three_times_five_seconds_apart(pg_ruvon):
    """At the shipped 30 s, in full: most of a minute."""
    program(pg_ruvon, "order.sh", STEP)
    (pg_ruvon.dir / "hold.Reserve_Inventory").touch()
    pg_ruvon.insert("workflow_executions", id=FIRST, workflow_type="Order")
    worker = pg_ruvon.work("workflows", "--drain", "--log", "json")
    pg_ruvon.until_lines("began", 1)
    pg_ruvon.rows("ALTER TABLE workflow_heartbeats RENAME TO away")
    worker.wait_log('"failed":4', limit=300)
    pg_ruvon.rows("ALTER TABLE away RENAME TO workflow_heartbeats")
    said = [json.loads(line) for line in worker.log.splitlines() if '"heartbeat failed' in line]
    assert [one["msg"] for one in said] == (["heartbeat failed; will retry"] * 3
                                         + ["heartbeat failed"])
    (pg_ruvon.dir / "hold.Reserve_Inventory").unlink()
    assert worker.wait() == 0, worker.log
    assert pg_ruvon.status() == "COMPLETED", "a beat that failed never ends the step"
    times = [datetime.datetime.fromisoformat(one["ts"].rstrip("Z")) for one in said]
    waits = [(then - now).total_seconds() for now, then in zip(times, times[1:])]
    assert all(4.5 < wait < 20 for wait in waits), waits


@pytest.mark.covers("C3")
def test_the_detection_query_and_the_scan_find_the_same(pg_ruvon):
    """The document's own SELECT, and a scan."""
    ages = {0: 30, 1: 119, 2: 150, 3: 600, 4: None}
    for n, seconds in ages.items():
        pg_ruvon.add(FIRST[:-1] + str(n), seconds)
    pg_ruvon.add(FIRST[:-1] + "5", 600, status="ACTIVE")
    detected = pg_ruvon.rows(
        "SELECT we.id, we.workflow_type, we.current_step, wh.last_heartbeat"
        " FROM workflow_executions we JOIN workflow_heartbeats wh ON we.id = wh.workflow_id"
        " WHERE we.status = 'PENDING_ASYNC'"
        "   AND wh.last_heartbeat < NOW() - INTERVAL '120 seconds'")
    found = pg_ruvon("scan", "--json").json["watches"][0]["jobs"]
    assert {job["key"] for job in found} >= {str(row[0]) for row in detected}
    assert {FIRST[:-1] + "2", FIRST[:-1] + "3"} <= {job["key"] for job in found}
    assert not {FIRST[:-1] + "4", FIRST[:-1] + "5"} & {job["key"] for job in found}


# ---- Deployment Strategies ----

def check_walk(said, rows):
    """The part of the page that both engines have."""
    assert "-> retry" in said["defib scan"], "a first dry run knows what --fix will do"
    assert json.loads(said["defib scan --json"].split("Nothing")[0])["found"] == 2
    assert "2 stuck of 3 running, 2 recovered" in said["defib scan --fix"]
    assert FIRST in said["defib list --status FAILED_WORKER_CRASH"]
    assert SECOND not in said["defib list --status FAILED_WORKER_CRASH"]
    story = said[f"defib show workflows/{FIRST} --logs --state"]
    assert "RETRY_SCHEDULED" in story and "zombie_retry_count" in story
    assert rows == [("COMPLETED",), ("FAILED_ROLLED_BACK",), ("PENDING_ASYNC",)]


STATES = "SELECT status FROM workflow_executions ORDER BY id"


@pytest.mark.covers("C3", "C5", "C6", "C8")
def test_the_readme_s_commands_do_what_they_say_on_sqlite(tmp_path):
    db = LiteDatabase(tmp_path / "ruvon.db")
    said = type_readme("ruvon", tmp_path, "sqlite", {"ruvon.db": str(db.path)})
    check_walk(said, db.sql(STATES))
    db.drop()


@pytest.mark.covers("C3", "C5", "C6", "C8", "C9")
def test_the_readme_s_commands_do_what_they_say(shared_server, tmp_path, package):  # noqa: F811
    """With Celery: a zombie, a retry from a step and a saga; then the walk without Celery."""
    with page_server(shared_server, "ruvon", "ruvon_orders") as env:
        said = type_readme("ruvon", tmp_path, "postgres", {}, PYTHON=package.python,
                           DEFIB_LIBRARY=str(LIBRARY), **env)
        with contextlib.closing(shared_server.connect("ruvon_orders")) as session:
            cursor = session.cursor()
            cursor.execute(STATES)
            check_walk(said, cursor.fetchall())
    before, = [text for command, text in said.items() if "SELECT status, current_step" in command]
    assert before.strip() == "PENDING_ASYNC|Process_Payment"
    undone = [line.split()[0] for line in said["grep $SAGA effects"].split("\n") if line.strip()]
    assert undone == ["Reserve_Inventory", "Process_Payment", "Reserve_Inventory.undo"]
    ran = [line.split()[0] for line in said["grep $ORDER effects"].split("\n") if line.strip()]
    assert ran == ["Reserve_Inventory", "Process_Payment", "Process_Payment", "Ship_Order"]


@pytest.mark.parametrize("config", ["defib.yaml", "defib.sqlite.yaml"])
def test_the_lines_that_the_readme_praises_are_there(config):
    text = (EXAMPLES / "ruvon" / config).read_text()
    praised = praised_lines("ruvon")
    assert len(praised) >= 8 and all(line in text for line in praised)


@pytest.fixture
def host(pg_ruvon, tmp_path):
    """A host as deploy/ has it in mind, with Ruvon's configuration and one zombie."""
    pg_ruvon.add(FIRST, DAY_S)
    own = Host(pg_ruvon.db, tmp_path, pg_ruvon.config.read_text())
    own.secrets.update(SHORT_BEAT)
    return own


@pytest.mark.covers("C6")
@pytest.mark.parametrize("form", ["cron", "systemd", "kubernetes"])
def test_one_shot_scans_run_as_deployed(host, pg_ruvon, form):
    """The words that stand in deploy/, on this host's places."""
    command = {
        "cron": lambda: ["/bin/sh", "-c", cron_line((DEPLOY / "cron/defib").read_text())[2]],
        "systemd": lambda: argv_of((DEPLOY / "systemd/defib-scan.service").read_text()),
        "kubernetes": lambda: container_of(manifests()["cronjob.yaml"])[1]["command"],
    }[form]()
    ran = host.run(command)
    assert ran.code == 0, ran.err
    assert pg_ruvon.status() == "FAILED_WORKER_CRASH"


@pytest.mark.covers("C6")
@pytest.mark.parametrize("form", ["systemd", "kubernetes"])
def test_the_daemon_runs_as_deployed(host, pg_ruvon, form):
    command = argv_of((DEPLOY / "systemd/defib.service").read_text())
    if form == "kubernetes":
        _, container = container_of(manifests()["deployment.yaml"])
        shipped = manifests()["configmap.yaml"]["data"]["defib.yaml"]
        host.config.write_text(host.config.read_text() + shipped[shipped.index("http:"):])
        command = [word.replace(":8080", ":0") for word in container["command"] + container["args"]]
    with host.running(command):
        eventually(lambda: pg_ruvon.status() == "FAILED_WORKER_CRASH")


@pytest.mark.covers("C5", "C6")
@pytest.mark.parametrize("kind, schedule", [("cron", "* * * * *"), ("k8s-cron", '"* * * * *"'),
                                            ("systemd-timer", "60s")])
def test_deploy_prints_files_that_scan_as_often_as_the_document_wants(ruvon, kind, schedule):
    ran = ruvon("deploy", kind)
    assert ran.code == 0, ran.err
    assert schedule in ran.out and "workflows" in ran.out


# ---- Configuration Guidelines ----

@pytest.mark.covers("C7")
@pytest.mark.parametrize("beat, threshold, code, says", [
    (15, 60, 0, ""), (30, 120, 0, ""), (30, 180, 0, ""), (60, 300, 0, ""), (300, 1800, 0, ""),
    (30, 60, 3, "just twice the beat"), (60, 60, 3, "under twice the beat"),
    (300, 300, 3, "under twice the beat"),
])
def test_the_tables_of_advice_are_enforced(ruvon, beat, threshold, code, says):
    """Beats by workload, thresholds by environment, "> 2x heartbeat interval"."""
    ran = ruvon("config", "check", env={"HEARTBEAT_INTERVAL_SECONDS": str(beat),
                                        "STALE_THRESHOLD_SECONDS": str(threshold)})
    assert ran.code == code and says in ran.err, ran.err


# ---- False Positives ----

@pytest.mark.covers("C10")
def test_monitor_the_false_positive_rate_by_the_documents_query_and_by_stats(pg_ruvon):
    pg_ruvon.add(FIRST, 600)
    pg_ruvon.fix()
    pg_ruvon.insert("workflow_audit_log", workflow_id=FIRST, event_type="STEP_EXECUTED")
    pg_ruvon.fix()
    assert pg_ruvon.rows(
        "SELECT COUNT(*) FROM workflow_audit_log WHERE event_type = 'ZOMBIE_DETECTED'"
        " AND workflow_id IN (SELECT workflow_id FROM workflow_audit_log"
        " WHERE event_type = 'STEP_EXECUTED' AND created_at > (SELECT created_at"
        " FROM workflow_audit_log WHERE event_type = 'ZOMBIE_DETECTED'"
        " AND workflow_id = workflow_audit_log.workflow_id))") == [(1,)]
    rate = pg_ruvon("stats", "--json").json["watches"][0]["false_positives"]
    assert (rate["day"], rate["day_recovered"]) == (1, 1)


# ---- Recovery Workflow ----

@pytest.mark.covers("C8")
def test_option_2_automatic_retry_after_1_2_and_4_minutes_survives_a_restart(pg_ruvon):
    pg_ruvon.add(FIRST, DAY_S)
    for n, wait_s in enumerate((60, 120, 240)):
        assert pg_ruvon.fix()["recovered"] == 1
        assert pg_ruvon.status() == "FAILED_WORKER_CRASH"
        waits = pg_ruvon.cell("SELECT extract(epoch FROM due_at - at)::float FROM defib.retry")
        assert wait_s - 30 < waits <= wait_s
        if n == 0:
            restarted_between(pg_ruvon)
        pg_ruvon.rows("UPDATE defib.retry SET due_at = now()")
        pg_ruvon.fix()
        assert pg_ruvon.rows("SELECT status, current_step FROM workflow_executions") == \
            [("ACTIVE", "Process_Payment")]
        pg_ruvon.rows("UPDATE workflow_executions SET status = 'PENDING_ASYNC'")
        pg_ruvon.beat(FIRST, DAY_S)
    pg_ruvon.fix()
    assert pg_ruvon.status() == "FAILED_WORKER_CRASH"
    assert pg_ruvon.events().count("RETRIED") == 3 and "RETRIES_EXHAUSTED" in pg_ruvon.events()
    assert pg_ruvon.rows("SELECT * FROM defib.retry") == []


def restarted_between(ruvon):
    """A daemon comes up, is killed, and another one knows of the retry that waits."""
    ruvon.rows("UPDATE defib.retry SET due_at = now() + interval '1 hour'")
    for _ in range(2):
        daemon = ruvon.daemon("--no-queue")
        daemon.wait_log("msg=scan")
        assert ruvon.status() == "FAILED_WORKER_CRASH"
        daemon.kill()
    assert "retry due in" in ruvon("list", f"workflows/{FIRST}").out


@pytest.mark.covers("C9")
def test_option_3_saga_rollback_ends_rolled_back(ruvon):
    """The worker is killed in the last step; what was done is undone, the last step first."""
    program(ruvon, "order.sh", STEP)
    (ruvon.dir / "hold.Ship_Order").touch()
    ruvon.insert("workflow_executions", id=FIRST, workflow_type="Order",
                 metadata='{"saga_enabled": true}')
    first = ruvon.work("workflows", "--name", "first")
    ruvon.until_lines("began", 3)
    ruvon.work("workflows", "--name", "second")
    first.kill()
    ruvon.until("SELECT status FROM workflow_executions", "FAILED_ROLLED_BACK")
    assert ruvon.lines("ended")[-2:] == ["Process_Payment.undo", "Reserve_Inventory.undo"]
    assert ruvon.cell("SELECT event_type FROM workflow_audit_log") == "ZOMBIE_DETECTED"


# ---- Daemon Mode, Monitoring and Alerting: one daemon, as shipped, for all of these ----

ZOMBIES, MISTAKEN = 31, 3
LIVES, WAITS, SPENT, LATE = ("650e8400-e29b-41d4-a716-44665544000" + c for c in "abcd")


class Scene:
    """A bad hour: more than 30 zombies, three of which were none, one worker that lives."""

    def __init__(self, db, folder):
        self.ruvon = ruvon = Ruvon(db, folder)
        for n in range(MISTAKEN):
            ruvon.add(FIRST[:-4] + f"{n:04}", DAY_S)
        ruvon.fix()
        ruvon.rows("INSERT INTO workflow_audit_log (workflow_id, event_type)"
                   " SELECT id, 'STEP_EXECUTED' FROM workflow_executions")
        ruvon.fix()
        for n in range(ZOMBIES):
            ruvon.add(FIRST[:-4] + f"{n + 100:04}", DAY_S)
        ruvon.add(SPENT, DAY_S, zombie_retry_count=3)
        ruvon.add(WAITS)
        self.worker = start_worker(ruvon, LIVES)
        ruvon.until(f"SELECT count(*) FROM workflow_heartbeats WHERE workflow_id = '{LIVES}'", 1)
        self.daemon = ruvon.daemon("--no-queue", listen=True, env=SHORT_BEAT)
        self.web = self.daemon.web()
        ruvon.until("SELECT count(*) FROM workflow_executions"
                    " WHERE status = 'FAILED_WORKER_CRASH'", MISTAKEN + ZOMBIES + 1)

    def look(self):
        """What a further pass finds; a reload makes it look at once."""
        had = len(self.daemon.passes("workflows"))
        self.daemon.signal(signal.SIGHUP)
        eventually(lambda: len(self.daemon.passes("workflows")) > had)
        return self.daemon.passes("workflows")[-1]

    def close(self):
        self.worker.kill()
        self.worker.wait()
        self.ruvon.close()
        self.ruvon.db.drop()


@pytest.fixture(scope="module", autouse=True)
def scene(shared_server, tmp_path_factory):
    """From the first test on: rules of alerts are asked every 15 s, and nobody waits for that."""
    own = Scene(PgDatabase(shared_server), tmp_path_factory.mktemp("ruvon"))
    yield own
    own.close()


@pytest.mark.covers("C3", "C4")
def test_daemon_mode_recovers_all_zombies_and_nobody_who_beats_or_never_began(scene):
    ruvon = scene.ruvon
    scene.look()
    assert (ruvon.status(LIVES), ruvon.status(WAITS)) == ("PENDING_ASYNC", "PENDING_ASYNC")
    assert scene.worker.poll() is None
    assert ruvon.cell("SELECT count(*) FROM workflow_heartbeats") == 1


@pytest.mark.covers("C11")
def test_prevention_a_raised_threshold_is_in_force_without_a_restart(scene):
    """"Black Friday (high load): 300s threshold": two and a half times 120 s."""
    ruvon = scene.ruvon
    ran = ruvon("raise", "workflows", "--by", "2.5", "--for", "1h", "--reason", "Black Friday")
    assert ran.code == 0, ran.err
    eventually(lambda: "Black Friday" in ruvon("status").out)
    ruvon.add(LATE, 130)
    assert scene.look()["found"] == "0" and scene.look()["running"] == "3"
    assert ruvon.status(LATE) == "PENDING_ASYNC"
    assert ruvon("raise", "workflows", "--off").code == 0
    eventually(lambda: scene.look() and ruvon.status(LATE) == "FAILED_WORKER_CRASH")


@pytest.mark.covers("C12", "C13")
def test_prometheus_metrics_count_detected_recovered_and_detection_time(scene):
    labels = {"watch": "workflows", "database": "main"}
    seen = wait_scrape(scene.web, lambda s: s.get("defib_recovered_total", **labels) > ZOMBIES)
    recovered = seen.get("defib_recovered_total", **labels)
    assert recovered in (ZOMBIES + 1, ZOMBIES + 2), "one of them of another test"
    assert seen.get("defib_stuck_detected_total", **labels) == recovered
    assert seen.get("defib_detection_seconds_count", **labels) == recovered
    assert seen.get("defib_detection_seconds_sum", **labels) / recovered > 300


@pytest.mark.covers("C12", "C13")
def test_the_documents_own_metric_names_have_the_same_numbers(scene):
    """Its dashboard divides recovered by detected, which have the same labels for that."""
    labels = {"watch": "workflows", "database": "main"}
    scrape = wait_scrape(scene.web, lambda s: s.get("ruvon_zombies_recovered_total", **labels))
    for own, name in (("stuck_detected_total", "zombies_detected_total"),
                      ("recovered_total", "zombies_recovered_total"),
                      ("detection_seconds_sum", "zombie_detection_seconds_sum"),
                      ("detection_seconds_count", "zombie_detection_seconds_count")):
        assert scrape.all(f"ruvon_{name}", **labels) == {
            frozenset(labels.items()): scrape.get(f"defib_{own}", **labels)}
    assert promtool("check", "metrics", stdin=scene.web.get("/metrics").text) == ""


@pytest.mark.covers("C8", "C10", "C12")
@pytest.mark.parametrize("rule", ["recovered_many", "recovered_fast", "detection_slow",
                                  "retries_exhausted", "false_positives"])
def test_alerts_fire_on_the_documents_thresholds(scene, rule):
    """More than 10 an hour, above 0.1 a second, detection above 300 s, three retries in vain,
    and above 5 % of mistakes; each is told to the log where nothing else is configured."""
    eventually(lambda: scene.daemon.lines("alert", rule=rule, status="firing"))
    assert rule in scene.ruvon("alert", "list").out
