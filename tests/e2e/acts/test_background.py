# SPDX-License-Identifier: Apache-2.0
"""Acts on all jobs that match, which a daemon carries out in the background at its pace: over
HTTP and from the command line, with progress, cancel and one undo, and across a restart."""

import base64
import contextlib
import os
import pty
import subprocess

import pytest

from harness import stuck_jobs
from harness.act_table import _take_terminal, _talk
from harness.http_acts import all_scanned, database
from harness.http_daemon import TOKENS, WebDaemon, serving, token_env, token_section
from harness.program import Program
from harness.waiting import eventually, patience

ALL = 230  # jobs that failed: more than a batch, and more than a burst
WATCHES = """
  - name: slow
    table: jobs
    key: id
    running: status = 'running' AND owner = 'slow'
    state: status
    alive_at: updated_at
    stuck_after: 1h
    guard: {pace: 2, burst: 5}
    requeue: status = 'queued', error = :reason
    every: 1h
"""


HUGE = 2 ** 63 - 1
# Columns of defib.act, and what no program of ours writes there.
WRONG = [("terms", text) for text in ("[1]", "[null]", "{}", "7", "[", '["state=failed",[]]')]
WRONG += [("parts", HUGE), ("parts", -1), ("done", HUGE), ("done", -HUGE), ("total", -2),
          ("others", "[]"), ("others", '{"refused":9223372036854775807}'), ("others", '{"x":"y"}'),
          ("others", '{"\\u001b[2J":1}'), ("state", "perhaps"), ("id", ""), ("id", "x" * 100000),
          ("act", "explode"), ("act", "x" * 100000), ("up_to", None), ("up_to", "!"),
          ("up_to", "x" * 100000), ("position", "e30")]


class Place:
    def __init__(self, db, program, web):
        self.db, self.program, self.web = db, program, web

    def fill(self, status="failed", owner="w1", n=ALL):
        """Exactly these jobs; returns how many."""
        self.db.sql("DELETE FROM jobs")
        stuck_jobs.fill(self.db, n)
        self.db.sql("UPDATE jobs SET status = %s, owner = %s", status, owner)
        return n

    def order(self, where=("state=failed",), act="requeue", watch="jobs", by="operator", **more):
        body = {"act": act, "background": True, "where": list(where), **more}
        return self.web.by(by).post(f"/api/v1/watches/{watch}/acts", body)

    def act(self, name, by="viewer"):
        got = self.web.by(by).get(f"/api/v1/acts/{name}")
        assert got.status == 200, got.text
        return got.json

    def ended(self, name):
        eventually(lambda: self.act(name)["ended_at"])
        return self.act(name)

    def statuses(self):
        return dict(self.db.sql("SELECT status, count(*) FROM jobs GROUP BY status"))

    def entries(self, batch):
        """Of the ledger: job and event."""
        return self.db.sql(f"SELECT job, event, actor, reason FROM {stuck_jobs.ledger(self.db)} "
                           "WHERE batch LIKE %s", batch + ".%")

    def run(self, *args):
        return self.program(*args, config=self.web.daemon.config, env=token_env())


def configuration(db):
    return stuck_jobs.config(db, every="1h", state="status", hold="status = 'held'") + WATCHES


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def place(request, tmp_path_factory):
    with placed(request.param, request, tmp_path_factory) as own:
        yield own


@pytest.fixture(scope="module")
def pg_place(request, tmp_path_factory):
    with placed("postgres", request, tmp_path_factory) as own:
        yield own


@contextlib.contextmanager
def placed(engine, request, tmp_path_factory):
    db = database(engine, request, tmp_path_factory)
    folder = tmp_path_factory.mktemp("background")
    program = Program(folder)
    stuck_jobs.make(db, 0)
    assert program("init", db=db).code == 0
    try:
        with serving(folder, configuration(db), tokens=True) as web:
            eventually(lambda: all_scanned(web))
            yield Place(db, program, web)
    finally:
        db.drop()


# ---- over HTTP ----

def test_all_that_match_are_done_and_one_undo_puts_them_back(place):
    total = place.fill()
    place.db.sql("UPDATE jobs SET status = 'done' WHERE id <= 30")
    got = place.order(reason="the disk is back")
    assert got.status == 202, got.text
    assert (got.json["state"], got.json["total"], got.json["done"]) == ("waiting", total - 30, 0)
    act = place.ended(got.json["id"])
    assert (act["state"], act["done"], act["others"], act["error"]) == ("done", 200, {}, None)
    assert place.statuses() == {"queued": 200, "done": 30}
    entries = place.entries(act["id"])
    assert len({job for job, *_ in entries}) == len(entries) == 200
    assert {tuple(rest) for _, *rest in entries} == {
        ("REQUEUED", "web:operator", "the disk is back")}
    undone = place.web.by("operator").post("/api/v1/undo", {"batch": act["id"]})
    assert undone.status == 200, undone.text
    assert place.statuses() == {"failed": 200, "done": 30}


def test_nothing_that_matches_is_done_at_once(place):
    place.fill("done")
    got = place.order()
    assert got.status == 202 and (got.json["state"], got.json["total"]) == ("done", 0)


def test_jobs_that_refuse_are_counted_with_the_reason(place):
    place.fill("failed", n=20)
    place.db.sql("UPDATE jobs SET status = 'held' WHERE id <= 5")
    act = place.ended(place.order(["state=failed"], act="release").json["id"])
    assert (act["done"], act["others"]) == (0, {"refused": 15})
    assert place.act(act["id"], "operator")["refusal"] == "it is not on hold"


def test_jobs_that_come_later_are_left_alone(pg_place):
    pg_place.fill(owner="slow", n=10)
    name = pg_place.order(watch="slow").json["id"]
    stuck_jobs.fill(pg_place.db, 1, 1000)
    pg_place.db.sql("UPDATE jobs SET status = 'failed' WHERE id = 1000")
    assert pg_place.ended(name)["done"] == 10
    assert pg_place.statuses() == {"queued": 10, "failed": 1}


def test_it_goes_at_the_pace_of_the_watch_and_can_be_cancelled(pg_place):
    total = pg_place.fill(owner="slow")
    name = pg_place.order(watch="slow").json["id"]
    eventually(lambda: 0 < pg_place.act(name)["done"])
    assert pg_place.act(name)["state"] == "running"
    got = pg_place.web.by("operator").post(f"/api/v1/acts/{name}/cancel")
    assert got.status == 200 and got.json["state"] == "cancelled", got.text
    assert pg_place.statuses()["failed"] > total / 2
    again = pg_place.web.by("operator").post(f"/api/v1/acts/{name}/cancel")
    assert again.status == 409 and "has ended: cancelled" in again.detail
    # A batch that was under way is counted, and no other follows.
    eventually(lambda: pg_place.act(name)["done"] == pg_place.statuses()["queued"])
    assert len(pg_place.entries(name)) == pg_place.act(name)["done"]


def test_rows_that_no_program_of_ours_wrote_are_set_aside(place):
    """The daemon goes on with the others; nothing else in the table can be carried out."""
    place.fill(n=3)
    name = place.order(reason="as it should be").json["id"]
    place.ended(name)
    own = "defib.act" if place.db.engine == "postgres" else "defib_act"
    columns = ("id", "watch", "act", "terms", "actor", "at", "total", "up_to", "position", "parts",
               "done", "others", "state")
    good = dict(zip(columns, place.db.sql(f"SELECT {', '.join(columns)} FROM {own} WHERE id = %s",
                                          name)[0]), position=None, state="waiting", done=0)
    cursor = base64.urlsafe_b64encode(b'["slow","key",false,null,"9"]').decode().rstrip("=")
    rows = [{name: value} for name, value in WRONG] + [{"up_to": cursor}, {"position": cursor}]
    place.fill(n=3)
    for i, wrong in enumerate(rows):
        row = {**good, "id": f"20260101-000000-{i:08x}", **wrong}
        place.db.sql(f"INSERT INTO {own} ({', '.join(row)}) VALUES "
                     f"({', '.join(['%s'] * len(row))})", *row.values())
    eventually(lambda: place.db.sql(f"SELECT count(*) FROM {own} WHERE ended_at IS NULL")
               == [(0,)])
    ends = place.db.sql(f"SELECT DISTINCT state FROM {own} WHERE id LIKE '20260101-%%' OR id = ''"
                        .replace("%%", "%"))
    assert ends == [("failed",)] and place.statuses() == {"failed": 3}
    assert place.ended(place.order().json["id"])["done"] == 3
    ran = place.run("act", "status", "--json")
    assert ran.code == 0 and "row set aside" in ran.err, ran.err
    log = place.web.daemon.log
    assert log.count("is not a list of texts") == 5 + 1 and "runtime error" not in log, log


def test_while_the_watch_is_paused_it_waits(pg_place):
    pg_place.fill(n=5)
    assert pg_place.web.post("/api/v1/watches/jobs/pause", {"for": "1h"}).status == 200
    eventually(lambda: any(w["paused"] for w in pg_place.web.get("/api/v1/watches").json["watches"]
                           if w["watch"] == "jobs"))
    name = pg_place.order().json["id"]
    other = pg_place.order(["state=none"], watch="slow").json
    assert other["state"] == "done"
    assert pg_place.act(name)["state"] == "waiting"
    assert pg_place.web.post("/api/v1/watches/jobs/resume", {}).status == 200
    assert pg_place.ended(name)["done"] == 5


@pytest.mark.parametrize("body, says", [
    ({"where": []}, "where must be a list"), ({"where": None}, "background needs where"),
    ({"dry_run": True}, "background needs where"), ({"act": "end"}, "act must be"),
])
def test_an_order_that_says_too_little_is_refused(pg_place, body, says):
    body = {"act": "requeue", "background": True, "where": ["state=failed"], **body}
    body = {name: value for name, value in body.items() if value is not None}
    got = pg_place.web.post("/api/v1/watches/jobs/acts", body)
    assert got.status == 400 and says in got.detail, got.text


def test_viewers_see_how_far_it_is_and_neither_terms_nor_words(pg_place):
    pg_place.fill(n=3)
    assert pg_place.order(by="viewer").status == 403
    name = pg_place.order(reason="for anna@example.org").json["id"]
    pg_place.ended(name)
    seen, full = pg_place.act(name, "viewer"), pg_place.act(name, "operator")
    assert (seen["where"], seen["reason"], seen["done"]) == ([], None, 3)
    assert (full["where"], full["reason"]) == (["state=failed"], "for anna@example.org")
    listed = pg_place.web.by("viewer").get("/api/v1/acts").json["acts"]
    assert name in [act["id"] for act in listed] and "anna" not in str(listed)


def test_only_an_admin_overrides_the_guard(pg_place):
    pg_place.fill(n=1)
    assert pg_place.order(override_guard=True).status == 403


# ---- a daemon that is killed ----

def test_the_next_daemon_goes_on_where_the_killed_one_was(request, tmp_path_factory):
    """Every job is written once, also those of a batch that was not noted any more."""
    db = database("postgres", request, tmp_path_factory)
    program = Program(tmp_path_factory.mktemp("killed"))
    stuck_jobs.make(db, 0)
    assert program("init", db=db).code == 0
    text = configuration(db).rstrip("\n") + "\nhttp:\n" + token_section()
    daemon = WebDaemon(program, text, env=token_env())
    try:
        place = Place(db, program, daemon.web(TOKENS["admin"]))
        eventually(lambda: all_scanned(place.web))
        total = place.fill(owner="slow", n=60)
        name = place.order(watch="slow").json["id"]
        eventually(lambda: place.act(name)["done"] >= 5)
        daemon.kill()
        # As if it had died between a batch and its note.
        db.sql("UPDATE defib.act SET position = NULL, done = 0, parts = 0")
        written = len(place.entries(name))
        assert 0 < written < total
        daemon = WebDaemon(program, text, env=token_env())
        place.web = daemon.web(TOKENS["admin"])
        act = place.ended(name)
        assert (act["state"], act["done"]) == ("done", total)
        jobs = [job for job, *_ in place.entries(name)]
        assert len(jobs) == len(set(jobs)) == total
    finally:
        daemon.kill()
        db.drop()


# ---- from the command line ----

def test_the_command_orders_follows_and_undoes(pg_place):
    pg_place.fill(n=40)
    ran = pg_place.run("requeue", "--watch", "jobs", "--where", "state=failed", "--background",
                       "--yes")
    assert ran.code == 0, ran.err
    name = ran.out.strip()
    assert f"defib act status {name}" in ran.err
    ran = pg_place.run("act", "status", name, "--wait")
    assert ran.code == 0 and "40 of 40 requeued" in ran.out, ran.out + ran.err
    assert f"undo with: defib undo {name}" in ran.out
    listed = pg_place.run("act", "status", "--json").json["acts"]
    assert [act["done"] for act in listed if act["id"] == name] == [40]
    ran = pg_place.run("undo", name, "--yes")
    assert ran.code == 0 and pg_place.statuses() == {"failed": 40}, ran.err


def test_the_command_cancels(pg_place):
    pg_place.fill(owner="slow")
    name = pg_place.run("requeue", "--watch", "slow", "--all", "--background",
                        "--yes").out.strip()
    ran = pg_place.run("act", "cancel", name)
    assert ran.code == 0 and "cancelled" in ran.out, ran.err
    again = pg_place.run("act", "cancel", name)
    assert again.code == 5 and "has ended: cancelled" in again.err


def test_the_command_refuses_names_a_missing_daemon_and_an_unknown_id(pg_place, tmp_path):
    assert "--background is for all" in pg_place.run("requeue", "jobs/1", "--background",
                                                     "--yes").err
    ran = pg_place.run("act", "status", "20200101-000000-00000000")
    assert ran.code != 0 and "there is no background act" in ran.err
    lone = tmp_path / "lone.yaml"
    lone.write_text(configuration(pg_place.db).replace("name: jobs", "name: lone"))
    ran = pg_place.program("requeue", "--watch", "lone", "--all", "--background", "--yes",
                           config=lone)
    assert ran.code == 5 and "no daemon leads watch lone" in ran.err, ran.err


def test_on_a_terminal_a_bar_shows_how_far_it_is(pg_place):
    """It is paused until the bar is there: how many jobs the pace lets through at first varies."""
    web = pg_place.web
    assert web.post("/api/v1/watches/slow/pause", {"for": "1h"}).status == 200
    eventually(lambda: any(w["paused"] for w in web.get("/api/v1/watches").json["watches"]
                           if w["watch"] == "slow"))
    pg_place.fill(owner="slow", n=30)
    name = pg_place.order(watch="slow").json["id"]
    controller, terminal = pty.openpty()
    argv = pg_place.program._argv(("act", "status", name, "--wait"), None,
                                  pg_place.web.daemon.config)
    process = subprocess.Popen(argv, cwd=pg_place.program.dir,
                               env=pg_place.program._env(token_env()), stdin=terminal,
                               stdout=terminal, stderr=terminal, start_new_session=True,
                               preexec_fn=lambda: _take_terminal(terminal))
    os.close(terminal)
    shown = ""
    while "slow: [" not in shown:
        shown += os.read(controller, 4096).decode()
    assert web.post("/api/v1/watches/slow/resume", {}).status == 200
    shown += _talk(controller, "")
    assert process.wait(patience()) == 0
    os.close(controller)
    assert " of 30 requeued" in shown, shown
    assert shown.rindex("\r\033[K") > shown.rindex("slow: [")  # the bar is gone at the end
