# SPDX-License-Identifier: Apache-2.0
"""What decides about a job is in another table: it is locked with the job, never waited for, and
never overwritten.
"""

import json

import pytest

from harness import preset_tables
from harness.ruvon import FIRST, Ruvon

CREATE = """
CREATE TABLE job (id int PRIMARY KEY, tries int NOT NULL DEFAULT 0);
CREATE TABLE job_state (job int PRIMARY KEY, state text, at timestamptz DEFAULT now());
CREATE TABLE beat (job int, at timestamptz);
CREATE TABLE total (name text PRIMARY KEY, n int);
INSERT INTO job VALUES (1), (2);
INSERT INTO job_state VALUES (1, 'running'), (2, 'running');
INSERT INTO beat VALUES (1, now() - interval '1 hour'), (2, now() - interval '2 hours');
INSERT INTO total VALUES ('recovered', 0);
CREATE FUNCTION wait_again(of int) RETURNS void LANGUAGE sql AS
    'UPDATE job_state SET state = ''waiting'' WHERE job = of';
"""
BY_TRIGGER = """
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM wait_again(NEW.id); RETURN NEW; END';
CREATE TRIGGER again BEFORE UPDATE OF tries ON job FOR EACH ROW EXECUTE FUNCTION again();
"""
WATCH = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: e
    table: job
    key: id
    running: {running}
    alive_at: (SELECT max(b.at) FROM beat b WHERE b.job = t.id)
    stuck_after: 10m
    attempts: 0
    max_attempts: 9
    requeue: {requeue}
{more}"""
EXISTS = "EXISTS (SELECT 1 FROM job_state s WHERE s.job = t.id AND s.state = 'running')"
VALUE = "coalesce((SELECT s.state FROM job_state s WHERE s.job = t.id LIMIT 1), '') = 'running'"
COUNT = "(SELECT count(*) FROM job_state s WHERE s.job = t.id AND s.state = 'running') > 0"
IN_LIST = "t.id IN (SELECT s.job FROM job_state s WHERE s.state = 'running')"
STATEMENT = ("{sql: [\"UPDATE job_state s SET state = 'waiting' FROM stuck x "
             "WHERE s.job = x.id\"]}")
CALL = '{call: "wait_again(:id)"}'
TRIGGER = "tries = tries + 1"


def config(db, running=EXISTS, requeue=STATEMENT, more=""):
    return WATCH.format(url=db.url, running=running, requeue=requeue, more=more)


def outcomes(ran):
    assert ran.code in (0, 1), ran.out + ran.err
    return {job["key"]: job["outcome"] for job in ran.json["watches"][0]["jobs"]}


def states(db):
    return dict(db.sql("SELECT job, state FROM job_state"))


@pytest.mark.parametrize("running, requeue", [
    (EXISTS, STATEMENT), (VALUE, CALL), (COUNT, TRIGGER)], ids=["exists", "value", "count"])
def test_a_job_that_is_ending_is_neither_waited_for_nor_overwritten(defib, pg, running, requeue):
    pg.sql(CREATE)
    if requeue == TRIGGER:
        pg.sql(BY_TRIGGER)
    worker = pg.connect()
    worker.autocommit = False
    worker.cursor().execute("UPDATE job_state SET state = 'done' WHERE job = 1")
    text = config(pg, running, requeue)
    # It ends although the worker's transaction does not.
    assert outcomes(defib("scan", "--fix", "--json", config=text)) == {"1": "locked",
                                                                      "2": "recovered"}
    worker.commit()
    worker.close()
    assert states(pg) == {1: "done", 2: "waiting"}
    assert defib("scan", "--fix", config=text).code == 0
    assert states(pg) == {1: "done", 2: "waiting"}


def test_a_locked_row_that_only_the_remedy_writes_costs_its_own_job(defib, pg):
    """It is not known before: the batch is split until the rest is done."""
    pg.sql(CREATE)
    more = '    also: ["UPDATE total SET n = n + 1 WHERE EXISTS (SELECT 1 FROM stuck WHERE id = 1)"]'
    other = pg.connect()
    other.autocommit = False
    other.cursor().execute("UPDATE total SET n = 7")
    text = config(pg, more=more)
    assert outcomes(defib("scan", "--fix", "--json", config=text)) == {"1": "locked",
                                                                      "2": "recovered"}
    assert states(pg) == {1: "running", 2: "waiting"}
    other.commit()
    other.close()
    assert outcomes(defib("scan", "--fix", "--json", config=text)) == {"1": "recovered"}
    assert pg.sql("SELECT n FROM total") == [(8,)]


def test_a_state_that_no_lock_can_name_is_refused(defib, pg):
    pg.sql(CREATE)
    ran = defib("scan", "--fix", config=config(pg, running=IN_LIST))
    assert ran.code not in (0, 1)
    assert "cannot lock it there (running)" in ran.err and "EXISTS (SELECT" in ran.err
    assert states(pg) == {1: "running", 2: "running"}
    assert defib("scan", config=config(pg, running=IN_LIST)).code == 1


def test_a_role_that_may_not_lock_the_state_recovers_nothing(defib, pg):
    """Its remedy writes by a function of the owner's, so nothing else would stop it."""
    role = f"r_{pg.name}"
    pg.sql(CREATE + "ALTER FUNCTION wait_again(int) SECURITY DEFINER;")
    pg.sql(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}; "
           f"GRANT UPDATE ON job TO {role}; GRANT SELECT, UPDATE ON beat TO {role}")
    try:
        text = "ledger: off\n" + config(pg, requeue=CALL).replace(
            pg.url, pg.url + ("&" if "?" in pg.url else "?") + f"user={role}")
        ran = defib("scan", "--fix", config=text)
        assert ran.code not in (0, 1)
        assert "permission denied for table job_state" in ran.err
        assert states(pg) == {1: "running", 2: "running"}
    finally:
        pg.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_role_that_may_only_read_heartbeats_recovers_without_locking_them(defib, pg):
    role = f"r_{pg.name}"
    pg.sql(CREATE + f"CREATE ROLE {role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "
           f"{role}; GRANT UPDATE ON job, job_state TO {role}")
    try:
        text = "ledger: off\n" + config(pg).replace(
            pg.url, pg.url + ("&" if "?" in pg.url else "?") + f"user={role}")
        assert outcomes(defib("scan", "--fix", "--json", config=text)) == {
            "1": "recovered", "2": "recovered"}
        assert states(pg) == {1: "waiting", 2: "waiting"}
    finally:
        pg.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


BEATS = {"good-job": "UPDATE good_job_processes SET updated_at = timezone('utc', now())",
         "procrastinate": "UPDATE procrastinate_workers SET last_heartbeat = now()",
         "solid-queue": "UPDATE solid_queue_processes SET last_heartbeat_at = "
                        "timezone('utc', now())"}


@pytest.mark.parametrize("kind", [q for q in preset_tables.QUEUES if q.preset in BEATS],
                         ids=lambda q: q.preset)
def test_a_preset_leaves_a_job_whose_worker_is_writing_its_heartbeat(defib, pg, kind):
    queue = kind(pg)
    key = queue.stuck()
    runs = queue.state(key)
    worker = pg.connect()
    worker.autocommit = False
    worker.cursor().execute(BEATS[queue.preset])
    ran = defib("scan", "--fix", "--json", config=queue.config)
    assert list(outcomes(ran).values()) == ["locked"]
    worker.commit()
    worker.close()
    assert defib("scan", "--fix", config=queue.config).code == 0
    assert queue.state(key) == runs


def test_an_example_leaves_a_job_whose_worker_is_writing_its_heartbeat(pg, tmp_path):
    ruvon = Ruvon(pg, tmp_path)
    ruvon.add(FIRST, beat_s=600)
    worker = pg.connect()
    worker.autocommit = False
    worker.cursor().execute("UPDATE workflow_heartbeats SET last_heartbeat = now()")
    ran = ruvon("scan", "--fix", "--json")
    assert [j["outcome"] for j in json.loads(ran.out)["watches"][0]["jobs"]] == ["locked"]
    worker.commit()
    worker.close()
    ruvon.fix()
    assert ruvon.status() == "PENDING_ASYNC"
