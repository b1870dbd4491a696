# SPDX-License-Identifier: Apache-2.0
"""The API against its own description: schemathesis draws calls from docs/openapi.yaml, valid and
invalid, and checks that each answer is one that the document allows. As every role, on both engines,
with jobs in every state. The database is the test's own, so acts and scans really happen.

schemathesis comes from PyPI, into a virtual environment below the build: without it the tests are
skipped.
"""

import json
import os
import re
import subprocess

import pytest

from harness.http_acts import acting
from harness.http_daemon import TOKENS
from harness.openapi import FILE, OPERATIONS
from harness.program import BIN, ROOT
from harness.proof_results import record

pytestmark = pytest.mark.proof

HERE = ROOT / "tests" / "schemathesis"
CALLERS = ("none", "viewer", "operator", "admin")
ROLE_TEXT = {"none": "without a token"} | {role: f"as {role}" for role in CALLERS[1:]}
# Drawn for each operation, besides those at the bounds of each value.
EXAMPLES = {"none": 5, "viewer": 20, "operator": 20, "admin": 20}
# Text has a grammar that a schema cannot say (terms, cursors, keys), so valid data may be refused.
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
          "unsupported_method", "allow_header_conformance", "role_decides")
TASKS = "CREATE TABLE tasks (id varchar(40) PRIMARY KEY, status text NOT NULL)"
MORE = """
  - name: tasks
    table: tasks
    key: id
    running: status = 'running'
    started_at: CURRENT_TIMESTAMP
    overdue_after: 1h
    requeue: status = 'queued'
    every: 1h
    work:
      ready: status = 'queued'
      claim: status = 'running'
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
workflows:
  - name: order
    saga: true
    steps:
      - {name: reserve, run: ["true"], undo: ["true"]}
      - {name: ship, run: ["true"]}
alerts:
  every: 1s
  sinks: [log]
"""


@pytest.fixture(scope="module")
def program():
    """`st` of the pinned version."""
    home = BIN.parent / "schemathesis"
    wanted = HERE / "requirements.txt"
    done = home / "requirements.txt"
    if not done.exists() or done.read_text() != wanted.read_text():
        for argv in (["/usr/bin/python3", "-m", "venv", "--clear", home],
                     [home / "bin" / "pip", "install", "--quiet", "-r", wanted]):
            ran = subprocess.run(argv, capture_output=True, text=True, check=False)
            if ran.returncode:
                pytest.skip(f"schemathesis cannot be installed from PyPI: {ran.stderr[-300:]}")
        done.write_text(wanted.read_text())
    return home / "bin" / "st"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def jobs(request, tmp_path_factory):
    with acting(request.param, request, tmp_path_factory, MORE, [TASKS]) as own:
        yield own


def fill(jobs):
    """Jobs in every state, and workers with jobs: what there is, by the names of parameters."""
    db, web = jobs.db, jobs.web.by("admin")
    keys = [jobs.add() for _ in range(30)]
    keys += [jobs.add(status) for status in ("up", "going", "noted", "beating", "failed") * 3]
    for n, act in enumerate(("hold", "fail", "requeue", "retry", "cancel", "rollback") * 2):
        assert jobs.act(keys[n], act, {"reason": "said"}).status == 200
    for n in range(10):
        db.sql("INSERT INTO tasks (id, status) VALUES (%s, 'queued')", f"{jobs.n}-{n}")
        db.sql("INSERT INTO pairs VALUES (%s, %s, 'running', '2020-01-01T00:00:00Z')",
               f"a/{jobs.n}", f'"b {n}"')
        for kind in ("order", "mail"):
            assert web.post("/api/v1/queues/q/jobs", {"kind": kind, "payload": {"n": n}}
                            ).status == 201
    secrets, claims = {}, {}
    for n in range(4):
        got = web.post("/api/v1/workers", {"name": f"w{n}", "lease": "1h"}).json
        secrets[got["worker"]] = got["secret"]
        for source in ({"queue": "q"}, {"watch": "tasks"}):
            claimed = web.post(f"/api/v1/workers/{got['worker']}/claim", {**source, "n": 3})
            assert claimed.status == 200, claimed.text
            claims.setdefault(got["worker"], []).extend(
                {"key": one["key"], "epoch": one["epoch"], **source}
                for one in claimed.json["jobs"])
        first = claimed.json["jobs"][0]
        assert web.post(f"/api/v1/workers/{got['worker']}/progress",
                        {"key": first["key"], "epoch": first["epoch"], "step": "half",
                         "watch": "tasks"}).status == 204
    scanned = web.post("/api/v1/watches/jobs/scan", {"fix": True, "limit": 5})
    assert scanned.status == 200, scanned.text
    ordered = web.post("/api/v1/watches/jobs/acts", {"act": "hold", "background": True,
                                                     "where": ["state=failed"]})
    assert ordered.status == 202, ordered.text
    entries = web.get("/api/v1/ledger?limit=200").json["entries"]
    watches = [w["watch"] for w in web.get("/api/v1/watches").json["watches"]]
    listed = [job for watch in watches
              for job in web.get(f"/api/v1/watches/{watch}/jobs?limit=100").json["jobs"]]
    return {"watch": watches,
            "job": [[job["watch"], json.dumps(job["key"]) if isinstance(job["key"], list)
                     else job["key"]] for job in listed],
            "jobs": [keys[:3], [str(key) for key in keys[-3:]], [keys[5], "999999"]],
            "where": [["stuck"], ["state=running"], ["age>1h", "state~r"]],
            "queue": ["q"], "database": ["main"], "sink": ["log"],
            "batch": sorted({one["batch"] for one in entries}),
            "event": sorted({one["event"] for one in entries}),
            "worker": list(secrets), "secret": list(secrets.values()),
            "claims": list(claims.values()),
            "background": [ordered.json["id"]]}


def run(program, jobs, caller, folder):
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
           "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "hooks", "PYTHONDONTWRITEBYTECODE": "1",
           "DEFIB_CALLER": caller, "DEFIB_KNOWN": json.dumps(fill(jobs))}
    token = TOKENS.get(caller)
    argv = [program, "--config-file", HERE / "schemathesis.toml", "run", FILE,
            "--url", f"http://{jobs.web.host}:{jobs.web.port}",
            *(["-H", f"Authorization: Bearer {token}"] if token else []),
            "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing",
            "--max-examples", EXAMPLES[caller], "--generation-deterministic",
            "--generation-with-security-parameters", "false",
            "--continue-on-failure", "--no-color",
            "--report", "json", "--report-dir", folder]
    return subprocess.run([*map(str, argv)], env=env, cwd=folder, capture_output=True, text=True,
                          check=False)


@pytest.mark.parametrize("caller", CALLERS)
def test_every_answer_is_one_that_the_description_allows(program, jobs, caller, tmp_path):
    ran = run(program, jobs, caller, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    tested, = re.findall(r"Tested: (\d+)", ran.stdout)
    calls, = re.findall(r"(\d+) generated", ran.stdout)
    assert int(tested) == len(OPERATIONS) - 1, ran.stdout  # a stream has no end to wait for
    record(f"every answer of the API is one that its description allows ({jobs.db.engine}, "
           f"{ROLE_TEXT[caller]})", "make proof P=api",
           f"0 of {int(calls):,} drawn calls to {tested} operations", int(calls))
