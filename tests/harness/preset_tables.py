# SPDX-License-Identifier: Apache-2.0
"""Known queues by their tables alone (tests/schemas): a running job of a given age, and its
state. What their own workers would do to a row is done by SQL here; test_presets_npm.py uses the
real ones where available.
"""

import itertools
import json

from harness.program import ROOT

SCHEMAS = ROOT / "tests" / "schemas"
UUID = "00000000-0000-0000-0000-000000000001"
_numbers = itertools.count(1)


class Queue:
    """One preset on one database. add() makes a running job; state() returns its state."""

    preset = None
    engines = ("postgres",)
    more = ""               # further keys of the watch
    threshold_s = None      # what the preset ships with, in seconds of silence
    free, failed = None, None
    tables = ()             # where its jobs are
    kind = None             # as list and explain name it
    undo = True             # whether its requeue is a SET list and nothing else

    def __init__(self, db):
        self.db = db
        if db.engine == "postgres":
            # Times that a table writes without a zone must not be read in the session's.
            db.sql(f"ALTER DATABASE {db.name} SET timezone = 'Asia/Tokyo'")
        db.sql((SCHEMAS / f"{self.preset}.{db.engine}.sql").read_text())
        self.config = (f"databases:\n  - {{name: main, url: '{db.url}'}}\nwatches:\n"
                       f"  - name: work\n    preset: {self.preset}\n{self.more}")

    def ago(self, seconds, form="tz"):
        """SQL for a time that long ago, in the form of the table."""
        if form == "epoch" and self.db.engine == "postgres":
            return f"extract(epoch FROM now())::int - {seconds}"
        if form == "epoch":
            return f"CAST(strftime('%s', 'now') AS integer) - {seconds}"
        if self.db.engine == "sqlite":
            return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-{seconds} seconds')"
        now = "timezone('utc', now())" if form == "utc" else "now()"
        return f"{now} - interval '{seconds} seconds'"

    def clear(self):
        for table in self.tables:
            self.db.sql(f"DELETE FROM {table}")

    def insert(self, table, key, **values):
        """A row of SQL expressions; returns the value of its column `key`."""
        names, marks = ", ".join(values), ", ".join(str(v) for v in values.values())
        return self.db.sql(f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING {key}")[0][0]

    def one(self, query, *params):
        rows = self.db.sql(query, *params)
        return rows[0][0] if rows else None

    def stuck(self, **more):
        return self.add(2 * self.threshold_s + 600, **more)

    def claim(self, key):
        """SQL by which a worker claims a free job."""
        raise NotImplementedError

    def living(self):
        """Half of what the preset allows."""
        return self.add(self.threshold_s // 2)


class River(Queue):
    preset, threshold_s, kind = "river", 3600, "mail"
    tables = ("river_job",)
    free, failed = "retryable", "discarded"

    def add(self, age_s, attempt=1, metadata="'{}'"):
        return self.insert("river_job", "id", state="'running'", kind="'mail'", args="'{}'",
                           attempt=attempt, max_attempts=3, attempted_at=self.ago(age_s),
                           attempted_by="ARRAY['host-a', 'host-b']", metadata=metadata)

    def last(self):
        return self.stuck(attempt=3)

    def state(self, key):
        return self.one("SELECT state::text FROM river_job WHERE id = %s", key)

    def claim(self, key):
        return ("UPDATE river_job SET state = 'running', attempt = attempt + 1, attempted_at = "
                f"now(), attempted_by = array_append(attempted_by, 'host-c') WHERE id = {key}")


class Oban(Queue):
    preset, threshold_s, kind = "oban", 3600, "MyApp.Mailer"
    tables = ("oban_jobs",)
    free, failed = "available", "discarded"

    def add(self, age_s, attempt=1):
        return self.insert("oban_jobs", "id", state="'executing'", worker="'MyApp.Mailer'",
                           attempt=attempt, max_attempts=3, attempted_at=self.ago(age_s, "utc"),
                           attempted_by="ARRAY['node@a', 'uuid-1']")

    def last(self):
        return self.stuck(attempt=3)

    def state(self, key):
        return self.one("SELECT state::text FROM oban_jobs WHERE id = %s", key)

    def claim(self, key):
        return ("UPDATE oban_jobs SET state = 'executing', attempt = attempt + 1, attempted_at = "
                f"timezone('utc', now()), attempted_by = '{{node@b,uuid-2}}' WHERE id = {key}")


class PgBoss12(Queue):
    """Version 12; jobs of one queue whose policy allows one of a singleton key in each state."""

    preset, threshold_s, kind = "pg-boss", 900, "mail"
    tables = ("pgboss.job",)
    free, failed, undo = "retry", "failed", False

    def __init__(self, db):
        super().__init__(db)
        db.sql("INSERT INTO pgboss.queue VALUES ('dead', 'standard', NULL), "
               "('mail', 'stately', 'dead')")

    def add(self, age_s, retries=0, **more):
        values = {"singleton_key": f"'k{next(_numbers)}'", "dead_letter": "'dead'", **more}
        key = self.insert("pgboss.job", "id", name="'mail'", state="'active'", retry_limit=2,
                          retry_count=retries, policy="'stately'", started_on=self.ago(age_s),
                          **values)
        return f'["mail","{key}"]'

    def last(self):
        return self.stuck(retries=2)

    def state(self, key):
        return self.one("SELECT state::text FROM pgboss.job WHERE id = %s", json.loads(key)[1])

    def claim(self, key):
        return ("UPDATE pgboss.job SET state = 'active', started_on = now(), retry_count = "
                f"retry_count + 1 WHERE id = '{json.loads(key)[1]}'")


class SolidQueue(Queue):
    preset, threshold_s, kind = "solid-queue", 180, "MailJob"
    tables = ("solid_queue_ready_executions", "solid_queue_claimed_executions",
              "solid_queue_failed_executions", "solid_queue_jobs", "solid_queue_processes")
    engines = ("postgres", "sqlite")
    free, failed, undo = "ready", "failed", False

    def add(self, age_s, process=True):
        now = self.ago(0, "utc")
        job = self.insert("solid_queue_jobs", "id", queue_name="'default'", class_name="'MailJob'",
                          priority=7, created_at=now, updated_at=now)
        owner = self.process(job, age_s) if process else 999
        self.insert("solid_queue_claimed_executions", "id", job_id=job, process_id=owner,
                    created_at=self.ago(age_s, "utc"))
        return job

    def process(self, n, age_s):
        return self.insert("solid_queue_processes", "id", kind="'Worker'", pid=n, name=f"'w-{n}'",
                           last_heartbeat_at=self.ago(age_s, "utc"),
                           created_at=self.ago(age_s, "utc"))

    def orphan(self):
        return self.add(1, process=False)

    def state(self, key):
        for state, table in (("running", "claimed"), ("ready", "ready"), ("failed", "failed")):
            if self.one(f"SELECT job_id FROM solid_queue_{table}_executions WHERE job_id = %s",
                        key):
                return state
        return None

    def claim(self, key):
        now = self.ago(0, "utc")
        return (f"DELETE FROM solid_queue_ready_executions WHERE job_id = {key}; INSERT INTO "
                "solid_queue_claimed_executions (job_id, process_id, created_at) "
                f"VALUES ({key}, {self.process(10000 + key, 0)}, {now})")


class GoodJob(Queue):
    preset, threshold_s, kind = "good-job", 300, "MailJob"
    tables = ("good_jobs", "good_job_processes")
    free, failed = "free", "failed"

    def add(self, age_s, process=True):
        beat = self.ago(age_s, "utc")
        owner = f"'{UUID}'" if not process else "'" + self.insert(
            "good_job_processes", "id", created_at=beat, updated_at=beat) + "'"
        return self.insert("good_jobs", "id", queue_name="'default'", job_class="'MailJob'",
                           active_job_id="gen_random_uuid()", created_at=beat, updated_at=beat,
                           performed_at=beat, locked_by_id=owner, locked_at=beat, lock_type=1)

    def orphan(self):
        return self.add(1, process=False)

    def state(self, key):
        return self.one("SELECT CASE WHEN finished_at IS NOT NULL THEN 'failed' WHEN locked_by_id "
                        "IS NULL THEN 'free' ELSE 'running' END FROM good_jobs WHERE id = %s", key)

    def claim(self, key):
        now = self.ago(0, "utc")
        process = self.insert("good_job_processes", "id", created_at=now, updated_at=now)
        return (f"UPDATE good_jobs SET locked_by_id = '{process}', locked_at = {now}, "
                f"performed_at = {now} WHERE id = '{key}'")


class Procrastinate(Queue):
    preset, threshold_s, kind = "procrastinate", 60, "send_mail"
    tables = ("procrastinate_jobs", "procrastinate_workers")
    free, failed, undo = "todo", "failed", False

    def add(self, age_s, **more):
        worker = self.insert("procrastinate_workers", "id", last_heartbeat=self.ago(age_s))
        # The newest goes first, so that rows of other tests do not come before it.
        job = self.insert("procrastinate_jobs", "id", queue_name="'default'",
                          task_name="'send_mail'", priority=next(_numbers), **more)
        self.take(job, worker)
        return job

    def take(self, job, worker):
        """By its own function, as its workers do."""
        assert self.one("SELECT (procrastinate_fetch_job_v2(NULL, %s)).id", worker) == job

    def living(self):
        """Its minute is short: a slow machine must not use it up."""
        return self.add(5)

    def orphan(self):
        job = self.add(1)
        self.db.sql("DELETE FROM procrastinate_workers")
        return job

    def state(self, key):
        return self.one("SELECT status::text FROM procrastinate_jobs WHERE id = %s", key)

    def claim(self, key):
        worker = self.insert("procrastinate_workers", "id", last_heartbeat="now()")
        return f"SELECT procrastinate_fetch_job_v2(NULL, {worker})"


class Laravel(Queue):
    preset, threshold_s, kind = "laravel", 3600, "default"
    tables = ("jobs", "failed_jobs")
    engines = ("postgres", "sqlite")
    free, failed = "free", "failed"

    def add(self, age_s):
        then = self.ago(age_s, "epoch")
        return self.insert("jobs", "id", queue="'default'", payload="'{}'", attempts=1,
                           reserved_at=then, available_at=then, created_at=then)

    def state(self, key):
        rows = self.db.sql("SELECT reserved_at FROM jobs WHERE id = %s", key)
        if not rows:
            return "failed" if self.one("SELECT count(*) FROM failed_jobs") else None
        return "free" if rows[0][0] is None else "running"

    def claim(self, key):
        return (f"UPDATE jobs SET attempts = attempts + 1, reserved_at = {self.ago(0, 'epoch')} "
                f"WHERE id = {key}")


class Pgmq(Queue):
    """A message whose visibility ended is visible again; stuck is one that is read again and again.
    """

    preset, threshold_s, kind = "pgmq", 60, None
    tables = ("pgmq.q_emails",)
    more = "    table: pgmq.q_emails\n"
    free, failed = "visible", "held"

    def add(self, age_s, reads=1):
        return self.insert("pgmq.q_emails", "msg_id", message="'{}'", read_ct=reads,
                           vt=self.ago(age_s), enqueued_at=self.ago(age_s + 30))

    def living(self):
        """Read for the last time, and still invisible."""
        return self.add(-600, reads=10)

    def stuck(self):
        return self.add(120, reads=10)

    last = stuck

    def state(self, key):
        return self.one("SELECT CASE WHEN vt > now() + interval '10 years' THEN 'held' WHEN "
                        "vt > now() THEN 'running' ELSE 'visible' END FROM pgmq.q_emails "
                        "WHERE msg_id = %s", key)

    def claim(self, key):
        return "SELECT pgmq.read('emails', 600, 1)"


QUEUES = (River, Oban, PgBoss12, SolidQueue, GoodJob, Procrastinate, Laravel, Pgmq)
