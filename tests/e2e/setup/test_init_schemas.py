# SPDX-License-Identifier: Apache-2.0
"""`defib init --detect` on the tables of eleven systems that defib has no preset for.

Each schema (schemas/detect) has rows that wait, that are done and failed, one whose worker is alive
and one whose worker is gone. Found means: the right table, the running rows, a sensible sign of
life. Whatever is proposed, nothing is changed before a user has confirmed it.
"""


import pytest
import yaml

from harness.program import ROOT

SCHEMAS = ROOT / "tests" / "schemas" / "detect"

# table, running, signs of life that make sense, lines beyond them
SYSTEMS = {
    "db-scheduler": ("scheduled_tasks", "picked", {"alive_at": "last_heartbeat"},
                     {"owner": "picked_by", "attempts": "consecutive_failures"}),
    "dbos": ("dbos.workflow_status", "status = 'PENDING'", {"alive_at": "updated_at"},
             {"owner": "executor_id", "attempts": "recovery_attempts", "time_type": "epoch_ms"}),
    "delayed_job": ("delayed_jobs", "locked_at IS NOT NULL AND failed_at IS NULL",
                    {"alive_at": "locked_at"}, {"owner": "locked_by", "attempts": "attempts"}),
    "symfony": ("messenger_messages", "delivered_at IS NOT NULL", {"alive_at": "delivered_at"},
                {"requeue": "delivered_at = NULL"}),
    "absurd": ("absurd.r_default", "state = 'running'", {"expires_at": "claim_expires_at"},
               {"owner": "claimed_by", "attempts": "attempt"}),
    "airflow": ("task_instance", "state = 'running'", {"alive_at": "last_heartbeat_at"},
                {"owner": "hostname", "attempts": "try_number", "max_attempts": "max_tries"}),
    "hatchet": ("v1_task_runtime", "worker_id IS NOT NULL", {"expires_at": "timeout_at"},
                {"owner": "worker_id"}),
    "quartz": ("qrtz_fired_triggers", "state = 'EXECUTING'", {"started_at": "fired_time"},
               {"owner": "instance_name", "time_type": "epoch_ms"}),
    "spring-batch": ("batch_job_execution", "status = 'STARTED'", {"alive_at": "last_updated"}, {}),
    "hangfire": ("hangfire.jobqueue", "fetchedat IS NOT NULL", {"alive_at": "fetchedat"},
                 {"requeue": "fetchedat = NULL"}),
    "django-tasks": ("django_tasks_database_dbtaskresult", "status = 'RUNNING'",
                     {"started_at": "started_at"}, {"requeue": "status = 'READY'"}),
}


def detect(defib, db):
    ran = defib("init", "--detect", db=db)
    if ran.code == 5:
        return [], ran
    assert ran.code == 0, ran.err
    return yaml.safe_load(ran.out)["watches"], ran


def is_found(watches, name):
    table, running, signs, more = SYSTEMS[name]
    for watch in watches:
        if watch["table"] == table:
            given = {**signs, **more, "running": running}
            return {key: watch.get(key) for key in given} == given
    return False


def rows_of(db):
    tables = db.sql("SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON "
                    "n.oid = relnamespace WHERE relkind = 'r' AND nspname !~ '^pg_' AND nspname "
                    "NOT IN ('information_schema', 'defib') ORDER BY 1")
    return {name: sorted(map(str, db.sql(f"SELECT * FROM {name}"))) for (name,) in tables}


def arm_is_safe(defib, db, ran):
    """With what was proposed, a scan that may change everything changes nothing."""
    before = rows_of(db)
    fixed = defib("scan", "--fix", config=ran.out)
    assert fixed.code in (0, 1), fixed.err
    return rows_of(db) == before


@pytest.mark.covers("F1")
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_without_a_preset_is_found_and_nothing_is_armed(name, pg, defib):
    pg.sql((SCHEMAS / f"{name}.sql").read_text())
    watches, ran = detect(defib, pg)
    assert is_found(watches, name), ran.out + ran.err
    assert all(watch["remedies"] == [{"do": "report"}] for watch in watches), ran.out
    assert "CHECK: " in ran.out
    assert defib("config", "check", config=ran.out).code == 0
    assert arm_is_safe(defib, pg, ran)
