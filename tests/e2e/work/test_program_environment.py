# SPDX-License-Identifier: Apache-2.0
"""Programs that defib starts for users (jobs, steps, undos, teardowns, alert commands) have a clean
environment: no URL, password or token of defib itself unless the configuration names it.
"""

import pytest

from harness.await_program import tools
from harness.daemon import Daemon
from harness.job_table import add_job, config, make_jobs
from harness.waiting import eventually

SECRETS = {"DEFIB_DB": "sqlite:not-yours.db", "DATABASE_URL": "postgres://u:pw@h/d",
           "PGPASSWORD": "pw", "PGUSER": "u", "ADMIN_TOKEN": "t" * 32, "PAGERDUTY_KEY": "key",
           "TZ": "Europe/Vienna", "LC_ALL": "C.UTF-8", "USER": "anna"}
OPEN = {"HOME", "PATH", "TZ", "LC_ALL", "USER"}
SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}  # what /bin/sh itself sets
DUMP = "env >{}"
PLAIN = {name: value for name, value in SECRETS.items() if name != "DEFIB_DB"}


def environment(path):
    eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def foreign(seen):
    """Names that are neither open to all, the shell's, nor facts of the job or the message."""
    return {name for name in seen if name not in OPEN | SHELL and
            not name.startswith(("DEFIB_JOB", "DEFIB_ALERT_"))} - {
        "DEFIB_EPOCH", "DEFIB_ATTEMPT", "DEFIB_MAX_ATTEMPTS", "DEFIB_QUEUE", "DEFIB_KIND",
        "DEFIB_STEP", "DEFIB_WORKER", "DEFIB_RESULT_FD", "DEFIB_PROGRESS_FD", "DEFIB_WORKFLOW",
        "DEFIB_UNDO", "DEFIB_TOKEN"}


def test_a_job_of_the_queue_finds_nothing_of_defibs_own(queue):
    queue.enqueue()
    worker = queue.work("--drain", run=DUMP.format("out"), env=SECRETS, wait=False)
    assert worker.wait() == 0, worker.log
    seen = environment(queue.program.dir / "out")
    assert foreign(seen) == set()
    assert seen["TZ"] == "Europe/Vienna" and seen["PATH"] == f"/usr/bin:/bin:{tools()}"


def test_what_the_command_line_names_is_passed_on(queue):
    queue.enqueue()
    worker = queue.work("--drain", "--pass-environment", "DATABASE_URL", "--pass-environment",
                        "MODE=a b$c", "--pass-environment", "NOT_THERE",
                        run=DUMP.format("out"), env=SECRETS, wait=False)
    assert worker.wait() == 0, worker.log
    seen = environment(queue.program.dir / "out")
    assert "variables of this worker are not passed on to its programs names=" in worker.log
    assert "PGUSER" in worker.log and "PGPASSWORD" in worker.log
    assert foreign(seen) == {"DATABASE_URL", "MODE"}
    assert seen["DATABASE_URL"] == SECRETS["DATABASE_URL"] and seen["MODE"] == "a b$c"
    assert "a variable for programs is not set name=NOT_THERE" in worker.log


def test_a_worker_says_which_variables_of_the_database_it_keeps(queue):
    """A program of psql's kind would quietly work on another database."""
    env = {"PGHOST": "elsewhere", "PGPORT": "1", "PGDATABASE": "jobs"}
    def said(*options, run="true"):
        worker = queue.work("--drain", *options, run=run, env=env, wait=False)
        assert worker.wait() == 0, worker.log
        return [line.split("names=")[1] for line in worker.log.splitlines() if "names=" in line]
    line, = said()
    assert all(name in line for name in env) and "pass_environment" in line
    line, = said("--pass-environment", "PGHOST", "--pass-environment", "PGPORT=2")
    assert "PGDATABASE" in line and "PGHOST" not in line and "PGPORT" not in line
    assert not said(*(word for name in env for word in ("--pass-environment", name)))


def test_a_name_that_is_none_is_refused(queue):
    ran = queue.program("work", "--db", queue.url, "--pass-environment", "PG*", "--", "true")
    assert ran.code == 2 and "--pass-environment" in ran.err


TABLE = """
databases:
  - name: main
    url: {url}
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
    every: 300ms
    requeue: status = 'queued'
    work:
      ready: status = 'queued'
      claim: status = 'running', beat_at = :now
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
      poll: 50ms
      {passed}
      command: [/bin/sh, -c, 'env >out.tmp && mv out.tmp out']
http: {{tokens: [{{name: anna, role: admin, env: ADMIN_TOKEN}}]}}
"""


@pytest.mark.parametrize("how", ["work", "daemon", "force"])
@pytest.mark.parametrize("named", [False, True])
def test_a_row_of_a_table_gets_what_its_watch_names(lite, defib, how, named):
    lite.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, beat_at text)")
    lite.sql("INSERT INTO jobs VALUES (1, 'queued', '2020-01-01 00:00:00')")
    assert defib("init", db=lite).code == 0
    text = TABLE.format(url=lite.url,
                        passed="pass_environment: [PGPASSWORD, 'LIMIT=3']" if named else "")
    out = defib.dir / "out"
    if how == "daemon":
        daemon = Daemon(defib, text, "--work", env=PLAIN)
        try:
            seen = environment(out)
        finally:
            assert daemon.stop() == 0
    else:
        args = ["work", "jobs", "--drain"] if how == "work" else [
            "force", "jobs", "--action", "force", "--yes"]
        ran = defib(*args, config=text, env=PLAIN)
        assert ran.code == 0, ran.err
        seen = environment(out)
    assert foreign(seen) == ({"PGPASSWORD", "LIMIT"} if named else set())
    if named:
        assert (seen["PGPASSWORD"], seen["LIMIT"]) == ("pw", "3")


SAGA = """
databases:
  - {{name: main, url: "{url}"}}
workflows:
  - name: order
    saga: true
    {passed}
    steps:
      - {{name: reserve, run: [/bin/sh, -c, 'env >ran'], undo: [/bin/sh, -c, 'env >undone']}}
      - {{name: ship, run: [/bin/sh, -c, 'exit 65']}}
"""


@pytest.mark.parametrize("named", [False, True])
def test_steps_and_undos_get_what_their_workflow_names(queue, defib, named):
    job = queue.enqueue(kind="order")
    text = SAGA.format(url=queue.url, passed="pass_environment: PAGERDUTY_KEY" if named else "")
    ran = defib("work", "--drain", config=text, env=PLAIN)
    assert ran.code == 0, ran.err
    assert queue.state(job) == "rolled_back"
    for which in ("ran", "undone"):
        seen = environment(defib.dir / which)
        assert foreign(seen) == ({"PAGERDUTY_KEY"} if named else set()), which


@pytest.mark.parametrize("named", [False, True])
def test_an_alert_command_has_no_token_of_ours(lite, defib, named):
    make_jobs(lite)
    add_job(lite, 1, "running", 120, attempts=0)
    out = defib.dir / "alert"
    passed = ", pass_environment: [PAGERDUTY_KEY]" if named else ""
    text = config(lite) + (
        "http: {tokens: [{name: anna, role: admin, env: ADMIN_TOKEN}]}\n"
        f"sinks: [{{name: run, type: command, run: [/bin/sh, -c, 'env >{out}']{passed}}}]\n")
    ran = defib("alert", "test", "--sink", "run", config=text, env=PLAIN)
    assert ran.code == 0, ran.err
    seen = environment(out)
    assert foreign(seen) == ({"PAGERDUTY_KEY"} if named else set())
    assert seen["DEFIB_ALERT_STATUS"]


def test_a_wrapped_program_keeps_its_environment_without_tokens_of_ours(pg, defib):
    make_jobs(pg)
    assert defib("init", db=pg).code == 0
    text = config(pg) + "http: {tokens: [{name: anna, role: admin, env: ADMIN_TOKEN}]}\n"
    assert defib("attach", "jobs", "--yes", config=text).code == 0
    env = {name: value for name, value in PLAIN.items() if not name.startswith("PG")}
    ran = defib("run", "--watch", "jobs", "--", "/bin/sh", "-c", "env", config=text, env=env)
    assert ran.code == 0, ran.err
    assert f"DATABASE_URL={SECRETS['DATABASE_URL']}" in ran.out
    assert "ADMIN_TOKEN" not in ran.out


def test_what_a_program_is_given_is_shown_without_secrets(lite, defib):
    lite.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, beat_at text)")
    text = TABLE.format(url=lite.url, passed="pass_environment: [PGHOST, 'APP_PASSWORD=hush']")
    shown = defib("config", "show", config=text)
    assert shown.code == 0, shown.err
    assert "PGHOST" in shown.out and "APP_PASSWORD" in shown.out and "hush" not in shown.out
