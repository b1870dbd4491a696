# SPDX-License-Identifier: Apache-2.0
"""The speed benchmarks run, and their output says which bar is which."""

import json
import subprocess

import bars
import pytest

from harness.program import ROOT
from harness.waiting import patience

pytestmark = pytest.mark.plain
BENCH = ROOT / "bench"



def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=patience(), check=False)


@pytest.mark.parametrize("name", ["throughput", "enqueue", "idle", "scan", "performance"])
def test_a_benchmark_says_what_it_measures(name):
    said = run(BENCH / name, "--help")
    assert said.returncode == 0, said.stderr
    assert "minimum is missed" in said.stdout


@pytest.mark.parametrize("name", ["throughput", "enqueue", "idle", "scan"])
def test_a_part_that_there_is_not_is_refused(name):
    said = run(BENCH / name, "nonsense")
    assert said.returncode == 2 and "unknown part nonsense" in said.stderr


def test_a_first_bar_that_is_missed_is_not_a_goal_that_is_not_met():
    assert bars.verdict("queue 1", 0.84) == "MISSED"
    assert bars.verdict("queue 1", 0.85) == "not met"
    assert bars.verdict("queue 1", 1.5) == "met"
    assert bars.verdict("idle 1", 1.01) == "MISSED"
    assert bars.verdict("idle 1", 0.3) == "met"
    assert bars.verdict("http 1", 1) == ""


@pytest.mark.bench
@pytest.mark.parametrize("name", ["throughput", "enqueue", "idle", "scan"])
def test_a_tiny_run_measures_what_has_a_bar(name, tmp_path):
    done = run(BENCH / name, "--tiny", "--json", tmp_path / "found.json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert rows and all(row["value"] > 0 for row in rows if not row["name"].startswith("daemon"))
