# SPDX-License-Identifier: Apache-2.0
"""Two tables of one worker, one of which a test makes refuse writes."""

from harness.databases import initialize
from harness.queue_workers import Worker
from harness.waiting import HANGS_S, eventually

WATCH = """
  - name: {name}
    table: {table}
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
    every: 1s
    requeue: status = 'queued'
    work:
      ready: status = 'queued'
      claim: status = 'running', beat_at = :now
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
      poll: 50ms
      concurrency: 8
      command: [/bin/sh, -c, 'echo "$DEFIB_QUEUE $DEFIB_JOB_ID" >>began; \
await go']
"""


def config(url, *names, more=""):
    """Watches called NAME, or NAME:TABLE where their table has another name."""
    watches = "".join(WATCH.format(name=n.split(":")[0], table=n.split(":")[-1]) for n in names)
    return f"databases:\n  - {{name: main, url: '{url}'}}\nwatches:{watches}{more}"


class TwoTables:
    """Tables one and two, with rows to be worked on."""

    def __init__(self, program, db, url=None):
        self.program, self.db, self.url = program, db, url or db.url
        self.dir = program.dir
        self.workers = []
        serial = "bigserial PRIMARY KEY" if db.engine == "postgres" else "INTEGER PRIMARY KEY"
        for table in ("one", "two"):
            db.sql(f"CREATE TABLE {table} (id {serial}, status text DEFAULT 'queued', "
                   f"beat_at {'timestamptz' if db.engine == 'postgres' else 'text'})")
        initialize(db, program)

    def add(self, table, n=1):
        for _ in range(n):
            self.db.sql(f"INSERT INTO {table} DEFAULT VALUES")

    def work(self, *names, wait=True):
        file = self.dir / "defib.yaml"
        file.write_text(config(self.url, *names))
        log = self.dir / f"worker{len(self.workers)}.log"
        with open(log, "wb") as out:
            process = self.program.start(
                "work", *(n.split(":")[0] for n in names), "-c", file, "--name", "anna", "--spool",
                self.dir / "spool", "--no-startup", stdout=out, stderr=out)
        worker = Worker(process, log)
        self.workers.append(worker)
        if wait:
            worker.wait_log("worker started")
        return worker

    def began(self):
        path = self.dir / "began"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def go(self):
        (self.dir / "go").touch()

    def hold(self):
        (self.dir / "go").unlink(missing_ok=True)

    def states(self, table):
        return [status for status, in self.db.sql(f"SELECT status FROM {table} ORDER BY id")]

    def until(self, what, limit=HANGS_S):
        try:
            return eventually(what, limit)
        except AssertionError as failed:
            logs = "\n".join(w.log for w in self.workers)
            raise AssertionError(f"{failed}\n{self.began()}\n{logs}") from None

    def close(self):
        for worker in self.workers:
            worker.kill()
