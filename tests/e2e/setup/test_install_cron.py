# SPDX-License-Identifier: Apache-2.0
"""`defib install` with pg_cron: the real extension, in a server of its own."""


import pytest

from harness.databases import PgDatabase
from harness.pgserver import PgServer
from harness.shell_pages import sample
from harness.waiting import eventually

pytestmark = [pytest.mark.plain, pytest.mark.needs("pg_cron")]
CONFIG = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 1h
    every: {every}
    requeue: state = 'queued', note = :reason
    reason: silent for {{silent}}
"""


@pytest.fixture(scope="module")
def cron_server():
    server = PgServer({"shared_preload_libraries": "pg_cron", "cron.database_name": "cron",
                       "cron.use_background_workers": "on"})
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def cron(cron_server):
    """pg_cron lives in one database of a server, whose name is a setting."""
    database = PgDatabase(cron_server, name="cron")
    database.sql("CREATE EXTENSION pg_cron")
    database.sql("CREATE TABLE jobs (id int PRIMARY KEY, state text, beat timestamptz, note text)")
    yield database
    database.drop()


def config(db, every="30s"):
    return CONFIG.format(url=db.url, every=every)


def tasks(db):
    return db.sql("SELECT jobname, schedule, command FROM cron.job")


@pytest.mark.covers("A13")
def test_pg_cron_recovers_a_stuck_job(defib, cron):
    ran = defib("install", "jobs", "--yes", config=config(cron))
    assert ran.code == 0, ran.err
    assert "scheduled by pg_cron" in ran.out
    cron.sql("INSERT INTO jobs VALUES (1, 'running', now() - interval '2 hours'), "
             "(2, 'running', now())")
    # Debian's pg_cron counts in minutes: the wait is for the next full one.
    eventually(lambda: cron.sql("SELECT 1 FROM jobs WHERE id = 1 AND state = 'queued'"))
    assert cron.sql("SELECT note FROM jobs WHERE id = 1")[0][0].startswith("silent for 2h")
    assert cron.sql("SELECT state FROM jobs WHERE id = 2") == [("running",)]
    assert cron.sql("SELECT job, event, actor FROM defib.ledger") == [
        ("1", "REQUEUED", "database:postgres")]
    run = eventually(lambda: cron.sql("SELECT status FROM cron.job_run_details "
                                    "WHERE status IN ('succeeded', 'failed')"))
    assert run == [("succeeded",)]


def test_the_page_shows_what_is_printed_with_pg_cron(defib, cron):
    ran = defib("install", "jobs", "--yes", config=config(cron, "15m"))
    shown = sample("in-database.md", "$ defib db install").replace("pages", "jobs")
    assert ran.out.splitlines() == shown.splitlines()[2:]


@pytest.mark.covers("A13")
def test_installing_again_reschedules_the_one_task(defib, cron):
    call = 'SELECT defib."recover_jobs"(NULL::integer)'
    assert defib("install", "jobs", "--yes", config=config(cron, "15m")).code == 0
    assert tasks(cron) == [("defib recover jobs", "*/15 * * * *", call)]
    assert defib("install", "jobs", "--yes", "--every", "1h", config=config(cron, "15m")).code == 0
    assert tasks(cron) == [("defib recover jobs", "0 * * * *", call)]


def test_a_rhythm_that_pg_cron_does_not_know_is_rounded_up_and_said(defib, cron):
    ran = defib("install", "jobs", "--yes", config=config(cron, "10s"))
    known = cron.sql("SELECT extversion >= '1.5' FROM pg_extension WHERE extname = 'pg_cron'")[0][0]
    assert tasks(cron)[0][1] == ("10 seconds" if known else "* * * * *")
    assert known or "every 1m; 10s is not an interval" in ran.out


@pytest.mark.covers("A13")
def test_a_dry_run_schedules_nothing(defib, cron):
    ran = defib("install", "jobs", "--dry-run", config=config(cron))
    assert ran.code == 0 and "SELECT cron.schedule('defib recover jobs'" in ran.out
    assert tasks(cron) == []


@pytest.mark.covers("A13")
def test_uninstall_leaves_neither_task_nor_function(defib, cron):
    assert defib("install", "jobs", "--yes", config=config(cron)).code == 0
    ran = defib("uninstall", "jobs", "--yes", config=config(cron))
    assert ran.code == 0 and "unscheduled" in ran.out and "removed" in ran.out
    assert tasks(cron) == []
    assert cron.sql("SELECT 1 FROM pg_proc WHERE proname LIKE 'recover%'") == []
    assert "nothing to remove" in defib("uninstall", "jobs", "--yes", config=config(cron)).out


def test_a_role_that_may_not_use_pg_cron_is_told_so_and_nothing_is_left(defib, cron):
    assert defib("init", db=cron).code == 0
    cron.sql("CREATE ROLE guest LOGIN")
    try:
        cron.sql("GRANT ALL ON jobs TO guest")
        cron.sql("GRANT ALL ON SCHEMA defib TO guest")
        cron.sql("GRANT ALL ON ALL TABLES IN SCHEMA defib TO guest")
        ran = defib("install", "jobs", "--yes",
                    config=config(cron).replace("postgres@", "guest@"))
        assert ran.code == 4 and ran.err.count("\n") == 1
        assert "USAGE on schema cron" in ran.err
        assert cron.sql("SELECT 1 FROM pg_proc WHERE proname LIKE 'recover%'") == []
    finally:
        cron.sql("DROP OWNED BY guest")
        cron.sql("DROP ROLE guest")
