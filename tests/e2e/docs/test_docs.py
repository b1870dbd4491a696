# SPDX-License-Identifier: Apache-2.0
"""The documentation as a whole: README, tutorials and how-to pages are typed; `make docs` builds.

Pages with `sh` blocks that are typed elsewhere are named in TYPED with the file that does it.
"""

import contextlib
import html.parser
import json
import re
import sqlite3
import subprocess

import pytest

from harness.program import ROOT
from harness.shell_pages import commands, environment, expected, type_all

DOCS = ROOT / "docs"
INSTALL = ("git clone", "make")

# These pages begin in an empty directory with their own database.
WHOLE = ("README.md", "docs/modes.md", "docs/acts.md", "docs/guides/queue.md")
# These are typed in a directory that has a configuration and a database already.
INSTALLED = ("docs/security.md", "docs/upgrade.md")
# Which other test reads the page, and types, compiles or compares its blocks.
TYPED = {
    "docs/detection.md": "test_detection", "docs/http.md": "test_http_doc",
    "docs/jobs.md": "test_work_program", "docs/library.md": "test_library",
    "docs/lines.md": "test_work_lines", "docs/node.md": "test_node_docs",
    "docs/python.md": "test_python_docs", "docs/runbook.md": "test_runbook",
    "docs/workflows.md": "test_workflow", "docs/guides/attach.md": "test_guides",
    "docs/guides/from-cron-to-daemon.md": "test_guides", "docs/guides/zombies.md": "test_guides",
}
# These are typed below, on a table of their own.
HERE = ("docs/daemon.md", "docs/thresholds.md", "docs/rights.md")
FOR_DEVELOPERS = ("CONTRIBUTING.md", "docs/internals")
JOBS = """
databases:
  - {name: main, url: "sqlite:jobs.db"}
watches:
  - name: NAME
    table: jobs
    key: id
    kind: kind
    running: state = 'running'
    alive_at: beat
    stuck_after: 30m
    requeue: state = 'queued', beat = :now
    stats: {started_at: started_at, finished_at: finished_at}
"""


def typed(page, defib, *begin):
    """(command, output) of each, after those that prepare it."""
    lines = [*begin, *commands(ROOT / page, "sqlite")]
    lines = [line for line in lines if not line.startswith(INSTALL)]
    for command, code, said in type_all(lines, defib.dir, environment(defib.dir, defib.bin)):
        assert code == expected(command), f"{command}\n{said}"
        yield command, said


@pytest.mark.parametrize("page", WHOLE)
def test_every_command_of_the_page_does_what_it_says(page, defib):
    assert list(typed(page, defib))


@pytest.mark.parametrize("page", INSTALLED)
def test_every_command_of_the_page_works_in_an_installation(page, defib):
    list(typed("README.md", defib))
    (defib.dir / "bin" / "defib").unlink()
    (defib.dir / "bin" / "defib").write_text(
        f"#!/bin/sh\nDEFIB_DB=sqlite:shop.db exec {defib.bin} \"$@\"\n")
    (defib.dir / "bin" / "defib").chmod(0o755)
    assert list(typed(page, defib))


def jobs(defib, name):
    """A database with finished jobs and a stuck one, and the watch that a page names."""
    (defib.dir / "defib.yaml").write_text(JOBS.replace("NAME", name))
    with contextlib.closing(sqlite3.connect(defib.dir / "jobs.db")) as db:
        db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, kind TEXT, beat TEXT, "
                   "started_at TEXT, finished_at TEXT)")
        db.executemany("INSERT INTO jobs VALUES (?, 'done', 'crawl', datetime('now'), "
                       "datetime('now', '-10 minutes'), datetime('now', ?))",
                       [(n, f"-{n} seconds") for n in range(1, 200)])
        db.execute("INSERT INTO jobs VALUES (200, 'running', 'crawl', datetime('now', '-1 hour'), "
                   "datetime('now', '-1 hour'), NULL)")
        db.commit()


def test_every_command_of_the_daemon_s_page_works(defib):
    jobs(defib, "pages")
    assert defib("scan", "--fix").code == 0
    begin = ["defib daemon pages --no-queue 2> daemon.log &",
             "until defib status > status.log; do sleep 0.1; done"]
    assert list(typed("docs/daemon.md", defib, *begin))


def test_every_command_of_the_page_about_thresholds_works(defib):
    jobs(defib, "jobs")
    assert defib("scan", "--fix").code == 0
    said = dict(typed("docs/thresholds.md", defib))
    assert "crawl" in said["defib tune learn"]


def test_every_command_of_the_page_about_rights_works(pg, defib):
    pg.sql("CREATE TABLE pages (id bigint PRIMARY KEY, status text, updated_at timestamptz)")
    (defib.dir / "defib.yaml").write_text(
        f"databases:\n  - {{name: main, url: \"{pg.url}\"}}\nwatches:\n  - name: pages\n"
        "    table: pages\n    key: id\n    running: status = 'running'\n"
        "    alive_at: updated_at\n    stuck_after: 1h\n    requeue: status = 'queued'\n")
    assert list(typed("docs/rights.md", defib, f"export DBA_URL='{pg.url}'"))


def test_a_newcomer_recovers_a_row_of_an_own_table_by_the_readme_alone(defib):
    """bench/newcomer, with the program that is built already; it prints the time of each step."""
    ran = subprocess.run([ROOT / "bench" / "newcomer", "--built", defib.bin], text=True,
                         capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^first recovered row after [\d.]+ s", ran.stdout, re.M)


def test_no_page_is_left_untyped():
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        name = str(page.relative_to(ROOT))
        if not re.search(r"^```sh", page.read_text(), re.M) or name.startswith(FOR_DEVELOPERS):
            continue
        if name in TYPED:
            reader, = (ROOT / "tests").rglob(f"{TYPED[name]}.py")
            assert re.search(rf"\b{page.stem}\b", reader.read_text()), f"{reader} does not read {name}"
        else:
            assert name in (*WHOLE, *INSTALLED, *HERE), f"{name} has commands that nobody types"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def test_the_glossary_has_at_most_25_words():
    rows = re.findall(r"^\| (?!word|---)", (DOCS / "glossary.md").read_text(), re.M)
    assert 10 <= len(rows) <= 25


def test_tooltips_of_the_page_are_the_glossary():
    rows = re.findall(r"^\| (?!word|---)([a-z ]+) \| (.*) \|$", (DOCS / "glossary.md").read_text(), re.M)
    page = (ROOT / "web" / "lib" / "words.js").read_text()
    block = re.search(r"const GLOSSARY = \{\n(.*?)\n\};", page, re.S)[1]
    shown = re.findall(r"^\t\"?([a-z ]+)\"?: (\".*\"),$", block, re.M)
    assert {word: json.loads(text) for word, text in shown} == {
        word: re.sub(r"[`*]", "", text) for word, text in rows}


def test_the_figures_of_the_readme_are_those_that_were_measured():
    ran = subprocess.run([ROOT / "scripts" / "figures.py"], capture_output=True, text=True,
                         check=False)
    assert ran.returncode == 0, ran.stderr


# ---- make docs

class Page(html.parser.HTMLParser):
    """The ids of a page, and where its links lead."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.files = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            assert attrs["id"] not in self.ids, f"twice: {attrs['id']}"
            self.ids.add(attrs["id"])
        if tag == "a":
            self.links.append(attrs.get("href", ""))
        self.files += [attrs[name] for name in ("src",) if name in attrs]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    ran = subprocess.run([ROOT / "scripts" / "docs", folder], capture_output=True, text=True,
                         check=False)
    assert ran.returncode == 0, ran.stderr
    return {path.name: Page(path.read_text()) for path in folder.glob("*.html")}, folder


def test_every_page_is_built(site):
    pages, _ = site
    assert len(pages) == len([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def test_every_link_and_anchor_of_the_site_leads_somewhere(site):
    pages, folder = site
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"https?:|mailto:", link):
                continue
            file, _, anchor = link.partition("#")
            target = pages.get(file or name)
            assert target or (folder / file).exists(), f"{name}: {link}"
            assert not anchor or anchor in target.ids, f"{name}: {link}"
        for file in page.files:
            assert (folder / file).exists(), f"{name}: {file}"


def test_the_search_knows_every_section(site):
    pages, folder = site
    index = (folder / "search.js").read_text()
    for name, page in pages.items():
        for anchor in page.ids - {"search", "found", "content"}:
            assert f'"{name}#{anchor}"' in index, f"{name}#{anchor}"


def test_the_page_still_has_the_headings_of_the_screenshots():
    """`make pictures` takes them anew."""
    web = "".join(path.read_text() for path in (ROOT / "web").rglob("*.js"))
    shown = json.loads((DOCS / "pictures" / "shown.json").read_text())
    assert set(shown) == {"overview.png", "job.png"}
    for words in shown.values():
        assert words["navigation"] and words["headings"]
        for word in words["navigation"] + words["headings"]:
            assert f'"{word}' in web, word


def test_the_pictures_of_the_readme_are_small():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "pictures").iterdir()}
    assert sum(sizes.values()) < 300_000, sizes
