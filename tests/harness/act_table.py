# SPDX-License-Identifier: Apache-2.0
"""A table of jobs in every state, for the commands that act on them."""

import getpass
import json
import os
import pty
import re
import select
import subprocess
import time

from harness import stuck_jobs
from harness.example_systems import ago
from harness.waiting import patience

ACTOR = "cli:" + getpass.getuser()
HOW = {
    "show": "[owner]",
    "requeue": "status = 'queued', error = :reason, owner = NULL",
    "retry": "status = 'queued', error = NULL, updated_at = :retry_at",
    "fail": "status = 'failed', error = :reason",
    "rollback": "status = 'rolling back'",
    "cancel": "status = 'cancelling'",
}


class Jobs:
    """jobs 1, 2, 3, … with a status and an age; the watch `jobs` knows every act."""

    def __init__(self, db, defib, **changes):
        self.db = db
        self.defib = defib
        db.sql(stuck_jobs.CREATE[db.engine])
        how = {**HOW, **changes}
        requeue = how.pop("requeue")
        self.config = stuck_jobs.config(db, requeue=requeue or "",
                                        **{k: v for k, v in how.items() if v})
        if not requeue:
            self.config = self.config.replace("    requeue: \n", "")
        self.n = 0

    def add(self, *statuses, age_s=7200, owner="w1"):
        """Rows of that age; their numbers."""
        first = self.n + 1
        for status in statuses:
            self.n += 1
            self.db.sql("INSERT INTO jobs (id, status, updated_at, owner) VALUES "
                        f"(%s, %s, {ago(self.db, age_s)}, %s)", self.n, status, owner)
        return list(range(first, self.n + 1)) if len(statuses) > 1 else first

    def __call__(self, *args, **options):
        return self.defib(*args, config=self.config, **options)

    def status(self, job):
        return self.db.sql("SELECT status FROM jobs WHERE id = %s", job)[0][0]

    def row(self, job):
        return self.db.sql("SELECT * FROM jobs WHERE id = %s", job)[0]

    def statuses(self):
        return [s for s, in self.db.sql("SELECT status FROM jobs ORDER BY id")]

    def dump(self):
        """Everything that a command could change, including defib's own tables."""
        mine = "defib.%s" if self.db.engine == "postgres" else "defib_%s"
        tables = ["jobs"]
        if stuck_jobs.has_ledger(self.db):
            tables += [mine % name for name in ("ledger", "hold", "retry")]
        return {t: self.db.sql(f"SELECT * FROM {t} ORDER BY 1, 2") for t in tables}

    def ledger(self, columns="event, actor, reason"):
        if not stuck_jobs.has_ledger(self.db):
            return []
        return self.db.sql(f"SELECT {columns} FROM {stuck_jobs.ledger(self.db)} ORDER BY id")

    def evidence(self):
        """Of the newest entry."""
        newest = self.ledger("evidence")[-1][0]
        return json.loads(newest) if isinstance(newest, str) else newest

    def held(self):
        name = "defib.hold" if self.db.engine == "postgres" else "defib_hold"
        return [job for job, in self.db.sql(f"SELECT job FROM {name} ORDER BY job")]

    def on_terminal(self, *args, answer, stdin=None):
        """Run it on a terminal and answer the question; returns the exit code and all output."""
        controller, terminal = pty.openpty()
        process = subprocess.Popen(
            self.defib._argv(args, None, self.config), cwd=self.defib.dir, env=self.defib._env(None),
            stdin=terminal if stdin is None else subprocess.PIPE, stdout=terminal, stderr=terminal,
            start_new_session=True, preexec_fn=lambda: _take_terminal(terminal))
        os.close(terminal)
        if stdin is not None:
            process.stdin.write(stdin.encode())
            process.stdin.close()
        shown = _talk(controller, answer)
        code = process.wait(patience())
        os.close(controller)
        return code, shown


def _take_terminal(fd):
    import fcntl
    import termios
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def _talk(controller, answer):
    shown, answered, began = "", False, time.monotonic()
    while time.monotonic() - began < patience():
        if not select.select([controller], [], [], 0.1)[0]:
            continue
        try:
            got = os.read(controller, 4096)
        except OSError:  # the other side is gone
            break
        if not got:
            break
        shown += got.decode(errors="replace")
        if "[y/N]" in shown and not answered:
            os.write(controller, (answer + "\n").encode())
            answered = True
    return shown.replace("\r\n", "\n")


def batch_of(ran):
    """The batch that a command names, whether or not it can be undone."""
    return re.search(r"^(?:undo with: defib undo|batch) (\S+)", ran.out, re.M)[1]
