# SPDX-License-Identifier: Apache-2.0
"""The job loop as the document shows it: an item for which there is no session is skipped, and
stays `Processing` forever."""

import contextlib
import logging

from sqlalchemy import text

logger = logging.getLogger("scrapersky")
monitor = contextlib.AsyncExitStack  # nothing watches


async def claim(get_session):
    """Phase 1: mark a batch."""
    session = await get_session()
    if session is None:
        return []
    async with session:
        rows = await session.execute(text(
            "UPDATE pages SET page_processing_status = 'Processing', updated_at = now() "
            "WHERE id IN (SELECT id FROM pages WHERE page_processing_status = 'Queued' "
            "ORDER BY updated_at LIMIT 10 FOR UPDATE SKIP LOCKED) RETURNING id"))
        claimed = [row.id for row in rows]
        await session.commit()
    return claimed


async def run_job_loop(get_session, processing_function):
    """Phase 2: each item by itself."""
    for item_id in await claim(get_session):
        item_session = None
        try:
            item_session = await get_session()
            if item_session is None:
                logger.error("SCHEDULER_LOOP: Failed to get session for processing item %s. "
                             "Skipping.", item_id)
                continue  # PROBLEM: the item stays in Processing forever
            await processing_function(item_id, item_session)
            await item_session.commit()
        except Exception:
            logger.exception("SCHEDULER_LOOP: item %s", item_id)
            error_session = await get_session()
            if error_session is None:
                continue  # PROBLEM: here too
            async with error_session:
                await error_session.execute(text(
                    "UPDATE pages SET page_processing_status = 'Failed' WHERE id = :id"),
                    {"id": item_id})
                await error_session.commit()
        finally:
            if item_session is not None:
                await item_session.close()
