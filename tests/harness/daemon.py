# SPDX-License-Identifier: Apache-2.0
"""What the tests of `defib daemon` use: daemons, a table with heartbeats, its worker processes.

Half of the rows are judged as those of a beating worker (owner, second look, brake), half by age
alone, where only doubt can delay a verdict.
"""

import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

from harness.databases import stopped
from harness.queue_workers import Worker
from harness.waiting import eventually, patience

HERE = pathlib.Path(__file__).parent
BEAT_S, STUCK_S = 2, 5

CREATE = """
CREATE TABLE jobs (
    id      bigint PRIMARY KEY,
    lane    text NOT NULL,
    status  text NOT NULL DEFAULT 'queued',
    owner   text,
    beat_at timestamptz,
    done    int NOT NULL DEFAULT 0
);
CREATE INDEX ON jobs (beat_at, id) WHERE status = 'running'
"""

BEATING = """
  - name: beating
    table: jobs
    key: id
    running: status = 'running' AND lane = 'beating'
    owner: owner
    alive_at: beat_at
    beat: {beat}s
    stuck_after: {stuck}s
    requeue: status = 'queued', owner = NULL
    every: {every}
"""

AGED = """
  - name: aged
    table: jobs
    key: id
    running: status = 'running' AND lane = 'aged'
    alive_at: beat_at
    stuck_after: {stuck}s
    requeue: status = 'queued', owner = NULL
    every: {every}
"""


def make_jobs(db, n, lanes=("beating", "aged")):
    db.sql(CREATE)
    db.sql("INSERT INTO jobs (id, lane) SELECT i, (%s::text[])[1 + i %% %s] "
           "FROM generate_series(1, %s) i", list(lanes), len(lanes), n)


def config(url, *watches, beat=BEAT_S, stuck=STUCK_S, every="500ms", guard=None):
    """A configuration of watches; `guard` is the text of that option for each."""
    text = "".join(watches or (BEATING, AGED)).format(beat=beat, stuck=stuck, every=every)
    if guard:
        text = text.replace("    every:", f"    guard: {guard}\n    every:")
    return f"databases:\n  - name: main\n    url: {url}\nwatches:{text}"


class Daemon(Worker):
    """One `defib daemon`; its log is a file."""

    _numbers = itertools.count(1)

    def __init__(self, program, configuration, *options, env=None):
        number = next(self._numbers)
        path = program.dir / f"daemon{number}.yaml"
        path.write_text(configuration)
        self.config = path
        log = program.dir / f"daemon{number}.log"
        with open(log, "wb") as out:
            process = program.start("daemon", *options, "--verbose", "-c", path, env=env,
                                    stdout=out, stderr=out)
        super().__init__(process, log)
        self.wait_log("daemon started")
        self.name = self.lines("daemon started")[0]["name"]

    def lines(self, text, **wanted):
        """The log's events of this text, as dictionaries of their fields."""
        found = []
        for line in self.log.splitlines():
            fields = dict(parse_logfmt(line)) if text in line else {}
            if fields.get("msg") == text and all(fields.get(k) == v for k, v in wanted.items()):
                found.append(fields)
        return found

    def passes(self, watch):
        return self.lines("scan", watch=watch)

    def wait_passes(self, watch, n=1):
        """Wait for this many further successful passes of a watch."""
        have = len(self.passes(watch))

        def gone_on():
            assert self.process.poll() is None, self.log
            return len(self.passes(watch)) >= have + n
        eventually(gone_on)

    def stop(self):
        # Only if a test has stopped it: when it ends, a leak checker may trace and stop it, and
        # would never continue it.
        if stopped(self.pid):
            self.signal(signal.SIGCONT)
        code = super().stop()
        for word in ("Sanitizer", "runtime error:"):
            assert word not in self.log, self.log
        return code


def parse_logfmt(line):
    at = 0
    while at < len(line):
        equals = line.find("=", at)
        if equals < 0:
            return
        key = line[at:equals].split(" ")[-1]
        if line[equals + 1:equals + 2] == '"':
            end = equals + 2
            while end < len(line) and line[end] != '"':
                end += 2 if line[end] == "\\" else 1
            value = line[equals + 2:end].replace('\\"', '"')
            at = end + 1
        else:
            end = line.find(" ", equals)
            end = len(line) if end < 0 else end
            value, at = line[equals + 1:end], end
        yield key, value


class Beaters:
    """Worker processes with rows in hand: see beating_workers.py."""

    def __init__(self, url, folder, name="w", count=20, rows=100, env=None, own_clock=False):
        folder.mkdir(exist_ok=True)
        self.folder, self.count, self.rows, self.name = folder, count, rows, name
        self.process = subprocess.Popen(
            [sys.executable, HERE / "beating_workers.py", url, name, str(count), str(rows), folder,
             *(["own"] if own_clock else [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, **(env or {})})
        self.pids = [int(pid) for pid in self.process.stdout.readline().split()]
        assert len(self.pids) == count

    def away(self, yes):
        """While this is set, a worker that loses its session does not reconnect."""
        path = self.folder / "away"
        path.touch() if yes else path.unlink()

    def finish(self):
        (self.folder / "finish").touch()

    def signal(self, number, pids=None):
        for pid in self.pids if pids is None else pids:
            os.kill(pid, number)

    def close(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.communicate(timeout=patience())


class World:
    """One database, its beating table, its workers and daemons; all end with the test."""

    def __init__(self, program, db, url=None):
        self.program, self.db = program, db
        self.url = url or db.url
        self.daemons, self.beaters = [], []

    def work(self, count=20, rows=100, url=None, **more):
        """Worker processes; returns once every row has a worker."""
        had = self.count("status = 'running'")
        crew = Beaters(url or self.url, self.program.dir / f"crew{len(self.beaters)}",
                       name=f"crew{len(self.beaters)}-", count=count, rows=rows, **more)
        self.beaters.append(crew)
        eventually(lambda: self.count("status = 'running'") == had + count * rows)
        return crew

    def daemon(self, configuration=None, *options, **more):
        daemon = Daemon(self.program, configuration or config(self.url), *options, **more)
        self.daemons.append(daemon)
        return daemon

    def count(self, where="true"):
        return self.db.sql(f"SELECT count(*) FROM jobs WHERE {where}")[0][0]

    def events(self, event, columns="job"):
        rows = self.db.sql(f"SELECT {columns} FROM defib.ledger WHERE event = %s ORDER BY id",
                           event)
        return [row[0] if len(row) == 1 else row for row in rows]

    def status(self, watch):
        """What the leader last reported about a watch; {} before its first pass."""
        if not self.db.sql("SELECT to_regclass('defib.status') IS NOT NULL")[0][0]:
            return {}
        rows = self.db.sql("SELECT info, holder FROM defib.status WHERE watch = %s", watch)
        if not rows:
            return {}
        info = rows[0][0] if isinstance(rows[0][0], dict) else json.loads(rows[0][0])
        return {**info, "holder": rows[0][1]}

    def wait_status(self, watch, limit=60, **wanted):
        def so():
            has = self.status(watch)
            return all(has.get(k) == v for k, v in wanted.items()) and has
        try:
            return eventually(so, limit)
        except AssertionError:
            logs = "\n".join(d.log[-3000:] for d in self.daemons)
            raise AssertionError(f"not {wanted}: {self.status(watch)}\n{logs}") from None

    def all_done_once(self):
        """Every worker finishes what it has: each job is done once, by the one that had it."""
        for crew in self.beaters:
            crew.finish()
        try:
            eventually(lambda: self.count("done <> 1") == 0)
        except AssertionError:
            pass
        assert self.db.sql("SELECT status, done, count(*) FROM jobs GROUP BY 1, 2") == [
            ("done", 1, self.count())]

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
        for crew in self.beaters:
            crew.close()


SLOW_WRITE = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(0.004); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()
"""


class Manager:
    """The end of NOTIFY_SOCKET that systemd has."""

    def __init__(self, address):
        self.address = str(address)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address.replace("@", "\0", 1))

    def env(self):
        return {"NOTIFY_SOCKET": self.address}

    def hear(self, limit=60):
        """The next word; None when there is none within the limit."""
        self.socket.settimeout(limit)
        try:
            return self.socket.recv(4096).decode()
        except TimeoutError:
            return None

    def wait(self, word):
        while (said := self.hear()) != word:
            assert said is not None, f"no {word}"

    def close(self):
        self.socket.close()
