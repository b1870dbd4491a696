# SPDX-License-Identifier: Apache-2.0
"""`defib install` and `uninstall`: the command, its refusals, and the guards of the installed
function.
"""

import contextlib
import os
import pty
import re
import subprocess
import threading

import pytest

from harness.install_gate import GATE
from harness.shell_pages import sample, shape
from harness.waiting import eventually, patience

WATCH = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: {name}
    table: jobs
    key: id
    running: {running}
    alive_at: beat
    stuck_after: 1h
    owner: owner
    every: 15m
    requeue: state = 'queued', note = :reason
    reason: freed by a test
"""
CREATE = ("CREATE TABLE jobs (id int PRIMARY KEY, state text, beat timestamptz, owner text, "
          "tries int, note text)")


def config(db, more="", name="jobs", running="state = 'running'", url=None):
    return WATCH.format(url=url or db.url, name=name, running=running) + more


def add(db, *keys, age="2 hours"):
    for n, key in enumerate(keys):
        db.sql(f"INSERT INTO jobs VALUES (%s, 'running', now() - interval '{age}' + %s * "
               "interval '1 second', 'w-1', 0)", key, n)


def functions(db):
    return db.sql("SELECT proname::text FROM pg_proc WHERE proname LIKE 'recover%'")


def states(db):
    return [s for s, in db.sql("SELECT state FROM jobs ORDER BY id")]


def recover(db, argument=""):
    return db.sql(f"SELECT defib.recover_jobs({argument})")[0][0]


@pytest.fixture
def jobs(pg):
    pg.sql(CREATE)
    return pg


def install(defib, db, *args, **options):
    ran = defib("install", "jobs", "--yes", *args, config=config(db, **options))
    assert ran.code == 0, ran.err
    return ran


@contextlib.contextmanager
def between_look_and_lock(defib, jobs):
    """What is done in it happens while the function has looked and not yet locked."""
    jobs.sql(GATE)
    install(defib, jobs, running="state = 'running' AND gate()")
    jobs.sql("SELECT pg_advisory_lock(77)")
    other, answer = jobs.connect(), []

    def call():
        with other.cursor() as cursor:
            cursor.execute("SELECT defib.recover_jobs()")
            answer.append(cursor.fetchone()[0])

    caller = threading.Thread(target=call)
    caller.start()
    try:
        eventually(lambda: jobs.sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' "
                                  "AND objid = 78 AND granted"))
        yield answer
    finally:
        jobs.sql("SELECT pg_advisory_unlock(77)")
        caller.join()
        other.close()


def ledger(db):
    return db.sql("SELECT job, event FROM defib.ledger WHERE job <> '' ORDER BY id")


@pytest.mark.covers("A13", "F4")
@pytest.mark.parametrize("change", ["beat = now()", "owner = 'w-2'", "state = 'done'"])
def test_a_row_that_changes_between_look_and_lock_is_left_alone(defib, jobs, change):
    add(jobs, 1, 2)
    with between_look_and_lock(defib, jobs) as answer:
        jobs.sql(f"UPDATE jobs SET {change} WHERE id = 1")
        as_changed = jobs.sql("SELECT * FROM jobs WHERE id = 1")
    assert answer == [1]
    assert jobs.sql("SELECT * FROM jobs WHERE id = 1") == as_changed
    assert sorted(ledger(jobs)) == [("1", "CHANGED_MEANWHILE"), ("2", "REQUEUED")]


def test_a_job_that_is_put_on_hold_between_look_and_lock_is_left_alone(defib, jobs):
    add(jobs, 1, 2)
    with between_look_and_lock(defib, jobs) as answer:
        held = defib("hold", "jobs/1", "--reason", "look first", "--yes", config=config(jobs))
        assert held.code == 0, held.err
    assert answer == [1]
    assert states(jobs) == ["running", "queued"]
    assert ledger(jobs) == [("1", "HELD"), ("1", "CHANGED_MEANWHILE"), ("2", "REQUEUED")]
    assert recover(jobs) == 0


@pytest.mark.covers("A13")
def test_a_row_that_another_transaction_has_is_skipped_without_waiting(defib, jobs):
    add(jobs, 1, 2)
    install(defib, jobs)
    other = jobs.connect()
    other.autocommit = False
    with other.cursor() as cursor:
        cursor.execute("SELECT 1 FROM jobs WHERE id = 1 FOR UPDATE")
        assert recover(jobs) == 1
    other.close()
    assert states(jobs) == ["running", "queued"]
    assert recover(jobs) == 1


@pytest.mark.covers("A13")
def test_a_sign_of_life_in_another_table_that_is_being_written_keeps_the_job(defib, jobs):
    jobs.sql("CREATE TABLE beats (job int PRIMARY KEY, at timestamptz)")
    add(jobs, 1)
    jobs.sql("INSERT INTO beats VALUES (1, now() - interval '2 hours')")
    text = config(jobs).replace("alive_at: beat",
                                "alive_at: (SELECT b.at FROM beats b WHERE b.job = t.id)")
    assert defib("install", "jobs", "--yes", config=text).code == 0
    other = jobs.connect()
    other.autocommit = False
    with other.cursor() as cursor:
        cursor.execute("UPDATE beats SET at = now()")
        assert recover(jobs) == 0
        other.rollback()
    other.close()
    assert recover(jobs) == 1


@pytest.mark.covers("A13")
def test_a_job_that_a_worker_of_ours_has_in_hand_is_left_alone(defib, jobs):
    work = ("    work: {ready: state = 'queued', claim: state = 'running', done: state = 'done', "
            "failed: state = 'failed'}\n")
    ran = defib("install", "jobs", "--dry-run", config=config(jobs, work))
    assert ran.code == 5 and "defib init" in ran.err
    install(defib, jobs, more=work)
    add(jobs, 1, 2)
    for key, state in ((1, "alive"), (2, "dead")):
        worker = jobs.sql("INSERT INTO defib.worker (name, incarnation, state) VALUES (%s, %s, %s) "
                          "RETURNING id", state, state, state)[0][0]
        jobs.sql("INSERT INTO defib.lease (watch, job, owner) VALUES ('jobs', %s, %s)", str(key),
                 worker)
    assert recover(jobs) == 1
    assert states(jobs) == ["running", "queued"]
    assert jobs.sql("SELECT job, owner IS NULL FROM defib.lease ORDER BY job") == [
        ("1", False), ("2", True)]
    assert jobs.sql("SELECT verdict, epoch FROM defib.ledger") == [("dead", 1)]


def test_a_call_takes_at_most_what_it_is_told_oldest_first(defib, jobs):
    add(jobs, 3, 2, 1)
    install(defib, jobs)
    assert recover(jobs, "2") == 2
    assert states(jobs) == ["running", "queued", "queued"]
    assert recover(jobs, "-1") == 0


def test_another_isolation_level_is_refused(defib, jobs):
    add(jobs, 1)
    install(defib, jobs)
    session = jobs.connect()
    session.set_session(isolation_level="REPEATABLE READ", autocommit=False)
    with pytest.raises(Exception, match="READ COMMITTED"), session.cursor() as cursor:
        cursor.execute("SELECT defib.recover_jobs()")
    session.close()
    assert states(jobs) == ["running"]


def test_the_ledger_names_the_database_and_its_user(defib, jobs):
    add(jobs, 1)
    install(defib, jobs)
    recover(jobs)
    assert jobs.sql("SELECT actor FROM defib.ledger") == [("database:postgres",)]


def test_unqualified_names_mean_what_they_meant_at_installation(defib, jobs):
    jobs.sql("CREATE SCHEMA app")
    jobs.sql("ALTER TABLE jobs SET SCHEMA app")
    add_config = config(jobs, url=jobs.url + "?options=-csearch_path%3Dapp")
    jobs.sql("INSERT INTO app.jobs VALUES (1, 'running', now() - interval '2 hours')")
    assert defib("install", "jobs", "--yes", config=add_config).code == 0
    assert recover(jobs) == 1


REFUSED = {
    "beating": ("    beat: 30s\n", "beat"),
    "a word about the owner": ("    owner_alive: owner IS NULL\n", "owner_alive"),
    "retry in two phases": (
        "    retry: {now: state = 'waiting', then: state = 'queued'}\n"
        "    remedies: [{do: retry}]\n    crash_budget: off\n", "then:"),
    "rollback": ("    rollback: state = 'undo'\n    remedies: [{do: rollback}]\n", "rollback"),
}


@pytest.mark.covers("A13")
@pytest.mark.parametrize("which", REFUSED)
def test_what_needs_more_than_age_is_refused_with_the_reason(defib, jobs, which):
    more, reason = REFUSED[which]
    ran = defib("install", "jobs", "--yes", config=config(jobs, more))
    assert ran.code == 5
    assert reason in ran.err and ran.err.count("\n") == 1
    assert functions(jobs) == []


def test_sqlite_is_refused_with_the_line_for_cron(defib, lite):
    lite.sql("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, beat TEXT, owner TEXT, "
             "note TEXT)")
    ran = defib("install", "jobs", "--yes", config=config(lite))
    assert ran.code == 5
    assert "*/15 * * * * defib -c" in ran.err and ran.err.count("\n") == 1
    assert defib("uninstall", "jobs", "--yes", config=config(lite)).code == 0


def test_a_name_that_postgresql_would_cut_is_refused(defib, jobs):
    name = "a" * 56
    ran = defib("install", name, "--yes", config=config(jobs, name=name))
    assert (ran.code, functions(jobs)) == (5, [])


def test_without_a_terminal_it_needs_a_yes(defib, jobs):
    ran = defib("install", "jobs", config=config(jobs))
    assert ran.code == 5 and "--yes" in ran.err and ran.err.count("\n") == 1
    install(defib, jobs)
    ran = defib("uninstall", "jobs", config=config(jobs))
    assert ran.code == 5 and len(functions(jobs)) == 1


@pytest.mark.parametrize("answer, code, made", [("y", 0, 1), ("n", 5, 0), ("", 5, 0)])
def test_on_a_terminal_it_asks(defib, jobs, answer, code, made):
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    child = defib.start("install", "jobs", config=config(jobs), stdin=theirs)
    said = child.communicate(timeout=patience())[1]
    os.close(ours)
    os.close(theirs)
    assert (child.returncode, len(functions(jobs))) == (code, made)
    assert 'create the function defib."recover_jobs"() in database main' in said


@pytest.mark.covers("A13")
def test_a_dry_run_prints_what_psql_can_run_and_changes_nothing(defib, jobs):
    add(jobs, 1)
    ran = defib("install", "jobs", "--dry-run", config=config(jobs))
    assert ran.code == 0, ran.err
    assert functions(jobs) == []
    assert jobs.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'defib'") == []
    psql(jobs, ran.out)
    assert recover(jobs) == 1
    ran = defib("uninstall", "jobs", "--dry-run", config=config(jobs))
    assert len(functions(jobs)) == 1
    psql(jobs, ran.out)
    assert functions(jobs) == []


def psql(db, script):
    subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", db.url], input=script, text=True,
                   check=True, capture_output=True, timeout=patience())


@pytest.mark.covers("A13")
def test_without_pg_cron_the_line_for_cron_works_as_printed(defib, jobs):
    add(jobs, 1)
    ran = install(defib, jobs)
    assert "nothing is scheduled yet" in ran.out
    line = next(x for x in ran.out.splitlines() if x.startswith("*/15 * * * * "))
    command = line.removeprefix("*/15 * * * * ").replace("\\%", "%")
    subprocess.run(["sh", "-c", command], check=True, timeout=patience())
    assert states(jobs) == ["queued"]


@pytest.mark.parametrize("every, rhythm", [
    ("10s", "* * * * *"), ("1m", "* * * * *"), ("61s", "*/2 * * * *"), ("7m", "*/10 * * * *"),
    ("31m", "0 * * * *"), ("5h", "0 */6 * * *"), ("1d", "0 0 * * *"), ("9d", "0 0 * * *")])
def test_cron_gets_the_next_rhythm_that_it_knows(defib, jobs, every, rhythm):
    assert f"\n{rhythm} psql" in install(defib, jobs, "--every", every).out


def test_the_timer_for_systemd_is_printed(defib, jobs):
    out = install(defib, jobs, "--every", "90s").out
    assert "OnUnitActiveSec=90s" in out and "\n*/2 * * * * psql" in out
    assert '-c "SELECT defib.\\"recover_jobs\\"(NULL::integer)"' in out


@pytest.mark.parametrize("begins", ["*/15 * * * * psql", "# /etc/systemd/system/"])
def test_the_page_shows_what_is_printed_without_pg_cron(defib, jobs, begins):
    shown = sample("in-database.md", begins).replace("pages", "jobs")
    out = re.sub(r"-d (['\"]).*?\1", r"-d \1postgres://app@db.example/main\1",
                 install(defib, jobs).out)
    assert shape(shown).strip() in shape(re.sub(r"^ +", "", out, flags=re.M))


@pytest.mark.parametrize("secret", ["postgres:s3cret@", "postgres@"])
def test_no_password_is_printed(defib, jobs, secret):
    url = jobs.url.replace("postgres@", secret)
    if ":" not in secret:
        url += "?password=s3cret"
    ran = defib("install", "jobs", "--yes", config=config(jobs, url=url))
    assert ran.code == 0 and "s3cret" not in ran.out + ran.err
    assert ("postgres@127" if ":" in secret else "service=defib") in ran.out


@pytest.mark.covers("A13")
def test_installing_again_changes_nothing_but_what_the_watch_says(defib, jobs):
    install(defib, jobs)
    first = jobs.sql("SELECT oid, prosrc FROM pg_proc WHERE proname = 'recover_jobs'")
    install(defib, jobs)
    assert jobs.sql("SELECT oid, prosrc FROM pg_proc WHERE proname = 'recover_jobs'") == first
    add(jobs, 1)
    text = config(jobs).replace("freed by a test", "for another reason")
    assert defib("install", "jobs", "--yes", config=text).code == 0
    recover(jobs)
    assert jobs.sql("SELECT note FROM jobs") == [("for another reason",)]
    assert len(functions(jobs)) == 1


@pytest.mark.covers("A13")
def test_uninstall_leaves_nothing_and_says_when_there_was_nothing(defib, jobs):
    install(defib, jobs)
    assert "removed" in defib("uninstall", "jobs", "--yes", config=config(jobs)).out
    assert functions(jobs) == []
    again = defib("uninstall", "jobs", "--yes", config=config(jobs))
    assert again.code == 0 and "nothing to remove" in again.out


def test_a_watch_that_is_no_longer_configured_can_be_uninstalled(defib, jobs):
    install(defib, jobs)
    ran = defib("uninstall", "jobs", "--yes", config=config(jobs, name="others"))
    assert ran.code == 0 and functions(jobs) == []


def test_names_with_quotes_and_dollars_are_only_names(defib, jobs):
    name = "it's 100% \"odd\" $sql$ $defib$ \\\\"
    yaml = "'" + name.replace("'", "''") + "'"
    add(jobs, 1)
    ran = defib("install", name, "--yes", config=config(jobs, name=yaml))
    assert ran.code == 0, ran.err
    made = functions(jobs)
    assert made == [(f"recover_{name}",)]
    quoted = made[0][0].replace('"', '""').replace("%", "%%")
    assert jobs.sql(f'SELECT defib."{quoted}"(%s)', 5) == [(1,)]
    assert jobs.sql("SELECT watch FROM defib.ledger") == [(name,)]
    line = next(x for x in ran.out.splitlines() if x.startswith("*/15 * * * * "))
    add(jobs, 2)
    subprocess.run(["sh", "-c", line.removeprefix("*/15 * * * * ").replace("\\%", "%")],
                   check=True, timeout=patience())
    assert states(jobs) == ["queued", "queued"]
    assert defib("uninstall", name, "--yes", config=config(jobs, name=yaml)).code == 0
    assert functions(jobs) == []


def test_a_role_that_may_not_is_told_so_in_one_line(defib, jobs):
    jobs.sql("CREATE ROLE guest LOGIN")
    try:
        jobs.sql("GRANT ALL ON jobs TO guest")
        text = config(jobs, url=jobs.url.replace("postgres@", "guest@"))
        ran = defib("install", "jobs", "--yes", config=text)
        assert ran.code == 4 and ran.err.count("\n") == 1
        assert "defib init" in ran.err
        assert defib("init", db=jobs).code == 0
        jobs.sql("GRANT USAGE ON SCHEMA defib TO guest")
        jobs.sql("GRANT ALL ON ALL TABLES IN SCHEMA defib TO guest")
        ran = defib("install", "jobs", "--yes", config=text)
        assert ran.code == 4 and ran.err.count("\n") == 1
        assert "the role that owns schema defib" in ran.err
    finally:
        jobs.sql("DROP OWNED BY guest")
        jobs.sql("DROP ROLE guest")


def test_bad_words_are_a_matter_of_usage(defib, jobs):
    for args in (("install", "jbs"), ("install", "jobs", "jobs"), ("uninstall",),
                 ("install", "jobs", "--every", "often")):
        assert defib(*args, "--yes", config=config(jobs)).code == 2
