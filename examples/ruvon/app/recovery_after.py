# SPDX-License-Identifier: Apache-2.0
"""With defib: a step sends heartbeats while it runs. Started as a program, this file goes on with
workflows that were retried, and undoes the finished steps of those that are rolled back."""

import os

import defib
import steps

watches = defib.Watches(os.environ.get("DEFIB_CONFIG", "../defib.yaml"))


def heartbeat(workflow, step):
    """The document's HeartbeatManager."""
    return defib.Heartbeat(watches, "workflows", workflow, step=step,
                           metadata={"pid": os.getpid()})


def handler(function):
    return function and (lambda job: function(job.key, job.check))


if __name__ == "__main__":
    worker = defib.Worker(watches=watches)
    worker.workflow([defib.Step(name, handler(run), handler(undo))
                     for name, (run, undo) in steps.ALL.items()], watch="workflows")
    worker.run()
