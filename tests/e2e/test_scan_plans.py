"""What statements that take a list of jobs read: as much as the list is long, by index.

A planner that takes the list for long, or the table for small, reads a whole index through, or
filters one list by another. The rows that were read are counted by the server.
"""

import pytest
from workers import eventually

ROWS = 20_000
# A stuck row is met by the count, the look, the lock, the second reading and the write; what the
# ledger knows of it costs as much again.
READ_MOST = 14
SOME = 100

CONFIG = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: beat_at
    owner: owner
    stuck_after: 1h
    crash_budget: {budget}
    batch: {batch}
    requeue: {requeue}
"""
REQUEUE = "status = 'queued', owner = null, beat_at = :now"


def make(pg, stuck):
    pg.sql("CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL, owner text, "
           "beat_at timestamptz NOT NULL)")
    # Spread over the table, so that no part of an index is just what is wanted.
    pg.sql("INSERT INTO jobs SELECT i, CASE WHEN i %% %s = 0 THEN 'running' ELSE 'done' END, 'w', "
           "now() - interval '2 hours' FROM generate_series(1, %s) AS i", ROWS // stuck, ROWS)
    pg.sql("CREATE INDEX ON jobs (beat_at, id) WHERE status = 'running'")
    pg.sql("VACUUM ANALYZE jobs")


def read(pg):
    """Rows and index entries that statements on these tables read so far."""
    eventually(lambda: not pg.sql("SELECT 1 FROM pg_stat_activity WHERE datname = "
                                  "current_database() AND pid <> pg_backend_pid() AND "
                                  "backend_type = 'client backend'"))
    pg.sql("SELECT pg_stat_force_next_flush()")
    ((tables,),) = pg.sql("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM "
                          "pg_stat_user_tables WHERE relname IN ('jobs', 'ledger', 'hold')")
    ((indexes,),) = pg.sql("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes "
                           "WHERE relname IN ('jobs', 'ledger', 'hold')")
    return int(max(tables or 0, indexes or 0))


@pytest.mark.parametrize("how", ["whole", "singly"])
@pytest.mark.parametrize("stuck", [1, 100, 1000, 10_000])
def test_a_list_of_jobs_costs_what_it_is_long(defib, pg, stuck, how):
    """Also the second time, when the ledger knows of all of them."""
    make(pg, stuck)
    if how == "singly":  # a trigger may do more to a row than the UPDATE says
        pg.sql("CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS "
               "'BEGIN RETURN NULL; END'")
        pg.sql("CREATE TRIGGER nothing AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION "
               "nothing()")
    config = CONFIG.format(url=pg.url, batch=min(stuck, 1000) if how == "singly" else stuck,
                           budget="{max: 9, within: 1h}", requeue=REQUEUE)
    defib("init", config=config)
    for _ in range(2):
        before = read(pg)
        ran = defib("scan", "--fix", "--json", config=config)
        assert ran.json["recovered"] == stuck
        assert read(pg) - before <= READ_MOST * stuck + SOME
        pg.sql("UPDATE jobs SET status = 'running', owner = 'w', "
               "beat_at = now() - interval '2 hours' WHERE status = 'queued'")
