# SPDX-License-Identifier: Apache-2.0
"""What statements that take a list of jobs read: in proportion to the list, by index.

A planner that believes the list to be long, or the table to be small, scans a whole index, or
filters one list by another. The server counts the rows that were read.
"""


import pytest

from harness.plans import explained, filtered, read

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


def make(pg, stuck, known=True, key="PRIMARY KEY"):
    """known: the planner's statistics know of the running rows."""
    pg.sql(f"CREATE TABLE jobs (id bigint {key}, status text NOT NULL, owner text, "
           "beat_at timestamptz NOT NULL) WITH (autovacuum_enabled = off)")
    pg.sql("INSERT INTO jobs SELECT i, 'done', 'w', now() - interval '2 hours' "
           "FROM generate_series(1, %s) AS i", ROWS)
    pg.sql("CREATE INDEX ON jobs (beat_at, id) WHERE status = 'running'")
    if not known:
        pg.sql("VACUUM ANALYZE jobs")
    # Spread over the table, so that no part of an index is just what is wanted.
    pg.sql("UPDATE jobs SET status = 'running' WHERE id %% %s = 0", ROWS // stuck)
    if known:
        pg.sql("VACUUM ANALYZE jobs")


@pytest.mark.needs("PostgreSQL >= 15")  # its counters are read (harness/plans.py)
@pytest.mark.parametrize("stuck, known", [
    (1, True), (1, False), (100, True), (100, False), (1000, True), (1000, False), (10_000, False),
    pytest.param(10_000, True, marks=pytest.mark.proof)])
@pytest.mark.parametrize("how", ["whole", "singly"])
def test_a_list_of_jobs_costs_what_it_is_long(defib, pg, stuck, how, known):
    """Also the second time, when the ledger knows of all of them."""
    make(pg, stuck, known)
    if how == "singly":  # a trigger may do more to a row than the UPDATE says
        pg.sql("CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS "
               "'BEGIN RETURN NULL; END'")
        pg.sql("CREATE TRIGGER nothing AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION "
               "nothing()")
    config = CONFIG.format(url=pg.url, batch=min(stuck, 1000) if how == "singly" else stuck,
                           budget="{max: 9, within: 1h}", requeue=REQUEUE)
    defib("init", config=config)
    begin = explained(pg)
    for _ in range(2):
        before = read(pg)
        ran = defib("scan", "--fix", "--json", config=config)
        assert ran.json["recovered"] == stuck
        assert read(pg) - before <= READ_MOST * stuck + SOME
        pg.sql("UPDATE jobs SET status = 'running', owner = 'w', "
               "beat_at = now() - interval '2 hours' WHERE status = 'queued'")
    assert filtered(pg, begin) <= 2 * stuck


@pytest.mark.needs("PostgreSQL >= 15")  # its counters are read (harness/plans.py)
def test_a_key_without_an_index_reads_the_table_a_few_times_a_batch(defib, pg):
    """And not once for every job."""
    make(pg, 1000, key="NOT NULL")
    config = CONFIG.format(url=pg.url, batch=1000, budget="off", requeue=REQUEUE)
    defib("init", config=config)
    before = read(pg)
    assert defib("scan", "--fix", "--json", config=config).json["recovered"] == 1000
    assert read(pg) - before <= 6 * ROWS


# ---- many: written by further sessions, while the next are read


MANY = 6000


def entries(pg):
    return pg.sql("SELECT count(*), count(DISTINCT job) FROM defib.ledger "
                  "WHERE event = 'REQUEUED'")[0]


def many(defib, pg):
    """A scan of MANY stuck rows in batches of 200, each written once."""
    make(pg, ROWS)
    pg.sql("UPDATE jobs SET status = 'done' WHERE id > %s", MANY)
    config = CONFIG.format(url=pg.url, batch=200, budget="off", requeue=REQUEUE)
    defib("init", config=config)
    return config


def test_many_are_written_once_each_and_counted(defib, pg):
    config = many(defib, pg)
    ran = defib("scan", "--fix", "--json", config=config)
    assert ran.code == 0 and ran.json["recovered"] == MANY
    assert entries(pg) == (MANY, MANY)
    parts = pg.sql("SELECT batch, count(*) FROM defib.ledger GROUP BY 1")
    assert sorted(int(name.rpartition(".")[2]) for name, _n in parts) == list(range(1, 31))
    assert {n for _name, n in parts} == {200}
    assert defib("ledger", "verify", config=config).code == 0
    jobs = [int(j["key"]) for j in ran.json["watches"][0]["jobs"]]
    assert len(jobs) == MANY and jobs == sorted(jobs)  # told in the order of the look


def test_among_many_what_others_have_is_left_and_the_rest_is_written(defib, pg):
    config = many(defib, pg)
    other = pg.connect()
    other.autocommit = False
    other.cursor().execute("SELECT 1 FROM jobs WHERE id IN (5, 2500, 5990) FOR UPDATE")
    ran = defib("scan", "--fix", "--json", config=config)
    other.rollback()
    other.close()
    assert (ran.json["recovered"], ran.json["locked"]) == (MANY - 3, 3)
    assert entries(pg) == (MANY - 3, MANY - 3)


def test_among_many_a_row_that_is_refused_is_named_and_the_rest_is_written(defib, pg):
    config = many(defib, pg)
    pg.sql("ALTER TABLE jobs ADD CHECK (id <> 3333 OR status <> 'queued')")
    ran = defib("scan", "--fix", "--json", config=config)
    assert (ran.json["recovered"], ran.json["refused"]) == (MANY - 1, 1)
    assert entries(pg) == (MANY - 1, MANY - 1)


def test_sessions_that_are_ended_among_many_are_replaced(defib, pg):
    """Each statement that writes ends the session of another, some times."""
    config = many(defib, pg)
    pg.sql("CREATE TABLE ends (n int)")
    pg.sql("CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS "
           "$$ BEGIN INSERT INTO ends SELECT 1 WHERE (SELECT count(*) FROM ends) < 3; "
           "IF FOUND THEN PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
           "current_database() AND application_name LIKE 'defib%' AND pid <> pg_backend_pid(); "
           "END IF; RETURN NULL; END $$")
    pg.sql("CREATE TRIGGER ends AFTER INSERT ON defib.ledger FOR EACH STATEMENT EXECUTE "
           "FUNCTION ends()")
    ran = defib("scan", "--fix", "--json", config=config)
    assert ran.code == 0 and pg.sql("SELECT count(*) FROM ends") == [(3,)]
    assert entries(pg) == (MANY, MANY)
    assert pg.sql("SELECT count(*) FROM jobs WHERE status = 'queued'") == [(MANY,)]


def test_where_no_further_session_is_to_be_had_one_does_it_all(defib, pg):
    config = many(defib, pg)
    pg.sql(f"ALTER DATABASE {pg.name} CONNECTION LIMIT 2")
    role = f"one_{pg.name}"
    pg.sql(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    pg.sql(f"GRANT ALL ON SCHEMA public, defib TO {role}")
    pg.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA public, defib TO {role}")
    pg.sql(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA defib TO {role}")
    try:
        own = config.replace(pg.url, pg.url.replace("postgres@", f"{role}@"))
        ran = defib("scan", "--fix", "--json", config=own)
        assert ran.code == 0 and ran.json["recovered"] == MANY
    finally:
        pg.sql(f"DROP OWNED BY {role}")
        pg.sql(f"DROP ROLE {role}")
