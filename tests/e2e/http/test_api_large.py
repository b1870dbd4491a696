# SPDX-License-Identifier: Apache-2.0
"""Pages of tables that are too large to be read interactively.

A list that takes too long is answered from a window of the table, and says so; the next page
continues after it. An expensive text expression simulates a table that is slow to read: every
thousandth row costs so much that all of them together take too long on any machine.
"""

import urllib.parse

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.http_daemon import serving
from harness.job_table import json_lines
from harness.program import Program
from harness.waiting import eventually

pytestmark = pytest.mark.sanitized
ROWS = 60_000
WINDOW = 10_000  # rows, of the API
NEEDLES = {5_000: "early", 25_500: "needle", 59_999: "late"}
SLOW = {
    "postgres": "CASE WHEN id % 1000 = 0 THEN pg_sleep(0.01)::text || note ELSE note END",
    "sqlite": "CASE WHEN id % 1000 = 0 THEN (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT "
              "i + 1 FROM n WHERE i < 500000) SELECT count(*) FROM n) || note ELSE note END",
}
CONFIG = """
databases: [{{name: main, url: "{url}"}}]
watches:
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
    config = CONFIG.format(url=db.url, slow=SLOW[db.engine])
    program = Program(folder)
    assert program("init", config=config).code == 0
    fill(db)
    fill_queue(db)
    with serving(folder, config, "--no-queue") as web:
        web.db, web.program, web.config = db, program, config
        yield web
    db.drop()


def ask(web, watch="large", **query):
    """An answer. A busy machine may not give one in time, but not every time."""
    def answered():
        said = web.get(f"/api/v1/watches/{watch}/jobs?{urllib.parse.urlencode(query)}")
        return None if said.status == 503 and "not done within" in said.text else said
    said = eventually(answered)
    assert said.status == 200, said.text
    return said.json


def whole(web, watch="large", **query):
    """An answer from the whole table. A busy machine may cut one short, but not every time."""
    def found_all():
        said = ask(web, watch, **query)
        return said if said["examined"] is None else None
    return eventually(found_all)


def keys(said):
    return [int(job["key"]) for job in said["jobs"]]


def test_a_search_that_takes_too_long_looks_at_some_rows_and_says_how_many(large):
    said = ask(large, text="early")
    assert keys(said) == [5_000]
    assert (said["examined"], said["more"]) == (WINDOW, True)


def test_a_search_goes_on_behind_what_was_looked_at_until_the_table_ends(large):
    found, after, pages = [], None, 0
    while pages == 0 or after:
        said = ask(large, text="needle", **({"after": after} if after else {}))
        found += keys(said)
        after, pages = said["next"], pages + 1
        assert said["more"] == (after is not None)
    assert found == [25_500]
    assert 1 < pages <= ROWS // WINDOW


def test_the_newest_are_looked_at_first_where_they_come_first(large):
    said = ask(large, text="late", sort="key", desc="true")
    assert keys(said) == [59_999]
    assert (said["examined"], said["more"]) == (WINDOW, True)


def test_in_the_order_of_age_the_window_is_the_end_that_was_asked_for(large):
    said = ask(large, text="late", sort="age", desc="true")
    assert (keys(said), said["examined"], said["more"]) == ([59_999], WINDOW, False)
    said = ask(large, text="late", sort="age")
    assert (keys(said), said["examined"], said["more"]) == ([], WINDOW, False)


def test_a_count_of_what_was_looked_at_is_called_a_least_number(large):
    said = ask(large, text="needle", count="true")
    assert (said["count"], said["count_capped"], said["examined"]) == (0, True, WINDOW)


def test_a_list_that_an_index_serves_looks_at_everything(large):
    said = whole(large, limit=3, sort="key", desc="true")
    assert keys(said) == [60_000, 59_999, 59_998]


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


def test_states_of_the_queue_are_found_by_an_index(large):
    for state, n in (("held", 7), ("failed", 13)):
        said = whole(large, "queue", state=state)
        assert (len(said["jobs"]), said["more"]) == (n, False)


def test_the_queue_is_sorted_by_age_without_reading_it_through(large):
    said = whole(large, "queue", sort="age", desc="true", limit=2)
    assert (keys(said), said["more"]) == ([60_000, 59_999], True)
    said = ask(large, "queue", sort="age", desc="true", limit=2, after=said["next"])
    assert keys(said) == [59_998, 59_997]


def test_what_is_held_is_found_wherever_it_stands_in_the_table(large):
    table = "defib.hold" if large.db.engine == "postgres" else "defib_hold"
    # A hold belongs to a sign of life: without one it stays as long as there is none.
    large.db.sql("UPDATE large SET beat_at = NULL WHERE id IN (17, 59000)")
    for key in ("17", "59000", "no key of this table"):
        large.db.sql(f"INSERT INTO {table} (watch, job, cause, batch) VALUES ('large', %s, "
                     "'poison', 'b')", key)
    said = whole(large, where="held")
    assert (keys(said), said["more"]) == ([17, 59_000], False)
