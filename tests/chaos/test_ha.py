# SPDX-License-Identifier: Apache-2.0
"""High availability as people run it: Patroni's leader killed, frozen and cut off, again and again.

Workers, two daemons and two senders of jobs stand on three nodes (patroni.py), half of them
through HAProxy and half with all three hosts in their URL. What they did is taken from outside
the database: from what senders were told, from the lines that the jobs themselves wrote
(ha_job.c), and from which processes this test has ended and when. The database that survives
is then compared with these books.

A living worker is convicted if a job that it had ran a second time, or is recovered in the ledger,
or if it is registered as dead, though its process had not ended before. That is judged on the
timeline that survived, by the claims that are there: on an old primary that is cut off, those who
still reach it cannot know that the others live. Where replication is asynchronous, a failover
between two runs explains the second: the first one's claim, or its end, may be lost.

DEFIB_HA_FAULTS is the number of faults for both modes together (30), DEFIB_HA_SEED repeats their
order.
"""

import collections
import contextlib
import os
import pathlib
import random
import signal
import statistics
import subprocess
import threading
import time

import patroni
import psycopg2
import pytest
import results

from harness import chaos_run, invariants
from harness.daemon import Daemon
from harness.waiting import patience

pytestmark = pytest.mark.proof

HERE = pathlib.Path(__file__).parent
FAULTS = int(os.environ.get("DEFIB_HA_FAULTS", "30"))
LEASE_S = 6
SERVICE_S = 180  # more than ever happens: a fault that ends the service for good
MEND_S = 60
FINAL_S = 300
BATCH = 4

# True only where no claim is ever lost.
SYNCHRONOUS_ONLY = ("I1 an acknowledged enqueue", "I2 no epoch ran twice", "I2 done means",
                    "I3 what ran had been claimed", "the ledger calls late only")
# Of the chaos tests' program, which answers.
NOT_OURS = ("I2 a result is of the epoch",)

TABLES = """CREATE TABLE ha_probe (fault int); CREATE TABLE ha_late (fault int PRIMARY KEY);
INSERT INTO ha_late VALUES (0)"""

# When it was declared dead is not kept, but when its life is taken to have ended.
CONVICTED = """
SELECT name, EXTRACT(epoch FROM started_at)::float8 * 1000, cause, incarnation
FROM defib.worker WHERE state = 'dead'"""

RECOVERED = """
SELECT l.job, l.event, w.name, EXTRACT(epoch FROM w.started_at)::float8 * 1000,
       EXTRACT(epoch FROM l.at)::float8 * 1000, l.actor, l.verdict
FROM defib.ledger l LEFT JOIN defib.worker w ON w.id::text = l.evidence->>'owner'
WHERE l.watch = 'queue' AND l.verdict IS NOT NULL AND l.verdict <> 'none'
  AND l.event IN ('REQUEUED', 'RETRY_SCHEDULED', 'RETRIED', 'FAILED', 'HELD', 'ZOMBIE_DETECTED')"""


def now_ms():
    return time.time() * 1000


Run = collections.namedtuple("Run", "n job epoch token worker at")
Life = collections.namedtuple("Life", "number began ended killed")


class Book:
    """What the jobs wrote."""

    def __init__(self, path):
        self.path = path
        path.touch()
        path.chmod(0o666)

    def lines(self, what):
        for line in self.path.read_text().splitlines():
            kind, n, job, epoch, token, worker, at = line.split()
            if kind == what:
                yield Run(int(n), int(job), int(epoch), token, worker, int(at))

    def runs(self):
        """{n: its runs in their order}"""
        found = collections.defaultdict(list)
        for run in self.lines("start"):
            found[run.n].append(run)
        return {n: sorted(runs, key=lambda run: run.at) for n, runs in found.items()}

    def first_on(self, above):
        """When the first run of a claim on a later timeline began; None: there is none."""
        found = [run.at for run in self.lines("start") if timeline(run) > above]
        return min(found, default=None)


def timeline(run):
    return int(run.token.split("-")[0], 16)


def owner(run):
    """The worker of a claim, by its token."""
    return int(run.token.split("-")[2])


class Worker(chaos_run.Worker):
    """Of which is known when each of its processes began and was killed."""

    def __init__(self, run, name, url, apart):
        super().__init__(run, name, url, apart)
        self.lives = []  # the last one is the process that there is

    def start(self):
        self.lives.append(Life(len(self.lives), now_ms(), None, False))
        argv = [self.run.bin, "work", "--db", self.url, "--name", self.name, "--queue", "ha",
                "--concurrency", 6, "--lease", f"{LEASE_S}s", "--grace", "5s",
                "--spool", self.run.folder / f"spool-{self.name}",
                "--pass-environment", f"HA_BOOK={self.run.book.path}",
                "--pass-environment", f"HA_WORKER={self.name}.{self.lives[-1].number}",
                "--", self.run.program]
        if self.apart:
            argv = ["unshare", "--pid", "--fork", "--kill-child", *argv]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.run.env,
                                            cwd=self.run.folder)

    def ends(self):
        """The process that there is: no later than now."""
        if not self.lives[-1].ended:
            self.lives[-1] = self.lives[-1]._replace(ended=now_ms())

    def kill(self):
        """With all that it runs; noted before, so that nobody can have seen it earlier."""
        self.ends()
        self.lives[-1] = self.lives[-1]._replace(killed=True)
        self.signal(signal.SIGKILL)

    def tend(self):
        """One that found no database when it began gives up (exit code 4) and is started again."""
        if self.process.poll() is not None:
            self.ends()
        super().tend()

    def had_ended(self, began, before):
        """Whether the process that lived at `began` had ended `before` then."""
        return any(life.began <= began <= life.ended <= before
                   for life in self.lives if life.ended)


class Sender(threading.Thread):
    """Enqueues batches, one after the other, and keeps what it was told."""

    def __init__(self, run, first, url, spool):
        super().__init__(daemon=True)
        self.run_of, self.first, self.url = run, first, url
        self.options = ("--spool", run.folder / f"sender-{first}") if spool else ()
        self.told = {}  # n: (when it was sent, when it was acknowledged or None)
        self.over = threading.Event()
        self.draw = random.Random(run.seed + first)

    def run(self):
        n = self.first
        while not self.over.is_set():
            self.send(range(n, n + BATCH))
            n += BATCH
            self.over.wait(0.5)

    def send(self, numbers):
        lines = "".join(f'{{"n": {n}, "ms": {self.lasts()}}}\n' for n in numbers)
        sent = now_ms()
        done = self.run_of.command("enqueue", "ha", "plain", "--bulk", "-", "--max-attempts", 1000,
                                   *self.options, "--db", self.url, given=lines)
        acknowledged = now_ms() if done.returncode == 0 else None
        self.told.update({n: (sent, acknowledged) for n in numbers})
        if not acknowledged:
            with open(self.run_of.folder / f"sender-{self.first}.log", "a") as log:
                log.write(f"{sent:.0f} {now_ms():.0f} {done.stderr}")

    def lasts(self):
        """Most are short; some are longer than the service is away."""
        long = self.draw.random() < 0.08
        return self.draw.randrange(5000, 25000) if long else self.draw.randrange(20, 400)


class Fault:
    """One fault of the leader: what was done when, and what came of it."""

    def __init__(self, number, kind, node, before):
        self.number, self.kind, self.node, self.timeline = number, kind, node, before
        # Milliseconds: when standbys had all; of the fault; of the first commit by anybody, and of
        # the first run, on the new leader; of its end.
        self.safe = self.at = self.database = self.service = self.healed = None
        self.late_told = []

    def away_s(self):
        return (self.service - self.at) / 1000

    def database_s(self):
        return (self.database - self.at) / 1000


class Scenario:
    KINDS = ("killed", "switched off", "frozen", "cut off", "cut off from its peers")

    def __init__(self, defib, folder, synchronous, faults, seed):
        self.bin, self.folder, self.seed, self.n = defib.bin, folder, seed, faults
        self.defib, self.random = defib, random.Random(seed)
        self.env = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        self.program = folder / "ha_job"
        subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", self.program, HERE / "ha_job.c"],
                       check=True)
        self.book = Book(folder / "book")
        self.cluster = patroni.Cluster(synchronous)
        urls = (self.cluster.proxied, self.cluster.listed)
        self.workers = [Worker(self, f"w{i}", urls[i % 2], apart=i >= 2) for i in range(4)]
        self.senders = [Sender(self, 1, urls[0], False), Sender(self, 1000001, urls[1], True)]
        self.daemons, self.faults, self.found = [], [], []
        self.over, self.mended = None, 0

    def command(self, *args, given="", timeout=patience()):
        return subprocess.run([str(self.bin), *map(str, args)], input=given, capture_output=True,
                              text=True, env=self.env, cwd=self.folder, check=False,
                              timeout=timeout)

    def until(self, what, limit, why):
        """The first true answer; workers that have ended are started again meanwhile."""
        end = time.monotonic() + limit
        while not (answer := what()):
            for worker in self.workers:
                worker.tend()
            assert time.monotonic() < end, f"not within {limit} s: {why}\n{self.cluster.logs()}"
            time.sleep(0.1)
        return answer

    def until_healthy(self):
        """By itself, or with what its operator does."""
        look = time.monotonic() + MEND_S

        def healthy():
            nonlocal look
            if not self.cluster.healthy() and time.monotonic() > look:
                mended = self.cluster.mend()
                print(f"ha: not healthy after {MEND_S} s: {mended}", flush=True)
                self.mended += mended is not None
                look = time.monotonic() + MEND_S
            return self.cluster.healthy()

        self.until(healthy, patroni.HEALTHY_S, "a healthy cluster")

    # ---- faults

    def replicated(self):
        """Wait until all that is acknowledged by now is on both standbys; since when."""
        since = now_ms()
        at, = self.cluster.sql("SELECT pg_current_wal_insert_lsn()")[0]
        self.until(lambda: self.cluster.sql(
            "SELECT count(*) = 2 FROM pg_stat_replication WHERE flush_lsn >= %s::pg_lsn", at)[0][0],
            60, "the standbys have all")
        return since

    def strike(self, number, kind):
        self.until_healthy()
        seen = len(list(self.book.lines("start")))
        self.until(lambda: len(list(self.book.lines("start"))) > seen, 60, "jobs run")
        safe = self.replicated()
        node = self.until(self.cluster.leader, 60, "a leader")
        before, = self.cluster.sql("SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))"
                                   "::bit(32)::int")[0]
        fault = Fault(number, kind, node, before)
        self.faults.append(fault)
        fault.safe = safe
        late = node.connect() if kind == "frozen" else None
        time.sleep(self.random.uniform(0, 0.5))
        fault.at = now_ms()
        {"killed": lambda: node.signal(signal.SIGKILL, "postgres"),
         "switched off": node.off,
         "frozen": lambda: node.signal(signal.SIGSTOP),
         "cut off": node.cut,
         "cut off from its peers": lambda: node.cut(clients=True)}[kind]()
        probe = threading.Thread(target=self.probe, args=(fault,), daemon=True)
        probe.start()
        if number % 3 == 2:
            time.sleep(self.random.uniform(0, 3))
            self.random.choice(self.workers).kill()
        fault.service = self.until(lambda: self.book.first_on(before), SERVICE_S,
                                   f"service after the leader was {kind}")
        probe.join(patience())
        self.heal(fault, late)
        fault.healed = now_ms()

    def probe(self, fault):
        """When the new leader takes a write of somebody who has nothing to do with defib."""
        while not fault.healed and not fault.database:
            with contextlib.suppress(psycopg2.Error, AttributeError):
                with contextlib.closing(self.cluster.leader(but=fault.node).connect()) as session:
                    session.cursor().execute("INSERT INTO ha_probe VALUES (%s)", (fault.number,))
                    fault.database = now_ms()
            time.sleep(0.05)

    def heal(self, fault, late):
        node = fault.node
        if fault.kind == "switched off":
            node.on()
        elif fault.kind == "frozen":
            self.write_late(fault, late)
            node.signal(signal.SIGCONT)
        elif fault.kind.startswith("cut"):
            node.join()

    def write_late(self, fault, session):
        """The old primary wakes up before its Patroni does, and somebody still writes to it."""
        fault.node.signal(signal.SIGCONT, "postgres")

        def insert():
            with contextlib.suppress(psycopg2.Error), contextlib.closing(session), \
                    session.cursor() as cursor:
                cursor.execute("INSERT INTO ha_late VALUES (%s)", (fault.number,))
                fault.late_told.append("insert")

        def enqueue():
            line = f'{{"n": {-fault.number}, "ms": 1}}\n'
            done = self.command("enqueue", "ha", "late", "--bulk", "-", "--db", fault.node.url(),
                                given=line)
            if done.returncode == 0:
                fault.late_told.append("enqueue")

        writers = [threading.Thread(target=insert, daemon=True),
                   threading.Thread(target=enqueue, daemon=True)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(3)

    # ---- the run

    def prepare(self):
        self.cluster.start()
        done = self.command("init", "--db", self.cluster.listed)
        assert done.returncode == 0, done.stderr
        for statement in (invariants.TABLES, invariants.HISTORY_OF["postgres"], TABLES):
            self.cluster.sql(statement)
        for url in (self.cluster.proxied, self.cluster.listed):
            self.daemons.append(Daemon(self.defib, f"databases:\n  - name: main\n    url: {url}\n"))
        for one in (*self.workers, *self.senders):
            one.start()

    def run(self):
        kinds = [self.KINDS[i % len(self.KINDS)] for i in range(self.n)]
        self.random.shuffle(kinds)
        print(f"ha: seed {self.seed}, logs in {self.folder}", flush=True)
        self.prepare()
        for number, kind in enumerate(kinds, 1):
            self.strike(number, kind)
            fault = self.faults[-1]
            print(f"ha: {number} of {self.n}: {fault.node.name} {kind}: "
                  f"{fault.away_s():.1f} s without service, {fault.database_s():.1f} s without a "
                  "leader that commits", flush=True)
        for sender in self.senders:
            sender.over.set()
            sender.join(patience())
        self.until_healthy()
        self.drain_senders()
        self.until(lambda: self.cluster.sql(invariants.OPEN) == [(0,)], FINAL_S,
                   "every job is final")
        self.over = now_ms()
        for worker in self.workers:
            if not worker.end(30):
                self.found.append(f"{worker.name} did not leave within 30 s of SIGTERM")
            self.found += worker.complaints()
        for daemon in self.daemons:
            assert daemon.stop() == 0, daemon.log

    def drain_senders(self):
        """What is still stored with a sender goes with the next thing that it sends."""
        for sender in self.senders:
            last = sender.first + 900000
            sender.send([last])
            said = self.folder / f"sender-{sender.first}.log"
            assert sender.told[last][1], f"the last enqueue was refused:\n{said.read_text()}"

    def close(self):
        for sender in self.senders:
            sender.over.set()
        for one in self.daemons:
            one.kill()
        for worker in self.workers:
            if worker.process:
                worker.abandon()
        self.cluster.close(keep=self.folder)

    # ---- what must hold

    def told(self):
        return {n: told for sender in self.senders for n, told in sender.told.items()}

    def check(self):
        self.check_database()
        self.check_tokens()
        self.check_reruns()
        self.check_convictions()
        self.check_late_writes()
        return self.check_acknowledged()

    def wrong(self, what, rows):
        if rows:
            self.found.append(f"{what}: {len(rows)}, the first: {rows[:5]}")

    def check_database(self):
        """The queries of the chaos tests, on the timeline that survived."""
        ends = {(run.job, run.epoch) for run in self.book.lines("end")}
        starts = collections.Counter((run.job, run.epoch) for run in self.book.lines("start"))
        leader = self.cluster.leader()
        with contextlib.closing(leader.connect()) as session, session.cursor() as cursor:
            for (job, epoch), n in starts.items():
                cursor.execute("INSERT INTO chaos_effect VALUES (%s, %s, 0, %s, %s)",
                               (job, epoch, n, "done" if (job, epoch) in ends else "-"))
            for n, (_, acknowledged) in self.told().items():
                cursor.execute("INSERT INTO chaos_sent VALUES (%s, %s)",
                               (n, int(bool(acknowledged))))
            left_out = NOT_OURS if self.cluster.synchronous else (*NOT_OURS, *SYNCHRONOUS_ONLY)
            for index in invariants.INDEXES:
                cursor.execute(index)
            for what, query in invariants.CHECKS:
                if not what.startswith(left_out):
                    cursor.execute(query)
                    self.wrong(what, cursor.fetchall())

    def check_tokens(self):
        tokens = collections.Counter(run.token for run in self.book.lines("start"))
        self.wrong("a token of two runs", [token for token, n in tokens.items() if n > 1])
        self.wrong("a token without its timeline",
                   [run for run in self.book.lines("start") if not timeline(run)])

    def surviving(self):
        """{n: its runs whose claims are on the timeline that survived}"""
        claims = set(self.cluster.sql("SELECT job, epoch, owner FROM chaos_history "
                                      "WHERE was = 'queued' AND became = 'running'"))
        return {n: [run for run in runs if (run.job, run.epoch, owner(run)) in claims]
                for n, runs in self.book.runs().items()}

    def check_reruns(self):
        """Nobody's job ran again while it lived; and tokens of a job rise as its claims do."""
        again, unsorted = [], []
        for runs in self.surviving().values():
            for first, second in zip(runs, runs[1:]):
                worker = next(w for w in self.workers if w.name == first.worker.split(".")[0])
                lost = not self.cluster.synchronous and timeline(first) < timeline(second)
                if not lost and not worker.had_ended(first.at, second.at):
                    again.append((first, second))
                if first.token >= second.token:
                    unsorted.append((first, second))
        self.wrong("a job of a living worker ran again", again)
        self.wrong("a later claim has a lower token", unsorted)

    def check_convictions(self):
        by_name = {worker.name: worker for worker in self.workers}
        wrong = [row for row in self.cluster.sql(CONVICTED)
                 if not by_name[row[0]].had_ended(row[1], self.over)]
        self.wrong("a living worker was declared dead", wrong)
        wrong = [row for row in self.cluster.sql(RECOVERED)
                 if row[2] is None or not by_name[row[2]].had_ended(row[3], row[4])]
        self.wrong("a job of a living worker was recovered", wrong)

    def check_late_writes(self):
        """What an old primary took after it was frozen is not there; and nobody was told so."""
        self.wrong("a zombie's late write survived",
                   [row for row in self.cluster.sql("SELECT fault FROM ha_late") if row != (0,)])
        assert self.cluster.sql("SELECT count(*) FROM ha_late WHERE fault = 0") == [(1,)]
        self.wrong("a job that a zombie took ran",
                   [run for n, runs in self.book.runs().items() if n < 0 for run in runs])
        if self.cluster.synchronous:
            self.wrong("a zombie acknowledged a late write",
                       [(fault.number, fault.late_told) for fault in self.faults
                        if fault.late_told])

    def check_acknowledged(self):
        """What was lost of what was acknowledged, by fault."""
        done = {run.n for run in self.book.lines("end")}
        there = {n for n, in self.cluster.sql(
            "SELECT CAST(payload->>'n' AS bigint) FROM defib.job_data d "
            "JOIN defib.job j ON j.id = d.job WHERE j.state = 'done'")}
        lost = {n: told for n, told in self.told().items() if told[1] and n not in there}
        self.wrong("done, though no run of it came to its end", sorted(there - done))
        by_fault = collections.Counter()
        unexplained = []
        for n, (sent, acknowledged) in lost.items():
            cause = [fault for fault in self.faults
                     if sent <= fault.healed and acknowledged >= fault.safe]
            if self.cluster.synchronous or not cause:
                unexplained.append((n, sent, acknowledged))
            else:
                by_fault[cause[0].kind] += 1
        self.wrong("acknowledged and lost", unexplained)
        return by_fault


@pytest.fixture
def scenario(defib, tmp_path, request):
    why = patroni.missing()
    if why:
        pytest.skip(why)
    seed = int(os.environ.get("DEFIB_HA_SEED", random.randrange(1 << 30)))
    own = None
    try:
        synchronous = request.param == "synchronous"
        faults = FAULTS // 2 if synchronous else FAULTS - FAULTS // 2
        tmp_path.chmod(0o711)
        own = Scenario(defib, tmp_path, synchronous, faults, seed)
        yield own
    finally:
        if own:
            own.close()


def report(scenario, lost):
    """The figures, for people and for docs."""
    mode = "synchronous" if scenario.cluster.synchronous else "asynchronous"
    away = sorted(fault.away_s() for fault in scenario.faults)
    told = scenario.told()
    acknowledged = sum(1 for _, at in told.values() if at)
    runs = scenario.book.runs()
    again = sum(len(each) - 1 for each in runs.values())
    lost_runs = sum(map(len, runs.values())) - sum(map(len, scenario.surviving().values()))
    kills = sum(life.killed for worker in scenario.workers for life in worker.lives)
    database = sorted(fault.database_s() for fault in scenario.faults)
    figure = (f"median {statistics.median(away):.1f} s, longest {away[-1]:.1f} s; the database "
              f"itself: median {statistics.median(database):.1f} s, longest {database[-1]:.1f} s")
    print(f"ha: {mode}: {len(away)} faults of the leader; without service: {figure}; "
          f"{acknowledged} of {len(told)} enqueues acknowledged, {sum(lost.values())} of them lost "
          f"{dict(lost)}; {len(runs)} jobs ran, {again} runs again, {lost_runs} of claims that "
          f"were lost; {kills} workers killed; {scenario.mended} times an operator was needed for "
          "the cluster", flush=True)
    if scenario.found:
        return
    n, claim = len(away), f"Patroni, {mode}: "
    for text, shown, of in (
            ("faults of the leader after which the service came back and every job became final; "
             "no job settled twice, no token twice, no live worker declared dead, no late write of "
             "an old primary kept", f"{n} of {n}", n),
            (f"time without service (ttl {patroni.TTL_S} s), from the fault to the first job that "
             "was claimed on the new timeline", figure, n),
            ("acknowledged jobs that were lost", f"{sum(lost.values())} of {acknowledged}",
             acknowledged)):
        results.note(__file__, claim + text, shown, of)


@pytest.mark.parametrize("scenario", ["synchronous", "asynchronous"], indirect=True)
def test_nothing_is_lost_or_done_twice_when_the_leader_fails(scenario):
    scenario.run()
    lost = scenario.check()
    report(scenario, lost)
    assert not scenario.found, f"seed {scenario.seed}:\n" + "\n".join(scenario.found)
