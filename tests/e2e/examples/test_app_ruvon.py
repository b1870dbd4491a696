# SPDX-License-Identifier: Apache-2.0
"""Ruvon (C) as a program, examples/ruvon/app: steps as Celery tasks. First the zombie of the
document, then the lines of defib that end it; real workers, killed in the middle of a step."""

import os
import signal
import subprocess
import uuid

import pytest

from harness.deployment import Host, analyze, argv_of, by_cron, put_units
from harness.program import Ran
from harness.python_apps import App
from harness.python_package import package, script  # noqa: F401
from harness.small_memory import small_memory
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain

RESERVE, PAY, SHIP = "Reserve_Inventory", "Process_Payment", "Ship_Order"
# A dead worker is silent for long enough after three seconds.
QUICK = {"HEARTBEAT_INTERVAL_SECONDS": "1", "STALE_THRESHOLD_SECONDS": "3",
         "SCAN_INTERVAL_SECONDS": "1"}


class Workflows(App):
    """Celery, the scanner and recovery_after.py, each as its own process."""

    def __init__(self, name, db, defib, script, package):  # noqa: F811
        super().__init__(name, db, defib, script)
        self.defib, self.package = defib, package
        self.config = self.dir.parent / "defib.yaml"
        self.env = {"DATABASE_URL": db.url}

    def celery(self, slots=1, **env):
        worker = self.script.module("celery", "-A", "app", "worker", "-c", slots, "-l", "INFO",
                                    "-n", f"{uuid.uuid4()}@here", folder=self.dir,
                                    **{**self.env, **env})
        worker.wait_log("ready.")
        return worker

    def recovery(self):
        """recovery_after.py as a program: resumes, and rolls back."""
        return self.script.program("recovery_after.py", folder=self.dir, **self.env)

    def start(self, hold, *words, **env):
        """A workflow that stays in this step until go_on()."""
        (self.dir / f"hold.{hold}").touch()
        return self.package.run("import runpy; runpy.run_path('app.py', run_name='__main__')",
                                *words, folder=self.dir, **{**self.env, **env}).strip()

    def go_on(self, step):
        (self.dir / f"hold.{step}").unlink()

    def effects(self, workflow):
        """The steps and undos that were begun for it."""
        return [line.split()[0] for line in self.lines("effects") if workflow in line]

    def began(self, workflow, step):
        """The process in which it is at this step."""
        def there():
            return [line for line in self.lines("effects") if line.startswith(f"{step} {workflow}")]
        return int(eventually(there)[-1].split()[2])

    def status(self, workflow):
        return self.cell("SELECT status FROM workflow_executions WHERE id = %s", workflow)

    def reaches(self, workflow, status):
        try:
            eventually(lambda: self.status(workflow) == status)
        except AssertionError:
            raise AssertionError(f"{self.status(workflow)}, not {status}: "
                                 f"{self.lines('effects')}") from None

    def silence(self, minutes=3):
        self.db.sql("UPDATE workflow_heartbeats SET last_heartbeat = now() - %s * interval '1 min'",
                    minutes)

    def __call__(self, *args):
        return self.defib(*args, config=self.config, env=self.env)

    def zombie(self, at, *words):
        """A workflow whose Celery worker was killed in this step, long ago."""
        workflow = self.start(at, *words)
        celery = self.celery()
        os.kill(self.began(workflow, at), signal.SIGKILL)
        celery.kill()
        self.go_on(at)
        self.silence()
        return workflow


@pytest.fixture
def workflows(pg, with_tables, defib, script, package):  # noqa: F811
    return Workflows("ruvon", pg, defib, script, package)


# ---- The Problem ----

def test_before_a_killed_worker_leaves_a_workflow_pending_forever(workflows):
    workflow = workflows.start(PAY)
    workflows.celery(RECOVERY="before")
    os.kill(workflows.began(workflow, PAY), signal.SIGKILL)
    workflows.db.sql("UPDATE workflow_executions SET updated_at = now() - interval '1 day'")
    # Nothing says that a worker is dead: there is no heartbeat.
    assert workflows("scan", "--fix", "--json").json["found"] == 0
    assert workflows.status(workflow) == "PENDING_ASYNC"


# ---- Heartbeat During Execution, Zombie Scanner, Automatic Recovery ----

@pytest.mark.covers("C1", "C2", "C4")
@pytest.mark.parametrize("how", ["sigkill", "oom"])
def test_after_a_step_sends_heartbeats_and_a_killed_one_is_detected(workflows, how):
    if how == "oom":
        with small_memory() as group:
            killed_by_the_kernel(workflows, group)
        return
    workflow = workflows.start(PAY)
    celery = workflows.celery()
    pid = workflows.began(workflow, PAY)
    eventually(lambda: workflows.db.sql(
        "SELECT current_step, (metadata->>'pid')::int, step_started_at IS NOT NULL "
        "FROM workflow_heartbeats") == [(PAY, pid, True)])
    assert workflows("scan", "--fix", "--json").json["found"] == 0
    os.kill(pid, signal.SIGKILL)
    celery.kill()
    detected(workflows, workflow)


def killed_by_the_kernel(workflows, group):
    """The document's case: a step that takes all memory, in a group that has little."""
    (workflows.dir / f"eat.{PAY}").touch()
    workflow = workflows.start(PAY)
    celery = workflows.celery()
    pid = workflows.began(workflow, PAY)
    (group / "cgroup.procs").write_text(str(pid))
    workflows.go_on(PAY)
    celery.wait_log("signal 9 (SIGKILL)")
    celery.kill()
    detected(workflows, workflow)


def detected(workflows, workflow):
    assert workflows.status(workflow) == "PENDING_ASYNC"
    workflows.silence()
    assert workflows("scan", "--fix", "--json").json["recovered"] == 1
    assert workflows.status(workflow) == "FAILED_WORKER_CRASH"
    (event, data), = workflows.db.sql("SELECT event_type, event_data FROM workflow_audit_log "
                                      "WHERE event_type <> 'STEP_EXECUTED'")
    assert event == "ZOMBIE_DETECTED" and data["current_step"] == PAY
    assert float(data["stale_duration_seconds"]) >= 180 and "last_heartbeat" in data
    assert workflows.cell("SELECT count(*) FROM workflow_heartbeats") == 0


@pytest.mark.covers("C1")
def test_after_all_steps_run_and_leave_no_heartbeat(workflows):
    workflow = workflows.start("nothing")
    workflows.celery()
    workflows.reaches(workflow, "COMPLETED")
    assert workflows.effects(workflow) == [RESERVE, PAY, SHIP]
    assert workflows.cell("SELECT count(*) FROM workflow_heartbeats") == 0
    assert workflows.cell("SELECT count(*) FROM workflow_audit_log") == 3


# ---- Deployment Strategies: the scanner beside Celery ----

@pytest.mark.covers("C3", "C5")
def test_the_daemon_recovers_the_dead_step_and_leaves_the_living_one(workflows):
    """In real time: silent for three seconds, with `--interval` and `--threshold` as documented."""
    workflows.env.update(QUICK, STALE_THRESHOLD_SECONDS="120")
    lives, dies = workflows.start(PAY), workflows.start(PAY)
    workflows.celery(slots=2)
    with open(workflows.dir / "daemon.log", "wb") as log:
        daemon = workflows.defib.start("daemon", "--no-queue", "--interval", "1", "--threshold", "3",
                                       "-c", workflows.config, env=workflows.env, stdout=log,
                                       stderr=log)
    try:
        workflows.began(lives, PAY)
        os.kill(workflows.began(dies, PAY), signal.SIGKILL)
        workflows.reaches(dies, "FAILED_WORKER_CRASH")
        assert workflows.status(lives) == "PENDING_ASYNC"
        workflows.go_on(PAY)
        workflows.reaches(lives, "COMPLETED")
    finally:
        daemon.terminate()
        assert daemon.wait(patience()) == 0


@pytest.mark.covers("C6")
@pytest.mark.parametrize("form", ["cron", "systemd-timer", "systemd"])
def test_what_deploy_prints_recovers_a_workflow_of_celery(workflows, form, tmp_path):
    """The line or unit as it is printed for this configuration; only its user and its environment
    file are this test's. cron and systemd themselves do not run here."""
    workflow = workflows.zombie(PAY)
    workflows.db.sql("DROP TABLE IF EXISTS jobs")
    host = Host(workflows.db, tmp_path)
    host.environment.write_text(f"DATABASE_URL='{workflows.db.url}'\n"
                                "HEARTBEAT_INTERVAL_SECONDS=1\n")
    if form == "cron":
        ran = by_cron(workflows("deploy", "cron").out, host.here, workflows.dir)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    else:
        assert workflows("deploy", form, "--output", str(tmp_path / "units")).code == 0
        units = {path.name: path.read_text() for path in (tmp_path / "units").iterdir()}
        assert analyze("verify", *put_units(tmp_path, units)) == (0, "")
        name = "defib.service" if form == "systemd" else "defib-scan.service"
        run_unit(workflows, units[name], form == "systemd", workflow)
    assert workflows.status(workflow) == "FAILED_WORKER_CRASH"


def run_unit(workflows, unit, daemon, workflow):
    env = {"PATH": "/usr/bin:/bin", "HOME": "/", "DATABASE_URL": workflows.db.url,
           "HEARTBEAT_INTERVAL_SECONDS": "1"}
    process = subprocess.Popen(argv_of(unit), env=env, cwd=workflows.dir, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if daemon:
        workflows.reaches(workflow, "FAILED_WORKER_CRASH")
        process.terminate()
    ran = Ran(process.wait(patience()), *process.communicate()[:1], "")
    assert ran.code == 0, ran.out


# ---- Recovery Workflow ----

@pytest.mark.covers("C5")
def test_option_1_a_retry_from_a_step_runs_no_finished_step_again(workflows):
    workflow = workflows.zombie(PAY)
    assert workflows("scan", "--fix", "--json").json["recovered"] == 1
    job = f"workflows/{workflow}"
    assert workflow in workflows("list", "--status", "FAILED_WORKER_CRASH").out
    shown = workflows("show", job, "--logs", "--state").out
    assert "RETRY_SCHEDULED" in shown and "r-" + workflow in shown
    # Celery has reserved the inventory: that is not run again by mistake.
    ran = workflows("retry", job, "--from-step", RESERVE, "--yes")
    assert ran.code != 0 and RESERVE in ran.err + ran.out and "--override-guard" in ran.err + ran.out
    ran = workflows("retry", job, "--from-step", PAY, "--yes")
    assert ran.code == 0, ran.err
    workflows.recovery()
    workflows.reaches(workflow, "COMPLETED")
    assert workflows.effects(workflow) == [RESERVE, PAY, PAY, SHIP]


@pytest.mark.covers("C8")
def test_option_2_an_automatic_retry_goes_on_at_the_step_that_died(workflows):
    workflow = workflows.zombie(SHIP)
    assert workflows("scan", "--fix", "--json").json["recovered"] == 1
    assert workflows.cell("SELECT extract(epoch FROM due_at - at)::int FROM defib.retry") <= 60
    workflows.db.sql("UPDATE defib.retry SET due_at = now()")
    workflows.recovery()
    workflows.reaches(workflow, "COMPLETED")
    assert workflows.effects(workflow) == [RESERVE, PAY, SHIP, SHIP]


@pytest.mark.covers("C9")
def test_option_3_a_saga_undoes_what_celery_did_in_reverse_order(workflows):
    workflow = workflows.zombie(SHIP, "saga")
    assert workflows("scan", "--fix", "--json").json["recovered"] == 1
    assert workflows.status(workflow) == "FAILED"
    workflows.recovery()
    workflows.reaches(workflow, "FAILED_ROLLED_BACK")
    assert workflows.effects(workflow) == [RESERVE, PAY, SHIP, f"{PAY}.undo", f"{RESERVE}.undo"]


@pytest.mark.covers("C9")
def test_option_3_a_saga_of_which_the_finished_steps_are_not_known_is_held(workflows):
    config = workflows.config.read_text()
    assert "steps_done: current_step" in config
    workflows.config.write_text(config.replace("steps_done: current_step", ""))
    workflow = workflows.zombie(SHIP, "saga")
    workflows("scan", "--fix")
    workflows.recovery()
    eventually(lambda: "is not known" in workflows("show", f"workflows/{workflow}").out)
    assert workflows.status(workflow) == "FAILED"
    assert workflows.effects(workflow) == [RESERVE, PAY, SHIP]


# ---- False Positives ----

@pytest.mark.covers("C10", "C14")
def test_a_worker_that_was_only_paused_is_counted_and_changes_nothing(workflows):
    """The step is stopped (as by a pause of minutes), declared dead, and comes back."""
    workflow = workflows.start(PAY)
    celery = workflows.celery()
    pid = workflows.began(workflow, PAY)
    os.kill(pid, signal.SIGSTOP)
    workflows.silence()
    assert workflows("scan", "--fix", "--json").json["recovered"] == 1
    workflows.go_on(PAY)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: workflows.cell("SELECT count(*) FROM workflow_audit_log "
                                      "WHERE event_type = 'STEP_EXECUTED'") == 2)
    assert workflows.status(workflow) == "FAILED_WORKER_CRASH"
    assert workflows("scan", "--fix").code == 0
    rate = workflows("stats", "--json").json["watches"][0]["false_positives"]
    assert (rate["day"], rate["day_recovered"]) == (1, 1)
    celery.kill()
