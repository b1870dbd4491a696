# SPDX-License-Identifier: Apache-2.0
"""`defib sql WATCH`: a script for psql or sqlite3 that runs as printed and changes nothing."""


import pytest

from harness.example_systems import Example, ago
from harness.printed_sql import dump, run_script

EXAMPLES = [("scrapersky", "pages"), ("scrapersky", "sitemaps"), ("scristill", "jobs"),
            ("ruvon", "workflows"), ("ocr", "ocr"), ("octolab", "labs")]


def add_page(example):
    example.insert("pages", url="u", page_processing_status="Processing",
                   updated_at=example.ago(7200))


@pytest.mark.parametrize("name,watch", EXAMPLES, ids=[f"{n}-{w}" for n, w in EXAMPLES])
def test_the_script_of_each_example_runs_and_changes_nothing(db, defib, tmp_path, name, watch):
    example = Example(name, db, defib)
    ran = example("sql", watch, env={"STAGING_DATABASE_URL": "sqlite:staging.db"})
    assert (ran.code, ran.err) == (0, "")
    before = dump(db)
    run_script(db, ran.out, tmp_path)
    assert dump(db) == before


def test_the_script_has_the_settings_of_our_sessions(pg, defib, tmp_path):
    """Without them the same statements take ten times as long."""
    make(pg)
    pg.sql(f"ALTER DATABASE {pg.name} SET jit = on; ALTER DATABASE {pg.name} SET DateStyle = 'German'")
    script = script_of(defib, pg, FORMS["SET list"])
    script = script.replace("COMMIT;", "SELECT 'plan ' || current_setting('enable_seqscan');\nCOMMIT;")
    out = run_script(pg, script + "SELECT 'jit ' || current_setting('jit'), current_setting('datestyle');\n",
                     tmp_path)
    assert "jit off|ISO" in out and "plan off" in out, out


def test_look_as_printed_finds_what_scan_finds(db, defib, tmp_path):
    example = Example("scrapersky", db, defib)
    add_page(example)
    key = str(example.row("pages", ["id"]).id)
    before = dump(db)
    assert key in run_script(db, example("sql", "pages").out, tmp_path)
    assert dump(db) == before


FORMS = {
    "SET list": "requeue: s = 'new', n = :reason, at = :now",
    "statements": "requeue:\n  sql:\n"
                  "    - UPDATE j SET s = 'new' WHERE id IN (SELECT id FROM stuck)",
    "retry": "remedies: [{do: retry}]\nretry: {now: \"s = 'later'\", then: \"s = 'new'\"}",
    "quotes": "requeue: s = 'it''s :now -- not /* a comment', n = :reason /* really */",
    "own hold": "remedies: [{do: hold}]",
    "hold": "remedies: [{do: hold}]\nhold: s = 'held', n = :owner || :verdict",
}


def script_of(defib, db, lines, name="j"):
    text = (f"table: {name}\nkey: id\nrunning: s = 'run'\nowner: n\n"
            f"alive_at: at\nstuck_after: 10m\n{lines}")
    body = "".join(f"    {line}\n" for line in text.splitlines())
    ran = defib("sql", "w", config=f"watches:\n  - name: w\n{body}", db=db)
    assert (ran.code, ran.err) == (0, ""), ran.err
    return ran.out


def make(db, name="j"):
    kind = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"CREATE TABLE {name} (id integer PRIMARY KEY, s text, n text, at {kind})")
    db.sql(f"INSERT INTO {name} VALUES (1, 'run', 'o', {ago(db, 3600)})")


@pytest.mark.parametrize("form", FORMS)
def test_the_script_runs_for_each_form_of_a_remedy(db, defib, tmp_path, form):
    make(db)
    before = dump(db)
    run_script(db, script_of(defib, db, FORMS[form]), tmp_path)
    assert dump(db) == before


def test_the_script_runs_for_a_function_call(pg, defib, tmp_path):
    make(pg)
    pg.sql("CREATE FUNCTION back(bigint) RETURNS void LANGUAGE sql AS"
           " 'UPDATE j SET s = ''new'' WHERE id = $1'")
    before = dump(pg)
    run_script(pg, script_of(defib, pg, "requeue: {call: back(:id)}"), tmp_path)
    assert dump(pg) == before


def test_names_with_quotes_blanks_and_capitals_run(db, defib, tmp_path):
    make(db, '"My ""odd"" Jobs"')
    before = dump(db)
    script = script_of(defib, db, FORMS["SET list"], "'\"My \"\"odd\"\" Jobs\"'")
    assert "1" in run_script(db, script, tmp_path)
    assert dump(db) == before


SHORT = """
watches:
  - {name: jobs, table: j, key: id, running: s = 'run', alive_at: at, stuck_after: 1m}
"""


def test_the_only_watch_needs_no_name(lite, defib):
    make(lite)
    ran = defib("sql", config=SHORT, db=lite)
    assert ran.code == 0 and ran.out.startswith("-- Watch jobs on table j")


def test_a_watch_that_is_not_there_is_told(lite, defib):
    make(lite)
    ran = defib("sql", "jbos", config=SHORT, db=lite)
    assert (ran.code, ran.out) == (2, "")
    assert 'did you mean "jobs"?' in ran.err
