# SPDX-License-Identifier: Apache-2.0
"""The document's start: all workers poll at once, and jobs that a dead container left `running` are
valid work."""

import asyncio
import contextlib

instance = contextlib.AsyncExitStack  # nothing is cleaned up


async def worker(scheduler, kind, poll_s):
    while scheduler.running:
        job = await scheduler.claim(kind, ["queued", "running"])
        if job:
            await scheduler.process(job)
        else:
            await asyncio.sleep(poll_s)


async def start(scheduler, workers, poll_s):
    return [asyncio.create_task(worker(scheduler, kind, poll_s))
            for kind, count in workers for _ in range(count)]
