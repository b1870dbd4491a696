# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate: which mutants a source has, and that tests of a small real tree catch them."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from c_mutants import mutants_of  # noqa: E402

LIMIT_S = 600  # only ends what hangs


def changes(body, head="defib_err f(int a)"):
    """[(operator, original, replacement)] of a function with this body."""
    found = mutants_of("src/room/x.c", f"{head}\n{{\n{body}\n}}\n")
    return [(m.operator, m.original, m.to) for m in found]


@pytest.mark.parametrize("was, becomes", [("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"),
                                          ("==", "!="), ("!=", "==")])
def test_comparisons_are_changed(was, becomes):
    assert changes(f"return a {was} b;") == [("comparison", was, becomes)]


def test_constants_are_changed():
    assert changes("x(7, 0x1fU, true, false);") == [
        ("constant", "7", "8"), ("constant", "0x1fU", "32U"), ("constant", "true", "false"),
        ("constant", "false", "true")]


def test_a_negative_constant_grows_too():
    assert changes("return -1;") == [("constant", "1", "0")]
    assert changes("return a - 1;") == [("constant", "1", "2")]


def test_the_size_of_an_array_and_an_empty_value_are_no_constants():
    assert changes("char name[24]; struct failure f = {0}; static const char *all[3], *b[4];") == []
    assert changes("x(name[2]);") == [("constant", "2", "3")]


def test_a_factor_between_units_is_turned_round_or_dropped():
    assert changes("x(a_ms * 1000);") == [("unit", "*", "/"), ("unit", "* 1000", "")]
    assert changes("x(a_us / INT64_C(1000000));") == [
        ("unit", "/", "*"), ("unit", "/ INT64_C ( 1000000 )", "")]


def test_a_star_before_a_factor_is_not_always_a_product():
    assert ("unit", "*", "/") not in changes("x(*p, 1000);")


def test_constants_with_a_unit_are_changed():
    assert changes("x(PAUSE_MS);") == [("unit", "PAUSE_MS", "(PAUSE_MS * 1000)")]
    assert changes("o.wait_ms = 500;") == [
        ("unit", "500", "(500 * 1000)"), ("constant", "500", "501")]
    assert changes("switch (a) { case EPOCH_MS: x(); }") == []


@pytest.mark.parametrize("statement, original", [
    ("s->n = s->cap = 0;", "s -> n = s -> cap = 0"),
    ("*out = NULL;", "* out = NULL"),
    ("if (a) b[a].c = NULL;", "b [ a ] . c = NULL"),
    ("if (a) x(); else y = NULL;", "y = NULL"),
    ("out: y = NULL;", "y = NULL"),
    ("*b = (struct brake){0};", "* b = ( struct brake ) { 0 }"),
])
def test_a_reset_is_removed(statement, original):
    assert ("reset", original, "") in changes(statement)


@pytest.mark.parametrize("statement", [
    "int n = 0;", "char *p = NULL;", "struct x *p = NULL;", "for (i = 0; a; a++) x();",
    "x((y = NULL));", "struct brake b = (struct brake){0};", "y = 1;", "y = (struct b){0, 1};"])
def test_a_declaration_or_another_value_is_no_reset(statement):
    assert not [change for change in changes(statement) if change[0] == "reset"]


def test_a_returned_error_becomes_success():
    assert changes('return fail(f, DEFIB_INVALID, "no %d", 5);') == [
        ("error", 'fail ( f , DEFIB_INVALID , "no %d" , 5 )', "DEFIB_OK")]
    assert changes("return err;") == [("error", "err", "DEFIB_OK")]
    assert changes("return DEFIB_INVALID;") == [("error", "DEFIB_INVALID", "DEFIB_OK")]
    assert changes("return DEFIB_OK;") == []
    assert changes("return err;", head="static int f(void)") == []


def test_a_check_of_an_error_is_dropped():
    assert changes("if (err) goto out;") == [("error", "if ( err ) goto out", "")]
    assert ("error", "if ( err ) return err", "") in changes("if (err)\n\treturn err;")
    assert changes("if (!err) x();") == [("error", "! err", "true"), ("logical", "!", "")]
    assert changes("if (err) return err; else x();") == [("error", "err", "DEFIB_OK")]


def test_logic_is_changed():
    assert changes("return a && !b || c;") == [
        ("logical", "&&", "||"), ("logical", "!", ""), ("logical", "||", "&&")]


def test_comments_strings_and_directives_are_left_alone():
    source = r'''
#include <a.h> /* 1 < 2
 && 3 */
#define ALL(X) \
	X(a, 1 < 2, "text") \
	X(b, true, "it's")
/* a < b "unclosed */ // c && d '
enum { FIRST = 1, SECOND };
struct pair { char name[24]; unsigned flag : 1; };
static const char *say(int n)
{
#if 1 == 1
	x("a < b /* \" */ && 1", '<', '"', '\''); /* n > 5 */
#endif
	return n ? "// 1 < 2" : "b"; // n == 1
}
'''
    assert mutants_of("src/room/x.c", source) == []


@pytest.mark.parametrize("call", [
    "assert(a < 5 && !b);", 'static_assert(sizeof(a) == 8, "x");', 'log_event(LOG_WARN, "x", a > 1);',
    'fail_next(f, "%d", a ? 1 : 2);', "x(sizeof(a[1]));"])
def test_assertions_and_text_for_people_are_left_alone(call):
    assert changes(call) == []


def test_values_of_variables_outside_of_functions_are_changed():
    source = 'static const struct {\n\tint n[4];\n} all[] = {{5}, {6}};\nstatic int64_t last = 3;\n'
    assert [(m.function, m.original) for m in mutants_of("src/room/x.c", source)] == [
        ("all", "5"), ("all", "6"), ("last", "3")]


def test_a_function_is_found_behind_attributes_and_macros():
    source = "PRINTF_LIKE(1, 2) __attribute__((cold)) static int f(char *a, int (*g)(int b))\n{ a < b; }\n"
    assert [m.function for m in mutants_of("src/room/x.c", source)] == ["f"]


def test_a_mutant_keeps_its_name_when_lines_move():
    before = "int f(int a)\n{\n\treturn a < 1 && a < 2;\n}\n"
    after = "/* new */\nint g(void)\n{\n\treturn 1 < 2;\n}\n\n" + before
    names = [m.id for m in mutants_of("src/room/x.c", before)]
    assert len(set(names)) == len(names) == 5
    assert [m.id for m in mutants_of("src/room/x.c", after) if m.function == "f"] == names


def test_every_mutant_of_the_source_changes_one_place():
    text = (ROOT / "src/life/silence.c").read_text()
    found = mutants_of("src/life/silence.c", text)
    assert len(found) > 50
    for mutant in found:
        changed = mutant.applied(text)
        assert changed != text and text[:mutant.start] == changed[:mutant.start]
        assert re.sub(r"\s", "", text[mutant.start:mutant.end]) == re.sub(r"\s", "", mutant.original)


# ---- a small tree: one function that a unit test covers, one that only a test of the program covers,
# one that nothing covers, and in another room one that hangs if it is wrong

LIMIT_C = """#include "room/limit.h"
bool limit_reached(int n)
{
	return n >= LIMIT;
}
int limit_other(int n)
{
	return n > 7;
}
int limit_unseen(int n)
{
	return n && 3;
}
"""
TREE = {
    "src/room/limit.h": "#include <stdbool.h>\n#define LIMIT 5\nbool limit_reached(int n);\n"
                        "int limit_other(int n);\nint limit_unseen(int n);\n",
    "src/room/limit.c": LIMIT_C,
    "src/room/limit_test.c": '#include "room/limit.h"\nint main(void)\n{\n'
                             "\treturn limit_reached(5) && !limit_reached(4) ? 0 : 1;\n}\n",
    "src/room/main.c": '#include "room/limit.h"\nint main(void)\n{\n\treturn limit_other(8) + limit_unseen(1);\n}\n',
    "src/still/wait.c": "#include <unistd.h>\nint wait_for(int n)\n{\n\tif (n > 9)\n\t\tpause();\n\treturn n;\n}\n",
    "src/still/wait_test.c": "int wait_for(int n);\nint main(void)\n{\n\treturn wait_for(9) == 9 ? 0 : 1;\n}\n",
    "tests/e2e/test_limit.py": "import os, subprocess\n\n\ndef test_other():\n"
                               "    assert subprocess.run([os.environ['DEFIB_BIN']]).returncode == 2\n",
    "meson.build": """project('small', 'c')
inside = include_directories('src')
library = static_library('small', 'src/room/limit.c', include_directories: inside)
executable('defib', 'src/room/main.c', link_with: library, include_directories: inside)
test('room/limit_test', executable('room_limit_test', 'src/room/limit_test.c', link_with: library,
  include_directories: inside), suite: 'unit')
test('still/wait_test', executable('still_wait_test', 'src/still/wait.c', 'src/still/wait_test.c'),
  timeout: 60)
""",
    "scripts/build": "#!/bin/sh\nset -eu\n[ -f build/build.ninja ] || meson setup build >/dev/null\n"
                     'shift 2\nexec ninja -C build "$@"\n',
    "scripts/with-postgres": '#!/bin/sh\nexec "$@"\n',
    ".gitignore": "/build/\n",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for name, text in TREE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ("mutate", "c_mutants.py", "mutant_tree.py"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
    for name in ("build", "with-postgres"):
        (folder / "scripts" / name).chmod(0o755)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def mutate(tree, *options, code=0):
    ran = subprocess.run(["scripts/mutate", *map(str, options)], cwd=tree, capture_output=True,
                         text=True, timeout=LIMIT_S, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


def one(tree, tests, function, original, file="src/room/limit.c"):
    """The result for the first mutant of a function that changes this."""
    found = [m for m in mutants_of(file, (tree / file).read_text())
             if m.function == function and m.original == original]
    said = mutate(tree, "--tests", tests, "--only", found[0].id, "--json", tree / "build" / "one.json")
    return json.loads((tree / "build" / "one.json").read_text())["mutants"][0], said


def test_a_seed_draws_the_same_mutants(tree):
    drawn = mutate(tree, "--seed", 7, "--count", 6, "--list")
    assert drawn == mutate(tree, "--seed", 7, "--count", 6, "--list")
    assert drawn != mutate(tree, "--seed", 8, "--count", 6, "--list")
    assert len(drawn.splitlines()) == 6 and "_test.c" not in drawn
    rest = mutate(tree, "--seed", 7, "--skip", 4, "--count", 2, "--list")
    assert rest.splitlines() == drawn.splitlines()[4:]


def test_files_are_chosen_and_left_out(tree):
    def files(*options):
        said = mutate(tree, "--count", 1000, "--list", *options)
        return {line.split(":")[0] for line in said.splitlines()}

    assert files("--room", "still") == {"src/still/wait.c"}
    assert files("--room", "room/main*.c", "--room", "still") == {"src/room/main.c", "src/still/wait.c"}
    assert files("--room", "room", "--without", "room/lim*.[ch]") == {"src/room/main.c"}


@pytest.mark.proof  # it builds a tree for each mutant
def test_a_mutant_that_fails_the_test_of_its_file_is_caught(tree):
    row, _ = one(tree, "unit", "limit_reached", ">=")
    assert (row["result"], row["stage"], row["by"]) == ("caught", "file", "room/limit_test")


@pytest.mark.proof  # it builds a tree for each mutant
def test_a_mutant_that_only_the_program_shows_is_caught_end_to_end(tree):
    assert one(tree, "unit", "limit_other", "7")[0]["result"] == "survived"
    row, _ = one(tree, "all", "limit_other", "7")
    assert (row["result"], row["stage"]) == ("caught", "end to end")
    assert row["by"] == "tests/e2e/test_limit.py::test_other"
    said = mutate(tree, "--test", "tests/e2e/test_limit.py", "--only", row["id"])
    assert f"{row['id']}: caught by tests/e2e/test_limit.py::test_other" in said
    assert "SURVIVED" in mutate(tree, "--test", "room/limit_test", "--only", row["id"])


@pytest.mark.proof  # it builds a tree for each mutant
def test_a_mutant_that_changes_nothing_survives_and_is_shown(tree):
    row, said = one(tree, "all", "limit_unseen", "3")
    assert row["result"] == "survived"
    assert "src/room/limit.c:12: SURVIVED: constant in limit_unseen" in said
    assert "-	return n && 3;\n+	return n && 4;" in said
    assert f"again: scripts/mutate --tests all --only {row['id']}" in said
    assert (tree / "src/room/limit.c").read_text() == LIMIT_C


@pytest.mark.proof  # it builds a tree for each mutant
def test_a_mutant_that_hangs_is_caught(tree):
    row, _ = one(tree, "unit", "wait_for", ">", "src/still/wait.c")
    assert (row["result"], row["by"], row["hangs"]) == ("caught", "still/wait_test", True)


@pytest.mark.proof  # it builds a tree for each mutant
def test_a_mutant_that_does_not_compile_is_not_caught(tree):
    path = tree / "src/room/limit.c"
    path.write_text(LIMIT_C + "int limit_cases(int n)\n{\n\tswitch (n) {\n\tcase 2:\n\tcase 3:\n"
                    "\t\treturn 1;\n\t}\n\treturn 0;\n}\n")
    try:
        row, said = one(tree, "unit", "limit_cases", "2")  # two cases of one value
    finally:
        path.write_text(LIMIT_C)
    assert row["result"] == "does not compile" and "SURVIVED" not in said


@pytest.mark.proof  # it builds a tree for each mutant
def test_a_test_that_always_fails_catches_nothing(tree):
    path = tree / "src/room/limit_test.c"
    path.write_text("int main(void)\n{\n\treturn 1;\n}\n")
    name = next(m.id for m in mutants_of("src/room/limit.c", LIMIT_C) if m.function == "limit_reached")
    try:
        assert mutate(tree, "--tests", "unit", "--only", name, code=1) == ""
    finally:
        path.write_text(TREE["src/room/limit_test.c"])


@pytest.mark.proof  # it builds a tree for each mutant
def test_a_run_is_replayed_and_compared(tree):
    """The same mutants after the suite lost a test, and after a function went."""
    before, after, gone = (tree / "build" / name for name in ("before.json", "after.json", "gone.json"))
    said = mutate(tree, "--count", 8, "--room", "room", "--tests", "unit", "--json", before)
    rows = json.loads(before.read_text())["mutants"]
    caught = [row for row in rows if row["result"] == "caught"]
    assert caught and re.search(rf"^room +{len(rows)} +{len(rows)} ", said, re.M)
    assert mutate(tree, "--compare", before, before) == "0 caught before and not now\n"
    names = [f"src/room/{name}" for name in ("limit.c", "limit.h", "limit_test.c", "main.c")]
    try:
        (tree / names[2]).write_text("int main(void)\n{\n\treturn 0;\n}\n")
        mutate(tree, "--replay", before, "--tests", "unit", "--json", after)
        for name in names:
            (tree / name).write_text(TREE[name].replace("limit_", "bound_"))
        mutate(tree, "--replay", before, "--tests", "unit", "--json", gone)
    finally:
        for name in names:
            (tree / name).write_text(TREE[name])
    said = mutate(tree, "--compare", before, after, code=1)
    assert f"{len(caught)} caught before and not now" in said
    assert all(f"{row['id']}: caught by room/limit_test before, now: survived" in said for row in caught)
    assert mutate(tree, "--compare", before, gone).count("now: gone") == len(caught)
