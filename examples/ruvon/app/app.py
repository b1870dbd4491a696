# SPDX-License-Identifier: Apache-2.0
"""Ruvon in small: Celery runs the steps of a workflow, each as a task.

    celery -A app worker                      # with defib: recovery_after.py
    RECOVERY=before celery -A app worker      # as the document's problem shows it
    python3 app.py [saga]                     # starts a workflow, and prints its id

The broker is a folder, so that nothing else needs to run.
"""

import importlib
import json
import os
import sys

import celery
import psycopg

import steps

FOLDER = os.environ.get("BROKER_FOLDER", "broker")
os.makedirs(FOLDER, exist_ok=True)
app = celery.Celery("ruvon", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": FOLDER, "data_folder_out": FOLDER}
app.conf.worker_hijack_root_logger = False
recovery = importlib.import_module(f"recovery_{os.environ.get('RECOVERY', 'after')}")


def database():
    return psycopg.connect(os.environ["DATABASE_URL"])


def start(saga=False):
    """A new workflow waits for its first step."""
    with database() as connection:
        workflow = str(connection.execute(
            "INSERT INTO workflow_executions (workflow_type, status, current_step, metadata) "
            "VALUES ('Order', 'PENDING_ASYNC', %s, %s) RETURNING id",
            [next(iter(steps.ALL)), json.dumps({"saga_enabled": saga})]).fetchone()[0])
    run_step.delay(workflow, next(iter(steps.ALL)))
    return workflow


def finish(workflow, step, following, result):
    """The step is finished and the next one is due, in one transaction, and only if the workflow
    still waits for this step. The last one takes the heartbeat along."""
    with database() as connection:
        moved = connection.execute(
            "UPDATE workflow_executions SET state = state || %s, updated_at = now(), status = %s, "
            "current_step = coalesce(%s, current_step) "
            "WHERE id = %s AND status = 'PENDING_ASYNC' AND current_step = %s",
            [json.dumps({step: result}), "PENDING_ASYNC" if following else "COMPLETED", following,
             workflow, step]).rowcount
        connection.execute("INSERT INTO workflow_audit_log (workflow_id, event_type) "
                           "VALUES (%s, 'STEP_EXECUTED')", [workflow])
        if moved and not following:
            connection.execute("DELETE FROM workflow_heartbeats WHERE workflow_id = %s", [workflow])
    return moved


@app.task(name="app.run_step")
def run_step(workflow, step):
    with recovery.heartbeat(workflow, step) as beat:
        result = steps.ALL[step][0](workflow, beat.check)
        names = list(steps.ALL)
        following = (names[names.index(step) + 1:] or [None])[0]
        if finish(workflow, step, following, result) and following:
            run_step.delay(workflow, following)


if __name__ == "__main__":
    print(start(saga="saga" in sys.argv[1:]))
