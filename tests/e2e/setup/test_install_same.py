# SPDX-License-Identifier: Apache-2.0
"""The function of `defib install` does exactly what `scan --fix` does to a table."""

import datetime
import json
import re

import pytest

from harness.databases import PgDatabase
from harness.example_systems import EXAMPLES

# What two runs cannot have in common: the time, and the name of the batch.
TIMES = {"created_at", "updated_at", "completed_at", "ocr_last_error_at"}
MOMENT = {"now", "measured_s"}


def ago(**parts):
    """Half a minute beside any border, so that both runs say the same of its age."""
    return datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=30, **parts)


def without(document, names):
    return {k: v for k, v in (document or {}).items() if k not in names} or None


def rounded(rows):
    """Texts say an age of minutes with its seconds, which pass between two runs."""
    return re.sub(r"(\d+m) \d+s", r"\1", json.dumps(rows, default=str))


class Twins:
    """Two databases with the same rows: one for scan --fix, one for the function."""

    def __init__(self, server, defib):
        self.both = [PgDatabase(server), PgDatabase(server)]
        self.defib = defib

    def sql(self, query, *params):
        for db in self.both:
            db.sql(query, *params)

    def load(self, example):
        self.sql((EXAMPLES / example / "schema.postgres.sql").read_text())
        self.config = EXAMPLES / example / "defib.yaml"

    def insert(self, table, **values):
        marks = ", ".join(["%s"] * len(values))
        self.sql(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())

    def run(self, db, *args):
        ran = self.defib(*args, config=self.config,
                         env={"DATABASE_URL": db.url, "STAGING_DATABASE_URL": db.url})
        assert ran.code in (0, 1, 6), ran.err  # 1: held or reported, 6: a row refused
        return ran

    def recover(self, watch, times=1, between=None):
        """One by scan, one by the function; the numbers that it returned."""
        scanned, installed = self.both
        self.run(installed, "install", watch, "--yes")
        answers = []
        for i in range(times):
            if between and i:
                self.sql(between)
            self.run(scanned, "scan", watch, "--fix")
            answers.append(installed.sql(f'SELECT defib."recover_{watch}"()')[0][0])
        return answers

    def table(self, db, name):
        rows = db.sql(f"SELECT to_jsonb(t) FROM {name} AS t ORDER BY id")
        return [without(row, TIMES) for row, in rows]

    def ledger(self, db):
        rows = db.sql("SELECT watch, job, event, verdict, rule, reason, epoch, evidence, before, "
                      "after FROM defib.ledger ORDER BY job, id")
        return [(*row[:7], self.evidence(row[7]), *[without(d, TIMES) for d in row[8:]])
                for row in rows]

    def evidence(self, document):
        kept = without(document, MOMENT)
        if "recoveries" in kept:
            kept["recoveries"] = [{"verdict": r["verdict"], "evidence": self.evidence(r["evidence"])}
                                  for r in kept["recoveries"]]
        return kept

    def holds(self, db):
        return db.sql("SELECT watch, job, cause, reason, owner, sign_us FROM defib.hold "
                      "ORDER BY watch, job")

    def assert_same(self, *tables):
        scanned, installed = self.both
        for name in tables:
            assert rounded(self.table(scanned, name)) == rounded(self.table(installed, name))
        assert rounded(self.ledger(scanned)) == rounded(self.ledger(installed))
        assert self.holds(scanned) == self.holds(installed)

    def drop(self):
        for db in self.both:
            db.drop()


@pytest.fixture
def twins(shared_server, defib):
    own = Twins(shared_server, defib)
    yield own
    own.drop()


def uuid(n):
    return f"00000000-0000-0000-0000-{n:012}"


@pytest.mark.covers("A13")
def test_the_tables_of_scrapersky(twins):
    twins.load("scrapersky")
    for n, state, age in ((1, "Processing", 61), (2, "Processing", 30), (3, "Complete", 200),
                          (4, "Processing", 200)):
        twins.insert("pages", id=uuid(n), url=f"https://x/{n}", page_processing_status=state,
                     updated_at=ago(minutes=age))
        twins.insert("sitemap_files", id=uuid(n), domain=f"x{n}.org", sitemap_import_status=state,
                     updated_at=ago(minutes=age))
    assert twins.recover("pages") == [2]
    assert twins.recover("sitemaps") == [2]
    twins.assert_same("pages", "sitemap_files")
    assert len(twins.ledger(twins.both[1])) == 4


@pytest.mark.covers("A13")
def test_overdue_documents_with_and_without_attempts_left(twins):
    twins.load("ocr")
    for key, attempts, limit, age in (("fresh", 1, 3, 8), ("left", 1, 3, 15), ("spent", 3, 3, 150),
                                      ("by-default", 3, None, 60 * 50), ("more", 3, 5, 11)):
        twins.insert("extraction_queue", id=key, status_id=6, document_number="7",
                     ocr_worker_id="w-1", ocr_attempts=attempts, ocr_max_attempts=limit,
                     ocr_started_at=ago(minutes=age))
    assert twins.recover("ocr") == [2]
    twins.assert_same("extraction_queue")
    assert {row[2] for row in twins.ledger(twins.both[1])} == {"REQUEUED", "HELD"}


@pytest.mark.covers("A13")
def test_thresholds_and_rules_by_kind(twins):
    twins.load("scristill")
    twins.insert("projects", id=uuid(1), name="p")
    n = 0
    for kind in ("scrape", "extract", "crawl"):
        for status in ("running", "cancelling", "queued"):
            for minutes in (4, 14, 16, 40):
                n += 1
                twins.insert("jobs", id=uuid(n), project_id=uuid(1), type=kind, status=status,
                             updated_at=ago(minutes=minutes))
    assert twins.recover("jobs") == [12]
    twins.assert_same("jobs")


PLAIN = """
databases: [{name: main, url: "${DATABASE_URL}"}]
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 1h
    owner: owner
"""
CREATE = ("CREATE TABLE jobs (id int PRIMARY KEY, state text, beat timestamptz, owner text, "
          "tries int, note text, due timestamptz, secret text)")


def plain(twins, more):
    twins.sql(CREATE)
    twins.config = PLAIN + more


def add(twins, key, **more):
    twins.insert("jobs", **{"id": key, "state": "running", "beat": ago(hours=2), "owner": "w-12345678",
                            **more})


@pytest.mark.covers("A13", "F8")
def test_a_job_that_comes_back_too_often_is_held_with_all_its_evidence(twins):
    plain(twins, "    requeue: note = :reason, state = 'queued'\n"
                 "    reason: '{verdict} {silent} {owner} {kind}'\n")
    add(twins, 1)
    again = "UPDATE jobs SET state = 'running' WHERE state = 'queued'"
    assert twins.recover("jobs", times=4, between=again) == [1, 1, 0, 0]
    twins.assert_same("jobs")
    held = twins.ledger(twins.both[1])[-1]
    assert (held[2], held[4], len(held[7]["recoveries"])) == ("HELD", "crash-budget", 2)
    assert held[5] == "Held for an operator: stuck 3 times within 3d"


@pytest.mark.covers("A13")
def test_a_hold_ends_when_the_owner_changes(twins):
    plain(twins, "    remedies: [{do: hold}]\n")
    add(twins, 1)
    twins.recover("jobs")
    twins.sql("UPDATE jobs SET owner = 'w-2'")
    twins.recover("jobs")
    twins.assert_same("jobs")
    assert [row[2] for row in twins.ledger(twins.both[1])] == ["HELD", "HELD"]


@pytest.mark.covers("A13")
def test_rules_retries_and_what_is_only_reported(twins):
    plain(twins, """\
    attempts: tries
    max_attempts: 3
    kind: note
    missing: orphan
    show: [id, owner, secret]
    mask: [owner, secret]
    backoff: {base: 60s, factor: 3, cap: 5m}
    remedies:
      - {kind: odd, do: report}
      - {verdict: orphan, do: hold}
      - {when: "secret = 'now'", do: requeue}
      - {attempts: left, do: retry}
      - {attempts: exhausted, do: fail}
    requeue: state = 'queued'
    retry: state = 'waiting', tries = tries + 1, due = :retry_at - (:now - beat)
    fail: state = 'failed', note = :reason || :verdict || :owner || coalesce(:kind, 'no kind')
    reason: it's {silent} {nothing} \\'quoted\\'
""")
    add(twins, 1, note="odd", tries=0)
    add(twins, 2, beat=None)
    add(twins, 3, secret="now", tries=3)
    for n in range(4, 10):
        add(twins, n, tries=n - 4)
    add(twins, 10, owner=None, tries=None, secret="a longer secret")
    add(twins, 11, note="odd", owner="other")
    twins.recover("jobs", times=2)
    # The wait counts from the moment of the run.
    twins.sql("UPDATE jobs SET due = date_trunc('minute', due)")
    twins.assert_same("jobs")
    events = {row[2] for row in twins.ledger(twins.both[1])}
    assert events == {"ZOMBIE_DETECTED", "HELD", "REQUEUED", "RETRY_SCHEDULED", "FAILED",
                      "RETRIES_EXHAUSTED"}


def test_what_repeats_a_masked_value_is_noted_and_not_shown(twins):
    plain(twins, """\
    show: [id, note]
    mask: [secret]
    requeue: state = 'queued', note = :reason
    reason: "lost by {owner}, who is The-Known-Secret"
http: {mask: [tries]}
""")
    add(twins, 1, note="for THE-KNOWN-SECRET only", secret="the-known-Secret", tries=4711)
    add(twins, 2, note="no word of it, 4711", secret="another one", tries=4711)
    add(twins, 3, note="abc", secret="abc")  # too short to be looked for
    assert twins.recover("jobs") == [3]
    for db in twins.both:
        rows = db.sql("SELECT evidence, before->>'note' FROM defib.ledger ORDER BY job")
        assert [row[0].get("masked") for row in rows] == [["note", "reason"], ["note"], None]
        assert "known" not in rows[0][0]["note"].lower()
        assert rows[1][0]["note"] == "no word of it, 4711"  # masked for viewers, when it is shown
        assert rows[0][1] == "for THE-KNOWN-SECRET only"    # an undo needs it
    # The scan masks the value in the text, the function the text: that is the only difference.
    twins.sql("ALTER TABLE defib.ledger DISABLE TRIGGER ALL")
    twins.sql("UPDATE defib.ledger SET evidence = evidence - 'note' WHERE job = '1'")
    twins.assert_same("jobs")


@pytest.mark.covers("A13")
def test_statements_of_the_users_own_and_calls(twins):
    plain(twins, """\
    requeue:
      sql:
        - INSERT INTO log SELECT id, verdict, reason, evidence->>'law' FROM stuck
        - WITH gone AS (SELECT id FROM stuck) UPDATE jobs SET state = 'queued' FROM gone WHERE jobs.id = gone.id
        - SELECT count(*) FROM stuck
    hold: {call: "put_aside(:id, :reason)"}
    attempts: tries
    max_attempts: "2"
    also:
      - INSERT INTO log SELECT id, 'also', reason, '' FROM stuck
""")
    twins.sql("CREATE TABLE log (id int, verdict text, reason text, law text)")
    twins.sql("CREATE FUNCTION put_aside(k int, why text) RETURNS void LANGUAGE sql AS "
              "$$UPDATE jobs SET state = 'held', note = why WHERE id = k$$")
    add(twins, 1, tries=0)
    add(twins, 2, tries=2)
    assert twins.recover("jobs") == [1]
    twins.assert_same("jobs", "log")
    assert len(twins.table(twins.both[1], "log")) == 3


@pytest.mark.covers("A13")
def test_one_row_that_the_table_refuses_does_not_hold_up_the_others(twins):
    plain(twins, "    requeue: state = 'queued', note = :reason, tries = 1 / (id - 5)\n")
    twins.sql("ALTER TABLE jobs ADD CHECK (id <> 9 OR state <> 'queued')")
    twins.sql("CREATE FUNCTION say_no() RETURNS trigger LANGUAGE plpgsql AS "
              "$$BEGIN IF new.id = 13 THEN RAISE 'not today'; END IF; RETURN new; END$$")
    twins.sql("CREATE TRIGGER no BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION say_no()")
    for n in range(1, 21):
        add(twins, n)
    assert twins.recover("jobs") == [17]
    twins.assert_same("jobs")


@pytest.mark.covers("A13")
def test_a_key_of_two_columns_of_odd_types(twins):
    plain(twins, "")
    twins.config = PLAIN.replace("key: id", "key: [at, id]") + "    requeue: state = 'queued'\n"
    twins.sql("ALTER TABLE jobs ADD at timestamptz")
    twins.sql("ALTER TABLE jobs ALTER id TYPE text, ADD tags int[]")
    add(twins, 'a"b', at=ago(hours=9))
    add(twins, "c'd,$sql$ %", at=ago(hours=8))
    assert twins.recover("jobs") == [2]
    twins.assert_same("jobs")
    assert json.loads(twins.ledger(twins.both[1])[0][1])[1] == 'a"b'
