#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Node.js package: no-op handlers per second, and kill -9 to running elsewhere.

    bench/clients_node.py [--json FILE] [--tiny] [PART…]

Parts:
    throughput   one process with a handler that does nothing, 1 to 1,000 jobs in hand, beside
                 graphile-worker with the same number in hand
    takeover     two processes work on a table of the team's own; one is killed in the middle of a
                 job, and the other says when that job began there: median and worst

PostgreSQL has fsync on. BENCH_KILLS (20) is the number of kills. Exit 1 if a bar is missed.
"""

import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import measured  # noqa: E402
import peers  # noqa: E402
from harness.node_programs import PACKAGE, NodePrograms  # noqa: E402
from harness.waiting import eventually  # noqa: E402

KILLS = int(os.environ.get("BENCH_KILLS", "20"))
IN_HAND = {1: 500, 10: 3000, 100: 20000, 1000: 30000}
KNOWN_S = 1.4  # other workers read the list of workers every second

NO_OP = f"""
import {{ Worker }} from '{PACKAGE}/lib/index.mjs'
const worker = new Worker({{ queue: 'q', concurrency: Number(process.argv[2]), drain: true,
  quiet: true, handler: async () => {{}} }})
await worker.run()
"""

SLEEPER = """
const worker = new defib.Worker({ watch: 'rows', config: 'defib.yaml', name: process.argv[2],
  handler: (job) => new Promise((_, no) => {
    say('began', performance.timeOrigin + performance.now())
    job.signal.addEventListener('abort', () => no(job.signal.reason))
  }) })
worker.on('ready', () => say('ready'))
await worker.run()
"""

CONFIG = """
watches:
  - name: rows
    table: rows
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 60m
    crash_budget: off
    requeue: status = 'queued'
    work:
      ready: status = 'queued'
      claim: status = 'running', beat_at = :now
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
"""


class Program:
    """What NodePrograms needs of a test's program."""

    def __init__(self, folder):
        self.dir, self.bin = folder, measured.BIN


def rate(place, in_hand, jobs):
    with place.postgres() as db:
        measured.fill(db, "q", jobs)
        path = place.folder / "noop.mjs"
        path.write_text(NO_OP)
        subprocess.run(["node", path, str(in_hand)], check=True, timeout=measured.LIMIT_S,
                       env=measured.environment(place.folder, DEFIB_BIN=str(measured.BIN),
                                                DEFIB_DB=db.url))
        return measured.worked(db, jobs)


def throughput(place, given, table):
    folder = None if given.tiny else peers.install()
    for in_hand, jobs in IN_HAND.items():
        jobs = 2 * in_hand if given.tiny else jobs
        contestants = {"defib": lambda: rate(place, in_hand, jobs)}

        def peer():
            with place.empty(peers.SCHEMAS["graphile-worker"]) as db:
                return peers.rate(folder, "graphile-worker", db, in_hand, jobs)
        if folder:
            contestants["graphile-worker"] = peer
        figures = measured.side_by_side(contestants, given.rounds)
        table.note(f"Node.js, {in_hand:,} in hand, jobs/s", **figures)
        if folder:
            table.line(f"node {in_hand}", figures["defib"] / figures["graphile-worker"])


def takeover(place, given, table):
    with place.fresh() as db:
        db.sql("CREATE TABLE rows (id integer PRIMARY KEY, status text, beat_at timestamptz)")
        (place.folder / "defib.yaml").write_text(CONFIG)
        nodes = NodePrograms(Program(place.folder))
        nodes.env["DEFIB_DB"] = db.url
        try:
            took = kill_many(nodes, db, 3 if given.tiny else KILLS)
        finally:
            nodes.close()
    table.note("Node.js, kill -9 to running elsewhere, ms", median=statistics.median(took),
               worst=max(took))
    table.line("node takeover", statistics.median(took))


def kill_many(nodes, db, kills):
    def start(number):
        one = nodes.run(SLEEPER, f"w{number}")
        one.hear("ready")
        return one
    pair, took = [start(0), start(1)], []
    db.sql("INSERT INTO rows VALUES (1, 'queued', now())")
    for number in range(kills):
        eventually(lambda: any(one.said("began") for one in pair))
        pair.sort(key=lambda one: not one.said("began"))
        victim, other = pair
        time.sleep(KNOWN_S)
        killed = time.time() * 1000
        victim.kill()
        took.append(other.hear("began")[0] - killed)
        pair = [other, start(number + 2)]
    return took


def main():
    given = measured.options(__doc__, ("throughput", "takeover"))
    table = measured.Table(given)
    with measured.place() as place:
        for part in given.parts:
            globals()[part](place, given, table)
    return table.end()


if __name__ == "__main__":
    sys.exit(main())
