# SPDX-License-Identifier: Apache-2.0
"""Every command shows the contents of rows, and no terminal interprets them.

One table of each engine is filled with terminal control: control sequences, direction marks, line
feeds, bytes that are not text, a megabyte. All commands that print users' text are run over it;
`defib top` has its own test (test_top.py), in a real terminal.
"""

import json
import re

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.program import Program
from harness.waiting import patience

TEXTS = {
    "escape": "\x1b[2J\x1b]0;owned\x07\x1b[31mred",
    "c1": "\x9b2J\x9d0;owned\x9c",
    "bidi": "\u202egpj.exe\u202c \u2066in\u2069 \u200f\u061c",
    "lines": "first\nsecond\r\nthird\tbell\x07 back\x08\x7f",
    "separators": "one\u2028two\u2029three",
    "long": "\x1b[31m" + "x" * 1_000_000,
    "null": "'; DROP TABLE notes; --",
}
TABLE = {
    "postgres": "CREATE TABLE notes (name text PRIMARY KEY, status text, owner text, kind text, "
                "body text, beat timestamptz, began timestamptz, error text)",
    "sqlite": "CREATE TABLE notes (name TEXT PRIMARY KEY, status TEXT, owner TEXT, kind TEXT, "
              "body TEXT, beat TEXT, began TEXT, error TEXT)",
}
PAST = {"postgres": "now() - interval '{} hours'", "sqlite": "datetime('now', '-{} hours')"}
CONFIG = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: notes
    table: notes
    key: name
    running: status NOT IN ('waits', 'failed')
    state: status
    owner: owner
    kind: kind
    text: body
    show: [body]
    alive_at: beat
    stuck_after: 1h
    started_at: began
    overdue_after: 20h
    requeue: status = 'waits', error = :reason
    fail: status = 'failed', error = :reason
    cancel: status = 'waits'
    reason: "{{owner}}: {{verdict}}"
"""
# No key is longer than an index of PostgreSQL takes.
KEY_MAX = 500

# (arguments, exit codes)
COMMANDS = [
    (("scan",), (1,)),
    (("list",), (0,)),
    (("list", "--where", "stuck", "--ids"), (0,)),
    (("stats",), (0,)),
    (("report",), (0,)),
    (("report", "--format", "markdown"), (0,)),
    (("learn",), (0, 1)),
    (("whatif", "notes", "--stuck-after", "30m"), (0,)),
    (("status",), (0, 1)),
    (("doctor",), (0, 1)),
    (("sql", "notes"), (0,)),
    (("ledger",), (0,)),
    (("requeue", "--watch", "notes", "--where", "stuck", "--dry-run"), (0,)),
    (("fail", "--watch", "notes", "--all", "--dry-run"), (0, 5, 6)),
    (("undo", "{key}", "--watch", "notes", "--dry-run"), (0, 5)),
    (("show", "{key}", "--watch", "notes", "--logs", "--state"), (0,)),
    (("explain", "notes", "{key}"), (0, 1)),
    (("cancel", "{key}", "--watch", "notes", "--dry-run"), (0, 5)),
    (("show", "queue/{job}", "--logs", "--state"), (0,)),
    (("explain", "queue/{job}"), (0, 1)),
    (("list", "--watch", "queue"), (0,)),
]
# What no output may hold: C0 but the line feed, DEL, C1, marks of direction, separators.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Notes:
    def __init__(self, db, folder):
        self.db = db
        self.program = Program(folder)
        (folder / "defib.yaml").write_text(CONFIG.format(url=db.url))
        db.sql(TABLE[db.engine])
        past = [PAST[db.engine].format(hours) for hours in (9, 12)]
        self.keys = {}
        for name, text in TEXTS.items():
            key = self.keys[name] = f"{name} {text}"[:KEY_MAX]
            # A state that is named like this is odd; so is what hides in it.
            db.sql("INSERT INTO notes VALUES (%s, %s, %s, %s, %s, " + ", ".join(past) + ", NULL)",
                   key, "runs " + text[:KEY_MAX], text[:100_000], text[:100_000], text)
        if db.engine == "sqlite":
            db.sql("INSERT INTO notes VALUES (CAST(x'6b9bff1b5b324a' AS TEXT), CAST(x'72ff1b5b31' "
                   "AS TEXT), CAST(x'c39b28' AS TEXT), 'k', CAST(x'e280ae78ff' AS TEXT), "
                   + ", ".join(past) + ", NULL)")
        assert self.program("init").code == 0
        payload = folder / "payload.json"
        payload.write_text('{"text": "\\u001b[2J\\u202e"}')
        self.job = self.program("enqueue", "q\x1b[2J\u202e", "k\x9b2J", f"@{payload}").out.strip()
        assert self.job
        # Its key and owner are in the ledger from here on.
        ran = self.program("hold", "--watch", "notes", "--where", "stuck", "--limit", "2",
                           "--reason", TEXTS["escape"] + TEXTS["bidi"], "--yes")
        assert ran.code == 0, ran.err


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def notes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    if request.param == "sqlite":
        db = LiteDatabase(folder / "notes.db")
    else:
        db = PgDatabase(request.getfixturevalue("shared_server"))
    yield Notes(db, folder)
    db.drop()


def harmless(raw, what):
    said = raw.decode("utf-8")  # also an assertion: it is text
    found = OBEYED.search(said)
    assert not found, f"{what}: {said[max(0, found.start() - 60):found.end() + 20]!r}"
    longest = max(map(len, said.splitlines()), default=0)
    assert longest < 30_000, f"{what}: a line of {longest} characters"
    return said


def run(notes, *args):
    child = notes.program.start(*args, text=False, env={"LC_ALL": "C.UTF-8"})
    out, err = child.communicate(timeout=patience())
    return child.returncode, out, err


@pytest.mark.parametrize("args, codes", COMMANDS, ids=lambda a: " ".join(map(str, a[:3])))
def test_no_terminal_obeys_what_stands_in_a_row(notes, args, codes):
    for name in TEXTS if "{key}" in args else [None]:
        given = [a.format(key=notes.keys.get(name), job=notes.job) if a[0] in "{q" else a
                 for a in args]
        code, out, err = run(notes, *given)
        assert code in codes, err
        harmless(out, f"stdout of {args} {name}")
        harmless(err, f"stderr of {args} {name}")


def documents(text):
    """One, or one a line."""
    found, text = [], text.strip()
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    return found


AS_JSON = [(args, codes) for args, codes in COMMANDS
           if args[0] != "sql" and not {"--ids", "--format"} & set(args)]


@pytest.mark.parametrize("args, codes", AS_JSON, ids=lambda a: " ".join(map(str, a[:3])))
def test_no_terminal_obeys_json_either(notes, args, codes):
    """People read it in terminals too, and a JSON parser reads the same from an escape."""
    for name in TEXTS if "{key}" in args else [None]:
        given = [a.format(key=notes.keys.get(name), job=notes.job) if a[0] in "{q" else a
                 for a in args]
        code, out, err = run(notes, *given, "--json")
        assert code in codes, err
        said = out.decode("utf-8")
        found = OBEYED.search(said)
        assert not found, f"{given}: {said[max(0, found.start() - 60):found.end() + 20]!r}"
        assert documents(said)


@pytest.mark.parametrize("args", [("scan",), ("list",), ("ledger",)], ids=lambda a: a[0])
def test_what_is_replaced_on_a_terminal_is_all_there_as_json(notes, args):
    code, out, _ = run(notes, *args, "--json")
    assert code in (0, 1)
    said = out.decode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", said)
    assert "\\u001b[2J" in said and "\\u202egpj" in said


def test_a_text_that_is_refused_is_not_obeyed_either(notes):
    for args in (("scan", TEXTS["escape"]), (TEXTS["bidi"],), ("show", TEXTS["c1"]),
                 ("list", "--where", TEXTS["lines"]), ("--color", TEXTS["escape"], "scan"),
                 ("enqueue", "q", "k", TEXTS["escape"]), (f"--{TEXTS['separators']}",)):
        code, out, err = run(notes, *args)
        assert code in (2, 5) and out == b"", (args, code, err)
        said = harmless(err, args)
        assert said.count("\n") == 1, said


def test_every_id_is_one_line_and_finds_its_job_again(notes):
    _, ids, _ = run(notes, "list", "--watch", "notes", "--ids")
    lines = harmless(ids, "ids").splitlines()
    rows = notes.db.sql("SELECT count(*) FROM notes")[0][0]
    assert len(lines) == rows
    whole = [line for line in lines if "\\ufffd" not in line and "\ufffd" not in line]
    for line in whole:
        code, out, err = run(notes, "show", line, "--raw")
        assert code == 0, (line, err)
