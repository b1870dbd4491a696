# SPDX-License-Identifier: Apache-2.0
"""Chaos, large: 20,000 jobs and 500 kills on each engine."""

import pytest

import databases
from chaos import Chaos
from test_chaos import chosen_seed, durable_server  # noqa: F401

pytestmark = pytest.mark.proof


def test_twenty_thousand_jobs_and_500_kills_on_postgres(durable_server, defib,  # noqa: F811
                                                        tmp_path):
    db = databases.PgDatabase(durable_server)
    Chaos(defib.bin, db, tmp_path, chosen_seed(), jobs=20000, kills=500, others=250,
          server=durable_server, workers=5, concurrency=8, settle_s=240).run()


def test_twenty_thousand_jobs_and_500_kills_on_sqlite(lite, defib, tmp_path):
    Chaos(defib.bin, lite, tmp_path, chosen_seed(), jobs=20000, kills=500, others=250,
          workers=5, concurrency=8, settle_s=240).run()
