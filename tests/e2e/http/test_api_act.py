# SPDX-License-Identifier: Apache-2.0
"""Operators' acts on jobs over HTTP: the same as by the commands, guarded and recorded."""

import pytest

from harness.http_acts import acting
from harness.waiting import eventually

pytestmark = pytest.mark.sanitized


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def jobs(request, tmp_path_factory):
    with acting(request.param, request, tmp_path_factory) as own:
        yield own


DONE = [  # act, status before, status after, the ledger's word
    ("requeue", "running", "queued", "REQUEUED"),
    ("retry", "failed", "queued", "RETRY_SCHEDULED"),
    ("fail", "running", "failed", "FAILED"),
    ("rollback", "running", "rolling back", "ROLLBACK_STARTED"),
    ("cancel", "running", "cancelling", "CANCELLED"),
]


# ---- one job ----

@pytest.mark.parametrize("act, before, after, event", DONE)
def test_an_act_writes_the_row_and_the_ledger_with_its_actor(jobs, act, before, after, event):
    job, other = jobs.add(before), jobs.add(before)
    got = jobs.act(job, act, {"reason": "said by a test"})
    assert got.status == 200, got.text
    assert (jobs.status(job), jobs.status(other)) == (after, before)
    assert jobs.ledger(job) == [(event, "web:operator", "said by a test")]
    jobs.db.sql("DELETE FROM jobs")


def test_the_answer_is_the_command_s(jobs):
    """Except for the number of the job and the batch."""
    one, two = jobs.add(), jobs.add()
    web = jobs.act(one, "requeue").json
    cli = jobs.program("requeue", f"jobs/{two}", "--yes", "--json", config=jobs.web.daemon.config,
                       env={f"TOKEN_{r}": "x" * 32 for r in ("VIEWER", "OPERATOR", "ADMIN")})
    assert cli.code == 0, cli.err
    mine, theirs = web["watches"][0], cli.json["watches"][0]
    assert mine.keys() == theirs.keys() and web.keys() - {"limited", "undo"} == cli.json.keys()
    for document in mine, theirs:
        del document["batch"], document["jobs"][0]["job"]
    assert mine == theirs


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(jobs):
    job = jobs.add()
    before = jobs.row(job)
    got = jobs.act(job, "fail", {"dry_run": True})
    assert got.status == 200 and got.json["dry_run"] is True
    assert got.json["watches"][0]["jobs"][0]["outcome"] == "done"
    assert got.json["watches"][0]["batch"] is None and got.json["undo"] is None
    assert jobs.row(job) == before and jobs.ledger(job) == []


def test_hold_and_release_go_together(jobs):
    job = jobs.add()
    assert jobs.act(job, "release").status == 409
    assert jobs.act(job, "hold", {"reason": "look at it"}).status == 200
    assert jobs.act(job, "release").status == 200
    assert [event for event, _, _ in jobs.ledger(job)] == ["HELD", "RELEASED"]


def test_a_job_that_is_not_there_is_404(jobs):
    for name in ("999999", "no-number", "9" * 40):
        got = jobs.act(name, "requeue")
        assert got.status == 404, got.text
        assert "jobs" in got.detail


def test_a_job_that_a_worker_has_is_409_with_why_and_an_admin_may_take_it(jobs):
    job = jobs.add(age_s=1)
    got = jobs.act(job, "requeue")
    assert got.status == 409 and "it is running and not stuck" in got.detail
    assert "--" not in got.text and "override_guard" in got.json["next"]
    assert jobs.act(job, "requeue", {"override_guard": True}).status == 403
    assert jobs.status(job) == "running"
    assert jobs.act(job, "requeue", {"override_guard": True}, by="admin").status == 200
    assert jobs.status(job) == "queued" and jobs.evidence(job)["override_guard"] is True


def test_a_watch_that_does_not_say_how_is_422_with_the_line_to_add(jobs):
    job = jobs.add(owner="bare")
    got = jobs.act(job, "requeue", watch="bare")
    assert got.status == 422 and "does not say how to requeue" in got.detail
    assert "requeue: status = 'queued'" in got.json["next"]
    got = jobs.web.ask("DELETE", f"/api/v1/watches/jobs/jobs/{job}")
    assert got.status == 422 and "end: " in got.json["next"]


def test_a_row_that_another_transaction_has_is_409(jobs):
    if jobs.db.engine == "sqlite":
        pytest.skip("SQLite locks the whole file, and waits")
    job = jobs.add()
    other = jobs.db.connect()
    try:
        other.autocommit = False
        other.cursor().execute("SELECT 1 FROM jobs WHERE id = %s FOR UPDATE", (job,))
        got = jobs.act(job, "requeue")
        assert got.status == 409 and "locked by another transaction" in got.detail
    finally:
        other.close()


def test_a_key_of_several_parts_is_named_by_a_list(jobs):
    jobs.db.sql("INSERT INTO pairs VALUES ('a b', '/%%', 'running', '2020-01-01')"
                .replace("%%", "%"))
    got = jobs.act("%5B%22a%20b%22%2C%22%2F%25%22%5D", "requeue", watch="pairs")
    assert got.status == 200, got.text
    assert got.json["watches"][0]["jobs"][0]["job"] == 'pairs/["a b","/%"]'
    assert jobs.db.sql("SELECT status FROM pairs") == [("queued",)]
    assert jobs.act("a", "requeue", watch="pairs").status == 404


@pytest.mark.parametrize("body, says", [
    ({"raeson": "x"}, 'did you mean "reason"'), ({"dry_run": 1}, "dry_run must be true or false"),
    ({"reason": 1}, "reason must be a string"), ({"from_step": "a"}, "from_step is only for retry")])
def test_a_body_that_makes_no_sense_is_400_in_one_sentence(jobs, body, says):
    job = jobs.add()
    got = jobs.act(job, "requeue", body)
    assert got.status == 400 and says in got.detail and jobs.status(job) == "running"


# ---- many ----

def acts(jobs, body, by="operator", watch="jobs"):
    return jobs.web.by(by).post(f"/api/v1/watches/{watch}/acts", body)


def test_many_by_name_have_an_outcome_each_and_one_batch_to_undo(jobs):
    good, alive = jobs.add(), jobs.add(age_s=1)
    got = acts(jobs, {"act": "requeue", "jobs": [good, str(alive), "999999"], "reason": "all"})
    assert got.status == 200, got.text
    outcomes = {j["job"]: j["outcome"] for j in got.json["watches"][0]["jobs"]}
    assert outcomes == {f"jobs/{good}": "done", f"jobs/{alive}": "refused",
                        "jobs/999999": "missing"}
    batch = got.json["watches"][0]["batch"]
    assert got.json["undo"] == f'POST /api/v1/undo?database=main {{"batch":"{batch}"}}'
    undone = jobs.web.by("operator").post("/api/v1/undo?database=main", {"batch": batch})
    assert undone.status == 200 and undone.json["watches"][0]["recovered"] == 1
    assert jobs.status(good) == "running"


def test_many_by_terms_are_bounded_and_say_so(jobs):
    jobs.db.sql("DELETE FROM jobs")
    for _ in range(4):
        jobs.add("failed")
    body = {"act": "retry", "where": ["state=failed"], "limit": 3}
    got = acts(jobs, {**body, "dry_run": True})
    assert len(got.json["watches"][0]["jobs"]) == 3 and got.json["limited"] is True
    assert acts(jobs, body).json["watches"][0]["recovered"] == 3
    left = acts(jobs, body).json
    assert left["watches"][0]["recovered"] == 1 and left["limited"] is False
    assert acts(jobs, body).json["watches"][0]["jobs"] == []


@pytest.mark.parametrize("body, says", [
    ({"act": "requeue"}, "give jobs"), ({"act": "explode", "jobs": [1]}, 'not "explode"'),
    ({"act": "requeue", "jobs": [1], "where": ["stuck"]}, "give jobs"),
    ({"act": "requeue", "jobs": [1] * 501}, "at most 500"),
    ({"act": "requeue", "jobs": [{"id": 1}]}, "jobs[0] is not a key"),
    ({"act": "requeue", "where": ["nonsense=1"]}, "nonsense"),
    ({"act": "requeue", "where": ["stuck"], "limit": 501}, "limit must be a whole number")])
def test_many_that_make_no_sense_are_400(jobs, body, says):
    got = acts(jobs, body)
    assert got.status == 400 and says in got.detail


# ---- undo ----

def test_the_newest_change_of_a_job_is_taken_back_once(jobs):
    job = jobs.add()
    before = jobs.row(job)
    jobs.act(job, "fail")
    got = jobs.act(job, "undo", {"reason": "a slip"})
    assert got.status == 200, got.text
    assert jobs.row(job) == before
    assert jobs.ledger(job)[-1] == ("UNDONE", "web:operator", "a slip")
    assert jobs.act(job, "undo").status in (404, 409)


def test_what_changed_since_is_not_undone_and_says_why(jobs):
    job = jobs.add()
    jobs.act(job, "requeue")
    jobs.db.sql("UPDATE jobs SET status = 'done' WHERE id = %s", job)
    got = jobs.act(job, "undo")
    assert got.status == 409 and "was not reverted" in got.detail
    assert jobs.status(job) == "done"


@pytest.mark.covers("F10")
def test_what_also_went_with_is_not_undone_over_http(jobs):
    job = jobs.add("noted")
    assert jobs.act(job, "requeue", watch="noted").status == 200
    got = jobs.act(job, "undo", watch="noted")
    assert got.status == 409 and "(also:) ran with it" in got.text
    batch = jobs.ledger(job, "batch", "noted")[-1][0]
    got = jobs.web.by("operator").post("/api/v1/undo?database=main", {"batch": batch})
    assert got.json["watches"][0]["refused"] == 1, got.text
    assert jobs.status(job) == "queued"


def test_an_undo_of_nothing_is_404(jobs):
    assert jobs.act(jobs.add(), "undo").status == 404
    got = jobs.web.post("/api/v1/undo", {"batch": "20200101-000000-00000000"})
    assert got.status == 404 and "?database=" in got.detail
    assert jobs.web.post("/api/v1/undo", {}).status == 400


# ---- the built-in queue ----

def enqueue(jobs, **job):
    return jobs.web.post("/api/v1/queues/mail/jobs", {"kind": "send", **job}).json["id"]


def queue_state(jobs, job):
    table = "defib.job" if jobs.db.engine == "postgres" else "defib_job"
    return jobs.db.sql(f"SELECT state FROM {table} WHERE id = %s", job)[0][0]


def test_a_job_of_the_queue_is_cancelled_and_the_ledger_has_it(jobs):
    job = enqueue(jobs)
    got = jobs.act(job, "cancel", {"reason": "enough"}, watch="queue")
    assert got.status == 200 and queue_state(jobs, job) == "cancelled"
    assert jobs.ledger(job, watch="queue") == [("CANCELLED", "web:operator", "enough")]
    assert jobs.act(job, "undo", watch="queue").status == 200
    assert queue_state(jobs, job) == "queued"
    assert jobs.act(job, "fail", watch="queue").status == 200
    again = jobs.act(job, "cancel", watch="queue")
    assert again.status == 409 and "it is failed: cancel_when" in again.detail
    assert jobs.act(999999, "cancel", watch="queue").status == 404


def test_deleting_a_job_of_the_queue_cancels_it_and_answers_the_same_again(jobs):
    job = enqueue(jobs)
    for _ in range(2):
        assert jobs.web.ask("DELETE", f"/api/v1/watches/queue/jobs/{job}").status == 204
    assert queue_state(jobs, job) == "cancelled"
    assert len(jobs.ledger(job, watch="queue")) == 1
    assert jobs.web.ask("DELETE", "/api/v1/watches/queue/jobs/999999").status == 404


# ---- a pass, and overrides ----

def scan(jobs, body=None, by="operator", watch="jobs"):
    return jobs.web.by(by).post(f"/api/v1/watches/{watch}/scan", body)


def test_a_scan_finds_and_with_fix_recovers(jobs):
    jobs.db.sql("DELETE FROM jobs")
    stuck, alive = jobs.add(), jobs.add(age_s=1)
    found = scan(jobs)
    assert found.status == 200 and found.json["found"] == 1
    assert found.json["watches"][0]["jobs"][0]["key"] == str(stuck)
    assert jobs.status(stuck) == "running"
    fixed = scan(jobs, {"fix": True})
    assert fixed.json["recovered"] == 1 and fixed.json["watches"][0]["batch"]
    assert (jobs.status(stuck), jobs.status(alive)) == ("queued", "running")
    assert jobs.ledger(stuck)[0][:2] == ("REQUEUED", "web:operator")


def test_a_scan_is_bounded_by_its_limit_and_takes_another_remedy(jobs):
    jobs.db.sql("DELETE FROM jobs")
    for _ in range(3):
        jobs.add()
    got = scan(jobs, {"fix": True, "limit": 2, "remedy": "fail", "reason": "enough"})
    assert got.json["recovered"] == 2 and got.json["watches"][0]["limited"] is True
    failed = jobs.db.sql("SELECT error FROM jobs WHERE status = 'failed'")
    assert failed == [("enough",)] * 2
    assert scan(jobs, {"remedy": "explode"}).status == 400
    assert scan(jobs, {"override_guard": True}).status == 403


def words(jobs, path, body=None, by="operator"):
    return jobs.web.by(by).post("/api/v1" + path, body)


def test_a_watch_is_paused_and_resumed(jobs):
    got = words(jobs, "/watches/jobs/pause", {"for": "1h", "reason": "repairs"})
    assert got.status == 200, got.text
    told = got.json["overrides"][0]["override"]
    assert told["name"] == "pause"
    assert (told["watch"], told["actor"], told["reason"]) == ("jobs", "web:operator", "repairs")
    back = words(jobs, "/watches/jobs/resume").json["overrides"]
    assert back == [{"database": "main", "watch": "jobs", "name": "pause",
                     "in_force": False, "was": True}]
    assert words(jobs, "/watches/jobs/resume").json["overrides"][0]["was"] is False


def test_what_is_said_of_all_is_taken_back_for_all(jobs):
    assert words(jobs, "/pause").json["overrides"][0]["override"]["watch"] == "*"
    got = words(jobs, "/watches/jobs/resume")
    assert got.status == 409 and "for all watches" in got.detail
    assert words(jobs, "/resume").json["overrides"][0]["was"] is True


def test_thresholds_are_raised_by_an_admin(jobs):
    assert words(jobs, "/watches/jobs/raise", {"by": 2}).status == 403
    got = words(jobs, "/watches/jobs/raise", {"by": 2.5, "for": "1h"}, by="admin")
    assert got.json["overrides"][0]["override"]["value"] == "2.5"
    assert words(jobs, "/watches/jobs/raise", {"off": True}, by="admin").json["overrides"][0]["was"]
    for body, says in (({}, "by must be a number"), ({"by": 0.5}, "from 1 to 100"),
                       ({"by": 2, "for": "10ms"}, "at least a second"),
                       ({"by": 2, "for": "soon"}, "for must be a duration")):
        bad = words(jobs, "/watches/jobs/raise", body, by="admin")
        assert bad.status == 400 and says in bad.detail


def test_a_guard_is_overridden_for_one_pass_and_the_ledger_says_who(jobs):
    """Silence on a beating watch needs a second look, ten minutes later: not with this override."""
    passes = jobs.web.daemon.passes
    eventually(lambda: passes("beating"))  # what is past its limit before that waits for nobody
    job = jobs.add("beating", age_s=1800)
    got = words(jobs, "/watches/beating/override-guard", {"reason": "they are gone"})
    assert got.status == 403
    got = words(jobs, "/watches/beating/override-guard", {"reason": "they are gone"}, by="admin")
    assert got.status == 202, got.text
    eventually(lambda: jobs.status(job) == "queued")
    assert jobs.ledger("*", watch="beating")[0] == ("GUARD_OVERRIDDEN", "web:admin",
                                                    "they are gone")
    assert jobs.evidence(job, "beating")["override_guard"] is True
    # It is used up: the next one waits for its second look.
    setting = "defib.setting" if jobs.db.engine == "postgres" else "defib_setting"
    eventually(lambda: not jobs.db.sql(f"SELECT 1 FROM {setting} WHERE name = 'override'"))
    other = jobs.add("beating", age_s=1800)
    for word in ("pause", "resume"):  # each is reason for a pass at once
        had = len(passes("beating"))
        words(jobs, f"/watches/beating/{word}")
        eventually(lambda: len(passes("beating")) > had)
    assert jobs.status(other) == "beating"


# ---- who may ----

def test_a_viewer_may_change_nothing(jobs):
    listed = jobs.web.get("/api/v1/").json["routes"]
    changing = [r for r in listed if r["method"] != "GET"]
    assert len(changing) > 20
    for route in changing:
        path = route["path"].replace("{watch}", "jobs").replace("{key}", "1") \
            .replace("{id}", "1").replace("{queue}", "mail")
        got = jobs.web.by("viewer").ask(route["method"], path)
        assert got.status == 403, (route, got.text)
        assert jobs.web.by(None).ask(route["method"], path).status == 401
