# SPDX-License-Identifier: Apache-2.0
"""The Node.js package as it is installed, and its calls that need no worker."""

import json
import re
import subprocess
import tarfile

import pytest

from harness.node_programs import PACKAGE, NodePrograms, need_node
from harness.two_tables import TwoTables, config
from harness.waiting import patience

EXPORTS = ("const names = Object.keys(defib).filter((n) => n !== 'default').sort();"
           "console.log(JSON.stringify(names))")


def node(folder, text, kind):
    path = folder / f"names.{kind}"
    path.write_text(text)
    ran = subprocess.run(["node", path], cwd=folder, capture_output=True, text=True, timeout=patience(),
                         check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_it_is_packed_installed_and_imported_both_ways(tmp_path):
    need_node()
    env = {"HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin",
           "npm_config_offline": "true", "npm_config_update_notifier": "false"}
    for argv in (["npm", "pack", PACKAGE], ["npm", "install", "--no-audit", "--no-fund",
                                            "./defib-0.1.0.tgz"]):
        ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True,
                             timeout=patience(), check=False)
        assert ran.returncode == 0, ran.stderr
    with tarfile.open(tmp_path / "defib-0.1.0.tgz") as packed:
        names = {re.sub("^package/", "", name) for name in packed.getnames()}
    assert {"package.json", "README.md", "lib/index.js", "lib/index.mjs", "lib/index.d.ts",
            "lib/index.d.mts"} <= names
    assert not [name for name in names if not name.startswith("lib/")
                and name not in ("package.json", "README.md")]
    required = node(tmp_path, f"const defib = require('defib');{EXPORTS}", "cjs")
    imported = node(tmp_path, f"import * as defib from 'defib';{EXPORTS}", "mjs")
    assert required == imported and "Worker" in required
    # Without a compiler for types: what is exported is declared, and nothing else.
    types = (tmp_path / "node_modules" / "defib" / "lib" / "index.d.ts").read_text()
    declared = re.findall(r"^export (?:declare )?(?:abstract )?(?:class|function) (\w+)", types,
                          re.M)
    assert sorted(declared) == required
    about = json.loads((PACKAGE / "package.json").read_text())
    assert not about.get("dependencies")


CALLS = """
const watches = new defib.Watches({ config: 'defib.yaml' })
const calls = {
  scan: () => watches.scan(),
  status: () => watches.status('one', 1),
  explain: () => watches.explain('one', 1),
  missing: () => watches.status('one', 99),
  reset: () => watches.reset('one', 1, { reason: 'by hand' }),
  all: () => watches.reset('one'),
  stats: () => watches.stats('one'),
  undo: async () => watches.undo((await watches.act('one', 'requeue', [3])).batch),
  late: () => watches.act('one', 'requeue', 1, { runningOnly: true }),
  unknown: () => watches.scan({ watch: 'ones' }),
  hostile: () => watches.status('one', "1'; DROP TABLE one; --"),
}
for (const name of process.argv.slice(2)) {
  try {
    say(name, await calls[name]())
  } catch (why) { say(name, why.name, why.message) }
}
"""


@pytest.mark.covers("E4", "E7")
def test_acts_and_statistics(db, defib):
    tables = TwoTables(defib, db)
    (defib.dir / "defib.yaml").write_text(config(db.url, "one"))
    for _ in range(3):
        db.sql("INSERT INTO one (status, beat_at) VALUES ('running', '2020-01-01 00:00:00')")
    nodes = NodePrograms(defib)
    try:
        program = nodes.run(CALLS, "scan", "status", "explain", "missing", "unknown", "hostile", "reset", "late",
                            "stats", "undo", "all")
        assert program.wait() == 0, program.log
        said = {line[0]: line[1:] for line in program.said()}
        assert (said["scan"][0]["found"], said["scan"][0]["recovered"]) == (3, 0)
        assert said["status"][0]["running"] is True
        assert "is stuck" in said["status"][0]["sentence"]
        assert (said["explain"][0]["stuck"], said["explain"][0]["remedy"]) == (True, "requeue")
        assert said["missing"][0] == "NotFound"
        # A text that the key's type cannot hold, on PostgreSQL.
        assert said["hostile"][0] == ("NotFound" if db.engine == "sqlite" else "UsageError")
        assert said["unknown"][0] == "UsageError" and "did you mean" in said["unknown"][1]
        assert said["reset"][0]["recovered"] == 1
        assert said["late"][0] == "Refused"  # the job waits again
        assert (said["stats"][0]["running"], said["stats"][0]["recovered"]["day"]) == (2, 1)
        # What was undone is on hold.
        assert (said["all"][0]["recovered"], said["all"][0]["held"]) == (1, 1)
        assert tables.states("one") == ["queued", "queued", "running"]
    finally:
        nodes.close()


MISSPELT = """
const handler = () => null
const watches = new defib.Watches({})
const calls = {
  worker: () => new defib.Worker({ handler, conncurrency: 3 }),
  inner: () => new defib.Worker({ handler, monitor: { lissten: ':1' } }),
  monitor: () => defib.startMonitor({ lissten: ':1' }),
  heartbeat: () => new defib.Heartbeat({ watch: 'a', key: 1, evryMs: 5 }),
  watches: () => new defib.Watches({ confg: 'x' }),
  scan: () => watches.scan({ fx: true }),
  act: () => watches.act('a', 'fail', 1, { dryrun: true }),
  all: () => watches.reset('a', undefined, { dryRun: true }),
  enqueue: () => defib.enqueue('a', 'b', 1, { unique_key: 'x' }),
  retry: () => new defib.Retry('later', { after: 5 }),
  far: () => new defib.Watches({ nonsense: 1 }),
}
for (const name of Object.keys(calls)) {
  try {
    say(name, await calls[name]())
  } catch (why) { say(name, why.name, why.message, why.next) }
}
"""


def test_an_unknown_option_is_an_error_with_a_suggestion(defib):
    """It would be ignored: three jobs at a time were asked for, and one ran."""
    nodes = NodePrograms(defib)
    try:
        program = nodes.run(MISSPELT)
        assert program.wait() == 0, program.log
        said = {line[0]: line[1:] for line in program.said()}
    finally:
        nodes.close()
    near = {"worker": "concurrency", "inner": "listen", "monitor": "listen", "heartbeat": "everyMs",
            "watches": "config", "scan": "fix", "act": "dryRun", "enqueue": "uniqueKey",
            "retry": "afterMs"}
    for name, option in near.items():
        kind, message, following = said[name]
        assert kind == "UsageError" and f'did you mean "{option}"?' in message, said[name]
        assert following == f'did you mean "{option}"?'
    assert 'scan has no option "dryRun"' in said["all"][1]
    assert "known are bin, config, url, env, cwd" in said["far"][1]


def test_every_option_that_is_declared_is_known_and_no_other(tmp_path):
    need_node()
    types = (PACKAGE / "lib" / "index.d.ts").read_text()
    declared = {}
    for name, base, body in re.findall(
            r"^export interface (\w+Options)(?: extends (\w+))? \{\n(.*?)^\}", types, re.M | re.S):
        declared[name] = declared.get(base, set()) | set(re.findall(r"^\t(\w+)\??:", body, re.M))
    known = node(tmp_path, f"const p = require('{PACKAGE}/lib/program.js');"
                 "console.log(JSON.stringify(p.KNOWN))", "cjs")
    names = {"Worker": "WorkerOptions", "Monitor": "MonitorOptions", "scan": "ScanOptions",
             "Heartbeat": "HeartbeatOptions", "Watches": "ProgramOptions", "act": "ActOptions",
             "enqueue": "EnqueueOptions"}
    for call, name in names.items():
        assert set(known[call]) == declared[name], call


def test_jobs_are_enqueued_without_showing_their_payload(queue):
    nodes = NodePrograms(queue.program)
    nodes.env["DEFIB_DB"] = queue.db.url
    script = """
say('id', await defib.enqueue('mail', 'send', { to: 'ann', n: 1.5 }, { priority: 7,
  uniqueKey: 'ann', tags: ['a', 'b'], maxAttempts: 2 }))
say('id', await defib.enqueue('mail', 'send', null, { uniqueKey: 'ann' }))
try { await defib.enqueue('mail', 'send', 1, { priority: 'x' }) } catch (why) { say(why.name) }
"""
    try:
        program = nodes.run(script)
        assert program.wait() == 0, program.log
        (first,), (second,) = [line[1:] for line in program.said("id")]
        assert first == second
        assert queue.one(int(first), "queue, kind, priority, max_attempts") == ("mail", "send", 7, 2)
        assert program.said("UsageError")
        data = queue.db.sql(f"SELECT payload FROM {queue.table('job_data')} WHERE job = %s",
                            int(first))[0][0]
        assert (json.loads(data) if isinstance(data, str) else data) == {"to": "ann", "n": 1.5}
    finally:
        nodes.close()
