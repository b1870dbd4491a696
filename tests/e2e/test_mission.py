# SPDX-License-Identifier: Apache-2.0
"""scripts/mission.py: an id without a test is found, and so is an unknown id."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import mission  # noqa: E402

CASE = """<testcase name="{name}"><properties><property name="covers" value="{id}"/>
<property name="engine" value="{engine}"/></properties>{end}</testcase>"""


def report(folder, *cases):
    """A JUnit report of (id, engine, how it ended)."""
    path = folder / "report.xml"
    text = "".join(CASE.format(name=f"test_{i}", id=one, engine=engine, end=end)
                   for i, (one, engine, end) in enumerate(cases))
    path.write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    return path


def judged(path):
    return subprocess.run([sys.executable, ROOT / "scripts" / "mission.py", path],
                          capture_output=True, text=True, check=False)


def all_but(*left_out):
    return [(one, "postgres", "") for one in mission.wanted() if one not in left_out]


def test_every_id_shown_is_good(tmp_path):
    ran = judged(report(tmp_path, *all_but("A1"), ("A1", "sqlite", "")))
    assert ran.returncode == 0, ran.stdout
    total = len(mission.wanted())
    assert f"{total} of {total} ids are shown by passing tests, 1 of them on SQLite too" in ran.stdout


def test_an_id_without_a_test_that_passed_fails(tmp_path):
    for end in ("<failure/>", "<skipped/>", "<error/>"):
        ran = judged(report(tmp_path, *all_but("C8"), ("C8", "postgres", end)))
        assert ran.returncode == 1
        assert "no test that covers C8 has passed: automatic retry" in ran.stdout


def test_a_test_in_two_reports_counts_once(tmp_path):
    path = report(tmp_path, *all_but())
    ran = subprocess.run([sys.executable, ROOT / "scripts" / "mission.py", path, path],
                         capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("A1    1 "), ran.stdout


def test_an_id_that_is_not_in_the_list_fails(tmp_path):
    ran = judged(report(tmp_path, *all_but(), ("A99", "postgres", "")))
    assert ran.returncode == 1
    assert "a test covers A99, which mission.txt does not have" in ran.stdout


def test_the_list_has_every_id_once():
    ids = list(mission.wanted())
    most = {"A": 15, "B": 10, "C": 14, "D": 13, "E": 9, "F": 13}
    all_but_later = [f"{letter}{n}" for letter, last in most.items() for n in range(1, last + 1)]
    assert ids == [*all_but_later, "F20"]
