# SPDX-License-Identifier: Apache-2.0
"""`defib ledger`: read, filtered, followed by cursor, and pruned; nothing else changes it."""

import json
import os
import random
import re
import signal
import threading
import time

import psycopg2
import psycopg2.errors
import pytest

from harness import stuck_jobs as jobs
from harness.doctor_setup import role
from harness.program import ROOT
from harness.waiting import eventually, patience

# As the program appends: ids are drawn under the lock, by the last statement.
APPEND = """
    SELECT true FROM defib.ledger_order FOR UPDATE;
    INSERT INTO defib.ledger (id, watch, batch, actor, job, event)
    SELECT nextval('defib.ledger_id'), 'jobs', 'b', 'test', %s || '-' || i, 'REQUEUED'
    FROM generate_series(1, %s) i
"""


def saved(defib, text):
    """A configuration as a file that stays as it is while programs start."""
    path = defib.dir / "saved.yaml"
    path.write_text(text)
    return path


def recovered(defib, db, n, **more):
    """A ledger with an entry for each of n jobs; the configuration it was made with."""
    jobs.make(db, n)
    config = saved(defib, jobs.config(db, **more))
    assert defib("scan", "--fix", "--json", config=config).json["recovered"] == n
    return config


def entries(ran):
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def age(db, days, where="true"):
    if db.engine == "postgres":
        db.sql("ALTER TABLE defib.ledger DISABLE TRIGGER USER")
        db.sql(f"UPDATE defib.ledger SET at = at - interval '{days} days' WHERE {where}")
        db.sql("ALTER TABLE defib.ledger ENABLE TRIGGER USER")
    else:
        made = db.sql("SELECT sql FROM sqlite_master WHERE name = 'defib_ledger_no_update'")[0][0]
        db.sql("DROP TRIGGER defib_ledger_no_update")
        db.sql("UPDATE defib_ledger SET at = strftime('%Y-%m-%dT%H:%M:%fZ', at, "
               f"'-{days} days') WHERE {where}")
        db.sql(made + ";\nSELECT 1;")


class Follower:
    """A program that follows, and the entries that it has printed so far."""

    def __init__(self, defib, *args, **options):
        self.child = defib.start("ledger", "--follow", "--json", *args, **options)
        self.seen = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            with self.changed:
                self.seen.append(json.loads(line)["id"])
                self.changed.notify_all()

    def wait_for(self, last):
        with self.changed:
            assert self.changed.wait_for(lambda: last in self.seen, timeout=patience()), self.seen[-3:]

    def end(self, how=signal.SIGINT):
        self.child.send_signal(how)
        code = self.child.wait(timeout=patience())
        self.reader.join(timeout=patience())
        self.child.stdout.close()
        self.child.stderr.close()
        return code


def ids(db):
    return [row[0] for row in db.sql(f"SELECT id FROM {jobs.ledger(db)} ORDER BY id")]


def test_an_entry_is_one_line_newest_last(defib, db):
    config = recovered(defib, db, 3)
    ran = defib("ledger", config=config)
    titles, *lines = ran.out.splitlines()
    assert len(lines) == 3 and ran.code == 0
    assert titles.split() == ["AT", "WATCH", "JOB", "EVENT", "WHY", "ACTOR", "BATCH"]
    for line in lines:
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  jobs +\d +REQUEUED  silent: "
                        + jobs.REASON + r"  cli:\w+  \d{8}-\d{6}-\w+\.1$", line), line
    in_table = db.sql(f"SELECT job FROM {jobs.ledger(db)} ORDER BY id")
    assert [line.split()[2] for line in lines] == [str(row[0]) for row in in_table]


def test_json_has_every_column(defib, db):
    config = recovered(defib, db, 1)
    (entry,) = entries(defib("ledger", "--json", config=config))
    assert list(entry) == ["id", "at", "database", "batch", "watch", "job", "event", "actor",
                           "verdict", "rule", "reason", "evidence", "before", "after", "epoch"]
    assert entry["id"] == ids(db)[0] and entry["database"] == "main"
    assert (entry["watch"], entry["job"], entry["event"]) == ("jobs", "1", "REQUEUED")
    assert entry["before"]["status"] == "running" and entry["after"]["status"] == "queued"
    assert entry["evidence"]["law"] == "silent" and entry["epoch"] is None


def test_the_last_fifty_unless_asked_for_more(defib, db):
    config = recovered(defib, db, 60)
    assert [e["id"] for e in entries(defib("ledger", "--json", config=config))] == ids(db)[-50:]
    few = entries(defib("ledger", "--json", "--limit", 2, config=config))
    assert [e["id"] for e in few] == ids(db)[-2:]
    many = entries(defib("ledger", "--json", "--limit", 100, config=config))
    assert [e["id"] for e in many] == ids(db)


def test_filters(defib, db):
    config = recovered(defib, db, 4, attempts="attempts", max_attempts=9)
    batch = entries(defib("ledger", "--json", config=config))[0]["batch"]

    def jobs_of(*args):
        return sorted(e["job"] for e in entries(defib("ledger", "--json", *args, config=config)))

    everything = ["1", "2", "3", "4"]
    assert jobs_of("--job", 2) == ["2"]
    assert jobs_of("--job", "jobs/2") == ["2"]
    assert jobs_of("--job", "jobs/2", "--watch", "jobs") == []
    assert jobs_of("--watch", "jobs") == everything
    assert jobs_of("--watch", "other") == []
    assert jobs_of("--event", "REQUEUED") == everything
    assert jobs_of("--event", "HELD") == []
    assert jobs_of("--batch", batch) == everything
    assert jobs_of("--batch", batch.split(".")[0]) == everything
    assert jobs_of("--batch", batch[:-3]) == []
    assert jobs_of("--actor", "daemon") == []
    age(db, 2, "job = '3'")
    assert jobs_of("--since", "24h") == ["1", "2", "4"]
    assert jobs_of("--since", "3d") == everything


def test_a_cursor_pages_through_it(defib, db):
    config = recovered(defib, db, 7)
    seen, cursor = [], 0
    while page := entries(defib("ledger", "--json", "--after", cursor, "--limit", 3,
                                config=config)):
        seen += [e["id"] for e in page]
        cursor = seen[-1]
    assert seen == ids(db)


def test_masked_columns_are_masked(defib, db):
    config = recovered(defib, db, 1, owner="owner", mask="[owner, error]",
                       requeue="status = 'queued', error = 'secret-token-123456', owner = NULL")
    db.sql("UPDATE jobs SET status = 'running', owner = 'host-of-ann'")
    text = defib("ledger", "--json", config=config).out
    assert "secret" not in text and json.loads(text)["after"]["error"] == "****123456"
    assert json.loads(text)["after"]["owner"] is None
    assert json.loads(text)["before"]["status"] == "running"
    assert "secret" not in defib("ledger", config=config).out


def test_control_characters_are_made_visible(defib, db):
    defib("init", db=db)
    keys = ("id, ", "nextval('defib.ledger_id'), ") if db.engine == "postgres" else ("", "")
    db.sql(f"INSERT INTO {jobs.ledger(db)} ({keys[0]}batch, watch, job, event, actor, reason) "
           f"SELECT {keys[1]}'b', 'w', %s, 'FAILED', 'me', %s", "a\x1b[2Jb", "x\ny")
    ran = defib("ledger", db=db)
    assert "\x1b" not in ran.out and len(ran.out.splitlines()) == 2
    assert entries(defib("ledger", "--json", db=db))[0]["job"] == "a\x1b[2Jb"


def test_all_databases_of_the_configuration_are_read(defib, pg, lite):
    config = "databases:\n"
    for name, database in (("one", pg), ("two", lite)):
        jobs.make(database, 2)
        assert defib("scan", "--fix", config=jobs.config(database)).code == 0
        config += f"  - {{name: {name}, url: '{database.url}'}}\n"
    got = entries(defib("ledger", "--json", config=config))
    assert [e["database"] for e in got] == ["one", "one", "two", "two"]
    assert {line.split()[1] for line in defib("ledger", config=config).out.splitlines()} == {
        "DATABASE", "one", "two"}
    assert len(entries(defib("ledger", "--json", "--db", "two", config=config))) == 2
    ran = defib("ledger", "--after", 1, config=config)
    assert ran.code == 2 and "--db" in ran.err


def test_without_a_ledger_it_says_so_and_makes_none(defib, db):
    jobs.make(db, 1)
    ran = defib("ledger", db=db)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.count("\n") == 1 and "no ledger" in ran.err
    assert not jobs.has_ledger(db)


def test_who_may_only_read_can_read(defib, pg):
    recovered(defib, pg, 1)
    pg.sql("DROP ROLE IF EXISTS ledger_reader")
    pg.sql("CREATE ROLE ledger_reader LOGIN")
    pg.sql("GRANT USAGE ON SCHEMA defib TO ledger_reader")
    pg.sql("GRANT SELECT ON defib.ledger TO ledger_reader")
    url = re.sub(r"//[^@]*@", "//ledger_reader@", pg.url)
    try:
        assert len(entries(defib("ledger", "--json", db=url))) == 1
    finally:
        pg.sql("DROP OWNED BY ledger_reader")
        pg.sql("DROP ROLE ledger_reader")


@pytest.mark.parametrize("args, says", [
    (["--event", "REQUEUE"], "did you mean REQUEUED?"),
    (["--event", "requeued"], "did you mean REQUEUED?"),
    (["--event", "banana"], "--events"),
    (["--since", "yesterday"], "--since"),
    (["--limit", "0"], "--limit"),
    (["--limit", "-1"], "--limit"),
    (["--limit", "1000000"], "--limit"),
    (["--after", "x"], "--after"),
    (["--yes"], "prune"),
    (["prone"], "prune"),
    (["prune"], "--older-than"),
    (["prune", "--older-than", "soon"], "--older-than"),
    (["prune", "--older-than", "9d", "--job", "1"], "--job"),
])
def test_bad_input_gets_one_line(defib, lite, args, says):
    lite.sql("CREATE TABLE jobs (id)")
    ran = defib("ledger", *args, db=lite)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err and ran.err.count("\n") == 1


def test_the_events_in_docs_are_those_of_the_program(defib):
    printed = [(e["event"], e["meaning"]) for e in entries(defib("ledger", "--events", "--json"))]
    documented = re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", (ROOT / "docs/ledger.md").read_text(),
                            re.MULTILINE)
    assert documented == printed


# ---- follow


def test_a_follower_prints_what_comes(defib, db):
    config = recovered(defib, db, 2)
    follower = Follower(defib, config=config)
    follower.wait_for(ids(db)[-1])
    jobs.fill(db, 3, first=10)
    assert defib("scan", "--fix", config=config).code == 0
    follower.wait_for(ids(db)[-1])
    assert follower.end() == 0
    assert follower.seen == ids(db)


def test_a_follower_may_start_from_now_or_from_a_cursor(defib, db):
    config = recovered(defib, db, 3)
    old = ids(db)
    from_now = Follower(defib, "--limit", 0, config=config)
    from_cursor = Follower(defib, "--after", old[0], config=config)
    from_cursor.wait_for(old[-1])
    while True:  # until it has read where now is
        jobs.fill(db, 1, first=100 + len(ids(db)))
        assert defib("scan", "--fix", config=config).code == 0
        if from_now.seen:
            break
        time.sleep(0.1)
    from_cursor.wait_for(ids(db)[-1])
    from_now.wait_for(ids(db)[-1])
    assert from_now.end(signal.SIGTERM) == 0 and from_cursor.end(signal.SIGTERM) == 0
    assert from_now.seen == ids(db)[-len(from_now.seen):] and not set(from_now.seen) & set(old)
    assert from_cursor.seen == ids(db)[1:]


def test_a_follower_waits_for_a_ledger_that_is_not_there_yet(defib, db):
    jobs.make(db, 2)
    config = saved(defib, jobs.config(db))
    follower = Follower(defib, config=config)
    assert "no ledger" in follower.child.stderr.readline()
    assert defib("scan", "--fix", config=config).code == 0
    follower.wait_for(ids(db)[-1])
    assert follower.end() == 0
    assert follower.seen == ids(db)


def test_a_follower_begins_anew_with_tables_that_were_made_again(defib, pg):
    db, config = pg, recovered(defib, pg, 3)
    printed = defib("init", "--print", config=config).out
    follower = Follower(defib, config=config)
    follower.wait_for(ids(db)[-1])
    seen = list(follower.seen)
    db.sql("BEGIN; DROP SCHEMA defib CASCADE; " + printed + "; COMMIT")
    jobs.fill(db, 8, first=10)
    assert defib("scan", "--fix", config=config).code == 0
    assert len(ids(db)) > len(seen)
    eventually(lambda: follower.seen == seen + ids(db))
    assert "has another ledger now" in follower.child.stderr.readline()
    assert follower.end() == 0


def test_a_follower_with_a_filter_prints_only_that(defib, db):
    config = recovered(defib, db, 2)
    follower = Follower(defib, "--job", 11, config=config)
    jobs.fill(db, 3, first=10)
    assert defib("scan", "--fix", config=config).code == 0
    (want,) = db.sql(f"SELECT id FROM {jobs.ledger(db)} WHERE job = '11'")
    follower.wait_for(want[0])
    assert follower.end() == 0
    assert follower.seen == [want[0]]


def test_a_follower_ends_when_nobody_reads(defib, lite):
    config = recovered(defib, lite, 1)
    read, write = os.pipe()
    child = defib.start("ledger", "--follow", config=config, stdout=write)
    os.close(write)
    with os.fdopen(read) as out:
        assert out.readline().startswith("AT ") and "REQUEUED" in out.readline()
    assert child.wait(timeout=patience()) == 0
    assert child.stderr.read() == ""
    child.stderr.close()


def write_entries(pg, name, until):
    """Transactions that take time, commit in random order, and sometimes roll back."""
    chance = random.Random(name)
    session = pg.connect()
    session.autocommit = False
    while not until.is_set():
        with session.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s)", (chance.random() / 50,))
            cursor.execute(APPEND, (name, chance.randint(1, 5)))
            cursor.execute("SELECT pg_sleep(%s)", (chance.random() / 50,))
        if chance.random() < 0.2:
            session.rollback()
        else:
            session.commit()
    session.close()


class CursorReader(threading.Thread):
    """Reads on after its cursor as fast as it can, so that it meets every gap."""

    def __init__(self, defib, db, until):
        super().__init__(daemon=True)
        self.defib, self.db, self.until, self.seen = defib, db, until, []

    def read(self):
        after = self.seen[-1] if self.seen else 0
        self.seen += [e["id"] for e in entries(
            self.defib("ledger", "--json", "--after", after, db=self.db))]

    def run(self):
        while not self.until.is_set():
            self.read()
        self.read()


def test_readers_lose_nothing_of_writers_that_commit_in_any_order(defib, pg):
    assert defib("init", db=pg).code == 0
    done, over = threading.Event(), threading.Event()
    writers = [threading.Thread(target=write_entries, args=(pg, f"w{i}", done)) for i in range(4)]
    follower = Follower(defib, "--after", 0, db=pg)
    readers = [CursorReader(defib, pg, over) for _ in range(2)]
    for thread in writers + readers:
        thread.start()
    try:
        deadline = time.monotonic() + patience()
        while len(ids(pg)) < 600 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        done.set()
        for writer in writers:
            writer.join()
        over.set()
    follower.wait_for(ids(pg)[-1])
    assert follower.end() == 0
    assert follower.seen == ids(pg)
    for reader in readers:
        reader.join(timeout=patience())
        assert reader.seen == ids(pg)


def test_readers_lose_nothing_of_scans_at_once(defib, pg):
    names = ["a", "b", "c", "d"]
    jobs.make(pg, 400)
    for name in names:
        pg.sql(f"CREATE TABLE {name} AS SELECT * FROM jobs")
        pg.sql(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    config = jobs.config(pg, batch=10)
    watch = config[config.index("  - name: jobs"):]
    config = config.replace(watch, "".join(
        watch.replace("name: jobs", f"name: {name}").replace("table: jobs", f"table: {name}")
        for name in names))
    config = saved(defib, config)
    assert defib("init", config=config).code == 0
    over = threading.Event()
    reader = CursorReader(defib, pg, over)
    reader.start()
    follower = Follower(defib, "--after", 0, config=config)
    scans = [defib.start("scan", name, "--fix", "--quiet", config=config) for name in names]
    for scan in scans:
        scan.communicate()
        assert scan.returncode == 0
    over.set()
    assert len(ids(pg)) >= 1600
    follower.wait_for(ids(pg)[-1])
    assert follower.end() == 0
    assert follower.seen == ids(pg)
    reader.join(timeout=patience())
    assert reader.seen == ids(pg)


def test_a_follower_goes_on_after_an_outage(defib, pg, wire):
    config = recovered(defib, pg, 2)
    follower = Follower(defib, db=wire.url(pg))
    follower.wait_for(ids(pg)[-1])
    for first in (10, 20):
        wire.away()
        jobs.fill(pg, 5, first=first)
        assert defib("scan", "--fix", config=config).code == 0
        assert "trying again" in follower.child.stderr.readline()
        wire.back()
        assert "is back" in follower.child.stderr.readline()
        follower.wait_for(ids(pg)[-1])
    assert follower.end() == 0
    assert follower.seen == ids(pg)


# ---- append-only, and retention


def test_nothing_else_changes_the_ledger(defib, db):
    recovered(defib, db, 3)
    before = db.sql(f"SELECT * FROM {jobs.ledger(db)} ORDER BY id")
    statements = [f"UPDATE {jobs.ledger(db)} SET reason = 'x'", f"DELETE FROM {jobs.ledger(db)}",
                  f"DELETE FROM {jobs.ledger(db)} WHERE job = '1'"]
    if db.engine == "postgres":
        statements.append("TRUNCATE defib.ledger")
    for statement in statements:
        with pytest.raises(Exception, match="append-only"):
            db.sql(statement)
    assert db.sql(f"SELECT * FROM {jobs.ledger(db)} ORDER BY id") == before


def test_init_creates_the_triggers_again(defib, db):
    recovered(defib, db, 1)
    if db.engine == "postgres":
        db.sql("DROP FUNCTION defib.ledger_append_only CASCADE")
    else:
        db.sql("DROP TRIGGER defib_ledger_kept")
    assert defib("init", db=db).code == 0
    assert defib("init", db=db).code == 0
    with pytest.raises(Exception, match="append-only"):
        db.sql(f"DELETE FROM {jobs.ledger(db)}")


def test_prune_removes_what_is_old_and_says_so(defib, db):
    config = recovered(defib, db, 5, batch=1)
    old, kept = ids(db)[:2], ids(db)[2:]
    age(db, 100, f"id <= {old[-1]}")
    ran = defib("ledger", "prune", "--older-than", "90d", "--dry-run", config=config)
    assert ran.code == 0 and "2 entries" in ran.out and "would be" in ran.out
    assert ids(db) == old + kept
    ran = defib("ledger", "prune", "--older-than", "90d", "--yes", "--json", config=config)
    assert ran.code == 0 and (ran.json["older"], ran.json["removed"]) == (2, 2)
    assert ids(db)[:-1] == kept
    (note,) = entries(defib("ledger", "--json", "--event", "PRUNED", config=config))
    assert note["evidence"]["count"] == 2 and note["evidence"]["cutoff"] == ran.json["cutoff"]
    assert note["actor"].startswith("cli:") and note["id"] > kept[-1]
    with pytest.raises(Exception, match="append-only"):
        db.sql(f"DELETE FROM {jobs.ledger(db)}")


def test_prune_of_nothing_leaves_no_trace(defib, db):
    config = recovered(defib, db, 2)
    before = ids(db)
    ran = defib("ledger", "prune", "--older-than", "90d", config=config)
    assert ran.code == 0 and ids(db) == before


def test_prune_asks_or_needs_yes(defib, db):
    config = recovered(defib, db, 2)
    age(db, 100)
    ran = defib("ledger", "prune", "--older-than", "90d", config=config)
    assert ran.code == 5 and "--yes" in ran.err and "2 entries" in ran.err
    assert len(ids(db)) == 2


def test_prune_keeps_what_a_crash_budget_counts(defib, db):
    config = recovered(defib, db, 2)
    ran = defib("ledger", "prune", "--older-than", "1h", "--yes", config=config)
    assert ran.code == 5 and "jobs counts recoveries" in ran.err
    assert len(ids(db)) == 2


def test_what_is_only_reported_does_not_read_as_recovered(db, defib):
    jobs.make(db, 1)
    config = jobs.config(db, remedies="[{do: report}]").replace(
        f"    reason: {jobs.REASON}\n", "")
    defib("scan", "--fix", config=config)
    said = "Found stuck by defib: silent for 2h; nothing was changed"
    assert said in defib("ledger", config=config).out
    assert said in defib("show", "jobs/1", config=config).out
    assert "Recovered by defib" not in defib("ledger", "--json", config=config).out


# ---- whole


def verify(defib, config, *more):
    ran = defib("ledger", "verify", "--json", *more, config=config)
    assert (ran.code == 0) == ran.json["whole"], ran.out
    return ran.json


def test_verify_finds_what_was_changed_and_what_was_removed(defib, db):
    """Seals survive pruning and find an entry that was changed or removed."""
    config = recovered(defib, db, 6, batch=2)
    whole = verify(defib, config)
    assert (whole["entries"], whole["seals"], whole["broken"]) == (6, 3, None)
    assert verify(defib, config, "--expect", whole["seal"])["whole"]
    assert not verify(defib, config, "--expect", "0" * 64)["whole"]
    text = defib("ledger", "verify", config=config)
    assert text.code == 0 and whole["seal"] in text.out
    guards(db, off=True)
    db.sql(f"UPDATE {jobs.ledger(db)} SET actor = 'nobody' WHERE id = 3")
    assert "3 to 4 differ from what was sealed" in verify(defib, config)["broken"]
    db.sql(f"DELETE FROM {jobs.ledger(db)} WHERE id = 3")
    ran = defib("ledger", "verify", config=config)
    assert ran.code == 5 and "BROKEN at entry 3" in ran.out
    guards(db, off=False)


def guards(db, off):
    """What protects the ledger; only the owner of the tables can disable it."""
    if db.engine == "postgres":
        db.sql(f"ALTER TABLE defib.ledger {'DISABLE' if off else 'ENABLE'} TRIGGER USER")
    elif off:
        db.sql("DROP TRIGGER defib_ledger_no_update")
        db.sql("DROP TRIGGER defib_ledger_kept")


ATTACKS = [
    "DELETE FROM defib.ledger",
    "SET defib.retention = 'on'; DELETE FROM defib.ledger",
    "UPDATE defib.ledger SET actor = 'nobody'",
    "TRUNCATE defib.ledger",
    "SELECT defib.ledger_prune(now() + interval '1 day', 1000, 'b', 'a')",
    "INSERT INTO defib.ledger_seal VALUES (99, 1, 0, 'me', 'x')",
    "UPDATE defib.ledger_seal SET next_id = NULL",
    "DELETE FROM defib.ledger_seal",
    "TRUNCATE defib.ledger_seal",
    "ALTER TABLE defib.ledger DISABLE TRIGGER USER",
    "SELECT setval('defib.ledger_id', 1)",
    "CREATE TEMP TABLE t (id bigint); CREATE TRIGGER x AFTER INSERT ON t REFERENCING NEW TABLE "
    "AS added FOR EACH STATEMENT EXECUTE FUNCTION defib.ledger_seal_added(); INSERT INTO t "
    "VALUES (1)",
    "INSERT INTO defib.ledger (id, batch, watch, job, event, actor) VALUES (-5, 'b', 'w', 'j', "
    "'HELD', 'a')",
    "INSERT INTO defib.ledger (id, batch, watch, job, event, actor) VALUES (4611686018427387904, "
    "'b', 'w', 'j', 'HELD', 'a')",
]


@pytest.mark.parametrize("granted", ["by_doctor", "everything"])
def test_a_workers_role_cannot_take_anything_out_of_the_ledger(defib, pg, granted):
    """`SET defib.retention` and DELETE emptied it without a trace; whatever was granted."""
    config = recovered(defib, pg, 4)
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE") as url:
        if granted == "everything":
            pg.sql("GRANT ALL ON ALL TABLES IN SCHEMA defib TO r_" + pg.name)
            pg.sql("GRANT USAGE ON SCHEMA defib TO r_" + pg.name)
            pg.sql("GRANT USAGE ON ALL SEQUENCES IN SCHEMA defib TO r_" + pg.name)
        else:
            ran = defib("doctor", "--json", config=jobs.config(pg).replace(pg.url, url))
            (fix,) = [f["fix"] for f in ran.json["findings"] if f["check"] == "ledger"]
            assert "DELETE ON defib.ledger," not in fix and fix.startswith("GRANT USAGE")
            pg.sql(fix)
        for attack in ATTACKS:
            session = psycopg2.connect(url)
            with pytest.raises(psycopg2.Error):
                session.cursor().execute(attack)
                session.commit()
            session.close()
        assert len(ids(pg)) == 4 and verify(defib, config)["whole"]
        # What it is there for it can do, and its name is kept.
        session = psycopg2.connect(url)
        session.cursor().execute(APPEND, ("by", 2))
        session.commit()
        session.close()
        assert verify(defib, config)["entries"] == 6
        assert pg.sql("SELECT role FROM defib.ledger_seal ORDER BY last_id DESC LIMIT 1") == [
            ("r_" + pg.name,)]


def test_two_that_append_at_once_make_one_chain(defib, pg):
    """Also in a transaction whose snapshot is older than the other's entry: it is refused."""
    config = recovered(defib, pg, 1)
    late = psycopg2.connect(pg.url)
    late.set_session("REPEATABLE READ")
    late.cursor().execute("SELECT count(*) FROM defib.ledger_seal")
    pg.sql(APPEND, "a", 1)
    with pytest.raises(psycopg2.errors.SerializationFailure):
        late.cursor().execute(APPEND, ("b", 1))
    late.close()
    assert verify(defib, config)["entries"] == 2
