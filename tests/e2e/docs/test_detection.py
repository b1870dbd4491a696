# SPDX-License-Identifier: Apache-2.0
"""docs/detection.md says what the kept trace shows: its tables, and the claims made of them."""

import collections
import csv
import importlib.machinery
import importlib.util
import re
import subprocess

import pytest

from harness.program import BIN, ROOT
from harness.waiting import patience

PROGRAM = BIN.parent / "detector"

@pytest.fixture(scope="module")
def bench():
    """bench/detection as a module: its name has no suffix."""
    loader = importlib.machinery.SourceFileLoader("detection", str(ROOT / "bench" / "detection"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("detection", loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parts(bench):
    """All but the curves, which take long: `bench/detection --check` replays them too."""
    return bench.parts_of(bench.Trace(bench.TRACE), PROGRAM, but="curves")


@pytest.fixture(scope="module")
def defib(parts):
    """{variant: its score}, with all workers and in pairs."""
    return {part: {name: score for name, _, score in parts[part].rows}
            for part in ("guards", "two workers", "lease")}


def test_the_tables_of_the_page_are_what_the_replay_prints(bench, parts):
    page = bench.PAGE.read_text()
    assert bench.page_of(page, bench.tables_of(parts)) == page, "run bench/detection"


def test_the_data_file_has_the_same_figures(bench, parts):
    kept = bench.PAGE.with_suffix(".csv").read_text()
    curves = "".join(line for line in kept.splitlines(True) if line.startswith("curves,"))
    assert bench.rows_csv(parts) + curves == kept, "run bench/detection"
    names = collections.Counter(row["detector"] for row in csv.DictReader(kept.splitlines())
                                if row["part"] == "curves")
    svg = bench.PAGE.with_suffix(".svg").read_text()
    assert len(names) == svg.count("<polyline") == len(bench.CURVES)


def test_every_death_is_found(defib):
    for part in defib.values():
        for name, score in part.items():
            assert len(score.found) == score.deaths, name


def test_living_workers_are_only_lost_where_silence_is_all_there_is(defib):
    """One that is stopped, lost packets and a minority that is cut off look like death."""
    causes = defib["guards"]["all guards"].causes
    assert set(causes) <= {"stops", "loss", "partition-few"} and causes["loss"] <= 1


def test_each_guard_prevents_mistakes(defib):
    mistakes = {part: {name: score.mistakes for name, score in scores.items()}
                for part, scores in defib.items()}
    guards, pairs = mistakes["guards"], mistakes["two workers"]
    assert guards["no guard"] > 4 * guards["all guards"]
    assert guards["without brake"] > 2 * guards["all guards"]
    assert guards["without second look"] > guards["all guards"]
    assert pairs["without doubt"] > pairs["all guards"]
    assert mistakes["lease"]["lease, without brake"] > mistakes["lease"]["lease"]


def test_defib_is_better_than_a_fixed_time_out_that_is_as_fast(parts):
    scores = {name: score for name, _, score in parts["detectors"].rows}
    plain, own = scores["fixed time-out, 6 beats"], scores["defib daemon, 4 beats"]
    assert own.median() <= plain.median() + 1
    assert own.mistakes * 5 < plain.mistakes


@pytest.mark.parametrize("words, said", [
    (["watch", "1000", "0", "1"], "a duration is a number of milliseconds"),
    (["watch", "1000"], "watch needs BEAT, STUCK_AFTER and EVERY"),
    (["guess"], "watch or lease?")])
def test_the_detector_refuses_what_it_does_not_know(words, said):
    trace = "r 0 1 1 1000 1:0:0\nm 0 1 1\n"
    run = subprocess.run([str(PROGRAM), *words], input=trace, capture_output=True, text=True,
                         timeout=patience(), check=False)
    assert run.returncode == 2 and said in run.stderr and not run.stdout


def test_the_marks_of_the_page_are_all_known(bench):
    marks = re.findall(r"<!-- (\S+): written by bench/detection -->", bench.PAGE.read_text())
    assert marks == ["trace", "detectors", "causes", "guards", "two-workers", "lease", "shares"]
