# SPDX-License-Identifier: Apache-2.0
"""Masked values are masked everywhere: every field of every route, events, log."""

import json
import re
import urllib.parse

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
CARD = "column-of-the-api-mask-0818"
SECRETS = (OWNER, MAIL, MEMBER, BROKEN, QUEUED, CARD)

CREATE = {
    "postgres": "CREATE TABLE jobs (id bigint PRIMARY KEY, status text, updated_at timestamptz, "
                "owner text, mail text, note text, error text, card text, words text)",
    "sqlite": "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, updated_at TEXT, owner TEXT, "
              "mail TEXT, note TEXT, error TEXT, card TEXT, words TEXT)",
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
    show: [mail, note, words]
    mask: [mail]
    requeue: status = 'queued', error = :reason
    fail: status = 'failed', error = :reason
    remedies: [{{when: "id IN (1, 9)", do: requeue}}, {{do: hold}}]
    reason: "{{verdict}}: {{owner}} had it"
    stats: {{failed: status = 'failed'}}
http:
  mask: [token, card]
{tokens}"""
NOTES = {
    1: json.dumps({"a": [{"token": MEMBER}]}),
    2: '{"n": 1, "\\u0074oken": "%s"' % BROKEN,   # the parser rejects it, and no name is seen
    3: 'could not send: {"token": "%s"} was refused' % MEMBER,
    4: "Key (token)=(%s) already exists" % MEMBER,
}
# Values of masked columns in the words of another: by their value alone, there is no name.
WORDS = f"{MAIL} wrote that {OWNER} had lost {CARD}"


def fill(db):
    db.sql(CREATE[db.engine])
    for key in range(1, 10):
        db.sql("INSERT INTO jobs VALUES (%s, %s, " + ago(db, 7200) + ", %s, %s, %s, %s, %s, %s)", key,
               "running" if key < 5 else "failed", OWNER, MAIL, NOTES[(key - 1) % 4 + 1],
               NOTES[key] if key in NOTES else WORDS, CARD, WORDS)


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
    # By itself, so that all of its batch has one act: PostgreSQL then does it in one statement.
    db.sql("UPDATE jobs SET status = 'running' WHERE id = 9")
    assert "requeue" in run("scan", "--fix").out
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
    for watch, keys in (("jobs", range(1, 10)), ("queue", (1,))):
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


# What finds a masked value, or sorts by it: "words" itself is not masked, but repeats some.
SEARCHES = ["words~anna", "words~nobody", f"words={WORDS}", "words!=x", "note~token", "mail~anna",
            f"owner={OWNER}", "text~anna"]


def test_a_viewer_cannot_find_a_masked_value_by_searching(masked, defib):
    """The answer is the same whether a row has the value or not."""
    with serving(defib.dir, masked.path.read_text(), env=token_env()) as web:
        eventually(web.ready)
        jobs = "/api/v1/watches/jobs/jobs?count=true&"
        viewer = web.by("viewer")
        for term in SEARCHES:
            got = viewer.get(jobs + urllib.parse.urlencode({"where": term}))
            assert got.status == 403 and leaks(got.detail.replace(term, "")) == [], (term, got.text)
        for text in ("anna", "member-of", "column-of-the-api", "no such text"):
            got = viewer.get(jobs + urllib.parse.urlencode({"any": text})).json
            assert got["jobs"] == [] and got["count"] == 0 and not got["more"], (text, got)
        assert web.by("operator").get(jobs + "where=words~anna").json["count"] > 0


def test_an_error_of_the_database_does_not_quote_a_masked_value(pg, defib):
    """PostgreSQL's errors quote the value that they do not accept."""
    fill(pg)
    config = CONFIG.format(url=pg.url, tokens=token_section()).replace(
        "id IN (1, 9)", "words::int = 1").replace("every: 1h", "every: 1s")
    path = defib.dir / "cast.yaml"
    path.write_text(config)
    assert defib("init", config=path, env=token_env()).code == 0
    ran = defib("scan", config=path, env=token_env())
    assert "invalid input syntax" in ran.out + ran.err and leaks(ran.out + ran.err) == []
    with serving(defib.dir, config, env=token_env()) as web:
        eventually(web.ready)
        viewer = web.by("viewer")
        eventually(lambda: "scan failed" in web.daemon.log)
        for address in ("/status", "/watches/jobs", "/watches/jobs/jobs/1", "/watches/jobs/jobs"):
            got = viewer.get("/api/v1" + address)
            assert leaks(got.text) == [], (address, got.text)
        assert leaks(web.daemon.log) == []


@pytest.mark.parametrize("mask, because", [
    ("key", "id"), ("kind", "kind: mail"), ("kind", "kind: note::json->>'mail'"),
    ("state", "state: upper(mail)"), ("attempts", "attempts: length(mail)")])
def test_a_mask_that_cannot_be_kept_is_refused(defib, mask, because):
    """Lists, addresses, metrics and cursors are made of these."""
    config = CONFIG.format(url="sqlite:jobs.db", tokens="")
    config = (config.replace("mask: [mail]", f"mask: [{because}]") if mask == "key" else
              config.replace("    mask:", f"    {because}\n    mask:"))
    ran = defib("config", "check", config=config)
    assert ran.code == 3 and f"mask names a column that {mask} is made of" in ran.err, ran.err
    config = config.replace("mask: [id]", "mask: [mail]").replace("mask: [mail]", "mask: [note]", 1)
    config = config.replace("mask: [token, card]", "mask: [id]" if mask == "key" else "mask: [mail]")
    ran = defib("config", "check", config=config)
    assert ran.code == 3 and f"http.mask names a column that {mask}" in ran.err, ran.err


@pytest.mark.covers("D9")
def test_no_command_shows_what_the_watch_masks(masked):
    for args in (("list",), ("list", "--json"), ("list", "--where", "held"), ("ledger",),
                 ("ledger", "--json"), ("report",), ("scan",), ("scan", "--json"),
                 *[(verb, f"jobs/{job}", *form) for verb in ("show", "explain")
                   for job in range(1, 8) for form in ((), ("--json",))]):
        ran = masked(*args)
        assert MAIL not in ran.out + ran.err, args
