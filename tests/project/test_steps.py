# SPDX-License-Identifier: Apache-2.0
"""scripts/steps.py: what a step counts, and how a run ends."""

import subprocess

import pytest
import steps

from harness.program import ROOT

TESTS = """
import pytest
def test_good(): pass
def test_bad(): assert not 1
def test_left_out(): pytest.skip("no such server")
@pytest.fixture
def broken(): raise RuntimeError
def test_broken(broken): pass
"""


@pytest.fixture
def report(tmp_path):
    """Of a real run of pytest."""
    (tmp_path / "test_some.py").write_text(TESTS)
    subprocess.run([steps.PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                    f"--junitxml={tmp_path}/report.xml", "test_some.py"], cwd=tmp_path,
                   capture_output=True, check=False)
    return tmp_path / "report.xml"


def test_a_report_is_counted_and_names_what_failed(report):
    counts, failed = steps.read_report(report)
    assert counts == steps.Counts(passed=1, failed=2, skipped=1)
    assert failed == ["test_some.py::test_bad", "test_some.py::test_broken"]


def test_what_was_skipped_is_counted_by_its_reason(report):
    assert steps.skips(report) == {"no such server": 1}


@pytest.mark.parametrize("said, result, counts", [
    ("[       OK ] a\n[       OK ] b\n", "OK", (2, 0, 0)),
    ("[       OK ] a\n[  FAILED  ] b\n[  FAILED  ] 1 test(s)\n[  FAILED  ] b\n", "FAIL", (1, 1, 0)),
    ("[       OK ] a\n[  SKIPPED ] b\n", "OK", (1, 0, 1)),
    ("", "FAIL", (0, 1, 0)),  # it crashed before it could name a test
    ("10000 seeds\n", "OK", (1, 0, 0)),  # no program of cmocka's
])
def test_a_unit_program_is_counted_by_what_it_printed(said, result, counts):
    assert steps.unit_counts({"stdout": said, "result": result}) == steps.Counts(*counts)


def ended(code):
    return subprocess.run([steps.PYTHON, "-c", f"import steps\n{code}"], cwd=ROOT / "scripts",
                          capture_output=True, text=True, check=False)


def test_unsteady_tests_are_the_last_line_of_a_run_that_passed():
    ran = ended("""
def some(run):
    run.results.append(steps.Counts(passed=3))
    run.unsteady.append("tests/e2e/acts/test_undo.py::test_a")
steps.main(some)""")
    assert ran.returncode == 0, ran.stderr
    *_, counts, last = ran.stdout.splitlines()
    assert counts == "3 passed, 0 failed"
    assert last == "unsteady: tests/e2e/acts/test_undo.py::test_a"


@pytest.mark.parametrize("result", ["passed=3, failed=1", ""])
def test_a_run_with_a_failure_or_without_a_test_is_red(result):
    ran = ended(f"steps.main(lambda run: run.results.append(steps.Counts({result})))")
    assert ran.returncode == 1


def test_a_command_that_fails_is_a_step_that_fails():
    ran = ended("steps.main(lambda run: run.simple('doomed', 'sh', '-c', 'echo why; exit 3'))")
    assert ran.returncode == 1
    assert "why" in ran.stdout and "doomed: FAILED (0 passed, 1 failed" in ran.stdout


def test_as_many_tests_run_at_once_as_memory_and_cores_allow(monkeypatch):
    monkeypatch.setattr(steps, "cores", lambda: 4)
    monkeypatch.setattr(steps, "free_share", lambda: 1.0)
    monkeypatch.setattr(steps, "memory", lambda: 64 * steps.GIB)
    assert steps.at_once() == 16
    monkeypatch.setattr(steps, "free_share", lambda: 0.5)
    assert steps.at_once() == 8
    monkeypatch.setattr(steps, "free_share", lambda: 0.01)
    assert steps.at_once() == 4
    monkeypatch.setattr(steps, "memory", lambda: steps.GIB)
    assert steps.at_once() == 2
    monkeypatch.setattr(steps, "memory", lambda: 0)
    assert steps.at_once() == 1


@pytest.mark.parametrize("name", ["inactive_file", "total_inactive_file"])
def test_copies_of_files_leave_room_in_a_control_group(tmp_path, name):
    """The kernel counts them as used, and drops them when a process needs the memory."""
    (tmp_path / "memory.stat").write_text(f"rss 5\n{name} 4096\n")
    assert steps.cached(tmp_path) == 4096
