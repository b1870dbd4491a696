# SPDX-License-Identifier: Apache-2.0
"""The built-in queue and its workers, for tests on either engine.

Tests wait for expected conditions with a generous limit, and never for a time to pass. Every worker
that was started is gone when its test ends, and so are its children.
"""

import json
import pathlib
import select
import signal
import socket
import threading

from harness.databases import initialize
from harness.waiting import HANGS_S, eventually


def up_for(db, seconds):
    """While a server has just started, no worker is blamed for silence; a file has no server."""
    if db.engine == "postgres":
        eventually(lambda: db.sql("SELECT now() > pg_postmaster_start_time() + "
                                  f"interval '{seconds} seconds'")[0][0])


class Worker:
    """One `defib work` process; its log is a file, so that a full pipe never stops it."""

    def __init__(self, process, log):
        self.process = process
        self.pid = process.pid
        self.log_path = log

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_log(self, text, limit=HANGS_S):
        def said_or_over():
            return text in self.log or self.process.poll() is not None
        try:
            eventually(said_or_over, limit)
            assert text in self.log
        except AssertionError:
            raise AssertionError(f"no {text!r} in:\n{self.log}") from None

    def children(self):
        path = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, limit=HANGS_S):
        return self.process.wait(limit)

    def stop(self):
        """TERM and its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Queue:
    """The built-in queue of one database."""

    def __init__(self, program, db, url=None):
        self.program = program
        self.db = db
        self.url = url or db.url
        self.workers = []
        self.prefix = "defib." if db.engine == "postgres" else "defib_"
        initialize(db, program)

    def table(self, name):
        return self.prefix + name

    def enqueue(self, *args, queue="default", kind="test"):
        ran = self.program("enqueue", queue, kind, *args, db=self.db)
        assert ran.code == 0, ran.err
        return int(ran.out)

    def bulk(self, n, *args, queue="default", kind="test"):
        path = self.program.dir / "bulk.jsonl"
        path.write_text("".join(f'{{"n": {i}}}\n' for i in range(n)))
        ran = self.program("enqueue", queue, kind, "--bulk", path, *args, db=self.db)
        assert ran.code == 0, ran.err

    def work(self, *options, run="true", url=None, env=None, wait=True, program=None):
        """Start a worker whose program is the shell script `run`; returns once it is registered."""
        log = self.program.dir / f"worker{len(self.workers)}.log"
        command = program or ["/bin/sh", "-c", run]
        with open(log, "wb") as out:
            process = self.program.start("work", *options, "--verbose", "--db", url or self.url,
                                         "--", *command, env=env, stdout=out, stderr=out)
        worker = Worker(process, log)
        self.workers.append(worker)
        if wait:
            worker.wait_log("worker started")
        return worker

    def drain(self, *options, run="true", **more):
        """Run a worker until nothing is left to claim."""
        worker = self.work("--drain", *options, run=run, wait=False, **more)
        assert worker.wait() == 0, worker.log
        return worker

    def all(self, columns, where="true", *params):
        return self.db.sql(f"SELECT {columns} FROM {self.table('job')} WHERE {where} ORDER BY id",
                           *params)

    def one(self, job, columns):
        rows = self.all(columns, "id = %s", job)
        return rows[0] if len(rows[0]) > 1 else rows[0][0]

    def state(self, job):
        return self.one(job, "state")

    def wait_state(self, job, *states, limit=HANGS_S):
        def reached():
            return self.state(job) in states
        try:
            eventually(reached, limit)
        except AssertionError:
            logs = "\n".join(w.log for w in self.workers)
            row = self.one(job, "id, state, epoch, owner, attempts, cause, error")
            raise AssertionError(f"{row} is none of {states}\n{logs}") from None

    def result(self, job):
        rows = self.db.sql(f"SELECT result FROM {self.table('job_data')} WHERE job = %s", job)
        if not rows or rows[0][0] is None:
            return None
        return json.loads(rows[0][0]) if isinstance(rows[0][0], str) and \
            self.db.engine == "sqlite" else rows[0][0]

    def ledger(self, event):
        """Jobs and evidence of one kind of entry."""
        rows = self.db.sql(f"SELECT job, evidence, epoch FROM {self.table('ledger')} "
                           "WHERE event = %s ORDER BY id", event)
        return [(int(job), json.loads(e) if isinstance(e, str) else e, epoch)
                for job, e, epoch in rows]

    def worker_rows(self, columns="id, name, state, cause"):
        return self.db.sql(f"SELECT {columns} FROM {self.table('worker')} ORDER BY id")

    def close(self):
        for worker in self.workers:
            worker.kill()


class Wire:
    """TCP between a worker and the server that is cut, or silent, at one exact point."""

    def __init__(self, server):
        self.target = ("127.0.0.1", server.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.refusing = False
        self.closing = False
        self.pairs = []
        self.stranded = []
        self.lock = threading.Lock()
        self.loses = None  # called with what a client sends; true: it never hears the answer
        self.held = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, db):
        return f"postgres://postgres@127.0.0.1:{self.port}/{db.name}?sslmode=disable"

    def _accept(self):
        while not self.closing:
            try:
                client, _ = self.listener.accept()
                if self.refusing:
                    client.close()
                    continue
                server = socket.create_connection(self.target)
            except OSError:
                continue
            with self.lock:
                self.pairs.append((client, server))
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()

    def _pump(self, client, server):
        deaf = False
        try:
            while True:
                ready, _, _ = select.select([client, server], [], [], 1)
                for side in ready:
                    got = side.recv(65536)
                    if not got:
                        return
                    if side is client:
                        # Before it is passed on: the answer may come at once.
                        deaf = deaf or bool(self.loses and self.loses(got))
                        server.sendall(got)
                        if deaf:
                            self.held.set()
                    elif not deaf:
                        client.sendall(got)
        except OSError:
            pass
        finally:
            client.close()
            with self.lock:
                lingers = server in self.stranded
            if not lingers:
                server.close()

    def strand(self):
        """Every connection ends for its client; the server does not notice."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
            self.stranded += [server for _, server in pairs]
        for client, _ in pairs:
            client.shutdown(socket.SHUT_RDWR)

    def end_stranded(self):
        """The server notices at last, and its old sessions end."""
        with self.lock:
            ends, self.stranded = self.stranded, []
        for server in ends:
            server.close()

    def cut(self):
        """Reset every connection."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for side in pair:
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def away(self):
        self.refusing = True
        self.cut()

    def back(self):
        self.refusing = False

    def close(self):
        self.closing = True
        self.away()
        self.end_stranded()
        self.listener.close()
