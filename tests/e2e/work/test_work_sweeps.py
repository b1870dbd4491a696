# SPDX-License-Identifier: Apache-2.0
"""Sweeps of workers obey the daemon's guards: pause, raise, doubt, brake and pace."""

import signal
import threading

import pytest

from harness.queue_workers import Worker, up_for
from harness.waiting import NotYet, eventually

QUIET_S = 32  # in which a server that has just come up lets nobody be condemned

CREATE = """
CREATE TABLE rows (
    id      bigint PRIMARY KEY,
    lane    text NOT NULL,
    status  text NOT NULL DEFAULT 'running',
    owner   text,
    beat_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""

WATCH = """
  - name: {lane}
    table: rows
    key: id
    running: status = 'running' AND lane = '{lane}'
    owner: owner
    alive_at: beat_at
    {beat}
    stuck_after: 3s
    requeue: status = 'freed', owner = NULL
    guard: {guard}
    startup: off
    work:
      ready: status = 'never' AND lane = '{lane}'
      claim: status = 'running'
      done: status = 'done'
      failed: status = 'failed'
      poll: 1h
      command: ["true"]
"""


class Swept:
    """Rows of foreign workers, which the test simulates; a worker of ours sweeps."""

    def __init__(self, defib, pg):
        self.defib, self.db = defib, pg
        self.workers = []
        self.beating = set()
        self.stop = threading.Event()
        assert defib("init", db=pg).code == 0
        pg.sql(CREATE)
        self.session = pg.connect()
        self.beats = threading.Thread(target=self._beat, daemon=True)
        self.beats.start()

    def _beat(self):
        while not self.stop.wait(0.2):
            owners = sorted(self.beating)
            self.session.cursor().execute(
                "UPDATE rows SET beat_at = clock_timestamp() WHERE owner = ANY(%s)", (owners,))

    def add(self, lane, owners, age_s=0):
        for owner in owners:
            self.db.sql("INSERT INTO rows (id, lane, owner, beat_at) SELECT "
                        "coalesce(max(id), 0) + 1, %s, %s, clock_timestamp() - %s * interval '1 s' "
                        "FROM rows", lane, owner, age_s)

    def freed(self, lane):
        return self.db.sql("SELECT count(*) FROM rows WHERE lane = %s AND status = 'freed'",
                           lane)[0][0]

    def noted(self, lane, rule):
        """The ledger entries of a guard: when it held, and when it released."""
        return [r for r, in self.db.sql(
            "SELECT rule FROM defib.ledger WHERE watch = %s AND event = 'GUARD_HELD' AND "
            "actor = 'worker' AND starts_with(rule, %s) ORDER BY id", lane, rule)]

    def work(self, **guards):
        """A worker on these watches; returns when it has swept."""
        text = f"databases:\n  - name: main\n    url: {self.db.url}\nwatches:"
        for lane, guard in {**guards, "proof": "off"}.items():
            beat = "" if lane in ("aged", "proof") else "beat: 1s"
            text += WATCH.format(lane=lane, guard=guard, beat=beat)
        config = self.defib.dir / "sweeps.yaml"
        config.write_text(text)
        log = self.defib.dir / f"sweeps{len(self.workers)}.log"
        with open(log, "wb") as out:
            process = self.defib.start("work", *guards, "proof", "-c", config, "--lease", "6s",
                                       stdout=out, stderr=out)
        worker = Worker(process, log)
        self.workers.append(worker)
        worker.wait_log("worker started")
        self.a_sweep_passes()
        return worker

    def a_sweep_passes(self):
        """A row that nothing holds is freed last in each sweep."""
        before = self.freed("proof")
        self.add("proof", ["nobody"], age_s=60)
        eventually(lambda: self.freed("proof") > before)

    def close(self):
        self.stop.set()
        self.beats.join()
        self.session.close()
        for worker in self.workers:
            worker.kill()


@pytest.fixture
def swept(defib, pg):
    up_for(pg, QUIET_S)
    own = Swept(defib, pg)
    yield own
    own.close()


@pytest.mark.covers("C11")
@pytest.mark.parametrize("say, take_back", [(("pause",), ("resume",)),
                                            (("raise", "--by", "100"), ("raise", "--off"))],
                         ids=["pause", "raise"])
def test_what_people_said_holds_for_sweeps(swept, say, take_back):
    swept.add("aged", ["a", "b", "c"], age_s=60)
    text = WATCH.format(lane="aged", guard="off", beat="")
    path = swept.defib.dir / "said.yaml"
    path.write_text(f"databases:\n  - name: main\n    url: {swept.db.url}\nwatches:{text}")
    ran = swept.defib(say[0], "aged", *say[1:], config=path)
    assert ran.code == 0, ran.err
    swept.work(aged="off")
    swept.a_sweep_passes()
    assert swept.freed("aged") == 0
    ran = swept.defib(take_back[0], "aged", *take_back[1:], config=path)
    assert ran.code == 0, ran.err
    eventually(lambda: swept.freed("aged") == 3)


@pytest.mark.covers("F6")
def test_a_sweep_waits_while_most_owners_fell_silent_at_once(swept):
    owners = ["a", "b", "c", "d"]
    swept.beating = set(owners)
    swept.add("beating", owners)
    worker = swept.work(beating="{brake_ceiling: 20s, pace: 0}")
    swept.a_sweep_passes()
    swept.beating = set()
    # Where the worker itself was slow, it doubts first and brakes then.
    worker.wait_log("the brake holds")
    assert "fell silent within" in worker.log
    assert swept.freed("beating") == 0
    # Not forever.
    eventually(lambda: swept.freed("beating") == 4)
    eventually(lambda: swept.noted("beating", "brake-") == ["brake-holds", "brake-lets-go"])


@pytest.mark.covers("F6")
def test_a_sweep_frees_what_one_owner_of_many_left(swept):
    owners = ["a", "b", "c", "d"]
    swept.beating = set(owners)
    swept.add("beating", owners)
    worker = swept.work(beating="{brake_ceiling: 1h, pace: 0}")
    swept.beating = {"b", "c", "d"}
    eventually(lambda: swept.freed("beating") == 1)
    assert "the brake holds" not in worker.log  # slow itself, it may doubt; it does not brake


@pytest.mark.covers("C14")
def test_a_worker_that_was_stopped_condemns_nobody_for_what_it_did_not_see(swept):
    swept.beating = {"a"}
    swept.add("aged", ["a"])
    worker = swept.work(aged="{pace: 0}")
    worker.signal(signal.SIGSTOP)
    swept.beating = set()
    # Longer than it would have waited for anything.
    eventually(lambda: swept.db.sql("SELECT min(beat_at) < clock_timestamp() - interval '15 s' "
                                    "FROM rows WHERE lane = 'aged'")[0][0])
    worker.signal(signal.SIGCONT)
    worker.wait_log("doubt holds")
    assert "the observer itself was away" in worker.log
    eventually(lambda: swept.noted("aged", "doubt-") == ["doubt-holds"])
    assert swept.freed("aged") == 0
    swept.beating = {"a"}  # it was away as well, and is back
    swept.a_sweep_passes()
    assert swept.freed("aged") == 0


def test_a_sweep_gives_work_back_at_its_pace(swept):
    swept.add("aged", ["x"] * 12, age_s=600)
    worker = swept.work(aged="{pace: 0.5, burst: 4}")
    worker.wait_log("a sweep is held back")
    assert "wait for the pace" in worker.log
    assert 4 <= swept.freed("aged") < 12
    eventually(lambda: swept.freed("aged") == 12)


def test_an_idle_worker_has_two_sessions(pg_queue):
    """One for jobs and one for its life; a third is open only while it recovers something."""
    queue = pg_queue
    queue.work("--queue", "idle")

    def has_two():
        open_now = queue.db.sql("SELECT application_name, backend_start, query FROM "
                                "pg_stat_activity WHERE datname = current_database() AND "
                                "backend_type = 'client backend' AND pid <> pg_backend_pid()")
        return len(open_now) == 2 or NotYet(open_now)
    eventually(has_two)
    other = queue.work("--name", "other", run="sleep 600")
    job = queue.enqueue()
    queue.wait_state(job, "running")
    other.kill()
    queue.wait_state(job, "queued")
    eventually(has_two)
