# SPDX-License-Identifier: Apache-2.0
"""Ruvon (C) under test: its tables, its workflows and their steps."""

import json

from harness.document_replay import Replay

# A step that notes itself and, where the test wants it, waits for it.
STEP = """#!/bin/sh
set -eu
name=$DEFIB_STEP${DEFIB_UNDO:+.undo}
echo "$name" >>began
await -n "hold.$name"
echo "$name" >>ended
if [ -e "fail.$name" ]; then echo "cannot $name" >&2; exit 2; fi
echo "{\\"ran\\": \\"$name\\"}" >&3
"""


FIRST, SECOND = (f"550e8400-e29b-41d4-a716-44665544{n:04}" for n in range(2))


class Ruvon(Replay):
    def __init__(self, db, folder):
        super().__init__("ruvon", db, folder)

    def add(self, key, beat_s=None, status="PENDING_ASYNC", **metadata):
        self.insert("workflow_executions", id=key, workflow_type="Order", status=status,
                    current_step="Process_Payment", metadata=json.dumps(metadata))
        if beat_s is not None:
            self.beat(key, beat_s)

    def beat(self, key, seconds_ago):
        self.insert("workflow_heartbeats", workflow_id=key, worker_id="celery@worker1",
                    last_heartbeat=self.ago(seconds_ago), current_step="Process_Payment")

    def age(self, seconds):
        """The beats are that much older."""
        self.rows(f"UPDATE workflow_heartbeats SET last_heartbeat = {self.ago(seconds)[1]}")

    def status(self, key=FIRST):
        return self.cell("SELECT status FROM workflow_executions WHERE id = %s", key)

    def fix(self, *options):
        ran = self("scan", "--fix", "--json", *options)
        assert ran.code == 0, ran.err
        return ran.json

    def events(self):
        ran = self("ledger", "--json")
        assert ran.code == 0, ran.err
        return [json.loads(line)["event"] for line in ran.out.splitlines()]
