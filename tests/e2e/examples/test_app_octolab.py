# SPDX-License-Identifier: Apache-2.0
"""OctoLab (D) as a program, examples/octolab/app: FastAPI with an owner check. First the lab of the
document that stays `ending`, then the lines of defib that end it, and the document's own test plan
against the server."""

import concurrent.futures
import re
import threading
import uuid

import pytest

from harness.python_apps import App
from harness.python_package import package, script  # noqa: F401
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain
OWNER = "7c9e6679-7425-40de-944b-e07fc1abc123"


class Labs(App):
    env = {"TEARDOWN_WORKER_INTERVAL_SECONDS": "0.2"}

    def add(self, *marks):
        lab = str(uuid.uuid4())
        for mark in marks:
            (self.dir / f"{mark}.{lab}").touch()
        self.db.sql("INSERT INTO labs (id, owner_id) VALUES (%s, %s)", lab, OWNER)
        return lab

    def status(self, lab):
        return self.cell("SELECT status FROM labs WHERE id = %s", lab)

    def delete(self, lab, owner=OWNER):
        return self.ask("DELETE", f"/labs/{lab}", X_Owner=owner)

    def began(self, lab):
        eventually(lambda: lab in self.lines("began"))

    def go_on(self, lab):
        (self.dir / f"hold.{lab}").unlink()


@pytest.fixture
def labs(pg, with_tables, defib, script):
    return Labs("octolab", pg, defib, script)


def test_before_leaves_a_lab_ending(labs):
    first = labs.start(TEARDOWN="before")
    lab = labs.add("hold")
    assert labs.delete(lab)[0] == 204
    labs.began(lab)
    first.kill()
    labs.go_on(lab)
    labs.start(TEARDOWN="before")
    other = labs.add()
    assert labs.delete(other)[0] == 204
    eventually(lambda: labs.status(other) == "finished")
    assert (labs.status(lab), labs.lines("began").count(lab)) == ("ending", 1)


@pytest.mark.covers("D1", "D5")
def test_after_finishes_what_a_killed_server_left(labs):
    first = labs.start(**labs.env)
    lab = labs.add("hold")
    assert labs.delete(lab)[0] == 204
    labs.began(lab)
    first.kill()
    labs.go_on(lab)
    labs.start(**labs.env)
    eventually(lambda: labs.status(lab) == "finished")
    assert labs.lines("began").count(lab) == 2


# ---- Manual Testing: non-blocking endpoint ----

@pytest.mark.covers("D1")
def test_it_keeps_its_path_and_owner_check(labs):
    server = labs.start(TEARDOWN_WORKER_ENABLED="false")
    lab, other = labs.add(), labs.add()
    assert labs.delete(lab, owner=str(uuid.uuid4()))[0] == 404
    assert labs.delete("nonsense")[0] == 404
    assert labs.status(lab) == "running"
    assert labs.delete(lab)[0] == 204
    when = labs.cell("SELECT updated_at FROM labs WHERE id = %s", lab)
    assert labs.delete(lab)[0] == 204
    assert labs.cell("SELECT updated_at FROM labs WHERE id = %s", lab) == when
    assert labs.ask("GET", f"/labs/{lab}", X_Owner=OWNER)[1] == {"status": "ending"}
    assert labs.ask("POST", f"/labs/{other}/end", X_Owner=str(uuid.uuid4()))[0] == 404
    assert labs.ask("POST", f"/labs/{other}/end", X_Owner=OWNER)[0] == 204
    assert labs.status(other) == "ending"
    assert server.stop() == 0, server.log


@pytest.mark.covers("D1")
def test_delete_answers_at_once_while_a_teardown_is_under_way(labs):
    """As "Delete lab (should return immediately)": nobody waits for a teardown."""
    labs.start(**labs.env)
    held = labs.add("hold")
    assert labs.delete(held)[0] == 204
    labs.began(held)
    answers = [labs.delete(labs.add()) for _ in range(10)]
    assert {answer[0] for answer in answers} == {204}
    assert labs.status(held) == "ending"
    labs.go_on(held)
    eventually(lambda: labs.cell("SELECT count(*) FROM labs WHERE status = 'finished'") == 11)


@pytest.mark.covers("D1", "D4", "D5")
def test_a_server_that_is_killed_with_fifty_deletes_under_way_loses_none(labs):
    env = {**labs.env, "TEARDOWN_WORKER_BATCH_SIZE": "50"}
    first = labs.start(**env)
    all_labs = [labs.add("hold" if number % 2 else "none") for number in range(50)]

    killed = threading.Event()

    def end(lab):
        if lab in all_labs[40:]:
            killed.wait(patience())
        try:
            return lab if labs.delete(lab)[0] == 204 else None
        except OSError:
            return None  # the server was killed

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answered = threads.map(end, all_labs)
        eventually(lambda: labs.cell("SELECT count(*) FROM labs WHERE status <> 'running'") >= 20)
        first.kill()
        killed.set()
        ended = {lab for lab in answered if lab}
    assert 1 <= len(ended) < 50
    for lab in all_labs[1::2]:
        labs.go_on(lab)
    labs.start(**env)
    eventually(lambda: labs.cell("SELECT count(*) FROM labs WHERE status = 'ending'") == 0)
    # A request without an answer may have been carried out; one with an answer was.
    assert ended <= {str(lab) for lab, in labs.db.sql("SELECT id FROM labs "
                                                      "WHERE status = 'finished'")}
    assert labs.cell("SELECT count(*) FROM labs WHERE status = 'failed'") == 0
    rest = set(all_labs) - {str(lab) for lab, in labs.db.sql("SELECT id FROM labs "
                                                             "WHERE status = 'finished'")}
    assert {labs.status(lab) for lab in rest} <= {"running"}
    for lab in rest:
        assert labs.delete(lab)[0] == 204
    eventually(lambda: labs.cell("SELECT count(*) FROM labs WHERE status = 'finished'") == 50)


# ---- Manual Testing: reload safety ----

@pytest.mark.covers("D4")
def test_a_reload_in_the_middle_of_a_teardown_neither_waits_nor_fails_it(labs):
    """`uvicorn --reload`, and a source file is touched; the next start tears the lab down."""
    server = labs.start(True, "--reload", **labs.env)
    lab = labs.add("hold")
    assert labs.delete(lab)[0] == 204
    labs.began(lab)
    (labs.dir / "app.py").touch()
    server.wait_log("Reloading...")
    # The old process ended without it, and the new one has begun it again.
    eventually(lambda: labs.lines("began").count(lab) == 2)
    assert labs.status(lab) == "ending"
    assert "stopping: no new claims" in server.log and "as=stopped" in server.log, server.log
    labs.go_on(lab)
    eventually(lambda: labs.status(lab) == "finished")
    assert labs.cell("SELECT error FROM labs") is None


@pytest.mark.covers("D4", "D5")
def test_a_stop_leaves_the_lab_ending_and_the_first_tick_of_the_next_start_takes_it(labs):
    """"Check database: lab should remain ENDING (processed on next startup)"."""
    server = labs.start(**labs.env)
    lab = labs.add("hold")
    labs.delete(lab)
    labs.began(lab)
    assert server.stop() == 0, server.log
    assert labs.status(lab) == "ending"
    labs.go_on(lab)
    # An hour until the second tick.
    again = labs.start(TEARDOWN_WORKER_INTERVAL_SECONDS="3600")
    eventually(lambda: labs.status(lab) == "finished")
    assert re.search(r"INFO:defib:.*tick source=labs claimed=1", again.log), again.log
    assert again.stop() == 0, again.log


# ---- Monitoring: log messages ----

@pytest.mark.covers("D3", "D6", "D9")
def test_the_log_masks_the_owner_in_warnings_and_errors(labs):
    """WARNING for a time-out, ERROR for an error, each with owner=****abc123, the time and why."""
    server = labs.start(**labs.env, TEARDOWN_TIMEOUT_SECONDS="1")
    good, bad, slow = labs.add(), labs.add("fail"), labs.add("hold")
    for lab in (good, bad, slow):
        assert labs.delete(lab)[0] == 204
    eventually(lambda: labs.status(bad) == labs.status(slow) == "failed")
    assert labs.cell("SELECT error FROM labs WHERE id = %s", bad).startswith("RuntimeError: no netw")
    assert labs.cell("SELECT error FROM labs WHERE id = %s", slow) == "teardown timed out"

    def line(level, lab, *parts):
        found = eventually(lambda: [one for one in server.log.splitlines()
                                    if one.startswith(f"{level}:defib:") and lab in one
                                    and "elapsed_ms=" in one])
        assert all(part in found[0] for part in parts), found
    line("WARNING", slow, "as=timed_out", "owner_id=****abc123", "because=")
    line("ERROR", bad, "as=failed", "owner_id=****abc123", "no network of ****abc123")
    line("INFO", good, "as=done")
    assert "poll_ms=200 batch=3" in server.log
    assert OWNER not in server.log
    assert server.stop() == 0 and "worker ended" in server.log
