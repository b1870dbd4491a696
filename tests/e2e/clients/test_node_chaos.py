# SPDX-License-Identifier: Apache-2.0
"""Programs in Node.js and their processes of defib are killed again and again: no job is lost, and
none is recorded twice."""

import os
import random
import signal
import time

import pytest

from harness.node_programs import NodePrograms
from harness.waiting import eventually

JOBS = 400
KILLS = 25

WORKER = """
const worker = new defib.Worker({ concurrency: 8, spool: 'spool', quiet: true, graceMs: 500,
  pollMs: 200, handler: async (job) => {
    await new Promise((go) => setTimeout(go, 50 * Math.random()))
    job.check()
    return { epoch: job.epoch }
  } })
worker.on('ready', () => say('ready'))
await worker.run()
"""


def wait_ended(queue, nodes):
    # One that was lost with its worker too often is on hold.
    left = f"state <> 'done' AND CAST(id AS text) NOT IN (SELECT job FROM {queue.table('hold')})"
    try:
        eventually(lambda: not queue.all("id", left))
    except AssertionError:
        rows = queue.all("id, state, epoch, owner, attempts, crashes, error", left)
        logs = "\n".join(f"== {one.pid} {one.process.poll()}\n{one.out}{one.log}"
                         for one in nodes.programs)
        raise AssertionError(f"{rows}\n{queue.worker_rows()}\n{logs}") from None


@pytest.mark.proof
def test_kills_of_programs_and_of_defib(queue):
    rng = random.Random(7)
    nodes = NodePrograms(queue.program)
    nodes.env["DEFIB_DB"] = queue.db.url
    queue.bulk(JOBS, "--max-attempts", "1000")
    try:
        programs = [nodes.run(WORKER) for _ in range(3)]
        for program in programs:
            program.hear("ready")
        for _ in range(KILLS):
            victim = rng.randrange(len(programs))
            children = programs[victim].children()
            if children and rng.random() < 0.5:
                os.kill(children[0], signal.SIGKILL)  # it is started again by its program
            else:
                programs[victim].kill()
                programs[victim] = nodes.run(WORKER)
            time.sleep(rng.random() * 0.4)
        wait_ended(queue, nodes)
        done = [job for job, in queue.all("id", "state = 'done'")]
        assert len(done) >= JOBS * 0.9
        for job in done[:50]:
            assert queue.result(job) == {"epoch": queue.one(job, "epoch")}
    finally:
        nodes.close()
