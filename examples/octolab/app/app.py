# SPDX-License-Identifier: Apache-2.0
"""OctoLab in small: FastAPI with an owner check, and teardowns in the background.

    uvicorn app:app                       # with defib: teardown_after.py
    TEARDOWN=before uvicorn app:app       # as the document shows it: teardown_before.py
"""

import asyncio
import contextlib
import importlib
import logging
import os

import asyncpg
from fastapi import BackgroundTasks, FastAPI, Header, HTTPException, Response

logging.basicConfig(level=logging.INFO)
teardown = importlib.import_module(f"teardown_{os.environ.get('TEARDOWN', 'after')}")


async def destroy_lab(lab_id, owner=""):
    """Stands for `docker compose down`. Takes as long as the file hold.ID exists; fails if fail.ID
    does."""
    with open("began", "a") as began:
        began.write(f"{lab_id}\n")
    while os.path.exists(f"hold.{lab_id}"):
        await asyncio.sleep(0.02)
    if os.path.exists(f"fail.{lab_id}"):
        raise RuntimeError(f"no network of {owner}")


@contextlib.asynccontextmanager
async def lifespan(app):
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=4) as app.pool:
        async with teardown.worker(app.pool, destroy_lab):
            yield


app = FastAPI()
app.router.lifespan_context = lifespan


@app.get("/health")
async def health():
    return {"ok": True}


async def lab_of(lab_id, owner):
    """The lab, for its owner only."""
    try:
        row = await app.pool.fetchrow("SELECT status, owner_id FROM labs WHERE id = $1", lab_id)
    except asyncpg.DataError:
        row = None
    if row is None or str(row["owner_id"]) != owner:
        raise HTTPException(404, "there is no such lab")
    return row


@app.get("/labs/{lab_id}")
async def status(lab_id: str, x_owner: str = Header("")):
    return {"status": (await lab_of(lab_id, x_owner))["status"]}


@app.post("/labs/{lab_id}/end", status_code=204)
@app.delete("/labs/{lab_id}", status_code=204)
async def delete(lab_id: str, background: BackgroundTasks, x_owner: str = Header("")):
    await lab_of(lab_id, x_owner)
    await teardown.end(app.pool, lab_id, background)
    return Response(status_code=204)
