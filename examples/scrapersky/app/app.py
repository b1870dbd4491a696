# SPDX-License-Identifier: Apache-2.0
"""ScraperSky in small: FastAPI, SQLAlchemy on asyncpg, and a scheduler that processes pages.

    uvicorn app:app                 # with defib: loop_after.py
    LOOP=before uvicorn app:app     # as the document shows it: loop_before.py

The pool has two connections. Requests to /report use them up, as a slow query does.
"""

import asyncio
import contextlib
import importlib
import logging
import os

from fastapi import FastAPI, HTTPException
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

logging.basicConfig(level=logging.INFO)
URL = os.environ["DATABASE_URL"].replace("postgres://", "postgresql+asyncpg://", 1)
POLL_S = float(os.environ.get("POLL_SECONDS", "1"))
loop = importlib.import_module(f"loop_{os.environ.get('LOOP', 'after')}")
engine = create_async_engine(URL, pool_size=2, max_overflow=0)


async def get_session():
    """A session with its connection, or None if there is none within half a second."""
    session = AsyncSession(engine)
    try:
        await asyncio.wait_for(session.connection(), 0.5)
        return session
    except Exception:
        await session.close()
        return None


async def process_page(page_id, session):
    """The work on one page; the page "slow" takes as long as somebody holds the lock 7."""
    url = (await session.execute(text("SELECT url FROM pages WHERE id = :id"),
                                 {"id": page_id})).scalar_one()
    if url == "slow":
        await session.execute(text("SELECT pg_advisory_xact_lock(7)"))
    if url == "bad":
        raise ValueError("no such page")
    await session.execute(text("UPDATE pages SET page_processing_status = 'Complete', "
                               "updated_at = now() WHERE id = :id"), {"id": page_id})


async def scheduler():
    """Every POLL_S: one run of the job loop."""
    while True:
        await loop.run_job_loop(get_session, process_page)
        await asyncio.sleep(POLL_S)


@contextlib.asynccontextmanager
async def lifespan(_app):
    async with loop.monitor():
        running = asyncio.create_task(scheduler())
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await engine.dispose()


app = FastAPI()
app.router.lifespan_context = lifespan


@app.get("/health")
async def health():
    return {"reports": len(reports)}


reports = []  # requests that are being answered


@app.post("/report")
async def report():
    """A slow query: it holds a connection until nobody holds the lock 8."""
    reports.append(1)
    async with AsyncSession(engine) as session:
        await session.execute(text("SELECT pg_advisory_xact_lock_shared(8)"))
    reports.pop()
    return {"ok": True}


@app.get("/pages/{page_id}")
async def page(page_id: str):
    async with AsyncSession(engine) as session:
        row = (await session.execute(text(
            "SELECT page_processing_status::text, page_processing_error FROM pages "
            "WHERE id = CAST(:id AS uuid)"), {"id": page_id})).first()
    if row is None:
        raise HTTPException(404)
    return {"status": row[0], "error": row[1]}
