#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The project's rules that no compiler checks.

rooms.py [ROOT]: prints a line for each violation and exits 1 if there is one.
 - rooms: an include points to the same room or to a lower one (ranks.py)
 - purity: judge, decide, guard and pace see no database, not even through a header of ours
 - banned: the libc functions that src/base/banned.h poisons (checked twice on purpose)
 - events: names of the ledger's events occur in src/ledger/events.h, and in no other code
 - homes: one room calls a library, one file draws random numbers and sets limits of waits (HOMES)
 - engines: only store/ asks which engine a database is (store/dialect.h answers everything else)
 - sqlstates: only store/sqlstate.c knows what a SQLSTATE means
 - view: it reads no database: no header of store/, and no session
 - records: above view, only a table of fields (view/record.h) writes texts into JSON, so that a
   mask cannot be forgotten (WRITES_JSON)
 - commands: only rooms that people face name a command or an option of the program; the others name
   an advice (base/fail.h) or a refusal, which lib/advice.c and view word
 - headers: each .c file has a header of its own name (HEADERLESS)
 - names: no struct, enum or union has the tag of another one, and no static function the name of
   one in another file; gdb and grep find one thing
 - columns: lines of at most 100
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from ranks import RANK  # noqa: E402

PURE = [
    "guard/guard", "guard/brake", "guard/doubt", "guard/pace", "guard/starts",
    "life/life", "life/part", "life/silence", "life/locks", "life/lease",
    "recover/judge", "recover/decide", "worker/engine",
    "worker/job", "worker/claim_limits",
]
NOT_PURE = ("libpq-fe.h", "sqlite3.h", "pthread.h", "time.h", "sys/time.h")
READS_CLOCK = re.compile(r"\b(clock_\w+|time|gettimeofday|getrandom)\s*\(")
ENGINE = re.compile(r"\b(?:STORE_(?:POSTGRES|SQLITE)|dialect_(?:postgres|sqlite))\b")
ENGINE_MOST = 6  # mentions outside store/, tests not counted
# What may be called in one place only, and where that is.
HOMES = {
    r"PQ[a-z]\w*": "store/",
    r"sqlite3_\w+": "store/",
    r"fy_\w+": "config/",
    r"curl_\w+": "alert/",
    r"MHD_\w+": "http/",
    r"getrandom|random|rand|drand48|srand": "base/clock.c",
    r"pthread_condattr_\w+": "base/condition.h",
}
# A literal that is a SQLSTATE, by the classes that PostgreSQL and defib's functions use.
SQLSTATE = re.compile(r'"(?:0[0189ABFLPZ]|2[0-8BDF]|3[489BDF]|4[024]|5[34578]|72|F0|HV|P0|XX|DF)'
                      r'(?:[0-9A-Z]{3})?"')
SQLSTATES = "store/sqlstate.c"
READS_SQLSTATE = re.compile(r"(?:->|\.)sqlstate\b")
# view shows what others have read.
NO_DATABASE = "view"
DATABASE = re.compile(r"\bstruct (?:store|session)\b|\bdialect_exec\b")
# Who writes texts into JSON beside the renderers of records, and what that is.
JSON_TEXT = re.compile(r"\b(json_text|json_value|json_time|buf_add_json)\s*\(")
ABOVE_VIEW = ("daemon", "http", "cli")
WRITES_JSON = {
    "daemon/watch_loop.c": "what a leader stores about its watch",
    "daemon/background_acts.c": "the terms of an act, as they are stored",
    "daemon/scheduled_reports.c": "a message in the form that a sink expects",
    "http/api_act.c": "the answer around acted jobs: the call that undoes them",
    "http/api_read.c": "the answer around a page of records",
    "http/api_watches.c": "limits by kind: the members are names of kinds",
    "http/api_values.c": "problems (RFC 9457), whose text api_failed_as() masks",
    "http/event_stream.c": "what the stream itself says: a database is away, or back",
    "http/page.c": "the name of the installation, for the page",
    "cli/cmd_list.c": "an id for the next command",
    "cli/cmd_beat.c": "the protocol with a program (docs/lines.md)",
    "cli/cmd_enqueue.c": "tags that the user gave",
    "cli/demo/story.c": "the input of the demo's jobs",
}
# Who may name commands: doctor and init propose them, alert writes to on-call engineers, the rest
# shows what lower rooms found.
NAMES_COMMANDS = ("setup", "alert", "view", "daemon", "http", "cli")
COMMANDS = "cli/cli.h"
ADVICE = "lib/advice.c"
# What has no header of its own, and why.
HEADERLESS = (
    "lib/",  # implements include/defib.h; lib.h is what its files share
    "cli/cmd_", "cli/main.c",  # offers its row of COMMAND_LIST in cli.h
    "store/dialect_",  # a table that dialect.h declares
    "http/api_read.c", "http/probes.c",  # a table of routes that api.h lists
)
STATIC = re.compile(r"^static (?!inline)[^;{}()=]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)
TAG = re.compile(r"^\s*(?:static |const |typedef )*(?:struct|enum|union) (\w+)\s*\{", re.M)
COLUMNS_MOST = 100
TAB = 4

EVENTS = "ledger/events.h"
NOT_EVENTS = {("src/cli/top/model.c", "HELD")}  # heads of columns

TEXT = r'"(?:\\.|[^"\\\n])*"'
TEXTS = re.compile(rf"{TEXT}(?:\s*{TEXT})*")  # adjacent ones are one
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    """Comments and strings as blanks: line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def code_of(text):
    return COMMENT_OR_TEXT.sub(blank, text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


class House:
    def __init__(self, root):
        self.root = root
        self.src = root / "src"
        self.files = sorted(self.src.rglob("*.[ch]"))
        self.texts = {path: path.read_text(errors="replace") for path in self.files}
        self.wrong = []

    def say(self, path, line, what):
        self.wrong.append(f"{path.relative_to(self.root)}:{line}: {what}")

    def room(self, path):
        parts = path.relative_to(self.src).parts
        return parts[0] if len(parts) > 1 else None

    def includes(self, path):
        text = self.texts[path]
        for match in INCLUDE.finditer(text):
            yield line_of(text, match.start()), match.group(1) == '"', match.group(2)

    def check_rooms(self, path):
        here = self.room(path)
        if here and here not in RANK:
            return self.say(path, 1, f"'{here}' is no room of this house")
        for line, ours, name in self.includes(path):
            there = name.split("/")[0]
            if not ours or "/" not in name or there == here:
                continue
            if there not in RANK:
                self.say(path, line, f'"{name}" is in no room of this house')
            elif here and RANK[there] >= RANK[here]:
                self.say(path, line, f"{here} may not include {there}: includes point left")

    def database_seen(self, path, seen):
        """The chain of includes from `path` to a database, a thread or a clock, or None."""
        seen.add(path)
        for _, ours, name in self.includes(path):
            if name in NOT_PURE or name.startswith("store/"):
                return [name]
            header = self.src / name
            if ours and header in self.texts and header not in seen:
                chain = self.database_seen(header, seen)
                if chain:
                    return [name] + chain
        return None

    def check_purity(self):
        for stem in PURE:
            for path in (self.src / f"{stem}{end}" for end in (".c", ".h")):
                chain = self.database_seen(path, set()) if path in self.texts else None
                if chain:
                    self.say(path, 1, f"must see no database, thread or clock: {' -> '.join(chain)}")
                code = code_of(self.texts.get(path, ""))
                for match in READS_CLOCK.finditer(code):
                    self.say(path, line_of(code, match.start()),
                             f"must be told the time and chance, not ask {match.group(1)}()")

    def banned_names(self):
        text = self.texts.get(self.src / "base" / "banned.h", "")
        return re.findall(r"\w+", " ".join(re.findall(r"#pragma GCC poison (.*)", text)))

    def check_banned(self, path, names):
        if path.name == "banned.h" or not names:
            return
        code = code_of(self.texts[path])
        for match in re.finditer(rf"(?<![\w.>])({'|'.join(names)})\s*\(", code):
            self.say(path, line_of(code, match.start()), f"{match.group(1)} is banned")

    def check_homes(self, path):
        where = str(path.relative_to(self.src))
        code = code_of(self.texts[path])
        for call, home in HOMES.items():
            if where.startswith(home) or path.stem.endswith("_test"):
                continue
            for match in re.finditer(rf"(?<![\w.>])({call})\s*\(", code):
                self.say(path, line_of(code, match.start()), f"{match.group(1)}() is for {home} alone")

    def event_names(self):
        """How an event is written in code: quoted, alone or inside SQL or JSON."""
        text = self.texts.get(self.src / EVENTS, "")
        names = "|".join(re.findall(r'^#define ENTRY_\w+ "(\w+)"', text, re.M))
        return re.compile(rf"""["'](?P<name>{names})\\?["']""") if names else None

    def check_events(self, names):
        scripts = sorted((self.root / "web").rglob("*.js"))
        for path in self.files + scripts if names else []:
            if path == self.src / EVENTS or path.stem.endswith("_test"):
                continue
            text = self.texts.get(path) or path.read_text()
            for match in names.finditer(text):
                if (str(path.relative_to(self.root)), match["name"]) not in NOT_EVENTS:
                    self.say(path, line_of(text, match.start()),
                             f"the event {match['name']} is named here: ask {EVENTS}")

    def command_names(self):
        """How a text names a command of COMMAND_LIST, or an option."""
        text = self.texts.get(self.src / COMMANDS, "")
        names = "|".join(re.findall(r"X\(\w+, (?:FIRST|REST|PART), (\w+)\)", text))
        groups = "|".join(re.findall(r'X\(\w+, "(\w+)"', text))
        return re.compile(rf"\bdefib (?:(?:{groups}) )?(?:{names})\b|(?<![\w-])--[a-z][\w-]+")

    def check_commands(self, path, names):
        where = str(path.relative_to(self.src))
        room = self.room(path)
        if room is None or room in NAMES_COMMANDS or where == ADVICE or path.stem.endswith("_test"):
            return
        text = re.sub(r"/\*.*?\*/", blank, self.texts[path], flags=re.S)
        for match in TEXTS.finditer(text):
            joined = "".join(part[1:-1] for part in re.findall(TEXT, match.group(0)))
            named = names.search(joined)
            if named:
                self.say(path, line_of(text, match.start()),
                         f"names {named.group(0)}: return a code (fail_advise()), {ADVICE} words it")

    def check_columns(self, path):
        for number, line in enumerate(self.texts[path].splitlines(), 1):
            if len(line.expandtabs(TAB)) > COLUMNS_MOST:
                self.say(path, number, f"over {COLUMNS_MOST} columns")

    def check_engines(self):
        seen = [(path, line_of(code, match.start()))
                for path in self.files if self.room(path) != "store" and "_test" not in path.name
                for code in [code_of(self.texts[path])] for match in ENGINE.finditer(code)]
        if len(seen) > ENGINE_MOST:
            for path, line in seen:
                self.say(path, line, f"asks which engine it is; {ENGINE_MOST} places may, not "
                                     f"{len(seen)}: ask store/dialect.h for what it can do")

    def check_sqlstates(self, path):
        where = str(path.relative_to(self.src))
        if where == SQLSTATES or path.stem.endswith("_test"):
            return
        text = self.texts[path]
        found = list(SQLSTATE.finditer(text))
        if self.room(path) != "store":
            found += READS_SQLSTATE.finditer(text)
        for match in found:
            self.say(path, line_of(text, match.start()),
                     f"a SQLSTATE: {SQLSTATES} alone knows them, ask for the class or the reason")

    def check_records(self, path):
        where = str(path.relative_to(self.src))
        room = self.room(path)
        if path.stem.endswith("_test"):
            return
        code = code_of(self.texts[path])
        for match in DATABASE.finditer(code) if room == NO_DATABASE else ():
            self.say(path, line_of(code, match.start()),
                     f"{room} reads no database: the room that owns the table reads it")
        for line, ours, name in self.includes(path):
            if room == NO_DATABASE and ours and name.startswith("store/"):
                self.say(path, line, f"{room} reads no database, not even through {name}")
        for match in JSON_TEXT.finditer(code) if room in ABOVE_VIEW else ():
            if where not in WRITES_JSON:
                self.say(path, line_of(code, match.start()),
                         f"{match.group(1)}() here: a record is a table of fields (view/record.h), "
                         "which masks it; any other document needs its reason in WRITES_JSON")

    def check_reasons(self):
        for path in self.files:
            where = str(path.relative_to(self.src))
            if where in WRITES_JSON and not JSON_TEXT.search(code_of(self.texts[path])):
                self.say(path, 1, "writes no JSON: WRITES_JSON need not name it")

    def check_header(self, path):
        where = str(path.relative_to(self.src))
        if path.suffix != ".c" or path.stem.endswith("_test") or path.parent == self.src:
            return
        if path.with_suffix(".h") not in self.texts and not where.startswith(HEADERLESS):
            self.say(path, 1, "has no header of its own")

    def check_names(self):
        code_of_files = [(path, code_of(self.texts[path])) for path in self.files
                         if not path.stem.endswith("_test")]
        for kind, what in (TAG, "tag"), (STATIC, "static function"):
            first = {}
            for path, code in code_of_files:
                for match in kind.finditer(code):
                    other = first.setdefault(match.group(1), path)
                    if other != path:
                        self.say(path, line_of(code, match.start()), f"{match.group(1)} is also a "
                                 f"{what} in {other.relative_to(self.src)}")

    def check(self):
        names = self.banned_names()
        commands = self.command_names()
        for path in self.files:
            self.check_rooms(path)
            self.check_banned(path, names)
            self.check_homes(path)
            self.check_sqlstates(path)
            self.check_records(path)
            self.check_commands(path, commands)
            self.check_columns(path)
            self.check_header(path)
        self.check_purity()
        self.check_events(self.event_names())
        self.check_engines()
        self.check_reasons()
        self.check_names()
        return self.wrong


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    wrong = House(pathlib.Path(sys.argv[1]).resolve() if sys.argv[1:] else default).check()
    print("\n".join(wrong) or "rooms: in order")
    sys.exit(bool(wrong))


main()
