# SPDX-License-Identifier: Apache-2.0
"""A role that may not create: everything works, reports what is off, and a DBA gets the SQL."""


import pytest

from harness.daemon import World
from harness.doctor_setup import config, doctor, make_jobs, role  # noqa: F401
from harness.limited_role import COUNTED, WORK, dba, stuck
from harness.waiting import eventually

OWN = ("GRANT SELECT, UPDATE ON jobs TO ROLE",)


@pytest.fixture
def jobs(pg):
    make_jobs(pg)
    stuck(pg)
    return pg


COMMANDS = (
    "scan", "list", "list --where stuck", "show jobs/1", "explain jobs 1", "status", "stats",
    "report", "ledger", "whatif jobs --stuck-after 2h", "learn", "sql jobs", "doctor",
    "scan --fix", "hold jobs/2 --yes --reason r", "release jobs/2 --yes --reason r",
    "requeue jobs/3 --yes --reason r", "fail jobs/4 --yes --reason r",
    "cancel jobs/5 --yes", "undo LAST --yes --reason r", "pause jobs --reason r", "resume jobs",
    "raise jobs --by 2 --reason r", "raise jobs --off", "work jobs --drain",
    "retry jobs/3 --yes --reason r", "status --json", "ledger verify", "alert list",
    "enqueue mail send {}", "work --queue mail --drain -- true", "prune --dry-run",
)


def run_all(pg, defib, text):
    """Every command; what each said and its exit code."""
    said = {}
    for command in COMMANDS:
        stuck(pg, 6)
        words = command.split()
        if "LAST" in words:
            batch = pg.sql("SELECT batch FROM defib.ledger ORDER BY id DESC LIMIT 1") \
                if pg.sql("SELECT to_regclass('defib.ledger')")[0][0] else []
            words[words.index("LAST")] = batch[0][0] if batch else "20260101-000000-00000000"
        ran = defib(*words, config=text)
        said[command] = (ran.code, ran.out + ran.err)
    return said


def denied(said):
    return {c: [line for line in text.splitlines() if "permission denied" in line]
            for c, (code, text) in said.items() if "permission denied" in text}


def test_every_command_runs_with_exactly_the_grants_that_init_prints(jobs, defib):
    with role(jobs) as url:
        text = config(url, work=WORK, **COUNTED)
        dba(jobs, defib, text)
        said = run_all(jobs, defib, text)
        assert denied(said) == {}
        assert {c: s for c, s in said.items() if s[0] not in (0, 1, 5)} == {}
        assert said["scan --fix"][0] == said["pause jobs --reason r"][0] == 0, said


def test_a_worker_runs_where_the_service_hides_its_wal(jobs, defib):
    """Ids of workers are kept apart over failovers by the timeline, where that can be read."""
    with role(jobs) as url:
        text = config(url, work=WORK, **COUNTED)
        dba(jobs, defib, text)
        jobs.sql("REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC")
        assert defib("enqueue", "mail", "send", config=text).code == 0
        ran = defib("work", "--queue", "mail", "--drain", "--", "true", config=text)
        assert ran.code == 0, ran.err
        assert jobs.sql("SELECT state FROM defib.job") == [("done",)]


def test_every_command_runs_with_exactly_the_grants_that_doctor_names(jobs, defib, doctor):
    """The tables belong to another role; doctor is run until it has no more findings."""
    assert defib("init", db=jobs).code == 0
    with role(jobs) as url:
        text = config(url, work=WORK, **COUNTED)
        for _ in range(6):
            fixes = [f["fix"] for f in doctor(config=text).all
                     if f["level"] != "ok" and f["fix"].startswith("GRANT ")]
            for fix in fixes:
                jobs.sql(fix)
            if not fixes:
                break
        assert doctor(config=text).troubles() == []
        said = run_all(jobs, defib, text)
        assert denied(said) == {}
        assert {c: s for c, s in said.items() if s[0] not in (0, 1, 5)} == {}


def test_a_viewer_has_enough_with_its_grants_and_can_change_nothing(jobs, defib):
    with role(jobs) as url:
        text = config(url, **COUNTED)
        dba(jobs, defib, text, "--for", "view")
        for command in COMMANDS[:COMMANDS.index("scan --fix")]:
            ran = defib(*command.split(), config=text)
            assert ran.code in (0, 1, 3) and "permission denied" not in ran.err, (command, ran.err)
        ran = defib("scan", "--fix", config=text)
        assert ran.code == 4, ran
        assert jobs.sql("SELECT status FROM jobs WHERE id = 1") == [("running",)]


def test_without_any_table_of_its_own_each_command_works_or_says_why_not(jobs, defib):
    with role(jobs, *OWN) as url:
        said = run_all(jobs, defib, config(url, work=WORK, **COUNTED))
        assert denied(said) == {}
        for command in ("scan", "list", "explain jobs 1", "stats", "scan --fix",
                        "requeue jobs/3 --yes --reason r", "sql jobs"):
            assert said[command][0] in (0, 1), (command, said[command])
        for command in ("pause jobs --reason r", "work jobs --drain"):
            code, text = said[command]
            assert code in (3, 4, 5) and "defib init --print" in text, (command, text)
            assert len(text.strip().splitlines()) <= 2, text


def test_a_schema_that_the_role_may_not_use_is_as_none(jobs, defib):
    """defib's tables are there, for others: their names alone must not fail a command."""
    assert defib("init", db=jobs).code == 0
    world = World(defib, jobs)
    try:
        with role(jobs, *OWN) as url:
            text = config(url, **COUNTED)
            said = run_all(jobs, defib, text)
            assert denied(said) == {}
            assert said["scan --fix"][0] == 0, said["scan --fix"]
            assert said["status"][0] == 4 and "may not read" in said["status"][1], said["status"]
            stuck(jobs)
            daemon = world.daemon(text)
            eventually(lambda: jobs.sql("SELECT status FROM jobs WHERE id = 1") == [("queued",)])
            assert daemon.lines("works without defib's own tables"), daemon.log
            assert daemon.stop() == 0
    finally:
        world.close()


def test_sqlite_needs_no_grants(lite, defib):
    printed = defib("init", "--print", db=lite)
    assert printed.code == 0 and "No grants are needed" in printed.out
    assert "GRANT" not in printed.out


def test_the_groups_and_the_role_of_the_grants_are_chosen(defib, tmp_path):
    text = config("postgres://anna@localhost/app")
    printed = defib("init", "--print", "--for", "view", config=text)
    assert 'TO "anna"' in printed.out and "UPDATE" not in printed.out.split("-- Grants")[1]
    other = defib("init", "--print", "--role", "my role", config=text)
    assert 'TO "my role"' in other.out and "anna" not in other.out
    wrong = defib("init", "--print", "--for", "everything", config=text)
    assert wrong.code == 2 and "view, act, daemon, work and run" in wrong.err


# The daemons come last: one that meets a server which has only just started doubts every silence.

def test_a_daemon_whose_role_may_not_create_recovers_and_says_what_is_off(jobs, defib):
    world = World(defib, jobs)
    try:
        with role(jobs, *OWN) as url:
            daemon = world.daemon(config(url, **COUNTED))
            eventually(lambda: jobs.sql("SELECT status FROM jobs WHERE id = 1") == [("queued",)])
            off, = daemon.lines("works without defib's own tables")
            assert "may not create" in off["because"] and "defib init --print" in off["next"]
            assert "pause" in off["off"] and "hold, undo and the crash budget" in off["off"]
            assert "cannot be queried" not in daemon.log, daemon.log
            status = defib("status", config=config(url, **COUNTED))
            assert status.code == 1 and "runs without them is not visible" in status.err, status.err
            assert daemon.stop() == 0
    finally:
        world.close()


def test_a_daemon_uses_the_tables_that_a_dba_made_for_its_role(jobs, defib):
    world = World(defib, jobs)
    try:
        with role(jobs) as url:
            text = config(url, **COUNTED)
            dba(jobs, defib, text)
            daemon = world.daemon(text)
            eventually(lambda: jobs.sql("SELECT status FROM jobs WHERE id = 1") == [("queued",)])
            eventually(lambda: defib("status", config=text).code == 0)
            assert jobs.sql("SELECT count(*) FROM defib.ledger")[0][0] > 0
            assert "permission denied" not in daemon.log, daemon.log
            assert daemon.stop() == 0
    finally:
        world.close()
