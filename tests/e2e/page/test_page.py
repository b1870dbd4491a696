# SPDX-License-Identifier: Apache-2.0
"""The page's files as the daemon serves them, without a browser: complete, typed, tagged, and
loading nothing from elsewhere. test_browser.py tests what the page does.
"""

import datetime
import json
import pathlib
import re

import pytest

from harness.browser_data import MADE
from harness.databases import LiteDatabase
from harness.http_daemon import serving
from harness.job_table import config, make_jobs
from harness.program import ROOT
from harness.waiting import eventually
from harness.written_ledger import Ledger, hours

WEB = ROOT / "web"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FILES = sorted(p.relative_to(WEB).as_posix() for p in WEB.rglob("*") if p.suffix in TYPES)
SCRIPTS = [name for name in FILES if name.endswith(".js")]
VIEWS = re.findall(r'path: "([^"]+)", module: "(\w+)"', (WEB / "app.js").read_text())


def text(name):
    return (WEB / name).read_text()


def unversioned(page):
    return re.sub(r"/assets/v[0-9a-f]{16}/", "/assets/", page)


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    home = LiteDatabase(folder / "page.db")
    make_jobs(home)
    with serving(folder, config(home), tokens=True) as own:
        yield own
    home.drop()


# ---- files ----

@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_whole_with_its_type_to_everybody(web, name):
    got = web.by(None).get(f"/assets/{name}")
    assert (got.status, unversioned(got.text)) == (200, text(name))
    assert got.headers["Content-Type"] == TYPES[pathlib.Path(name).suffix]


@pytest.mark.parametrize("path", [path for path, _ in VIEWS])
def test_every_view_has_an_address_that_answers_with_the_page(web, path):
    concrete = path.replace("{watch}", "jobs").replace("{key}", "%5B%22a%2Fb%22%2C%22c%22%5D")
    got = web.by(None).get(f"{concrete}?x=1")
    assert (got.status, unversioned(got.text)) == (200, text("index.html"))
    assert got.headers["Content-Type"] == TYPES[".html"]


def test_what_is_shown_needs_a_token(web):
    assert web.by(None).get("/api/v1/status").status == 401


@pytest.mark.parametrize("path", ["/assets/nothing.js", "/assets/lib", "/assets/lib/nothing.js",
                                  "/assets/lib%2Fdom.js%2F", "/assets/lib/lib/dom.js",
                                  "/assets/../docs/openapi.yaml",
                                  "/assets/%2e%2e/docs/openapi.yaml", "/nothing", "/index.html",
                                  "/jobs/one", "/views/overview.js"])
def test_nothing_else_is_served(web, path):
    assert web.by(None).get(path).status in (400, 404)


def test_a_head_has_the_headers_and_no_body(web):
    got, head = web.get("/assets/app.js"), web.ask("HEAD", "/assets/app.js")
    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Type", "ETag", "Content-Length"):
        assert head.headers[name] == got.headers[name]


def test_the_page_takes_no_other_method(web):
    got = web.ask("POST", "/stuck")
    assert got.status == 405 and "GET" in got.headers["Allow"]


def test_who_has_a_file_already_is_sent_nothing(web):
    first = web.get("/assets/style.css")
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    for shown in (tag, f'W/{tag}', f'"other", {tag}'):
        again = web.get("/assets/style.css", headers={"If-None-Match": shown})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert web.get("/assets/style.css", headers={"If-None-Match": '"other"'}).status == 200
    assert web.get("/assets/app.js").headers["ETag"] != tag


def test_a_browser_keeps_the_files_that_the_page_names_and_asks_for_the_page_itself(web):
    page = web.get("/stuck")
    assert page.headers["Cache-Control"] == "no-cache"
    named = set(re.findall(r'"(/assets/[^"]+)"', page.text))
    folder, = {str(pathlib.PurePosixPath(address).parent) for address in named}
    for address in (*named, f"{folder}/lib/dom.js", f"{folder}/{MADE}"):
        got = web.get(address)
        assert (got.status, got.body) == (200, web.get(unversioned(address)).body)
        assert "immutable" in got.headers["Cache-Control"]
    assert web.get(f"{folder}/lib/nothing.js").status == 404


def test_a_page_of_another_version_gets_the_files_there_are_and_keeps_none(web):
    got = web.get("/assets/v0123456789abcdef/lib/dom.js")
    assert (got.status, got.text) == (200, text("lib/dom.js"))
    assert got.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/assets/favicon.svg"])
def test_the_policy_lets_nothing_in_from_elsewhere(web, path):
    policy = web.get(path).headers["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert set(rules.values()) == {"'none'", "'self'"}


# ---- what stands in them ----

def referred(name):
    """Files that a file of the page loads, as paths below web/."""
    if name.endswith(".html"):
        return [ref.removeprefix("/assets/") for ref in
                re.findall(r'<(?:link|script)[^>]*(?:href|src)="([^"]+)"', text(name))]
    folder = pathlib.PurePosixPath(name).parent
    found = re.findall(r'(?:from|import) "(\.[^"]+)"', text(name))
    return [(WEB / folder / ref).resolve().relative_to(WEB).as_posix() for ref in found]


@pytest.mark.parametrize("name", ["index.html", *SCRIPTS])
def test_a_file_refers_only_to_files_that_exist(name):
    assert set(referred(name)) <= {*FILES, MADE}


def test_every_view_has_its_module():
    assert {f"views/{module}.js" for _, module in VIEWS} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_names_no_address_elsewhere(name):
    plain = text(name).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]|@import|url\(", plain)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_html_or_code_of_a_text(name):
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|"
                         r"createContextualFragment|setHTML|\beval\(|new Function|"
                         r"style: |setAttribute\(\"style\"|javascript:", text(name))


def test_the_page_has_neither_inline_script_nor_inline_style():
    page = text("index.html")
    assert not re.search(r"\sstyle=|\son\w+=|<style", page)
    assert all("src=" in script for script in re.findall(r"<script[^>]*>", page))


# ---- the trend that it draws ----

@pytest.fixture
def ledger(db, defib):
    make_jobs(db)
    return Ledger(db, defib)


def trend(web, since):
    got = web.get(f"/api/v1/trend?since={since}")
    assert got.status == 200, got.text
    return got.json, {w["watch"]: w for w in got.json["watches"]}


def place(answer, at):
    """Which part of the period a moment lies in."""
    begins = datetime.datetime.fromisoformat(answer["from"])
    return int((at - begins).total_seconds() // answer["bucket_s"])


@pytest.mark.covers("A11")
def test_the_trend_counts_what_was_found_and_recovered_by_part(ledger, tmp_path):
    entries = [("REQUEUED", 0.0), ("FAILED", 0.0), ("HELD", 2), ("ZOMBIE_DETECTED", 2),
               ("REQUEUED", 20), ("REQUEUED", 50), ("REQUEUED", 150)]
    for event, ago in entries:
        ledger.add(event, hours(ago), silent=30)
    ledger.add("REQUEUED", hours(1), rule="chosen-by-hand", actor="web:anna")
    ledger.add("LATE_COMPLETION", hours(1))
    ledger.add("REQUEUED", hours(400))
    quiet = config(ledger.db).replace("state = 'running'", "state = 'nothing'")
    with serving(tmp_path, quiet) as web:
        eventually(web.ready)
        for since, parts in (("24h", 24), ("7d", 28)):
            answer, watches = trend(web, since)
            detected, recovered = [0] * parts, [0] * parts
            for event, ago in entries:
                at = place(answer, ledger.now - hours(ago))
                if 0 <= at < parts:
                    detected[at] += 1
                    recovered[at] += event in ("REQUEUED", "FAILED")
            # A person found it himself: recovered, and not detected.
            recovered[place(answer, ledger.now - hours(1))] += 1
            assert watches["jobs"]["detected"] == detected
            assert watches["jobs"]["recovered"] == recovered
            median = pytest.approx(30, abs=1) if since == "24h" else None
            assert watches["jobs"]["median_s"] == median
            assert sum(watches["queue"]["detected"]) == 0


def test_the_trend_of_another_period_is_refused(web):
    got = web.get("/api/v1/trend?since=8d")
    assert got.status == 400 and "24h or 7d" in got.detail


def test_the_page_calls_events_what_the_table_of_events_calls_them(web, defib):
    """The page has no list of its own."""
    module = web.get(f"/assets/{MADE}")
    assert module.headers["Content-Type"].startswith("text/javascript")
    events = module.text.split("};")[0].splitlines()
    names = [one.split(":")[0].strip() for one in events if one.startswith("\t")]
    listed = [json.loads(line) for line in defib("ledger", "--events", "--json").out.splitlines()]
    assert names == [one["event"] for one in listed]
    words = (ROOT / "web" / "lib" / "words.js").read_text()
    assert 'REQUEUED: "' not in words
