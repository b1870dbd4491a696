# SPDX-License-Identifier: Apache-2.0
"""Each table's results are recorded in their own order: one that refuses delays no other."""

import resource

import pytest

from harness.doctor_setup import role
from harness.two_tables import TwoTables
from harness.waiting import eventually


@pytest.fixture
def tables(db, defib, with_tables):
    own = TwoTables(defib, db)
    yield own
    own.close()


RIGHTS = ("GRANT ALL ON SCHEMA public, defib TO ROLE",
          "GRANT ALL ON ALL TABLES IN SCHEMA public, defib TO ROLE",
          "GRANT ALL ON ALL SEQUENCES IN SCHEMA public, defib TO ROLE",
          "GRANT ALL ON ALL FUNCTIONS IN SCHEMA defib TO ROLE")


@pytest.fixture
def revocable(pg, defib, with_tables):
    """The same, of a worker whose rights can be taken away."""
    own = TwoTables(defib, pg)
    with role(pg, *RIGHTS) as url:
        own.url, own.role = url, f"r_{pg.name}"
        yield own
        own.close()


def begin(tables, each=3):
    """A worker has all rows of both tables in hand."""
    tables.add("one", each)
    tables.add("two", each)
    worker = tables.work("one", "two")
    tables.until(lambda: len(tables.began()) == 2 * each)
    return worker


def healed(tables, rows):
    """It takes results again: the next row shows it, and the others follow at once."""
    tables.add("one")
    tables.until(lambda: tables.states("one") == ["done"] * (rows + 1))
    assert len(tables.began()) == len(set(tables.began())), "a job ran twice"


def test_a_right_that_was_revoked_holds_up_no_other_table(revocable):
    tables = revocable
    worker = begin(tables)
    tables.db.sql(f"REVOKE UPDATE ON one FROM {tables.role}")
    tables.go()
    tables.until(lambda: tables.states("two") == ["done"] * 3)
    worker.wait_log("RESULTS SET ASIDE")
    assert tables.states("one") == ["running"] * 3
    assert "permission denied" in worker.log
    tables.db.sql(f"GRANT UPDATE ON one TO {tables.role}")
    healed(tables, 3)
    worker.wait_log("no results are set aside any more")
    assert worker.stop() == 0


def test_a_table_that_is_gone_holds_up_no_other(tables):
    worker = begin(tables)
    tables.db.sql("ALTER TABLE one RENAME TO elsewhere")
    tables.go()
    tables.until(lambda: tables.states("two") == ["done"] * 3)
    worker.wait_log("RESULTS SET ASIDE")
    tables.db.sql("ALTER TABLE elsewhere RENAME TO one")
    healed(tables, 3)
    assert worker.stop() == 0


def test_what_is_set_aside_outlives_its_worker(tables):
    worker = begin(tables, 1)
    tables.db.sql("ALTER TABLE one RENAME TO elsewhere")
    tables.go()
    worker.wait_log("RESULTS SET ASIDE")
    worker.kill()
    tables.db.sql("ALTER TABLE elsewhere RENAME TO one")
    after = tables.work("one", "two")
    tables.until(lambda: tables.states("one") == ["done"])
    after.wait_log("settled from the spool")
    assert sorted(tables.began()) == ["one 1", "two 1"]


def test_results_of_a_renamed_watch_wait_and_are_named(tables):
    worker = begin(tables, 1)
    tables.db.sql("ALTER TABLE one RENAME TO elsewhere")
    tables.go()
    worker.wait_log("RESULTS SET ASIDE")
    assert worker.stop() == 0
    tables.db.sql("ALTER TABLE elsewhere RENAME TO one")
    renamed = tables.work("uno:one", "two")
    renamed.wait_log("results in the spool wait for a worker of their source")
    assert "sources=one" in renamed.log

    def told():
        ran = tables.program("status", "-c", tables.dir / "defib.yaml")
        return ran.code == 1 and "wait for a worker that serves one" in ran.out
    tables.until(told)
    assert renamed.stop() == 0
    again = tables.work("one", "two")
    again.wait_log("from the spool")


def test_a_result_that_its_table_refuses_for_ever_holds_up_no_other_row(tables):
    """Nor is its job released, to run again and be refused again."""
    worker = begin(tables, 2)
    if tables.db.engine == "postgres":
        tables.db.sql("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
                      "$$BEGIN RAISE 'not this one' USING ERRCODE = '23514'; END$$")
        tables.db.sql("CREATE TRIGGER no BEFORE UPDATE ON one FOR EACH ROW WHEN (OLD.id = 1) "
                      "EXECUTE FUNCTION no()")
    else:
        tables.db.sql("CREATE TRIGGER no BEFORE UPDATE ON one WHEN OLD.id = 1 "
                      "BEGIN SELECT RAISE(ABORT, 'not this one'); END")
    tables.go()
    tables.until(lambda: tables.states("one")[1] == "done" and
                 tables.states("two") == ["done"] * 2)
    worker.wait_log("result not recorded: one 1 stuck")
    tables.add("one")
    tables.until(lambda: tables.states("one") == ["running", "done", "done"])
    assert len(tables.began()) == 5
    assert worker.stop() == 0


def test_what_the_host_lacks_is_no_job_s_failure(queue):
    """64 descriptors are enough for a few programs at a time, not for all of them."""
    go = queue.program.dir / "go"
    worker = queue.work("--name", "anna", "--concurrency", "60", "--poll", "100ms", "--spool",
                        queue.program.dir / "spool", run=f"until [ -e {go} ]; do sleep 0.1; done")
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (64, 64))
    queue.bulk(60)
    worker.wait_log("this host cannot start programs")
    go.touch()
    eventually(lambda: not queue.all("id", "state <> 'done'"))
    assert {tuple(row) for row in queue.all("attempts, crashes")} == {(1, 0)}
    assert worker.log.count("this host cannot start programs: jobs are released") == 1
    assert worker.stop() == 0
