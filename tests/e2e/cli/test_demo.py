# SPDX-License-Identifier: Apache-2.0
"""`defib demo`, shortened: its final report matches the database and the effects.

The runs of this module mostly wait, and run in parallel: one on SQLite and one on PostgreSQL that
are kept after their verdict, and one whose evidence is tampered with.
"""

import collections
import contextlib
import html
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import urllib.request

import cast_svg
import pytest

from harness.databases import PgDatabase
from harness.program import BIN, ROOT
from harness.shell_pages import shape
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain
SECONDS = "8"


class Demo:
    """One run in a folder for temporary files of its own."""

    def __init__(self, tmp, *options, url=None):
        self.tmp, self.url = tmp, url
        self.story = tmp.parent / f"{tmp.name}.story"
        tmp.mkdir()
        kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        where = ["--db", url, "--yes"] if url else []
        with open(self.story, "wb") as story:
            self.process = subprocess.Popen(
                [str(BIN), "demo", "--json", "--seed", "7", *options, *where],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=story, text=True,
                cwd=tmp.parent, env={"HOME": str(tmp.parent), "PATH": "/usr/bin:/bin",
                                     "TMPDIR": str(tmp), **kept})
        self.said = None

    @property
    def told(self):
        return self.story.read_text(errors="replace")

    @property
    def folder(self):
        return next(self.tmp.glob("defib-demo-*"))

    @property
    def verdict(self):
        if self.said is None:
            line = self.process.stdout.readline()
            assert line, self.told
            self.said = json.loads(line)
        return self.said

    def effects(self):
        return os.listdir(self.folder / "effects")

    def wait_told(self, text):
        def told_or_over():
            return text in self.told or self.process.poll() is not None
        eventually(told_or_over)
        assert text in self.told, self.told

    def processes(self):
        """Everything that was started for it: all of them have its folder in their environment."""
        mark = f"TMPDIR={self.tmp}".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    found.append(path.parent.name)
        return found

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(patience())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def runs(shared_server, tmp_path_factory):
    base = tmp_path_factory.mktemp("demo")
    database = PgDatabase(shared_server)
    cast = base / "demo.cast"
    started = {
        "sqlite": Demo(base / "sqlite", "--seconds", SECONDS, "--keep", "--record", str(cast)),
        "postgres": Demo(base / "postgres", "--seconds", SECONDS, "--keep", url=database.url),
        "tampered": Demo(base / "tampered", "--seconds", SECONDS),
    }
    started["postgres"].database = database
    started["sqlite"].cast = cast
    yield started
    for run in started.values():
        run.close()
    database.drop()


@pytest.fixture(params=["sqlite", "postgres"])
def run(request, runs):
    return runs[request.param]


def rows(run, query):
    if run.url:
        return run.database.sql(query)
    with contextlib.closing(sqlite3.connect(run.folder / "demo.db")) as db:
        return db.execute(query.replace("defib.", "defib_")).fetchall()


def pages_table(run):
    return re.search(r"table: (\S+)", (run.folder / "defib.yaml").read_text())[1]


@pytest.fixture(scope="module")
def tampered(runs):
    """Of two ended jobs one loses its effect, the other gets that of an earlier run."""
    run = runs["tampered"]
    run.wait_told("page: http")

    def two_done():
        done = rows(run, "SELECT id, epoch FROM defib.job WHERE state = 'done' AND kind = 'mail' "
                         "AND crashes = 0 LIMIT 2")
        return done if len(done) == 2 else None
    (gone, epoch), (again, _) = eventually(two_done)
    (run.folder / "effects" / f"job.{gone}.job.{epoch}").unlink()
    (run.folder / "effects" / f"job.{again}.job.0").touch()
    return run


# These come first: they act while their run is young.
def test_an_effect_that_is_gone_is_a_lost_job(tampered):
    assert tampered.verdict["lost"] == 1, tampered.told


def test_an_effect_that_nothing_explains_is_a_job_settled_twice(tampered):
    assert tampered.verdict["settled_twice"] == 1, tampered.told


def test_a_broken_promise_is_its_exit_code(tampered):
    assert not tampered.verdict["kept"]
    assert tampered.process.wait(patience()) == 1


def test_every_promise_is_kept(run):
    assert run.verdict["kept"], run.told
    assert [run.verdict[k] for k in ("lost", "stuck", "settled_twice")] == [0, 0, 0]
    assert run.verdict["workers_killed"] >= 5
    assert run.verdict["frozen"] == run.verdict["cut"] == 1
    assert run.verdict["page_workers_killed"] == 2


def test_the_verdict_is_what_the_database_says(run):
    states = collections.Counter(dict(rows(run, "SELECT state, count(*) FROM defib.job GROUP BY 1")))
    pages = dict(rows(run, f"SELECT status, count(*) FROM {pages_table(run)} GROUP BY 1"))
    assert set(pages) == {"Complete"}
    assert run.verdict["jobs"] == sum(states.values()) + pages["Complete"]
    assert run.verdict["done"] == states["done"] + pages["Complete"]
    assert run.verdict["rolled_back"] == states["rolled_back"] > 0
    assert run.verdict["held"] == states["held"] >= 1
    freed = rows(run, "SELECT count(*) FROM defib.ledger WHERE verdict IS NOT NULL AND event IN "
                      "('REQUEUED', 'FAILED', 'ROLLBACK_STARTED', 'RETRY_SCHEDULED')")
    assert run.verdict["recovered"] == freed[0][0] > 0


def test_its_times_to_recover_are_those_of_the_report(run, defib):
    """The demo had milliseconds of its own that could be found nowhere else."""
    verdict = run.verdict
    pages = pages_table(run)
    ran = defib("report", "queue", pages, "--format", "json", "--config", str(run.folder / "defib.yaml"),
                env={"DEFIB_DEMO_URL": run.url or f"sqlite:{run.folder / 'demo.db'}"})
    assert ran.code == 0, ran.err
    times = {w["watch"]: w["time_to_recover"] for w in ran.json["watches"]}
    for prefix, watch in (("", "queue"), ("pages_", pages)):
        assert times[watch]["n"] > 0 and times[watch]["median_s"] >= 0
        assert times[watch]["median_s"] == pytest.approx(verdict[f"{prefix}median_ms"] / 1000)
        assert times[watch]["longest_s"] == pytest.approx(verdict[f"{prefix}worst_ms"] / 1000)


def test_what_is_called_done_has_the_effect_of_its_last_run(run):
    assert run.verdict["lost"] == 0, run.told
    effects = set(run.effects())
    mails = rows(run, "SELECT id, epoch FROM defib.job WHERE state = 'done' AND kind = 'mail'")
    pages = rows(run, f"SELECT id, attempts FROM {pages_table(run)}")
    undone = rows(run, "SELECT id FROM defib.job WHERE state = 'rolled_back'")
    assert mails and pages and undone
    assert [m for m in mails if f"job.{m[0]}.job.{m[1]}" not in effects] == []
    assert [p for p in pages if f"page.{p[0]}.page.{p[1]}" not in effects] == []
    took_back = {int(e.split(".")[1]) for e in effects if ".undo_reserve." in e}
    assert took_back >= {job for job, in undone}


# ---- the story

ACT = re.compile(r"^ *[\d.]+ s  [+] (\d)  ", re.M)  # not a UTF-8 terminal


def test_it_opens_with_the_faults_and_tells_the_end_of_each_in_one_line(run):
    assert run.verdict["kept"], run.told
    opening, _, rest = run.told.partition("\n\n")
    titles = re.findall(r"^  (\d)  (.+)$", rest, re.M)
    assert f"{len(titles)} faults hit them within about {SECONDS} seconds" in opening
    assert sorted(ACT.findall(run.told)) == [number for number, _ in titles]
    for number, title in titles:
        line, = re.findall(rf"[+] {number}  (.*)", run.told)
        assert line.startswith(title)
        assert re.search(r"\d (job|page)s? after \d+( ms|s)|nothing ", line), line


def test_the_jobs_of_its_acts_are_those_of_the_ledger(run):
    """No line claims more than was recovered in all."""
    assert run.verdict["kept"], run.told
    counted = sum(map(int, re.findall(r"[+] .* (\d+) (?:job|page)s? after", run.told)))
    assert 0 < counted <= run.verdict["recovered"]
    refused = re.search(r"(\d+) late results? refused$", run.told, re.M)
    assert not refused or int(refused[1]) <= run.verdict["late_refused"]


def test_it_ends_with_the_verdict_and_three_commands_that_exist(run, defib):
    assert run.verdict["kept"], run.told
    eventually(lambda: "still running" in run.told)
    end = run.told.partition("verdict: lost 0, stuck 0, settled twice 0: every promise")[2]
    commands = re.findall(r"^  \S*defib (\w+)", end, re.M)
    assert len(commands) == 3
    assert [defib(command, "--help").code for command in commands] == [0, 0, 0]


def texts(lines):
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def fixed(lines):
    """What is the same in every run: the opening, the titles of the acts, the end; without
    numbers, places and spaces."""
    titles = next(i for i, line in enumerate(lines) if line.split()[:2] == ["fault", "hit"])
    verdict = next(i for i, line in enumerate(lines) if line.startswith("verdict:"))
    acts = [line[:37] for line in lines[titles:verdict] if re.match("✔ \\d  ", line)]
    told = [line for line in lines[:titles] if not re.match(r" *[\d.]+ s  ", line)]
    kept = (re.sub(r"files:.*|http\S*|\S*/(?=defib )|\s", "", shape(line))
            for line in [*told, *acts, *lines[verdict:]] if "still running" not in line)
    return [line for line in kept if line]


def test_the_recording_ends_with_what_the_terminal_shows(runs):
    run = runs["sqlite"]
    assert run.verdict["kept"], run.told
    eventually(lambda: "still running" in run.told)
    _, frames = cast_svg.read(run.cast)
    shown = texts(frames[-1][1])
    for line in run.told[run.told.index("jobs and pages:"):].splitlines()[1:-1]:
        assert line.rstrip() in shown
    for act in re.findall(r"[+] (\d  .*)\n", run.told):
        assert f"✔ {act}".rstrip() in shown


def test_the_picture_of_the_readme_tells_the_acts_of_today(runs):
    """docs/pictures/demo.svg is of another run; `make pictures` makes it anew."""
    run = runs["sqlite"]
    assert run.verdict["kept"], run.told
    eventually(lambda: "still running" in run.told)
    _, frames = cast_svg.read(run.cast)
    assert picture_lines(ROOT / "docs/pictures/demo.svg") == fixed(texts(frames[-1][1]))


def picture_lines(path):
    """The fixed part of the last frame: the lines that are shown without animation too."""
    text = path.read_text()
    hidden = set(re.findall(r"\.(a\d+)\{visibility:hidden", text))
    rows = {}
    for name, y, body in re.findall(r'<text(?: class="(\w+)")? y="(\d+)">(.*?)</text>', text):
        if name not in hidden:
            line = ""
            for x, piece in re.findall(r'<tspan x="([\d.]+)"[^>]*>(.*?)</tspan>', body):
                column = round((float(x) - cast_svg.PAD) / cast_svg.CELL_X)
                line = line.ljust(column) + html.unescape(piece)
            rows[int(y)] = line
    return fixed([rows[y] for y in sorted(rows)])


def test_a_recording_that_cannot_be_written_is_refused_before_anything_starts(defib, tmp_path):
    ran = defib("demo", "--record", str(tmp_path / "none" / "demo.cast"))
    assert ran.code == 2
    assert "cannot write" in ran.err


def test_the_poisoned_job_is_held_by_the_crash_budget(run):
    assert run.verdict["held"] >= 1
    held = rows(run, "SELECT j.kind, l.rule FROM defib.job j JOIN defib.ledger l ON l.job = "
                     "CAST(j.id AS text) AND l.event = 'HELD' WHERE j.state = 'held'")
    assert ("poison", "crash-budget") in held


def test_its_page_answers(run):
    address = re.search(r"page: (http\S+)/", run.told)[1]
    with urllib.request.urlopen(f"{address}/", timeout=patience()) as answer:
        assert b"<html" in answer.read()


def test_the_terminal_and_its_page_count_the_same(run):
    """What the terminal calls recovered is what metrics, report and overview show, to the unit."""
    address = re.search(r"page: (http\S+)/", run.told)[1]

    def read(path):
        with urllib.request.urlopen(f"{address}{path}", timeout=patience()) as answer:
            return answer.read().decode()

    def counted():
        samples = re.findall(r'^defib_recovered_total\{.*\} (\d+)', read("/metrics"), re.M)
        return sum(map(int, samples)) == run.verdict["recovered"]
    eventually(counted)
    report = json.loads(read("/api/v1/report"))
    assert sum(w["now"]["recovered"] for w in report["watches"]) == run.verdict["recovered"]
    assert sum(w["now"]["rolled_back"] for w in report["watches"]) == run.verdict["rolled_back"]
    trend = json.loads(read("/api/v1/trend"))
    assert sum(sum(w["recovered"]) for w in trend["watches"]) == run.verdict["recovered"]


def test_it_leaves_nothing_when_its_end_is_asked_for(run):
    assert run.verdict["kept"]
    assert run.interrupt() == 0, run.told
    assert list(run.tmp.iterdir()) == []
    eventually(lambda: run.processes() == [])
    if run.url:
        left = rows(run, "SELECT (SELECT count(*) FROM defib.job), "
                         "(SELECT count(*) FROM defib.job_data), (SELECT count(*) FROM defib.step), "
                         "(SELECT count(*) FROM defib.worker), (SELECT count(*) FROM pg_tables "
                         "WHERE tablename LIKE 'demo%')")
        assert left == [(0, 0, 0, 0, 0)]


def test_interrupted_at_work_it_leaves_nothing(tmp_path):
    run = Demo(tmp_path / "tmp", "--seconds", SECONDS)
    try:
        run.wait_told("recovered")
        assert run.interrupt() == 130, run.told
        assert list(run.tmp.iterdir()) == []
        eventually(lambda: run.processes() == [])
    finally:
        run.close()


def test_a_database_is_not_used_unasked(defib, lite):
    ran = defib("demo", db=lite)
    assert ran.code == 5
    assert "--yes" in ran.err


def test_a_database_with_running_jobs_is_left_alone(defib, lite):
    assert defib("init", db=lite).code == 0
    lite.sql("INSERT INTO defib_job (created_at, run_at, owner, state, queue, kind) "
             "VALUES (0, 0, 1, 'running', 'theirs', 'x')")
    ran = defib("demo", "--yes", db=lite)
    assert ran.code == 5
    assert "1 jobs are running" in ran.err
    assert lite.sql("SELECT state, owner FROM defib_job") == [("running", 1)]


@pytest.mark.parametrize("seconds", ["7", "x", "4000"])
def test_a_length_that_makes_no_sense_is_refused(defib, seconds):
    ran = defib("demo", "--seconds", seconds)
    assert ran.code == 2
    assert "--seconds" in ran.err


@pytest.mark.proof
def test_at_full_length_every_promise_is_kept(tmp_path, db):
    # On SQLite it makes a file of its own.
    run = Demo(tmp_path / "tmp", url=db.url if db.engine == "postgres" else None)
    try:
        assert run.verdict["kept"], run.told
        assert run.verdict["jobs"] > 2000
        assert run.process.wait(patience()) == 0
        assert list(run.tmp.iterdir()) == []
    finally:
        run.close()
