# SPDX-License-Identifier: Apache-2.0
"""OctoLab (D): the document "Background Teardown Worker" replayed, by its own test plan.

The backend is `defib daemon --work --listen` with the shipped configuration; a lab is torn down by
a program that the test holds, fails or releases, lab by lab.
"""

import contextlib
import re
import signal
import uuid

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.document_replay import Replay, page_server, praised_lines, program, type_readme
from harness.example_systems import EXAMPLES
from harness.metrics import wait_scrape
from harness.pgserver import free_port
from harness.python_package import LIBRARY, package  # noqa: F401
from harness.waiting import eventually

OWNER = "7c9e6679-7425-40de-944b-e07fc1abc123"
TEARDOWN = """#!/bin/sh
echo "$DEFIB_WORKER $DEFIB_JOB_ID" >>began
await -n "hold.$DEFIB_JOB_ID" hold.all
if [ -e "later.$DEFIB_JOB_ID" ]; then rm "later.$DEFIB_JOB_ID"; echo 'host is busy' >&2; exit 75; fi
if [ -e "fail.$DEFIB_JOB_ID" ]; then echo 'no such network' >&2; exit 1; fi
echo "$DEFIB_JOB_ID" >>torn
"""


class OctoLab(Replay):
    def __init__(self, db, folder, **env):
        super().__init__("octolab", db, folder)
        self.env.update({"TEARDOWN_WORKER_INTERVAL_SECONDS": "0.2", **env})
        program(self, "teardown.sh", TEARDOWN)

    def backend(self, **env):
        """Its start; returns when its worker, where there is one, is registered."""
        daemon = self.daemon("--work", "--no-queue", listen=True, env=env)
        if {**self.env, **env}.get("TEARDOWN_WORKER_ENABLED") != "false":
            daemon.wait_log("worker started")
        return daemon

    def lab(self, status="running", seconds=60, origin="user", mark=None):
        key = str(uuid.uuid4())
        if mark:
            (self.dir / f"{mark}.{key}").touch()
        self.insert("labs", id=key, owner_id=OWNER, status=status, origin=origin,
                    updated_at=self.ago(seconds))
        return key

    def status(self, lab):
        return self.cell("SELECT status FROM labs WHERE id = %s", lab)

    def reaches(self, lab, status):
        try:
            eventually(lambda: self.status(lab) == status)
        except AssertionError:
            logs = "\n".join(one.log for one in self.daemons + self.workers)
            raise AssertionError(f"{self.status(lab)}, not {status}\n{logs}") from None

    def told(self):
        """What the worker last said of itself."""
        worker = ("defib." if self.db.engine == "postgres" else "defib_") + "worker"
        return str(self.cell(f"SELECT max(CAST(info AS text)) FROM {worker}"))

    def begun(self, lab):
        return [line for line in self.lines("began") if line.endswith(lab)]

    def let_go(self, lab):
        (self.dir / f"hold.{lab}").unlink()


def databases(engine, server, folder):
    return PgDatabase(server) if engine == "postgres" else LiteDatabase(folder / "octolab.db")


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def scene(request, shared_server, tmp_path_factory):
    """One backend for the tests of endpoints, tick and monitoring."""
    folder = tmp_path_factory.mktemp("octolab")
    own = OctoLab(databases(request.param, shared_server, folder), folder)
    own.backend_ = own.backend()
    own.web = own.backend_.web()
    yield own
    own.close()
    own.db.drop()


@pytest.fixture
def octolab(db, tmp_path):
    own = OctoLab(db, tmp_path)
    yield own
    own.close()


@pytest.fixture
def pg_octolab(pg, tmp_path):
    own = OctoLab(pg, tmp_path)
    yield own
    own.close()


def at(lab):
    return f"/api/v1/watches/labs/jobs/{lab}"


# ---- Manual Testing: non-blocking endpoint ----

@pytest.mark.covers("D1")
def test_delete_returns_at_once_and_the_lab_is_finished_soon_after(scene):
    lab = scene.lab(mark="hold")
    assert scene.web.ask("DELETE", at(lab)).status == 204
    assert scene.status(lab) == "ending", "while its teardown is held"
    eventually(lambda: scene.begun(lab))
    assert scene.web.ask("DELETE", at(lab)).status == 204, "idempotent"
    assert scene.web.get(at(lab)).json["state"] == "ending"
    scene.let_go(lab)
    scene.reaches(lab, "finished")
    assert scene.web.get(at(lab)).json["state"] == "finished"


@pytest.mark.covers("D1")
def test_post_end_marks_too_and_an_unknown_lab_is_404(scene):
    lab = scene.lab()
    assert scene.web.post(f"{at(lab)}/end").status == 204
    scene.reaches(lab, "finished")
    before = scene.rows("SELECT * FROM labs")
    assert scene.web.ask("DELETE", at(lab)).status == 204
    assert scene.web.ask("DELETE", at(uuid.uuid4())).status == 404
    assert scene.rows("SELECT * FROM labs") == before


# ---- Unit Tests of the document ----

@pytest.mark.covers("D3", "D12")
def test_process_ending_lab_success_and_error_path(scene):
    good, bad = scene.lab(), scene.lab(mark="fail")
    for lab in (good, bad):
        assert scene.web.ask("DELETE", at(lab)).status == 204
    scene.reaches(good, "finished")
    scene.reaches(bad, "failed")
    assert "no such network" in scene.cell("SELECT error FROM labs WHERE id = %s", bad)
    assert len(scene.begun(bad)) == 1, "one attempt, as no backoff is configured"


@pytest.mark.covers("D3", "D12")
def test_process_ending_lab_timeout_handling(octolab):
    octolab.env["TEARDOWN_TIMEOUT_SECONDS"] = "1"
    lab = octolab.lab("ending", mark="hold")
    octolab.drain("labs")
    assert octolab.rows("SELECT status, error FROM labs") == [("failed", "teardown timed out")]
    assert len(octolab.begun(lab)) <= 1


@pytest.mark.covers("D2", "D6", "D13")
def test_claim_ending_labs_takes_only_those_respects_limit_fifo_and_users_first(octolab):
    """The next tick is an hour away: what is done is what the first one took."""
    kept = octolab.lab("running", 999), octolab.lab("finished", 999), octolab.lab("failed", 999)
    labs = [octolab.lab("ending", seconds, origin) for seconds, origin in (
        (500, "cleanup"), (400, "user"), (300, "cleanup"), (200, "user"), (100, "cleanup"))]
    worker = octolab.work("labs", env={"TEARDOWN_WORKER_INTERVAL_SECONDS": "3600"})
    octolab.until("SELECT count(*) FROM labs WHERE status = 'finished'", 4)
    assert worker.stop() == 0
    assert octolab.lines("torn") == [labs[1], labs[3], labs[0]]
    assert [octolab.status(lab) for lab in kept] == ["running", "finished", "failed"]


@pytest.mark.covers("D2", "D6")
def test_teardown_worker_tick_processes_batches_and_an_empty_tick_nothing(octolab):
    for seconds in range(7):
        octolab.lab("ending", seconds)
    worker = octolab.drain("labs", "--concurrency", "3")
    claimed = [int(n) for n in re.findall(r"tick source=labs claimed=(\d+)", worker.log)]
    assert sum(claimed) == 7 and max(claimed) == 3
    assert len(octolab.lines("torn")) == 7
    worker = octolab.drain("labs")
    assert "claimed=" not in worker.log and len(octolab.lines("torn")) == 7


# ---- Manual Testing: reload safety ----

@pytest.mark.covers("D4")
def test_a_reload_during_a_teardown_neither_fails_nor_interrupts_it(scene):
    lab = scene.lab("ending", mark="hold")
    eventually(lambda: scene.begun(lab))
    said = len(scene.backend_.lines("configuration reloaded"))
    scene.backend_.signal(signal.SIGHUP)
    eventually(lambda: len(scene.backend_.lines("configuration reloaded")) > said)
    assert scene.status(lab) == "ending"
    scene.let_go(lab)
    scene.reaches(lab, "finished")
    assert len(scene.begun(lab)) == 1


@pytest.mark.covers("D4", "D5")
def test_a_stop_during_a_teardown_leaves_it_for_the_startup_tick(octolab):
    """What the batch has finished stays finished, what is in hand is released; the time of the stop
    itself is not tested, except that it waits for no teardown: this one would never end."""
    first, held = octolab.lab("ending", 200), octolab.lab("ending", 100, mark="hold")
    backend = octolab.backend()
    eventually(lambda: octolab.begun(held))
    octolab.reaches(first, "finished")
    before = octolab.rows("SELECT * FROM labs WHERE id = %s", held)
    assert backend.stop() == 0
    assert octolab.rows("SELECT * FROM labs WHERE id = %s", held) == before
    assert octolab.status(first) == "finished"
    octolab.let_go(held)
    backend = octolab.backend(TEARDOWN_WORKER_INTERVAL_SECONDS="3600")
    octolab.reaches(held, "finished")
    assert backend.stop() == 0
    assert backend.lines("tick", source="labs", claimed="1")
    for word in ("stopping", "worker ended", "daemon stopping"):
        assert word in backend.log


# ---- Manual Testing: startup reconciliation; Configuration ----

@pytest.mark.covers("D5", "D6")
def test_off_labs_are_marked_and_wait_and_a_start_with_the_worker_on_reconciles(octolab):
    lab = octolab.lab()
    off = octolab.backend(TEARDOWN_WORKER_ENABLED="false")
    assert off.web().ask("DELETE", at(lab)).status == 204
    assert octolab.status(lab) == "ending"
    assert "a worker was started" not in off.log
    assert off.stop() == 0
    assert octolab.status(lab) == "ending"
    on = octolab.backend(TEARDOWN_WORKER_ENABLED="true", TEARDOWN_WORKER_INTERVAL_SECONDS="3600.0",
                         TEARDOWN_WORKER_BATCH_SIZE="3", TEARDOWN_WORKER_STARTUP_TICK="true")
    octolab.reaches(lab, "finished")
    assert on.stop() == 0
    assert on.lines("tick", source="labs", claimed="1")
    ended, = on.lines("job ended", job=lab)
    assert ended["as"] == "done" and int(ended["elapsed_ms"]) >= 0


# ---- Concurrency Safety ----

@pytest.mark.covers("D8")
def test_two_replicas_of_the_backend_side_by_side(pg_octolab):
    """Both hold labs at the same time, none holds another's; one is killed and loses nothing."""
    labs = [pg_octolab.lab("running", 100 + n) for n in range(8)]
    (pg_octolab.dir / "hold.all").touch()
    replicas = [pg_octolab.backend(), pg_octolab.backend()]
    pg_octolab.rows("UPDATE labs SET status = 'ending'")
    eventually(lambda: len({line.split()[0] for line in pg_octolab.lines("began")}) == 2)
    replicas[0].signal(signal.SIGKILL)
    (pg_octolab.dir / "hold.all").unlink()
    pg_octolab.until("SELECT count(*) FROM labs WHERE status = 'finished'", len(labs))
    torn = pg_octolab.lines("torn")
    assert set(torn) == set(labs)
    assert len(torn) - len(labs) <= 1, "only what the killed one had in hand may be torn twice"
    assert replicas[1].stop() == 0


# ---- Monitoring; Future Enhancements ----

@pytest.mark.covers("D10", "D11")
def test_metrics_tell_ticks_success_duration_stuck_and_restarts(scene):
    busy = scene.lab("ending", 60, mark="hold")
    eventually(lambda: scene.begun(busy))
    stuck = scene.lab("ending", 1200)
    eventually(lambda: '"done"' in scene.told())
    scene.backend_.signal(signal.SIGHUP)  # looks and reads at once, not after a minute
    seen = wait_scrape(scene.web, lambda s: s.get("defib_jobs_stuck", watch="labs") and
                       s.get("defib_worker_job_seconds_count") and
                       s.get("defib_worker_settled_total", end="done"))
    assert seen.get("defib_jobs_stuck", watch="labs") == 1, "a lab in a living hand is not stuck"
    for name in ("defib_worker_ticks_total", "defib_worker_claims_total",
                 "defib_worker_settled_total", "defib_pass_interval_seconds",
                 "defib_worker_restarts_total", "defib_worker_starts_total"):
        assert seen.get(name) is not None, name
    assert scene.web.get("/healthz").status == 200 and scene.web.get("/readyz").status == 200
    scene.let_go(busy)
    scene.reaches(stuck, "finished")


@pytest.mark.covers("D9")
def test_owner_ids_are_masked_in_logs_and_answers(scene):
    lab = scene.lab("ending", 1200, mark="fail")
    scene.reaches(lab, "failed")
    said = scene.web.get(at(lab)).text
    assert "****abc123" in said and OWNER not in said
    assert OWNER not in scene.backend_.log


@pytest.mark.covers("D12")
def test_a_transient_error_is_tried_again_without_any_configuration(scene):
    lab = scene.lab(mark="later")
    assert scene.web.ask("DELETE", at(lab)).status == 204
    scene.reaches(lab, "finished")
    assert len(scene.begun(lab)) == 2


@pytest.mark.covers("D12")
def test_with_the_readmes_lines_errors_back_off_and_end_as_dead_letters(octolab):
    """30 s, then 60 s, by the row that says when it may be taken again; time is moved there."""
    readme = (EXAMPLES / "octolab" / "README.md").read_text()
    more = re.search(r"```yaml\n(.*?)```", readme, re.S)[1]
    text = octolab.config.read_text()
    line = next(line for line in text.splitlines(True) if line.startswith("    stuck_after:"))
    octolab.config.write_text(text.replace(line, line + more))
    lab = octolab.lab("ending", mark="fail")
    lease = ("defib." if octolab.db.engine == "postgres" else "defib_") + "lease"
    waits = {"postgres": "extract(epoch FROM run_at - clock_timestamp())",
             "sqlite": "run_at / 1000.0 - strftime('%s', 'now')"}[octolab.db.engine]
    now = {"postgres": "clock_timestamp()", "sqlite": "strftime('%s', 'now') * 1000"}
    worker = octolab.work("labs")
    for attempt, limit in ((1, 30), (2, 60)):
        octolab.until_lines("began", attempt)
        waited = eventually(lambda: [float(n) for n, in octolab.rows(
            f"SELECT {waits} FROM {lease} WHERE run_at IS NOT NULL") if float(n) > 1])
        assert limit / 2 < waited[0] <= limit + 1 and octolab.status(lab) == "ending"
        octolab.rows(f"UPDATE {lease} SET run_at = {now[octolab.db.engine]}")
    octolab.reaches(lab, "failed")
    assert len(octolab.begun(lab)) == 3
    assert "no such network" in octolab.cell("SELECT error FROM labs")
    assert worker.stop() == 0


# ---- the page ----

def check_walk(said, labs):
    """The part of the page that both engines have."""
    force = "defib force labs --action"
    assert "would be run" in said[f"{force} force --older-than 10m --max 1 --dry-run"]
    assert "1 done, 0 failed" in said[f"{force} force --older-than 10m --max 1 --yes"]
    assert [text for command, text in said.items() if "-X DELETE" in command and "$LAB" in command
            if "204" not in text and "somebody" not in command] == []
    assert labs == [("finished", None), ("finished", None), ("failed", "host is gone")]


LABS = "SELECT status, error FROM labs ORDER BY id"
QUICK = {"TEARDOWN_WORKER_INTERVAL_SECONDS": "0.2"}


@pytest.mark.covers("D1", "D7")
def test_the_readme_s_commands_do_what_they_say_on_sqlite(tmp_path):
    db = LiteDatabase(tmp_path / "octolab.db")
    places = {"octolab.db": str(db.path), "127.0.0.1:8080": f"127.0.0.1:{free_port()}"}
    check_walk(type_readme("octolab", tmp_path, "sqlite", places, **QUICK), db.sql(LABS))
    db.drop()


@pytest.mark.covers("D1", "D4", "D5", "D7")
def test_the_readme_s_commands_do_what_they_say(shared_server, tmp_path, package):  # noqa: F811
    """With FastAPI: a lab that stays ending, the next start, a reload; then without FastAPI."""
    port = free_port()
    places = {"127.0.0.1:8080": f"127.0.0.1:{free_port()}", "127.0.0.1:8000": f"127.0.0.1:{port}",
              "--port 8000": f"--port {port}"}
    with page_server(shared_server, "octolab", "octolab_daemon") as env:
        said = type_readme("octolab", tmp_path, "postgres", places, PYTHON=package.python,
                           DEFIB_LIBRARY=str(LIBRARY), **env, **QUICK)
        with contextlib.closing(shared_server.connect("octolab_daemon")) as session:
            cursor = session.cursor()
            cursor.execute(LABS)
            check_walk(said, cursor.fetchall())
    assert '"ending"' in said['curl -sS -H "$OWNER" $LAB']
    stranger, = [text for command, text in said.items() if "somebody" in command]
    assert stranger.strip() == "404"
    assert "as=stopped" in said["grep -h 'job ended' server.log"]


def test_the_lines_that_the_readme_praises_are_there():
    text = (EXAMPLES / "octolab" / "defib.yaml").read_text()
    praised = praised_lines("octolab")
    assert len(praised) >= 8 and all(line in text for line in praised)
