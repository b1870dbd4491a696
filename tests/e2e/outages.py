# SPDX-License-Identifier: Apache-2.0
"""Outages of a database, only for the programs under test."""


class Outage:
    """A queue whose database becomes unavailable for its workers and returns; the test still sees
    it."""

    def __init__(self, queue, wire):
        self.queue = queue
        self.wire = wire
        self.holder = None
        self.url = wire.url(queue.db) if wire else queue.db.url

    def begin(self):
        if self.wire:
            self.wire.away()
        else:
            # On SQLite: another session holds the write lock.
            self.holder = self.queue.db.connect()
            self.holder.execute("BEGIN IMMEDIATE")

    def end(self):
        if self.wire:
            self.wire.back()
        elif self.holder:
            self.holder.execute("ROLLBACK")
            self.holder.close()
            self.holder = None
