#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turn the SQL, YAML and web page that ship with defib into C strings.

embed.py NAME HEADER SOURCE [FILE…]: each FILE is found under its path in the
repository, for example embedded_text("sql/ledger_postgres.sql") where NAME is
"embedded". SQL stays in files that psql and sqlite3 can run; the binary needs
none of them.
"""

import pathlib
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

#endif
"""

SOURCE = """\
#include "{name}.h"

#include <string.h>

const struct {name}_file {name}_files[] = {{
{rows}	{{NULL, NULL}},
}};

const char *{name}_text(const char *name)
{{
	for (const struct {name}_file *file = {name}_files; file->name; file++)
		if (!strcmp(file->name, name))
			return file->text;
	return NULL;
}}
"""


def c_line(line):
    # Bytes outside plain ASCII as three octal digits, so that an escape cannot absorb the next character.
    plain = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"}
    out = "".join(plain.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in line)
    return '\t\t"' + out.replace("??", '?""?') + '"\n'


def c_row(path):
    name = pathlib.Path(path).resolve().relative_to(ROOT)
    text = pathlib.Path(path).read_bytes()
    if name == after_rules.SQL.relative_to(ROOT) and after_rules.written(text.decode()) != text.decode():
        sys.exit(f"{name} is not what AFTER_RULES say: run scripts/after_rules.py")
    lines = text.splitlines(keepends=True)
    return f'\t{{"{name}",\n' + ("".join(map(c_line, lines)) or '\t\t""\n') + "\t},\n"


def main():
    name, header, source, *files = sys.argv[1:]
    rows = "".join(c_row(path) for path in files)
    pathlib.Path(header).write_text(HEADER.format(name=name, guard=name.upper()))
    pathlib.Path(source).write_text(SOURCE.format(name=name, rows=rows))


main()
