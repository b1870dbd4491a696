# SPDX-License-Identifier: Apache-2.0
"""Chaos: workers run while processes, sessions and the server are taken away.

Several `defib work` processes run chaos_job.c; jobs are enqueued meanwhile;
and at random, from a seed that is printed, workers are killed, stopped beyond
their lease, asked to leave, cut off, and the server is restarted at once. A
killed worker is started again under its old name. When the faults are over,
everything must become final within a bound, the queries of
invariants.py must find nothing, and the model must allow the history of each
job (model_replay.py).

Some workers run in a PID namespace of their own (if we may): to the others they
are on another host, so that exits cannot be seen and only session and lease
count.
"""

import collections
import contextlib
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import threading
import time

import psycopg2
import pytest

from harness import invariants, model_replay
from harness.pgserver import PgServer
from harness.proxy import Proxy
from harness.waiting import patience

HERE = pathlib.Path(__file__).parent
LEASE_S = 1.5
# By design: 0 left in order, 4 the database was away at the start. Killed by us; asked to
# leave in its first moment, before it listens.
GOOD_EXITS = (0, 4, -signal.SIGKILL, -signal.SIGTERM)
ALARMS = ("Sanitizer", "runtime error:", "result not recorded", "Assertion")


def build_job(folder):
    program = folder / "chaos_job"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, HERE / "chaos_job.c"],
                   check=True)
    return program


def may_unshare():
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True,
                          check=False).returncode == 0


def started(pid):
    """In ticks since boot, as /proc and incarnations have it."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


class Worker:
    """One name; a process that is restarted whenever it has ended."""

    def __init__(self, run, name, url, apart):
        self.run, self.name, self.url, self.apart = run, name, url, apart
        self.log = run.folder / f"{name}.log"
        self.process = None
        self.exits = collections.Counter()
        self.seen = {}  # (pid, its start): when it was there, in microseconds since 1970
        self.began = 0

    def start(self):
        argv = [self.run.bin, "work", "--db", self.url, "--queue", "chaos", "--name", self.name,
                "--concurrency", self.run.concurrency, "--lease", f"{int(LEASE_S * 1000)}ms",
                "--poll", "200ms", "--grace", "2s", "--crash-budget", "off",
                "--pass-environment", "CHAOS_SEED", "--pass-environment", "CHAOS_EFFECTS",
                "--spool", self.run.folder / "spool", "--", self.run.program]
        if self.apart:
            argv = ["unshare", "--pid", "--fork", "--kill-child", *argv]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.run.env,
                                            cwd=self.run.folder)
        self.began = started(self.process.pid)

    def signal(self, number):
        """To the worker itself, even if unshare is its parent."""
        pid = self.process.pid
        if self.apart:
            try:
                path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
                pid = int(path.read_text().split()[0])
            except (OSError, IndexError):
                return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def tend(self):
        """Start it again when it has ended."""
        now_us = time.time_ns() // 1000
        if self.process.poll() is None:
            self.seen[self.process.pid, self.began] = now_us
        else:
            self.exits[self.process.returncode] += 1
            self.start()

    def end(self, limit_s):
        """Ask it to leave, a second time after half of the limit."""
        for _ in range(2):
            self.signal(signal.SIGTERM)
            try:
                self.exits[self.process.wait(limit_s / 2)] += 1
                return True
            except subprocess.TimeoutExpired:
                continue
        self.abandon()
        return False

    def abandon(self):
        self.signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def complaints(self):
        # unshare has one code for all signals that end what it started.
        good = (*GOOD_EXITS, 1) if self.apart else GOOD_EXITS
        bad = {code: n for code, n in self.exits.items() if code not in good}
        said = [line for line in self.log.read_text(errors="replace").splitlines()
                if any(word in line for word in ALARMS)]
        return ([f"{self.name} ended with {bad}"] if bad else []) + said[:5]


class Chaos:
    """run(): everything; raises AssertionError with all that was found wrong."""

    def __init__(self, defib, db, folder, seed, jobs, kills, others, server=None, workers=4,
                 concurrency=6, step_s=(0.05, 0.3), settle_s=60, restarts=None):
        self.bin, self.db, self.folder, self.server = defib, db, folder, server
        self.seed, self.jobs, self.kills, self.others = seed, jobs, kills, others
        self.concurrency, self.step_s, self.settle_s = concurrency, step_s, settle_s
        usual = max(1, others // 30) if server else 0
        self.restarts = usual if restarts is None else restarts
        self.random = random.Random(seed)
        self.program = build_job(folder)
        self.effects = folder / "effects"
        self.effects.touch()
        self.env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "CHAOS_SEED": str(seed),
                    "CHAOS_EFFECTS": str(self.effects),
                    **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
        self.proxy = Proxy(server.port, seed).start() if server else None
        self.urls = self._urls()
        apart = may_unshare()
        self.workers = [Worker(self, f"w{i}", self.urls[i % len(self.urls)], apart and i % 4 == 3)
                        for i in range(workers)]
        self.wakes = []  # (when, worker, process): stopped ones to be continued
        self.sent = {}   # n: 1 acknowledged, 0 not
        self.injected = collections.Counter()
        self.runs = []   # (us, start or end, job, epoch), as the jobs wrote

    def _urls(self):
        if not self.proxy:
            return [self.db.url]
        # The server's port stands in the address once: the proxy's takes its place.
        return [self.db.url, re.sub(rf":{self.server.port}/", f":{self.proxy.port}/", self.db.url)]

    def sql(self, query, *params):
        if self.db.engine == "sqlite":
            return self.db.sql(re.sub(r"\bdefib\.", "defib_", query), *params)
        # The faults hit the driver's own session too; what it asks may be asked again.
        for _ in range(100):
            try:
                return self.db.sql(query, *params)
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                time.sleep(0.1)
        return self.db.sql(query, *params)

    def command(self, *args, url=None, given=""):
        return subprocess.run([str(self.bin), *map(str, args), "--db", url or self.db.url],
                              input=given, capture_output=True, text=True, env=self.env,
                              check=False)

    # ---- jobs

    def enqueue(self, first, count, draw):
        """One transaction; acknowledged means that the command said so."""
        kind, more = draw.choices(
            [("plain", ("--max-attempts", 1000)), ("doomed", ("--max-attempts", 2)),
             ("slow", ("--max-attempts", 1, "--timeout", "300ms"))], (90, 5, 5))[0]
        count = count if kind == "plain" else min(count, 2)
        lines = "".join(f'{{"n": {n}}}\n' for n in range(first, first + count))
        done = self.command("enqueue", "chaos", kind, "--bulk", "-", *more,
                            url=draw.choice(self.urls), given=lines)
        for n in range(first, first + count):
            self.sent[n] = int(done.returncode == 0)
        return count

    def feed(self, faults_over):
        """Enqueue while faults go on, so that there is always work, and a few cancels."""
        draw = random.Random(self.seed + 1)
        batch = max(5, self.jobs // 200)
        n = 0
        while n < self.jobs:
            n += self.enqueue(n, min(batch, self.jobs - n), draw)
            if draw.random() < 0.3:
                self.command("cancel", draw.randint(1, n))
            goal = self.progress()
            while not faults_over.is_set() and n > self.jobs * goal:
                time.sleep(0.02)
                goal = self.progress()

    def progress(self):
        """How many of the jobs should exist by now: slightly ahead of the faults."""
        return 0.1 + sum(self.injected.values()) / (self.kills + self.others + self.restarts)

    # ---- faults

    def kill(self):
        return self.random.choice(self.workers).signal(signal.SIGKILL)

    def term(self):
        return self.random.choice(self.workers).signal(signal.SIGTERM)

    def stop(self):
        worker = self.random.choice(self.workers)
        until = time.monotonic() + LEASE_S * self.random.uniform(0.5, 2.5)
        self.wakes.append((until, worker, worker.process))
        return worker.signal(signal.SIGSTOP)

    def terminate_session(self):
        try:
            self.db.sql("SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity "
                        "WHERE application_name = 'defib' ORDER BY random() LIMIT 1) one")
        except psycopg2.Error:
            return False
        return True

    def cut(self):
        return self.proxy.cut()

    def lose_answer(self):
        return self.proxy.lose_answer()

    def be_silent(self):
        return self.proxy.be_silent(self.random.uniform(0.5, 3))

    def restart(self):
        self.server.stop(signal.SIGQUIT)
        time.sleep(self.random.uniform(0, 1))
        self.server.start()
        with contextlib.suppress(psycopg2.Error):
            self.sql("SELECT 1")  # our own session learns that it is gone
        return True

    def hold_lock(self):
        """SQLite: another session writes for a while."""
        session = sqlite3.connect(self.db.path, timeout=0.1, isolation_level=None)
        try:
            session.execute("BEGIN IMMEDIATE")
            time.sleep(self.random.uniform(0.1, 0.8))
        except sqlite3.OperationalError:
            return False  # a worker that we stopped may hold it: it must be woken first
        finally:
            session.close()
        return True

    def plan(self):
        """All faults of this run in their order; usually few restarts, for each costs a second."""
        common = [self.term, self.stop]
        kinds = common + ([self.terminate_session, self.terminate_session, self.cut, self.cut,
                           self.lose_answer, self.lose_answer, self.be_silent]
                          if self.server else [self.hold_lock, self.hold_lock])
        faults = [self.kill] * self.kills
        faults += [kinds[i % len(kinds)] for i in range(self.others)]
        if self.server:
            faults += [self.restart] * self.restarts
        self.random.shuffle(faults)
        return faults

    def wake_stopped(self, everybody=False):
        now = time.monotonic()
        due = [w for w in self.wakes if everybody or w[0] <= now]
        self.wakes = [w for w in self.wakes if w not in due]
        for _, worker, process in due:
            if worker.process is process:
                worker.signal(signal.SIGCONT)

    def tend(self):
        self.wake_stopped()
        for worker in self.workers:
            worker.tend()

    def inject(self):
        for fault in self.plan():
            pause = time.monotonic() + self.random.uniform(*self.step_s)
            while time.monotonic() < pause:
                self.tend()
                time.sleep(0.02)
            end = time.monotonic() + 10
            while not fault() and time.monotonic() < end:
                self.tend()
                time.sleep(0.02)
            self.injected[fault.__name__] += 1
        self.wake_stopped(everybody=True)

    # ---- the run

    def wait_final(self):
        """Seconds from the last fault until no job is open and the dead are known; None: too long."""
        begun, alive = time.monotonic(), dict(self.sql(invariants.ALIVE))
        while time.monotonic() < begun + patience(self.settle_s):
            self.tend()
            # A worker that is gone never renews again; a count could hide it behind its successor.
            unheard = alive.items() & dict(self.sql(invariants.ALIVE)).items()
            if self.sql(invariants.OPEN) == [(0,)] and not unheard:
                return time.monotonic() - begun
            time.sleep(0.1)
        return None

    def load_evidence(self):
        rows = {}
        for line in self.effects.read_text().splitlines():
            what, job, epoch, pid, fate, us = line.split()
            self.runs.append((int(us), what, int(job), int(epoch)))
            key = (int(job), int(epoch))
            if what == "start":
                before = rows.get(key, (0, 0, "-"))
                rows[key] = (int(pid), before[1] + 1, before[2])
            else:
                rows[key] = (*rows[key][:2], fate)
        self.write_all("chaos_effect", [(*key, *row) for key, row in rows.items()])
        self.write_all("chaos_sent", list(self.sent.items()))

    def write_all(self, table, rows):
        session = self.db.connect()
        mark = "?" if self.db.engine == "sqlite" else "%s"
        cursor = session.cursor()
        cursor.execute("BEGIN")
        for row in rows:
            cursor.execute(f"INSERT INTO {table} VALUES ({', '.join([mark] * len(row))})", row)
        cursor.execute("COMMIT")
        session.close()

    def violations(self):
        found = []
        for index in invariants.INDEXES:
            self.sql(index)
        for what, query in invariants.CHECKS:
            rows = self.sql(query)
            if rows:
                found.append(f"{what}: {len(rows)} rows, the first: {rows[:5]}")
        return found

    def forbidden(self):
        """What really happened, against the model."""
        histories, found = model_replay.told(
            self.sql(invariants.ROWS), self.sql(invariants.WORKERS), self.runs,
            self.sql(invariants.LATE), self.sql(invariants.RECOVERED), self.seen_until(),
            coarse_us=1000 if self.db.engine == "sqlite" else 0)
        refused = model_replay.refusals(histories)
        self.replayed = len(histories)
        if refused:
            found.append(f"the model forbids {len(refused)} histories, the first: {refused[0]}")
        return found

    def seen_until(self):
        """{incarnation: us} of processes whose pids mean the same to us."""
        namespace = os.stat("/proc/self/ns/pid").st_ino
        seen = {pid: us for worker in self.workers for pid, us in worker.seen.items()}
        last = {}
        for _, incarnation in self.sql("SELECT id, incarnation FROM defib.worker ORDER BY id"):
            _, _, ns, _, pid, start, _ = incarnation.split("/")
            if int(ns) == namespace and (int(pid), int(start)) in seen:
                last[incarnation] = seen[int(pid), int(start)]
        return last

    def prepare(self):
        done = self.command("init")
        assert done.returncode == 0, done.stderr
        for statement in (invariants.TABLES, invariants.HISTORY_OF[self.db.engine]):
            self.db.sql(statement)

    def run(self):
        print(f"chaos: seed {self.seed}, {self.db.engine}, logs in {self.folder}", flush=True)
        self.prepare()
        over = threading.Event()
        feeder = threading.Thread(target=self.feed, args=(over,))
        found = []
        try:
            for worker in self.workers:
                worker.start()
            feeder.start()
            try:
                self.inject()
            finally:
                over.set()
                feeder.join()
            took = self.wait_final()
            if took is None:
                found.append(f"not final within {self.settle_s} s of the last fault")
            for worker in self.workers:
                if not worker.end(20):
                    found.append(f"{worker.name} did not leave within 20 s of SIGTERM")
        finally:
            for worker in self.workers:
                worker.abandon()
            if self.proxy:
                self.proxy.stop()
        self.load_evidence()
        found += self.violations() + self.forbidden()
        found += [line for worker in self.workers for line in worker.complaints()]
        self.report(took)
        assert not found, f"chaos with seed {self.seed}:\n" + "\n".join(found)

    def report(self, took):
        states = dict(self.sql("SELECT state, count(*) FROM defib.job GROUP BY state"))
        events = dict(self.sql("SELECT event, count(*) FROM defib.ledger GROUP BY event"))
        causes = dict(self.sql("SELECT coalesce(cause, state), count(*) FROM defib.worker "
                               "GROUP BY 1"))
        exits = sum((w.exits for w in self.workers), collections.Counter())
        acknowledged = sum(self.sent.values())
        print(f"chaos: {self.replayed} histories replayed against the model; "
              f"final {took if took is None else round(took, 1)} s after the last fault; "
              f"{acknowledged} of {len(self.sent)} enqueues acknowledged; jobs {states}; "
              f"faults {dict(self.injected)}; ledger {events}; workers {causes}; "
              f"exits {dict(exits)}", flush=True)


# Commits must survive a server that is stopped at once, though not the machine.
DURABLE = {"synchronous_commit": "on"}


def chosen_seed():
    return int(os.environ.get("CHAOS_SEED", random.randrange(1 << 30)))


@pytest.fixture
def durable_server():
    own = PgServer(DURABLE)
    try:
        yield own.start()
    finally:
        own.remove()
