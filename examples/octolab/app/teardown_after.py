# SPDX-License-Identifier: Apache-2.0
"""The same with defib: the request only marks the lab; a worker in the lifespan tears it down, and
whoever starts next finishes what a killed or reloaded server left."""

import os

import defib

watches = defib.Watches(os.environ.get("DEFIB_CONFIG", "../defib.yaml"))


def worker(_pool, destroy_lab):
    labs = defib.Worker(watches=watches)

    @labs.watch("labs")
    async def teardown(job):
        await destroy_lab(job.key, job.payload["owner_id"])

    return labs


async def end(_pool, lab_id, _background):
    await defib.AsyncWatches(watches).end("labs", lab_id)
