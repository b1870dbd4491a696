# SPDX-License-Identifier: Apache-2.0
"""docs/guides: every command of a guide is typed, on both engines.

attach.md is followed exactly for two systems that defib does not know: the guide's own example, and
a harbour with a key of two columns, a deadline in milliseconds and a requeue that moves rows
between tables.
"""

import pathlib
import re
import time

import pytest

from harness.example_systems import Example, ledger
from harness.program import ROOT
from harness.shell_pages import commands, environment, expected, type_all

DOCS = ROOT / "docs"
GUIDES = DOCS / "guides"


def follow(lines, defib, **env):
    """Type them in the test's folder; each ends as its comment says."""
    said = {}
    env = {**environment(defib.dir, defib.bin), **env}
    for command, code, text in type_all(lines, defib.dir, env):
        assert code == expected(command), f"{command}\n{text}"
        said[command.split("#")[0].strip()] = text
    return said


def write_files(guide, folder):
    """Blocks such as ```yaml harbour.yaml are files."""
    for name, text in re.findall(r"```yaml (\S+)\n(.*?)```", guide.read_text(), re.S):
        (folder / name).write_text(text)


def test_attach_in_five_minutes(db, defib):
    lines = [line for line in commands(GUIDES / "attach.md", db.engine)
             if "harbour" not in line]
    said = follow(lines, defib, DEFIB_DB=db.url)
    assert "looks like a queue: parcels: 2 running, 1 stuck" in said["defib init --detect"]
    assert db.sql("SELECT id, status FROM parcels ORDER BY id") == [
        (1, "queued"), (2, "processing"), (3, "queued")]


def test_what_the_guide_shows_is_what_init_says(db, defib):
    """The lines of the guide's listing, in their order."""
    text = (GUIDES / "attach.md").read_text()
    shown = re.search(r"```\n  - name: parcels\n(.*?)```", text, re.S)[1].split("\n")
    follow([line for line in commands(GUIDES / "attach.md", db.engine)
            if line.startswith(("psql", "sqlite3", "defib init --table"))], defib, DEFIB_DB=db.url)
    got = " ".join((defib.dir / "defib.yaml").read_text().split())
    for line in shown:
        assert " ".join(line.split()) in got.replace("CHECK # are", "CHECK are"), line


@pytest.fixture
def harbour(db):
    """The fictitious system: two cranes that live, three tickets whose crane is gone."""
    db.sql("CREATE TABLE harbour_running (port TEXT, ticket INTEGER, crane TEXT, "
           "expires_at BIGINT NOT NULL, PRIMARY KEY (port, ticket));"
           "CREATE TABLE harbour_waiting (port TEXT, ticket INTEGER, since BIGINT NOT NULL, "
           "PRIMARY KEY (port, ticket))")
    now_ms = int(time.time() * 1000)
    for port, ticket, crane, ms in (("north", 1, "c1", -3600_000), ("north", 2, "c2", 3600_000),
                                    ("south", 1, "c1", -120_000), ("south", 2, "c3", 3600_000),
                                    ("south", 3, "c1", -120_000)):
        db.sql("INSERT INTO harbour_running VALUES (%s, %s, %s, %s)", port, ticket, crane,
               now_ms + ms)
    return db


@pytest.mark.covers("F1")
def test_a_system_that_nobody_knows_is_attached_by_the_guide_alone(harbour, defib):
    guide = GUIDES / "attach.md"
    write_files(guide, defib.dir)
    lines = commands(guide, "harbour")
    began_ms = int(time.time() * 1000)
    follow([line for line in lines if "harbour.yaml" in line], defib, DEFIB_DB=harbour.url)
    assert harbour.sql("SELECT port, ticket FROM harbour_waiting ORDER BY 1, 2") == [
        ("north", 1), ("south", 1), ("south", 3)]
    assert harbour.sql("SELECT port, ticket, crane FROM harbour_running ORDER BY 1, 2") == [
        ("north", 2, "c2"), ("south", 2, "c3")]
    since, = harbour.sql("SELECT min(since) FROM harbour_waiting")[0]
    assert since > began_ms - 60_000, "the moment of the recovery, in milliseconds"
    assert [job for job, in harbour.sql(f"SELECT job FROM {ledger(harbour)} "
                                        "WHERE event = 'REQUEUED' ORDER BY job")] == [
        '["north","1"]', '["south","1"]', '["south","3"]']


@pytest.fixture
def sky(db, defib):
    own = Example("scrapersky", db, defib)
    for i in range(3):
        own.insert("pages", url=f"https://example.org/{i}", page_processing_status="Processing",
                   updated_at=own.ago(7200))
    own.insert("pages", url="https://example.org/alive", page_processing_status="Processing")
    return own


@pytest.mark.parametrize("guide", ["from-cron-to-daemon", "zombies"])
def test_every_command_of_the_other_guides_does_what_it_says(guide, sky):
    follow(commands(GUIDES / f"{guide}.md"), sky.defib, DATABASE_URL=sky.db.url,
           DEFIB_CONFIG=str(sky.config))
    alive = sky.db.sql("SELECT page_processing_status FROM pages WHERE url LIKE '%alive'")
    assert alive == [("Processing",)]


def test_no_guide_is_left_untyped():
    typed = pathlib.Path(__file__).read_text()
    for guide in GUIDES.glob("*.md"):
        assert guide.stem in typed, guide


def anchors(page):
    """The anchors of its headings, as a repository's host makes them."""
    lines = re.sub(r"```.*?```", "", page.read_text(), flags=re.S).splitlines()
    titles = [line.lstrip("#").strip().lower() for line in lines if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def test_the_index_names_every_page():
    index = (DOCS / "README.md").read_text()
    for page in [*DOCS.glob("*.md"), *DOCS.glob("guides/*.md")]:
        place = str(page.relative_to(DOCS))
        assert place == "README.md" or f"({place})" in index, place


def test_every_link_leads_somewhere():
    for page in [*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")]:
        for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {path}"
            assert not anchor or anchor in anchors(target), f"{page}: {path}#{anchor}"
