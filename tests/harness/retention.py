# SPDX-License-Identifier: Apache-2.0
"""A database in which everything has ended long ago."""

import time

def config(db, **ages):
    ages = {"every": "1s", **ages}
    lines = "".join(f"  {name}: {age}\n" for name, age in ages.items())
    return f'databases: [{{name: main, url: "{db.url}"}}]\nretention:\n{lines}'


def fill(db, n, state="done", days=8):
    """So many jobs that ended so many days ago, with a payload each."""
    if db.engine == "postgres":
        db.sql("WITH j AS (INSERT INTO defib.job (queue, kind, state, created_at, finished_at) "
               "SELECT 'q', 'k', %s, now() - interval '1 day' * %s, now() - interval '1 day' * %s "
               "FROM generate_series(1, %s) RETURNING id) "
               "INSERT INTO defib.job_data (job, payload) SELECT id, '{}' FROM j",
               state, days, days, n)
    else:
        now = int(time.time() * 1000) - int(days * 86400000)
        db.sql(f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) "
               "INSERT INTO defib_job (queue, kind, state, created_at, run_at, finished_at) "
               f"SELECT 'q', 'k', '{state}', {now}, {now}, {now} FROM n")
        db.sql("INSERT INTO defib_job_data (job, payload) SELECT id, '{}' FROM defib_job "
               "WHERE id NOT IN (SELECT job FROM defib_job_data)")
