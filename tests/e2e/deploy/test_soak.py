# SPDX-License-Identifier: Apache-2.0
"""A soak of one minute: what the long one reads can be read, and nothing grows at once."""

import json
import os
import subprocess

import pytest

from harness import soak
from harness.growth import drift
from harness.program import ROOT


@pytest.mark.proof
def test_a_minute_of_soak(defib, tmp_path):
    ran = subprocess.run([ROOT / "scripts" / "soak", "1", "--json", tmp_path / "soak.json"],
                         env={**os.environ, "DEFIB_BIN": str(defib.bin)}, capture_output=True,
                         text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads((tmp_path / "soak.json").read_text())
    assert {"memory of daemon", "descriptors of worker", "connections", "tables", "indexes",
            "memory of sqlite-worker"} <= {one["name"] for one in told["drifts"]}
    assert sum(told["faults"].values()) > 1 and told["jobs"]["postgres"] and told["jobs"]["sqlite"]
    assert any(name.startswith("recovery") for name in told["series"])


@pytest.mark.parametrize("minutes", ["0", "-1", "x", "100000"])
def test_minutes_that_make_no_sense(minutes):
    ran = subprocess.run([ROOT / "scripts" / "soak", "--", minutes], capture_output=True, text=True,
                         check=False)
    assert ran.returncode and "minutes" in ran.stderr.lower()


def test_every_figure_but_the_ledger_has_a_bound(tmp_path):
    """A soak that was forged: one of its figures grows, and the table says which."""
    own = soak.Soak("defib", tmp_path, 60, 1)
    for name in soak.BOUNDS:
        level = 20 * soak.UNITS.get(name, 1)
        grows = level if name == "descriptors" else 0
        own.series[f"{name} of x"] = [(s, level + grows * s / 3600) for s in range(0, 3600, 10)]
    own.series["ledger"] = [(s, s * soak.MB) for s in range(0, 3600, 10)]
    drifts = own.drifts()
    assert len(drifts) == len(soak.BOUNDS)
    assert [one.name for one in drifts if one.leaks] == ["descriptors of x"]
    grown = [line for line in own.table(drifts) if line.endswith("GROWS")]
    assert len(grown) == 1 and grown[0].startswith("descriptors of x")
    assert any(line.startswith("ledger") and "no bound" in line for line in own.table(drifts))
    own.write(tmp_path / "soak.json", drifts)
    told = json.loads((tmp_path / "soak.json").read_text())
    assert [one["name"] for one in told["drifts"] if one["leaks"]] == ["descriptors of x"]


@pytest.mark.parametrize("name", soak.BOUNDS)
def test_each_figure_can_be_called_a_leak(name):
    """Growth at one rate, from nearly nothing."""
    level = 20 * soak.UNITS.get(name, 1) * (100 if name == "page" else 1)
    series = [(s, level * (1 + 20 * s / 3600)) for s in range(0, 3600, 10)]
    assert drift(name, series, soak.BOUNDS[name]).leaks
