# SPDX-License-Identifier: Apache-2.0
"""A table of stuck jobs under a real `defib daemon`, and commands for it, on either engine."""

import itertools
import json

from harness import stuck_jobs
from harness.queue_workers import Worker, up_for
from harness.waiting import eventually

NOW = {"postgres": "clock_timestamp()", "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')"}


class Told:
    """One database with the watch `jobs`; its daemons end with the test."""

    def __init__(self, program, db, rows=5, **watch):
        self.program, self.db = program, db
        self.path = program.dir / "defib.yaml"
        self.configure(**watch)
        self.daemons = []
        self._numbers = itertools.count(1)
        stuck_jobs.make(db, rows)

    def configure(self, **watch):
        text = stuck_jobs.config(self.db, **{"every": "1h", **watch})
        if "stuck_after" in watch:
            text = text.replace("    stuck_after: 1h\n", "")
        self.path.write_text(text)

    def __call__(self, *args):
        return self.program(*args, "-c", self.path)

    def say(self, *args):
        ran = self(*args)
        assert ran.code == 0, ran.err
        return ran

    def daemon(self):
        up_for(self.db, 31)
        log = self.program.dir / f"daemon{next(self._numbers)}.log"
        with open(log, "wb") as out:
            process = self.program.start("daemon", "-c", self.path, stdout=out, stderr=out)
        daemon = Worker(process, log)
        self.daemons.append(daemon)
        daemon.wait_log("leads the watch")
        return daemon

    def table(self, name):
        return f"defib.{name}" if self.db.engine == "postgres" else f"defib_{name}"

    def info(self):
        """What the leader last wrote; {} before its first pass."""
        rows = self.db.sql(f"SELECT info FROM {self.table('status')} WHERE watch = 'jobs'")
        if not rows:
            return {}
        return rows[0][0] if isinstance(rows[0][0], dict) else json.loads(rows[0][0])

    def wait_info(self, **wanted):
        def so():
            has = self.info()
            return all(has.get(k) == v for k, v in wanted.items()) and has
        try:
            return eventually(so)
        except AssertionError:
            raise AssertionError(f"not {wanted}: {self.info()}\n{self.daemons[-1].log}") from None

    def wait_recovered(self, n):
        def recovered():
            return stuck_jobs.requeued(self.db) == n
        eventually(recovered)
        assert stuck_jobs.agree(self.db) == n

    def standing(self, *words, code):
        """`defib status --json` of the watch jobs; its exit code must be this."""
        ran = self("status", "--json", *words)
        assert ran.code == code, (ran.out, ran.err)
        return next(w for w in ran.json["watches"] if w["watch"] == "jobs")

    def beat(self):
        """All running rows have just given a sign of life."""
        self.db.sql(f"UPDATE jobs SET updated_at = {NOW[self.db.engine]} WHERE status = 'running'")

    def brake(self):
        """A daemon that sees all owners beat and fall silent at once, and holds them."""
        self.beat()
        daemon = self.daemon()

        def seen():
            self.beat()
            return self.info().get("running") == 7
        eventually(seen)
        self.wait_info(braking=True)
        return daemon

    def close(self):
        for daemon in self.daemons:
            daemon.kill()


# Seven owners that beat; the brake holds them for long.
BRAKED = {"rows": 7, "owner": "owner", "beat": "1s", "stuck_after": "3s", "every": "200ms",
          "guard": "{brake_ceiling: 10m}"}
