# SPDX-License-Identifier: Apache-2.0
"""Scheduled reports, and the report over HTTP."""

import contextlib
import datetime

import pytest

from harness.daemon import Daemon
from harness.databases import LiteDatabase
from harness.http_daemon import serving
from harness.job_table import add_job, config, make_jobs
from harness.program import Program
from harness.receivers import Receiver
from harness.waiting import eventually

NOW = datetime.datetime.now(datetime.timezone.utc)


@pytest.fixture
def receiver():
    with contextlib.closing(Receiver()) as own:
        yield own


def sending(db, receiver, report, sinks="[chat]"):
    """A configuration whose only report is the given one."""
    return config(db) + (f"sinks: [{{name: chat, type: webhook, url: '{receiver.url}'}}]\n"
                         f"reports: [{{name: weekly, {report}, sinks: {sinks}}}]\n")


def weekday(days):
    """The time of the week that was so many days ago; never a moment ahead."""
    at = NOW - datetime.timedelta(days=days, minutes=5)
    return f"at: '{at.strftime('%a').lower()} {at.strftime('%H:%M')}'"


@contextlib.contextmanager
def daemon(defib, text):
    own = Daemon(defib, text)
    try:
        yield own
    finally:
        assert own.stop() == 0


@pytest.mark.covers("A11")
def test_a_weekly_report_is_sent_once_whoever_leads_and_however_often_it_is_started(
        db, defib, receiver):
    make_jobs(db)
    add_job(db, 1, "running", 120, attempts=0)
    assert defib("scan", "--fix", config=config(db)).code == 0
    text = sending(db, receiver, weekday(0))
    with daemon(defib, text) as first, daemon(defib, text) as second:
        eventually(lambda: receiver.documents(kind="report"))
        assert first.process.poll() is None and second.process.poll() is None
    with daemon(defib, text) as third:
        third.wait_log("a report is in the outbox")
    table = "defib.delivery" if db.engine == "postgres" else "defib_delivery"
    assert db.sql(f"SELECT ended FROM {table} WHERE kind = 'report'") == [("sent",)]
    document, = receiver.documents(kind="report")
    assert document["name"] == "weekly" and document["format"] == "markdown"
    assert document["id"].startswith("report/weekly@")
    assert document["text"].startswith("# defib report, 7d to ")
    assert "`main/jobs`" in document["text"]


def test_one_that_was_missed_by_more_than_a_day_is_not_sent(lite, defib, receiver):
    make_jobs(lite)
    with daemon(defib, sending(lite, receiver, weekday(2))) as own:
        eventually(lambda: own.passes("jobs"))
    assert "a report is in the outbox" not in own.log
    assert receiver.documents(kind="report") == []


def test_a_command_gets_the_document_and_the_log_a_line(lite, defib, receiver, tmp_path):
    make_jobs(lite)
    out = tmp_path / "out"
    text = sending(lite, receiver, "every: 1d, at: '00:00', format: html", "[file, log]").replace(
        "sinks: [{", f"sinks: [{{name: file, type: command, format: text, "
        f"run: [/bin/sh, -c, 'cat >{out}']}}, {{", 1)
    with daemon(defib, text) as own:
        eventually(lambda: out.exists() and out.read_text().endswith("</html>\n"))
        eventually(lambda: own.lines("report"))
    line, = own.lines("report")
    assert line["text"].startswith("report weekly, 1d to ") and "\n" not in line["text"]


@pytest.mark.parametrize("report, said", [
    ("at: 'someday'", "not a time of the week"), ("every: 10d", "whole weeks"),
    ("every: 12h, at: '08:00'", "whole days"), ("since: 500d", "366d"),
    ("format: pdf", "pdf")])
def test_a_report_that_cannot_be_is_refused_by_the_check(lite, defib, receiver, report, said):
    ran = defib("config", "check", config=sending(lite, receiver, report))
    assert ran.code == 3 and said in ran.err, ran.err


@pytest.mark.parametrize("sink, said", [
    ("nobody", 'no sink "nobody"'), ("duty", "accepts alerts only")])
def test_sinks_that_take_no_report_are_refused_by_the_check(lite, defib, receiver, sink, said):
    text = sending(lite, receiver, weekday(0), f"[{sink}]").replace(
        "sinks: [{", "sinks: [{name: duty, type: pagerduty, key: 0123456789}, {", 1)
    ran = defib("config", "check", config=text)
    assert ran.code == 3 and said in ran.err, ran.err


# ---- over HTTP ----

@pytest.fixture(scope="module")
def web(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web")
    lite = LiteDatabase(folder / "test.db")
    make_jobs(lite)
    add_job(lite, 1, "running", 120, attempts=0, owner="somebody-abcdef")
    text = config(lite).replace("    mask: [owner]\n", "")
    assert Program(folder)("scan", "--fix", config=text).code == 0
    with serving(folder, text, tokens=True) as own:
        own.config = text
        yield own
    lite.drop()


def without_times(document):
    document.pop("from")
    document.pop("to")
    return document


def test_over_http_it_is_what_the_command_prints(web, defib):
    # What is known of near misses comes with the leader's first word.
    eventually(lambda: "near_misses\":null" not in web.get("/api/v1/report").text)
    answer = web.get("/api/v1/report")
    assert answer.headers["Content-Type"] == "application/json"
    said = defib("report", "--json", config=web.config).json
    assert without_times(answer.json) == without_times(said)
    for form, kind in (("text", "text/plain"), ("markdown", "text/markdown"),
                       ("html", "text/html")):
        answer = web.get(f"/api/v1/report?format={form}&since=30d")
        assert answer.headers["Content-Type"].startswith(kind) and "1 requeued" in answer.text
    assert "unsafe-inline" in answer.headers["Content-Security-Policy"]
    assert "script-src" not in answer.headers["Content-Security-Policy"]


def test_a_viewer_sees_no_owner_whole(web):
    path = "/api/v1/report?watch=jobs"
    assert "somebody-abcdef" in web.by("operator").get(path).text
    seen = web.by("viewer").get(path).text
    assert "somebody-abcdef" not in seen and "****abcdef" in seen


@pytest.mark.parametrize("query, status", [
    ("format=pdf", 400), ("since=never", 400), ("since=9999d", 400), ("watch=nobody", 404),
    ("database=nobody", 404), ("forms=text", 400)])
def test_bad_questions_are_problems(web, query, status):
    answer = web.get(f"/api/v1/report?{query}")
    assert (answer.status, bool(answer.detail)) == (status, True)
