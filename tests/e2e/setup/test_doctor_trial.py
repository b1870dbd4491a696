# SPDX-License-Identifier: Apache-2.0
"""defib doctor: remedies are tried on a row only if a rollback takes back all that they do."""

import contextlib
import json

import pytest

from harness.doctor_setup import config, doctor, make_jobs  # noqa: F401

DRAW = """
CREATE SEQUENCE drawn;
CREATE FUNCTION draw(anyelement) RETURNS anyelement IMMUTABLE LANGUAGE plpgsql
    AS $$ BEGIN PERFORM nextval('public.drawn'); RETURN $1; END $$;
CREATE FUNCTION on_write() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM nextval('public.drawn'); RETURN NEW; END $$
"""


def drawn(pg):
    """How many numbers the sequence has given: a rollback takes none of them back."""
    return pg.sql("SELECT last_value, is_called FROM drawn")


@contextlib.contextmanager
def a_worker(pg):
    """A session, as a worker has one, and whether it lives."""
    held = pg.connect()
    pid = held.get_backend_pid()
    try:
        yield pid, lambda: pg.sql("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", pid)[0][0]
    finally:
        held.close()


@pytest.mark.parametrize("remedy", [
    {"requeue": "{sql: [\"SELECT {ends} FROM stuck\", "
                "\"UPDATE jobs SET status = 'queued' WHERE id IN (SELECT id FROM stuck)\"]}"},
    {"requeue": "{call: '{ends}'}"},
    {"also": "[\"SELECT {ends} FROM stuck\"]"},
], ids=["sql", "call", "also"])
def test_sql_of_the_watch_is_neither_run_nor_planned(pg, doctor, remedy):
    """A session that is ended stays ended; and planning evaluates what is declared IMMUTABLE."""
    make_jobs(pg)
    with a_worker(pg) as (pid, lives):
        pg.sql("CREATE FUNCTION ends() RETURNS bool IMMUTABLE LANGUAGE plpgsql "
               f"AS 'BEGIN RETURN pg_terminate_backend({pid}); END'")
        for ends in f"pg_terminate_backend({pid})", "ends()":
            watch = {key: text.replace("{ends}", ends) for key, text in remedy.items()}
            seen = doctor(config=config(pg.url, **watch))
            assert lives() and seen.code == 0
            said = seen.one("remedy", "ok")["text"]
            assert said.startswith("requeue: prepared, but not tried on a row")
            assert "`defib doctor jobs --try`" in said


def test_what_runs_with_a_write_is_looked_for_in_the_catalog(pg, doctor):
    make_jobs(pg)
    pg.sql(DRAW)
    cases = [
        ("trigger noisy", "CREATE TRIGGER noisy BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE "
                          "FUNCTION on_write()", "DROP TRIGGER noisy ON jobs"),
        ("rule noisy", "CREATE RULE noisy AS ON UPDATE TO jobs DO ALSO SELECT nextval('drawn')",
                       "DROP RULE noisy ON jobs"),
        ("constraint noisy (function draw(", "ALTER TABLE jobs ADD CONSTRAINT noisy CHECK "
         "(draw(id) > 0)", "ALTER TABLE jobs DROP CONSTRAINT noisy"),
        ("generated column noisy (function draw(", "ALTER TABLE jobs ADD noisy text GENERATED ALWAYS "
         "AS (draw(status)) STORED", "ALTER TABLE jobs DROP noisy"),
        ("index noisy (function draw(", "CREATE INDEX noisy ON jobs (draw(status))",
         "DROP INDEX noisy"),
        ("index noisy (function draw(", "CREATE INDEX noisy ON jobs (id) WHERE draw(id) > 0",
         "DROP INDEX noisy"),
        ("constraint noisy (function draw(", "CREATE DOMAIN loud AS text CONSTRAINT noisy CHECK "
         "(draw(VALUE) <> ''); ALTER TABLE jobs ALTER error TYPE loud",
         "ALTER TABLE jobs ALTER error TYPE text; DROP DOMAIN loud"),
        ("policy noisy (function draw(", "CREATE POLICY noisy ON jobs USING (draw(id) > 0)",
         "DROP POLICY noisy ON jobs"),
        ("trigger noisy", "CREATE TABLE child () INHERITS (jobs); CREATE TRIGGER noisy AFTER UPDATE "
         "ON child FOR EACH ROW EXECUTE FUNCTION on_write()", "DROP TABLE child"),
        ("operator ===(text,text)", "CREATE FUNCTION same(text, text) RETURNS bool LANGUAGE sql AS "
         "'SELECT nextval(''drawn'') > 0'; CREATE OPERATOR === (FUNCTION = same, LEFTARG = text, "
         "RIGHTARG = text)", "DROP FUNCTION same(text, text) CASCADE"),
        ("foreign key copied", "ALTER TABLE jobs ADD CONSTRAINT one UNIQUE (error); CREATE TABLE "
         "copies (error text CONSTRAINT copied REFERENCES jobs (error) ON UPDATE CASCADE)",
         "DROP TABLE copies; ALTER TABLE jobs DROP CONSTRAINT one"),
    ]
    for reason, make, drop in cases:
        pg.sql(make)
        before = drawn(pg)
        said = doctor(config=config(pg.url)).one("remedy", "ok")["text"]
        assert "requeue: prepared, but not tried" in said and reason in said, said
        assert drawn(pg) == before, reason
        pg.sql(drop)
    assert "tried on job 50" in doctor(config=config(pg.url)).one("remedy", "ok")["text"]


@pytest.mark.parametrize("watch, reason", [
    ({"requeue": "status = 'queued', error = nextval('drawn')::text"}, "function nextval(regclass)"),
    ({"requeue": "status = 'queued', error = \"draw\" (kind)"}, "function draw(anyelement)"),
    ({"requeue": "status = 'queued', error = t.secret"}, "function secret(jobs)"),
    ({"requeue": "status = 'queued', error = (SELECT n::text FROM numbers)"}, "view numbers"),
    ({"requeue": "status = 'queued', attempts = DEFAULT"}, "a column's DEFAULT"),
    ({"alive_at": "draw(updated_at)"}, "function draw(anyelement)"),
])
def test_a_function_that_does_more_than_compute_is_not_run(pg, doctor, watch, reason):
    make_jobs(pg)
    pg.sql(DRAW)
    pg.sql("CREATE VIEW numbers AS SELECT nextval('drawn') AS n; "
           "CREATE FUNCTION secret(jobs) RETURNS text LANGUAGE sql AS 'SELECT nextval(''drawn'')::text'; "
           "ALTER TABLE jobs ALTER attempts SET DEFAULT nextval('drawn')")
    before = drawn(pg)
    seen = doctor(config=config(pg.url, **watch))
    assert reason in seen.one("remedy", "ok")["text"]
    if "alive_at" not in watch:
        assert drawn(pg) == before


def test_what_ordinary_tables_have_is_no_reason_not_to_try(pg, doctor):
    pg.sql("CREATE TYPE mood AS ENUM ('running', 'queued')")
    pg.sql("CREATE TABLE owners (id bigserial PRIMARY KEY)")
    pg.sql("CREATE TABLE jobs (id bigserial PRIMARY KEY, status mood NOT NULL, error varchar(80) "
           "CHECK (lower(error) <> 'x'), owner bigint REFERENCES owners ON UPDATE CASCADE, token uuid "
           "DEFAULT gen_random_uuid(), upper text GENERATED ALWAYS AS (upper(error)) STORED, "
           "updated_at timestamptz DEFAULT now())")
    pg.sql("CREATE TABLE steps (job bigint REFERENCES jobs ON UPDATE CASCADE ON DELETE CASCADE)")
    pg.sql("CREATE INDEX ON jobs (lower(error)) WHERE status = 'running'")
    pg.sql("INSERT INTO jobs (status) VALUES ('running')")
    said = doctor(config=config(pg.url, requeue="status = 'queued'::mood, error = "
                                "left(concat('was ', owner, :reason), 80), token = "
                                "gen_random_uuid(), updated_at = clock_timestamp() + interval '1s', "
                                "owner = NULL")).one("remedy", "ok")["text"]
    assert said.startswith("requeue: tried on job 1 and rolled back")


def test_a_trigger_of_a_file_is_not_run(lite, doctor):
    make_jobs(lite)
    lite.sql("CREATE TABLE notes (job); CREATE TRIGGER note AFTER UPDATE ON jobs "
             "BEGIN INSERT INTO notes VALUES (new.id); END;")
    said = doctor(config=config(lite.url)).one("remedy", "ok")["text"]
    assert "requeue: prepared, but not tried on a row" in said and "trigger note" in said


def test_try_runs_every_remedy_of_the_named_watch_and_rolls_back(db, defib, doctor):
    make_jobs(db)
    db.sql("CREATE TABLE notes (job integer)")
    own = "{sql: [\"INSERT INTO notes SELECT id FROM stuck\", " \
          "\"UPDATE jobs SET status = 'queued' WHERE id IN (SELECT id FROM stuck)\"]}"
    text = config(db.url, requeue=own, fail="status = 'failed'")
    tried, left = (f["text"] for f in doctor("jobs", config=text).of("remedy", "ok"))
    assert tried.startswith("fail: tried on job 50")
    assert left.startswith("requeue: prepared, but not tried") and "the watch's own SQL" in left
    found = doctor("jobs", "--try", config=text)
    assert "requeue, fail: tried on job 50 and rolled back" in found.one("remedy", "ok")["text"]
    assert db.sql("SELECT * FROM notes") == []
    ran = defib("doctor", "--try", config=text)
    assert ran.code == 2 and "defib doctor pages --try" in ran.err


# ---- the lists of work

WORK = {
    "ready": "status = 'queued'",
    "claim": "status = 'running', updated_at = :now",
    "done": "status = 'done'",
    "failed": "status = 'failed', error = :error",
    "timed_out": "status = 'failed', error = 'too long'",
    "release": "status = 'queued'",
    "command": ["true"],
}
ALL = "work.claim, work.done, work.failed, work.timed_out, work.release, work.retry"


def working(url, requeue="status = 'queued'", **lists):
    """A watch with these lists of work."""
    return config(url, requeue=requeue, beat="1m", work=json.dumps({**WORK, **lists}))


@pytest.fixture
def queued(db, defib):
    """Two percent run, one row is ready."""
    ran = defib("init", "--yes", db=db)
    assert ran.code == 0, ran.err
    make_jobs(db)
    db.sql("UPDATE jobs SET status = 'queued' WHERE id = 7")
    return db


def rows(db):
    return db.sql("SELECT id, status, error, updated_at FROM jobs ORDER BY id")


def test_the_lists_of_work_are_tried_on_a_ready_row(queued, doctor):
    before = rows(queued)
    seen = doctor(config=working(queued.url))
    assert seen.one("lists", "ok")["text"].startswith(f"{ALL}: tried on job 7 and rolled back")
    assert rows(queued) == before and queued.sql(
        f"SELECT count(*) FROM {'defib.' if queued.engine == 'postgres' else 'defib_'}lease") == [(0,)]


def test_without_a_ready_row_the_ends_are_tried_on_one_that_runs(queued, doctor):
    queued.sql("UPDATE jobs SET status = 'done' WHERE id = 7")
    before = rows(queued)
    tried, empty = (f["text"] for f in doctor(config=working(queued.url)).of("lists", "ok"))
    assert tried.startswith(ALL.removeprefix("work.claim, ") + ": tried on job 50")
    assert empty == "work.claim: prepared, but no row could be used to try it"
    assert rows(queued) == before


STAYS = "status = CASE WHEN id > 0 THEN '{}' END"


@pytest.mark.parametrize("lists, text", [
    ({"claim": STAYS.format("claimed")}, "job 7 is not running after work.claim"),
    ({"ready": "status = 'queued' OR kind IS NULL"}, "job 7 still matches work.ready after work.claim"),
    ({"done": STAYS.format("running")}, "after work.done job 7 still matches running"),
    ({"done": STAYS.format("queued")}, "after work.done job 7 still matches work.ready"),
    ({"failed": STAYS.format("running")}, "after work.failed job 7 still matches running"),
    ({"timed_out": STAYS.format("running")}, "after work.timed_out job 7 still matches running"),
    ({"release": STAYS.format("running")}, "after work.release job 7 still matches running"),
    ({"retry": STAYS.format("running")}, "after work.retry job 7 still matches running"),
], ids=["claim runs not", "claim stays ready", "done runs", "done is ready", "failed", "timed_out",
        "release", "retry"])
def test_a_list_that_does_not_do_what_its_name_says(queued, doctor, lists, text):
    before = rows(queued)
    # A row that is ready twice would be claimed for its kind, too.
    if "ready" in lists:
        queued.sql("UPDATE jobs SET kind = 'a' WHERE id <> 7")
    seen = doctor(config=working(queued.url, **lists))
    fails = [f["text"] for f in seen.of("lists", "FAIL")]
    assert f"tried on job 7 and rolled back: {text}" in fails, seen.all
    assert seen.code != 0
    assert rows(queued) == before


def test_what_a_list_calls_is_not_run(queued, doctor):
    if queued.engine == "sqlite":
        queued.sql("CREATE TABLE notes (job); CREATE TRIGGER note AFTER UPDATE ON jobs "
                   "BEGIN INSERT INTO notes VALUES (new.id); END;")
        said = doctor(config=working(queued.url)).one("lists", "ok")["text"]
        assert said.startswith(f"{ALL}: prepared, but not tried") and "trigger note" in said
        assert queued.sql("SELECT * FROM notes") == []
        return
    queued.sql(DRAW)
    before = drawn(queued)
    seen = doctor(config=working(queued.url, claim="status = 'running', error = nextval('drawn')::text",
                                 done="status = 'done', attempts = DEFAULT",
                                 beat=["SELECT nextval('drawn') FROM work"],
                                 after=["SELECT nextval('drawn') FROM work"]))
    tried, *untried = (f["text"] for f in seen.of("lists", "ok"))
    # A row that runs needs no claim.
    assert tried.startswith("work.failed, work.timed_out, work.release, work.retry: tried on job 50")
    assert untried[0].startswith("work.claim: prepared, but not tried")
    assert "function nextval(regclass)" in untried[0] and "`defib doctor jobs --try`" in untried[0]
    assert untried[1].startswith("work.done: prepared") and "a column's DEFAULT" in untried[1]
    queued.sql("CREATE TRIGGER noisy BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION on_write()")
    said = doctor(config=working(queued.url)).one("lists", "ok")["text"]
    assert said.startswith(f"{ALL}: prepared, but not tried") and "trigger noisy" in said
    assert drawn(queued) == before
    said = doctor("jobs", "--try", config=working(queued.url)).one("lists", "ok")["text"]
    assert said.startswith(f"{ALL}: tried on job 7 and rolled back")


def test_statements_beside_the_lists_are_never_run(queued, doctor):
    """Not even with --try: it runs what a trial of the lists needs."""
    queued.sql("CREATE TABLE notes (job text)")
    own = {"beat": ["INSERT INTO notes SELECT id FROM work"],
           "after": ["INSERT INTO notes SELECT id FROM work"]}
    for options in ((), ("jobs", "--try")):
        assert doctor(*options, config=working(queued.url, **own)).one("lists", "ok")
    assert queued.sql("SELECT * FROM notes") == []


def test_lists_are_not_tried_without_our_tables(db, doctor):
    make_jobs(db)
    said = doctor(config=working(db.url)).one("lists", "ok")["text"]
    assert said.startswith("not tried, because") and "does not have defib's tables" in said
