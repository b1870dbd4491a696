# SPDX-License-Identifier: Apache-2.0
"""A role with grants for one watch writes what it likes into defib's own tables. For another watch,
the daemon and those who act by hand do nothing that this role could not do itself."""

import os
import pathlib
import subprocess

import psycopg2
import pytest

from harness import stuck_jobs
from harness.http_acts import all_scanned, database
from harness.http_daemon import serving
from harness.limited_role import dba
from harness.program import Program
from harness.waiting import eventually

WATCH = """
  - name: {name}
    table: {name}
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued', owner = NULL
    attempts: attempts
    max_attempts: 3
    every: 300ms
"""


def config(url, *names):
    return (f"databases:\n  - name: main\n    url: {url}\nwatches:"
            + "".join(WATCH.format(name=name) for name in names))


def ended_process():
    """An incarnation of this host whose process has ended, as the registry writes it."""
    child = subprocess.Popen(["true"])
    child.wait()
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("pid", "time")]
    return f"{os.uname().nodename}/{boot}/{spaces[0]}/{spaces[1]}/{child.pid}/1/0123456789abcdef"


class Place:
    """Two watched tables, a daemon for both, and a role that has all grants for one of them."""

    def __init__(self, db, program, web):
        self.db, self.program, self.web = db, program, web
        self.role = f"r_{db.name}"
        self.url = db.server.url(db.name, self.role)
        self.config = program.dir / "limited.yaml"
        self.config.write_text(config(self.url, "jobs"))
        self.both = program.dir / "both.yaml"
        self.both.write_text(config(db.url, "jobs", "secrets"))

    def fill(self, age="1 minute", attempts=0):
        for table in ("jobs", "secrets"):
            self.db.sql(f"TRUNCATE {table}")
            self.db.sql(f"INSERT INTO {table} (id, status, updated_at, owner, attempts) SELECT i, "
                        f"'running', now() - interval '{age}', 'w', %s FROM generate_series(1, 2) i",
                        attempts)

    def states(self, table="secrets"):
        return [state for state, in self.db.sql(f"SELECT status FROM {table} ORDER BY id")]

    def as_role(self, text, *params):
        """As the limited role, which writes SQL of its own."""
        session = psycopg2.connect(self.url)
        try:
            with session, session.cursor() as cursor:
                cursor.execute(text, params or None)
                return cursor.rowcount
        finally:
            session.close()

    def refused(self, text, *params):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            self.as_role(text, *params)

    def passes(self):
        for watch in ("jobs", "secrets"):
            self.web.daemon.wait_passes(watch, 3)


@pytest.fixture(scope="module")
def place(request, tmp_path_factory):
    db = database("postgres", request, tmp_path_factory)
    folder = tmp_path_factory.mktemp("others")
    program = Program(folder)
    stuck_jobs.make(db, 0)
    db.sql("CREATE TABLE secrets (LIKE jobs INCLUDING ALL)")
    assert program("init", db=db).code == 0
    db.sql(f"CREATE ROLE r_{db.name} LOGIN")
    try:
        with serving(folder, config(db.url, "jobs", "secrets"), tokens=True) as web:
            own = Place(db, program, web)
            own.fill()
            for watch in ("jobs", "secrets"):
                ran = program("attach", watch, "--yes", config=own.both)
                assert ran.code == 0, ran.err
            dba(db, program, own.config.read_text(), "--for", "act,run")
            eventually(lambda: all_scanned(web))
            yield own
    finally:
        db.sql(f"DROP OWNED BY r_{db.name}; DROP ROLE r_{db.name}")
        db.drop()


@pytest.fixture(autouse=True)
def filled(place):
    place.fill()
    place.db.sql("TRUNCATE defib.claimed_by, defib.program, defib.hold")


def program_of(place, watch, application):
    gone = ended_process()
    place.as_role("INSERT INTO defib.program (application, watch, watcher, leader, command) "
                  "VALUES (%s, %s, %s, %s, 'true')", application, watch, gone, gone)


def claim(place, watch, application):
    """As the trigger on the table writes it, for a session that has ended."""
    place.db.sql("INSERT INTO defib.claimed_by (watch, job, application, pid) "
                 "VALUES (%s, '1', %s, 999999999)", watch, application)


def test_the_end_of_a_program_that_another_role_invents_recovers_nothing(place):
    """Of its own watch it does: that is what the role could write itself."""
    for watch in ("jobs", "secrets"):
        program_of(place, watch, "defib-run:invented:1")
        claim(place, watch, "defib-run:invented:1")
    eventually(lambda: place.states("jobs") == ["queued", "running"])
    place.passes()
    assert place.states() == ["running", "running"]
    line, = [line for line in place.web.daemon.lines("row set aside")
             if line["table"] == "defib.program"]
    assert "lacks" in line["because"] and "secrets" in line["because"]


def test_a_program_of_another_role_cannot_be_declared_ended(place):
    gone = ended_process()
    place.db.sql("INSERT INTO defib.program (application, watch, watcher, leader, command) "
                 "VALUES ('a', 'secrets', 'x', 'y', 'true')")
    claim(place, "secrets", "a")
    place.refused("UPDATE defib.program SET watcher = %s, leader = %s", gone, gone)
    place.refused("INSERT INTO defib.claimed_by (watch, job, application, pid) "
                  "VALUES ('secrets', '2', 'a', 999999999)")
    place.refused("UPDATE defib.claimed_by SET job = '2'")
    place.passes()
    assert place.states() == ["running", "running"]


def test_a_hold_of_another_table_is_not_lifted_or_made(place):
    """What a scan leaves alone because it is held would otherwise be requeued."""
    place.fill(age="1 day", attempts=3)
    key = "public.{} (id)"
    place.program("scan", "--fix", config=place.both)
    eventually(lambda: place.db.sql("SELECT count(*) FROM defib.hold") == [(4,)])
    assert place.as_role("UPDATE defib.hold SET reason = 'r' WHERE watch = 'jobs'") == 2
    for change in ("owner = 'other'", "sign_us = 1", "watch = 'jobs'", "table_key = %s"):
        place.refused(f"UPDATE defib.hold SET {change} WHERE watch = 'secrets'",
                      *[key.format("jobs")] * change.count("%s"))
    place.refused("UPDATE defib.hold SET table_key = %s WHERE watch = 'jobs' AND job = '1'",
                  key.format("secrets"))
    place.refused("DELETE FROM defib.hold WHERE watch = 'secrets'")
    place.refused("DELETE FROM defib.hold WHERE watch = 'secrets' AND job = '1'")
    place.refused("INSERT INTO defib.hold (table_key, watch, job, cause, batch) VALUES "
                  "(%s, 'secrets', '7', 'c', 'b')", key.format("secrets"))
    assert place.as_role("DELETE FROM defib.hold WHERE watch = 'jobs'") == 2


@pytest.mark.parametrize("name", ['"Odd (table"', 'app."x.y"', "plain"])
def test_the_table_of_a_hold_is_found_by_any_name(place, defib, name):
    place.db.sql("CREATE SCHEMA IF NOT EXISTS app; GRANT USAGE ON SCHEMA app TO PUBLIC")
    place.db.sql(f"CREATE TABLE {name} (LIKE jobs INCLUDING ALL)")
    place.db.sql(f"INSERT INTO {name} (id, status, updated_at, attempts) VALUES "
                 "(1, 'running', now() - interval '1 day', 3)")
    place.db.sql(f"GRANT SELECT, UPDATE (status, owner) ON {name} TO {place.role}")
    text = config(place.url, "one").replace("table: one", f"table: '{name}'")
    ran = defib("scan", "--fix", config=text)
    assert "1 held" in ran.out, ran.out + ran.err
    assert place.db.sql("SELECT count(*) FROM defib.hold WHERE watch = 'one'") == [(1,)]
    ran = defib("release", "one/1", "--yes", "--reason", "r", config=text)
    assert ran.code == 0, ran.out + ran.err
    assert place.db.sql("SELECT count(*) FROM defib.hold WHERE watch = 'one'") == [(0,)]
    place.db.sql(f"DROP TABLE {name}")


def test_who_only_acts_declares_no_worker_dead(place):
    """The jobs of a worker that is taken for dead are recovered."""
    place.db.sql("INSERT INTO defib.worker (name, incarnation) VALUES ('w', 'lives')")
    place.refused("UPDATE defib.worker SET state = 'dead'")
    place.refused("UPDATE defib.worker SET expires_at = now(), renewed_at = now()")
    place.refused("UPDATE defib.worker SET secret = 'x'")
    place.refused("DELETE FROM defib.worker")
    place.db.sql("DELETE FROM defib.worker")


def test_undo_writes_nothing_that_another_role_put_into_a_batch(place):
    place.fill(age="1 day")
    place.program("scan", "--fix", config=place.both)
    eventually(lambda: place.states() == ["queued", "queued"])
    batch, = {one for one, in place.db.sql("SELECT split_part(batch, '.', 1) FROM defib.ledger "
                                           "WHERE watch = 'secrets' AND event = 'REQUEUED' "
                                           "ORDER BY id DESC LIMIT 2")}
    for watch in ("secrets", "jobs"):
        place.db.sql(f"INSERT INTO {watch} (id, status, updated_at, owner) "
                     "VALUES (3, 'done', now(), 'x')")
        place.as_role(
            "SELECT true FROM defib.ledger_order FOR UPDATE; "
            "INSERT INTO defib.ledger (id, batch, watch, job, event, actor, before, after) VALUES "
            "(nextval('defib.ledger_id'), %s, %s, '3', 'REQUEUED', 'daemon', "
            """'{"status": "running", "owner": "w"}', '{"status": "done", "owner": "x"}')""",
            batch, watch)
    ran = place.program("undo", batch, "--yes", "--reason", "r", config=place.both)
    assert place.db.sql("SELECT id, status FROM secrets ORDER BY id") == \
        [(1, "running"), (2, "running"), (3, "done")], ran.out + ran.err
    assert f"added by role {place.role}: role {place.role} lacks" in ran.out + ran.err
    # Of its own watch, the role could have written the row itself.
    assert place.db.sql("SELECT status FROM jobs WHERE id = 3") == [("running",)]


def test_a_daemon_of_another_watch_does_not_lift_guards(place):
    place.db.sql(f"GRANT UPDATE ON defib.leader TO {place.role}")
    for watch in ("secrets", "jobs"):
        place.as_role("INSERT INTO defib.setting (watch, name, value, actor) VALUES "
                      "(%s, 'override', 'once', 'web:ada')", watch)
    eventually(lambda: place.db.sql("SELECT watch FROM defib.setting") == [("secrets",)])
    place.passes()
    assert place.db.sql("SELECT watch, role FROM defib.setting") == [("secrets", place.role)]
    used = [line["watch"] for line in place.web.daemon.lines(
        "a scan ignored its guards, as an operator ordered")]
    assert used == ["jobs"], used
    place.db.sql(f"DELETE FROM defib.setting; REVOKE UPDATE ON defib.leader FROM {place.role}")
