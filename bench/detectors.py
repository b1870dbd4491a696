# SPDX-License-Identifier: Apache-2.0
"""Detectors of dead workers, replayed over one recorded trace, and how well each did.

A detector is a function of the trace that returns verdicts (worker, ms, stamp): when it declared
which worker dead, and that worker's last heartbeat. It sees what the reader read, when, and by
which clock; never what was really done to the workers. A worker that was declared dead is ignored
until it writes another heartbeat. defib's verdicts come from its own code, by
bench/detector.c. detection_record.py describes the trace.
"""

import collections
import dataclasses
import gzip
import math
import subprocess

AFTER_MS = 20000  # a mistake so long after a disturbance is still its doing


@dataclasses.dataclass
class Reading:
    begin: int
    end: int
    now: int = 0  # the database's clock
    rows: list = None  # (worker, stamp by the database's clock, sent by the host's); None: failed


class Trace:
    def __init__(self, path):
        self.text = gzip.decompress(path.read_bytes()).decode()
        self.readings, self.events, self.stops = [], [], collections.defaultdict(list)
        self.hired, self.killed, self.racks = {}, {}, {}
        for line in self.text.splitlines():
            kind, *words = line.split()
            getattr(self, f"_{kind}")(*words)
        self.end = self.readings[-1].end

    def _v(self, beat, read):
        self.beat, self.read = int(beat), int(read)

    def _w(self, at, worker, rack):
        self.hired[int(worker)], self.racks[int(worker)] = int(at), rack

    def _k(self, at, worker):
        self.killed[int(worker)] = int(at)

    def _s(self, begin, end, worker):
        self.stops[int(worker)].append((int(begin), int(end)))

    def _e(self, begin, end, name):
        self.events.append((int(begin), int(end), name))

    def _r(self, begin, end, _session, now, *rows):
        end, now = int(end), int(now)
        cells = (tuple(map(int, row.split(":"))) for row in rows)
        self.readings.append(Reading(int(begin), end, now, [
            (worker, now - age, end - ago) for worker, age, ago in cells]))

    def _f(self, begin, end):
        self.readings.append(Reading(int(begin), int(end)))

    def _m(self, *_):
        """Only detector.c asks whether the reader could write."""

    def places(self):
        """{worker: place}: who is started takes the place of the dead that was left first."""
        places, empty = {}, collections.defaultdict(list)
        deaths = sorted((at, worker) for worker, at in self.killed.items())
        for worker, at in self.hired.items():
            while deaths and deaths[0][0] <= at:
                dead = deaths.pop(0)[1]
                empty[self.racks[dead]].append(places[dead])
            free = empty[self.racks[worker]]
            places[worker] = free.pop(0) if free else len(places)
        return places

    def fleets(self, n):
        """The trace as it would be of n installations, each with every n-th place: as texts."""
        texts, places = [[] for _ in range(n)], self.places()
        for line in self.text.splitlines():
            words = line.split(" ", 5)
            rows = [[] for _ in range(n)]
            for row in words.pop().split() if words[0] == "r" and len(words) > 5 else ():
                rows[places[int(row.partition(":")[0])] % n].append(row)
            for text, own in zip(texts, rows):
                text.append(" ".join(words + own))
        return ["".join(f"{line}\n" for line in text) for text in texts]

    def worker_hours(self):
        lived = (self.killed.get(worker, self.end) - at for worker, at in self.hired.items())
        return sum(lived) / 3600000

    def beats(self):
        return sum(len(reading.rows or ()) for reading in self.readings)


class Table:
    """What the reader knows of the workers: the last heartbeat of each, and when it saw it."""

    def __init__(self):
        self.stamp, self.sent, self.seen, self.judged = {}, {}, {}, {}

    def take(self, reading):
        for worker, stamp, sent in reading.rows:
            self.stamp[worker], self.sent[worker] = stamp, sent
            self.seen[worker] = reading.end

    def workers(self):
        return [w for w, stamp in self.stamp.items() if self.judged.get(w) != stamp]

    def declare(self, worker, at):
        self.judged[worker] = self.stamp[worker]
        return worker, at, self.stamp[worker]


def replay(trace, silent, every=0, heard=None):
    """Verdicts of silent(table, worker, reading), asked once in `every` ms."""
    table, due = Table(), 0
    for reading in trace.readings:
        if reading.rows is None:
            continue
        if heard:
            for row in reading.rows:
                heard(table, row, reading)
        table.take(reading)
        if reading.begin < due:
            continue
        due = max(due + every, reading.begin - every) if due else reading.begin + every
        for worker in table.workers():
            if silent(table, worker, reading):
                yield table.declare(worker, reading.end)


# ---- a fixed time-out ----

def fixed(trace, limit, every=0, host_clock=False):
    """Older than the limit: by the database's clock, or by the clock of a program on a host."""
    def silent(table, worker, reading):
        if host_clock:
            return reading.end - table.sent[worker] > limit
        return reading.now - table.stamp[worker] > limit

    return replay(trace, silent, every)


# ---- estimators ----

class Window:
    """The last n values, their mean and deviation."""

    def __init__(self, n, first):
        self.values, self.n = collections.deque(), n
        self.sum = self.squares = 0.0
        for value in first:
            self.add(value)

    def add(self, value):
        self.values.append(value)
        self.sum += value
        self.squares += value * value
        if len(self.values) > self.n:
            old = self.values.popleft()
            self.sum -= old
            self.squares -= old * old

    def mean(self):
        return self.sum / len(self.values)

    def deviation(self):
        return math.sqrt(max(0.0, self.squares / len(self.values) - self.mean() ** 2))


def phi_normal(elapsed, window, pause):
    """Hayashibara's, in Akka's form: the logistic curve for the normal one, and a pause."""
    deviation = max(100.0, window.deviation())
    y = (elapsed - window.mean() - pause) / deviation
    e = math.exp(min(700.0, max(-700.0, -y * (1.5976 + 0.070566 * y * y))))
    tail = e / (1.0 + e) if y > 0 else 1.0 - 1.0 / (1.0 + e)
    return -math.log10(max(tail, 1e-300))


def phi_exponential(elapsed, window, _pause):
    """Cassandra's."""
    return elapsed / window.mean() / math.log(10)


def phi(trace, threshold, of=phi_normal, pause=0, samples=1000):
    """Times between heartbeats by the reader's own clock; none is learned from a suspected one."""
    windows, last = {}, {}

    def value(worker, reading):
        return of(reading.end - last[worker], windows[worker], pause)

    def heard(table, row, reading):
        worker = row[0]
        if worker not in windows:
            windows[worker] = Window(samples, (0.75 * trace.beat, 1.25 * trace.beat))
        elif value(worker, reading) < threshold:
            windows[worker].add(reading.end - last[worker])
        last[worker] = reading.end

    def silent(table, worker, reading):
        # Nobody is suspected before it is late at all.
        return (reading.end - last[worker] > 0.5 * trace.beat
                and value(worker, reading) >= threshold)

    return replay(trace, silent, heard=heard)


def chen(trace, margin, samples=100):
    """Chen, Toueg and Aguilera: the next arrival that is expected, and a constant margin."""
    windows, last, first = {}, {}, {}

    def heard(table, row, reading):
        worker, _, sent = row
        first.setdefault(worker, sent)
        number = round((sent - first[worker]) / trace.beat)  # of its slot in the schedule
        windows.setdefault(worker, Window(samples, ())).add(
            reading.end - first[worker] - number * trace.beat)
        last[worker] = number

    def silent(table, worker, reading):
        expected = windows[worker].mean() + (last[worker] + 1) * trace.beat + first[worker]
        return reading.end > expected + margin

    return replay(trace, silent, heard=heard)


# ---- the rules of others ----

def bullmq(trace, lock, every):
    """The lock has run out, and was not renewed since the check before this one."""
    checked = {}

    def silent(table, worker, reading):
        before = checked.get(worker)
        checked[worker] = table.stamp[worker]
        return before == table.stamp[worker] and reading.now - table.stamp[worker] > lock

    return replay(trace, silent, every)


@dataclasses.dataclass
class Peer:
    name: str
    rule: str
    beats: str  # its limit and its check, in heartbeats
    run: object


PEERS = [
    Peer("Temporal", "heartbeat time-out; the SDK beats at 0.8 of it; a timer of the server's",
         "1.25, at once", lambda t: fixed(t, 1.25 * t.beat, 0)),
    Peer("BullMQ", "lock of 30 s, renewed every 15 s; checked every 30 s, in two phases",
         "2, every 2", lambda t: bullmq(t, 2 * t.beat, 2 * t.beat)),
    Peer("Solid Queue", "heartbeat 60 s, dead after 5 min, checked every 5 min; Ruby's clock",
         "5, every 5", lambda t: fixed(t, 5 * t.beat, 5 * t.beat, host_clock=True)),
    Peer("Procrastinate", "heartbeat 10 s, stalled after 30 s; the documented task runs every "
         "10 min", "3, every 60", lambda t: fixed(t, 3 * t.beat, 60 * t.beat)),
    Peer("Airflow", "heartbeat 5 s, dead after 300 s, checked every 10 s; Python's clock",
         "60, every 2", lambda t: fixed(t, 60 * t.beat, 2 * t.beat, host_clock=True)),
]


# ---- defib ----

class Defib:
    """The program that is compiled from defib's own rules."""

    def __init__(self, program, trace, fleets=1):
        self.program, self.trace = program, trace
        self.texts = trace.fleets(fleets) if fleets > 1 else [trace.text]

    def run(self, *words):
        out = (subprocess.run([str(self.program), *map(str, words)], input=text, text=True,
                              capture_output=True, check=True).stdout for text in self.texts)
        return [tuple(map(int, line.split())) for part in out for line in part.splitlines()]

    def watch(self, stuck_after, every, *without):
        return self.run("watch", self.trace.beat, round(stuck_after), round(every), *without)

    def lease(self, lease, *without):
        return self.run("lease", round(lease), *without)


# ---- how well it did ----

@dataclasses.dataclass
class Score:
    mistakes: int
    causes: collections.Counter
    hours: float
    found: dict  # {worker: seconds from its death to its detection}
    deaths: int

    def at(self, share):
        """Within which time so many of all deaths were found; infinite: that many never were."""
        times = sorted(self.found.values()) + [math.inf] * (self.deaths - len(self.found))
        return times[max(0, math.ceil(share * self.deaths) - 1)]

    def rate(self):
        return self.mistakes / self.hours

    def median(self):
        return self.at(0.5)

    def p99(self):
        return self.at(0.99)


def cause_of(trace, worker, at):
    """What was done to the worker, else what was done to all of them last."""
    if any(begin <= at <= end + 2 * trace.beat for begin, end in trace.stops[worker]):
        return "stops"
    near = [name for begin, end, name in trace.events
            if begin <= at <= end + AFTER_MS and name != "stops"]
    return near[-1] if near else "calm"


def score(trace, verdicts):
    found, causes = {}, collections.Counter()
    for worker, at, stamp in verdicts:
        died = trace.killed.get(worker)
        if died is not None and at >= died:
            found.setdefault(worker, (at - died) / 1000)
            continue
        causes[cause_of(trace, worker, at)] += 1
        # If it never beats again, the mistake has become the truth.
        if died is not None and stamp == last_stamp(trace, worker):
            found.setdefault(worker, 0.0)
    return Score(sum(causes.values()), causes, trace.worker_hours(), found,
                 len(trace.killed))


def last_stamp(trace, worker):
    if not hasattr(trace, "last"):
        trace.last = {row[0]: row[1] for reading in trace.readings for row in reading.rows or ()}
    return trace.last.get(worker)
