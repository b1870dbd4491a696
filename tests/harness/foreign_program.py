# SPDX-License-Identifier: Apache-2.0
"""A foreign worker: foreign_program.py URL JOB HOW, under `defib run` in tests.

It takes the job (or those of a range, 1-2500), prints "took PID", and works forever (work), or
until it is told to end (polite), or not at all: it forgets the job and ends normally (forget); or a
child does it (fork).
"""

import os
import signal
import sys
import time

import psycopg2


def polite(_number, _frame):
    print("told to end", flush=True)
    os._exit(7)


def main(url, job, how):
    if how == "polite":
        signal.signal(signal.SIGTERM, polite)
    if how == "fork" and os.fork():
        signal.pause()
    session = psycopg2.connect(url)
    session.autocommit = True
    first, _, last = job.partition("-")
    session.cursor().execute("UPDATE jobs SET status = 'running' WHERE id BETWEEN %s AND %s",
                             (first, last or first))
    print("took", os.getpid(), flush=True)
    while how != "forget":
        time.sleep(60)


main(*sys.argv[1:])
