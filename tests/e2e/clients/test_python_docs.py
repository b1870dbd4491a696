# SPDX-License-Identifier: Apache-2.0
"""docs/python.md: every program of the page runs."""

import re

import pytest

from harness.pgserver import free_port
from harness.program import ROOT
from harness.python_package import package, script  # noqa: F401
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain
PAGE = (ROOT / "docs" / "python.md").read_text()
FILES = dict(re.findall(r"```(?:yaml|python) (\S+)\n(.*?)```", PAGE, re.S))


@pytest.fixture
def page(pg, with_tables, script):
    (script.folder / "defib.yaml").write_text(FILES["defib.yaml"])
    pg.sql("CREATE TABLE pages (id integer PRIMARY KEY, url text, status text, error text, "
           "updated_at timestamptz DEFAULT now())")
    pg.sql("INSERT INTO pages VALUES (1, 'one', 'Processing', NULL, now() - interval '2 hours'), "
           "(2, 'two', 'Queued', NULL, now())")
    pg.sql("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY)")
    pg.run = lambda name: script(FILES[name], DATABASE_URL=pg.url)
    return pg


def statuses(db):
    return db.sql("SELECT id, status FROM pages ORDER BY id")


def ended(program):
    assert program.process.wait(patience()) == 0, program.log
    return program.log


def test_every_block_is_a_file_that_a_test_runs():
    assert set(FILES) == {"defib.yaml", "work.py", "server.py", "loop.py", "beat.py", "order.py",
                          "scan.py", "monitor.py"}
    assert len(re.findall(r"```(?:yaml|python)\b", PAGE)) == len(FILES)


def test_work(page):
    program = page.run("work.py")
    eventually(lambda: statuses(page) == [(1, "Complete"), (2, "Complete")])
    assert program.stop() == 0, program.log
    assert sorted(line for line in program.log.splitlines() if line.startswith("processed")) == [
        "processed 1 one", "processed 2 two"]


def test_server(page, script):
    (script.folder / "server.py").write_text(FILES["server.py"])
    program = script.module("uvicorn", "server:app", "--port", free_port(), folder=script.folder,
                            DATABASE_URL=page.url)
    eventually(lambda: statuses(page) == [(1, "Complete"), (2, "Complete")])
    assert program.stop() == 0, program.log


def test_loop(page):
    said = ended(page.run("loop.py"))
    assert "cleaned up 1" in said
    assert statuses(page) == [(1, "Complete"), (2, "Complete")]


def test_monitor(page, script):
    text = FILES["monitor.py"].replace("7433", str(free_port()))
    assert ended(script(text, DATABASE_URL=page.url)) == "200\n"


def test_beat(page):
    ended(page.run("beat.py"))
    assert page.sql("SELECT updated_at > now() - interval '1 hour' FROM pages WHERE id = 1") == [
        (True,)]


def test_order(page):
    assert ended(page.run("order.py")).startswith("job ")
    assert page.sql("SELECT queue, kind FROM defib.job") == [("mail", "receipt")]


def test_scan(page):
    said = ended(page.run("scan.py")).splitlines()
    assert said[0].startswith("1 silent ")
    assert said[1:] == ["recovered 1", "silent", "['REQUEUED', 'UNDONE', 'FAILED']"]
    assert statuses(page) == [(1, "Failed"), (2, "Queued")]
