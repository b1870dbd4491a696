# SPDX-License-Identifier: Apache-2.0
"""Chaos, small: the invariants hold while workers, sessions and the server are taken away."""



from harness import databases
from harness.chaos_run import Chaos, chosen_seed
from harness.chaos_run import durable_server  # noqa: F401  (a fixture)


def test_every_job_ends_once_on_postgres(durable_server, defib, tmp_path):
    db = databases.PgDatabase(durable_server)
    Chaos(defib.bin, db, tmp_path, chosen_seed(), jobs=300, kills=10, others=12,
          server=durable_server, step_s=(0.1, 0.5), settle_s=60).run()


def test_every_job_ends_once_on_sqlite(lite, defib, tmp_path):
    Chaos(defib.bin, lite, tmp_path, chosen_seed(), jobs=300, kills=12, others=10,
          step_s=(0.1, 0.5), settle_s=60).run()
