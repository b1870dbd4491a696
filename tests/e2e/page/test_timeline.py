# SPDX-License-Identifier: Apache-2.0
"""The life of a job as the page lays it out (web/lib/timeline.js), from the API's data.

Node runs the page's own module; the browser's tests check how it looks.
"""

import json
import shutil
import subprocess

import pytest

from harness.browser_data import MADE
from harness.databases import LiteDatabase
from harness.http_daemon import serving
from harness.job_table import config, make_jobs
from harness.program import ROOT
from harness.waiting import patience

SCRIPT = """
import { layOut, lifeOf } from "./lib/timeline.js";
const { job, explained, beats, now, limits } = JSON.parse(process.argv[2]);
const told = layOut(lifeOf(job, explained, beats, now), limits).map(({ one, span }) =>
	span ? `${span.kind} ${span.seconds}${span.still ? " still" : ""}` : one.kind === "entry" ? one.entry.event : one.kind);
console.log(JSON.stringify(told));
"""


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """What is laid out: moments by their names, stretches with their seconds."""
    folder = tmp_path_factory.mktemp("timeline")
    shutil.copytree(ROOT / "web" / "lib", folder / "lib")
    home = LiteDatabase(folder / "page.db")
    make_jobs(home)
    with serving(folder, config(home)) as web:
        (folder / MADE).write_text(web.get(f"/assets/{MADE}").text)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.js").write_text(SCRIPT)

    def laid(job, explained=None, beats=(), now=None, **limits):
        given = {"job": {"ledger": [], "steps": [], "running": False, **job}, "now": now,
                 "explained": explained, "beats": list(beats), "limits": limits}
        ran = subprocess.run(["node", "main.js", json.dumps(given)], cwd=folder, timeout=patience(),
                             capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)
    return laid


def at(minute, second=0):
    return f"2026-01-02T{minute // 60:02}:{minute % 60:02}:{second:02}.000Z"


def entry(number, when, event, verdict="silent", **evidence):
    return {"id": number, "at": when, "event": event, "verdict": verdict, "actor": "daemon",
            "evidence": {"now": when, **evidence}}


def test_silence_is_a_stretch_from_the_last_sign_of_life_to_the_verdict(life):
    job = {"created_at": at(0), "ledger": [
        entry(1, at(130), "REQUEUED", alive_at=at(10), started_at=at(5), limit_s=3600)]}
    assert life(job, limit_s=3600) == [
        "created", "waiting 300", "start", "running 300", "sign", "silence 7200", "REQUEUED"]


def test_a_quiet_time_within_the_limit_is_no_silence(life):
    job = {"running": True, "started_at": at(0)}
    assert life(job, {"evidence": {"alive_at": at(10), "now": at(11)}}, now=at(11), limit_s=3600) == [
        "start", "running 600", "sign", "running 60", "now"]


def test_two_missed_beats_are_silence_before_the_limit_is_reached(life):
    job = {"running": True}
    told = life(job, {"evidence": {"alive_at": at(10), "now": at(10, 15)}}, now=at(10, 15),
                beat_s=5, limit_s=3600)
    assert told == ["sign", "silence 15", "now"]


def test_silence_goes_on_over_a_verdict_that_only_reports(life):
    job = {"running": True, "ledger": [entry(1, at(20), "ZOMBIE_DETECTED", alive_at=at(10), limit_s=60)]}
    assert life(job, now=at(30), limit_s=60) == [
        "sign", "silence 600", "ZOMBIE_DETECTED", "silence 600 still", "now"]


def test_a_lease_that_had_not_ended_when_the_worker_was_seen_dead_is_not_told(life):
    job = {"ledger": [entry(1, at(1), "REQUEUED", "dead", expires_at=at(2), attempt=1)]}
    assert life(job) == ["REQUEUED"]


def test_an_attempt_of_which_only_the_end_is_known_is_told(life):
    job = {"ledger": [entry(1, at(1), "REQUEUED", "dead", attempt=1),
                      entry(2, at(2), "REQUEUED", "dead", attempt=2)]}
    assert life(job) == ["REQUEUED", "unseen 60", "REQUEUED"]


def test_a_job_that_was_put_back_as_it_had_been_did_not_run_meanwhile(life):
    job = {"ledger": [entry(1, at(1), "REQUEUED", attempt=1), entry(2, at(2), "UNDONE", "none"),
                      entry(3, at(3), "FAILED", attempt=1)]}
    assert life(job) == ["REQUEUED", "waiting 60", "UNDONE", "waiting 60", "FAILED"]


def test_beats_that_the_page_saw_show_their_gaps(life):
    beats = [{"at": at(1)}, {"at": at(1, 5)}, {"at": at(3)}]
    assert life({"running": True}, beats=beats, now=at(3, 4), beat_s=5) == [
        "beat", "running 5", "beat", "silence 115", "beat", "running 4", "now"]


def test_a_late_completion_and_a_person_s_act_stand_in_their_order(life):
    job = {"finished_at": at(9), "ledger": [entry(1, at(1), "REQUEUED", "dead", attempt=1),
                                            entry(2, at(2), "LATE_COMPLETION", "none"),
                                            entry(3, at(3), "HELD", "none")]}
    assert [w for w in life(job) if not w.startswith("waiting")] == [
        "REQUEUED", "LATE_COMPLETION", "HELD", "finish"]
