# SPDX-License-Identifier: Apache-2.0
"""The same loop with defib: no item is skipped, and what a killed process leaves is recovered."""

import os

import defib
from loop_before import claim, logger

watches = defib.Watches(os.environ.get("DEFIB_CONFIG", "../defib.yaml"))
instance = defib.Instance(watches, "pages", "sitemaps")


def monitor():
    """Registered while the program runs; scans its tables as often as they say."""
    return instance


async def run_job_loop(get_session, processing_function):
    for item_id in await claim(get_session):
        try:
            async with instance.claimed_item(get_session, item_id, "pages") as session:
                await processing_function(item_id, session)
        except Exception as error:
            logger.error("SCHEDULER_LOOP: item %s: %s", item_id, error)
