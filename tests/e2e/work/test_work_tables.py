# SPDX-License-Identifier: Apache-2.0
"""What holds for workers on any table: a killed one is noticed, a live one is trusted, and its
sizes change while it works.
"""

import signal
import time

import pytest

from harness.example_systems import ago, ledger
from harness.printed_sql import dump, run_script
from harness.table_workers import TableWorkers
from harness.waiting import eventually, running

HELD = 'echo "$$ $DEFIB_WORKER" >>began; await go'


class System:
    """One example's watch with a row that waits, and how that row looks in each state."""

    def __init__(self, name, watch, table, state, done, running_as, old):
        self.name, self.watch, self.table = name, watch, table
        self.state, self.done, self.running_as = state, done, running_as
        self.old = old  # the column that says how long it runs or is silent already


SYSTEMS = [
    System("scrapersky", "sitemaps", "sitemap_files", "sitemap_import_status", "Complete",
           "Processing", "updated_at"),
    System("scristill", "jobs", "jobs", "status", "completed", "running", "updated_at"),
    System("ocr", "ocr", "extraction_queue", "status_id", 5, 6, "ocr_started_at"),
]


def add_row(tables, name):
    if name == "scrapersky":
        tables.insert("sitemap_files", domain="a")
    elif name == "scristill":
        tables.insert("projects", name="p")
        tables.insert("jobs", type="crawl", project_id=tables.cell("SELECT id FROM projects"))
    else:
        tables.insert("extraction_queue", document_number="1")


@pytest.fixture(params=SYSTEMS, ids=[s.name for s in SYSTEMS])
def one(request, db, defib, with_tables):
    """A table with one row to be worked on."""
    system = request.param
    tables = TableWorkers(system.name, db, defib)
    tables.system = system
    add_row(tables, system.name)
    if system.name == "scristill":
        tables.change(("stagger: 1s", "stagger: 0s"))
    yield tables
    tables.close()


def status(tables):
    return tables.cell(f"SELECT {tables.system.state} FROM {tables.system.table}")


def grow_old(tables):
    tables.rows(f"UPDATE {tables.system.table} SET {tables.system.old} = {ago(tables.db, 86400)}")


@pytest.mark.covers("F2")
def test_a_killed_worker_s_row_is_recovered_at_once_by_a_fellow(one):
    """Long before its threshold: the ledger says that the worker was seen dead."""
    first = one.work(one.system.watch, "--name", "first", "--poll", "50ms", run=HELD)
    one.until_lines("began", 1)
    key = str(one.cell(f"SELECT id FROM {one.system.table}"))
    fellow = one.work(one.system.watch, "--name", "fellow", "--poll", "50ms", run=HELD)
    first.kill()
    one.until_lines("began", 2)
    pid, _ = one.lines("began")[0].split()
    assert not running(int(pid))
    assert one.lines("began")[1].split()[1] == "fellow"
    entries = one.ledger()
    assert [(w, j, v) for w, j, v, _ in entries] == [(one.system.watch, key, "dead")]
    (one.dir / "go").touch()
    one.until(f"SELECT {one.system.state} FROM {one.system.table}", one.system.done)
    assert fellow.stop() == 0


@pytest.mark.parametrize("one", SYSTEMS[:2], ids=[s.name for s in SYSTEMS[:2]], indirect=True)
def test_a_living_worker_s_old_row_is_left_alone(one):
    """Its lease says more than the row's age; without it the row is stuck."""
    worker = one.work(one.system.watch, "--lease", "1s", run=HELD)
    one.until_lines("began", 1)
    grow_old(one)
    ran = one("scan", one.system.watch, "--fix", "--json")
    assert (ran.code, ran.json["found"]) == (0, 0), ran.out
    assert status(one) == one.system.running_as
    worker.kill()
    eventually(lambda: one("scan", one.system.watch, "--fix", "--json").json["recovered"])
    assert status(one) != one.system.running_as


@pytest.mark.covers("C11")
@pytest.mark.parametrize("one", SYSTEMS[1:2], ids=[SYSTEMS[1].name], indirect=True)
@pytest.mark.parametrize("say, take_back", [(("pause",), ("resume",)),
                                            (("raise", "--by", "100"), ("raise", "--off"))],
                         ids=["pause", "raise"])
def test_a_worker_leaves_alone_what_people_told_the_daemons_to(one, say, take_back):
    """Its start and its sweeps recover rows too; they ignored a pause and a raised threshold."""
    def tell(command, *options):
        ran = one(command, one.system.watch, *options)
        assert ran.code == 0, ran.err
    tell(*say)
    one.rows("UPDATE jobs SET status = 'failed'")  # nothing to claim
    other = one.work(one.system.watch, "--name", "other", "--poll", "1h", run="true")
    one.rows(f"UPDATE jobs SET status = 'running', updated_at = {ago(one.db, 7200)}")
    one.work(one.system.watch, "--name", "starts", "--poll", "1h", run="true")
    # Its sweeps come after its start; a death that it notices makes one at once.
    other.kill()
    workers = ledger(one.db).replace("ledger", "worker")
    eventually(lambda: one.rows(f"SELECT 1 FROM {workers} WHERE state = 'dead'"))
    assert status(one) == "running"
    assert not one.ledger()
    tell(*take_back)
    one.until("SELECT status FROM jobs", "completed")


def test_slow_statements_of_a_watch_do_not_keep_a_worker_from_renewing(pg, defib):
    """Its own sweeps once took longer than its lease, and others declared it dead."""
    tables = TableWorkers("scrapersky", pg, defib)
    tables.change(("running: sitemap_import_status = 'Processing'",
                   "running: sitemap_import_status = 'Processing' "
                   "AND (SELECT pg_sleep(4)) IS NOT NULL"))
    worker = tables.work("sitemaps", "--lease", "2s", run=HELD, wait=False)
    slow = ("SELECT pid, query_start FROM pg_stat_activity WHERE state = 'active' AND "
            "datname = current_database() AND query LIKE '%%pg_sleep(4)%%' AND "
            "pid <> pg_backend_pid() AND now() - query_start < '1 s'")

    def renewals_beside_one_statement():
        seen = set()
        before = tables.rows(slow)
        while before and set(before) & set(tables.rows(slow.replace("'1 s'", "'4 s'"))):
            seen.update(tables.rows("SELECT renewed_at FROM defib.worker"))
        return len(seen) >= 3
    eventually(renewals_beside_one_statement)
    assert tables.rows("SELECT state FROM defib.worker") == [("alive",)]
    worker.kill()
    tables.close()


@pytest.mark.parametrize("one", SYSTEMS[2:], ids=[SYSTEMS[2].name], indirect=True)
def test_a_job_that_runs_too_long_is_freed_although_its_worker_lives(one):
    """A live worker does not excuse `overdue`; its later result is too late."""
    worker = one.work(one.system.watch, "--poll", "1h", run=HELD)
    one.until_lines("began", 1)
    grow_old(one)
    one("scan", one.system.watch, "--fix", env={"STAGING_DATABASE_URL": one.db.url})
    # Its worker looks for stuck rows too; whoever comes second records that the row had changed.
    eventually(lambda: {verdict for _, _, verdict, _ in one.ledger()} == {"overdue"})
    (one.dir / "go").touch()
    worker.wait_log("LEASE_LOST")
    # The slot that came free takes it anew.
    one.until("SELECT status_id FROM extraction_queue", 5)
    assert worker.stop() == 0
    assert worker.log.count("LEASE_LOST") == 1
    assert one.cell("SELECT ocr_attempts FROM extraction_queue") == 2


@pytest.mark.covers("E8")
def test_what_was_stuck_before_the_start_is_recovered_and_run(one):
    """It has no lease: only its age counts."""
    states = {"sitemap_import_status": "Processing", "status": "running", "status_id": 6}
    value = states[one.system.state]
    one.rows(f"UPDATE {one.system.table} SET {one.system.state} = %s", value)
    grow_old(one)
    (one.dir / "go").touch()
    one.work(one.system.watch, "--poll", "50ms", "--no-startup", run=HELD)
    one.until(f"SELECT {one.system.state} FROM {one.system.table}", one.system.done)


# ---- sizes that change ----


@pytest.fixture
def sky(db, defib, with_tables):
    own = TableWorkers("scrapersky", db, defib)
    own.change(("      batch: 10\n      concurrency: 10\n",
                "      concurrency: 1\n      poll: 50ms\n"))
    for n in range(12):
        own.insert("sitemap_files", domain=f"d{n}")
    yield own
    own.close()


def at_work(sky):
    return sky.cell("SELECT count(*) FROM sitemap_files"
                    " WHERE sitemap_import_status = 'Processing'")


@pytest.mark.covers("D4")
def test_a_hangup_makes_a_pool_larger_without_losing_work(sky):
    worker = sky.work("sitemaps", run=HELD)
    sky.until_lines("began", 1)
    sky.change(("concurrency: 1\n", "concurrency: 3\n"))
    worker.signal(signal.SIGHUP)
    sky.until_lines("began", 3)
    assert at_work(sky) == 3
    assert running(int(sky.lines("began")[0].split()[0]))
    (sky.dir / "go").touch()
    sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Complete'", 12)
    assert len(sky.lines("began")) == 12
    assert worker.stop() == 0


@pytest.mark.covers("D4")
def test_a_hangup_makes_a_pool_smaller_when_its_jobs_end(sky):
    sky.change(("concurrency: 1\n", "concurrency: 4\n"))
    # Each goes on until its own file is there.
    worker = sky.work("sitemaps", run='echo "$DEFIB_JOB_ID" >>began; '
                      'await "go.$DEFIB_JOB_ID" go')
    sky.until_lines("began", 4)
    sky.change(("concurrency: 4\n", "concurrency: 1\n"))
    worker.signal(signal.SIGHUP)
    worker.wait_log("configuration reloaded")
    for job in sky.lines("began")[:3]:
        (sky.dir / f"go.{job}").touch()
    sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Complete'", 3)
    assert at_work(sky) == 1 and len(sky.lines("began")) == 4
    (sky.dir / "go").touch()
    sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Complete'", 12)
    assert len(sky.lines("began")) == 12
    assert worker.stop() == 0


@pytest.mark.covers("D4")
def test_a_broken_file_leaves_the_old_sizes_in_force_and_is_named(sky):
    worker = sky.work("sitemaps", run=HELD)
    sky.until_lines("began", 1)
    good = sky.config.read_text()
    sky.config.write_text(good.replace("concurrency: 1\n", "concurrency: many\n"))
    worker.signal(signal.SIGHUP)
    worker.wait_log("the previous one stays in force")
    assert "changed.yaml" in worker.log and "concurrency" in worker.log
    assert at_work(sky) == 1
    sky.config.write_text(good.replace("concurrency: 1\n", "concurrency: 2\n"))
    worker.signal(signal.SIGHUP)
    sky.until_lines("began", 2)
    (sky.dir / "go").touch()
    assert worker.stop() == 0


def test_the_command_line_goes_before_the_file_also_after_a_hangup(sky):
    worker = sky.work("sitemaps", "--concurrency", "2", run=HELD)
    sky.until_lines("began", 2)
    sky.change(("concurrency: 1\n", "concurrency: 9\n"))
    worker.signal(signal.SIGHUP)
    worker.wait_log("configuration reloaded")
    time.sleep(0.5)  # ten polls: with a concurrency of 9 more would have begun
    assert len(sky.lines("began")) == 2
    (sky.dir / "go").touch()
    sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Complete'", 12)
    assert worker.stop() == 0


# ---- a table that refuses ----


def test_an_end_that_the_table_refuses_fails_that_row_and_holds_up_no_other(sky):
    sky.rows("DELETE FROM sitemap_files")
    for n in range(6):
        sky.insert("sitemap_files", domain=f"d{n}")
    sky.rows("CREATE UNIQUE INDEX one_done ON sitemap_files (domain) "
             "WHERE sitemap_import_status = 'Complete'")
    sky.insert("sitemap_files", domain="d3", sitemap_import_status="Complete")
    worker = sky.work("sitemaps", run="true")
    sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Complete'", 6)
    sky.until("SELECT max(domain) FROM sitemap_files WHERE sitemap_import_status = 'Failed'", "d3")
    assert worker.stop() == 0
    assert "refused to record it as done" in sky.cell(
        "SELECT sitemap_import_error FROM sitemap_files WHERE sitemap_import_status = 'Failed'")


# ---- one worker, several watches ----


def test_a_cancelled_job_takes_no_other_watch_s_job_of_the_same_key_with_it(db, defib):
    own = TableWorkers("scristill", db, defib)
    try:
        own.rows("CREATE TABLE twins (id varchar(9) PRIMARY KEY, status text)")
        own.rows("CREATE TABLE others (id varchar(9) PRIMARY KEY, status text)")
        part = """
  - name: {0}
    table: {0}
    key: id
    running: status IN ('running', 'cancelling')
    started_at: CURRENT_TIMESTAMP
    overdue_after: 1h
    requeue: status = 'queued'
    cancel: status = 'cancelling'
    work:
      ready: status = 'queued'
      claim: status = 'running'
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
"""
        own.config = own.dir / "twins.yaml"
        own.config.write_text(
            "databases:\n  - name: main\n    url: ${DATABASE_URL}\nwatches:"
            + part.format("twins") + part.format("others"))
        for table in ("twins", "others"):
            own.rows(f"INSERT INTO {table} VALUES ('1', 'queued')")
        worker = own.work("twins", "others", run=HELD)
        own.until_lines("began", 2)
        own.rows("UPDATE twins SET status = 'cancelling'")
        own.until("SELECT status FROM twins", "failed")
        assert own.cell("SELECT status FROM others") == "running"
        (own.dir / "go").touch()
        own.until("SELECT status FROM others", "done")
        assert worker.stop() == 0
        assert len(own.lines("began")) == 2
    finally:
        own.close()


def test_the_printed_statements_end_the_leases_of_what_they_free(db, defib, tmp_path):
    sky = TableWorkers("scrapersky", db, defib)
    script = sky("sql", "sitemaps").out
    assert "end the leases" in script and "lease" in script
    before = dump(db)
    run_script(db, script, tmp_path)
    assert dump(db) == before
