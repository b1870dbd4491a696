# SPDX-License-Identifier: Apache-2.0
"""Chaos, small: the invariants hold while workers, sessions and the server are taken away."""

import os
import random

import pytest

import databases
from chaos import Chaos
from pgserver import PgServer

# Commits must survive a server that is stopped at once, though not the machine.
DURABLE = {"synchronous_commit": "on"}


def chosen_seed():
    return int(os.environ.get("CHAOS_SEED", random.randrange(1 << 30)))


@pytest.fixture
def durable_server():
    own = PgServer(DURABLE)
    try:
        yield own.start()
    finally:
        own.remove()


@pytest.mark.timeout(300)
def test_every_job_ends_once_on_postgres(durable_server, defib, tmp_path):
    db = databases.PgDatabase(durable_server)
    Chaos(defib.bin, db, tmp_path, chosen_seed(), jobs=300, kills=10, others=12,
          server=durable_server, step_s=(0.1, 0.5), settle_s=60).run()


def test_every_job_ends_once_on_sqlite(lite, defib, tmp_path):
    Chaos(defib.bin, lite, tmp_path, chosen_seed(), jobs=300, kills=12, others=10,
          step_s=(0.1, 0.5), settle_s=60).run()
