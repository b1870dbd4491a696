# SPDX-License-Identifier: Apache-2.0
"""The same loop with defib: no item is skipped, what a killed process leaves is recovered, and
somebody is told."""

import asyncio
import contextlib
import logging
import os

import defib
from models import claim

CONFIG = os.environ.get("DEFIB_CONFIG", "../defib.yaml")
logger = logging.getLogger("scrapersky")
instance = defib.Instance(defib.Watches(CONFIG), "sitemaps", "pages")


@contextlib.asynccontextmanager
async def monitor():
    """While the program runs: the clean-up of both tables, alerts, the weekly report, a page."""
    async with defib.Monitor(CONFIG, listen=os.environ.get("DEFIB_LISTEN")), instance:
        yield


async def run_job_loop(model, status_field, _error_field, processing_function, get_session,
                       batch_size):
    watch = {"SitemapFile": "sitemaps", "Page": "pages"}[model.__name__]
    try:
        async with instance.session(get_session) as session:
            items = await claim(session, model, status_field, batch_size)
    except defib.NoSession:
        return
    try:
        while items:
            item_id = items.pop(0)
            try:
                async with instance.claimed_item(get_session, item_id, watch) as session:
                    logger.info("SCHEDULER_LOOP: Processing %s ID: %s", model.__name__, item_id)
                    await processing_function(item_id, session)
            except Exception as error:
                logger.error("SCHEDULER_LOOP: item %s: %s", item_id, error)
    finally:
        await asyncio.to_thread(instance.requeue, watch, items)  # the program stops
