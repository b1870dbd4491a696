# SPDX-License-Identifier: Apache-2.0
"""The outside bookkeepers of one database: what jobs wrote, what enqueuers were told, a trigger.

Of Chaos only the books: who uses them has faults of its own.
"""

from harness import invariants
from harness.chaos_run import Chaos, build_job

SEED = 172754  # jobs 1, 2 and 3 end as permanent, done with a result and done, in short times


class Books(Chaos):
    """open(), put(), then found_wrong() when everything is over."""

    def __init__(self, program, db, folder):
        self.bin, self.db, self.folder = program, db, folder
        self.seed, self.server, self.sent = SEED, None, {}
        self.program = build_job(folder)
        self.effects = folder / "effects"
        self.effects.write_text("")
        self.env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "CHAOS_SEED": str(SEED),
                    "CHAOS_EFFECTS": str(self.effects)}

    def open(self):
        """In a database with defib's tables and no job yet."""
        for statement in (invariants.TABLES, invariants.HISTORY_OF[self.db.engine]):
            self.db.sql(statement)

    def put(self, n, url=None):
        """So many jobs more, in one transaction; whether they were acknowledged."""
        first = len(self.sent)
        lines = "".join(f'{{"n": {i}}}\n' for i in range(first, first + n))
        done = self.command("enqueue", "chaos", "plain", "--bulk", "-", "--max-attempts", 20,
                            url=url, given=lines)
        self.sent.update({i: int(done.returncode == 0) for i in range(first, first + n)})
        return done

    def started(self):
        """Lines that jobs wrote."""
        return len(self.effects.read_text().splitlines())

    def is_final(self):
        return self.sql(invariants.OPEN) == [(0,)]

    def found_wrong(self):
        self.runs = []
        self.load_evidence()
        return self.violations()
