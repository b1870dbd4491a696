# SPDX-License-Identifier: Apache-2.0
"""scripts/project/tested: the page is made of what was recorded, and has no claim without a command."""

import json
import re
import subprocess

import pytest

from harness import proof_results
from harness.program import ROOT

ROW = re.compile(r"^\| (.+?) \| `(.+?)` \| (.+?) \| (.*?) \|$")


def make_page(results, *options):
    return subprocess.run([ROOT / "scripts" / "project" / "tested", "--results", results, *options],
                          capture_output=True, text=True, check=False)


def claims(text):
    """Rows of the table of claims, each by its four cells; fails where one has not got them."""
    table = text.partition("## Claims")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert lines
    for line in lines:
        assert ROW.match(line), f"no claim with its command and its figure: {line}"
    return {ROW.match(line)[1]: ROW.match(line).groups()[1:] for line in lines}


@pytest.fixture
def results(tmp_path, monkeypatch):
    folder = tmp_path / "results"
    monkeypatch.setenv(proof_results.FOLDER, str(folder))
    return folder


def test_what_was_recorded_is_on_the_page(results, tmp_path):
    proof_results.record("no job is lost", "make proof", "0 of 3,000", n=3000)
    proof_results.record("no job is lost twice", "make proof", "0 of 2,000,000 seeds", n=2000000)
    proof_results.record("recovered soon", "make bench", "0.8 s")
    proof_results.record("nobody counted", "make x", "0 found")
    proof_results.record("a pipe", "a | b", "5 | 6")
    mutants = tmp_path / "mutants.md"
    mutants.write_text("# Mutants\n\n2 mutants, 2 caught. None survives.\n\n| mutant | what | by |\n"
                       "|---|---|---|\n| no-epoch | settles | races_test |\n| no-owner | x | y |\n")
    ran = make_page(results, "--mutants", mutants, "--write", tmp_path / "tested.md")
    assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "tested.md").read_text()
    found = claims(text)
    assert found["no job is lost"] == ("make proof", "0 of 3,000", "below 0.1 % (n = 3,000)")
    assert found["no job is lost twice"][2] == "below 0.00015 % (n = 2,000,000)"
    assert found["recovered soon"] == ("make bench", "0.8 s", "")
    assert "not recorded" in found["nobody counted"][2]
    assert len(found) == 5
    assert "2 mutants, 2 caught. None survives." in text and "| no-epoch | settles |" in text
    limits = text.partition("## What is not proven")[2]
    assert "Power loss" in limits and "### The model" in limits and "### The simulator" in limits
    assert "SPDX" not in text
    assert re.search(r"at commit [0-9a-f]{10} unless a row names another\. \d+ cores \(.+\), \d+ GiB, Linux", text)


def test_a_claim_that_was_not_recorded_again_stays_with_the_commit_of_its_run(results, tmp_path):
    page = tmp_path / "tested.md"
    proof_results.record("an old | claim", "make proof", "0 of 7", n=7)
    proof_results.record("a claim", "make proof", "1")
    assert make_page(results, "--write", page).returncode == 0
    page.write_text(re.sub(r"at commit [0-9a-f]{10}", "at commit 0123456789", page.read_text()))
    before = claims(page.read_text())
    for path in results.glob("*.json"):
        path.unlink()
    proof_results.record("a claim", "make proof", "2")
    for _ in range(2):  # the second time nothing changes
        assert make_page(results, "--write", page).returncode == 0
        found = claims(page.read_text())
        assert found["a claim"][1] == "2"
        assert found["an old \\| claim"][1] == "0 of 7 (at 0123456789)"
        assert found["an old \\| claim"][2] == before["an old \\| claim"][2]
        assert len(found) == 2


def test_of_a_claim_the_last_result_counts(results):
    proof_results.record("x", "make proof", "1")
    proof_results.record("x", "make proof", "2")
    old = {"claim": "x", "command": "make proof", "figure": "3", "at": "2020-01-01T00:00:00Z",
           "commit": "0123456789"}
    (results / "z.json").write_text(json.dumps([old]))
    assert claims(make_page(results).stdout)["x"][1] == "2"
    old["at"] = "2999-01-01T00:00:00Z"
    (results / "z.json").write_text(json.dumps([old]))
    assert claims(make_page(results).stdout)["x"][1] == "3 (at 0123456789)"


@pytest.mark.parametrize("row,says", [
    ({"claim": "x", "figure": "1"}, "without a command"),
    ({"claim": "x", "command": " ", "figure": "1"}, "without a command"),
    ({"claim": "x", "command": "make"}, "without a figure"),
    ({"command": "make", "figure": "1"}, "without a claim"),
    ({"claim": "x", "command": "make", "figure": "0", "n": 0}, "number of trials"),
    ({"claim": "x", "command": "make", "figure": "0", "n": "5"}, "number of trials"),
    ("x", "is an object"),
])
def test_what_is_no_result_is_refused(results, row, says):
    results.mkdir()
    (results / "a.json").write_text(json.dumps([row]))
    ran = make_page(results)
    assert ran.returncode == 1 and says in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.parametrize("text,says", [("[", "no JSON"), ("{}", "a list")])
def test_a_file_that_is_none(results, text, says):
    results.mkdir()
    (results / "a.json").write_text(text)
    ran = make_page(results)
    assert ran.returncode == 1 and says in ran.stderr


def test_no_results_make_no_page(results):
    ran = make_page(results)
    assert ran.returncode == 1 and "make proof" in ran.stderr


@pytest.mark.parametrize("wrong", [("", "c", "f"), ("a", "", "f"), ("a", "c", " "), ("a\nb", "c", "f"),
                                   ("a", "c", 5)])
def test_nothing_is_recorded_without_command_and_figure(results, wrong):
    with pytest.raises(ValueError):
        proof_results.record(*wrong)
    assert not results.exists()


def test_nothing_is_kept_where_nobody_asked(tmp_path, monkeypatch):
    monkeypatch.delenv(proof_results.FOLDER, raising=False)
    monkeypatch.chdir(tmp_path)
    proof_results.record("x", "make", "1")
    assert not list(tmp_path.iterdir())


def test_the_page_that_is_kept_has_no_claim_without_a_command():
    text = (ROOT / "docs" / "tested.md").read_text()
    assert claims(text)
    assert "## What is not proven" in text and "at commit" in text
