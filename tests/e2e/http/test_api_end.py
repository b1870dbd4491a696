# SPDX-License-Identifier: Apache-2.0
"""Ending a lab over HTTP (D1): marked at once, once, and torn down later by a worker."""

import contextlib
import threading
import uuid

import pytest

from harness.http_daemon import TOKENS, WebDaemon, token_env, token_section
from harness.program import Program
from harness.table_workers import TableWorkers
from harness.waiting import eventually

pytestmark = pytest.mark.sanitized
OWNER = "7c9e6679-7425-40de-944b-e07fc1abc123"
# A teardown that takes as long as the test wants it to.
SLOW = 'echo "$DEFIB_JOB_ID" >>began; await go'


class Labs(TableWorkers):
    """The shipped configuration of OctoLab, served by a daemon or two."""

    def __init__(self, db, defib):
        super().__init__("octolab", db, defib)
        self.daemons = []
        self.web = self.serve()

    def serve(self, env=None):
        configuration = self.config.read_text() + "\nhttp:\n" + token_section()
        daemon = WebDaemon(Program(self.dir), configuration,
                           env={**self.env, **token_env(), **(env or {})})
        self.daemons.append(daemon)
        return daemon.web(TOKENS["operator"])

    def lab(self, status="running"):
        lab = str(uuid.uuid4())
        self.insert("labs", id=lab, owner_id=OWNER, status=status, updated_at=self.ago(600))
        return lab

    def whole(self):
        return self.rows("SELECT * FROM labs ORDER BY id")

    def end(self, lab, web=None):
        return (web or self.web).ask("DELETE", f"/api/v1/watches/labs/jobs/{lab}")

    def ended(self):
        return self.rows(f"SELECT job, actor FROM {self.table('ledger')} WHERE event = 'ENDED'")

    def table(self, name):
        return ("defib." if self.db.engine == "postgres" else "defib_") + name

    def close(self):
        super().close()
        for daemon in self.daemons:
            daemon.kill()


@pytest.fixture
def labs(db, defib, with_tables):
    own = Labs(db, defib)
    yield own
    own.close()


@pytest.mark.covers("D1")
def test_a_running_lab_is_marked_at_once_and_finished_when_its_teardown_is(labs):
    lab = labs.lab()
    worker = labs.work("labs", "--poll", "100ms", run=SLOW)
    assert labs.end(lab).status == 204
    assert labs.cell("SELECT status FROM labs") == "ending"
    labs.until_lines("began", 1)
    marked = labs.whole()
    assert labs.end(lab).status == 204, "and again while it is being torn down"
    assert labs.whole() == marked, "no column changed: its place in the queue stays"
    state = labs.web.by("viewer").get(f"/api/v1/watches/labs/jobs/{lab}")
    assert state.status == 200 and '"ending"' in state.text and OWNER not in state.text
    (labs.dir / "go").touch()
    labs.until("SELECT status FROM labs", "finished")
    finished = labs.whole()
    assert labs.end(lab).status == 204 and labs.whole() == finished
    assert labs.ended() == [(lab, "web:operator")]
    assert worker.stop() == 0


@pytest.mark.covers("D1")
def test_post_end_is_the_same_and_keeps_the_reason(labs):
    lab = labs.lab()
    got = labs.web.post(f"/api/v1/watches/labs/jobs/{lab}/end", {"reason": "the course is over"})
    assert got.status == 204 and got.body == b""
    assert labs.rows(f"SELECT reason FROM {labs.table('ledger')} WHERE event = 'ENDED'") \
        == [("the course is over",)]


@pytest.mark.covers("D1")
def test_an_unknown_lab_is_404(labs):
    for name in ("00000000-0000-0000-0000-000000000000", "no-such-lab"):
        assert labs.end(name).status == 404
    assert labs.web.ask("DELETE", "/api/v1/watches/lab/jobs/1").status == 404


@pytest.mark.covers("D1")
@pytest.mark.parametrize("status", ["ending", "finished", "failed"])
def test_a_lab_that_is_past_running_is_204_and_not_written(labs, status):
    lab = labs.lab(status)
    before = labs.whole()
    assert labs.end(lab).status == 204
    assert labs.whole() == before and labs.ended() == []


@pytest.mark.covers("D1")
def test_many_who_end_the_same_lab_at_once_write_it_once(labs):
    """Through two daemons; every request is answered with 204."""
    labs.rows("CREATE TABLE written (lab text)")
    if labs.db.engine == "postgres":
        labs.rows("CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
                  "'BEGIN INSERT INTO written VALUES (new.id); RETURN new; END'")
        labs.rows("CREATE TRIGGER note AFTER UPDATE ON labs FOR EACH ROW "
                  "EXECUTE FUNCTION note()")
    else:
        labs.db.connect().execute("CREATE TRIGGER note AFTER UPDATE ON labs BEGIN "
                                  "INSERT INTO written VALUES (new.id); END")
    both = [labs.web, labs.serve()]
    for _ in range(10):
        lab, start, got = labs.lab(), threading.Barrier(12), []

        def ask(web):
            start.wait()
            got.append(labs.end(lab, web))
        threads = [threading.Thread(target=ask, args=(both[i % 2],)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [(one.status, one.text) for one in got] == [(204, "")] * 12
        assert labs.rows("SELECT count(*) FROM written WHERE lab = %s", lab) == [(1,)]
    assert len(labs.ended()) == 10


@pytest.mark.covers("D6")
def test_with_the_worker_off_a_lab_is_marked_and_stays(labs):
    off = labs.serve(env={"TEARDOWN_WORKER_ENABLED": "false"})
    lab = labs.lab()
    assert labs.end(lab, off).status == 204
    assert labs.cell("SELECT status FROM labs") == "ending"


@pytest.mark.covers("D1")
def test_a_row_that_somebody_holds_for_long_is_409_and_free_again_204(labs):
    if labs.db.engine == "sqlite":
        pytest.skip("SQLite locks the whole file, and waits")
    lab = labs.lab()
    with contextlib.closing(labs.db.connect()) as other:
        other.autocommit = False
        other.cursor().execute("SELECT 1 FROM labs FOR UPDATE")
        assert labs.end(lab).status == 409
    assert labs.end(lab).status == 204


def test_what_the_table_itself_refuses_is_409_with_its_words(labs):
    if labs.db.engine == "sqlite":
        pytest.skip("one engine's trigger is enough")
    labs.rows("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    labs.rows("CREATE TRIGGER no BEFORE UPDATE ON labs FOR EACH ROW EXECUTE FUNCTION no()")
    got = labs.end(labs.lab())
    assert got.status == 409 and "prevented the write" in got.detail


def test_ending_a_lab_that_a_worker_tears_down_does_not_take_it_from_him(labs):
    """Marked in another way while it is torn down: the worker still settles it."""
    lab = labs.lab("ending")
    worker = labs.work("labs", "--poll", "100ms", run=SLOW)
    labs.until_lines("began", 1)
    labs.rows("UPDATE labs SET status = 'running'")
    assert labs.end(lab).status == 204
    (labs.dir / "go").touch()
    labs.until("SELECT status FROM labs", "finished")
    assert worker.stop() == 0
    eventually(lambda: len(labs.lines("began")) == 1)


def test_a_worker_that_is_asked_to_stop_settles_the_job_himself(labs):
    """Cancelling does not take the job away: the worker's lease is valid until it has stopped."""
    labs.change(("    show: [owner_id]", "    cancel: error = 'asked to stop'\n    show: [owner_id]"))
    web = labs.serve()
    lab = labs.lab("ending")
    worker = labs.work("labs", "--poll", "100ms", "--grace", "0s", run=SLOW)
    labs.until_lines("began", 1)
    got = web.post(f"/api/v1/watches/labs/jobs/{lab}/cancel", {"reason": "not this one"})
    assert got.status == 200, got.text
    labs.until("SELECT status FROM labs", "failed")
    assert worker.stop() == 0
    assert labs.rows(f"SELECT 1 FROM {labs.table('ledger')} WHERE event = 'LATE_COMPLETION'") == []
