# SPDX-License-Identifier: Apache-2.0
"""Markup, formulas, chat commands and forged lines in rows, names and answers: inert in alerts,
reports, files, metrics and log. The terminal is in test_hostile_terminal.py, the page in
tests/web/hostile.mjs."""

import csv
import html.parser
import io
import json
import re

import pytest

from harness.daemon import parse_logfmt
from harness.databases import LiteDatabase
from harness.http_daemon import serving, token_env, token_section
from harness.program import Program
from harness.receivers import Receiver
from harness.waiting import eventually

MARK = "h0st1le"
HOSTILE = {
    "html": f"<script>{MARK}()</script><img src=x onerror={MARK}()>",
    "attribute": f"\" onmouseover=\"{MARK}()\" '><a href=javascript:{MARK}()>",
    "channel": f"<!channel> <!here> @everyone <https://evil.example/{MARK}|click>",
    "markdown": f"[{MARK}](https://evil.example) ![x](https://evil.example/x) `{MARK}` **b**\n# h",
    "formula": f"=HYPERLINK(\"https://evil.example/{MARK}\",\"x\")",
    "plus": f"+{MARK}|cmd!A1",
    "at": f"@SUM({MARK})",
    "minus": f"-2+3+cmd|' /C {MARK}'!A0",
    "escape": f"\x1b[2J\x1b]0;{MARK}\x07\x9b31m",
    "line": f"x\nts=2026-01-01T00:00:00.000Z level=critical msg=forged by={MARK}",
    "label": f"x\"}} 1\ndefib_{MARK}{{a=\"b",
    "bidi": f"\u202e{MARK}\u2066\u2028",
    "shell": f"$(touch {MARK}) `touch {MARK}`; touch {MARK}",
}
CONFIG = """\
databases: [{{name: main, url: 'sqlite:{path}'}}]
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    every: 500ms
    owner: owner
    kind: kind
    show: [note]
    reason: "{{owner}} had {{kind}}"
    requeue: status = 'queued', error = :reason, updated_at = :now
    hold: status = 'held'
    release: status = 'queued'
    remedies: [{{when: "id LIKE 'h%'", do: hold}}, {{do: requeue}}]
sinks:
  - {{name: hook, type: webhook, url: "http://127.0.0.1:{port}/hook"}}
  - {{name: text, type: webhook, url: "http://127.0.0.1:{port}/text", format: text}}
  - {{name: manager, type: alertmanager, url: "http://127.0.0.1:{port}"}}
  - {{name: pager, type: pagerduty, url: "http://127.0.0.1:{port}/pager", key: k3y-0123456789}}
  - {{name: program, type: command, run: [/bin/sh, -c, 'cat >>{folder}/command; env >>{folder}/command']}}
alerts:
  every: 300ms
  sinks: [hook, text, manager, pager, program, log]
  rules: [{{name: stuck_warning, above: 0}}]
http:
{tokens}"""


class Hostile(Receiver):
    """Refuses all, with words that somebody may read."""

    def record(self, path, headers, body):
        super().record(path, headers, body)
        return 400, {}, "".join(HOSTILE[name] for name in ("html", "line", "escape", "label"))


class Scene:
    def __init__(self, folder):
        self.folder = folder
        self.db = LiteDatabase(folder / "test.db")
        self.program = Program(folder)
        self.receiver = Hostile()
        self.config = CONFIG.format(path=folder / "test.db", port=self.receiver.port, folder=folder,
                                    tokens=token_section())
        self.path = folder / "defib.yaml"
        self.path.write_text(self.config)
        self.db.sql("CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT, updated_at TEXT, "
                    "owner TEXT, kind TEXT, note TEXT, error TEXT)")
        for name, text in HOSTILE.items():
            for first in ("h", ""):
                self.db.sql("INSERT INTO jobs VALUES (%s, 'running', datetime('now', '-2 hours'), "
                            "%s, %s, %s, NULL)", first + text, text, text, text)

    def run(self, *args):
        return self.program(*args, config=self.path, env=token_env())


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    own = Scene(tmp_path_factory.mktemp("scripts"))
    with serving(own.folder, own.config, env=token_env()) as web:
        own.web = web.by("admin")
        eventually(lambda: not own.db.sql("SELECT 1 FROM jobs WHERE status = 'running'"))
        for text in HOSTILE.values():
            own.web.post("/api/v1/workers", {"name": text.replace("\n", " ")[:60]})
            own.web.post(f"/api/v1/queues/{MARK}/jobs", {"kind": text, "payload": text})
            own.web.post("/api/v1/watches/queue/jobs/1/hold", {"reason": text})
        eventually(lambda: {got.path for got in own.receiver.got}
                   >= {"/hook", "/text", "/pager", "/api/v2/alerts"})
        eventually(lambda: (own.folder / "command").exists())
        eventually(lambda: own.db.sql("SELECT count(DISTINCT sink) FROM defib_delivery "
                                      "WHERE ended = 'refused'") == [(4,)])
        yield own
    own.receiver.close()
    own.db.drop()


def test_an_alert_has_no_text_of_a_row(scene):
    """Numbers, and names of the configuration, are all that leaves."""
    for got in scene.receiver.got:
        assert MARK not in got.text, got.text
    assert MARK not in (scene.folder / "command").read_text()
    said = [got.text for got in scene.receiver.got if got.path == "/text"]
    assert said and all(re.fullmatch(r"[\w (),.:;%~+/'-]+", text) for text in said), said


def test_what_a_receiver_answers_is_one_inert_line(scene):
    def listed_refusal():
        listed = scene.run("alert", "list")
        return "HTTP 400" in listed.out and listed
    listed = eventually(listed_refusal)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", listed.out)
    answers = [d["answer"] for d in scene.web.get("/api/v1/deliveries").json["deliveries"]]
    assert any(MARK in (a or "") for a in answers)
    assert not [a for a in answers if a and re.search("[\x00-\x1f\x7f]", a)]


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.words, self.tags = "", set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on") and MARK not in (value or ""), (tag, name, value)

    def handle_data(self, data):
        self.words += data


def test_a_report_is_a_page_without_anything_that_runs(scene):
    for text in (scene.run("report", "--format", "html").out,
                 scene.web.get("/api/v1/report?format=html").text):
        page = Page(text)
        assert MARK in page.words
        assert page.tags.isdisjoint({"script", "img", "a", "iframe", "link", "form", "object"})


def test_a_report_for_a_chat_calls_nobody_and_links_nowhere(scene):
    out = scene.run("report", "--format", "markdown").out
    assert MARK in out and "<" not in out and ">" not in out
    outside = re.sub(r"`[^`\n]*`", "", re.sub(r"\n```\n.*?\n```\n", "\n", out, flags=re.S))
    assert MARK not in outside or "\\" in outside
    assert not re.search(r"(?<!\\)\]\(", outside), outside
    assert "@everyone" not in outside
    headings = [line for line in out.splitlines() if line.startswith("#")]
    assert headings and not [line for line in headings if MARK in line]


def test_a_report_as_text_has_a_line_for_a_line(scene):
    out = scene.run("report").out
    assert MARK in out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]", out)
    assert not [line for line in out.splitlines() if line.startswith(("ts=", "# h"))]
    json.loads(scene.run("report", "--json").out)


def test_the_ledger_as_a_spreadsheet_computes_nothing(scene):
    got = scene.web.get("/api/v1/ledger?format=csv&limit=1000").text
    rows = list(csv.reader(io.StringIO(got, newline="")))
    assert len(rows) > 2 * len(HOSTILE) and len({len(row) for row in rows}) == 1
    cells = [cell for row in rows for cell in row]
    assert [cell for cell in cells if cell.startswith("'=HYPERLINK")]
    assert [c for c in cells if c[:1] in set("=+@\t\r")] == []
    assert [c for c in cells if c[:1] == "-" and not re.fullmatch(r"-\d+", c)] == []
    lines = scene.web.get("/api/v1/ledger?format=jsonl&limit=1000").text.strip().split("\n")
    assert len(lines) > len(HOSTILE) and all(isinstance(json.loads(line), dict) for line in lines)


METRIC = re.compile(r'(# (HELP|TYPE|UNIT|EOF).*|[a-zA-Z_:][\w:]*(\{([a-zA-Z_]\w*="(\\[\\"n]|[^"\\\n])*"'
                    r',?)*\})? [-+0-9.eEInfNa]+( \d+)?|)')


def test_no_label_adds_a_metric(scene):
    text = scene.web.get("/metrics").text
    assert text.count("\n") > 50
    assert [line for line in text.split("\n") if not METRIC.fullmatch(line)] == []
    assert f"\ndefib_{MARK}" not in text


def test_no_line_of_the_log_is_forged(scene):
    log = scene.web.daemon.log
    assert MARK in log
    for line in log.split("\n"):
        assert not line or line.startswith(("ts=", "defib")), line
        assert dict(parse_logfmt(line)).get("msg") != "forged", line
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", log)


def test_nothing_was_run(scene):
    assert not list(scene.folder.rglob(MARK))
