#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turn the SQL, YAML and web page that ship with defib into C strings.

embed.py NAME HEADER SOURCE [FILE…]: each FILE is found under its path in the
repository, for example embedded_text("sql/postgres_ledger.sql") where NAME is
"embedded". SQL stays in files that psql and sqlite3 can run; the binary needs
none of them.

If parts of a file begin with a line "-- @PART", each of them is embedded for itself, as
FILE@PART and as the constant sql_FILE_PART, without the comments before and after it. In a part,
{{@OTHER}} stands for the text of another part of the file. ({{NAME}} is left to sql_fill().)
"""

import pathlib
import re
import sys

import after_rules

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEADER = """\
/* Made by scripts/embed.py: files that ship inside the binary. */
#ifndef {guard}_H
#define {guard}_H

struct {name}_file {{
	const char *name, *text;
}};

/* Ends with a row whose name is NULL. */
extern const struct {name}_file {name}_files[];

/* The file's text, or NULL when no file of that name is inside. */
const char *{name}_text(const char *name);

{parts}#endif
"""

SOURCE = """\
#include "{name}.h"

#include <string.h>

const struct {name}_file {name}_files[] = {{
{rows}	{{NULL, NULL}},
}};

{parts}const char *{name}_text(const char *name)
{{
	for (const struct {name}_file *file = {name}_files; file->name; file++)
		if (!strcmp(file->name, name))
			return file->text;
	return NULL;
}}
"""


PART = re.compile(r"^-- @(\w+).*\n(?:(?!-- @)(?:--.*)?\n)*", re.M)
OTHER = re.compile(r"\{\{@(\w+)\}\}")
BEHIND = re.compile(r"(?:^(?:--.*)?\n)+\Z", re.M)


def parts_of(path):
    """The text of each, by name."""
    text = path.read_text() if path.suffix == ".sql" else ""
    heads = list(PART.finditer(text))
    parts = {}
    for head, after in zip(heads, heads[1:] + [None]):
        part = text[head.end():after.start() if after else len(text)]
        parts[head[1]] = BEHIND.sub("", part).rstrip("\n")

    def whole(part):
        return OTHER.sub(lambda other: whole(parts[other[1]]), part)
    return {name: whole(part) for name, part in parts.items()}


def c_line(line):
    # Bytes outside plain ASCII as three octal digits, so that an escape cannot absorb the next character.
    plain = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"}
    out = "".join(plain.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in line)
    return '\t\t"' + out.replace("??", '?""?') + '"\n'


def c_text(text):
    return "".join(map(c_line, text.splitlines(keepends=True))) or '\t\t""\n'


def c_file(path):
    """The rows of a file, and the declarations and definitions of its parts."""
    name = path.resolve().relative_to(ROOT)
    text = path.read_bytes()
    if name == after_rules.SQL.relative_to(ROOT) and after_rules.written(text.decode()) != text.decode():
        sys.exit(f"{name} is not what AFTER_RULES say: run scripts/after_rules.py")
    texts = parts_of(path)
    parts = {part: f"sql_{path.stem}_{part}" for part in texts}
    rows = "".join(f'\t{{"{name}@{part}", {constant}}},\n' for part, constant in parts.items())
    return (rows or f'\t{{"{name}",\n{c_text(text)}\t}},\n',
            "".join(f"extern const char {constant}[];\n" for constant in parts.values()),
            "".join(f"const char {parts[part]}[] =\n{c_text(sql.encode()).rstrip()};\n"
                    for part, sql in texts.items()))


def main():
    name, header, source, *files = sys.argv[1:]
    rows, declared, defined = map("".join, zip(*(c_file(pathlib.Path(path)) for path in files)))
    pathlib.Path(header).write_text(
        HEADER.format(name=name, guard=name.upper(), parts=declared and declared + "\n"))
    pathlib.Path(source).write_text(
        SOURCE.format(name=name, rows=rows, parts=defined and defined + "\n"))


main()
