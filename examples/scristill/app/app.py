# SPDX-License-Identifier: Apache-2.0
"""Scristill in small: FastAPI, and a scheduler of 1 scrape, 6 crawl and 1 extract workers on the
same event loop.

    uvicorn app:app                      # with defib: start_after.py
    STARTUP=before uvicorn app:app       # as the document shows it: start_before.py
"""

import asyncio
import contextlib
import importlib
import logging
import os
import time

import asyncpg
from fastapi import FastAPI

logging.basicConfig(level=logging.INFO)
start = importlib.import_module(f"start_{os.environ.get('STARTUP', 'after')}")
WORKERS = [("scrape", 1), ("crawl", 6), ("extract", 1)]
POLL_S = float(os.environ.get("POLL_SECONDS", "5"))
JOB_S = float(os.environ.get("JOB_SECONDS", "0.05"))


async def run_job(job):
    """Parsing what a browser returned: it keeps the event loop busy."""
    time.sleep(JOB_S)
    if job["payload"] and "wait" in job["payload"]:
        await asyncio.sleep(3600)


class Scheduler:
    def __init__(self, pool):
        self.pool = pool

    async def claim(self, kind, states):
        return await self.pool.fetchrow(
            "UPDATE jobs SET status = 'running', updated_at = now() WHERE id = (SELECT id FROM jobs "
            "WHERE type = $1 AND status = ANY($2) ORDER BY created_at LIMIT 1 "
            "FOR UPDATE SKIP LOCKED) RETURNING *", kind, states)

    async def process(self, job):
        await run_job(job)
        await self.pool.execute("UPDATE jobs SET status = 'completed', completed_at = now(), "
                                "updated_at = now() WHERE id = $1", job["id"])


@contextlib.asynccontextmanager
async def lifespan(_app):
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=8) as pool:
        async with start.instance():
            starting = asyncio.create_task(start.start(Scheduler(pool), WORKERS, POLL_S))
            yield
            starting.cancel()
            running = starting.result() if starting.done() and not starting.cancelled() else []
            for task in running:
                task.cancel()
            await asyncio.gather(starting, *running, return_exceptions=True)


app = FastAPI()
app.router.lifespan_context = lifespan


@app.get("/health")
async def health():
    return {"ok": True}
