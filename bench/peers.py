# SPDX-License-Identifier: Apache-2.0
"""graphile-worker and pg-boss for comparison in bench/throughput, installed from npm once."""

import pathlib
import shutil
import subprocess
import sys

import measured

sys.path.insert(0, str(measured.ROOT / "tests"))

import pytest  # noqa: E402
from harness import npm_queues  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parent / "peers"
NAMES = {"graphile-worker": "graphile.mjs", "pg-boss": "pgboss.mjs"}
SCHEMAS = {"graphile-worker": "graphile_worker", "pg-boss": "pgboss"}


def install():
    """The directory that holds them; None, after printing why, if they are not available."""
    folder = measured.ROOT / "build" / "peers"
    try:
        npm_queues.install(folder, SOURCE)
    except pytest.skip.Exception as why:
        print(f"peers are not measured: {why}", file=sys.stderr)
        return None
    for script in NAMES.values():
        shutil.copy(SOURCE / script, folder)  # an ES module finds its packages by where it lies
    return folder


def rate(folder, name, db, in_hand, jobs):
    """Jobs per second of one run on a fresh database."""
    done = subprocess.run(["node", folder / NAMES[name], str(in_hand), str(jobs)],
                          env=measured.environment(folder, DATABASE_URL=db.url),
                          capture_output=True, text=True, timeout=600, check=False)
    stamps = [line for line in done.stdout.splitlines() if len(line.split()) == 3
              and line.replace(" ", "").isdigit()]
    if done.returncode or not stamps:
        raise RuntimeError(f"{name}: {done.stderr or done.stdout}")
    return measured.per_second([tuple(map(int, stamps[-1].split()))])
