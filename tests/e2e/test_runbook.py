"""docs/runbook.md on ScraperSky (A): every command that it tells a person to type is typed."""

import pathlib
import re

import pytest

from example_systems import Example

RUNBOOK = pathlib.Path(__file__).resolve().parents[2] / "docs" / "runbook.md"
MARK = "@@ended"
FILL = {
    "postgres": "INSERT INTO pages (url, page_processing_status, updated_at) SELECT "
                "'https://example.org/' || i, 'Processing', now() - interval '2 hours' "
                "FROM generate_series(1, 5000) i",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
              "INSERT INTO pages (url, page_processing_status, updated_at) SELECT "
              "'https://example.org/' || i, 'Processing', datetime('now', '-2 hours') FROM n",
}


def commands():
    """The lines of its shell blocks; a comment may name the exit code that is expected."""
    blocks = re.findall(r"```sh\n(.*?)```", RUNBOOK.read_text(), re.S)
    return [line for block in blocks for line in block.splitlines()]


def expected(command):
    said = re.search(r"# exit (\d)", command)
    return int(said[1]) if said else 0


@pytest.fixture
def sky(db, defib):
    own = Example("scrapersky", db, defib)
    db.sql(FILL[db.engine])
    own.insert("pages", url="https://example.org/alive", page_processing_status="Processing")
    return own


def type_all(sky, lines):
    """All of it in one shell, as a person would; (command, exit code, output) of each."""
    (sky.defib.dir / "bin").mkdir()
    (sky.defib.dir / "bin" / "defib").symlink_to(sky.defib.bin)
    script = "exec 2>&1\n" + "".join(f"{line}\necho {MARK} $?\n" for line in lines)
    env = {"DATABASE_URL": sky.db.url, "DEFIB_CONFIG": str(sky.config),
           "PATH": f"{sky.defib.dir}/bin:/usr/bin:/bin"}
    shell = sky.defib
    shell.bin = "/bin/sh"
    ran = shell("-c", script, env=env, timeout=100)
    parts = re.split(rf"{MARK} (\d+)\n", ran.out)[:-1]
    assert len(parts) == 2 * len(lines), ran.out
    return [(lines[i], int(parts[2 * i + 1]), parts[2 * i]) for i in range(len(lines))]


@pytest.mark.covers("A12")
def test_every_command_of_the_runbook_does_what_it_says(sky):
    for command, code, said in type_all(sky, commands()):
        assert code == expected(command), f"{command}\n{said}"
        assert "Nothing was changed" in said or "--dry-run" not in command, said
    states = dict(sky.db.sql("SELECT page_processing_status, count(*) FROM pages GROUP BY 1"))
    assert states == {"Queued": 5000, "Processing": 1}


@pytest.mark.covers("A12")
def test_the_runbook_s_undo_puts_back_what_its_trial_gave_back(sky):
    lines = commands()
    undo = next(i for i, line in enumerate(lines) if line.startswith("defib undo")
                and "--dry-run" not in line)
    said = type_all(sky, lines[:undo + 1])[-1][2]
    assert "main/pages: 10 put back" in said
    assert sky.db.sql("SELECT count(*) FROM pages WHERE page_processing_status = 'Processing'") \
        == [(5001,)]


def test_the_runbook_is_about_messages_that_defib_says():
    """A message in its table that no source has any more misleads at the worst time."""
    said = "".join(p.read_text() for p in (RUNBOOK.parents[1] / "src").rglob("*.c"))
    said = re.sub(r'"\s*\n\s*"', "", said)
    for text in re.findall(r"^\| `([^`…]+)", RUNBOOK.read_text(), re.M):
        for part in text.split(": "):
            assert part.strip() in said, text
