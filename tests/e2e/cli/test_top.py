# SPDX-License-Identifier: Apache-2.0
"""`defib top`, driven in a real terminal (tmux): what it shows, and what keys do."""

import re
import signal

import pytest

from harness import stuck_jobs
from harness.act_table import ACTOR, HOW
from harness.http_daemon import serving
from harness.terminals import Terminal
from harness.waiting import eventually

pytestmark = pytest.mark.plain
HOSTILE = "\x1b]0;owned\x07\x1b[2J größe \u202egpj"


@pytest.fixture
def top(defib, tmp_path):
    """top(config, …): the program in a terminal that ends with the test."""
    opened = []

    def start(*args, config=None, db=None, env=None, **options):
        folder = tmp_path / f"terminal{len(opened)}"
        folder.mkdir()
        argv = defib._argv(["top", "--every", "200ms", *args], db, config)
        kept = {k: v for k, v in defib._env(None).items() if k.endswith("SAN_OPTIONS")}
        opened.append(Terminal(folder, argv, {"LC_ALL": "C.UTF-8", **kept, **(env or {})},
                               **options))
        return opened[-1]
    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def stuck(db):
    """Three jobs that are stuck since hours; jobs and the configuration."""
    return fill(db)


@pytest.fixture
def lite_stuck(lite):
    return fill(lite)


def fill(db):
    stuck_jobs.make(db, 3)
    how = {**HOW, "owner": "owner", "show": "[error]"}
    return stuck_jobs.config(db, requeue=how.pop("requeue"), **how)


def statuses(db):
    return [s for s, in db.sql("SELECT status FROM jobs ORDER BY id")]


def entries(db):
    return db.sql(f"SELECT event, actor, reason FROM {stuck_jobs.ledger(db)} ORDER BY id")


@pytest.mark.covers("F10")
def test_two_tagged_jobs_are_requeued_with_a_reason_and_put_back_by_undo(top, db, stuck):
    screen = top(config=stuck)
    screen.shows("jobs/1", "jobs/2", "jobs/3", "silent 2h", "requeue")
    screen.keys("Space", "Space")
    screen.shows("2 tagged")
    screen.keys("r")
    screen.shows("requeue: reason")
    screen.keys(text="the host was lost")
    screen.keys("Enter")
    screen.shows("requeue 2 jobs of watch jobs in database main", "would be requeued", "[y/N]")
    assert statuses(db) == ["running"] * 3
    screen.keys("y")
    screen.shows("2 requeued", "u undoes it")
    assert sorted(statuses(db)) == ["queued", "queued", "running"]
    assert entries(db) == [("REQUEUED", ACTOR, "the host was lost")] * 2
    screen.keys("q")
    screen.shows("1 stuck", "by " + ACTOR)
    screen.keys("u")
    screen.shows("undo: reason")
    screen.keys("Enter")
    screen.shows("undo what was done to 2 jobs", "would be reverted")
    screen.keys("y")
    screen.shows("2 reverted")
    assert statuses(db) == ["running"] * 3
    screen.keys("q")
    screen.shows("1 stuck", "held")  # those on hold are left to a person


def test_nothing_is_changed_where_the_question_is_not_answered_with_y(top, lite, lite_stuck):
    screen = top(config=lite_stuck)
    screen.shows("jobs/1")
    for answer in ("n", "Escape", "Enter"):
        screen.keys("f")
        screen.shows("fail: reason")
        screen.keys("Enter")
        screen.shows("would be failed", "[y/N]")
        screen.keys(answer)
        screen.shows("nothing was changed", "STUCK JOB")
    assert statuses(lite) == ["running"] * 3
    assert not stuck_jobs.has_ledger(lite)


def test_jobs_of_a_killed_worker_are_seen_and_told_of(top, queue, db):
    job = queue.enqueue()
    worker = queue.work("--lease", "30s", run="sleep 600")
    eventually(lambda: queue.db.sql(
        f"SELECT 1 FROM {queue.table('job')} WHERE state = 'running'"))
    screen = top(db=db)
    screen.shows("alive", str(worker.pid))
    worker.kill()
    shift = "- interval '1 hour'" if db.engine == "postgres" else "- 3600000"
    db.sql(f"UPDATE {queue.table('worker')} SET expires_at = expires_at {shift}, "
           f"renewed_at = renewed_at {shift}")
    screen.shows("1 stuck", f"queue/{job}", "silent")
    screen.keys("Enter")
    screen.shows(f"Job queue/{job}", "Facts", "q back")
    screen.keys("q")
    screen.shows("STUCK JOB")


def test_a_filter_leaves_what_has_its_text_until_escape(top, lite_stuck):
    screen = top(config=lite_stuck)
    screen.shows("jobs/1", "jobs/2", "jobs/3")
    screen.keys("/")
    screen.keys(text="jobs/2")
    screen.until(lambda s: "jobs/2" in s and "jobs/1 " not in s and "1 stuck" in s)
    screen.keys("Enter")
    screen.shows('filter "jobs/2"')
    screen.keys("Escape")
    screen.shows("jobs/1", "jobs/2", "jobs/3")


@pytest.mark.parametrize("width, height", [(60, 20), (200, 50)])
def test_every_pane_is_there_after_a_resize(top, lite_stuck, width, height):
    screen = top(config=lite_stuck)
    screen.shows("jobs/1")
    screen.resize(width, height)
    panes = ("WATCH", "STUCK JOB", "WORKER", "jobs/3")

    def is_drawn_anew(seen):  # not only cut or filled by the terminal itself
        lines = seen.splitlines()
        return len(lines) == height and "? help" in lines[-1] and all(p in seen for p in panes)
    seen = screen.until(is_drawn_anew)
    assert max(map(len, seen.splitlines())) <= width


@pytest.mark.parametrize("env", [{"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}])
def test_hostile_text_is_shown_and_never_obeyed(top, lite, lite_stuck, env):
    lite.sql("UPDATE jobs SET error = %s, owner = %s", HOSTILE, HOSTILE)
    screen = top(config=lite_stuck, env=env, width=160)
    screen.shows("jobs/1", "?]0;owned??[2J")
    screen.keys("Enter")
    screen.shows("Facts", "?]0;owned??[2J")
    screen.keys("q", "q")
    screen.shows("ended 0")
    raw = screen.raw.read_bytes().split(b"ended $?", 1)[1]
    assert b"\x1b]0;owned" not in raw
    if env["LC_ALL"] == "C":
        assert raw.isascii()


@pytest.mark.parametrize("term, env", [("vt100", {}), ("screen-256color", {"NO_COLOR": "1"})])
def test_no_colour_is_sent_where_there_is_none_or_none_is_wanted(top, lite_stuck, term, env):
    screen = top(config=lite_stuck, term=term, env={**env, "TERM": term})
    screen.shows("jobs/1", "silent 2h")
    screen.keys("q")
    screen.shows("ended 0")
    raw = screen.raw.read_bytes().split(b"ended $?", 1)[1]
    assert not re.search(rb"\x1b\[(\d+;)*(3[0-7]|4[0-7]|9[0-7])(;\d+)*m", raw)


@pytest.mark.parametrize("how, left", [("q", "ended 0"), ("C-c", "ready:")])
def test_the_terminal_is_as_before_after_the_end(top, lite_stuck, how, left):
    screen = top(config=lite_stuck)
    screen.shows("jobs/1")
    screen.keys(how)
    screen.until(lambda s: left in s and "STUCK JOB" not in s)
    screen.keys(text="echo typed; stty -a")
    screen.keys("Enter")
    seen = screen.shows("\ntyped\n", "icanon")
    assert "-icanon" not in seen and "-echo " not in seen and "echo typed" in seen


def test_a_database_that_is_away_is_said_and_heals(top, pg, wire):
    stuck = stuck_jobs.config(wire.url(pg))
    stuck_jobs.make(pg, 3)
    screen = top(config=stuck)
    screen.shows("jobs/1", "3 stuck")
    wire.away()
    screen.shows("database unavailable", "! main:")
    screen.keys("?")
    screen.shows("Keys of defib top")
    screen.keys("q")
    wire.back()
    screen.until(lambda s: "jobs/1" in s and "3 stuck" in s and "! main" not in s)


def test_a_watch_is_paused_and_goes_on(top, lite, lite_stuck):
    screen = top(config=lite_stuck)
    screen.shows("jobs/1")
    for word, seen in (("pause", "recovery is paused"), ("resume", "recovery is resumed")):
        screen.keys("p")
        screen.shows(f"{word}: reason")
        screen.keys("Enter")
        screen.shows(f"{word} recovery of watch jobs in database main?")
        screen.keys("y")
        screen.shows(seen)
        screen.until(lambda s, on=word == "pause": ("no leader, paused" in s) == on)


def test_without_a_terminal_it_is_one_line(defib, lite_stuck):
    ran = defib("top", config=lite_stuck)
    assert ran.code == 2 and ran.out == ""
    assert "top needs a terminal" in stuck_jobs.one_line(ran)


def column(screen, title, watch):
    """The cell of a watch below a title."""
    lines = screen.splitlines()
    head = next(line for line in lines if title in line and "STATUS" in line)
    row = next(line for line in lines if line.split()[:1] == [watch])
    return row[head.index(title):].split("  ")[0].strip()


def test_waiting_the_oldest_and_the_last_hour_are_those_of_the_daemon_and_the_queue_is_in_it(
        top, lite, tmp_path, defib):
    stuck_jobs.make(lite, 2)
    assert defib("init", config=stuck_jobs.config(lite)).code == 0
    for _ in range(3):
        assert defib("enqueue", "mail", "send", "{}", config=stuck_jobs.config(lite)).code == 0
    text = stuck_jobs.config(lite) + "environment: {name: staging}\n"
    with serving(tmp_path, text) as web:
        def recorded():
            web.daemon.signal(signal.SIGHUP)
            got = web.get("/api/v1/series?watch=queue").json
            return next((v for v in reversed(got["waiting"]) if v is not None), None) == 3
        eventually(recorded)
        screen = top(config=text, width=80, height=24)
        seen = screen.shows("staging", "WAITING 1H", "queue", "█")
        assert column(seen, "WAITING", "queue") == "3"
        assert column(seen, "OLDEST WAIT", "queue").endswith("s")
        assert column(seen, "WAITING 1H", "queue").endswith("█")


@pytest.mark.parametrize("width", [80, 140])
def test_no_title_and_no_key_is_cut(top, lite, lite_stuck, width):
    seen = top(config=lite_stuck, width=width, height=24).shows("jobs/1", "STATUS")
    heads = [line for line in seen.splitlines()
             if line[2:].startswith(("WATCH", "STUCK JOB", "WORKER"))]
    assert len(heads) == 3
    assert "…" not in "".join(heads) + seen.splitlines()[-1]


@pytest.mark.covers("F14")
def test_jobs_that_nobody_starts_are_a_number_of_their_own(top, lite, tmp_path):
    stuck_jobs.make(lite, 2)
    lite.sql("UPDATE jobs SET status = 'queued'")
    text = stuck_jobs.config(lite, waiting="status = 'queued'", due_at="updated_at",
                             late_after="2s", every="300ms")
    with serving(tmp_path, text) as web:
        eventually(lambda: (web.get("/api/v1/watches/jobs").json["info"] or {}).get("unstarted") == 2)
        seen = top(config=text, width=170, height=24).shows("0 stuck, 2 not started", "NOT STARTED")
        assert column(seen, "NOT STARTED", "jobs") == "2" and column(seen, "STUCK", "jobs") == "0"
