# SPDX-License-Identifier: Apache-2.0
"""A ledger whose entries a test writes by hand, at chosen times."""

import datetime
import json

from harness.databases import initialize

class Ledger:
    """Entries at chosen times, as the ledger's own writers would leave them."""

    def __init__(self, db, defib):
        self.db = db
        self.now = datetime.datetime.now(datetime.timezone.utc)
        initialize(db, defib)
        self.table = "defib.ledger" if db.engine == "postgres" else "defib_ledger"
        self.n = 0

    def add(self, event, ago, job="1", watch="jobs", verdict="silent", rule="attempts-left",
            actor="daemon", silent=None, kind=None, owner=None):
        at = self.now - ago
        evidence = {"law": f"{verdict}-too-long"} if verdict else {}
        if silent:
            evidence["alive_at"] = iso(at - datetime.timedelta(seconds=silent))
        evidence.update({k: v for k, v in (("kind", kind), ("owner", owner)) if v})
        self.n += 1
        self.db.sql(f"INSERT INTO {self.table} (id, at, batch, watch, job, event, actor, verdict, "
                    "rule, evidence) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    self.n, iso(at), f"b{self.n}", watch, job, event, actor, verdict, rule,
                    json.dumps(evidence))


def iso(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def hours(n):
    return datetime.timedelta(hours=n)
