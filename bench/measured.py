# SPDX-License-Identifier: Apache-2.0
"""What the speed benchmarks share: programs, databases, parallel runs, and the table."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness import databases  # noqa: E402
from bars import BARS, verdict  # noqa: E402
from harness.pgserver import PgServer  # noqa: E402

BIN = pathlib.Path(os.environ.get("DEFIB_BIN", ROOT / "build" / "defib")).resolve()
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
           "max_connections": "500", "shared_buffers": "256MB", "max_wal_size": "4GB"}
LIMIT_S = 600


def environment(folder, **more):
    return {"PATH": os.environ["PATH"], "HOME": str(folder), **more}


def options(text, parts):
    """--json FILE, --full, --tiny and the names of parts (without any: all)."""
    parser = argparse.ArgumentParser(description=text,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path,
                        help="also write the figures there")
    parser.add_argument("--full", action="store_true", help="longer runs and more rounds")
    parser.add_argument("--tiny", action="store_true",
                        help="a few jobs, to see that it runs: no bar is judged")
    parser.add_argument("--rounds", type=int, help="how often each is run: 3, with --full 5")
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(parts))
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in parts]
    if unknown:
        parser.error(f"unknown part {unknown[0]}; there are {' '.join(parts)}")
    given.parts = given.parts or list(parts)
    given.rounds = given.rounds or (5 if given.full else 1 if given.tiny else 3)
    return given


def programs(folder):
    """raw and library, compiled into the folder."""
    source = ROOT / "bench"
    subprocess.run(["cc", "-O2", "-o", folder / "raw", source / "raw.c",
                    "-I/usr/include/postgresql", "-lpq", "-lsqlite3"], check=True)
    subprocess.run(["cc", "-O2", "-o", folder / "library", source / "library.c",
                    f"-I{ROOT}/include", f"-L{BIN.parent}", f"-Wl,-rpath,{BIN.parent}", "-ldefib",
                    "-lpthread"], check=True)


def per_second(stamps):
    """Jobs per second, from the first begin to the last end of processes that ran in parallel."""
    first = min(begin for begin, _, n in stamps if n)
    last = max(end for _, end, n in stamps if n)
    return sum(n for _, _, n in stamps) * 1e9 / max(1, last - first)


class Place:
    """A folder with the programs, a PostgreSQL that syncs, and fresh databases of the queue."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.server = PgServer({**DURABLE, **settings})
        self._queue = self._peers = None
        self._files = 0

    def start(self):
        programs(self.folder)
        self.server.start()
        return self

    def defib(self, *words, **more):
        return subprocess.run([str(BIN), *map(str, words)], check=True, text=True,
                              capture_output=True, env=environment(self.folder), **more)

    @contextlib.contextmanager
    def postgres(self):
        """The tables of the queue, empty. The same ones again: a new database costs seconds."""
        if not self._queue:
            self._queue = databases.PgDatabase(self.server)
            self.defib("init", "--db", self._queue.url)
        self._queue.sql("TRUNCATE defib.job, defib.job_data, defib.worker, defib.enqueued")
        yield self._queue
        self._queue.hang_up()

    @contextlib.contextmanager
    def fresh(self):
        """A new database with the tables of the queue."""
        db = databases.PgDatabase(self.server)
        try:
            self.defib("init", "--db", db.url)
            yield db
        finally:
            db.drop()

    @contextlib.contextmanager
    def empty(self, schema):
        """A database without this schema."""
        if not self._peers:
            self._peers = databases.PgDatabase(self.server)
        self._peers.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        yield self._peers
        self._peers.hang_up()

    @contextlib.contextmanager
    def sqlite(self):
        self._files += 1
        db = databases.LiteDatabase(self.folder / f"{self._files}.db")
        try:
            self.defib("init", "--db", db.url)
            yield db
        finally:
            db.drop()

    def run(self, program, *words):
        """One line of three numbers from each process of a program; see per_second()."""
        return self.run_many(1, program, *words)

    def run_many(self, n, program, *words):
        argv = [str(self.folder / program), *map(str, words)]
        running = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=environment(self.folder)) for _ in range(n)]
        said = [process.communicate(timeout=LIMIT_S) for process in running]
        for process, (_, errors) in zip(running, said):
            if process.returncode:
                raise RuntimeError(f"{program} {' '.join(map(str, words))}: {errors}")
        return [tuple(map(int, out.split())) for out, _ in said]


@contextlib.contextmanager
def place(**settings):
    """Removed afterwards. Not in memory: the disk is part of what is measured."""
    with tempfile.TemporaryDirectory(prefix="dfb-bench-", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o711)
        own = Place(folder, **settings)
        try:
            yield own.start()
        finally:
            own.server.remove()


def fill(db, queue, jobs):
    """Waiting jobs, in tables in a state as after some time of work."""
    if db.engine == "postgres":
        db.sql("WITH j AS (INSERT INTO defib.job (queue, kind) SELECT %s, 'nothing' FROM "
               "generate_series(1, %s) RETURNING id) INSERT INTO defib.job_data (job, payload) "
               "SELECT id, '{\"to\":\"ada@example.org\"}' FROM j", queue, jobs)
        db.sql("VACUUM ANALYZE defib.job, defib.job_data")
        db.sql("CHECKPOINT")
        return
    now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    db.sql("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT "
           f"INTO defib_job (queue, kind, created_at, run_at) SELECT ?, 'nothing', {now}, {now} "
           "FROM n", jobs, queue)
    db.sql("INSERT INTO defib_job_data (job, payload) SELECT id, '{\"to\":\"ada@example.org\"}' "
           "FROM defib_job")


def worked(db, jobs):
    """Jobs per second, from the first claim to the last settlement; all of them must be done."""
    done, took = db.sql(
        "SELECT count(*), extract(epoch FROM max(finished_at) - min(claimed_at)) FROM defib.job "
        "WHERE state = 'done'" if db.engine == "postgres" else
        "SELECT count(*), (max(finished_at) - min(claimed_at)) / 1000.0 FROM defib_job "
        "WHERE state = 'done'")[0]
    assert done == jobs, f"{done} of {jobs} jobs are done"
    return jobs / max(float(took), 1e-3)


def side_by_side(contestants, rounds):
    """{name: median} of functions that each give a figure; one after the other, round by round."""
    figures = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            figures[name].append(measure())
    return {name: statistics.median(values) for name, values in figures.items()}


class Table:
    """Lines with bars, figures without; the same is printed and written as JSON."""

    def __init__(self, given):
        self.given, self.rows, self.figures, self.missed = given, [], [], []

    def note(self, what, **figures):
        """Absolute figures, for people."""
        self.figures.append({"what": what, **figures})
        print(f"  {what}: " + ", ".join(
            f"{name.replace('_', ' ')} {value:,.0f}" if value >= 100 else
            f"{name.replace('_', ' ')} {value:,.2f}" for name, value in figures.items()), flush=True)

    def line(self, name, value):
        bar, said = BARS[name], verdict(name, value)
        self.rows.append({"name": name, "value": value, "verdict": said})
        if said == "MISSED":
            self.missed.append(name)
        sign = "<= " if bar.less else ">= "
        bars = [f"{sign}{wanted:g}" if wanted is not None else "" for wanted in
                (bar.first, bar.goal)]
        print(f"{bar.words + ', ' + bar.unit if bar.unit else bar.words:<78}{value:>12,.2f}  "
              f"{bars[0]:>8} {bars[1]:>8}  {said}", flush=True)

    def end(self):
        """The exit code."""
        if self.given.json:
            self.given.json.write_text(json.dumps({"rows": self.rows, "figures": self.figures}))
        if self.missed and not self.given.tiny:
            print(f"minimum missed: {', '.join(self.missed)}")
            return 1
        return 0
