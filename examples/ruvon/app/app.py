# SPDX-License-Identifier: Apache-2.0
"""Ruvon in small: Celery runs the steps of a workflow, each as a task.

    celery -A app worker                      # with defib: steps beat
    HEARTBEAT=no celery -A app worker         # as the document's problem shows it
    python -c 'import app; app.dispatch("<id>", "Process_Payment")'

The broker is a folder, so that nothing else needs to run.
"""

import contextlib
import json
import os
import time

import celery
import psycopg

import defib

FOLDER = os.environ.get("BROKER_FOLDER", "/tmp/ruvon-broker")
app = celery.Celery("ruvon", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": FOLDER, "data_folder_out": FOLDER}
app.conf.worker_hijack_root_logger = False

STEPS = ("Reserve_Inventory", "Process_Payment", "Ship_Order")
URL = os.environ["DATABASE_URL"]
watches = defib.Watches(os.environ.get("DEFIB_CONFIG", "../defib.yaml"))


def heartbeat(workflow_id, step):
    """While a step runs; the document's HeartbeatManager."""
    if os.environ.get("HEARTBEAT") == "no":
        return contextlib.nullcontext()
    return defib.Heartbeat(watches, "workflows", workflow_id, step=step,
                           metadata={"pid": os.getpid()})


def write(sql, *params):
    with psycopg.connect(URL) as connection:
        return connection.execute(sql, params).rowcount


def dispatch(workflow_id, step):
    write("UPDATE workflow_executions SET status = 'PENDING_ASYNC', current_step = %s, "
          "updated_at = now() WHERE id = %s", step, workflow_id)
    run_step.delay(workflow_id, step)


def work(workflow_id, step, beat):
    """The step itself; takes as long as the file hold.STEP exists."""
    with open("began", "a") as began:
        began.write(f"{step} {os.getpid()}\n")
    while os.path.exists(f"hold.{step}"):
        if beat:
            beat.check()
        time.sleep(0.05)
    return {"by": os.getpid()}


@app.task
def run_step(workflow_id, step):
    with heartbeat(workflow_id, step) as beat:
        result = work(workflow_id, step, beat)
        # The step is recorded only where the workflow still waits for it.
        done = write("UPDATE workflow_executions SET state = state || %s, updated_at = now() "
                     "WHERE id = %s AND status = 'PENDING_ASYNC' AND current_step = %s",
                     json.dumps({step: result}), workflow_id, step)
    if not done:
        return
    write("INSERT INTO workflow_audit_log (workflow_id, event_type) VALUES (%s, 'STEP_EXECUTED')",
          workflow_id)
    following = STEPS[STEPS.index(step) + 1:]
    if following:
        dispatch(workflow_id, following[0])
    else:
        write("UPDATE workflow_executions SET status = 'COMPLETED' WHERE id = %s", workflow_id)
