# SPDX-License-Identifier: Apache-2.0
"""The document's "before": the teardown belongs to the request. If the server is killed, the lab
stays `ending` forever; a reload waits for it."""

import contextlib

run = None


@contextlib.asynccontextmanager
async def worker(pool, destroy_lab):
    global run

    async def run(lab_id):
        try:
            await destroy_lab(lab_id)
            status = "finished"
        except Exception:
            status = "failed"
        await pool.execute("UPDATE labs SET status = $2 WHERE id = $1", lab_id, status)
    yield


async def end(pool, lab_id, background):
    await pool.execute("UPDATE labs SET status = 'ending', updated_at = now() "
                       "WHERE id = $1 AND status = 'running'", lab_id)
    background.add_task(run, lab_id)
