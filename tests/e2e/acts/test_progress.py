# SPDX-License-Identifier: Apache-2.0
"""What takes more than a second shows how far it is: on stderr, only on a terminal, and it is gone
at the end."""

import os
import pty
import select
import subprocess
import time

import pytest

from harness import stuck_jobs
from harness.act_table import Jobs, _talk, batch_of
from harness.waiting import patience

ROWS = 90
SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM pg_sleep(0.015); RETURN coalesce(NEW, OLD); END$$
"""
GONE = "\r\033[K"


def make_slow(pg, table, event):
    pg.sql(f"CREATE TRIGGER slow BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION slow()")


@pytest.fixture
def slow(pg, defib, with_tables):
    """Jobs of which each takes 15 ms to write: 90 take a second and a half."""
    jobs = Jobs(pg, defib, batch="15", owner="owner")
    pg.sql(SLOW)
    stuck_jobs.fill(pg, ROWS)
    make_slow(pg, "jobs", "UPDATE")
    return jobs


def started(jobs, args, stdout=subprocess.DEVNULL):
    """With a terminal as stderr, and as stdout if that is None; the other end of it."""
    controller, terminal = pty.openpty()
    child = jobs.defib.start(*args, config=jobs.config, stderr=terminal,
                             stdout=terminal if stdout is None else stdout)
    os.close(terminal)
    return child, controller


def shown(jobs, *args, **options):
    """Everything that it writes to its terminal."""
    child, controller = started(jobs, args, **options)
    said = _talk(controller, "")
    os.close(controller)
    child.wait(patience())
    return said


def assert_bar(said, text):
    assert text in said, said
    assert said.rindex(GONE) > said.rindex(text)  # it is gone at the end


def test_a_scan_shows_how_many_of_all_are_recovered(slow):
    stuck_jobs.fill(slow.db, 2 * ROWS, first=ROWS + 1)  # several sessions write them
    assert_bar(shown(slow, "scan", "--fix"), f" of {3 * ROWS} recovered")


def test_an_act_and_its_undo_show_a_bar(slow):
    assert_bar(shown(slow, "requeue", "--all", "--yes"), f" of {ROWS} requeued")
    batch, = {batch.rsplit(".", 1)[0] for batch, in slow.ledger("batch")}
    assert_bar(shown(slow, "undo", batch, "--yes"), f" of {ROWS} reverted")


def test_json_on_a_terminal_and_quiet_show_no_bar(slow):
    assert shown(slow, "requeue", "--all", "--yes", "--quiet") == ""
    stuck_jobs.fill(slow.db, ROWS, first=ROWS + 1)
    said = shown(slow, "requeue", "--all", "--override-guard", "--yes", "--json", stdout=None)
    assert '"outcome"' in said and "[#" not in said and GONE not in said


def test_prune_shows_how_many_rows_are_removed(slow):
    slow.db.sql("INSERT INTO defib.job (queue, kind, state, finished_at) SELECT 'q', 'k', 'done', "
                f"now() - interval '90 days' FROM generate_series(1, {ROWS})")
    make_slow(slow.db, "defib.job", "DELETE")
    assert_bar(shown(slow, "prune", "--yes"), f" of {ROWS} removed")


def test_a_list_shows_how_many_jobs_are_read(slow):
    slow.config += "    kind: (SELECT 'k' FROM pg_sleep(0.015 + 0 * t.id))\n"
    assert_bar(shown(slow, "list", "--limit", 2 * ROWS), f"jobs: {ROWS} read")


def test_an_export_of_the_ledger_shows_how_far_it_is(pg, defib, with_tables):
    """A slow reader: what it has not read yet waits."""
    jobs = Jobs(pg, defib)
    stuck_jobs.fill(pg, 4000)
    assert batch_of(jobs("requeue", "--all", "--yes"))
    child, controller = started(jobs, ("ledger", "--json", "--limit", "4000"),
                                stdout=subprocess.PIPE)
    assert select.select([child.stdout], [], [], 60)[0]  # it writes, and cannot go on
    time.sleep(1.2)  # a bar appears after a second
    lines = child.stdout.readlines()
    said = _talk(controller, "")
    os.close(controller)
    assert child.wait(patience()) == 0 and len(lines) == 4000
    assert_bar(said, " of 4,000 written")
