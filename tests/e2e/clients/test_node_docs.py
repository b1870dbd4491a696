# SPDX-License-Identifier: Apache-2.0
"""docs/node.md: every program of the page runs."""

import re
import signal

import pytest

from harness.node_programs import PACKAGE, NodePrograms
from harness.program import ROOT
from harness.waiting import eventually

PAGE = (ROOT / "docs" / "node.md").read_text()
FILES = dict(re.findall(r"```(?:yaml|js) (\S+)\n(.*?)```", PAGE, re.S))


@pytest.fixture
def page(pg, with_tables, defib, stranger_modules):
    nodes = NodePrograms(defib)
    nodes.env["DATABASE_URL"] = pg.url
    (nodes.dir / "node_modules").mkdir()
    (nodes.dir / "node_modules" / "defib").symlink_to(PACKAGE)
    (nodes.dir / "node_modules" / "pg").symlink_to(stranger_modules / "pg")
    for name, text in FILES.items():
        (nodes.dir / name).write_text(text)
    pg.sql("CREATE TABLE pages (id integer PRIMARY KEY, url text, status text, error text, "
           "updated_at timestamptz DEFAULT now())")
    pg.sql("INSERT INTO pages VALUES (1, 'one', 'Processing', NULL, now() - interval '2 hours'), "
           "(2, 'two', 'Queued', NULL, now()), (3, NULL, 'Queued', NULL, now())")
    pg.sql("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY)")
    pg.run = lambda name: nodes.run(nodes.dir / name)
    yield pg
    nodes.close()


def ended(program):
    assert program.wait() == 0, program.out + program.log
    return program.out


def reaches(page, program, *wanted):
    def reached():
        return [row[0] for row in page.sql("SELECT status FROM pages ORDER BY id")] == list(wanted)
    try:
        eventually(reached)
    except AssertionError:
        raise AssertionError(program.out + program.log) from None


def test_every_block_is_a_file_that_a_test_runs():
    assert set(FILES) == {"defib.yaml", "work.mjs", "server.mjs", "beat.mjs", "order.mjs",
                          "scan.mjs"}
    assert len(re.findall(r"```(?:yaml|js)\b", PAGE)) == len(FILES)


def test_work_and_server(page):
    program = page.run("work.mjs")
    reaches(page, program, "Complete", "Complete", "Failed")
    assert page.sql("SELECT error FROM pages WHERE id = 3") == [("it has no URL",)]
    program.signal(signal.SIGTERM)
    assert sorted(ended(program).splitlines()) == ["processed 1 one", "processed 2 two"]
    page.sql("UPDATE pages SET status = 'Queued'")
    program = page.run("server.mjs")
    reaches(page, program, "Complete", "Complete", "Complete")
    eventually(lambda: "daemon started" in program.log)
    program.signal(signal.SIGTERM)
    ended(program)


def test_beat_order_and_scan(page):
    said = ended(page.run("scan.mjs")).splitlines()
    assert said[0] == "[ '1 silent' ]"
    assert re.match(r"1 .*pages/1 .* 1$", said[1]), said
    assert page.sql("SELECT status, error FROM pages WHERE id = 1") == [("Failed", "not wanted")]
    page.sql("UPDATE pages SET status = 'Processing', updated_at = '2020-01-01' WHERE id = 1")
    ended(page.run("beat.mjs"))
    assert page.sql("SELECT updated_at > now() - interval '1 hour' FROM pages WHERE id = 1") == [
        (True,)]
    assert ended(page.run("order.mjs")).startswith("job ")
    assert page.sql("SELECT queue, kind FROM defib.job") == [("mail", "receipt")]
    assert page.sql("SELECT count(*) FROM orders") == [(1,)]
