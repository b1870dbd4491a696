# SPDX-License-Identifier: Apache-2.0
"""A table of jobs, what plain SQL needs to recover its stuck rows, and what defib needs."""

import dataclasses
import json
import os
import re
import subprocess
import time

CREATE = ("CREATE TABLE jobs (id bigint PRIMARY KEY, status text NOT NULL, "
          "updated_at timestamptz NOT NULL, error text, payload text)")
FILL = ("INSERT INTO jobs SELECT i, {status}, now() - interval '2 hours' + i * interval "
        "'1 microsecond', NULL, repeat('x', 60) FROM generate_series({first}, {last}) i")
RESET = "status = 'queued', error = 'Reset', updated_at = now()"
STUCK = "status = 'running' AND updated_at < now() - interval '1 hour'"
CONFIG = """
databases:
  - name: bench
    url: {url}
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued', error = :reason, updated_at = :now
    reason: Reset
    crash_budget: off
    statement_timeout: 60s
"""
# The guard is asked about every job, and its pace lets all of them through.
DAEMON = """
    every: 2s
    guard: {pace: 100000, burst: 100000}
"""
PASS = re.compile(r"msg=scan .*recovered=(\d+) .*took_ms=(\d+) ")
PASS_S = 60


@dataclasses.dataclass
class Cost:
    wall_ms: float
    took_ms: float
    rss_mib: float
    recovered: int


class Bench:
    def __init__(self, server, program, folder):
        self.program = program
        self.config = folder / "defib.yaml"
        self.config.write_text(CONFIG.format(url=server.url()))
        self.daemon_config = folder / "daemon.yaml"
        self.daemon_config.write_text(self.config.read_text() + DAEMON.lstrip("\n"))
        self.out = folder / "out"
        self.session = server.connect()
        self.cursor = self.session.cursor()
        self.cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def sql(self, query):
        self.cursor.execute(query)
        return self.cursor.fetchall() if self.cursor.description else []

    def fill(self, done=0, stuck=0):
        """A fresh table, and no ledger."""
        self.next_stuck = 1
        self.sql("DROP TABLE IF EXISTS jobs")
        self.sql("DROP SCHEMA IF EXISTS defib CASCADE")
        self.sql(CREATE)
        self.sql(FILL.format(status="'done'", first=1, last=done))
        self.sql(FILL.format(status="'running'", first=done + 1, last=done + stuck))

    def add_index(self):
        """What doctor says, as it says it."""
        findings = json.loads(self._run("doctor", "--json")[0])["findings"]
        fixes = [f["fix"] for f in findings if f["check"] == "index" and f["fix"]]
        for fix in fixes:
            self.sql(fix)
        self.sql("VACUUM (ANALYZE) jobs")
        self.sql("CHECKPOINT")
        return " ".join(fixes)

    def make_stuck(self, n):
        """Different jobs each time: a job that is stuck repeatedly has a history to read."""
        self.sql("UPDATE jobs SET status = 'running', updated_at = now() - interval '2 hours' "
                 f"WHERE id BETWEEN {self.next_stuck} AND {self.next_stuck + n - 1}")
        self.next_stuck += n
        self.sql("VACUUM jobs")

    def plain_update(self):
        start = time.monotonic()
        self.sql(f"UPDATE jobs SET {RESET} WHERE {STUCK}")
        return time.monotonic() - start

    def raw_batches(self, size):
        statement = (f"UPDATE jobs SET {RESET} WHERE id = ANY(ARRAY(SELECT id FROM jobs WHERE "
                     f"{STUCK} ORDER BY updated_at LIMIT {size} FOR NO KEY UPDATE SKIP LOCKED))")
        start = time.monotonic()
        while True:
            self.sql(statement)
            if self.cursor.rowcount == 0:
                return time.monotonic() - start

    def ledger_batches(self, size, kept):
        """The same with an entry for each row in a table of its own, in the same statement: bare,
        or with what defib keeps of the row before and after, without which nothing is undone."""
        self.sql("DROP TABLE IF EXISTS raw_ledger")
        self.sql("CREATE TABLE raw_ledger (id bigserial PRIMARY KEY, at timestamptz NOT NULL "
                 "DEFAULT clock_timestamp(), watch text, job text NOT NULL, event text NOT NULL, "
                 "reason text, before jsonb, after jsonb)")
        row = ("jsonb_build_object('status', {0}status, 'error', {0}error, "
               "'updated_at', {0}updated_at)")
        before, after = (row.format(""), row.format("j.")) if kept else ("NULL::jsonb",) * 2
        statement = (
            f"WITH s AS MATERIALIZED (SELECT id, {before} AS before FROM jobs WHERE {STUCK} ORDER "
            f"BY updated_at LIMIT {size} FOR NO KEY UPDATE SKIP LOCKED), u AS (UPDATE jobs AS j "
            f"SET {RESET} FROM s WHERE j.id = s.id RETURNING j.id, s.before, {after} AS after) "
            "INSERT INTO raw_ledger (watch, job, event, reason, before, after) SELECT 'jobs', "
            "id::text, 'REQUEUED', 'Reset', before, after FROM u")
        start = time.monotonic()
        while True:
            self.sql(statement)
            if self.cursor.rowcount == 0:
                return time.monotonic() - start

    def _run(self, *args):
        with open(self.out, "w+") as out:
            child = subprocess.Popen([self.program, *args, "-c", self.config], stdout=out,
                                     stderr=subprocess.PIPE, text=True)
            said = child.stderr.read()
            _pid, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            if child.returncode not in (0, 1, 3):
                raise RuntimeError(f"{args}: exit code {child.returncode}: {said}")
            return out.read(), usage.ru_maxrss / 1024

    def scan(self, *args, text=False):
        start = time.monotonic()
        said, rss_mib = self._run("scan", *args, *([] if text else ["--json"]))
        wall_ms = (time.monotonic() - start) * 1000
        result = {"watches": [{"took_ms": 0}], "recovered": 0} if text else json.loads(said)
        return Cost(wall_ms, result["watches"][0]["took_ms"], rss_mib, result["recovered"])

    def daemon_recovers(self, n, turns):
        """How long the passes of a running daemon take that recover n rows, in whole ms."""
        took = []
        with open(self.out, "w+") as log:
            child = subprocess.Popen([self.program, "daemon", "--verbose", "--log", "logfmt", "-c",
                                      self.daemon_config], stdout=subprocess.DEVNULL, stderr=log)
            try:
                while len(took) < turns:
                    self._pass(child, 0, os.path.getsize(self.out))
                    begun = os.path.getsize(self.out)  # and the next pass is some time away
                    self.make_stuck(n)
                    took.append(self._pass(child, n, begun))
            finally:
                child.terminate()
                child.wait()
        return took

    def _pass(self, child, n, begun):
        """Wait for a pass that recovers n, in the log from `begun` on."""
        start = time.monotonic()
        while time.monotonic() - start < PASS_S and child.poll() is None:
            with open(self.out) as lines:
                lines.seek(begun)
                for recovered, took_ms in PASS.findall(lines.read()):
                    if int(recovered) == n:
                        return int(took_ms)
            time.sleep(0.01)
        raise RuntimeError(f"no pass of the daemon recovered {n}: " + self.out.read_text()[-1000:])

    def forget_statements(self):
        self.sql("SELECT pg_stat_statements_reset()")

    def look_ms(self):
        """Planning is not in it; the daemon plans once."""
        return self.sql("SELECT sum(total_exec_time) / sum(calls) FROM pg_stat_statements "
                        "WHERE query LIKE '%defib_position%LIMIT%'")[0][0]

    def longest_statement_ms(self):
        """Of what defib ran: its statements name their columns so, or its ledger."""
        return self.sql("SELECT max(max_exec_time) FROM pg_stat_statements "
                        "WHERE query LIKE '%defib%'")[0][0]
