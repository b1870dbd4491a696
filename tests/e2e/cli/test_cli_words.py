# SPDX-License-Identifier: Apache-2.0
"""What commands print for people: titles, units, honest counts, and the next command, complete."""

import re
import shlex

import pytest

from harness import stuck_jobs as jobs


@pytest.fixture
def stuck(defib, lite):
    """Five stuck jobs, and the configuration."""
    jobs.make(lite, 5)
    return jobs.config(lite)


def titles(ran):
    return [line.split() for line in ran.out.splitlines() if line.strip()]


def test_every_list_of_rows_has_titles(defib, stuck):
    assert ["JOB", "VERDICT", "WHY", "REMEDY"] in titles(defib("scan", config=stuck))
    assert defib("scan", "--fix", config=stuck).code == 0
    assert titles(defib("list", config=stuck))[0][:2] == ["JOB", "STATE"]
    assert titles(defib("ledger", config=stuck))[0][0] == "AT"


def test_scan_fix_prints_the_command_that_undoes_it(defib, lite, stuck):
    ran = defib("scan", "--fix", config=stuck)
    undo, = re.findall(r"^undo with: defib (undo \S+)$", ran.out, re.M)
    assert defib(*undo.split(), "--yes", config=stuck).code == 0
    assert jobs.requeued(lite) == 0


def test_a_scan_that_changes_nothing_prints_no_batch(defib, stuck):
    assert "undo with" not in defib("scan", config=stuck).out
    assert defib("scan", "--fix", config=stuck).code == 0
    assert "undo with" not in defib("scan", "--fix", config=stuck).out


@pytest.mark.parametrize("own", [
    "requeue: {sql: [\"UPDATE jobs SET status = 'queued' WHERE id IN (SELECT id FROM stuck)\"]}",
    "requeue: status = 'queued'\n    also: [\"SELECT id FROM stuck\"]",
])
@pytest.mark.parametrize("command", ["scan --fix", "requeue --all --yes"])
def test_what_undo_would_refuse_is_not_offered(defib, lite, own, command):
    jobs.make(lite, 2)
    text = jobs.config(lite).replace(
        next(line for line in jobs.config(lite).splitlines() if "requeue:" in line), "    " + own)
    ran = defib(*command.split(), config=text)
    assert ran.code == 0 and "undo with" not in ran.out, ran
    batch = re.search(r"batch (\S+) cannot be undone", ran.out)[1]
    refused = defib("undo", batch, "--yes", config=text)
    assert refused.code != 0 and "cannot undo" in refused.out + refused.err, refused


def test_a_name_of_a_watch_where_a_key_belongs_is_one_clear_line(defib, pg):
    jobs.make(pg, 2)
    ran = defib("list", "jobs", config=jobs.config(pg))
    assert ran.code == 2 and len(ran.err.splitlines()) == 1, ran
    assert '"jobs" is not a key of watch jobs (id)' in ran.err and "--watch jobs" in ran.err
    assert '"x" is not a key of watch jobs (id)' in defib("show", "x", config=jobs.config(pg)).err


def test_after_an_undo_the_command_to_release_is_complete(defib, lite, stuck):
    ran = defib("scan", "--fix", config=stuck)
    batch = re.search(r"defib undo (\S+)", ran.out)[1]
    ran = defib("undo", batch, "--yes", config=stuck)
    release = re.search(r"To release them: defib (.+)$", ran.err, re.M)[1]
    assert jobs.requeued(lite) == 0
    assert defib(*shlex.split(release), "--yes", config=stuck).code == 0
    assert lite.sql("SELECT count(*) FROM jobs WHERE status = 'queued'") == [(5,)]


@pytest.mark.parametrize("limit,left", [(2, "3 more are"), (4, "1 more is")])
def test_a_limit_says_how_many_it_left(defib, stuck, limit, left):
    ran = defib("scan", "--limit", limit, config=stuck)
    assert f"5 stuck of 5 running, {limit} examined" in ran.out
    assert f"stopped at the limit; {left} stuck" in ran.err


def test_a_limit_that_is_not_reached_says_nothing(defib, stuck):
    assert "limit" not in defib("scan", "--limit", 5, config=stuck).err


@pytest.mark.parametrize("limit", ["0", "-3"])
def test_a_limit_that_makes_no_sense_is_refused(defib, stuck, limit):
    ran = defib("scan", "--fix", f"--limit={limit}", config=stuck)
    assert ran.code == 2 and "--limit" in ran.err


@pytest.fixture
def queued(defib, lite, with_tables):
    """A job of the built-in queue that waits."""
    return f"queue/{defib('enqueue', 'mail', 'welcome', db=lite).out.strip()}"


def test_a_state_is_named_once(defib, lite, queued):
    ran = defib("list", "--watch", "queue", db=lite)
    assert queued in ran.out
    assert re.search(r"^queue/\d+ +queued ", ran.out, re.M)
    assert "(queued)" not in ran.out


def test_a_value_that_is_not_there_is_called_none(defib, lite, queued):
    ran = defib("show", queued, db=lite)
    assert re.search(r"^  owner +none$", ran.out, re.M)
    assert "null" not in ran.out.partition("Timeline")[0]


def test_durations_below_a_second_have_a_space_and_micro_is_written_so(defib, stuck):
    said = defib("doctor", config=stuck).out
    assert re.search(r"took \d+ (µs|ms)$", said, re.M)
    assert not re.search(r"\d(us|ms)\b", said)


def test_a_watch_that_does_not_exist_is_answered_with_those_that_do(defib, stuck):
    assert 'there is no watch "parcels"; known: jobs' in defib("scan", "parcels", config=stuck).err


def test_a_ledger_without_such_entries_says_so(defib, stuck):
    assert defib("scan", "--fix", config=stuck).code == 0
    ran = defib("ledger", "--event", "ROLLED_BACK", config=stuck)
    assert (ran.code, ran.out, ran.err) == (0, "", "defib: the ledger has no such entries\n")


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_a_report_has_no_negative_and_no_invented_figure(defib, lite, form):
    """Of a database in which nothing has happened yet, and of one with jobs of one recovery each."""
    jobs.make(lite, 3)
    config = jobs.config(lite)
    empty = defib("report", "--format", form, config=config)
    assert empty.code == 0, empty.err
    assert defib("scan", "--fix", config=config).code == 0
    report = defib("report", "--format", form, config=config).out
    for said in (empty.out, report):
        figures = re.sub(r"<style>.*?</style>|\d{4}-\d\d-\d\d|\d\d-\d\d", "", said, flags=re.S)
        assert not re.search(r"(?<![\w.-])-\d|\bnan\b|\binf\b", figures, re.I), figures
    assert form == "json" or "repeated jobs" not in report
    assert "3" in report
