#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every text of the program that people read, as one list: file:line, origin, text.

strings.py [--all] [PATH…]   PATH is a file or a folder; without one: src, web, sql, presets
  --all    also single words and SQL

A text is a string literal that looks like prose: two words or more, and no SQL. Adjacent
literals of C are joined. The origin is the function that is called with the text, or the
member that is set to it. Unit tests are left out.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = ("src", "web", "sql", "presets")

C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
C_ORIGIN = re.compile(r"([A-Za-z_]\w*)\s*(?:=\s*|\([^()]*)$")
SQL_WORD = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|AND|OR|NOT|NULL|VALUES|SET|CREATE|"
                      r"DROP|ALTER|GRANT|CASE|WHEN|THEN|ELSE|END|ORDER BY|LIMIT|RETURNING|PRAGMA|"
                      r"BEGIN|COMMIT|JOIN|USING|AS|IN|IS|ON|EXISTS|COALESCE|LOCK|FOR|WITH|UNION)\b")
PROSE = re.compile(r"[A-Za-z][a-z'’]+[,;:.]? +(?:%\S+ +)?[A-Za-z(][a-z'’]*")
JS_BEFORE_REGEX = re.compile(r"(?:^|[(,=:\[!&|?{};+\-*%<>~^]|\b(?:return|case|typeof|in|of))\s*$")


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def of_c(text):
    """(line, origin, text) of each literal; adjacent ones are joined."""
    parts = [m for m in C_TOKEN.finditer(text) if m.group(0)[0] in '"']
    at = 0
    while at < len(parts):
        first, last = parts[at], parts[at]
        said = first.group(0)[1:-1]
        while at + 1 < len(parts):
            following = parts[at + 1]
            between = text[last.end():following.start()]
            if not re.fullmatch(r"\s*(?:PRI\w+\s*)?", between):
                break
            said += ("%" if "PRI" in between else "") + following.group(0)[1:-1]
            last, at = following, at + 1
        at += 1
        before = text[max(0, first.start() - 200):first.start()]
        if re.search(r"#\s*include\s*$", before):
            continue
        origin = C_ORIGIN.search(before)
        yield line_of(text, first.start()), origin.group(1) if origin else "", said


def js_template(text, at):
    """The text of a template literal that starts behind `at`, holes as {…}, and its end."""
    said = ""
    while at < len(text) and text[at] != "`":
        if text[at] == "\\":
            said += text[at:at + 2]
            at += 2
        elif text.startswith("${", at):
            depth, at = 1, at + 2
            while at < len(text) and depth:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
            said += "{…}"
        else:
            said += text[at]
            at += 1
    return said, at + 1


def of_js(text):
    at = 0
    while at < len(text):
        c = text[at]
        if text.startswith("//", at):
            at = (text.find("\n", at) + 1) or len(text)
        elif text.startswith("/*", at):
            at = text.find("*/", at) + 2
        elif c == "/" and JS_BEFORE_REGEX.search(text[max(0, at - 40):at]):
            literal = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/\w*").match(text, at)
            at = literal.end() if literal else at + 1
        elif c in "\"'":
            literal = re.compile(rf"{c}(?:\\.|[^{c}\\\n])*{c}").match(text, at)
            if literal:
                yield line_of(text, at), origin_js(text, at), literal.group(0)[1:-1]
            at = literal.end() if literal else at + 1
        elif c == "`":
            said, end = js_template(text, at + 1)
            yield line_of(text, at), origin_js(text, at), said
            # Texts inside a hole are texts too.
            for hole in re.finditer(r"\"([^\"\n]*)\"|'([^'\n]*)'", text[at + 1:end - 1]):
                yield line_of(text, at + hole.start()), "", hole.group(1) or hole.group(2) or ""
            at = end
        else:
            at += 1


def origin_js(text, at):
    origin = re.search(r"([A-Za-z_]\w*)\s*(?:[:=]\s*|\([^()]*)$", text[max(0, at - 200):at])
    return origin.group(1) if origin else ""


def of_html(text):
    bare = re.sub(r"<(script|style)\b.*?</\1>|<!--.*?-->",
                  lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    for m in re.finditer(r">([^<]+)<|(?:title|placeholder|aria-label|alt|content)=\"([^\"]+)\"", bare):
        said = " ".join((m.group(1) or m.group(2)).split())
        if said:
            yield line_of(text, m.start()), "html", said


def of_sql(text):
    bare = re.sub(r"--[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text,
                  flags=re.S)
    for m in re.finditer(r"'((?:[^']|'')*)'", bare):
        before = bare[max(0, m.start() - 60):m.start()].upper()
        origin = re.search(r"(RAISE\s*\w*|MESSAGE|HINT|DETAIL)[\s=(,]*(?:ABORT,\s*)?$", before)
        yield line_of(text, m.start()), origin.group(1).lower() if origin else "", m.group(1)


def of_yaml(text):
    for m in re.finditer(r"^\s*(reason|help|hint|description):\s*(.+)$", text, re.M):
        yield line_of(text, m.start(1)), m.group(1), m.group(2)


READERS = {".c": of_c, ".h": of_c, ".js": of_js, ".html": of_html, ".sql": of_sql, ".yaml": of_yaml}


def files(places):
    for place in places:
        path = pathlib.Path(place) if pathlib.Path(place).exists() else ROOT / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in READERS and not file.stem.endswith("_test"):
                yield file


def is_prose(origin, said):
    if origin.startswith(("raise", "message", "hint", "detail", "help", "html")):
        return True
    return bool(PROSE.search(said)) and not SQL_WORD.search(said)


def texts(places=PLACES, everything=False):
    """(file, line, origin, text) of each text."""
    for file in files(places):
        for line, origin, said in READERS[file.suffix](file.read_text(errors="replace")):
            if said.strip() and (everything or is_prose(origin, said)):
                yield file, line, origin, said


def main():
    words = [word for word in sys.argv[1:] if word != "--all"]
    for file, line, origin, said in texts(words or PLACES, "--all" in sys.argv[1:]):
        name = file.resolve()
        name = name.relative_to(ROOT) if name.is_relative_to(ROOT) else name
        print(f"{name}:{line}: {origin or '-'}: {said}")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()
