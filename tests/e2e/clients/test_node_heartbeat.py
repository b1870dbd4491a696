# SPDX-License-Identifier: Apache-2.0
"""`defib beat`, and Heartbeat of the Node.js package: signs of life of a row that the team's own code
works on (C1, C2)."""

import json
import signal
import subprocess

import pytest

from harness.databases import initialize
from harness.node_programs import NodePrograms
from harness.waiting import eventually, patience, running

CONFIG = """
databases:
  - {{name: main, url: '{url}'}}
watches:
  - name: rows
    table: work_rows
    key: id
    running: status = 'running'
    owner: worker
    alive_at: beat_at
    stuck_after: 1h
    requeue: status = 'queued', worker = NULL
"""


class Rows:
    """A table of the team, with one row that its own code has claimed."""

    def __init__(self, db, program):
        self.db, self.program = db, program
        when = "timestamptz" if db.engine == "postgres" else "text"
        db.sql("CREATE TABLE work_rows (id integer PRIMARY KEY, status text, worker text, "
               f"beat_at {when})")
        initialize(db, program)
        (program.dir / "defib.yaml").write_text(CONFIG.format(url=db.url))
        self.add(1)

    def add(self, key):
        self.db.sql("INSERT INTO work_rows VALUES (%s, 'running', 'ours', NULL)" if
                    self.db.engine == "postgres" else
                    "INSERT INTO work_rows VALUES (?, 'running', 'ours', NULL)", key)

    def beat_at(self, key=1):
        return self.db.sql(f"SELECT beat_at FROM work_rows WHERE id = {key}")[0][0]

    def beats_again(self, key=1):
        before = self.beat_at(key)
        eventually(lambda: self.beat_at(key) not in (None, before))


@pytest.fixture
def rows(db, defib):
    return Rows(db, defib)


@pytest.fixture
def nodes(rows):
    own = NodePrograms(rows.program)
    yield own
    own.close()


BEATS = """
const options = { watch: 'rows', config: 'defib.yaml', worker: 'ours', everyMs: 150 }
const beats = []
for (const key of process.argv.slice(2)) {
  const beat = new defib.Heartbeat({ ...options, key })
  beat.on('lost', (why) => say('lost', key, why.name))
  try { beats.push(await beat.start()) } catch (why) { say('error', key, why.name, why.message) }
}
say('beats', beats.length)
process.on('SIGTERM', async () => {
  for (const beat of beats) await beat.stop()
  say('stopped')
})
"""


@pytest.mark.covers("C1", "C2")
def test_a_heartbeat_is_written_until_it_is_stopped(rows, nodes):
    rows.add(2)
    one = nodes.run(BEATS, 1, 2)
    assert one.hear("beats") == [2]
    pid, = one.children()  # one process for both
    for key in (1, 2, 1):
        rows.beats_again(key)
    one.signal(signal.SIGTERM)
    one.hear("stopped")
    assert one.wait() == 0
    assert not running(pid)


@pytest.mark.covers("C1")
def test_a_row_that_is_another_s_is_lost_and_not_kept_alive(rows, nodes):
    one = nodes.run(BEATS, 1)
    one.hear("beats")
    rows.db.sql("UPDATE work_rows SET worker = 'another'")
    assert one.hear("lost") == ["1", "LostLease"]
    assert one.wait() == 0  # nothing is left to do, and no process of defib


@pytest.mark.covers("C1")
def test_heartbeats_end_with_a_killed_program(rows, nodes):
    one = nodes.run(BEATS, 1)
    one.hear("beats")
    pid, = one.children()
    one.kill()
    eventually(lambda: not running(pid))


def test_heartbeats_go_on_after_their_process_was_killed(rows, nodes):
    one = nodes.run(BEATS, 1)
    one.hear("beats")
    pid, = one.children()
    subprocess.run(["kill", "-9", str(pid)], check=True)
    eventually(lambda: one.children() not in ([], [pid]))
    rows.beats_again()
    # It does not take the row from an owner that came meanwhile.
    pid, = one.children()
    rows.db.sql("UPDATE work_rows SET worker = 'another'")
    subprocess.run(["kill", "-9", str(pid)], check=True)
    assert one.hear("lost") == ["1", "LostLease"]


def test_a_first_heartbeat_that_fails_is_an_error(rows, nodes):
    rows.db.sql("UPDATE work_rows SET status = 'done'")
    one = nodes.run(BEATS, 1, 77)
    assert one.hear("beats") == [0]
    assert [said[1:3] for said in one.said("error")] == [["1", "LostLease"], ["77", "LostLease"]]
    assert one.wait() == 0


def test_lines_of_beat(rows):
    child = rows.program.start("beat", "rows", "--every", "150ms", "--worker", "ours",
                               stdin=subprocess.PIPE)

    def say(text):
        child.stdin.write(text + "\n")
        child.stdin.flush()
        return json.loads(child.stdout.readline())
    try:
        assert json.loads(child.stdout.readline()) == {"is": "ready"}
        assert say('{"do": "beat", "key": "1", "step": "one", "metadata": {"n": 1}}') == {
            "is": "beating", "key": "1"}
        assert say("hello")["is"] == "error"
        assert say('{"do": "beat", "key": 1}') == {
            "is": "error", "line": 3,
            "message": 'a line is an object with "do": beat or end, and "key": a string'}
        assert say('{"do": "beat", "key": "1", "metadata": 5}')["message"] == \
            '"metadata" must be an object'
        assert say('{"do": "end", "key": "1"}') == {"is": "ended", "key": "1"}
        child.stdin.close()
        assert child.wait(patience()) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()


def test_a_watch_without_a_heartbeat_is_refused(rows):
    text = CONFIG.format(url=rows.db.url).replace("alive_at: beat_at", "alive_at: max(beat_at, beat_at)"
                                                  if rows.db.engine == "sqlite" else
                                                  "alive_at: greatest(beat_at, beat_at)")
    ran = rows.program("beat", "rows", config=text)
    assert ran.code == 3 and "has no statement for a heartbeat" in ran.err
    ran = rows.program("beat", "row", config=text)
    assert ran.code == 2 and "did you mean" in ran.err
