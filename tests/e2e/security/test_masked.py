# SPDX-License-Identifier: Apache-2.0
"""Masked values are masked everywhere: every field of every route, events, log."""

import json
import re

import pytest
import yaml

from harness.event_clients import Listener
from harness.example_systems import ago
from harness.http_daemon import TOKENS, serving, token_env, token_section
from harness.program import ROOT
from harness.waiting import eventually

# Longer than the six characters that a mask leaves; each stands in one place only.
OWNER = "anna-the-owner-4711"
MAIL = "anna@secret.example.org"
MEMBER = "member-of-a-payload-0815"
BROKEN = "inside-of-broken-json-0816"
QUEUED = "payload-of-the-queue-0817"
SECRETS = (OWNER, MAIL, MEMBER, BROKEN, QUEUED)

CREATE = {
    "postgres": "CREATE TABLE jobs (id bigint PRIMARY KEY, status text, updated_at timestamptz, "
                "owner text, mail text, note text, error text)",
    "sqlite": "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, updated_at TEXT, owner TEXT, "
              "mail TEXT, note TEXT, error TEXT)",
}
CONFIG = """\
databases: [{{name: main, url: '{url}'}}]
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    every: 1h
    owner: owner
    show: [mail, note]
    mask: [mail]
    requeue: status = 'queued', error = :reason
    fail: status = 'failed', error = :reason
    remedies: [{{when: "id = 1", do: requeue}}, {{do: hold}}]
    reason: "{{verdict}}: {{owner}} had it"
    stats: {{failed: status = 'failed'}}
http:
  mask: [token]
{tokens}"""
NOTES = {
    1: json.dumps({"a": [{"token": MEMBER}]}),
    2: '{"n": 1, "\\u0074oken": "%s"' % BROKEN,   # the parser rejects it, and no name is seen
    3: 'could not send: {"token": "%s"} was refused' % MEMBER,
    4: "Key (token)=(%s) already exists" % MEMBER,
}


def fill(db):
    db.sql(CREATE[db.engine])
    for key in range(1, 9):
        db.sql("INSERT INTO jobs VALUES (%s, %s, " + ago(db, 7200) + ", %s, %s, %s, %s)", key,
               "running" if key < 5 else "failed", OWNER, MAIL, NOTES[(key - 1) % 4 + 1],
               NOTES[(key - 1) % 4 + 1] + "")


@pytest.fixture
def masked(db, defib):
    fill(db)
    config = CONFIG.format(url=db.url, tokens=token_section())
    path = defib.dir / "masked.yaml"
    path.write_text(config)

    def run(*args):
        return defib(*args, config=path, env=token_env())

    assert run("init").code == 0
    for job in (5, 6):  # a person's words, with what is masked beside them
        ran = run("hold", f"jobs/{job}", "--reason", f"{MAIL} of {OWNER} asked", "--yes")
        assert ran.code == 0, ran.err
    assert run("scan", "--fix").code == 1
    assert run("fail", "jobs/7", "--reason", f"for {MAIL}", "--yes").code == 0
    run("enqueue", "mail", "send", json.dumps({"token": QUEUED}))
    run.path = path
    return run


def routes():
    document = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())
    return [path for path, item in document["paths"].items() if "get" in item]


def asked(path, worker, act):
    """A route with its parts filled in, for every job there is."""
    path = path.replace("/acts/{id}", f"/acts/{act}")
    for watch, keys in (("jobs", range(1, 9)), ("queue", (1,))):
        for key in keys if "{key}" in path else (1,):
            filled = path.replace("{watch}", watch).replace("{key}", str(key))
            yield re.sub(r"\{\w+\}", "mail", filled.replace("{id}", worker))


QUERIES = {
    "/api/v1/watches/{watch}/jobs": ["", "?where=held", "?where=stuck&judged=true", "?state=failed"],
    "/api/v1/ledger": ["", "?format=jsonl", "?format=csv"],
    "/api/v1/report": ["", "?format=text", "?format=markdown", "?format=html"],
}


def leaks(text):
    plain = text.replace("\\", "")
    return [secret for secret in SECRETS if secret in plain]


def test_a_viewer_sees_no_masked_value_in_any_field_of_any_route(masked, defib):
    """Also in sentences, reasons, evidence and JSON that cannot be read, including events."""
    with serving(defib.dir, masked.path.read_text(), env=token_env()) as web:
        eventually(web.ready)
        viewer, answered = web.by("viewer"), set()
        operator = web.by("operator")
        worker = str(operator.post("/api/v1/workers", {"name": OWNER}).json["worker"])
        act = operator.post("/api/v1/watches/jobs/acts", {
            "act": "hold", "where": [f"owner={OWNER}"], "background": True,
            "reason": f"{MAIL} of {OWNER} asked"}).json["id"]
        for path in routes():
            if path.endswith("/events"):
                continue  # it never ends: see below
            for address in asked(path, worker, act):
                for query in QUERIES.get(path, [""]):
                    got = viewer.get(address + query)
                    assert leaks(got.text) == [], (address + query, got.text)
                    if got.status == 200:
                        answered.add(path)
        # These are for operators and admins; everything else was really seen.
        assert set(routes()) - answered == {"/api/v1/events", "/api/v1/config", "/api/v1/doctor"}
        # What happens next, as the stream of events tells it, and the daemon's own log.
        host, port = web.host, web.port
        stream = Listener(f"http://{host}:{port}", token=TOKENS["viewer"]).up()
        assert masked("requeue", "jobs/8", "--reason", f"{OWNER} of {MAIL}", "--yes").code == 0
        entry, = stream.ledger(1)
        stream.close()
        assert entry.data["job"] == "8" and leaks(json.dumps(entry.data)) == []
        assert MAIL not in web.daemon.log
        # An operator sees what the watch does not mask.
        shown = web.by("operator").get("/api/v1/watches/jobs/jobs/1").text
        assert OWNER in shown and MAIL not in shown


@pytest.mark.covers("D9")
def test_no_command_shows_what_the_watch_masks(masked):
    for args in (("list",), ("list", "--json"), ("list", "--where", "held"), ("ledger",),
                 ("ledger", "--json"), ("report",), ("scan",), ("scan", "--json"),
                 *[(verb, f"jobs/{job}", *form) for verb in ("show", "explain")
                   for job in range(1, 8) for form in ((), ("--json",))]):
        ran = masked(*args)
        assert MAIL not in ran.out + ran.err, args
