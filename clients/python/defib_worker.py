# SPDX-License-Identifier: Apache-2.0
"""A worker in Python over defib's SQL functions (docs/clients.md). Needs psycopg2.

    from defib_worker import Worker, Retry, Permanent

    def send(job):
        job.beat(step="connect", progress="1 of 2")
        return {"sent": job.payload["to"]}

    Worker("postgres://…", "mail").run({"send": send})

Two sessions: one for jobs, one on which a thread renews the lease. What was taken from
this worker raises LeaseLost, in the handler's next beat or when the job is settled; its
effects must then not be committed.
"""

import json
import os
import select
import socket
import threading
import time
import uuid

import psycopg2

DEAD = "DFB01"  # SQLSTATE: this worker was declared dead, or has left


class LeaseLost(Exception):
    """The job, or the whole worker, no longer belongs to this worker."""


class Cancelled(Exception):
    """Somebody asked this job to stop."""


class Retry(Exception):
    """Raised by a handler: try again later, whatever the attempts."""

    def __init__(self, why, delay_ms=None):
        super().__init__(why)
        self.delay_ms = delay_ms


class Permanent(Exception):
    """Raised by a handler: never again."""


class Job:
    def __init__(self, worker, row):
        self.worker = worker
        self.id, self.epoch, self.attempt, self.max_attempts, self.kind = row[:5]
        self.payload = row[7]

    def beat(self, step=None, progress=None):
        """Record step and progress; raises LeaseLost or Cancelled when it is time to stop."""
        accepted, cancelling = self.worker.query(
            "SELECT accepted, cancelling FROM defib.beat(%s, ARRAY[%s]::bigint[], "
            "ARRAY[%s]::bigint[], ARRAY[%s]::text[], ARRAY[%s]::text[])",
            self.worker.id, self.id, self.epoch, step, progress)[0]
        if not accepted:
            raise LeaseLost(f"job {self.id}")
        if cancelling:
            raise Cancelled(f"job {self.id}")

    def settle(self, outcome, result=None, error=None, delay_ms=None):
        """Record how it ended; raises LeaseLost when that was refused."""
        accepted, = self.worker.query(
            "SELECT accepted FROM defib.settle(%s, ARRAY[%s]::bigint[], ARRAY[%s]::bigint[], "
            "ARRAY[%s]::text[], ARRAY[%s]::jsonb[], ARRAY[%s]::text[], ARRAY[%s]::bigint[])",
            self.worker.id, self.id, self.epoch, outcome,
            None if result is None else json.dumps(result), error, delay_ms)[0]
        if not accepted:
            raise LeaseLost(f"job {self.id}")


class Worker:
    def __init__(self, dsn, queue, name=None, lease_ms=15000, poll_s=1.0):
        self.queue = queue
        self.poll_s = poll_s
        self.lease_ms = lease_ms
        self.session = self._connect(dsn)
        self.life = self._connect(dsn)
        self.ended = threading.Event()
        self.lost = threading.Event()
        # New at every start: a worker that was declared dead is never taken for this one.
        incarnation = f"python/{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}"
        self.id, = self.query("SELECT defib.register(%s, %s, %s)",
                              name or f"{socket.gethostname()}-{queue}", incarnation, lease_ms)[0]
        self.query("LISTEN defib")
        self.thread = threading.Thread(target=self._renew, daemon=True)
        self.thread.start()

    @staticmethod
    def _connect(dsn):
        session = psycopg2.connect(dsn)
        session.autocommit = True
        return session

    def query(self, sql, *params, session=None):
        try:
            with (session or self.session).cursor() as cursor:
                cursor.execute(sql, params)
                return cursor.fetchall() if cursor.description else []
        except psycopg2.Error as error:
            if error.pgcode == DEAD:
                self.lost.set()
                raise LeaseLost(str(error).strip()) from error
            raise

    def _renew(self):
        while not self.ended.wait(self.lease_ms / 3000):
            try:
                self.query("SELECT defib.renew(%s, %s)", self.id, 1, session=self.life)
            except (LeaseLost, psycopg2.Error):
                # Whatever is in hand is fenced by now, or soon; the next write will say so.
                self.lost.set()
                return

    def claim(self, n=1):
        self.query("SELECT defib.promote(1000)")
        return [Job(self, row) for row in
                self.query("SELECT * FROM defib.claim(%s, %s, %s)", self.id, self.queue, n)]

    def run_one(self, job, handlers):
        try:
            if job.kind not in handlers:
                raise Permanent(f"no handler for kind {job.kind}")
            job.settle("done", result=handlers[job.kind](job))
        except LeaseLost:
            raise
        except Cancelled:
            job.settle("stopped")
        except Retry as why:
            job.settle("retry", error=str(why), delay_ms=why.delay_ms)
        except Permanent as why:
            job.settle("permanent", error=str(why))
        except Exception as why:  # whatever the handler did not expect: attempts decide
            job.settle("failed", error=f"{type(why).__name__}: {why}")

    def run(self, handlers, drain=False):
        """Until stop(), or until nothing is left when `drain`. Raises LeaseLost when fenced."""
        while not self.ended.is_set():
            if self.lost.is_set():
                raise LeaseLost(f"worker {self.id}")
            jobs = self.claim()
            for job in jobs:
                self.run_one(job, handlers)
            if not jobs and drain:
                return
            if not jobs:
                self._wait()

    def _wait(self):
        """Until a notification, or for a poll: the notification is a hint, the poll the guarantee."""
        until = time.monotonic() + self.poll_s
        while not self.ended.is_set() and time.monotonic() < until:
            if select.select([self.session], [], [], 0.2)[0]:
                self.session.poll()
                self.session.notifies.clear()
                return

    def stop(self):
        """From another thread or a signal handler: end after the job in hand."""
        self.ended.set()

    def close(self):
        """Leave: nobody needs to notice our death."""
        self.ended.set()
        if not self.lost.is_set():
            self.query("SELECT defib.leave(%s)", self.id)
        self.session.close()
        self.thread.join()
        self.life.close()
