# SPDX-License-Identifier: Apache-2.0
"""Acts on rows that their own table refuses: said in words, the row stays as it is, and the act works
once the reason is gone."""

import pytest

from harness.act_table import batch_of

SAME_KEY = "another job of its queue with the same unique key waits or runs"
REFUSED = 5


def enqueue(queue, *args):
    return queue.enqueue("--unique-key", "mail-7", *args)


def act(queue, name, *args):
    return queue.program(name, *args, "--yes", db=queue.db)


@pytest.mark.parametrize("name", ["release", "requeue", "retry"])
def test_a_held_job_whose_unique_key_is_used_again(queue, name):
    first = enqueue(queue)
    assert act(queue, "hold", f"queue/{first}").code == 0
    second = enqueue(queue)
    assert second != first
    ran = act(queue, name, f"queue/{first}")
    assert ran.code == REFUSED and SAME_KEY in ran.out, ran
    assert "constraint" not in (ran.out + ran.err).lower(), ran
    assert queue.state(first) == "held"
    assert act(queue, "cancel", f"queue/{second}").code == 0
    ran = act(queue, name, f"queue/{first}")
    assert ran.code == 0, ran
    assert queue.state(first) in ("queued", "scheduled")


@pytest.mark.parametrize("name", ["cancel", "fail"])
def test_undo_for_a_job_whose_unique_key_is_used_again(queue, name):
    first = enqueue(queue)
    ran = act(queue, name, f"queue/{first}")
    assert ran.code == 0, ran
    over, batch = queue.state(first), batch_of(ran)
    second = enqueue(queue)
    ran = act(queue, "undo", batch)
    assert ran.code == REFUSED and SAME_KEY in ran.out, ran
    assert (queue.state(first), queue.state(second)) == (over, "queued")
    assert act(queue, "cancel", f"queue/{second}").code == 0
    assert act(queue, "undo", batch).code == 0
    assert queue.state(first) == "queued"


TABLE = """
CREATE TABLE owners (name text PRIMARY KEY);
CREATE TABLE jobs (id {number} PRIMARY KEY, status text NOT NULL, slot int,
                   owner text REFERENCES owners (name), beat_at {time},
                   CHECK (slot < 100));
CREATE UNIQUE INDEX one_slot ON jobs (slot) WHERE status = 'queued';
"""
TRIGGER = {
    "sqlite": "CREATE TRIGGER closed BEFORE UPDATE ON jobs WHEN NEW.slot = 66 "
              "BEGIN SELECT RAISE(ABORT, 'slot 66 is closed'); END",
    "postgres": "CREATE FUNCTION closed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'slot 66 is closed'; END $$; "
                "CREATE TRIGGER closed BEFORE UPDATE ON jobs FOR EACH ROW "
                "WHEN (NEW.slot = 66) EXECUTE FUNCTION closed()"}
CONFIG = """
databases:
  - {{name: main, url: "{url}"}}
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    owner: owner
    alive_at: beat_at
    stuck_after: 1h
    requeue: {requeue}
"""


@pytest.fixture
def table(db):
    lite = db.engine == "sqlite"
    db.sql(TABLE.format(number="integer" if lite else "bigint", time="text" if lite else "timestamptz"))
    if lite:
        db.connect().execute(TRIGGER["sqlite"])
    else:
        db.sql(TRIGGER["postgres"])
    now = "datetime('now', '-1 day')" if lite else "now() - interval '1 day'"
    db.sql(f"INSERT INTO jobs VALUES (1, 'running', 2, NULL, {now})")
    db.sql(f"INSERT INTO jobs VALUES (2, 'queued', 1, NULL, {now})")
    return db


LISTS = {
    "unique": ("status = 'queued', slot = 1", "another row has a value that only one may have: "),
    "check": ("status = 'queued', slot = 100", "the table refuses it: "),
    "null": ("status = NULL", "the table refuses it: "),
    "reference": ("status = 'queued', owner = 'nobody'", "the table refuses it: "),
    "trigger": ("status = 'queued', slot = 66", "the table refuses it: slot 66 is closed")}


@pytest.mark.parametrize("kind", LISTS)
def test_a_row_that_its_table_refuses(table, defib, kind):
    requeue, words = LISTS[kind]
    config = CONFIG.format(url=table.url, requeue=requeue)
    for args in (["requeue", "jobs/1", "--yes"], ["scan", "--fix"]):
        ran = defib(*args, config=config)
        assert words in ran.out, ran
        assert "main: " not in ran.out, ran
        assert table.sql("SELECT status, slot FROM jobs WHERE id = 1") == [("running", 2)]
