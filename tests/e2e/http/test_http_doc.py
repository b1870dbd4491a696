# SPDX-License-Identifier: Apache-2.0
"""docs/http.md: every command that it shows is run, against the labs of OctoLab."""

import re
import uuid

import pytest

from harness.example_systems import Example
from harness.http_daemon import TOKENS, WebDaemon, token_env, token_section
from harness.program import ROOT, Program
from harness.shell_pages import commands, expected, type_all
from harness.waiting import eventually

DOC = ROOT / "docs" / "http.md"


@pytest.fixture
def labs(lite, defib):
    own = Example("octolab", lite, defib)
    assert defib("init", db=lite).code == 0
    for minutes in range(3):
        own.insert("labs", id=str(uuid.uuid4()), owner_id="7c9e6679-7425-40de-944b-e07fc1abc123",
                   status="running", updated_at=own.ago(minutes * 60))
    daemon = WebDaemon(Program(defib.dir), own.config.read_text() + "http:\n" + token_section(),
                       env={"DATABASE_URL": lite.url, **token_env()})
    web = daemon.web(TOKENS["admin"])
    eventually(web.ready)
    yield web
    assert daemon.stop() == 0
    daemon.kill()


def test_every_command_of_the_page_does_what_it_says(labs, tmp_path):
    lines = commands(DOC)
    assert len(lines) > 35
    env = {"PATH": "/usr/bin:/bin", "TOKEN": TOKENS["admin"],
           "DEFIB": f"http://{labs.daemon.address}"}
    for line, code, said in type_all(lines, tmp_path, env):
        assert code == expected(line), f"{line}\n{said}"
        told = re.search(r"# exit 22: (\d+)", line)
        assert not told or f'"status":{told[1]}' in said, f"{line}\n{said}"


def test_the_page_shows_only_routes_that_there_are(labs):
    routes = {r["path"] for r in labs.get("/api/v1/").json["routes"]}
    patterns = [re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$") for path in routes]
    for path in re.findall(r'"\$DEFIB(/[^"?]*)', "\n".join(commands(DOC))):
        path = re.sub(r"\$\(.*?\)|\$\w+", "x", path)
        assert any(p.match(path) for p in patterns), path
