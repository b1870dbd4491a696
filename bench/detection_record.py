#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Records what a reader of heartbeats saw while workers lived, died and were disturbed.

A real PostgreSQL, 40 real worker processes that each write one heartbeat a second, and one reader
that reads all of them ten times a second. 26 workers reach the server through one proxy, 14
through another, the reader directly. The reader also writes a heartbeat of its own, on a second
session. Every time is by CLOCK_BOOTTIME of the one host, in milliseconds since the recording
began; the database's clock is the only one that is set.

The trace is text, one line an event, ordered by its first time:

    v beat_ms reader_ms              first line: how often workers beat and the reader reads
    w T ID RACK                      worker ID was started
    k T ID                           … was killed by SIGKILL
    s T UNTIL ID                     … was stopped by SIGSTOP until then
    e T UNTIL NAME                   what was done to the database, the network or the reader
    r T END SESSION NOW ROWS…        a reading, in which session, the database's clock, and each
                                     row that is new since the last: ID:STAMP:SENT, as ms before
                                     NOW by the database's clock, and before END by the host's
    f T END                          a reading that failed
    m T END OK                       a heartbeat of the reader's own: 1 written, 0 not
"""

import contextlib
import gzip
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import psycopg2  # noqa: E402
import psycopg2.extensions  # noqa: E402
from harness.pgserver import BIN, PgServer, RunningClock, die_with_parent, signal_all  # noqa: E402
from harness.proxy import Proxy  # noqa: E402

BEAT_MS = 1000
READ_MS = 100
MANY, FEW = 26, 14  # workers behind each proxy
SEED = 20
CALL_S = 6  # a call of the reader's that takes longer is given up, as defib does
RETRY_S, RETRY_MOST_S = 0.2, 2.0  # workers back off, with full jitter
HEAVY = "SELECT sum(g) FROM generate_series(1, 300000) AS g;"

TABLE = "CREATE TABLE beats (worker integer PRIMARY KEY, stamp timestamptz, sent bigint)"
ENTER = "INSERT INTO beats VALUES (%s, clock_timestamp(), %s)"
BEAT = "UPDATE beats SET stamp = clock_timestamp(), sent = %s WHERE worker = %s"
NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
READ = "SELECT worker, (extract(epoch FROM stamp) * 1000)::bigint, sent FROM beats"


def boot_ms():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000


# ---- workers ----

def live(url, worker):
    """Until it is killed: a heartbeat each second, tried again until it is written."""
    session, entered, tries = None, False, 0
    due = time.monotonic()
    while True:
        try:
            if not session:
                session = psycopg2.connect(url, connect_timeout=5)
                session.autocommit = True
            with session.cursor() as cursor:
                if entered:
                    cursor.execute(BEAT, (boot_ms(), worker))
                else:
                    cursor.execute(ENTER + " ON CONFLICT DO NOTHING", (worker, boot_ms()))
                    entered = True
        except psycopg2.Error:
            with contextlib.suppress(psycopg2.Error):
                session and session.close()
            session = None
            time.sleep(random.uniform(0, min(RETRY_MOST_S, RETRY_S * 2 ** tries)))
            tries = min(tries + 1, 10)
            continue
        tries = 0
        due = max(due + BEAT_MS / 1000, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def nursery():
    """Forks a worker for each line `ID URL`, and says its pid: so they share their memory."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        worker, url = line.split()
        pid = os.fork()
        if pid == 0:
            die_with_parent()
            live(url, int(worker))
        print(pid, flush=True)
    os.killpg(0, signal.SIGKILL)


# ---- the reader ----

def wait_briefly(connection):
    """psycopg2 waits through this: no call of the reader's is unbounded."""
    end = time.monotonic() + CALL_S
    while True:
        state = connection.poll()
        if state == psycopg2.extensions.POLL_OK:
            return
        left = end - time.monotonic()
        reads = [connection.fileno()] if state == psycopg2.extensions.POLL_READ else []
        writes = [] if reads else [connection.fileno()]
        if left <= 0 or not any(select.select(reads, writes, [], left)):
            raise psycopg2.OperationalError("took too long")  # psycopg2 closes the session then


class Reader:
    def __init__(self, url, begun_ms):
        self.url, self.begun_ms = url, begun_ms
        self.lock = threading.Lock()
        self.seen = {}
        self.opened = 0

    def now(self):
        return boot_ms() - self.begun_ms

    def say(self, *words):
        with self.lock:
            print(*words, flush=True)

    def session(self, old):
        if old and not old.closed:
            return old
        new = psycopg2.connect(self.url, connect_timeout=5, options="-c statement_timeout=5s")
        new.autocommit = True
        return new

    def read(self, session):
        """The clock first and the rows then, as a scan of defib does."""
        with session.cursor() as cursor:
            cursor.execute(NOW)
            now = cursor.fetchone()[0]
            cursor.execute(READ)
            rows = cursor.fetchall()
        end = boot_ms()
        new = [row for row in rows if self.seen.get(row[0]) != row[1]]
        self.seen.update((row[0], row[1]) for row in new)
        return now, end, [f"{w}:{now - stamp}:{end - sent}" for w, stamp, sent in new]

    def look(self):
        session = None
        while True:
            due = time.monotonic() + READ_MS / 1000
            begin = self.now()
            try:
                fresh = self.session(session)
                self.opened += fresh is not session
                session = fresh
                now, end, rows = self.read(session)
                self.say("r", begin, end - self.begun_ms, self.opened, now, *rows)
            except psycopg2.Error:
                self.say("f", begin, self.now())
                if session and session.closed:
                    session = None
            time.sleep(max(0.0, due - time.monotonic()))

    def beat(self):
        session = None
        while True:
            due = time.monotonic() + 2 * READ_MS / 1000
            begin, written = self.now(), 0
            with contextlib.suppress(psycopg2.Error):
                session = self.session(session)
                with session.cursor() as cursor:
                    cursor.execute(BEAT.replace("beats", "readers"), (boot_ms(), 0))
                written = 1
            self.say("m", begin, self.now(), written)
            time.sleep(max(0.0, due - time.monotonic()))


def reader(url, begun_ms):
    die_with_parent()
    psycopg2.extensions.set_wait_callback(wait_briefly)
    own = Reader(url, int(begun_ms))
    threading.Thread(target=own.beat, daemon=True).start()
    own.look()


# ---- what is done to them ----

class World:
    def __init__(self, say):
        self.say = say
        self.random = random.Random(SEED)
        self.lines = []
        self.alive, self.stopped = {}, set()
        self.racks = {}
        self.timers = []
        self.next_id = 0

    def start(self):
        self.server = PgServer({"max_connections": "200"}, clocked=RunningClock).start()
        with contextlib.closing(self.server.connect()) as session:
            cursor = session.cursor()
            cursor.execute(TABLE)
            cursor.execute("CREATE TABLE readers (LIKE beats)")
            cursor.execute("INSERT INTO readers VALUES (0, now(), 0)")
        subprocess.run([BIN / "pgbench", "-i", "-q", "-s", "5", *self.bench_args()], check=True,
                       capture_output=True)
        self.proxies = {"many": Proxy(self.server.port, SEED).start(),
                        "few": Proxy(self.server.port, SEED + 1).start()}
        me = [sys.executable, __file__]
        self.nursery = subprocess.Popen([*me, "nursery"], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True,
                                        preexec_fn=die_with_parent)
        self.begun_ms = boot_ms()
        self.note("v", BEAT_MS, READ_MS)
        self.out = open(self.server.dir / "reader", "w+")
        self.reader = subprocess.Popen([*me, "reader", self.server.url(), str(self.begun_ms)],
                                       stdout=self.out)
        for rack, n in (("many", MANY), ("few", FEW)):
            for _ in range(n):
                self.hire(rack)
        return self

    def bench_args(self):
        return ["-h", str(self.server.dir), "-p", str(self.server.port), "-U", "postgres",
                "postgres"]

    def now(self):
        return boot_ms() - self.begun_ms

    def note(self, *words):
        self.lines.append(" ".join(map(str, words)))

    def hire(self, rack):
        self.next_id += 1
        url = f"postgres://postgres@127.0.0.1:{self.proxies[rack].port}/postgres"
        self.nursery.stdin.write(f"{self.next_id} {url}\n")
        self.nursery.stdin.flush()
        self.alive[self.next_id] = int(self.nursery.stdout.readline())
        self.racks[self.next_id] = rack
        self.note("w", self.now(), self.next_id, rack)

    def kill(self, worker):
        os.kill(self.alive.pop(worker), signal.SIGKILL)
        self.note("k", self.now(), worker)

    def someone(self, rack=None):
        free = [w for w in self.alive
                if w not in self.stopped and (not rack or self.racks[w] == rack)]
        # Whoever has just come was perhaps not seen yet.
        return self.random.choice(sorted(free)[:-4])

    def replace_one(self, after=3):
        """One is killed; another takes its place a little later."""
        worker = self.someone()
        rack = self.racks[worker]
        self.kill(worker)
        self.later(after, lambda: self.hire(rack))

    def later(self, seconds, act):
        self.timers.append((time.monotonic() + seconds, len(self.timers), act))

    def rest(self, seconds):
        """Timers go off meanwhile: everything is done by this one thread."""
        end = time.monotonic() + seconds
        assert self.reader.poll() is None, "the reader ended"
        while time.monotonic() < end:
            due = [t for t in self.timers if t[0] <= time.monotonic()]
            self.timers = [t for t in self.timers if t not in due]
            for _, _, act in sorted(due, key=lambda t: t[:2]):
                act()
            time.sleep(0.02)

    @contextlib.contextmanager
    def event(self, name):
        begin = self.now()
        self.say(f"{begin / 1000:7.1f} s  {name}")
        yield
        self.note("e", begin, self.now(), name)

    # Each of these is one kind of trouble.

    def calm_kills(self, n):
        for _ in range(n):
            self.replace_one()
            self.rest(2.5)

    def load(self, seconds):
        with self.event("load"):
            heavy = self.server.dir / "heavy"
            heavy.write_text(HEAVY)
            load = subprocess.Popen([BIN / "pgbench", "-n", "-c", "80", "-j", "2", "-T",
                                     str(seconds), "-b", "tpcb-like@9", "-f", f"{heavy}@1",
                                     *self.bench_args()],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while load.poll() is None:
                self.replace_one()
                self.rest(4)

    def stop_one(self, seconds):
        worker = self.someone()
        pid, begin = self.alive[worker], self.now()
        self.stopped.add(worker)
        os.kill(pid, signal.SIGSTOP)

        def go_on():
            os.kill(pid, signal.SIGCONT)
            self.note("s", begin, self.now(), worker)
            self.stopped.discard(worker)

        self.later(seconds, go_on)

    def stops(self, n):
        """Single workers are stopped, for one to 20 s, the short ones more often."""
        with self.event("stops"):
            for i in range(n):
                self.stop_one(1.0 * 20 ** ((i + 0.5) / n))
                self.rest(1.5)
            self.rest(20)

    def loss(self, seconds):
        """Answers and questions come late, as when packets are sent again and again."""
        with self.event("loss"):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for proxy in self.proxies.values():
                    proxy.be_silent(min(6.0, self.random.expovariate(1 / 0.8)))
                self.rest(0.1)
                if self.random.random() < 0.015:
                    self.replace_one()

    def partition(self, rack, seconds):
        with self.event(f"partition-{rack}"):
            self.proxies[rack].close_for(seconds)
            self.rest(seconds)

    def locked(self, mode, name, seconds):
        with self.event(name), contextlib.closing(self.server.connect()) as session:
            session.autocommit = False
            session.cursor().execute(f"LOCK TABLE beats, readers IN {mode} MODE")
            self.rest(seconds)
            session.rollback()

    def down(self, name, seconds, crash):
        self.replace_one(seconds + 8)
        self.rest(0.5)
        with self.event(name):
            if crash:
                self.server.kill()
            else:
                self.server.stop()
            self.replace_one(seconds + 8)
            self.rest(seconds)
            self.server.start()

    def frozen(self, seconds):
        with self.event("frozen"):
            pids = self.server.pids()
            signal_all(pids, signal.SIGSTOP)
            self.rest(seconds)
            signal_all(pids, signal.SIGCONT)

    def paused(self, seconds):
        """The reader itself is stopped; somebody dies meanwhile."""
        with self.event("reader-stopped"):
            self.reader.send_signal(signal.SIGSTOP)
            self.rest(seconds / 2)
            self.replace_one()
            self.rest(seconds / 2)
            self.reader.send_signal(signal.SIGCONT)

    def step(self, seconds):
        self.replace_one()
        self.rest(1)
        with self.event(f"clock{seconds:+d}"):
            self.server.clock.forward(seconds)
            self.rest(2)
        self.replace_one()

    def mass(self, rack, n, after):
        with self.event(f"mass-death-{n}"):
            for worker in sorted(w for w in self.alive if self.racks[w] == rack)[:n]:
                self.kill(worker)
            self.rest(after)
            for _ in range(n):
                self.hire(rack)

    def run(self):
        rest = self.rest
        rest(20)
        self.calm_kills(16)
        rest(8)
        self.load(45)
        rest(15)
        self.stops(30)
        rest(5)
        self.loss(60)
        rest(15)
        self.locked("SHARE", "writes-locked", 9)
        rest(20)
        self.partition("many", 10)
        rest(20)
        self.partition("few", 10)
        rest(20)
        self.down("restart", 6, crash=False)
        rest(25)
        self.down("crash", 12, crash=True)
        rest(30)
        self.frozen(10)
        rest(20)
        self.locked("ACCESS EXCLUSIVE", "table-locked", 9)
        rest(20)
        self.paused(7)
        rest(15)
        self.paused(16)
        rest(20)
        for seconds in (3, 60, -40):
            self.step(seconds)
            rest(20)
        self.mass("few", 12, 10)
        rest(20)
        self.mass("many", MANY, 15)
        rest(30)
        self.calm_kills(10)
        rest(70)

    def end(self):
        self.reader.kill()
        self.reader.wait()
        self.nursery.stdin.close()
        self.nursery.wait()
        for proxy in self.proxies.values():
            proxy.stop()
        self.out.seek(0)
        self.lines += self.out.read().splitlines()
        self.server.remove()
        first, *rest = self.lines
        return [first, *sorted(rest, key=lambda line: int(line.split()[1]))]


def record(path, say=print):
    world = World(say).start()
    try:
        world.run()
    finally:
        lines = world.end()
    path.parent.mkdir(exist_ok=True)
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as out:
        out.write("".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    {"nursery": nursery, "reader": reader,
     "record": lambda path: record(pathlib.Path(path))}[sys.argv[1]](*sys.argv[2:])
