# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition.

A limit only ends what hangs: it is minutes long, and longer on a machine with much to do. What a test
asserts is an order of events or a count. How long something takes is for bench/.
"""

import os
import pathlib
import time

HANGS_S = 600


def patience(seconds=HANGS_S):
    """A limit for now: if four processes wait for each core, everything may take four times as long.
    """
    return seconds * max(1, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


class NotYet:
    """An answer that is false, with what a failing test should show instead."""

    def __init__(self, found):
        self.found = found

    def __bool__(self):
        return False

    def __repr__(self):
        return f"found {self.found!r}"


def eventually(what, limit=HANGS_S):
    """The first true answer of what(); a failure names what was waited for.

    What takes long is asked less often: many tests wait at the same time."""
    start = time.monotonic()
    while True:
        answer = what()
        if answer:
            return answer
        waited = time.monotonic() - start
        assert waited < patience(limit), \
            f"not within {waited:.0f} s: {what.__name__}: {answer!r}"
        time.sleep(min(max(waited / 20, 0.02), 0.1))


def running(pid):
    """Whether a process is there and not a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
