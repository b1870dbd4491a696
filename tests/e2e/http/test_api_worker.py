# SPDX-License-Identifier: Apache-2.0
"""Workers that use only HTTP: their whole life, their fence, their end."""

import contextlib
import hashlib
import json
import threading

import pytest

from harness.example_systems import Example
from harness.http_acts import database
from harness.http_daemon import serving
from harness.program import Program
from harness.queue_workers import up_for
from harness.waiting import eventually, patience

pytestmark = pytest.mark.sanitized
LEASE = "3s"  # the shortest there is
CONFIG = """
databases:
  - name: main
    url: {url}
watches:
  - name: labs
    table: labs
    key: id
    running: status = 'ending'
    alive_at: updated_at
    stuck_after: 10m
    remedies: [{{do: report}}]
    every: 1h
    work:
      ready: status = 'ending'
      order: updated_at
      done: status = 'finished'
      failed: status = 'failed', error = :error
"""


class Works:
    def __init__(self, db, program, web):
        self.db, self.program, self.web = db, program, web
        self.prefix = "defib." if db.engine == "postgres" else "defib_"
        self.secrets = {}

    def secret(self, path):
        """The secret of the worker in a path; a test that forges passes its own."""
        parts = path.split("/")
        known = parts[1] == "workers" and len(parts) > 2 and self.secrets.get(parts[2])
        return {"Defib-Worker-Secret": known} if known else {}

    def ask(self, path, body=None, status=200):
        got = self.web.by("operator").post("/api/v1" + path, body, headers=self.secret(path))
        assert got.status == status, got.text
        return got.json if got.body else None

    def enqueue(self, queue, **job):
        return self.ask(f"/queues/{queue}/jobs", {"kind": "test", **job}, 201)["id"]

    def register(self, **more):
        got = self.ask("/workers", {"name": "remote", **more}, 201)
        self.secrets[str(got["worker"])] = got["secret"]
        return got["worker"]

    def claim(self, worker, queue, n=1, **more):
        return self.ask(f"/workers/{worker}/claim", {"queue": queue, "n": n, **more})["jobs"]

    def settle(self, worker, *results, status=200, **more):
        return self.ask(f"/workers/{worker}/settle", {"results": list(results), **more}, status)

    @contextlib.contextmanager
    def fellow(self):
        """A worker process of this host, which watches other workers."""
        others = f"SELECT 1 FROM {self.prefix}worker WHERE state = 'alive' AND name = 'fellow'"
        process = self.program.start("work", "--queue", "others", "--name", "fellow", "--db",
                                     self.db.url, "--", "true")
        try:
            eventually(lambda: self.db.sql(others))
            yield
        finally:
            process.terminate()
            _, said = process.communicate(timeout=patience())
        assert process.returncode == 0, said

    def job(self, job, columns="state"):
        row = self.db.sql(f"SELECT {columns} FROM {self.prefix}job WHERE id = %s", job)[0]
        return row if len(row) > 1 else row[0]

    def result(self, job):
        found = self.db.sql(f"SELECT result FROM {self.prefix}job_data WHERE job = %s", job)[0][0]
        return json.loads(found) if isinstance(found, str) and self.db.engine == "sqlite" \
            else found


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def works(request, tmp_path_factory):
    db = database(request.param, request, tmp_path_factory)
    program = Program(tmp_path_factory.mktemp("works"))
    assert program("init", db=db).code == 0
    Example("octolab", db, program)
    try:
        with serving(program.dir, CONFIG.format(url=db.url), tokens=True) as web:
            yield Works(db, program, web)
    finally:
        db.drop()


# ---- enqueue ----

def test_a_job_is_enqueued_with_all_that_the_command_takes(works):
    payload = {"to": ["ä", 1, 0.1, None, {"deep": 12345678901234567}], "n": 2.25}
    job = works.enqueue("full", payload=payload, priority=7, max_attempts=2, timeout="90s",
                        unique_key="once", tags=["a", "b"])
    got = works.claim(works.register(), "full")[0]
    assert got["payload"] == payload and got["key"] == str(job)
    assert (got["priority"], got["max_attempts"], got["timeout_s"]) == (7, 2, 90)
    assert works.job(job, "unique_key, attempts") == ("once", 1)


def test_a_unique_key_makes_it_safe_to_send_it_again(works):
    one = works.enqueue("unique", unique_key="k")
    assert works.enqueue("unique", unique_key="k") == one


def test_many_are_enqueued_in_one_transaction_or_none(works):
    got = works.ask("/queues/many/jobs", {"jobs": [{"kind": "a"}, {"kind": "b"}]}, 201)
    assert got["enqueued"] == 2 and len(set(got["ids"])) == 2
    works.ask("/queues/many/jobs", {"jobs": [{"kind": "c"}, {"kind": 1}]}, 400)
    assert len(works.claim(works.register(), "many", 100)) == 2


def test_a_delayed_job_is_not_ready_before_its_time(works):
    works.enqueue("late", delay="1h")
    assert works.claim(works.register(), "late") == []
    job = works.enqueue("late", delay="50ms")
    worker = works.register()
    assert eventually(lambda: works.claim(worker, "late"))[0]["key"] == str(job)


@pytest.mark.parametrize("job, says", [
    ({}, "kind is missing"), ({"kind": "a", "delay": 5}, "delay must be a string"),
    ({"kind": "a", "delay": "soon"}, "delay must be a duration"),
    ({"kind": "a", "priority": 40000}, "priority must be a whole number"),
    ({"kind": "a", "tags": ["a", 1]}, "tags must be a list of strings"),
    ({"kind": "a", "color": 1}, 'no member "color"'), ({"jobs": []}, "1 to 1000"),
    ({"jobs": [{"kind": "a"}, {"kind": "b", "timeout": "x"}]}, "jobs[1].timeout")])
def test_what_makes_no_sense_is_400(works, job, says):
    got = works.web.post("/api/v1/queues/bad/jobs", job)
    assert got.status == 400 and says in got.detail


# ---- claim and settle ----

def test_a_job_goes_from_claim_to_done_with_its_result(works):
    job = works.enqueue("plain", payload={"x": 1})
    worker = works.register()
    got = works.claim(worker, "plain")
    assert [(j["key"], j["epoch"], j["attempt"]) for j in got] == [(str(job), 1, 1)]
    assert works.job(job, "state, owner") == ("running", worker)
    assert works.ask(f"/workers/{worker}/beat", {"holding": 1})["owned"] == 1
    answer = works.settle(worker, {"key": str(job), "epoch": 1, "as": "done",
                                   "result": {"sum": 0.1}})
    assert answer["results"] == [{"key": str(job), "epoch": 1, "accepted": True, "why": None}]
    assert works.job(job) == "done" and works.result(job) == {"sum": 0.1}


@pytest.mark.parametrize("end, state", [
    ({"as": "failed", "error": "no", "delay": "1h"}, "scheduled"),
    ({"as": "retry", "delay": "1h"}, "scheduled"), ({"as": "permanent", "error": "no"}, "failed"),
    ({"as": "released"}, "queued")])
def test_a_job_ends_as_its_worker_says(works, end, state):
    job = works.enqueue("ends")
    worker = works.register()
    epoch = works.claim(worker, "ends")[0]["epoch"]
    works.settle(worker, {"key": job, "epoch": epoch, **end})
    assert works.job(job) == state
    works.db.sql(f"DELETE FROM {works.prefix}job WHERE id = %s", job)


def test_kinds_choose_and_a_claim_is_bounded(works):
    for kind in ("a", "b", "a"):
        works.enqueue("kinds", kind=kind)
    worker = works.register()
    assert [j["kind"] for j in works.claim(worker, "kinds", 100, kinds=["b"])] == ["b"]
    assert len(works.claim(worker, "kinds", 1)) == 1
    works.ask(f"/workers/{worker}/claim", {"queue": "kinds", "n": 101}, 400)
    works.ask(f"/workers/{worker}/claim", {}, 400)


def test_many_workers_claim_each_job_once(works):
    works.ask("/queues/crowd/jobs", {"jobs": [{"kind": "x"}] * 60}, 201)
    got, lock = [], threading.Lock()

    def work():
        worker = works.register()
        while jobs := works.claim(worker, "crowd", 7):
            with lock:
                got.extend(j["key"] for j in jobs)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 60 and len(set(got)) == 60


def test_a_stale_settlement_is_refused_and_the_ledger_has_it(works):
    """The job was given to another worker; the first one's result is late and changes nothing."""
    job = works.enqueue("stale")
    slow, other = works.register(), works.register()
    epoch = works.claim(slow, "stale")[0]["epoch"]
    done = works.web.post(f"/api/v1/watches/queue/jobs/{job}/requeue", {"override_guard": True})
    assert done.status == 200, done.text
    again = works.claim(other, "stale")[0]["epoch"]
    assert again == epoch + 1
    lost = works.settle(slow, {"key": job, "epoch": epoch, "as": "done", "result": "late"},
                        status=409)
    assert lost["results"][0]["why"] == "lease_lost" and lost["accepted"] == 0
    works.settle(other, {"key": job, "epoch": again, "as": "done", "result": "mine"})
    assert works.job(job) == "done" and works.result(job) == "mine"
    late = works.db.sql(f"SELECT job FROM {works.prefix}ledger WHERE event = 'LATE_COMPLETION'")
    assert (str(job),) in late


def test_of_several_ends_each_has_its_own_answer(works):
    job = works.enqueue("mixed")
    worker = works.register()
    epoch = works.claim(worker, "mixed")[0]["epoch"]
    got = works.settle(worker, {"key": job, "epoch": epoch, "as": "done"},
                       {"key": 999999, "epoch": 1, "as": "done"})
    assert [r["accepted"] for r in got["results"]] == [True, False]


@pytest.mark.parametrize("result, says", [
    ({"epoch": 1, "as": "done"}, "results[0].key"), ({"key": 1, "as": "done"}, "results[0].epoch"),
    ({"key": 1, "epoch": 1, "as": "fine"}, "results[0].as must be done"),
    ({"key": 1, "epoch": 1, "as": "retry", "delay": 3}, "results[0].delay")])
def test_an_end_that_makes_no_sense_is_400(works, result, says):
    got = works.web.post(f"/api/v1/workers/{works.register()}/settle", {"results": [result]})
    assert got.status == 400 and says in got.detail


# ---- progress, cancel ----

def test_progress_is_shown_while_the_job_is_ours(works):
    job = works.enqueue("far")
    worker = works.register()
    epoch = works.claim(worker, "far")[0]["epoch"]
    body = {"key": str(job), "epoch": epoch, "step": "pack", "text": "3 of 7"}
    works.ask(f"/workers/{worker}/progress", body, 204)
    assert works.db.sql(f"SELECT step, progress FROM {works.prefix}progress WHERE job = %s",
                        job) == [("pack", "3 of 7")]
    works.ask(f"/workers/{worker}/progress", {**body, "epoch": epoch + 1}, 409)


def test_a_beat_tells_what_was_asked_to_stop(works):
    job = works.enqueue("stop")
    worker = works.register()
    epoch = works.claim(worker, "stop")[0]["epoch"]
    assert works.web.ask("DELETE", f"/api/v1/watches/queue/jobs/{job}").status == 204
    asked = works.ask(f"/workers/{worker}/beat")["cancelling"]
    assert asked == [{"key": str(job), "epoch": epoch}]
    works.settle(worker, {"key": job, "epoch": epoch, "as": "stopped"})
    assert works.job(job) == "cancelled"


# ---- life ----

def test_who_left_or_never_was_is_410(works):
    worker = works.register()
    assert works.web.ask("DELETE", f"/api/v1/workers/{worker}").status == 204
    for who in (worker, 999999):
        got = works.web.post(f"/api/v1/workers/{who}/beat", {})
        assert got.status == 410 and "register again" in got.json["next"]
    works.enqueue("left")
    works.ask(f"/workers/{worker}/claim", {"queue": "left"}, 410)
    works.ask("/workers/nobody/beat", None, 404)


def test_a_worker_says_how_it_wants_to_be_watched(works):
    got = works.ask("/workers", {"name": "a", "lease": "1m", "serves": ["queue", "labs"]}, 201)
    assert (got["lease_s"], got["beat_s"]) == (60, 20)
    row = works.db.sql(f"SELECT name, serves, incarnation FROM {works.prefix}worker WHERE id = %s",
                       got["worker"])[0]
    assert row[:2] == ("a", "queue\nlabs") and row[2].startswith("http/")
    for body in ({"lease": "1s"}, {"lease": 5}, {"lease": "2h"}, {"serves": "queue"}):
        works.ask("/workers", body, 400)


def test_a_worker_of_http_is_watched_by_its_lease_alone(works):
    """Another worker of this host that looks for pids and locks leaves it alone while it beats."""
    job = works.enqueue("alone")
    worker = works.register(lease=LEASE)
    epoch = works.claim(worker, "alone")[0]["epoch"]
    with works.fellow():
        for _ in range(4):  # for longer than a lost lock would be given
            assert works.ask(f"/workers/{worker}/beat", {"holding": 1})["owned"] == 1
            threading.Event().wait(0.2)
        works.settle(worker, {"key": job, "epoch": epoch, "as": "done"})


@pytest.mark.plain
def test_a_silent_worker_s_job_goes_to_another_after_its_lease(works):
    up_for(works.db, 14)
    # The workers of other tests no longer beat either: most silent at once would engage the brake.
    works.db.sql(f"UPDATE {works.prefix}worker SET state = 'left'")
    job = works.enqueue("silent")
    silent, other = works.register(lease=LEASE), works.register(lease="1h")
    epoch = works.claim(silent, "silent")[0]["epoch"]
    assert works.claim(other, "silent") == []
    with works.fellow():  # sees that the lease has expired, and declares it dead
        got = eventually(lambda: works.claim(other, "silent"))
    assert [(j["key"], j["epoch"]) for j in got] == [(str(job), epoch + 1)]
    works.settle(silent, {"key": job, "epoch": epoch, "as": "done"}, status=409)
    works.settle(other, {"key": job, "epoch": epoch + 1, "as": "done"})
    assert works.job(job) == "done"


@pytest.mark.proof
def test_the_daemon_alone_notices_a_silent_worker_too(works):
    """Without any worker process: the built-in queue is a watch of the daemon itself."""
    up_for(works.db, 14)
    works.db.sql(f"UPDATE {works.prefix}worker SET state = 'left'")
    job = works.enqueue("unseen")
    silent, other = works.register(lease=LEASE), works.register(lease="1h")
    epoch = works.claim(silent, "unseen")[0]["epoch"]
    got = eventually(lambda: works.claim(other, "unseen"))
    assert [(j["key"], j["epoch"]) for j in got] == [(str(job), epoch + 1)]


# ---- whose worker it is ----

VERBS = {"beat": ("POST", "/beat", {}), "claim": ("POST", "/claim", {"queue": "forged"}),
         "settle": ("POST", "/settle", {"results": [{"key": 1, "epoch": 1, "as": "done"}]}),
         "progress": ("POST", "/progress", {"key": 1, "epoch": 1, "text": "x"}),
         "leave": ("DELETE", "", None)}


def overridden(works, job):
    return works.db.sql(f"SELECT actor, reason FROM {works.prefix}ledger WHERE job = %s AND "
                        "event = 'WORKER_OVERRIDDEN' ORDER BY id", str(job))


@pytest.mark.parametrize("shown", [None, "0" * 64, "", "another's"])
@pytest.mark.parametrize("verb", VERBS)
def test_an_operator_does_nothing_in_the_name_of_a_worker_of_others(works, verb, shown):
    """An operator, although refused the admin's override, could end a live worker or settle its
    job: the job ran twice, or a forged result was accepted. The worker's own secret is needed."""
    queue = f"forged-{verb}-{shown}"
    job = works.enqueue(queue)
    worker = works.register()
    epoch = works.claim(worker, queue)[0]["epoch"]
    if shown == "another's":
        shown = works.secrets[str(works.register())]
    method, path, body = VERBS[verb]
    if verb == "settle":
        body = {"results": [{"key": job, "epoch": epoch, "as": "done", "result": "forged"}]}
    denied = metric(works)
    got = works.web.by("operator").ask(method, f"/api/v1/workers/{worker}{path}", body,
                                       headers={"Defib-Worker-Secret": shown})
    assert got.status == 403 and "belongs to another caller" in got.detail
    assert "Defib-Worker-Secret" in got.json["next"]
    assert metric(works) == denied + 1
    assert works.job(job, "state, owner, epoch") == ("running", worker, epoch)
    assert works.db.sql(f"SELECT state FROM {works.prefix}worker WHERE id = %s", worker) == [
        ("alive",)]
    assert overridden(works, job) == []
    works.settle(worker, {"key": job, "epoch": epoch, "as": "done"})


@pytest.mark.parametrize("role", ["operator", "admin"])
@pytest.mark.parametrize("verb", VERBS)
def test_nobody_acts_for_a_worker_that_does_not_exist(works, verb, role):
    """Its row is gone, so nothing says whose it was: its jobs are recovered, not settled."""
    job = works.enqueue(f"gone-{verb}-{role}")
    worker = works.register()
    epoch = works.claim(worker, f"gone-{verb}-{role}")[0]["epoch"]
    works.db.sql(f"DELETE FROM {works.prefix}worker WHERE id = %s", worker)
    method, path, body = VERBS[verb]
    if verb in ("settle", "progress"):
        end = {"key": job, "epoch": epoch}
        body = {"results": [{**end, "as": "done"}]} if verb == "settle" else {**end, "text": "x"}
    got = works.web.by(role).ask(method, f"/api/v1/workers/{worker}{path}", body)
    assert got.status == 410 and f"worker {worker} is not registered" in got.detail
    assert works.job(job, "state, owner, epoch") == ("running", worker, epoch)
    works.db.sql(f"UPDATE {works.prefix}job SET state = 'cancelled', owner = NULL WHERE id = %s",
                 job)


def metric(works):
    lines = works.web.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines
               if line.startswith("defib_http_denied_total"))


def test_a_worker_process_is_nobodys_over_http(works):
    """One that registered itself in the database has no secret: only an admin acts for it."""
    with works.fellow():
        worker, = works.db.sql(f"SELECT max(id) FROM {works.prefix}worker")[0]
        for shown in (None, ""):
            got = works.web.by("operator").ask("DELETE", f"/api/v1/workers/{worker}",
                                               headers={"Defib-Worker-Secret": shown})
            assert got.status == 403


def test_what_an_admin_does_in_a_workers_name_is_in_the_ledger(works):
    job, other = works.enqueue("by-admin"), works.enqueue("by-admin")
    worker = works.register()
    admin = works.web.by("admin")
    got = admin.post(f"/api/v1/workers/{worker}/claim", {"queue": "by-admin", "n": 2})
    epochs = {one["key"]: one["epoch"] for one in got.json["jobs"]}
    assert set(epochs) == {str(job), str(other)}
    end = {"key": job, "epoch": epochs[str(job)], "as": "done"}
    assert admin.post(f"/api/v1/workers/{worker}/settle", {"results": [end]}).status == 200
    assert overridden(works, job) == [("web:admin", "claimed by an admin"),
                                      ("web:admin", "settled by an admin")]
    assert admin.ask("DELETE", f"/api/v1/workers/{worker}").status == 204
    assert overridden(works, other) == [("web:admin", "claimed by an admin"),
                                        ("web:admin", "the worker was ended by an admin")]


def test_what_a_worker_does_itself_is_not_told_as_an_admins(works):
    """Also with an admin's token: its secret says that it is the worker."""
    job = works.enqueue("own")
    worker = works.register()
    admin, headers = works.web.by("admin"), works.secret(f"/workers/{worker}")
    got = admin.post(f"/api/v1/workers/{worker}/claim", {"queue": "own"}, headers=headers)
    end = {"key": job, "epoch": got.json["jobs"][0]["epoch"], "as": "done"}
    assert admin.post(f"/api/v1/workers/{worker}/settle", {"results": [end]},
                      headers=headers).status == 200
    assert admin.ask("DELETE", f"/api/v1/workers/{worker}", headers=headers).status == 204
    assert overridden(works, job) == []


def test_of_a_secret_only_the_hash_is_kept_and_it_is_never_shown(works):
    worker = works.register()
    secret = works.secrets[str(worker)]
    assert len(secret) == 64 and secret != works.secrets[str(works.register())]
    kept, = works.db.sql(f"SELECT secret FROM {works.prefix}worker WHERE id = %s", worker)[0]
    assert kept == hashlib.sha256(secret.encode()).hexdigest()
    shown = works.web.get(f"/api/v1/workers/{worker}").text + works.web.get("/api/v1/workers").text
    assert secret not in shown and kept not in shown
    assert secret not in works.web.daemon.log


# ---- a user's own table ----

def test_a_watch_with_work_is_worked_on_over_http_too(works):
    works.db.sql("INSERT INTO labs (owner_id, status) VALUES "
                 "('7c9e6679-7425-40de-944b-e07fc1abc123', 'ending')")
    lab, = works.db.sql("SELECT id FROM labs")[0]
    worker = works.register(serves=["labs"])
    got = works.ask(f"/workers/{worker}/claim", {"watch": "labs"})["jobs"]
    assert [j["key"] for j in got] == [str(lab)]
    assert works.ask(f"/workers/{worker}/claim", {"watch": "labs"})["jobs"] == []
    works.settle(worker, {"key": str(lab), "epoch": got[0]["epoch"], "as": "done"}, watch="labs")
    assert works.db.sql("SELECT status FROM labs") == [("finished",)]
    works.ask(f"/workers/{worker}/claim", {"watch": "nothing"}, 404)
