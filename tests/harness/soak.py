# SPDX-License-Identifier: Apache-2.0
"""Soak: everything at work for long, with a fault now and then; does anything grow?

A PostgreSQL server with three workers and a daemon with its page, a SQLite file with two workers.
Jobs come all the time, and every few seconds a worker is killed or stopped, a session is
terminated, or the server is restarted. One worker of each database and the daemon are never
killed: their memory, descriptors and threads are read, and so are connections, sizes of tables and
indexes, jobs that wait, and how long the jobs of each killed worker took to be recovered. growth.py
says whether one of them grows.

Tables have a size at which they stay: retention removes rows after an hour at the soonest, so rows
are made older than they are, soon after they ended. The ledger is kept, as it must be for crash
budgets: its size is told and has no bound.
"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import time

import psycopg2

from harness import chaos_run, databases
from harness.growth import Bound, drift
from harness.pgserver import PgServer
from harness.waiting import patience

LEASE_S = 3
MB = 1 << 20
# What the second half may add. Names of figures begin with these words.
BOUNDS = {
    "memory": Bound(2 * MB, 0.05),
    "descriptors": Bound(2),
    "threads": Bound(1),
    "connections": Bound(2),
    "tables": Bound(MB, 0.3),
    "indexes": Bound(MB, 0.3),
    "file": Bound(2 * MB, 0.3),
    "waiting": Bound(20, 0.5),
    "recovery": Bound(1.0, 0.5),
    "page": Bound(200, 0.5),
}
UNITS = {"memory": MB, "tables": MB, "indexes": MB, "file": MB, "ledger": MB}
CAUGHT = (psycopg2.Error, sqlite3.Error)


class Process:
    """A program that is started again whenever it has ended."""

    def __init__(self, soak, name, argv, apart=False, steady=False):
        self.soak, self.name, self.apart, self.steady = soak, name, apart, steady
        self.argv = ["unshare", "--pid", "--fork", "--kill-child", *argv] if apart else argv
        self.log = soak.folder / f"{name}.log"
        self.process, self.starts, self.stopped_until = None, 0, 0

    def start(self):
        self.starts += 1
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, self.argv)), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.soak.env,
                                            cwd=self.soak.folder)

    @property
    def pid(self):
        """Of the program itself, also where unshare stands before it; None: it is not there."""
        pid = self.process.pid
        with contextlib.suppress(OSError, IndexError):
            if self.apart:
                pid = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
            return pid
        return None

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, number)

    def tend(self):
        if self.stopped_until and time.monotonic() > self.stopped_until:
            self.stopped_until = 0
            self.signal(signal.SIGCONT)
        if self.process.poll() is not None:
            if self.steady:
                raise AssertionError(f"{self.name} ended with {self.process.returncode}:\n" +
                                     self.log.read_text(errors="replace")[-2000:])
            self.stopped_until = 0
            self.start()

    def figures(self):
        """Memory in bytes, descriptors, threads."""
        pid = self.pid
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        read = {key: int(n) for key, n in re.findall(r"^(VmRSS|Threads):\s+(\d+)", status, re.M)}
        return {f"memory of {self.name}": read["VmRSS"] * 1024,
                f"descriptors of {self.name}": len(os.listdir(f"/proc/{pid}/fd")),
                f"threads of {self.name}": read["Threads"]}

    def end(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(patience())
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Soak:
    """run(): for so many minutes; the drifts, and what was wrong besides."""

    def __init__(self, defib, folder, minutes, seed):
        self.bin, self.folder, self.seconds = str(defib), folder, minutes * 60
        self.seed, self.random = seed, random.Random(seed)
        self.every_s = min(10.0, self.seconds / 60)
        self.fault_s = min(15.0, self.seconds / 12)
        self.kept_s = int(max(10, min(120, self.seconds / 10)))
        self.series = collections.defaultdict(list)  # name: [(seconds, value)]
        self.injected = collections.Counter()
        self.pending = []  # (since, database, ids, name of the figure): killed, not yet recovered
        self.sent = {"postgres": [], "sqlite": []}
        self.effects = folder / "effects"
        self.effects.touch()
        self.env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "SOAK_EFFECTS": str(self.effects)}
        self.begun = self.server = self.port = None
        self.processes = []

    # ---- what is at work

    def command(self, *args):
        return subprocess.run([self.bin, *map(str, args)], capture_output=True, text=True,
                              env=self.env, cwd=self.folder, check=False, timeout=patience(),
                              stdin=subprocess.DEVNULL)

    def prepare(self):
        # Commits must survive a server that is stopped at once.
        self.server = PgServer({"synchronous_commit": "on"}).start()
        self.pg = databases.PgDatabase(self.server)
        self.lite = databases.LiteDatabase(self.folder / "soak.db")
        for db in (self.pg, self.lite):
            done = self.command("init", "--db", db.url)
            assert done.returncode == 0, done.stderr
        kept = "".join(f"  {what}: 1h\n" for what in ("done", "failed", "workers", "tokens"))
        self.config = self.folder / "soak.yaml"
        self.config.write_text(f'databases:\n  - {{name: main, url: "{self.pg.url}"}}\n'
                               f"retention:\n  every: 2s\n{kept}")
        self.processes = [self.worker("worker", self.pg, steady=True), self.worker("near", self.pg),
                          self.worker("far", self.pg, apart=chaos_run.may_unshare()),
                          self.worker("sqlite-worker", self.lite, steady=True),
                          self.worker("sqlite-near", self.lite),
                          Process(self, "daemon", [self.bin, "daemon", "-c", self.config,
                                                   "--listen", "127.0.0.1:0"], steady=True)]
        for process in self.processes:
            process.start()

    def worker(self, name, db, **how):
        job = 'echo "$DEFIB_JOB_ID $DEFIB_KIND" >>"$SOAK_EFFECTS"; exec sleep 1'
        return Process(self, name, [
            self.bin, "work", "-c", self.config, "--db", db.url, "--queue", "soak", "--name", name,
            "--concurrency", 3, "--lease", f"{LEASE_S}s", "--poll", "500ms", "--grace", "2s",
            "--crash-budget", "off", "--pass-environment", "SOAK_EFFECTS",
            "--spool", self.folder / "spool", "--", "/bin/sh", "-c", job], **how)

    def now(self):
        return time.monotonic() - self.begun

    def sql(self, db, query, *params):
        """None where a fault came between."""
        try:
            if db.engine == "sqlite":
                return db.sql(query.replace("defib.", "defib_").replace("%s", "?"), *params)
            return db.sql(query, *params)
        except CAUGHT:
            db.hang_up()
            return None

    # ---- jobs

    def enqueue(self):
        """What was acknowledged must have run when all is over."""
        rows = self.sql(self.pg, "SELECT defib.enqueue('soak', 'postgres', max_attempts => 1000) "
                        "FROM generate_series(1, 3)")
        self.sent["postgres"] += [row[0] for row in rows or ()]
        done = self.command("enqueue", "soak", "sqlite", "{}", "--max-attempts", 1000, "--db",
                            self.lite.url)
        self.sent["sqlite"] += [int(done.stdout)] if done.returncode == 0 else []

    def age(self):
        """What ended a while ago ended two hours ago: retention is to remove it."""
        for table, column, ended in (("job", "finished_at", "state = 'done'"),
                                     ("worker", "ended_at", "state <> 'alive'"),
                                     ("enqueued", "at", "true")):
            self.sql(self.pg, f"UPDATE defib.{table} SET {column} = {column} - interval '2 hours' "
                     f"WHERE {ended} AND {column} < now() - %s * interval '1 second' "
                     f"AND {column} > now() - interval '1 hour'", self.kept_s)
            now = int(time.time() * 1000)
            self.sql(self.lite, f"UPDATE defib.{table} SET {column} = {column} - 7200000 WHERE {ended} "
                     f"AND {column} < {now - self.kept_s * 1000} AND {column} > {now - 3600000}")

    def missing(self):
        """(engine, job) that were acknowledged and never ran."""
        ran = {tuple(line.split()) for line in self.effects.read_text().splitlines()}
        return [(engine, job) for engine, jobs in self.sent.items() for job in jobs
                if (str(job), engine) not in ran]

    # ---- readings

    def read(self):
        figures = {}
        for process in self.processes:
            if process.steady:
                figures.update(process.figures())
        rows = self.sql(self.pg, """
            SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'defib%%'),
                   sum(pg_table_size(c.oid)) FILTER (WHERE relname NOT LIKE 'ledger%%'),
                   sum(pg_indexes_size(c.oid)) FILTER (WHERE relname NOT LIKE 'ledger%%'),
                   sum(pg_total_relation_size(c.oid)) FILTER (WHERE relname LIKE 'ledger%%'),
                   (SELECT count(*) FROM defib.job WHERE state = 'queued')
            FROM pg_class c WHERE relnamespace = 'defib'::regnamespace AND relkind = 'r'"""
                        .replace("%%", "%"))
        if rows:
            figures.update(zip(("connections", "tables", "indexes", "ledger", "waiting"),
                               map(int, rows[0])))
        rows = self.sql(self.lite, "SELECT count(*) FROM defib.job WHERE state = 'queued'")
        if rows:
            figures["waiting, sqlite"] = rows[0][0]
        figures["file, sqlite"] = sum(path.stat().st_size for path in
                                      self.folder.glob("soak.db*"))
        figures.update(self.read_page())
        for name, value in figures.items():
            self.series[name].append((self.now(), value))

    def read_page(self):
        """Milliseconds for the page and its figures; a daemon answers whatever its database does."""
        if not self.port:
            found = re.search(r"http server started.*?address=\S*?:(\d+)",
                              self.processes[-1].log.read_text(errors="replace"))
            if not found:
                return {}
            self.port = int(found[1])
        begin = time.monotonic()
        for path in ("/", "/api/v1/status", "/metrics"):
            session = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience())
            try:
                session.request("GET", path)
                answer = session.getresponse()
                answer.read()
                assert answer.status == 200, f"{path} answers {answer.status}"
            finally:
                session.close()
        return {"page": (time.monotonic() - begin) * 1000}

    # ---- faults

    def kill(self, name, db):
        """One that has a job in hand; how long until nobody's are left with it?"""
        process = next(one for one in self.processes if one.name == name)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            rows = self.sql(db, "SELECT DISTINCT w.id FROM defib.worker w JOIN defib.job j "
                            "ON j.owner = w.id WHERE w.name = %s AND w.state = 'alive'", name)
            if rows:
                # unshare dies with what it has started, and has its own exit code.
                process.signal(signal.SIGKILL)
                self.pending.append((time.monotonic(), db, [row[0] for row in rows],
                                     f"recovery after a kill, {name}"))
                return True
            time.sleep(0.05)
        return False

    def kill_near(self):
        return self.kill("near", self.pg)

    def kill_far(self):
        return self.kill("far", self.pg)

    def kill_sqlite(self):
        return self.kill("sqlite-near", self.lite)

    def stop_one(self):
        one = self.random.choice([p for p in self.processes if not p.steady and not p.apart])
        one.signal(signal.SIGSTOP)
        one.stopped_until = time.monotonic() + LEASE_S * self.random.uniform(0.5, 2)
        return True

    def terminate_session(self):
        return self.sql(self.pg, "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM "
                        "pg_stat_activity WHERE application_name LIKE 'defib%' "
                        "ORDER BY random() LIMIT 1) one") is not None

    def restart(self):
        self.server.stop(signal.SIGQUIT)
        self.server.start()
        self.pg.hang_up()
        # Nobody is condemned while a server has just come up: not what a kill takes.
        self.pending = [one for one in self.pending if one[1] is not self.pg]
        return True

    def look_at_recoveries(self):
        for one in list(self.pending):
            since, db, ids, name = one
            marks = ", ".join(["%s"] * len(ids))
            rows = self.sql(db, f"SELECT count(*) FROM defib.job WHERE owner IN ({marks})", *ids)
            if rows == [(0,)]:
                self.series[name].append((self.now(), time.monotonic() - since))
                self.pending.remove(one)
            elif time.monotonic() - since > 60:
                raise AssertionError(f"jobs of {ids} are not recovered 60 s after the kill")

    def plan(self):
        """The next fault; the server is restarted every ten minutes, and once at least."""
        common = [self.kill_near, self.kill_far, self.kill_sqlite] * 3 + \
            [self.terminate_session] * 2 + [self.stop_one]
        restarts = max(1, round(self.seconds / 600))
        due = [self.seconds * (n + 0.5) / restarts for n in range(restarts)]
        while True:
            if due and self.now() > due[0]:
                due.pop(0)
                yield self.restart
            else:
                yield self.random.choice(common)

    # ---- the run

    def go_on(self):
        self.begun = time.monotonic()
        plan = self.plan()
        due = {"read": self.every_s, "fault": 5.0, "enqueue": 0.0, "age": 0.0}
        while self.now() < self.seconds:
            for process in self.processes:
                process.tend()
            self.look_at_recoveries()
            if self.now() >= due["enqueue"]:
                self.enqueue()
                due["enqueue"] = self.now() + 1.0
            if self.now() >= due["age"]:
                self.age()
                due["age"] = self.now() + 5.0
            if self.now() >= due["fault"]:
                fault = next(plan)
                if fault():
                    self.injected[fault.__name__] += 1
                due["fault"] = self.now() + self.fault_s * self.random.uniform(0.5, 1.5)
            if self.now() >= due["read"]:
                self.read()
                due["read"] += self.every_s
            time.sleep(0.05)

    def finish(self):
        """All that was acknowledged has run, and nothing is left open."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for process in self.processes:
                process.tend()
            self.look_at_recoveries()
            left = [self.sql(db, "SELECT count(*) FROM defib.job WHERE state IN ('queued', "
                             "'scheduled', 'running', 'cancelling')") for db in (self.pg, self.lite)]
            if left == [[(0,)], [(0,)]]:
                break
            time.sleep(0.2)
        else:
            raise AssertionError(f"open jobs two minutes after the last fault: {left}")
        lost = self.missing()
        assert not lost, f"acknowledged and never run: {len(lost)}, the first {lost[:5]}"

    def drifts(self):
        """Those of which there are enough readings; kills of a short run are few."""
        found = []
        for name in sorted(self.series):
            bound = BOUNDS.get(name.split()[0].rstrip(","))
            one = drift(name, self.series[name], bound) if bound else None
            found += [one] if one else []
        return found

    def run(self):
        try:
            self.prepare()
            self.go_on()
            self.finish()
        finally:
            for process in self.processes:
                if process.process:
                    process.end()
            if self.server:
                self.server.remove()
        return self.drifts()

    def table(self, drifts):
        """As lines, one for each figure."""
        lines = [f"{'figure':<36}{'begin':>10}{'end':>10}{'most':>10}{'added':>10}{'allowed':>10}"]
        for one in drifts:
            unit = UNITS.get(one.name.split()[0].rstrip(","), 1)
            lines.append(f"{one.name:<36}" + "".join(
                f"{value / unit:>10.2f}" for value in
                (one.first, one.last, one.most, one.added, one.allowed)) +
                ("  GROWS" if one.leaks else ""))
        said = {one.name for one in drifts}
        for name, series in sorted(self.series.items()):
            if name not in said:
                unit = UNITS.get(name.split()[0].rstrip(","), 1)
                values = [value for _, value in series]
                lines.append(f"{name:<36}{values[0] / unit:>10.2f}{values[-1] / unit:>10.2f}"
                             f"{max(values) / unit:>10.2f}  ({len(values)} readings, no bound)")
        return lines

    def write(self, path, drifts):
        path.write_text(json.dumps({
            "seconds": self.seconds, "seed": self.seed, "faults": dict(self.injected),
            "jobs": {engine: len(jobs) for engine, jobs in self.sent.items()},
            "drifts": [{**vars(one), "leaks": one.leaks} for one in drifts],
            "series": self.series}, indent=1) + "\n")
