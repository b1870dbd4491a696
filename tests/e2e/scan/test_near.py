# SPDX-License-Identifier: Apache-2.0
"""A rejected word is answered with the nearest known one, in one line."""

import pytest

CONFIG = """
databases: [{name: main, url: "%s"}]
watches:
  - name: pages
    table: pages
    key: id
    running: status = 'running'
    state: status
    states: {1: Processing, 2: Queued}
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued'
  - name: mails
    table: mails
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued'
sinks:
  - {name: operators, type: log}
"""

REFUSED = [
    (("scna",), "scan"),
    (("help", "explian"), "explain"),
    (("scan", "--fxi"), "--fix"),
    (("scan", "--stuck-aftr", "1h"), "--stuck-after"),
    (("--qiuet", "scan"), "--quiet"),
    (("scan", "pagse"), "pages"),
    (("scan", "--remedy", "requeu"), "requeue"),
    (("explain", "pagse", "1"), "pages"),
    (("show", "pagse/1"), "pages"),
    (("list", "--watch", "pagse"), "pages"),
    (("list", "--watch", "queeu"), "queue"),
    (("list", "--sort", "agee"), "age"),
    (("list", "--where", "stuk"), "stuck"),
    (("list", "--watch", "pages", "--where", "staet=x"), "state"),
    (("list", "--watch", "queue", "--where", "state=runing"), "running"),
    (("list", "--watch", "pages", "--where", "state=Procesing"), "Processing"),
    (("list", "--where", "verdict=silnt"), "silent"),
    (("ledger", "--event", "REQEUED"), "REQUEUED"),
    (("ledger", "prun"), "prune"),
    (("report", "--format", "htlm"), "html"),
    (("report", "pagse"), "pages"),
    (("stats", "pagse"), "pages"),
    (("learn", "pagse"), "pages"),
    (("whatif", "pagse", "--stuck-after", "1h"), "pages"),
    (("doctor", "pagse"), "pages"),
    (("status", "pagse"), "pages"),
    (("pause", "pagse"), "pages"),
    (("resume", "pagse"), "pages"),
    (("raise", "pagse", "--by", "2"), "pages"),
    (("sql", "pagse"), "pages"),
    (("install", "pagse", "--yes"), "pages"),
    (("daemon", "pagse"), "pages"),
    (("work", "pagse"), "pages"),
    (("requeue", "pagse/1", "--yes"), "pages"),
    (("undo", "--watch", "pagse", "1", "--yes"), "pages"),
    (("force", "pagse", "--action", "fail", "--yes"), "pages"),
    (("force", "pages", "--action", "fial"), "fail"),
    (("alert", "tset"), "test"),
    (("alert", "test", "--sink", "opreators"), "operators"),
    (("config", "chekc"), "check"),
    (("config", "presets", "laravle"), "laravel"),
    (("deploy", "sytemd"), "systemd"),
    (("completion", "fihs"), "fish"),
    (("scan", "--color", "alwasy"), "always"),
    (("daemon", "--log", "jsno"), "json"),
    (("scan", "--db", "mian"), "main"),
]

# (what is wrong in a configuration, the nearest)
MISSPELT = [
    ("wathces: []", "watches"),
    ("watches: [{name: a, tabel: t}]", "table"),
    ("watches: [{name: a, preset: laravle}]", "laravel"),
    ("watches: [{name: a, preset: laravel, database: mian}]", "main"),
    ("alerts: {rules: [{name: brake_hled}]}", "brake_held"),
    ("alerts: {sinks: [lgo]}", "log"),
]


@pytest.fixture
def config(lite):
    for table in ("pages", "mails"):
        lite.sql(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, status TEXT, updated_at TEXT)")
    return CONFIG % lite.url


def test_a_slip_on_the_command_line_is_answered_with_what_was_meant(defib, config):
    defib("init", config=config)
    for args, near in REFUSED:
        ran = defib(*args, config=config)
        assert (ran.code, ran.out) == (2, ""), (args, ran)
        assert len(ran.err.splitlines()) == 1, (args, ran.err)
        assert f'did you mean "{near}"?' in ran.err or f"did you mean {near}?" in ran.err, \
            (args, ran.err)


def test_a_slip_in_the_configuration_is_answered_with_what_was_meant(defib, lite):
    for text, near in MISSPELT:
        config = f'databases: [{{name: main, url: "{lite.url}"}}]\n{text}\n'
        ran = defib("config", "check", config=config)
        assert ran.code == 3, (text, ran)
        assert f'did you mean "{near}"?' in ran.err, (text, ran.err)


def test_what_is_near_to_nothing_is_answered_with_what_there_is(defib, config):
    ran = defib("config", "zzzzzz", config=config)
    assert (ran.code, ran.out) == (2, "")
    assert "there are check, show, docs, metrics, records, schemas and presets" in ran.err
