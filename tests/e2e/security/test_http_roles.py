# SPDX-License-Identifier: Apache-2.0
"""Every verb of every route of docs/openapi.yaml, as every role; hostile values in every member
of every body and in every parameter. The document itself says what may be answered."""

import contextlib
import http.client
import itertools
import json
import re

import pytest

from harness.http_acts import acting
from harness.openapi import DOCUMENT, OPERATIONS, body_schema, resolved, validate
from harness.proof_results import record
from harness.waiting import eventually, patience

pytestmark = pytest.mark.sanitized
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW")
ROLES = ("none", "viewer", "operator", "admin")
CALLERS = {None: "none", "a-wrong-token-0123456789abcdef": "none", "viewer": "viewer",
           "operator": "operator", "admin": "admin"}
# Bodies with which an admin's call has its effect.
BODIES = {
    "/acts": {"act": "requeue", "jobs": ["1"]},
    "/undo": {"batch": "20260101-000000-00000000"},
    "/scan": {"fix": True},
    "/pause": {"for": "1h", "reason": "x"},
    "/raise": {"by": 2, "for": "1h"},
    "/override-guard": {"reason": "x"},
    "/alerts/test": {"sink": "log"},
    "/queues/{queue}/jobs": {"kind": "k", "payload": {"a": 1}},
    "/workers": {"name": "w", "lease": "1m"},
    "/claim": {"queue": "q", "n": 1},
    "/settle": {"results": [{"key": "1", "epoch": 1, "as": "done"}]},
    "/progress": {"key": "1", "epoch": 1, "step": "s"},
}
# What the daemon writes for itself, whoever asks.
COMMAND = "make test T=test_http_roles"
OWN_TABLES = ("status", "leader", "daemon", "learned", "trend", "runtime", "meta", "series",
              "digest")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def jobs(request, tmp_path_factory):
    with acting(request.param, request, tmp_path_factory) as own:
        eventually(own.web.ready)
        for _ in range(8):
            own.add()
        own.worker = own.web.by("admin").post("/api/v1/workers", {"name": "w", "lease": "1h"})
        own.web.by("admin").post("/api/v1/queues/q/jobs", {"kind": "k", "payload": {"a": 1}})
        yield own


def body_of(method, path):
    if method == "GET" or "requestBody" not in OPERATIONS.get((method, path), {}):
        return None
    found = [body for end, body in BODIES.items() if path.endswith(end)]
    body = found[0] if found and not path.endswith("/jobs/{key}/undo") else {}
    validate(body, body_schema(OPERATIONS[method, path]))
    return body


def concrete(jobs, path, key="1", watch="jobs"):
    parts = {"watch": watch, "key": key, "queue": "q", "id": jobs.worker.json["worker"]}
    return re.sub(r"\{(\w+)\}", lambda m: str(parts[m[1]]), path)


def ask(jobs, caller, method, address, body=None, source=None):
    """The status; of a stream only its head is read."""
    connection = http.client.HTTPConnection(jobs.web.host, jobs.web.port, timeout=patience(),
                                            source_address=source)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    web = jobs.web.by(caller)
    if web.token:
        headers["Authorization"] = f"Bearer {web.token}"
    with contextlib.closing(connection):
        try:
            connection.request(method, address, None if body is None else json.dumps(body), headers)
            got = connection.getresponse()
            text = b"" if address.endswith("/events") and got.status == 200 else got.read()
        except (http.client.HTTPException, ConnectionError) as why:
            return 0, str(why)
        return got.status, text.decode("utf-8", "replace")


def everything(db):
    """All rows that an outsider's call could have changed."""
    if db.engine == "postgres":
        names = [f'"{schema}"."{name}"' for schema, name in db.sql(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'defib') "
            "ORDER BY 1, 2")]
    else:
        names = [f'"{name}"' for name, in db.sql(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY 1")]
    kept = {}
    for name in names:
        bare = name.split(".")[-1].strip('"').removeprefix("defib_")
        if bare not in OWN_TABLES:
            kept[name] = sorted(map(str, db.sql(f"SELECT * FROM {name}")))
    assert len(kept) > 5
    return kept


def may(caller, operation):
    return ROLES.index(CALLERS[caller]) >= ROLES.index(operation["x-role"])


def expected(operation, status):
    responses = operation["responses"]
    return str(status) in responses or ("default" in responses and 400 <= status < 500)


def forbidden(jobs):
    """Whatever the document does not give to a caller: (caller, verb, path, allowed answers)."""
    for path in DOCUMENT["paths"]:
        for verb in VERBS:
            operation = OPERATIONS.get(("GET" if verb == "HEAD" else verb, path))
            for caller in CALLERS:
                if operation and not may(caller, operation):
                    yield caller, verb, path, (401, 429) if CALLERS[caller] == "none" else (403,)
                elif not operation:
                    yield caller, verb, path, (400, 401, 404, 405, 429)


def test_what_a_caller_may_not_is_refused_and_has_no_effect(jobs):
    before, n = everything(jobs.db), 0
    for caller, verb, path, allowed in forbidden(jobs):
        body = body_of(verb, path)
        status, text = ask(jobs, caller, verb, concrete(jobs, path), body,
                           source=("127.0.0.77", 0))
        n += 1
        if verb == "HEAD" and allowed == (403,):
            assert status == 403, (caller, verb, path, status)
            continue
        assert status in allowed, (caller, verb, path, status, text)
    assert everything(jobs.db) == before
    record(f"what a caller may not do over HTTP is refused and changes no row ({jobs.db.engine})",
           COMMAND, f"0 of {n} forbidden calls had an effect", n)


def test_what_a_caller_may_is_answered_as_documented(jobs):
    n = 0
    for (verb, path), operation in OPERATIONS.items():
        for caller in CALLERS:
            if not may(caller, operation) or caller == "a-wrong-token-0123456789abcdef":
                continue
            for also in (verb, "HEAD") if verb == "GET" and not path.endswith("/events") \
                    else (verb,):
                key = str(jobs.add()) if "{key}" in path and verb != "GET" else "1"
                status, text = ask(jobs, caller, also, concrete(jobs, path, key),
                                   body_of(verb, path))
                n += 1
                assert expected(operation, status), (caller, also, path, status, text)
    record(f"every documented call is answered as documented ({jobs.db.engine})", COMMAND,
           f"{n} calls, 0 undocumented answers", n)


# What a stranger writes where a text, a number or an object is wanted.
DEEP = None
for _ in range(900):
    DEEP = [DEEP]
VALUES = [None, True, 0, -1, 2 ** 31, 2 ** 63 - 1, -2 ** 63, 1e308, "", " ", "0", "\x7f", "\u0000",
          "\ud800", "'; DROP TABLE jobs; --", "../../etc/passwd", "%s%n%x", "9" * 400, "x" * 70000,
          "\u202e\u2066", "-1s", "1e9d", "9999999999999999999d", [], {}, [[]], [None], ["", ""],
          [{}], {"a": {}}, {"": ""}, {"\u0000": 1}, DEEP]


def members(schema):
    """Names of the members of an object, those of its alternatives too."""
    schema = resolved(schema)
    names = set(schema.get("properties", ()))
    for part in schema.get("oneOf", []) + schema.get("anyOf", []) + schema.get("allOf", []):
        names |= members(part)
    return names


def hostile_bodies(operation, whole):
    for name in sorted(members(body_schema(operation))):
        for value in VALUES:
            yield {**whole, name: value}
    for value in VALUES:
        yield value
        yield {**whole, "a member of ours": value}
    for name, inner in whole.items():
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            for part in inner[0]:
                for value in VALUES:
                    yield {**whole, name: [{**inner[0], part: value}]}


def parameters(path, operation):
    both = list(DOCUMENT["paths"][path].get("parameters", ())) + operation.get("parameters", [])
    return [one["name"] for one in map(resolved, both) if one["in"] == "query"]


TEXTS = ["", "%20", "0", "-1", "9223372036854775808", "%27%3B--", "%25s%25n", "%C3%A9",
         "%F0%9F%92%A9", "a" * 3000, "%5B%5D", "%7B%7D", "null", "1e9d", "99999999999d", "true",
         "..%2F..%2Fetc%2Fpasswd", "%E2%80%AE", "age%3E", "state%3D", "%3D%3D%3D", "id%20%3E%200"]
KEYS = TEXTS[1:] + ["%5B%22a%22%5D", "%5B1%2C2%2C3%5D", "%22", "0x1", "1.5", "1e3"]


def ask_on(connection, token, method, address, body=None):
    headers = {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, address, body, headers)
    got = connection.getresponse()
    return got.status, got.read()


def as_sent(body):
    try:
        return json.dumps(body).encode()
    except ValueError:
        return b"1e999"


def calls(jobs):
    for (verb, path), operation in OPERATIONS.items():
        if path.endswith("/events"):
            continue
        plain = concrete(jobs, path)
        if "requestBody" in operation:
            for body in hostile_bodies(operation, body_of(verb, path)):
                yield verb, path, plain, as_sent(body)
        for name in parameters(path, operation):
            for text in TEXTS:
                yield verb, path, f"{plain}?{name}={text}", None
        if "{key}" in path:
            for key in KEYS:
                for watch in ("jobs", "pairs", "queue"):
                    yield verb, path, concrete(jobs, path, key, watch), None
        for part in ("queue", "watch", "id"):
            if "{" + part + "}" in path:
                for text in KEYS:
                    yield verb, path, concrete(jobs, path.replace("{" + part + "}", text)), None


def ask_all(jobs, asked):
    """As admin, so that every call is really made: 4xx, or done; never 500, never a lost answer."""
    wrong, n = [], 0
    rows = jobs.db.sql("SELECT count(*) FROM jobs")[0][0]
    connection = jobs.web.connect()
    for verb, _, address, body in asked:
        n += 1
        try:
            status, text = ask_on(connection, jobs.web.token, verb, address, body)
        except (http.client.HTTPException, ConnectionError) as why:
            status, text = 0, str(why).encode()
            connection.close()
            connection = jobs.web.connect()
        if not 200 <= status < 500:
            wrong.append((verb, address[:120], (body or b"")[:120], status, text[:300]))
    connection.close()
    assert wrong == [], (len(wrong), wrong[:20])
    assert jobs.db.sql("SELECT count(*) FROM jobs")[0][0] == rows
    record(f"no hostile value of a stranger is an internal error of the API ({jobs.db.engine})",
           COMMAND, f"0 of {n} calls answered 5xx", n)


def test_no_hostile_value_is_an_error_of_ours(jobs):
    """Through a server, which takes longer, with one in five of them; the rest is proof."""
    ask_all(jobs, itertools.islice(calls(jobs), 0, None, 1 if jobs.db.engine == "sqlite" else 5))


@pytest.mark.proof
def test_none_of_all_hostile_values_is_an_error_of_ours(jobs):
    ask_all(jobs, calls(jobs))
