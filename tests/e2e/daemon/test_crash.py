# SPDX-License-Identifier: Apache-2.0
"""A killed worker's job runs elsewhere, and the registry says how the death was noticed."""

import json
import os
import subprocess

import pytest

from harness.program import ROOT

pytestmark = pytest.mark.plain
BENCH = ROOT / "bench" / "crash"
KILLS = 10


@pytest.mark.parametrize("setup, cause", [("postgres", "exit seen"), ("hosts", "session gone"),
                                          ("sqlite", "exit seen")])
def test_every_killed_workers_job_is_recovered(setup, cause, defib):
    if setup == "hosts" and os.getuid() != 0:
        pytest.skip("network and PID namespaces need root")
    env = {**os.environ, "BENCH_KILLS": str(KILLS), "DEFIB_BIN": str(defib.bin)}
    done = subprocess.run([BENCH, "--json", "--no-bars", setup], env=env, capture_output=True,
                          text=True, check=False)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)[0]
    print(result)
    assert result["count"] == KILLS
    assert result["causes"] == {cause: KILLS}
