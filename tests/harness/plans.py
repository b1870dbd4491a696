# SPDX-License-Identifier: Apache-2.0
"""What a statement reads, by EXPLAIN ANALYZE."""

import re

from harness.waiting import eventually

def read(pg):
    """Rows and index entries that statements on these tables read so far.

    Before PostgreSQL 15, counters of a session arrive some time after its end."""
    eventually(lambda: not pg.sql("SELECT 1 FROM pg_stat_activity WHERE datname = "
                                  "current_database() AND pid <> pg_backend_pid() AND "
                                  "backend_type = 'client backend'"))
    pg.sql("SELECT pg_stat_force_next_flush()")
    ((tables,),) = pg.sql("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM "
                          "pg_stat_user_tables WHERE relname IN ('jobs', 'ledger', 'hold')")
    ((indexes,),) = pg.sql("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes "
                           "WHERE relname IN ('jobs', 'ledger', 'hold')")
    return int(max(tables or 0, indexes or 0))


def explained(pg):
    """From now on every statement in this database leaves its plan in the server's log; the place
    where they begin."""
    for setting in ("session_preload_libraries = 'auto_explain'",
                    "auto_explain.log_min_duration = 0", "auto_explain.log_analyze = on",
                    "auto_explain.log_timing = off", "auto_explain.log_format = 'json'"):
        pg.sql(f"ALTER DATABASE {pg.name} SET {setting}")
    return pg.server.log.stat().st_size


def filtered(pg, begin):
    """The most rows that one join put together and threw away."""
    with open(pg.server.log, "rb") as log:
        log.seek(begin)
        text = log.read().decode(errors="replace")
    assert '"Plan"' in text
    return max(map(int, re.findall(r'"Rows Removed by Join Filter": (\d+)', text)), default=0)
