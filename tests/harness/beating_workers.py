# SPDX-License-Identifier: Apache-2.0
"""Foreign worker processes: each beats for all its rows by one UPDATE.

    beating_workers.py URL NAME COUNT ROWS FOLDER

One process starts COUNT workers NAME0, NAME1, …, each with ROWS rows of `jobs` in hand, and prints
their pids. A worker that lost its session reconnects by itself, but not while FOLDER/away exists;
when FOLDER/finish exists, it ends its work. With `own` as a further argument, beats use the
worker's own clock instead of the database's.
"""

import os
import pathlib
import select
import signal
import sys
import time

import psycopg2

BEAT_S = 0.4  # several per `beat:` of the watch: a slow machine is not a silent worker
POLL_S = 0.05

CLAIM = ("UPDATE jobs SET status = 'running', owner = %s, beat_at = clock_timestamp() "
         "WHERE id IN (SELECT id FROM jobs WHERE status = 'queued' ORDER BY id LIMIT %s "
         "FOR UPDATE SKIP LOCKED)")
BEAT = "UPDATE jobs SET beat_at = clock_timestamp() WHERE owner = %s AND status = 'running'"
OWN_BEAT = "UPDATE jobs SET beat_at = to_timestamp(%s) WHERE owner = %s AND status = 'running'"
DONE = "UPDATE jobs SET status = 'done', done = done + 1 WHERE owner = %s AND status = 'running'"


def rest():
    """Not time.sleep(): it fails where libfaketime moved the wall clock alone."""
    select.select([], [], [], POLL_S)


class Worker:
    def __init__(self, url, name, folder, own_clock):
        self.url, self.name, self.folder, self.own_clock = url, name, folder, own_clock
        self.session = None

    def run(self, statement, *params):
        """Until it succeeds, whatever happens to the session."""
        while True:
            try:
                if not self.session:
                    self.session = psycopg2.connect(self.url, connect_timeout=5)
                    self.session.autocommit = True
                with self.session.cursor() as cursor:
                    cursor.execute(statement, params)
                    return cursor.rowcount
            except psycopg2.Error:
                self.session = None
                rest()
                while (self.folder / "away").exists():
                    rest()

    def beat(self):
        if self.own_clock:
            self.run(OWN_BEAT, time.time(), self.name)
        else:
            self.run(BEAT, self.name)

    def live(self, rows):
        self.run(CLAIM, self.name, rows)
        while not (self.folder / "finish").exists():
            self.beat()
            due = time.monotonic() + BEAT_S
            while time.monotonic() < due and not (self.folder / "finish").exists():
                rest()
        self.run(DONE, self.name)


def main():
    url, name, count, rows, folder, *more = sys.argv[1:]
    pids = []
    for i in range(int(count)):
        pid = os.fork()
        if pid == 0:
            Worker(url, f"{name}{i}", pathlib.Path(folder), "own" in more).live(int(rows))
            os._exit(0)
        pids.append(pid)
    # When our input is closed, we end, and the workers with us.
    print(*pids, flush=True)
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
