# SPDX-License-Identifier: Apache-2.0
"""A system that starts beside what dead instances left."""

from harness.example_systems import ledger
from harness.table_workers import TableWorkers

# A worker that claims nothing, so that only its start has an effect.
IDLE = (("poll: 5s", "poll: 1h\n      startup_tick: false"), ("stagger: 1s", "stagger: 0s"))
ELSEWHERE = "far/00000000-0000-0000-0000-000000000000/1/1/1/"


class System(TableWorkers):
    """Scristill's tables, with instances that only the registry knows."""

    def own(self, name):
        return f"defib.{name}" if self.db.engine == "postgres" else f"defib_{name}"

    def add(self, status, count=1, kind="crawl", seconds=10):
        """Jobs of one state; their ids."""
        before = self.ids()
        for _ in range(count):
            self.insert("jobs", project_id=("sql", "(SELECT id FROM projects)"), type=kind,
                        status=status, updated_at=self.ago(seconds))
        return sorted(set(self.ids()) - set(before))

    def ids(self, where="true"):
        return sorted(str(row[0]) for row in self.rows(f"SELECT id FROM jobs WHERE {where}"))

    def counts(self):
        return dict(self.rows("SELECT status, count(*) FROM jobs GROUP BY status"))

    def instance(self, name, state="alive", lease_s=3600, serves="jobs", lease_ms=60000):
        """A worker on an invisible host; its lease ends this many seconds from now."""
        if self.db.engine == "postgres":
            now, ends = "now()", f"now() + interval '{lease_s} seconds'"
        else:
            now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
            ends = f"{now} + {lease_s * 1000}"
        self.db.sql(f"INSERT INTO {self.own('worker')} (name, incarnation, state, started_at, "
                    f"renewed_at, lease_ms, expires_at, serves) VALUES (%s, %s, %s, {now}, {now}, "
                    f"{lease_ms}, {ends}, %s)", name, ELSEWHERE + f"{len(name):016x}", state, serves)
        return self.cell(f"SELECT id FROM {self.own('worker')} WHERE name = %s", name)

    def lease(self, job, owner):
        now = "now()" if self.db.engine == "postgres" else "0"
        self.db.sql(f"INSERT INTO {self.own('lease')} (watch, job, owner, claimed_at) "
                    f"VALUES ('jobs', %s, %s, {now})", job, owner)

    def start(self, *options, **more):
        """A worker's start, as it is once it is ready to claim."""
        return self.work("jobs", *options, run=more.pop("run", "true"), **more)

    def entries(self):
        return self.rows(f"SELECT event, rule, actor, reason FROM {ledger(self.db)}")
