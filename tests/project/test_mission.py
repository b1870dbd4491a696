# SPDX-License-Identifier: Apache-2.0
"""scripts/project/mission.py: an id without a test is found, and so is an unknown id. A weak id is not
counted.
"""

import ast
import subprocess
import sys

import mission
import pytest

from harness.program import ROOT


CASE = """<testcase classname="tests.e2e.test_{file}" name="{name}"><properties>
<property name="covers" value="{id}"/><property name="engine" value="{engine}"/></properties>{end}
</testcase>"""

LIST = """# a comment
A1 find rows
C8 automatic retry
weak F2 milliseconds are not measured
weak F2 across hosts
F2 noticed in milliseconds
"""


@pytest.fixture
def few(tmp_path, monkeypatch):
    """A list of three ids, of which one is weak."""
    path = tmp_path / "mission.txt"
    path.write_text(LIST)
    monkeypatch.setattr(mission, "LIST", path)
    return path


def report(folder, *cases):
    """A JUnit report of (id, engine, how it ended)."""
    path = folder / "report.xml"
    text = "".join(CASE.format(file=f"part{i}", name=f"test_{i}", id=one, engine=engine, end=end)
                   for i, (one, engine, end) in enumerate(cases))
    path.write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    return path


def judged(*paths):
    return mission.judge(mission.wanted(), mission.shown(paths), mission.weak())


GOOD = [("A1", "sqlite", ""), ("A1", "postgres", ""), ("C8", "postgres", "")]


def test_each_id_has_a_line_with_its_tests_engines_and_files(few, tmp_path):
    lines, problems = judged(report(tmp_path, *GOOD))
    assert problems == []
    assert lines[:2] == ["A1    2  postgres 1, sqlite 1: part0 part1", "C8    1  postgres 1: part2"]


def test_a_weak_id_is_listed_with_what_is_missing_and_not_counted(few, tmp_path):
    lines, problems = judged(report(tmp_path, *GOOD, ("F2", "sqlite", "")))
    assert problems == []
    assert lines[2:] == [
        "weak: F2: milliseconds are not measured", "weak: F2: across hosts",
        "2 of 3 ids are proved by passing tests, 1 of them on SQLite too; weak: 1"]


def test_an_id_without_a_test_that_passed_fails(few, tmp_path):
    for end in ("<failure/>", "<skipped/>", "<error/>"):
        _, problems = judged(report(tmp_path, GOOD[0], ("C8", "postgres", end)))
        assert problems == ["no test that covers C8 has passed: automatic retry"]


def test_a_test_in_two_reports_counts_once(few, tmp_path):
    path = report(tmp_path, *GOOD)
    lines, _ = judged(path, path)
    assert lines[0].startswith("A1    2 "), lines


def test_an_id_that_is_not_in_the_list_fails(few, tmp_path):
    _, problems = judged(report(tmp_path, *GOOD, ("A99", "postgres", "")))
    assert problems == ["a test covers A99, which mission.txt does not have"]
    few.write_text(LIST + "weak A98 nothing\n")
    _, problems = judged(report(tmp_path, *GOOD))
    assert problems == ["mission.txt says that A98 is weak, and does not have it"]


def test_all_names_of_tests_are_in_the_file_and_the_exit_code_says_it(tmp_path):
    """The command as the check runs it, with the list as it is."""
    enough = [(one, "postgres", "") for one in mission.wanted() if one not in mission.weak()]
    path, names = report(tmp_path, *enough), tmp_path / "build" / "mission.txt"
    command = [sys.executable, ROOT / "scripts" / "project" / "mission.py", "--list", names, path]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    written = names.read_text()
    assert "\n    postgres test_part0.py::test_0\n" in written
    assert [line for line in written.splitlines() if not line.startswith(" ")] == [
        f"{one} {what}" for one, what in mission.wanted().items()]
    report(tmp_path, *enough[1:])
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_the_list_has_every_id_once():
    ids = list(mission.wanted())
    most = {"A": 15, "B": 10, "C": 14, "D": 13, "E": 9, "F": 23}
    assert ids == [f"{letter}{n}" for letter, last in most.items() for n in range(1, last + 1)]
    assert len(ids) == len([row for row in mission.rows() if not row.startswith(mission.WEAK)])


def markers():
    """(file, test, id) of every marker in the tests."""
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in getattr(node, "decorator_list", []):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("mark.covers"):
                    yield from ((path.name, node.name, one.value) for one in mark.args)


def test_every_marker_names_an_id_of_the_list():
    """At once, and also those of tests that only `make proof` runs."""
    ids = mission.wanted()
    assert [mark for mark in markers() if mark[2] not in ids] == []
