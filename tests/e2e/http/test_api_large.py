# SPDX-License-Identifier: Apache-2.0
"""Pages of tables that are too large to be read interactively.

A list that takes too long is answered from the rows that could be read in time, and says so; the
next page continues after them. An expensive text expression simulates a table that is slow to read:
every thousandth row costs so much that all of them together take too long on any machine. How many
rows a page reads depends on the machine, so no test expects a number of them: whoever follows `next`
finds each job exactly once, and every page is answered.
"""

import urllib.parse

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.http_daemon import serving
from harness.job_table import json_lines
from harness.program import Program

ROWS = 60_000
COSTLY = 17  # a row of the table `costly`, which has
COSTLY_ROWS = 40
NEEDLES = {5_000: "early", 25_500: "needle", 59_999: "late"}
SLOW = {
    "postgres": "CASE WHEN id % 1000 = 0 THEN pg_sleep(0.01)::text || note ELSE note END",
    "sqlite": "CASE WHEN id % 1000 = 0 THEN (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT "
              "i + 1 FROM n WHERE i < 250000 + id % 2) SELECT count(*) FROM n) || note ELSE note END",
}
# More than all the time of a page.
MORE_THAN_A_PAGE = {
    "postgres": f"CASE WHEN id = {COSTLY} THEN pg_sleep(1)::text || note ELSE note END",
    "sqlite": f"CASE WHEN id = {COSTLY} THEN (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT "
              "i + 1 FROM n WHERE i < 10000000) SELECT count(*) FROM n) || note ELSE note END",
}
# A row that is slow by itself must be readable on a slow machine too.
CONFIG = """
databases: [{{name: main, url: "{url}"}}]
http: {{database_timeout: 5m}}
watches:
  - name: costly
    table: costly
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
    text: {costly}
    remedies: [{{do: report}}]
    every: 1h
  - name: large
    table: large
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
    since: made_at
    text: {slow}
    show: [note]
    stats: {{failed: "status = 'failed'", finished_at: beat_at}}
    remedies: [{{do: report}}]
    every: 1h
"""


def numbers(db, n):
    if db.engine == "postgres":
        return f"generate_series(1, {n}) AS n(i)"
    return (f"(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) "
            "SELECT i FROM n)")


def fill(db):
    """Two of three are done, every third failed; made a second apart, the last one now."""
    made = "now() - ({n} - i) * interval '1 second'" if db.engine == "postgres" else \
        "strftime('%Y-%m-%dT%H:%M:%SZ', unixepoch() - ({n} - i), 'unixepoch')"
    db.sql("CREATE TABLE large (id bigint PRIMARY KEY, status text, note text, made_at "
           f"{'timestamptz' if db.engine == 'postgres' else 'text'}, beat_at "
           f"{'timestamptz' if db.engine == 'postgres' else 'text'})")
    db.sql("INSERT INTO large SELECT i, CASE i % 3 WHEN 0 THEN 'failed' ELSE 'done' END, "
           f"'{'a note that makes a row as long as rows are, ' * 5}' || i, {made.format(n=ROWS)}, "
           f"{made.format(n=ROWS)} FROM {numbers(db, ROWS)}")
    for key, word in NEEDLES.items():
        db.sql("UPDATE large SET note = %s WHERE id = %s", word, key)
    if db.engine == "postgres":
        db.sql("ANALYZE large")


def fill_costly(db):
    db.sql("CREATE TABLE costly (id bigint PRIMARY KEY, status text, note text, beat_at "
           f"{'timestamptz' if db.engine == 'postgres' else 'text'})")
    db.sql(f"INSERT INTO costly SELECT i, 'done', 'needle', NULL FROM {numbers(db, COSTLY_ROWS)}")


def fill_queue(db):
    """Done jobs, and a few jobs of interest."""
    postgres = db.engine == "postgres"
    now = "now()" if postgres else "unixepoch() * 1000"
    db.sql(f"INSERT INTO {'defib.job' if postgres else 'defib_job'} (created_at, run_at, "
           "claimed_at, finished_at, attempts, state, queue, kind) SELECT "
           f"{now}, {now}, {now}, {now}, 1, CASE WHEN i <= 7 THEN 'held' WHEN i <= 20 THEN "
           "'failed' WHEN i > 59990 THEN 'queued' ELSE 'done' END, 'default', 'mail' "
           f"FROM {numbers(db, ROWS)}")


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def large(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    db = PgDatabase(request.getfixturevalue("shared_server")) if request.param == "postgres" \
        else LiteDatabase(folder / "large.db")
    config = CONFIG.format(url=db.url, slow=SLOW[db.engine],
                           costly=MORE_THAN_A_PAGE[db.engine])
    program = Program(folder)
    assert program("init", config=config).code == 0
    fill(db)
    fill_costly(db)
    fill_queue(db)
    with serving(folder, config, "--no-queue") as web:
        web.db, web.program, web.config = db, program, config
        yield web
    db.drop()


def ask(web, watch="large", **query):
    said = web.get(f"/api/v1/watches/{watch}/jobs?{urllib.parse.urlencode(query)}")
    assert said.status == 200, said.text
    said = said.json
    assert said["more"] == (said["next"] is not None)
    if said["examined"] is not None:  # the time was over first
        assert said["more"] and said["examined"] > 0
    return said


def pages(web, watch="large", **query):
    """All pages, each from where the one before ended."""
    said = ask(web, watch, **query)
    while True:
        yield said
        if not said["more"]:
            break
        said = ask(web, watch, **query, after=said["next"])


def examined(answers):
    return sum(said["examined"] or 0 for said in answers)


def keys(said):
    return [int(job["key"]) for job in said["jobs"]]


def all_keys(answers):
    return [key for said in answers for key in keys(said)]


def until_found(web, n, watch="large", **query):
    """Pages until `n` jobs were found. How many pages that takes depends on the machine."""
    found = []
    for said in pages(web, watch, **query):
        found += keys(said)
        if len(found) >= n:
            break
    return found


def test_a_search_that_takes_too_long_looks_at_some_rows_and_says_how_many(large):
    said = ask(large, text="no such text")
    assert (keys(said), said["more"]) == ([], True)
    assert 0 < said["examined"] < ROWS


@pytest.mark.parametrize("order", [{}, {"sort": "key", "desc": "true"}, {"sort": "age"},
                                   {"sort": "state"}], ids=str)
def test_a_search_goes_on_behind_what_was_looked_at_until_the_table_ends(large, order):
    answers = list(pages(large, text="needle", **order))
    assert all_keys(answers) == [25_500]
    assert len(answers) > 1
    assert examined(answers) <= ROWS
    # Sorting takes too long too, and the answers say so.
    assert {said["sort"] for said in answers} == {"key"}


def test_every_job_is_on_exactly_one_page(large):
    answers = list(pages(large, text="a note that makes", where="state=failed", limit=500))
    found = all_keys(answers)
    wanted = [i for i in range(3, ROWS + 1, 3) if i not in NEEDLES]
    assert found == wanted
    assert examined(answers) <= ROWS


def test_the_newest_are_looked_at_first_where_they_come_first(large):
    for sort in ("key", "age"):
        answers = []
        for said in pages(large, text="late", sort=sort, desc="true"):
            answers.append(said)
            if said["jobs"]:
                break
        assert all_keys(answers) == [59_999]
        assert examined(answers) < ROWS / 2


def test_a_row_that_costs_more_than_the_time_of_a_page_is_answered(large):
    found = all_keys(pages(large, "costly", text="needle"))
    assert found == list(range(1, COSTLY_ROWS + 1))


def test_a_count_of_what_was_looked_at_is_called_a_least_number(large):
    said = ask(large, text="needle", count="true")
    assert said["count"] in (0, 1)
    assert said["count_capped"] is True


def test_a_list_in_the_reverse_order_begins_at_the_end(large):
    found = until_found(large, 3, limit=3, sort="key", desc="true")
    assert found[:3] == [60_000, 59_999, 59_998]


def test_a_person_on_the_command_line_waits_for_all_of_it(large):
    ran = large.program("list", "--watch", "large", "--where", "text~needle", "--json",
                        config=large.config)
    assert [job["job"] for job in json_lines(ran)] == ["large/25500"]


def states(stats):
    return {one["state"]: one["n"] for one in stats["states"]}


def test_a_large_table_is_estimated_and_says_so(large):
    stats = large.get("/api/v1/watches/large/stats").json
    assert stats["estimated"] is True
    assert abs(states(stats)["failed"] - ROWS / 3) < ROWS / 10
    assert abs(states(stats)["done"] - 2 * ROWS / 3) < ROWS / 10
    assert abs(stats["failed"] - ROWS / 3) < ROWS / 10


def test_an_estimate_does_not_jump_while_nothing_changes(large):
    first, second = (large.get("/api/v1/watches/large/stats").json for _ in range(2))
    assert (first["states"], first["failed"]) == (second["states"], second["failed"])


def test_the_command_line_counts(large):
    ran = large.program("stats", "large", "--json", config=large.config)
    assert ran.code == 0, ran.err
    [said] = ran.json["watches"]
    assert (said["estimated"], states(said)["failed"]) == (False, ROWS // 3)


def test_what_needs_a_person_is_counted_and_never_estimated(large):
    stats = large.get("/api/v1/watches/queue/stats").json
    assert stats["estimated"] is True
    said = states(stats)
    assert (said["held"], said["failed"], said["queued"], stats["failed"]) == (7, 13, 10, 13)
    assert abs(said["done"] - (ROWS - 30)) < ROWS / 5
    assert {one["state"] for one in stats["states"] if one["estimated"]} == {"done"}


def test_states_of_the_queue_are_found(large):
    for state, n in (("held", 7), ("failed", 13)):
        found = all_keys(pages(large, "queue", state=state))
        assert (len(found), len(set(found))) == (n, n)


def test_the_queue_is_sorted_by_age_without_reading_it_through(large):
    found = until_found(large, 4, "queue", sort="age", desc="true", limit=2)
    assert found[:4] == [60_000, 59_999, 59_998, 59_997]


def test_what_is_held_is_found_wherever_it_stands_in_the_table(large):
    table = "defib.hold" if large.db.engine == "postgres" else "defib_hold"
    # A hold belongs to a sign of life: without one it stays as long as there is none.
    large.db.sql("UPDATE large SET beat_at = NULL WHERE id IN (17, 59000)")
    for key in ("17", "59000", "no key of this table"):
        of = "public.large (id)" if large.db.engine == "postgres" else "large (id)"
        large.db.sql(f"INSERT INTO {table} (table_key, watch, job, cause, batch) VALUES "
                     f"('{of}', 'large', %s, 'poison', 'b')", key)
    assert all_keys(pages(large, where="held")) == [17, 59_000]
