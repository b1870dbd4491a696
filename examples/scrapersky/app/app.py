# SPDX-License-Identifier: Apache-2.0
"""ScraperSky in small: FastAPI, SQLAlchemy on asyncpg, and a scheduler of two workflows: WF6
imports sitemaps, WF7 processes pages.

    uvicorn app:app                 # with defib: loop_after.py
    LOOP=before uvicorn app:app     # as the document shows it: loop_before.py

The pool has two connections. Exports use them up: each holds one until DELETE /exports.
"""

import asyncio
import contextlib
import importlib
import logging
import os

from fastapi import FastAPI
from models import Page, SitemapFile, set_status
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

logging.basicConfig(level=logging.INFO)
URL = os.environ["DATABASE_URL"].replace("postgres://", "postgresql+asyncpg://", 1)
POLL_S = float(os.environ.get("POLL_SECONDS", "1"))
BATCH_SIZE = int(os.environ.get("BATCH_SIZE", "10"))
loop = importlib.import_module(f"loop_{os.environ.get('LOOP', 'after')}")
engine = create_async_engine(URL, pool_size=2, max_overflow=0)


async def connect(session):
    """Open its connection. If we are told to stop meanwhile, asyncpg may return as if nothing had
    happened: it calls asyncio.wait_for(), which loses a cancellation in Python 3.11."""
    task = asyncio.current_task()
    told = task.cancelling()
    await session.connection()
    if task.cancelling() > told:
        raise asyncio.CancelledError


async def get_session():
    """A session with its connection, or None if there is none within half a second."""
    session, connected = AsyncSession(engine), False
    try:
        async with asyncio.timeout(0.5):
            await connect(session)
        connected = True
    except Exception:
        pass
    finally:
        if not connected:
            await session.close()
    return session if connected else None


# ---- the two workflows

site_answers = asyncio.Event()  # until POST /site, slow sites keep us waiting


async def fetch(address):
    """What a site sends, in small: it may be slow, missing, or more than the memory holds."""
    if "slow" in address:
        await site_answers.wait()
    if "missing" in address:
        raise ValueError("no such page")
    return b"x" * (1 << 30 if "huge" in address else 1)


async def import_sitemap(sitemap_id, session):
    sitemap = await session.get(SitemapFile, sitemap_id)
    await fetch(sitemap.domain)
    session.add(Page(url=f"https://{sitemap.domain}/"))
    await session.execute(set_status(SitemapFile, "sitemap_import_status", [sitemap_id],
                                     "Complete"))


async def process_page(page_id, session):
    page = await session.get(Page, page_id)
    await fetch(page.url)
    await session.execute(set_status(Page, "page_processing_status", [page_id], "Complete"))


WORKFLOWS = [
    (SitemapFile, "sitemap_import_status", "sitemap_import_error", import_sitemap),
    (Page, "page_processing_status", "page_processing_error", process_page),
]


async def schedule(*workflow):
    """Every POLL_S: one run of the job loop."""
    while True:
        await loop.run_job_loop(*workflow, get_session, BATCH_SIZE)
        await asyncio.sleep(POLL_S)


@contextlib.asynccontextmanager
async def lifespan(_app):
    async with loop.monitor():
        running = [asyncio.create_task(schedule(*workflow)) for workflow in WORKFLOWS]
        yield
        for task in running + exports:
            task.cancel()
        await asyncio.gather(*running, *exports, return_exceptions=True)
    await engine.dispose()


app = FastAPI()
app.router.lifespan_context = lifespan


# ---- the API

exports = []


async def export():
    """A slow query: it holds a connection of the pool."""
    async with AsyncSession(engine) as session:
        await connect(session)
        await asyncio.Event().wait()


@app.get("/health")
async def health():
    return {"ok": True, "exports": len(exports)}


@app.post("/exports", status_code=202)
async def begin_export():
    exports.append(asyncio.create_task(export()))
    return {"exports": len(exports)}


@app.delete("/exports", status_code=204)
async def end_exports():
    while exports:
        exports.pop().cancel()


@app.post("/site", status_code=204)
async def let_sites_answer():
    site_answers.set()


@app.delete("/site", status_code=204)
async def let_sites_be_slow():
    site_answers.clear()


@app.get("/records")
async def records():
    """How many records of each table are in each state."""
    async with AsyncSession(engine) as session:
        return {model.__tablename__: dict((await session.execute(
            select(getattr(model, status), func.count()).group_by(getattr(model, status)))).all())
            for model, status, _error, _function in WORKFLOWS}
