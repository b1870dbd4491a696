# SPDX-License-Identifier: Apache-2.0
"""Workers of the Node.js package (clients/node), on the built-in queue and on a team's own table."""

import json
import os
import signal

import pytest

from harness.node_programs import NodePrograms
from harness.pgserver import signal_all
from harness.pooler import pooler, through  # noqa: F401  (a fixture)
from harness.two_tables import TwoTables, config
from harness.waiting import eventually, running

WORKER = """
import fs from 'node:fs'
const pause = (ms) => new Promise((go) => setTimeout(go, ms))
const handlers = {
  good: async (job) => { job.progress('one', 'half'); return { got: job.payload, key: job.key } },
  bad: async () => { throw new TypeError('no luck') },
  never: async () => { throw new defib.Permanent('not this one') },
  later: async () => { throw new defib.Retry('not yet', { afterMs: 3600000 }) },
  large: async () => 'x'.repeat(1024 * 1024),
  circle: async () => { const a = {}; a.a = a; return a },
  held: async (job) => {
    say('began', job.key, job.epoch)
    while (!fs.existsSync('go')) await pause(20)
    return 'late'
  },
  claims: async (job) => {
    say('began', job.key, job.epoch)
    while (!fs.existsSync(`go.${job.epoch}`)) await pause(20)
    say('returns', job.epoch)
    return job.epoch
  },
  blocks: async (job) => {
    say('began', job.key, job.epoch)
    while (job.epoch === 1 && !fs.existsSync('go')); // nothing else runs in this process
    say('returns', job.epoch)
    return job.epoch
  },
  stops: async (job) => {
    say('began', job.key, job.epoch)
    await new Promise((_, no) => job.signal.addEventListener('abort', () => {
      say('aborted', job.signal.reason.name, job.signal.reason.because ?? null, job.lost)
      no(job.signal.reason)
    }))
  },
}
const worker = new defib.Worker({ spool: 'spool', pollMs: 200, ...JSON.parse(process.argv[2]),
  ...(process.argv[2].includes('watch') ? { handler: handlers[process.argv[3]] } : { handlers }) })
worker.on('refused', (what) => say('refused', what.key, what.epoch))
worker.on('lost', (job) => say('lost', job.key))
worker.on('stuck', (job) => say('stuck', job.key))
worker.on('restart', ({ why, afterMs }) => say('restart', why.message, afterMs))
worker.on('warning', (why) => say('warning', why.message))
worker.on('ready', () => say('ready', worker.name))
say('counts', await worker.run())
"""


# What only the package decides is shown on one engine.
ONE_ENGINE = pytest.mark.parametrize("db", ["sqlite"], indirect=True)


@pytest.fixture
def nodes(queue):
    own = NodePrograms(queue.program)
    own.env["DEFIB_DB"] = queue.db.url
    yield own
    own.close()


@pytest.fixture
def pg_nodes(pg_queue):
    own = NodePrograms(pg_queue.program)
    own.env["DEFIB_DB"] = pg_queue.db.url
    yield own
    own.close()


def worker(nodes, handler="", ready=True, **options):
    one = nodes.run(WORKER, json.dumps(options), handler)
    if ready:
        one.hear("ready")
    return one


def test_handlers_decide_how_jobs_end(queue, nodes):
    jobs = {kind: queue.enqueue('{"n": 1}', "--max-attempts", "1", kind=kind)
            for kind in ("good", "bad", "never", "later", "large", "circle", "unknown")}
    one = worker(nodes, ready=False, drain=True, concurrency=4)
    assert one.wait() == 0, one.log
    assert queue.state(jobs["good"]) == "done"
    assert queue.result(jobs["good"]) == {"got": {"n": 1}, "key": str(jobs["good"])}
    assert queue.one(jobs["bad"], "state, cause, error") == ("failed", "error",
                                                             "TypeError: no luck")
    assert queue.one(jobs["never"], "state, error") == ("failed", "not this one")
    assert queue.one(jobs["later"], "state, error") == ("scheduled", "not yet")
    assert queue.one(jobs["large"], "error") == "Error: result of more than 1048576 bytes"
    assert "circular" in queue.one(jobs["circle"], "error")
    assert queue.one(jobs["unknown"], "state, error") == ("failed", "no handler for kind unknown")
    assert one.said("counts")[0][1]["settled"] == 7
    assert queue.worker_rows("state") == [("left",)]


@pytest.mark.covers("F2", "F3")
def test_a_killed_program_s_job_runs_elsewhere_without_waiting_for_a_lease(queue, nodes):
    job = queue.enqueue(kind="held")
    first = worker(nodes, leaseMs=3600000, name="first")
    first.hear("began")
    second = worker(nodes, leaseMs=3600000, name="second")
    first.kill()
    assert second.hear("began") == [str(job), 2]
    assert queue.worker_rows("name, state, cause")[0] == ("first", "dead", "exit seen")
    assert [entry[0] for entry in queue.ledger("REQUEUED")] == [job]
    (queue.program.dir / "go").touch()
    queue.wait_state(job, "done")


@pytest.mark.covers("F3")
def test_a_late_result_is_refused(queue, nodes):
    """Its process is stopped, another worker has run the job, and then it comes back."""
    job = queue.enqueue(kind="held")
    one = worker(nodes)
    one.hear("began")
    queue.db.sql(f"UPDATE {queue.table('job')} SET state = 'queued', owner = NULL, "
                 "queue = 'elsewhere' WHERE id = %s", job)
    queue.drain("--queue", "elsewhere", run="echo 2 >&3")
    (queue.program.dir / "go").touch()
    assert one.hear("refused") == [str(job), 1]
    assert queue.result(job) == 2
    assert [(late, epoch) for late, _, epoch in queue.ledger("LATE_COMPLETION")] == [(job, 1)]


@pytest.mark.covers("F3")
def test_when_defib_is_killed_handlers_are_aborted_and_it_is_started_again(queue, nodes):
    job = queue.enqueue(kind="stops")
    one = worker(nodes)
    one.hear("began")
    bridge, = one.children()
    os.kill(bridge, signal.SIGKILL)
    assert one.hear("aborted") == ["LostLease", None, True]
    assert one.hear("lost") == [str(job)]
    assert one.hear("restart")[1] == 100
    one.hear("ready", 2)
    assert one.hear("began", 2) == [str(job), 2]
    assert bridge not in one.children()


@pytest.mark.covers("F3")
@ONE_ENGINE
def test_what_a_handler_of_a_killed_defib_returns_is_dropped(queue, nodes):
    """It ignores its signal, and the same job runs again in the same program."""
    job = queue.enqueue(kind="claims")
    one = worker(nodes, graceMs=100)
    one.hear("began")
    os.kill(one.children()[0], signal.SIGKILL)
    assert one.hear("began", 2) == [str(job), 2]
    (queue.program.dir / "go.1").touch()
    one.hear("returns")
    (queue.program.dir / "go.2").touch()
    queue.wait_state(job, "done")
    assert queue.result(job) == 2
    assert not one.said("warning")


@pytest.mark.covers("B10")
def test_a_cancelled_job_aborts_its_signal(queue, nodes):
    job = queue.enqueue(kind="stops")
    one = worker(nodes)
    one.hear("began")
    assert queue.program("cancel", job, db=queue.db).code == 0
    assert one.hear("aborted") == ["Cancelled", "cancelled", False]
    queue.wait_state(job, "cancelled")


@ONE_ENGINE
@pytest.mark.covers("F2", "F3")
def test_a_program_that_hangs_with_a_job_counts_as_dead(queue, nodes):
    """Its event loop is blocked; the job runs elsewhere, and what it returns later is dropped."""
    job = queue.enqueue(kind="blocks")
    one = worker(nodes, clientTimeoutMs=500, leaseMs=3600000)
    one.hear("began")
    two = worker(nodes, leaseMs=3600000)
    assert two.hear("began") == [str(job), 2]
    queue.wait_state(job, "done")
    (queue.program.dir / "go").touch()
    one.hear("restart")
    one.hear("ready", 2)
    assert queue.result(job) == 2


@ONE_ENGINE
def test_a_time_limit_aborts_the_signal_of_its_job(queue, nodes):
    job = queue.enqueue("--max-attempts", "1", kind="stops")
    one = worker(nodes, timeoutMs=200)
    assert one.hear("aborted") == ["Cancelled", "timeout", False]
    queue.wait_state(job, "timed_out")


@ONE_ENGINE
def test_sigterm_lets_handlers_finish_and_a_second_one_does_not(queue, nodes):
    finished, stopped = queue.enqueue(kind="held"), queue.enqueue(kind="stops", queue="more")
    one, two = worker(nodes), worker(nodes, queue="more")
    one.hear("began")
    two.hear("began")
    one.signal(signal.SIGTERM)
    two.signal(signal.SIGTERM)
    eventually(lambda: "asks it to stop" in one.log and "asks it to stop" in two.log)
    (queue.program.dir / "go").touch()
    assert one.wait() == 0
    assert queue.state(finished) == "done"
    two.signal(signal.SIGTERM)
    assert two.wait() == 0
    assert two.said("aborted") == [["aborted", "Cancelled", "shutdown", False]]
    assert queue.one(stopped, "state, attempts") == ("queued", 0)


@ONE_ENGINE
def test_a_handler_that_does_not_stop_is_reported(queue, nodes):
    job = queue.enqueue(kind="held")
    one = worker(nodes, graceMs=200)
    one.hear("began")
    assert queue.program("cancel", job, db=queue.db).code == 0
    assert one.hear("stuck") == [str(job)]
    (queue.program.dir / "go").touch()
    eventually(lambda: queue.state(job) in ("done", "cancelled"))


@ONE_ENGINE
def test_a_program_that_cannot_start_defib_says_so(nodes):
    script = """
for (const options of [{ bin: '/no/such/defib' }, { url: 'postgres://127.0.0.1:1/none' },
    { watch: 'none' }, { leaseMs: 5 }]) {
  try {
    await new defib.Worker({ handler: () => {}, ...options, quiet: true }).start()
  } catch (why) { say('error', why.name, why.message) }
}
for (const options of [{}, { queue: 'a', watch: 'b', handler: () => {} }]) {
  try { new defib.Worker(options) } catch (why) { say('error', why.name, why.message) }
}
"""
    one = nodes.run(script)
    assert one.wait() == 0, one.log
    errors = [tuple(said[1:]) for said in one.said("error")]
    assert [name for name, _ in errors] == ["UsageError", "ConnectionLost", "UsageError",
                                            "UsageError", "UsageError", "UsageError"]
    assert "install defib, or set DEFIB_BIN" in errors[0][1]
    assert "127.0.0.1" in errors[1][1]
    assert "--lease must be from 600 ms to 1d" in errors[3][1]
    assert errors[4][1] == "give a handler, or handlers by kind"


def test_no_url_is_in_the_arguments(pg_queue, pg_nodes):
    one = worker(pg_nodes, url=pg_queue.db.url)
    bridge, = one.children()
    with open(f"/proc/{bridge}/cmdline", "rb") as file:
        assert b"postgres://" not in file.read()


@pytest.mark.covers("F2", "F3")
def test_rows_of_a_team_s_own_table(db, defib):
    """The row of a killed program runs in another one; the table ends as `work:` says."""
    tables = TwoTables(defib, db)
    tables.add("one")
    (defib.dir / "defib.yaml").write_text(config(db.url, "one"))
    nodes = NodePrograms(defib)
    try:
        options = {"watch": "one", "config": "defib.yaml", "leaseMs": 3600000, "concurrency": 1}
        first = worker(nodes, "held", name="first", **options)
        assert first.hear("began") == ["1", 1]
        assert tables.states("one") == ["running"]
        second = worker(nodes, "held", name="second", **options)
        first.kill()
        assert second.hear("began") == ["1", 2]
        tables.go()
        eventually(lambda: tables.states("one") == ["done"])
        second.signal(signal.SIGTERM)
        assert second.wait() == 0
    finally:
        nodes.close()


@pytest.mark.covers("F3")
@ONE_ENGINE
def test_a_late_result_for_a_row_of_a_team_s_own_table_is_refused(db, defib):
    """The program and its defib are stopped for longer than their lease, and come back."""
    tables = TwoTables(defib, db)
    tables.add("one")
    (defib.dir / "defib.yaml").write_text(config(db.url, "one"))
    nodes = NodePrograms(defib)
    try:
        options = {"watch": "one", "config": "defib.yaml", "leaseMs": 1000, "concurrency": 1}
        first = worker(nodes, "claims", name="first", **options)
        assert first.hear("began") == ["1", 1]
        bridge = first.children()
        db.freeze(first, *bridge)
        second = worker(nodes, "claims", name="second", **options)
        assert second.hear("began") == ["1", 2]
        (defib.dir / "go.1").touch()
        signal_all([first.pid, *bridge], signal.SIGCONT)
        assert first.hear("returns") == [1]
        eventually(lambda: first.said("refused") or first.said("lost"))
        first.signal(signal.SIGTERM)
        assert first.wait() == 0
        assert first.said("counts")[0][1]["settled"] == 0
        assert tables.states("one") == ["running"]  # what was late changed nothing
        (defib.dir / "go.2").touch()
        eventually(lambda: tables.states("one") == ["done"])
    finally:
        nodes.close()


@pytest.mark.covers("F2")
def test_through_a_transaction_pooler(pg_queue, pg_nodes, pooler):  # noqa: F811
    """As with Supabase's pooler: jobs run, and a killed program on the host is still seen."""
    pg_nodes.env["DEFIB_DB"] = through(pooler, pg_queue.db)
    good, held = pg_queue.enqueue(kind="good"), pg_queue.enqueue(kind="held")
    first = worker(pg_nodes, leaseMs=3600000, name="first", concurrency=2)
    first.hear("began")
    pg_queue.wait_state(good, "done")
    second = worker(pg_nodes, leaseMs=3600000, name="second")
    first.kill()
    assert second.hear("began") == [str(held), 2]
    listening = pg_queue.db.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    assert listening == [(0,)]


@ONE_ENGINE
def test_a_monitor_ends_with_its_program(db, defib):
    """stop() ends it, and so does kill -9 of the program; it scans meanwhile."""
    tables = TwoTables(defib, db)
    (defib.dir / "defib.yaml").write_text(config(db.url, "one").replace("stuck_after: 1h",
                                                                        "stuck_after: 1s"))
    tables.db.sql("INSERT INTO one (status, beat_at) VALUES ('running', '2020-01-01')")
    nodes = NodePrograms(defib)
    script = """
const monitor = await defib.startMonitor({ config: 'defib.yaml' })
say('runs', monitor.child.pid)
if (process.argv[2] === 'stop') say('ended', await monitor.stop())
"""
    try:
        one = nodes.run(script)
        pid, = one.hear("runs")
        eventually(lambda: tables.states("one") == ["queued"])
        one.kill()
        eventually(lambda: not running(pid))
        two = nodes.run(script, "stop")
        assert two.wait() == 0
        assert two.hear("ended") == [0]
    finally:
        nodes.close()


@pytest.mark.covers("E8")
@ONE_ENGINE
def test_a_worker_with_a_monitor_starts_and_stops_it(db, defib):
    TwoTables(defib, db)
    (defib.dir / "defib.yaml").write_text(config(db.url, "one"))
    nodes = NodePrograms(defib)
    try:
        one = worker(nodes, "held", watch="one", config="defib.yaml", monitor=True)
        eventually(lambda: "daemon started" in one.log)
        pids = one.children()
        assert len(pids) == 2
        one.signal(signal.SIGTERM)
        assert one.wait() == 0
        assert not any(running(pid) for pid in pids)
    finally:
        nodes.close()
