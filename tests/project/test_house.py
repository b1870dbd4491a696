# SPDX-License-Identifier: Apache-2.0
"""The project's own checks: its rules fail on a planted violation, its servers start and stop
cleanly.
"""

import re
import subprocess

import pytest

from harness.program import ROOT


RULES = [
    ("base/a.c", '#include "store/store.h"\n', "base may not include store"),
    ("store/a.c", '#include "config/tree.h"\n', "store may not include config"),
    ("ledger/a.c", '#include "life/lease.h"\n', "ledger may not include life"),
    ("recover/a.c", '#include "worker/claim.h"\n', "recover may not include worker"),
    ("util/a.c", "\n", "'util' is no room"),
    ("base/a.c", "void f(char *a) { strcpy(a, a); }\n", "strcpy is banned"),
    ("base/a.c", "\t/* " + "x" * 100 + " */\n", "over 100 columns"),
    ("recover/judge.c", "#include <sqlite3.h>\n", "must see no database, thread or clock: sqlite3.h"),
    ("recover/judge.c", "long f(void) { return clock_boot_ms(); }\n", "must be told the time"),
    ("worker/engine.h", "#include <pthread.h>\n", "must see no database, thread or clock: pthread.h"),
    ("guard/pace.h", "#include <libpq-fe.h>\n", "must see no database, thread or clock: libpq-fe.h"),
    ("watch/a.c", "void f(void) { PQfinish(c); }\n", "PQfinish() is for store/ alone"),
    ("life/a.c", "int f(void) { return rand(); }\n", "rand() is for base/clock.c alone"),
    ("recover/a.c", 'bool f(char *a) { return text_eq(a, "40001"); }\n',
     "a SQLSTATE: store/sqlstate.c alone knows them"),
    ("http/a.c", "bool f(struct failure *f) { return f->sqlstate[0] == '2'; }\n",
     "ask for the class or the reason"),
    ("http/a.c", 'void f(struct buf *b) { json_text(b, "owner", owner); }\n',
     "json_text() here: a record is a table of fields"),
    ("cli/a.c", "void f(struct buf *b) { buf_add_json(b, owner); }\n",
     "buf_add_json() here: a record is a table of fields"),
    ("http/page.c", "\n", "writes no JSON: WRITES_JSON need not name it"),
    ("view/a.c", "void f(struct store *s);\n", "view reads no database"),
    ("view/a.c", '#include "store/url.h"\n', "not even through store/url.h"),
    ("watch/a.c", "int watch_a;\n", "has no header of its own"),
    ("store/a.c", 'void f(void) { fail_next(f, "defib doctor gives the grants"); }\n',
     "names defib doctor: return a code"),
    ("recover/a.c", 'char *a = "run it again "\n\t"with --from-step";\n',
     "names --from-step: return a code"),
    ("worker/a.c", 'char *a = "see defib "\n\t"db sql";\n', "names defib db sql: return a code"),
    ("watch/a.h", "struct slot {\n};\n", "slot is also a tag in base/slots.h"),
    ("watch/a.c", "static int slot_of(int a)\n{\n}\n",
     "slot_of is also a static function in base/slots.c"),
]


def plant(root, files):
    base = root / "src" / "base"
    base.mkdir(parents=True)
    (base / "banned.h").write_bytes((ROOT / "src" / "base" / "banned.h").read_bytes())
    (root / "src" / "cli").mkdir()
    (root / "src" / "cli" / "cli.h").write_bytes((ROOT / "src" / "cli" / "cli.h").read_bytes())
    (base / "slots.h").write_text("struct slot {\n};\n")
    (base / "slots.c").write_text("static int slot_of(int a)\n{\n}\n")
    for name, text in files.items():
        path = root / "src" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def rooms(root):
    return subprocess.run(["/usr/bin/python3", ROOT / "scripts" / "project" / "rooms.py", root],
                          capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name,text,says", RULES, ids=[says for _, _, says in RULES])
def test_the_rules_go_red(tmp_path, name, text, says):
    plant(tmp_path, {name: text})
    ran = rooms(tmp_path)
    assert ran.returncode == 1
    assert says in ran.stdout


def test_a_pure_stage_sees_no_database_through_a_header_either(tmp_path):
    plant(tmp_path, {
        "recover/decide.c": '#include "watch/watch.h"\n',
        "watch/watch.h": '#include "store/store.h"\n',
        "store/store.h": "\n",
    })
    ran = rooms(tmp_path)
    assert ran.returncode == 1
    assert "must see no database, thread or clock: watch/watch.h -> store/store.h" in ran.stdout


@pytest.mark.parametrize("name,text", [
    ("src/base/a.c", 'bool a = text_eq(event, "HELD");\n'),
    ("src/base/a.c", """char *a = "WHERE event = 'HELD'";\n"""),
    ("src/base/a.c", 'char *a = "[\\"HELD\\"]";\n'),
    ("web/a.js", 'const held = event === "HELD";\n'),
])
def test_an_event_is_named_in_its_table_only(tmp_path, name, text):
    plant(tmp_path, {"ledger/events.h": '#define ENTRY_HELD "HELD"\n',
                     "base/a_test.c": 'char *a = "HELD";\n'})
    assert rooms(tmp_path).returncode == 0
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    ran = rooms(tmp_path)
    assert ran.returncode == 1
    assert f"{name}:1: the event HELD is named here" in ran.stdout


def test_what_is_in_order_stays_green(tmp_path):
    plant(tmp_path, {
        "base/a.c": '#include "base/banned.h"\n/* strcpy(a, b) */\nconst char *t = "system(1)";\n'
                    "void f(void)\n{\n\t;\n}\n",
        "recover/apply.c": '#include "ledger/x.h"\n#include "life/x.h"\n#include "store/x.h"\n',
        "base/a.h": "\n",
        "recover/apply.h": "\n",
        "cli/a.h": "\n",
        "cli/a.c": '#include "http/x.h"\n#include "defib.h"\n',
    })
    ran = rooms(tmp_path)
    assert ran.returncode == 0, ran.stdout


VOICES = [
    ("docs/a.md", "Mail for those\nwho was called at\nnight.\n", "docs/a.md:2"),
    ("src/base/a.c", '/*\n * This is logged, it is\n * told once. */\n', "src/base/a.c:2"),
    ("src/base/a.c", 'char *a = "no index "\n\t"serves it";\n', "src/base/a.c:1"),
    ("sql/a.sql", "-- Who comes\n-- again gets it\n", "sql/a.sql:1"),
    ("web/a.js", 'heading("Told by persons");\n', "web/a.js:1"),
]


@pytest.mark.parametrize("name,text,where", VOICES, ids=[name for name, _, _ in VOICES])
def test_a_banned_phrase_is_found_across_lines_comments_and_literals(tmp_path, name, text, where):
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    ran = subprocess.run(["/usr/bin/python3", ROOT / "scripts" / "project" / "voice.py", tmp_path],
                         capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout.startswith(f"{where}: ")


STRINGS = [
    ("a.c", 'void f(void)\n{\n\tfail(e, "%s has no "\n\t     "column %s", a, b);\n}\n',
     "3: fail: %s has no column %s"),
    ("a.c", '\t.help = "how long it waits",\n/* "a comment here" */\n', "1: help: how long it waits"),
    ("a.js", "const a = /'/; // 'not this'\nnote(`lost for ${f({a: 1})} now`);\n",
     "2: note: lost for {…} now"),
    ("a.html", "<p>\n<b>Two words</b>", "2: html: Two words"),
    ("a.sql", "RAISE EXCEPTION 'worker % is dead'; -- it's\n",
     "1: raise exception: worker % is dead"),
    ("a.yaml", "requeue: x = 1\nreason: taken too long\n", "2: reason: taken too long"),
]


@pytest.mark.parametrize("name,text,line", STRINGS, ids=[line for _, _, line in STRINGS])
def test_the_list_of_texts_has_each_once_with_its_line(tmp_path, name, text, line):
    (tmp_path / name).write_text(text)
    ran = subprocess.run(["/usr/bin/python3", ROOT / "scripts" / "project" / "strings.py", tmp_path],
                         capture_output=True, text=True, check=True)
    assert ran.stdout == f"{tmp_path}/{name}:{line}\n"


def test_the_list_of_texts_leaves_out_sql_and_unit_tests(tmp_path):
    (tmp_path / "a.c").write_text('run("SELECT a, b FROM c"); open("rb");\n')
    (tmp_path / "a_test.c").write_text('fail(e, "not for people");\n')
    ran = subprocess.run(["/usr/bin/python3", ROOT / "scripts" / "project" / "strings.py", tmp_path],
                         capture_output=True, text=True, check=True)
    assert ran.stdout == ""


def compile_c(tmp_path, text, *flags):
    source = tmp_path / "a.c"
    source.write_text(text)
    return subprocess.run(["gcc", "-fsyntax-only", "-D_GNU_SOURCE", f"-I{ROOT}/src",
                           f"-I{ROOT}/include", "-include", "base/banned.h", *flags, source],
                          capture_output=True, text=True, check=False)


def test_a_banned_function_does_not_compile(tmp_path):
    assert compile_c(tmp_path, "int main(void) { return 0; }\n").returncode == 0
    ran = compile_c(tmp_path, 'int main(void) { return atoi("1"); }\n')
    assert ran.returncode != 0 and "poisoned" in ran.stderr


def test_the_format_goes_red(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int  f(void) {\n  return 1; }\n")
    ran = subprocess.run(["clang-format", "--dry-run", "-Werror",
                          f"--style=file:{ROOT}/.clang-format", source], check=False,
                         capture_output=True)
    assert ran.returncode != 0


def test_clang_tidy_goes_red(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int f(int n);\nint f(int n)\n{\n\tint *p = 0;\n\treturn n ? *p : 0;\n}\n")
    ran = subprocess.run(["clang-tidy", "--quiet", f"--config-file={ROOT}/.clang-tidy", source,
                          "--"], capture_output=True, text=True, check=False)
    assert ran.returncode != 0 and "NullDereference" in ran.stdout


def test_each_test_has_a_database_of_its_own(db):
    db.sql("CREATE TABLE t (n int)")
    db.sql("INSERT INTO t VALUES (%s)", 5)
    assert db.sql("SELECT n FROM t") == [(5,)]


def test_a_killed_server_starts_again(server):
    server.kill()
    server.start()
    assert server.connect().server_version // 10000 == server.binaries.major


def test_setup_does_nothing_when_nothing_is_missing():
    ran = subprocess.run([ROOT / "scripts" / "setup", "test"], capture_output=True, text=True,
                         env={"PATH": "/usr/bin:/bin"}, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def setup_without_gcc(folder, user, **env):
    """What setup prints if gcc is missing; apt-get only records that it was called."""
    tools = {"dpkg-query": "case $3 in gcc) ;; *) echo installed ;; esac", "id": f"echo {user}",
             "sudo": "exit 1", "apt-get": f"touch {folder}/called; exit 1"}
    for name, does in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    return subprocess.run([ROOT / "scripts" / "setup", "build"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False,
                          env={"PATH": f"{folder}:/usr/bin:/bin", **env})


@pytest.mark.parametrize("user,env,why", [
    (1000, {}, "neither root nor sudo"),
    (0, {"DEFIB_INSTALL": "no"}, "DEFIB_INSTALL=no"),
])
def test_setup_that_may_not_install_says_what_to_in_one_line(tmp_path, user, env, why):
    ran = setup_without_gcc(tmp_path, user, **env)
    assert ran.returncode == 1
    assert ran.stderr == f"defib: cannot install: {why}; run: apt-get install gcc\n"
    assert not (tmp_path / "called").exists()


def test_every_test_that_the_fault_matrix_names_exists():
    chaos = ROOT / "tests" / "chaos"
    matrix = (chaos / "README.md").read_text().partition("## Fault matrix")[2]
    rows = [line for line in matrix.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        fault, tests = (part.strip() for part in row.strip("|").split("|"))
        named = re.findall(r"`(\w+\.py)::(\w+)`", tests)
        assert named, f"no test for: {fault}"
        for file, test in named:
            paths = list((ROOT / "tests").rglob(file))
            assert paths and f"def {test}(" in paths[0].read_text(), f"{fault}: {file}::{test}"
