# SPDX-License-Identifier: Apache-2.0
"""The job loop as the document shows it: an item for which there is no session is skipped, and
stays `Processing` forever."""

import contextlib
import logging

from models import claim, set_status

logger = logging.getLogger("scrapersky")
monitor = contextlib.AsyncExitStack  # nothing watches


async def run_job_loop(model, status_field, error_field, processing_function, get_session,
                       batch_size):
    session = await get_session()
    if session is None:
        return
    async with session:
        items_to_process_ids = await claim(session, model, status_field, batch_size)

    # Phase 2: Process Each Item Individually (Separate Transactions)
    for item_id in items_to_process_ids:
        item_session = None
        try:
            item_session = await get_session()
            if item_session is None:
                logger.error("SCHEDULER_LOOP: Failed to get session for processing item %s. "
                             "Skipping.", item_id)
                continue  # PROBLEM: the item stays in "Processing" forever
            logger.info("SCHEDULER_LOOP: Processing %s ID: %s", model.__name__, item_id)
            await processing_function(item_id, item_session)
            await item_session.commit()
        except Exception as process_err:
            logger.exception("SCHEDULER_LOOP: item %s", item_id)
            error_session = await get_session()
            if error_session is None:
                logger.error("SCHEDULER_LOOP: Failed to get error session for item %s. "
                             "Cannot mark as Failed.", item_id)
                continue  # PROBLEM: here too
            async with error_session:
                await error_session.execute(set_status(model, status_field, [item_id], "Failed",
                                                       **{error_field: str(process_err)}))
                await error_session.commit()
        finally:
            if item_session is not None:
                await item_session.close()
