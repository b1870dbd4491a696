# SPDX-License-Identifier: Apache-2.0
"""What is measured, the minimum and the goal of each: one table for all benchmarks.

A bar is met if the value is at least the bar (or at most, with `less`). A value without a bar is
only reported. A minimum is well below what is measured: it finds a fault, not a slower machine.
"""

import collections

Bar = collections.namedtuple("Bar", "words unit first goal less", defaults=(None, None, False))

BARS = {
    # bench/throughput
    "queue 1": Bar("1 in hand", "of raw", 0.85, 1.5),
    "queue 10": Bar("10 in hand", "of raw", 0.6, 0.9),
    "queue 100": Bar("100 in hand", "of raw", 0.6, 0.9),
    "queue 1000": Bar("1,000 in hand", "of raw", 0.6, 0.9),
    "peer 1": Bar("1 in hand", "of graphile-worker", None, 1.0),
    "boss 10": Bar("10 in hand", "of pg-boss at its best", None, 2.0),
    "boss 100": Bar("100 in hand", "of pg-boss at its best", None, 2.0),
    "peer 1000": Bar("1,000 in hand", "of the best peer", 1.0, 2.0),
    "processes 2": Bar("two processes on one queue", "of one", 0.8, 1.3),
    "processes 8": Bar("eight processes on one queue", "of one", None, 1.0),
    "held 1": Bar("1 in hand beside an open transaction", "of raw beside one", None, 0.85),
    "held 100": Bar("100 in hand beside an open transaction", "of raw beside one", None, 0.9),
    "node 1": Bar("Node.js package, 1 in hand", "of graphile-worker", None, 1.0),
    "node 10": Bar("Node.js package, 10 in hand", "of graphile-worker", None, 1.0),
    "node 100": Bar("Node.js package, 100 in hand", "of graphile-worker", None, 1.0),
    "node 1000": Bar("Node.js package, 1,000 in hand", "of graphile-worker", None, 1.0),
    "node takeover": Bar("Node.js, kill -9 to running elsewhere, median", "ms", 100, 20, True),
    "sqlite 1": Bar("SQLite, 1 in hand", "of the C loop", 0.6, 1.2),
    "sqlite 10": Bar("SQLite, 10 in hand", "of the C loop"),
    "sqlite 100": Bar("SQLite, 100 in hand", "of the C loop", 0.3, 0.6),
    "sqlite 1000": Bar("SQLite, 1,000 in hand", "of the C loop", 0.3, 0.6),
    "program 1": Bar("one program per job, 1 at a time", "of the spawn loop", 0.5, 0.9),
    "program 10": Bar("one program per job, 10 at a time", "of the spawn loop", 0.5, 0.9),
    "program 100": Bar("one program per job, 100 at a time", "of the spawn loop", 0.5, 0.9),
    "synced 1": Bar("one program per job, 1 at a time", "of a spawn loop that syncs one write per job"),
    "http 1": Bar("HTTP claim and settle, one by one", "jobs/s"),
    "http 100": Bar("HTTP claim and settle, 100 per call", "jobs/s"),
    "latency p50": Bar("enqueue call to handler start, median", "ms", None, None, True),
    "latency p99": Bar("enqueue call to handler start, p99", "ms", None, None, True),
    "wal 1": Bar("WAL per job, 1 in hand", "bytes", None, None, True),
    "wal 100": Bar("WAL per job, 100 in hand", "bytes", None, None, True),
    "commits 1": Bar("transactions per job, 1 in hand", "", None, None, True),
    "commits 100": Bar("transactions per job, 100 in hand", "", None, None, True),
    # bench/enqueue
    "enqueue one": Bar("library, one by one", "of raw INSERT", 0.6, 0.85),
    "enqueue many": Bar("library, 1,000 per call", "of raw INSERT", 0.5, 0.85),
    "enqueue cli": Bar("defib enqueue from standard input", "of raw INSERT"),
    "enqueue http": Bar("HTTP, 1,000 per call", "of raw INSERT"),
    "enqueue sqlite one": Bar("SQLite, library, one by one", "of the C loop"),
    "enqueue sqlite many": Bar("SQLite, library, 1,000 per call", "of the C loop"),
    # bench/idle
    "idle 1": Bar("statements per second of 1 idle worker", "per worker", 1.0, 0.3, True),
    "idle 10": Bar("statements per second of 10 idle workers", "per worker", 1.0, 0.3, True),
    "idle 100": Bar("statements per second of 100 idle workers", "per worker", 1.0, 0.3, True),
    "idle growth": Bar("cost of an idle worker among 100", "of one alone", None, 1.2, True),
    "sessions 1": Bar("sessions of 1 idle worker", "per worker", None, 2, True),
    "sessions 10": Bar("sessions of 10 idle workers", "per worker", None, 2, True),
    "sessions 100": Bar("sessions of 100 idle workers", "per worker", None, 2, True),
    "rows 1": Bar("rows of the worker list read per second by 1", "per worker", None, None, True),
    "rows 10": Bar("rows of the worker list read per second by 10", "per worker", None, None, True),
    "rows 100": Bar("rows of the worker list read per second by 100", "per worker", None, None, True),
    "daemon 1": Bar("statements per second of a daemon with 1 watch", "", None, None, True),
    "daemon 50": Bar("statements per second of a daemon with 50 watches", "", None, None, True),
    "daemon 200": Bar("statements per second of a daemon with 200 watches", "", None, None, True),
    "daemon wal 200": Bar("WAL per second of a daemon with 200 watches", "bytes", None, None, True),
    # bench/scan
    "scan nothing": Bar("nothing stuck, the look itself", "ms", 2, 0.1, True),
    "scan 1000": Bar("1,000 stuck, a daemon's scan with guard and ledger", "ms", 100, 20, True),
    "scan 1000 update": Bar("1,000 stuck, a daemon's scan with guard and ledger",
                            "of one plain UPDATE", None, None, True),
    "scan many": Bar("many stuck, scan --fix", "of batches with the ledger row", 0.3, 0.85),
    "scan many update": Bar("many stuck, scan --fix", "of one plain UPDATE", None, 0.3),
    "scan longest": Bar("many stuck, the longest statement", "ms", 100, 100, True),
    # With 10,000,000 rows a checkpoint falls into the run: a statement that waits for the ledger
    # then also waits for another lane's COMMIT to be synced.
    "scan longest full": Bar("many stuck, the longest statement", "ms", None, 100, True),
    "scan memory": Bar("many stuck, memory at its highest", "MiB", 64, 64, True),
}


def verdict(name, value):
    """"", "met", "not met" (the goal) or "MISSED" (the minimum)."""
    bar = BARS[name]

    def reaches(wanted):
        return value <= wanted if bar.less else value >= wanted
    if bar.first is not None and not reaches(bar.first):
        return "MISSED"
    if bar.goal is None:
        return ""
    return "met" if reaches(bar.goal) else "not met"
