# SPDX-License-Identifier: Apache-2.0
"""Whoever may write to defib's own tables for one watch cannot make the daemon act on another, nor
under another name, nor against a guard: the daemon checks the role that wrote the row."""

import base64
import json

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
    state: status
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued', updated_at = :now
    retry: {{now: "status = 'failed'", then: "status = 'queued'"}}
    backoff: {{base: 1m}}
    attempts: attempts
    max_attempts: 3
    every: 300ms
"""
POLICY = ("ALTER TABLE jobs ENABLE ROW LEVEL SECURITY", "CREATE POLICY own ON jobs USING (id = 1)")


def config(url, *names):
    return (f"databases:\n  - name: main\n    url: {url}\nwatches:"
            + "".join(WATCH.format(name=name) for name in names))


class Place:
    """Two tables, and a role that has the grants for acts on one of them."""

    def __init__(self, db, program, web):
        self.db, self.program, self.web, self.n = db, program, web, 0
        self.role = f"r_{db.name}"
        self.url = db.server.url(db.name, self.role)
        self.config = program.dir / "limited.yaml"
        self.config.write_text(config(self.url, "jobs"))

    def fill(self):
        for table in ("jobs", "secrets"):
            self.db.sql(f"DELETE FROM {table}")
            self.db.sql(f"INSERT INTO {table} (id, status, updated_at) SELECT i, CASE i WHEN 3 THEN "
                        "'running' ELSE 'failed' END, now() FROM generate_series(1, 3) i")

    def rows(self, table):
        return [status for status, in self.db.sql(f"SELECT status FROM {table} ORDER BY id")]

    def as_role(self, text, *params):
        """As the limited role, which writes SQL of its own."""
        session = psycopg2.connect(self.url)
        try:
            with session, session.cursor() as cursor:
                cursor.execute(text, params or None)
                return cursor.rowcount
        finally:
            session.close()

    def order(self, watch, **more):
        """What `defib requeue --background` writes, and what it would not."""
        self.n += 1
        end = json.dumps([watch, "key", False, None, "99"]).encode()
        row = {"id": f"20260101-000000-{self.n:08x}", "watch": watch, "act": "requeue",
               "terms": "[]", "actor": "web:ada", "total": 3,
               "up_to": base64.urlsafe_b64encode(end).decode().rstrip("="), **more}
        self.as_role(f"INSERT INTO defib.act ({', '.join(row)}) VALUES "
                     f"({', '.join(['%s'] * len(row))})", *row.values())
        return row["id"]

    def ended(self, name):
        got = eventually(lambda: self.db.sql("SELECT state, error, done FROM defib.act WHERE id = %s "
                                             "AND ended_at IS NOT NULL", name))
        return got[0]

    def actors(self, batch):
        return {actor for actor, in self.db.sql("SELECT actor FROM defib.ledger WHERE batch LIKE %s",
                                                batch + ".%")}


@pytest.fixture(scope="module")
def place(request, tmp_path_factory):
    db = database("postgres", request, tmp_path_factory)
    folder = tmp_path_factory.mktemp("orders")
    program = Program(folder)
    stuck_jobs.make(db, 0)
    db.sql("CREATE TABLE secrets (LIKE jobs INCLUDING ALL)")
    assert program("init", db=db).code == 0
    db.sql(f"CREATE ROLE r_{db.name} LOGIN")
    try:
        with serving(folder, config(db.url, "jobs", "secrets"), tokens=True) as web:
            own = Place(db, program, web)
            dba(db, program, own.config.read_text(), "--for", "act")
            eventually(lambda: all_scanned(web))
            yield own
    finally:
        db.sql(f"DROP OWNED BY r_{db.name}; DROP ROLE r_{db.name}")
        db.drop()


@pytest.fixture(autouse=True)
def filled(place):
    place.fill()


def test_an_act_on_a_table_that_the_role_may_not_write_ends_and_changes_nothing(place):
    state, error, done = place.ended(place.order("secrets"))
    assert (state, done) == ("failed", 0) and "lacks " in error and "secrets" in error, error
    assert place.rows("secrets") == ["failed", "failed", "running"]


def test_an_act_within_its_rights_is_done_in_its_own_name(place):
    name = place.order("jobs", state="running", done=1000, others='{"refused":7}', parts=10 ** 9)
    assert place.ended(name) == ("done", None, 2)
    assert place.rows("jobs") == ["queued", "queued", "running"]
    assert place.actors(name) == {f"database:{place.role}"}
    assert place.web.get(f"/api/v1/acts/{name}").json["actor"] == f"database:{place.role}"


def test_rights_are_checked_beyond_privileges(place):
    """Row security hides rows from the role, but not from the daemon."""
    try:
        for statement in POLICY:
            place.db.sql(statement)
        state, error, _ = place.ended(place.order("jobs"))
        assert state == "failed" and "row security" in error, error
    finally:
        place.db.sql("DROP POLICY own ON jobs; ALTER TABLE jobs DISABLE ROW LEVEL SECURITY")
    assert place.rows("jobs") == ["failed", "failed", "running"]


def test_guards_are_not_overridden_by_a_row(place):
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="override guards"):
        place.order("jobs", overrides=True)
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="ignore guards"):
        place.as_role("INSERT INTO defib.setting (watch, name, value, actor) VALUES "
                      "('secrets', 'override', 'once', 'web:ada')")
    place.as_role("INSERT INTO defib.setting (watch, name, value, actor) VALUES "
                  "('none', 'pause', '', 'web:ada')")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="ignore guards"):
        place.as_role("UPDATE defib.setting SET name = 'override'")
    assert place.db.sql("SELECT actor FROM defib.setting") == [(f"database:{place.role}",)]
    assert place.rows("jobs") == ["failed", "failed", "running"]


def test_what_another_ordered_can_be_cancelled_and_not_changed(place):
    assert place.web.post("/api/v1/watches/jobs/pause", {"for": "1h"}).status == 200
    eventually(lambda: any(w["paused"] for w in place.web.get("/api/v1/watches").json["watches"]))
    body = {"act": "requeue", "background": True, "where": ["state=failed"], "reason": "r"}
    name = place.web.by("operator").post("/api/v1/watches/jobs/acts", body).json["id"]
    for change in ("watch = 'secrets'", "overrides = true", "actor = 'x'", "role = 'x'",
                   "terms = '[]'", "done = 7", "state = 'done', ended_at = now()",
                   "state = 'cancelled', ended_at = now(), error = 'x'"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            place.as_role(f"UPDATE defib.act SET {change} WHERE id = %s", name)
    with pytest.raises(psycopg2.Error, match="in the ledger already|duplicate key"):
        place.order("jobs", id=name)
    ran = place.program("act", "cancel", name, config=place.config)
    assert ran.code == 0 and "cancelled" in ran.out, ran.err
    assert place.web.post("/api/v1/watches/jobs/resume", {}).status == 200
    assert place.rows("jobs") == ["failed", "failed", "running"]


def test_an_act_over_http_is_done_in_the_name_of_its_caller(place):
    body = {"act": "requeue", "background": True, "where": ["state=failed"], "reason": "r"}
    name = place.web.by("operator").post("/api/v1/watches/secrets/acts", body).json["id"]
    assert place.ended(name) == ("done", None, 2)
    assert place.actors(name) == {"web:operator"}
    # Nothing is added to its batch, which one undo reverts.
    with pytest.raises(psycopg2.Error, match="in the ledger already|duplicate key"):
        place.order("jobs", id=name)


def test_the_command_orders_with_the_grants_that_init_prints(place):
    ran = place.program("requeue", "--watch", "jobs", "--where", "state=failed", "--background",
                        "--yes", "--json", config=place.config)
    assert ran.code == 0, ran.err
    assert ran.json["actor"] == f"database:{place.role}"
    assert place.ended(ran.json["id"]) == ("done", None, 2)
    ran = place.program("requeue", "--watch", "jobs", "--all", "--background", "--override-guard",
                        "--yes", config=place.config)
    assert ran.code == 4 and "override guards" in ran.err and "--background" in ran.err, ran.err


def test_a_retry_is_fired_only_with_the_rights_of_the_role_that_recorded_it(place):
    """Also one that says nothing about the row that it expects."""
    for watch, job, expected in (("secrets", 1, '{"status": "failed"}'), ("secrets", 2, "{}"),
                                 ("jobs", 1, '{"status": "failed"}'), ("jobs", 2, "{}"),
                                 ("jobs", 3, None)):
        place.as_role("INSERT INTO defib.retry (watch, job, due_at, attempt, expected, batch, role) "
                      "VALUES (%s, %s, now() - interval '1 h', 1, %s, 'b', 'postgres')",
                      watch, str(job), expected)
    eventually(lambda: place.rows("jobs") == ["queued", "failed", "running"])
    for watch in ("jobs", "secrets"):
        place.web.daemon.wait_passes(watch, 2)
    assert place.rows("jobs") == ["queued", "failed", "running"]
    assert place.rows("secrets") == ["failed", "failed", "running"]
    log = [line for line in place.web.daemon.lines("row set aside")
           if line["table"] == "defib.retry"]
    assert len(log) == 4 and sum("lacks" in line["because"] for line in log) == 2, log
    place.db.sql("DELETE FROM defib.retry")
