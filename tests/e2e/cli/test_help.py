# SPDX-License-Identifier: Apache-2.0
"""--help: every example that it shows is run as written; the layout; the manual page.

The examples use a watch `pages` and the built-in queue. Both are prepared once, in a SQLite file
that each example gets a copy of, so that none depends on another.
"""

import re
import shutil
import signal
import subprocess

import pytest

from harness.act_table import HOW
from harness.databases import LiteDatabase
from harness.program import BIN, ROOT, Program
from harness.terminals import Terminal
from harness.waiting import eventually, patience

# Each command with its group and its place, as the table of commands has them.
TABLE = re.findall(r"X\(([A-Z_]+), (FIRST|REST|PART), (\w+)\)",
                   (ROOT / "src/cli/cli.h").read_text())
NAMES = [name for _, _, name in TABLE]
FIRST = [name for _, place, name in TABLE if place == "FIRST"]
PART = [name for _, place, name in TABLE if place == "PART"]
GROUPS = {"QUEUE": "queue", "TUNE": "tune", "DB": "db"}


def words_of(name):
    """"tune learn": a command with the word of its group."""
    group, = (group for group, _, n in TABLE if n == name)
    return f"{GROUPS[group]} {name}" if group in GROUPS else name

CONFIG = """
databases:
  - {name: main, url: "%s"}
watches:
  - name: pages
    table: pages
    key: id
    running: status = 'running'
    state: status
    started_at: started_at
    alive_at: updated_at
    stuck_after: 1h
    overdue_after: 12h
    requeue: status = 'queued'
    fail: status = 'failed', error = :reason
ACTS    attempts: attempts
    max_attempts: 5
    work:
      ready: status = 'queued'
      claim: status = 'running', updated_at = :now, started_at = :now
      done: status = 'done'
      failed: status = 'failed'
      command: ["true"]
workflows:
  - name: order
    steps:
      - {name: reserve, run: ["true"], undo: ["true"]}
      - {name: charge, run: ["false"]}
sinks:
  - {name: ops, type: log}
""".replace("ACTS", "".join(f"    {act}: {how}\n" for act, how in HOW.items()
                           if act not in ("show", "requeue", "retry", "fail")))
PAGES = {
    "sqlite": "CREATE TABLE pages (id INTEGER PRIMARY KEY, status TEXT, started_at TEXT, "
              "updated_at TEXT, attempts INTEGER DEFAULT 1, error TEXT)",
    "postgres": "CREATE TABLE pages (id bigint PRIMARY KEY, status text, started_at timestamptz, "
                "updated_at timestamptz, attempts integer DEFAULT 1, error text)",
}
STUCK = {
    "sqlite": "INSERT INTO pages (id, status, started_at, updated_at) VALUES (%s, 'running', "
              "datetime('now', '-3 hours'), datetime('now', '-2 hours'))",
    "postgres": "INSERT INTO pages (id, status, started_at, updated_at) VALUES (%s, 'running', "
                "now() - interval '3 hours', now() - interval '2 hours')",
}

# These end with 1: there are stuck jobs, and no daemon runs.
ENDS_WITH_1 = r"defib (scan (?!.*--fix)|scan$|status|explain)"
# On PostgreSQL only.
POSTGRES = ("install", "uninstall", "attach", "run", "detach")
# Their lines take longer than a test of words may: test_demo.py runs them.
ELSEWHERE = ("demo",)


class World:
    """A folder with the configuration, the database and the files that examples name."""

    def __init__(self, folder, db):
        self.dir, self.db = folder, db
        (folder / "bin").mkdir()
        (folder / "bin" / "defib").symlink_to(BIN)
        (folder / ".config/fish/completions").mkdir(parents=True)
        (folder / "mail.json").write_text('{"to": "b@example.org"}')
        (folder / "mails.jsonl").write_text('{"to": "c@example.org"}\n{"to": "d@example.org"}\n')
        for name in ("send.sh", "crawl.sh"):
            (folder / name).write_text("#!/bin/sh\ncat >/dev/null\necho done\n")
            (folder / name).chmod(0o755)
        url = "sqlite:app.db" if db.engine == "sqlite" else db.url
        (folder / "defib.yaml").write_text(CONFIG % url)
        self.program = Program(folder)

    def say(self, *args):
        ran = self.program(*args)
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def pages(self):
        """4712 was recovered by a scan; 4711 and others are stuck."""
        self.db.sql(PAGES[self.db.engine])
        self.db.sql(STUCK[self.db.engine], 4712)
        self.say("scan", "pages", "--fix")
        for key in (4711, 4713, 4714):
            self.db.sql(STUCK[self.db.engine], key)

    def jobs(self):
        """Jobs of the queue by the numbers that the examples use, each in its state."""
        self.db.sql("INSERT INTO sqlite_sequence VALUES ('defib_job', 41)")
        kinds = {42: ("lost", "send"), 43: ("later", "send"), 44: ("later", "send"),
                 45: ("lost", "order"), 46: ("later", "render")}
        for number, kind in kinds.items():
            assert self.say("enqueue", *kind, "{}", "--max-attempts", "1") == str(number)
        self.program("work", "--queue", "lost", "--drain", "--spool", "off", "--", "false")
        self.say("hold", "queue/43", "--yes")

    def copy(self, folder):
        shutil.copytree(self.dir, folder, symlinks=True)
        return folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    db = LiteDatabase(folder / "app.db")
    world = World(folder, db)
    world.say("init")
    world.jobs()
    world.pages()
    db.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    db.drop()
    return world


def environment(folder):
    return Program(folder)._env({"PATH": f"{folder}/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"})


def start(line, folder, **options):
    return subprocess.Popen(["/bin/bash", "-o", "pipefail", "-c", line], cwd=folder,
                            env=environment(folder), stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def run(line, folder):
    child = start(line, folder)
    said, _ = child.communicate(timeout=patience())
    assert child.returncode == bool(re.match(ENDS_WITH_1, line)), f"{line}\n{said}"
    assert "Sanitizer" not in said, said


def serve(line, folder):
    """Until it serves; then it is told to stop, and ends well."""
    log = folder / "said"
    child = start(f"exec {line} --verbose > said 2>&1", folder)
    try:
        eventually(lambda: child.poll() is not None or re.search("started|leads", log.read_text()
                   if log.exists() else ""), 60)
        assert child.poll() is None, log.read_text()
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=patience()) == 0, log.read_text()
    finally:
        child.kill()
        child.wait()


def on_screen(line, folder):
    folder_of_tmux = folder / "tmux"
    folder_of_tmux.mkdir()
    env = environment(folder)
    inside = f"cd {folder} && exec {line}"
    terminal = Terminal(folder_of_tmux, ["/bin/sh", "-c", inside], env)
    try:
        terminal.shows("pages/4711")
        terminal.keys("q")
        terminal.shows("ended 0")
    finally:
        terminal.close()


def examples_of(name, folder):
    said = Program(folder)("help", name).out
    part = said.split("Examples:\n")[1].split("\n\n")[0]
    return [line for line in re.findall(r"^  (\S.*(?:\n    \S.*)*)", part, re.M)]


def way_of(line):
    if line.startswith("defib top"):
        return on_screen
    if line.startswith("defib daemon") or (line.startswith("defib work") and "--drain" not in line):
        return serve
    return run


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ELSEWHERE + POSTGRES])
def test_every_example_does_what_it_says(prepared, name, tmp_path):
    lines = examples_of(name, prepared.dir)
    assert 2 <= len(lines) <= 4
    for i, line in enumerate(lines):
        if " man " in line and not shutil.which("man"):
            continue
        way_of(line)(line, prepared.copy(tmp_path / str(i)))


@pytest.fixture
def on_postgres(tmp_path, pg):
    folder = tmp_path / "postgres"
    folder.mkdir()
    world = World(folder, pg)
    world.say("init")
    world.pages()
    return world


def test_every_example_of_what_postgresql_does_itself(on_postgres):
    for name in (n for n in POSTGRES if n in NAMES):
        for line in examples_of(name, on_postgres.dir):
            run(line, on_postgres.dir)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_examples_that_run_elsewhere_use_options_that_are_there(prepared, name):
    known = Program(prepared.dir)("help", name).out.split("Options:")[1]
    for line in examples_of(name, prepared.dir):
        for option in re.findall(r"--[a-z-]+", line):
            assert f"  {option} " in known, line


# ---- the layout ----

def test_defib_alone_fits_a_small_terminal_and_shows_what_is_needed_at_night(defib):
    said = defib().out
    assert defib("help").out == defib("--help").out == said
    assert len(said.splitlines()) < 24
    assert re.findall(r"^  ([a-z]+)  ", said, re.M) == FIRST
    assert FIRST == ["status", "scan", "list", "show", "top", "requeue", "release", "undo",
                     "pause", "daemon", "init", "doctor"]
    assert re.findall(r"^  defib (\w+)  ", said, re.M) == list(GROUPS.values())
    assert "  defib help --all  " in said


def test_help_all_shows_every_command_once_with_the_word_of_its_group(defib):
    said = defib("help", "--all").out
    listed = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", said, re.M)
    assert sorted(listed) == sorted(words_of(name) for name in NAMES)
    assert listed[-len(PART):] == PART
    assert "Exit codes:" in said and "--config FILE" in said


@pytest.mark.parametrize("group", GROUPS.values())
def test_a_group_alone_lists_its_commands(defib, group):
    ran = defib(group)
    assert (ran.code, ran.err) == (0, "")
    listed = re.findall(r"^  ([a-z]+)  ", ran.out, re.M)
    assert [f"{group} {name}" for name in listed] == \
        [words_of(name) for name in NAMES if words_of(name).startswith(f"{group} ")]
    assert ran.out == defib(group, "--help").out == defib("help", group).out


def test_the_word_of_a_group_may_be_left_out(defib, lite):
    for name in (name for name in NAMES if words_of(name) != name):
        long = defib("help", *words_of(name).split()).out
        assert long == defib("help", name).out == defib(name, "--help").out
        assert re.match(f"Usage: defib {words_of(name)}\\b", long)
        assert long == defib(*words_of(name).split(), "--help").out
    with_group = defib("--db", lite.url, "db", "--json", "sql", "x", "y")
    assert (with_group.code, with_group.err) == (2, "defib: defib db sql takes one watch\n")
    assert defib("sql", "x", "y", db=lite).err == "defib: defib sql takes one watch\n"


def test_a_mistyped_command_is_answered_with_the_words_to_type(defib):
    for typed, meant in (("lern", "tune learn"), ("tune lern", "tune learn"), ("tnue", "tune"),
                         ("queue enqueu", "queue enqueue"), ("statsu", "status")):
        ran = defib(*typed.split())
        assert ran.code == 2
        assert f'unknown command "{typed}"; did you mean "{meant}"?' in ran.err
    assert defib("tune", "scan").err == \
        'defib: unknown command "tune scan" (see defib tune --help)\n'


def test_help_about_a_command_is_the_same_by_both_ways(defib):
    for name in ("scan", "daemon", "help"):
        ran = defib("help", name)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == defib(name, "--help").out


def test_no_line_of_help_is_wider_than_80_columns(defib):
    for words in [[], ["--all"], *([word] for word in [*NAMES, *GROUPS.values()])]:
        said = defib("help", *words).out
        for line in said.splitlines():
            assert len(line) <= 80 and line == line.rstrip(), line


def test_help_about_what_is_no_command_names_the_nearest(defib):
    ran = defib("help", "lsit")
    assert (ran.code, ran.out) == (2, "")
    assert 'unknown command "lsit"; did you mean "list"?' in ran.err
    assert defib("help", "list", "show").code == 2


# ---- the manual page ----

def test_the_manual_page_is_well_formed_and_has_every_command(defib, tmp_path):
    if not shutil.which("man"):
        pytest.skip("no man here: scripts/setup test installs it")
    page = tmp_path / "defib.1"
    page.write_text(defib("help", "--man").out)
    ran = subprocess.run(["man", "--warnings", "-l", str(page)], capture_output=True, text=True,
                         env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80",
                              "HOME": str(tmp_path)}, timeout=patience())
    assert (ran.returncode, ran.stderr) == (0, "")
    for name in NAMES:
        assert f"   defib {words_of(name)}" in ran.stdout, name
    assert "status = 'running'" in ran.stdout  # no quote of a shell is made a typographer's


def test_the_manual_page_that_is_installed_is_the_one_that_is_printed(defib):
    built = BIN.parent / "defib.1"
    if not built.exists():
        pytest.skip("this program was not built here")
    assert built.read_text() == defib("help", "--man").out
