# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml compared with the running server: the same routes, roles, bodies and answers.
"""

import re

import jsonschema
import pytest

from harness.http_acts import acting
from harness.openapi import DOCUMENT, FILE, OPERATIONS, RESOLVER, body_schema, resolved, validate
from harness.waiting import eventually

pytestmark = pytest.mark.sanitized


@pytest.fixture(scope="module")
def jobs(request, tmp_path_factory):
    with acting("sqlite", request, tmp_path_factory) as own:
        eventually(own.web.ready)
        own.asked = set()
        own.worker = str(own.web.by("admin").post("/api/v1/workers", {"name": "w"}).json["worker"])
        yield own


def ask(jobs, method, path, body=None, by="admin", query="", **parts):
    """Ask the running server for a path of the document; its answer must be described there."""
    operation = OPERATIONS[method, path]
    if body is not None:
        validate(body, body_schema(operation))
    concrete = re.sub(r"\{(\w+)\}", lambda m: str(parts[m[1]]), path) + query
    got = jobs.web.by(by).ask(method, concrete, body)
    described = operation["responses"].get(str(got.status)) or operation["responses"]["default"]
    if str(got.status) not in operation["responses"]:
        assert got.status >= 400, (concrete, got.status, got.text)
    check(got, resolved(described))
    if got.status < 300:
        jobs.asked.add((method, path))
    return got


def check(got, described):
    content = described.get("content")
    if content is None:
        assert got.body == b"", got.text
        return
    kind = got.headers["Content-Type"].split(";")[0]
    assert kind in content, (kind, list(content))
    if kind in ("application/json", "application/problem+json"):
        validate(got.json, content[kind]["schema"])


def test_every_route_is_described_and_nothing_else(jobs):
    listed = ask(jobs, "GET", "/api/v1/").json["routes"]
    assert {(r["method"], r["path"]) for r in listed} == set(OPERATIONS)
    for route in listed:
        operation = OPERATIONS[route["method"], route["path"]]
        assert operation["x-role"] == route["role"], route
        assert operation["summary"] == route["summary"], route


def test_the_server_serves_the_file(jobs):
    got = ask(jobs, "GET", "/api/v1/openapi.yaml", by="viewer")
    assert got.text == FILE.read_text()


def test_every_part_of_a_path_is_a_parameter():
    for path, item in DOCUMENT["paths"].items():
        named = {p["name"] for p in map(resolved, item.get("parameters", ())) if p["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), path


def test_every_reference_leads_somewhere():
    for ref in re.findall(r'\$ref: "([^"]+)"', FILE.read_text()):
        assert RESOLVER.resolve(ref)[1], ref


def test_what_is_read_is_as_described(jobs):
    job = jobs.add(owner="a b")
    jobs.act(jobs.add(), "requeue", {"reason": "for the ledger"})
    of = {"watch": "jobs", "key": job}
    for path in ("/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/watches",
                 "/api/v1/watches/{watch}", "/api/v1/watches/{watch}/stats",
                 "/api/v1/watches/{watch}/learn", "/api/v1/watches/{watch}/explain/{key}",
                 "/api/v1/watches/{watch}/jobs/{key}", "/api/v1/watch-status",
                 "/api/v1/doctor", "/api/v1/config", "/api/v1/ledger", "/api/v1/alerts",
                 "/api/v1/deliveries", "/api/v1/report", "/api/v1/trend", "/api/v1/series",
                 "/api/v1/workers", "/api/v1/incidents", "/api/v1/acts"):
        assert ask(jobs, "GET", path, **of).status == 200, path
    listed = ask(jobs, "GET", "/api/v1/watches/{watch}/jobs", query="?limit=1&count=true", **of)
    assert listed.json["more"] is True and len(listed.json["jobs"]) == 1
    for form in ("text", "markdown", "html"):
        ask(jobs, "GET", "/api/v1/report", query=f"?format={form}")
    for form in ("jsonl", "csv"):
        ask(jobs, "GET", "/api/v1/ledger", query=f"?format={form}")


def test_what_acts_say_is_as_described(jobs):
    job = {"watch": "jobs"}
    base = "/api/v1/watches/{watch}/jobs/{key}"
    for act in set(DOCUMENT["components"]["schemas"]["ActName"]["enum"]) - {"release"}:
        got = ask(jobs, "POST", f"{base}/{act}", {"reason": "said"}, key=jobs.add(), **job)
        assert got.status == 200, got.text
    held = jobs.add()
    ask(jobs, "POST", f"{base}/hold", key=held, **job)
    assert ask(jobs, "POST", f"{base}/release", key=held, **job).status == 200
    gone = jobs.add()
    batch = ask(jobs, "POST", f"{base}/fail", key=gone, **job).json["watches"][0]["batch"]
    assert ask(jobs, "POST", f"{base}/undo", {"dry_run": True}, key=gone, **job).status == 200
    assert ask(jobs, "POST", "/api/v1/undo", {"batch": batch}).status == 200
    many = {"act": "requeue", "jobs": [jobs.add(), "999999"]}
    assert ask(jobs, "POST", "/api/v1/watches/{watch}/acts", many, **job).status == 200
    order = {"act": "requeue", "background": True, "where": ["state=failed"]}
    got = ask(jobs, "POST", "/api/v1/watches/{watch}/acts", order, watch="bare")
    assert got.status == 422, got.text
    got = ask(jobs, "POST", "/api/v1/watches/{watch}/acts", order, **job)
    assert got.status == 202, got.text
    ask(jobs, "GET", "/api/v1/acts/{id}", id=got.json["id"])
    order = {"act": "hold", "background": True, "all": True}
    ask(jobs, "POST", "/api/v1/watches/{watch}/pause", {"for": "1h"}, watch="bare")
    name = ask(jobs, "POST", "/api/v1/watches/{watch}/acts", order, watch="bare").json["id"]
    ask(jobs, "POST", "/api/v1/acts/{id}/cancel", id=name)
    ask(jobs, "POST", "/api/v1/watches/{watch}/resume", watch="bare")
    assert ask(jobs, "POST", "/api/v1/watches/{watch}/scan", {"fix": True}, **job).status == 200
    ends = {"watch": "ends", "key": jobs.add("up")}
    assert ask(jobs, "DELETE", base, {"reason": "over"}, **ends).status == 204
    assert ask(jobs, "POST", f"{base}/end", **ends).status == 204


def test_problems_are_as_described(jobs):
    base = "/api/v1/watches/{watch}/jobs/{key}"
    for status, method, path, parts in (
            (404, "POST", f"{base}/requeue", {"watch": "jobs", "key": 999999}),
            (404, "GET", base, {"watch": "nothing", "key": 1}),
            (409, "POST", f"{base}/release", {"watch": "jobs", "key": jobs.add()}),
            (422, "DELETE", base, {"watch": "jobs", "key": jobs.add()}),
            (410, "POST", "/api/v1/workers/{id}/beat", {"id": 999999})):
        assert ask(jobs, method, path, **parts).status == status
    assert ask(jobs, "GET", "/api/v1/config", by="viewer").status == 403
    assert ask(jobs, "GET", "/api/v1/status", by=None).status == 401


def test_words_to_the_daemons_are_as_described(jobs):
    for path in ("/api/v1", "/api/v1/watches/{watch}"):
        of = {"watch": "bare"}
        assert ask(jobs, "POST", f"{path}/pause", {"for": "1h", "reason": "x"}, **of).status == 200
        assert ask(jobs, "POST", f"{path}/resume", **of).status == 200
        assert ask(jobs, "POST", f"{path}/raise", {"by": 2}, **of).status == 200
        assert ask(jobs, "POST", f"{path}/raise", {"off": True}, **of).status == 200
    got = ask(jobs, "POST", "/api/v1/watches/{watch}/override-guard", {"reason": "x"},
              watch="bare")
    assert got.status == 202


def test_work_over_http_is_as_described(jobs):
    path = "/api/v1/queues/{queue}/jobs"
    full = {"kind": "a", "payload": {"x": [1, None]}, "delay": "0s", "priority": 1,
            "max_attempts": 3, "timeout": "90s", "unique_key": "k", "tags": ["t"]}
    job = ask(jobs, "POST", path, full, queue="q").json["id"]
    ask(jobs, "POST", path, {"jobs": [{"kind": "b"}]}, queue="q")
    worker = ask(jobs, "POST", "/api/v1/workers",
                 {"name": "w", "lease": "1m", "serves": ["queue"]}).json["worker"]
    of = {"id": worker}
    base = "/api/v1/workers/{id}"
    epoch = ask(jobs, "POST", f"{base}/claim", {"queue": "q", "kinds": ["a"], "n": 5},
                **of).json["jobs"][0]["epoch"]
    assert ask(jobs, "GET", base, **of).status == 200
    ask(jobs, "POST", f"{base}/progress", {"key": job, "epoch": epoch, "step": "s"}, **of)
    ask(jobs, "POST", f"{base}/beat", {"holding": 1}, **of)
    result = {"key": job, "epoch": epoch, "as": "done", "result": {"y": 1}}
    assert ask(jobs, "POST", f"{base}/settle", {"results": [result]}, **of).status == 200
    lost = {**result, "epoch": epoch + 1}
    assert ask(jobs, "POST", f"{base}/settle", {"results": [lost]}, **of).status == 409
    assert ask(jobs, "DELETE", base, **of).status == 204


def test_a_test_message_is_as_described(jobs):
    assert ask(jobs, "POST", "/api/v1/alerts/test", {"sink": "log"}).status == 200


# ---- what is not described is refused ----

PROBES = ("/healthz", "/readyz", "/metrics")  # whose callers may add parameters
PARTS = {"watch": "jobs", "key": "999999", "queue": "q"}


def ask_wrongly(jobs, method, path, body=None, query=""):
    parts = {**PARTS, "id": jobs.worker}
    address = re.sub(r"\{(\w+)\}", lambda m: parts[m[1]], path) + query
    return jobs.web.by("admin").ask(method, address, body)


def test_a_parameter_that_is_not_described_is_refused(jobs):
    for method, path in OPERATIONS:
        if path in PROBES:
            continue
        got = ask_wrongly(jobs, method, path, query="?databse=main")
        assert got.status == 400 and '"databse"' in got.detail, (method, path, got.text)


def test_a_member_that_is_not_described_is_refused(jobs):
    for (method, path), operation in OPERATIONS.items():
        if "requestBody" in operation:
            got = ask_wrongly(jobs, method, path, {"raeson": "x"})
            assert got.status == 400 and "raeson" in got.detail, (method, path, got.text)


def test_a_database_that_is_not_the_watch_s_is_refused(jobs):
    for (method, path), operation in OPERATIONS.items():
        if "{watch}" in path:
            got = ask_wrongly(jobs, method, path, query="?database=other")
            assert got.status == 404 and "other" in got.detail, (method, path, got.text)


RESULT = {"key": "1", "epoch": 1, "as": "done"}


@pytest.mark.parametrize("path, body", [
    ("/api/v1/raise", {"off": True, "by": "x"}),
    ("/api/v1/raise", {"off": True, "by": 0.5}),
    ("/api/v1/watches/{watch}/acts",
     {"act": "hold", "background": True, "where": ["stuck"], "all": True}),
    ("/api/v1/workers/{id}/settle", {"queue": 5, "results": [RESULT]}),
    *(("/api/v1/workers/{id}/settle",
       {"results": [{**RESULT, "step": {"name": "s", "position": 0, flag: "yes"}}]})
      for flag in ("undo", "more", "saga"))])
def test_a_value_that_the_description_excludes_is_refused_also_where_it_is_not_used(
        jobs, path, body):
    with pytest.raises(jsonschema.ValidationError):
        validate(body, body_schema(OPERATIONS["POST", path]))
    got = ask_wrongly(jobs, "POST", path, body)
    assert got.status == 400, got.text


# What a body needs; of the others nothing is required.
NEEDED = {"/api/v1/watches/{watch}/acts": {"act": "hold", "jobs": [PARTS["key"]]},
          "/api/v1/undo": {"batch": "none"},
          "/api/v1/raise": {"by": 2},
          "/api/v1/watches/{watch}/raise": {"by": 2},
          "/api/v1/queues/{queue}/jobs": {"kind": "k"},
          "/api/v1/workers/{id}/claim": {"queue": "none"},
          "/api/v1/workers/{id}/settle": {"results": [RESULT]},
          "/api/v1/workers/{id}/progress": {"key": "1", "epoch": 1}}


def nullable(schema):
    """The names of members that may be null."""
    schema = resolved(schema)
    if "properties" not in schema and "oneOf" in schema:
        schema = resolved(schema["oneOf"][0])
    members = schema.get("properties", {})
    return [name for name, part in members.items()
            if jsonschema.Draft202012Validator(part, resolver=RESOLVER).is_valid(None)]


def test_a_member_that_is_null_counts_as_not_given(jobs):
    """Whatever the answer is, its status is the same."""
    n = 0
    for (method, path), operation in OPERATIONS.items():
        if "requestBody" not in operation:
            continue
        whole = NEEDED.get(path, {})
        without = ask_wrongly(jobs, method, path, whole).status
        for name in nullable(body_schema(operation)):
            if name in whole:
                continue
            got = ask_wrongly(jobs, method, path, {**whole, name: None})
            assert got.status == without, (method, path, name, got.text)
            n += 1
    assert n > 50


def test_no_route_was_forgotten_here(jobs):
    """Runs last: each was asked above and answered well. A stream has no end to wait for."""
    assert set(OPERATIONS) - jobs.asked == {("GET", "/api/v1/events")}
