# SPDX-License-Identifier: Apache-2.0
"""Watches, jobs, ledger and workers over HTTP: the same texts as the commands' --json."""

import csv
import io
import json
import urllib.parse

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.example_systems import ago
from harness.http_daemon import serving, token_env, token_section
from harness.job_table import CONFIG, PAIRS, add_job, json_lines, make_jobs, make_pairs
from harness.program import Program
from harness.queue_workers import Queue
from harness.waiting import NotYet, eventually

pytestmark = pytest.mark.sanitized
SECRET = "hunter2-and-more"
PAYLOAD = {"to": "anna", "login": {"password": SECRET}, "n": 1.5, "big": 9007199254740993}
# A watch that only reports: stuck jobs stay stuck, and are in the ledger.
JOBS = CONFIG.replace("    requeue:", "    remedies: [{{do: report}}]\n    requeue:").replace(
    "show: [title]", "show: [title, payload]").replace(
    "    reason: freed by a test", "    text: payload\n    every: 1s\n    stats: {{failed: "
    "\"state = 'failed'\", started_at: beat, finished_at: beat}}\n")
MORE = """
  - name: many
    table: many
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 1h
    label: Many of them
    group: bulk
    remedies: [{do: report}]
    every: 1h
  - name: odd
    table: odd
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 1h
    show: [note]
    remedies: [{do: report}]
    every: 1h
"""
ODD = ["a/b", "<script>alert(1)</script>", 'q"uo\'te', "ünï çø∂é ☃", "50% & more?#x=1", " blank ",
       "back\\slash", "a//b", "%2F", "{\"json\":[1]}"]
HOSTILE = "line\nbreak\ttab \x01 \"quote\" </script> \\ é ☃ {\"password\":\"x\"}"


def fill(db):
    make_jobs(db)
    db.sql("ALTER TABLE jobs ADD COLUMN payload " + ("jsonb" if db.engine == "postgres" else "text"))
    for key in range(1, 6):
        add_job(db, key, minutes=key * 60 - 30)
    add_job(db, 6, state="queued", kind="scrape")
    add_job(db, 7, state="failed", error="it broke", title='<b>"bold"</b>')
    db.sql("UPDATE jobs SET payload = %s WHERE id <= 2", json.dumps(PAYLOAD))
    make_pairs(db)
    time = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE many (id integer PRIMARY KEY, state text, beat {time})")
    db.sql("INSERT INTO many WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
           f"WHERE i < 1100) SELECT i, 'running', CASE WHEN i % 3 > 0 THEN {ago(db, 60)} END FROM n")
    db.sql(f"CREATE TABLE odd (id text PRIMARY KEY, state text, beat {time}, note text)")
    for key in ODD:
        db.sql("INSERT INTO odd (id, state, note) VALUES (%s, 'queued', %s)", key, HOSTILE)


class Read:
    """A daemon over a filled database, and the commands with the same output."""

    def __init__(self, web, program, db, path, queue):
        self.admin, self.program, self.db, self.path, self.queue = web, program, db, path, queue
        self.viewer, self.operator = web.by("viewer"), web.by("operator")

    def get(self, path, by=None, **query):
        given = urllib.parse.urlencode(query, doseq=True)
        got = (by or self.operator).get(f"/api/v1{path}" + (f"?{given}" if given else ""))
        assert got.status == 200, got.text
        return got.json

    def refused(self, status, path, by=None, **query):
        given = urllib.parse.urlencode(query, doseq=True)
        got = (by or self.operator).get(f"/api/v1{path}" + (f"?{given}" if given else ""))
        assert got.status == status, got.text
        return got.detail

    def job(self, watch, key):
        return f"/watches/{watch}/jobs/{urllib.parse.quote(key, safe='')}"

    def says(self, *args, codes=(0,)):
        ran = self.program(*args, config=self.path)
        assert ran.code in codes, ran.err
        return ran


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def read(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("read")
    db = (PgDatabase(request.getfixturevalue("shared_server")) if request.param == "postgres"
          else LiteDatabase(folder / "read.db"))
    fill(db)
    program = Program(folder)
    queue = Queue(program, db)
    for n in range(3):
        queue.enqueue(json.dumps({**PAYLOAD, "n": n}))
    text = (JOBS.format(url=db.url) + PAIRS.replace("    requeue: code = 3\n", "    remedies: "
            "[{do: report}]\n    every: 1h\n") + MORE + "http:\n  mask: [password]\n"
            + token_section())
    path = folder / "read.yaml"
    path.write_text(text)
    queue.work("--name", "worker-with-a-name", "--concurrency", "2", run="sleep 1000")
    try:
        with serving(folder, text, env=token_env()) as web:
            own = Read(web.by("admin"), program, db, path, queue)
            eventually(own.admin.ready)
            eventually(lambda: len(own.get("/ledger")["entries"]) >= 5)
            eventually(lambda: any(len(own.get(f"/workers/{worker['id']}")["jobs"]) == 2
                                   for worker in own.get("/workers")["workers"]))
            yield own
    finally:
        queue.close()
        db.drop()


# What changes with time, or with the number of requests.
PASSING = {"age_s", "measured_s", "now", "sentence", "last_scan_s", "observed", "kept", "info",
           "last_finished_scan", "since"}


def steady(value):
    if isinstance(value, dict):
        return {k: steady(v) for k, v in value.items() if k not in PASSING}
    return [steady(v) for v in value] if isinstance(value, list) else value


# ---- the same as the commands ----


@pytest.mark.parametrize("watch,query,options", [
    ("jobs", {}, []),
    ("jobs", {"sort": "key", "desc": "true"}, ["--sort", "key", "--desc"]),
    ("jobs", {"sort": "age"}, ["--sort", "age"]),
    ("jobs", {"limit": 2}, ["--limit", "2"]),
    ("jobs", {"state": "failed"}, ["--where", "state=failed"]),
    ("jobs", {"verdict": "silent"}, ["--where", "verdict=silent"]),
    ("jobs", {"text": "ANNA"}, ["--where", "text~ANNA"]),
    ("jobs", {"where": ["kind=crawl", "age>2h", "stuck"]},
     ["--where", "kind=crawl", "--where", "age>2h", "--where", "stuck"]),
    ("pairs", {"state": "WORKING"}, ["--where", "state=WORKING"]),
    ("odd", {}, []),
    ("queue", {"state": "running"}, ["--where", "state=running"]),
])
def test_a_page_has_the_jobs_of_list(read, watch, query, options):
    got = read.get(f"/watches/{watch}/jobs", **query)
    said = json_lines(read.says("list", "--watch", watch, "--json", *options))
    assert said and steady(got["jobs"]) == steady(said)
    assert got["watch"] == watch and got["database"] == "main"
    assert got["more"] == ("limit" in query)


def test_a_page_says_on_request_why_jobs_are_stuck_and_what_a_scan_would_do(read):
    got = read.get("/watches/jobs/jobs", judged="true", by=read.viewer)["jobs"]
    stuck = [job for job in got if job["verdict"]]
    assert stuck and len(stuck) < len(got)
    for job in stuck:
        said = read.get(f"/watches/jobs/explain/{job['key']}")
        assert (job["remedy"], job["rule"]) == (said["remedy"], said["rule"])
        assert "no sign of life for" in job["why"] and "(limit 1h)" in job["why"]
    assert not any("remedy" in job for job in got if not job["verdict"])
    assert not any("why" in job for job in read.get("/watches/jobs/jobs")["jobs"])


@pytest.mark.parametrize("watch,key", [
    ("jobs", "1"), ("jobs", "6"), ("jobs", "7"), ("pairs", '["x\\"y","1"]'), ("queue", "1"),
    *(("odd", key) for key in ODD[:3])])
def test_a_story_is_that_of_show(read, watch, key):
    got = read.get(read.job(watch, key))
    said = read.says("show", f"{watch}/{key}", "--json").json
    assert said.pop("explanation")["watch"] == watch  # which has a route of its own
    assert steady(got) == steady(said)
    assert got["sentence"].startswith(f"Job {watch}/")


@pytest.mark.parametrize("watch,key", [("jobs", "3"), ("jobs", "6"), ("pairs", '["x\\"y","1"]'),
                                       ("queue", "1")])
def test_an_explanation_is_that_of_explain(read, watch, key):
    def same():
        got = read.get(f"/watches/{watch}/explain/{urllib.parse.quote(key, safe='')}")
        said = read.says("explain", f"{watch}/{key}", "--json", codes=(0, 1)).json
        return steady(got) == steady(said) or NotYet((got, said))
    eventually(same)  # a worker may renew its lease in between


@pytest.mark.parametrize("watch", ["jobs", "pairs", "queue"])
def test_numbers_are_those_of_stats(read, watch):
    got = read.get(f"/watches/{watch}/stats")
    said, = read.says("stats", watch, "--json").json["watches"]
    assert (got.pop("oldest_waiting_s") is None) == (said.pop("oldest_waiting_s") is None)
    assert got == said


@pytest.mark.parametrize("watch", ["jobs", "pairs"])
def test_lessons_are_those_of_learn(read, watch):
    said = read.says("learn", watch, "--json").json["watches"]
    assert [steady(read.get(f"/watches/{watch}/learn"))] == steady(said)


def test_the_ledger_is_that_of_the_command_newest_first(read):
    got = read.get("/ledger", limit=3)
    said = json_lines(read.says("ledger", "--json", "--limit", "3"))
    assert got["entries"] == said[::-1]
    assert got["more"] and got["next"] == got["entries"][-1]["id"]


@pytest.mark.parametrize("query,options", [
    ({"watch": "jobs", "after": 0}, ["--watch", "jobs", "--after", "0"]),
    ({"job": "jobs/2", "order": "asc"}, ["--job", "jobs/2"]),
    ({"event": "ZOMBIE_DETECTED", "since": "1h", "order": "asc"},
     ["--event", "ZOMBIE_DETECTED", "--since", "1h"]),
    ({"actor": "nobody", "order": "asc"}, ["--actor", "nobody"]),
])
def test_the_ledger_is_filtered_as_by_the_command(read, query, options):
    assert read.get("/ledger", **query)["entries"] == json_lines(
        read.says("ledger", "--json", *options))


def test_the_ledger_is_paged_both_ways(read):
    for order in ("asc", "desc"):
        whole = [e["id"] for e in read.get("/ledger", order=order, limit=1000)["entries"]]
        parts, page = [], read.get("/ledger", order=order, limit=2)
        while True:
            parts += [e["id"] for e in page["entries"]]
            if not page["more"]:
                break
            page = read.get("/ledger", order=order, limit=2, after=page["next"])
        assert len(parts) >= 5 and parts == whole


def test_the_ledger_comes_as_a_file(read):
    entries = read.get("/ledger", order="asc")["entries"]
    got = read.operator.get("/api/v1/ledger?format=jsonl&order=asc")
    assert got.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line) for line in got.text.splitlines()] == entries
    got = read.operator.get("/api/v1/ledger?format=csv&order=asc")
    assert got.headers["Content-Disposition"] == 'attachment; filename="ledger.csv"'
    rows = list(csv.DictReader(io.StringIO(got.text, newline="")))
    assert [int(r["id"]) for r in rows] == [e["id"] for e in entries]
    assert [json.loads(r["evidence"]) for r in rows] == [e["evidence"] for e in entries]
    assert [r["job"] for r in rows] == [e["job"] for e in entries]


def test_the_state_of_watches_is_that_of_the_command(read):
    eventually(lambda: all(w["status"] not in ("no_leader", "silent", "failed")
                           for w in read.get("/watch-status")["watches"]))

    def same():  # a watch may change between the two, as when doubt begins
        said = steady(read.says("status", "--json", codes=(0, 1)).json["watches"])
        for watch in said:
            del watch["numbers"]  # the command also counts what the table has now
        answered = steady(read.get("/watch-status")["watches"])
        return said == answered or NotYet((said, answered))
    eventually(same)


def test_findings_are_those_of_the_doctor(read):
    """Except for what only the command tries: a viewer's request writes nothing, rolled back or
    not."""
    def findings(document):
        return [(f["check"], f["level"], f["database"], f["watch"]) for f in document["findings"]
                if f["check"] != "remedy"]
    assert findings(read.get("/doctor")) == findings(
        read.says("doctor", "--json", codes=(0, 3, 4)).json)


def test_the_configuration_is_that_of_config_show_and_for_admins(read):
    def rows(document):
        return [(r["path"], r["value"]) for r in document]
    got = read.get("/config", by=read.admin)
    assert rows(got) == rows(read.says("config", "show", "--json").json)
    assert "admin" in read.refused(403, "/config")


# ---- from memory ----


def test_watches_say_what_they_are_and_how_the_daemon_sees_them(read):
    eventually(lambda: all(w["leads"] for w in read.get("/watches")["watches"]))
    watches = {w["watch"]: w for w in read.get("/watches")["watches"]}
    assert list(watches) == ["jobs", "pairs", "many", "odd", "queue"]
    many = watches["many"]
    assert (many["label"], many["group"], many["table"]) == ("Many of them", "bulk", "many")
    assert many["enabled"] and not many["builtin"] and many["database"] == "main"
    # A server that has just started makes a daemon doubt for a while.
    assert many["status"] in ("well", "doubt") and not many["paused"] and many["last_scan"]
    assert many["info"]["running"] > 0 and many["failure"] is None
    assert watches["queue"]["builtin"] and watches["pairs"]["key"] == ["a", "b"]


def test_a_watch_says_its_rules_and_where_they_came_from(read):
    got = read.get("/watches/jobs")
    assert got["stuck_after"] == {
        "standard_s": 3600, "kinds": {}, "states": {}, "sql": None}
    assert got["overdue_after"] is None and got["every_s"] == 1
    assert [r["do"] for r in got["remedies"]] == ["report"]
    assert "requeue" in got["acts"] and "cancel" not in got["acts"]
    origins = {r["path"]: r["origin"] for r in got["config"]}
    assert origins["watches.jobs.batch"] == "default"
    assert ".yaml:" in origins["watches.jobs.stuck_after"]
    assert read.get("/watches/queue")["builtin"]


# ---- workers ----


def test_workers_are_listed_with_what_they_have(read):
    worker = read.get("/workers")["workers"][0]
    pid = read.queue.workers[0].pid
    assert (worker["name"], worker["state"], worker["pid"]) == ("worker-with-a-name", "alive", pid)
    assert worker["serves"] == ["queue"] and not worker["expired"] and worker["ended_at"] is None
    one = read.get(f"/workers/{worker['id']}")
    assert sorted(j["key"] for j in one["jobs"]) == ["1", "2"]
    assert {j["watch"] for j in one["jobs"]} == {"queue"} and not one["more"]


def test_viewers_see_no_processes(read):
    worker = read.get("/workers", by=read.viewer)["workers"][0]
    assert worker["name"] == "****a-name" and worker["pid"] is None
    assert worker["host"].startswith("****")


def test_an_unknown_worker_is_404(read):
    assert "no worker 4711" in read.refused(404, "/workers/4711")
    assert "no worker x" in read.refused(404, "/workers/x")


# ---- pages ----


@pytest.mark.parametrize("order", [{"sort": "key"}, {"sort": "key", "desc": "1"}, {"sort": "age"},
                                   {"sort": "state"}], ids=str)
def test_paging_loses_and_repeats_nothing(read, order):
    keys, after, pages = [], {}, 0
    while True:
        page = read.get("/watches/many/jobs", limit=130, **order, **after)
        keys += [j["key"] for j in page["jobs"]]
        pages += 1
        if not page["more"]:
            break
        assert page["next"] == page["jobs"][-1]["cursor"]
        after = {"after": page["next"]}
    assert pages == 9
    assert sorted(map(int, keys)) == list(range(1, 1101))
    if order["sort"] == "key":
        assert keys == sorted(keys, key=int, reverse="desc" in order)


def test_a_count_is_capped_and_says_so(read):
    got = read.get("/watches/many/jobs", limit=1, count="true")
    assert (got["count"], got["count_capped"]) == (1000, True)
    got = read.get("/watches/jobs/jobs", limit=1, count="true", where="kind=crawl")
    assert (got["count"], got["count_capped"], len(got["jobs"])) == (6, False, 1)
    assert "count" not in read.get("/watches/jobs/jobs", limit=1)


# ---- who sees what ----


def test_viewers_see_owners_and_members_masked(read):
    for path in (read.job("jobs", "1"), "/watches/jobs/jobs", "/ledger",
                 "/watches/jobs/explain/1", "/ledger?format=csv"):
        assert SECRET not in read.viewer.get(f"/api/v1{path}").text, path
    got = read.get(read.job("jobs", "1"), by=read.viewer)
    payload = json.loads(got["row"]["payload"])
    assert payload["login"]["password"] == "****" + SECRET[-6:]
    assert payload["to"] == "anna" and payload["big"] == PAYLOAD["big"]
    assert json.loads(read.get(read.job("jobs", "1"))["row"]["payload"]) == PAYLOAD


def test_owners_are_masked_for_viewers_where_the_watch_does_not(read):
    owner = str(read.get("/workers")["workers"][0]["id"])
    assert read.get(read.job("queue", "1"))["owner"] == owner
    assert read.get(read.job("queue", "1"), by=read.viewer)["owner"] == "****" + owner[-6:]


def test_a_job_of_the_queue_has_its_payload_exactly(read):
    got = read.get(read.job("queue", "3"))
    assert got["payload"] == {**PAYLOAD, "n": 2} and got["result"] is None
    seen = read.get(read.job("queue", "3"), by=read.viewer)["payload"]
    assert seen["login"] == {"password": "****" + SECRET[-6:]} and seen["big"] == PAYLOAD["big"]


def test_what_a_watch_masks_is_masked_for_everyone(read):
    for by in (read.viewer, read.operator, read.admin):
        got = read.get(read.job("jobs", "1"), by=by)
        assert got["owner"] == got["row"]["owner"] == "****mber-1"


@pytest.mark.parametrize("query", [{"where": "owner~worker"}, {"where": "owner=worker-number-1"},
                                   {"text": "hunter"}, {"where": "payload~hunter"}], ids=str)
def test_viewers_may_not_search_what_is_masked(read, query):
    assert "does not see" in read.refused(403, "/watches/jobs/jobs", by=read.viewer, **query)
    assert read.get("/watches/jobs/jobs", **query)["jobs"]


# ---- hostile and wrong ----


@pytest.mark.parametrize("key", ODD)
def test_hostile_keys_and_texts_come_back_exactly(read, key):
    got = read.get(read.job("odd", key))
    assert got["key"] == key and got["row"] == {**got["row"], "id": key, "note": HOSTILE}
    assert got["show"] == {"note": HOSTILE}


@pytest.mark.parametrize("path,query,part", [
    ("/watches/jobs/jobs", {"limit": 0}, "limit must be a whole number from 1 to 500"),
    ("/watches/jobs/jobs", {"limit": 501}, "limit must be a whole number from 1 to 500"),
    ("/watches/jobs/jobs", {"limit": "ten"}, "limit must be a whole number"),
    ("/watches/jobs/jobs", {"sort": "size"}, "sort must be key, age or state"),
    ("/watches/jobs/jobs", {"desc": "perhaps"}, "desc must be true or false"),
    ("/watches/jobs/jobs", {"after": "x"}, "is not a cursor"),
    ("/watches/jobs/jobs", {"where": "knd=crawl"}, 'where: watch jobs has no "knd"'),
    ("/watches/jobs/jobs", {"verdict": "lost"}, "lost"),
    ("/watches/jobs/jobs", {"where": ["stuck"] * 33}, "at most 32 terms"),
    ("/watches/jobs/jobs", {"lmit": 1}, 'did you mean "limit"?'),
    ("/watches/jobs/jobs/1", {"raw": 1}, 'no parameter "raw"'),
    ("/ledger", {"event": "REQUEUD"}, "did you mean REQUEUED?"),
    ("/ledger", {"order": "up"}, "order must be asc or desc"),
    ("/ledger", {"format": "xml"}, "format must be json, jsonl or csv"),
    ("/ledger", {"since": "yesterday"}, "since must be a duration"),
    ("/ledger", {"after": "-1"}, "after must be a whole number"),
    ("/ledger", {"limit": 1001}, "limit must be a whole number from 1 to 1000"),
    ("/workers", {"limit": 0}, "limit must be a whole number from 1 to 1000"),
])
def test_a_wrong_parameter_is_400_in_one_sentence(read, path, query, part):
    detail = read.refused(400, path, **query)
    assert part in detail and "\n" not in detail


def test_a_cursor_of_another_list_is_refused(read):
    cursor = read.get("/watches/many/jobs", limit=1)["next"]
    assert "another list" in read.refused(400, "/watches/jobs/jobs", after=cursor)
    cursor = read.get("/watches/many/jobs", limit=1, sort="key")["next"]
    assert "another" in read.refused(400, "/watches/many/jobs", after=cursor, sort="age")


@pytest.mark.parametrize("path,status", [
    ("/watches/jobs/jobs/4711", 404),
    ("/watches/jobs/explain/4711", 404),
    ("/watches/queue/jobs/4711", 404),
    ("/watches/jbs/jobs", 404),
    ("/watches/jbs", 404),
    ("/watches/pairs/jobs/x", 404),
    ("/ledger?database=other", 404),
])
def test_what_is_not_there_is_404(read, path, status):
    assert read.refused(status, path)


def test_a_key_that_its_type_cannot_take_is_the_callers_slip(read):
    status = 400 if read.db.engine == "postgres" else 404
    assert read.refused(status, "/watches/jobs/jobs/seventeen")


# ---- several databases ----


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Two files: an empty one first, then one with the queue in it."""
    folder = tmp_path_factory.mktemp("several")
    empty, full = LiteDatabase(folder / "empty.db"), LiteDatabase(folder / "full.db")
    program = Program(folder)
    empty.sql("CREATE TABLE something (id integer)")
    Queue(program, full).enqueue('{"n": 1}')
    text = f"databases:\n  - {{name: empty, url: {empty.url}}}\n  - {{name: full, url: {full.url}}}\n"
    with serving(folder, text) as web:
        eventually(lambda: web.get("/api/v1/watches").json["watches"])
        yield web
    empty.drop()
    full.drop()


def test_the_queue_is_served_where_a_database_has_it(several):
    listed = several.get("/api/v1/watches").json["watches"]
    assert [(w["watch"], w["database"], w["builtin"]) for w in listed] == [("queue", "full", True)]
    got = several.get("/api/v1/watches/queue/jobs?database=full")
    assert [j["job"] for j in got.json["jobs"]] == ["queue/1"]
    got = several.get("/api/v1/watches/queue/jobs")
    assert got.status == 404 and "empty" in got.detail and "defib init" in got.json["next"]


def test_a_database_without_tables_of_ours_has_no_entries_and_no_workers(several):
    got = several.get("/api/v1/ledger").json
    assert (got["database"], got["entries"], got["more"]) == ("empty", [], False)
    got = several.get("/api/v1/workers")
    assert got.status == 404 and "defib init" in got.json["next"]
    assert several.get("/api/v1/workers?database=full").json["workers"] == []
    assert several.get("/api/v1/watch-status").json == {"watches": []}


# Last in the file: by now a worker has beaten more than once.
def test_the_daemon_remembers_when_it_saw_a_worker_beat(read):
    worker, = read.get("/workers")["workers"]
    eventually(lambda: len(read.get(f"/workers/{worker['id']}")["beats"]) >= 2)
    worker, = read.get("/workers")["workers"]
    seen = [age for age in worker["beats"] if age is not None]
    assert seen == sorted(seen, reverse=True) and all(age >= 0 for age in seen)
    assert len(set(seen)) == len(seen)
