# SPDX-License-Identifier: Apache-2.0
"""docs/runbook.md on ScraperSky (A): every command in it is typed."""

import re

import pytest

from harness.example_systems import Example
from harness.program import ROOT
from harness.shell_pages import commands, environment, expected, type_all

RUNBOOK = ROOT / "docs" / "runbook.md"
FILL = {
    "postgres": "INSERT INTO pages (url, page_processing_status, updated_at) SELECT "
                "'https://example.org/' || i, 'Processing', now() - interval '2 hours' "
                "FROM generate_series(1, 5000) i",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
              "INSERT INTO pages (url, page_processing_status, updated_at) SELECT "
              "'https://example.org/' || i, 'Processing', datetime('now', '-2 hours') FROM n",
}


@pytest.fixture
def sky(db, defib):
    own = Example("scrapersky", db, defib)
    db.sql(FILL[db.engine])
    own.insert("pages", url="https://example.org/alive", page_processing_status="Processing")
    return own


def typed(sky, lines):
    env = {**environment(sky.defib.dir, sky.defib.bin), "DATABASE_URL": sky.db.url,
           "DEFIB_CONFIG": str(sky.config)}
    return type_all(lines, sky.defib.dir, env)


@pytest.mark.covers("A12")
def test_every_command_of_the_runbook_does_what_it_says(sky):
    for command, code, said in typed(sky, commands(RUNBOOK)):
        assert code == expected(command), f"{command}\n{said}"
        assert "Nothing was changed" in said or "--dry-run" not in command, said
    states = dict(sky.db.sql("SELECT page_processing_status, count(*) FROM pages GROUP BY 1"))
    assert states == {"Queued": 5000, "Processing": 1}


@pytest.mark.covers("A12")
def test_the_runbook_s_undo_puts_back_what_its_trial_gave_back(sky):
    lines = commands(RUNBOOK)
    undo = next(i for i, line in enumerate(lines) if line.startswith("defib undo")
                and "--dry-run" not in line)
    said = typed(sky, lines[:undo + 1])[-1][2]
    assert "main/pages: 10 reverted" in said
    assert sky.db.sql("SELECT count(*) FROM pages WHERE page_processing_status = 'Processing'") \
        == [(5001,)]


def test_the_runbook_is_about_messages_that_defib_says():
    """A message in its table that no source has any more misleads at the worst time."""
    said = "".join(p.read_text() for p in (RUNBOOK.parents[1] / "src").rglob("*.c"))
    said = re.sub(r'"\s*\n\s*"', "", said)
    for text in re.findall(r"^\| `([^`…]+)", RUNBOOK.read_text(), re.M):
        for part in text.split(": "):
            assert part.strip() in said, text
