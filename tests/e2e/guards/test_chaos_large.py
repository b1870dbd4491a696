# SPDX-License-Identifier: Apache-2.0
"""Chaos, large: 3,000 kills and 100 restarts of the server, on 20,000 jobs of each engine."""

import pytest

from harness import databases
from harness.chaos_run import Chaos
from harness.chaos_run import chosen_seed, durable_server  # noqa: F401
from harness.proof_results import record

pytestmark = pytest.mark.proof


def tell(chaos):
    """Each job is one trial: it could have been lost, settled twice or left open."""
    kills = f"{chaos.injected['kill']} workers killed"
    restarts = f", {chaos.injected['restart']} server restarts" if chaos.injected["restart"] else ""
    faults = f"{sum(chaos.injected.values())} faults: {kills}{restarts}"
    jobs = sum(chaos.sent.values())  # of which the enqueuer was told that they are there
    record(f"no acknowledged job is lost, settled twice or left open while workers are killed "
           f"({chaos.db.engine})", "make proof", f"0 of {jobs:,} jobs; {faults}",
           jobs)
    record(f"the model allows the real history of each job of a chaos run ({chaos.db.engine})",
           "make proof", f"0 of {chaos.replayed:,} histories are forbidden", chaos.replayed)


def test_2000_kills_and_100_restarts_on_postgres(durable_server, defib,  # noqa: F811
                                                 tmp_path):
    db = databases.PgDatabase(durable_server)
    chaos = Chaos(defib.bin, db, tmp_path, chosen_seed(), jobs=20000, kills=2000, others=250,
                  server=durable_server, workers=5, concurrency=8, settle_s=240, restarts=100)
    chaos.run()
    tell(chaos)


def test_1000_kills_on_sqlite(lite, defib, tmp_path):
    chaos = Chaos(defib.bin, lite, tmp_path, chosen_seed(), jobs=20000, kills=1000, others=250,
                  workers=5, concurrency=8, settle_s=240)
    chaos.run()
    tell(chaos)
