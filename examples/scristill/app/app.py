# SPDX-License-Identifier: Apache-2.0
"""Scristill in small: FastAPI, and a scheduler of 1 scrape, 6 crawl and 1 extract workers on the
same event loop.

    uvicorn app:app                      # with defib: start_after.py
    STARTUP=before uvicorn app:app       # as the document shows it: start_before.py
"""

import asyncio
import contextlib
import importlib
import json
import logging
import os
import time

import asyncpg
from fastapi import FastAPI, HTTPException

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
logger = logging.getLogger("scristill")
start = importlib.import_module(f"start_{os.environ.get('STARTUP', 'after')}")
WORKERS = [("scrape", 1), ("crawl", 6), ("extract", 1)]
POLL_S = float(os.environ.get("POLL_SECONDS", "5"))
JOB_S = float(os.environ.get("JOB_SECONDS", "0.05"))


async def run_job(payload):
    """Parsing what a browser returned: it keeps the event loop busy, and some pages are large."""
    time.sleep(JOB_S)
    page = b"x" * (payload.get("megabytes", 0) << 20)
    await asyncio.sleep(payload.get("seconds", 0))
    return len(page)


class Scheduler:
    def __init__(self, pool):
        self.pool = pool
        self.running = True

    async def claim(self, kind, states):
        return await self.pool.fetchrow(
            "UPDATE jobs SET status = 'running', updated_at = now() WHERE id = (SELECT id FROM jobs "
            "WHERE type = $1 AND status = ANY($2) ORDER BY created_at LIMIT 1 "
            "FOR UPDATE SKIP LOCKED) RETURNING *", kind, states)

    async def process(self, job, alive=None):
        """One job; `alive` says so while it runs."""
        logger.info("job_started id=%s type=%s", job["id"], job["type"])
        try:
            # The end is written while it is still known to be ours.
            async with alive or contextlib.AsyncExitStack():
                await self.end(job, await self.work(job))
        except Exception as why:
            await self.end(job, "failed", str(why))

    async def end(self, job, ended, error=None):
        written = await self.pool.execute(
            "UPDATE jobs SET status = $2, error = $3, completed_at = now(), updated_at = now() "
            "WHERE id = $1 AND status IN ('running', 'cancelling')", job["id"], ended, error)
        logger.info("job_ended id=%s %s%s", job["id"], ended, " too late" * (written == "UPDATE 0"))

    async def work(self, job):
        """Until it is done, or somebody asks it to stop."""
        task = asyncio.create_task(run_job(json.loads(job["payload"])))
        try:
            while not (await asyncio.wait([task], timeout=0.5))[0]:
                if await self.pool.fetchval("SELECT status FROM jobs WHERE id = $1",
                                            job["id"]) == "cancelling":
                    return "cancelled"
            task.result()
            return "completed"
        finally:
            task.cancel()


@contextlib.asynccontextmanager
async def lifespan(app):
    pool = app.state.pool = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1,
                                                      max_size=10)
    scheduler = Scheduler(pool)
    async with start.instance():
        starting = asyncio.create_task(start.start(scheduler, WORKERS, POLL_S))
        yield
        scheduler.running = False
        starting.cancel()
        running = starting.result() if starting.done() and not starting.cancelled() else []
        for task in running:
            task.cancel()
        await asyncio.wait([starting, *running], timeout=10)
    pool.terminate()


app = FastAPI()
app.router.lifespan_context = lifespan


@app.get("/health")
async def health():
    return {"ok": True}


@app.get("/jobs")
async def jobs():
    """How many jobs are in each state."""
    return dict(await app.state.pool.fetch("SELECT status, count(*) FROM jobs GROUP BY status"))


@app.post("/jobs/{job}/cancel", status_code=202)
async def cancel(job: str):
    if not await app.state.pool.fetchval("UPDATE jobs SET status = 'cancelling' WHERE id::text = $1 "
                                         "AND status = 'running' RETURNING 1", job):
        raise HTTPException(404)
