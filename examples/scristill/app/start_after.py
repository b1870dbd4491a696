# SPDX-License-Identifier: Apache-2.0
"""The same with defib: jobs of dead instances are failed before any worker claims, the workers start
one after another, and each takes only a few jobs at first."""

import asyncio
import os

import defib

watches = defib.Watches(os.environ.get("DEFIB_CONFIG", "../defib.yaml"))
STAGGER_S = float(os.environ.get("SCHEDULER_STARTUP_STAGGER_SECONDS", "1"))
BURST = int(os.environ.get("SCHEDULER_STARTUP_BURST_LIMIT", "5"))
WINDOW_S = float(os.environ.get("SCHEDULER_STARTUP_WINDOW_SECONDS", "60"))


def instance():
    return defib.Instance(watches, "jobs")


async def worker(scheduler, kind, poll_s):
    burst = defib.Burst(BURST, WINDOW_S)
    while scheduler.running:
        job = await scheduler.claim(kind, ["queued"]) if burst.allows() else None
        if job:
            burst.count()
            await scheduler.process(job, alive=defib.Heartbeat(watches, "jobs", job["id"]))
        else:
            await asyncio.sleep(poll_s)


async def start(scheduler, workers, poll_s):
    return await defib.staggered(STAGGER_S, [
        worker(scheduler, kind, poll_s) for kind, count in workers for _ in range(count)])
