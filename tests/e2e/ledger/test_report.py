# SPDX-License-Identifier: Apache-2.0
"""`defib report`: its numbers compared with a count by hand, its forms, and missing data."""

import datetime
import html.parser
import re

import pytest

from harness.job_table import PAIRS, add_job, config, make_jobs, make_pairs
from harness.written_ledger import Ledger, hours

HOSTILE = "<script>alert(1)</script> `x` *b* [l](http://e) <!channel> | \x1b[31m"
DAY = datetime.timedelta(days=1)


@pytest.fixture
def ledger(db, defib, with_tables):
    make_jobs(db)
    return Ledger(db, defib)


@pytest.fixture
def lite_ledger(lite, defib, with_tables):
    """Where what is tested is no matter of the engine."""
    make_jobs(lite)
    return Ledger(lite, defib)


def report(defib, db, *args, more="", code=0):
    ran = defib("report", "--format", "json", *args, config=config(db, more))
    assert ran.code == code, ran.err
    return ran.json


def watch_of(defib, db, *args):
    return report(defib, db, *args)["watches"][0]


@pytest.mark.covers("A9", "A11", "E7")
def test_the_numbers_are_those_of_a_count_by_hand(ledger, defib):
    for i, ago in enumerate((1, 2, 30, 31, 32, 100)):
        ledger.add("REQUEUED", hours(ago), job=str(i), silent=3600 + 60 * i, kind="crawl",
                   owner=f"worker-{i % 2}")
    ledger.add("FAILED", hours(3), job="f", verdict="overdue", kind="scrape", silent=60)
    ledger.add("HELD", hours(4), job="h", rule="attempts-exhausted")
    ledger.add("RETRIES_EXHAUSTED", hours(4), job="h", rule="attempts-exhausted")
    ledger.add("GUARD_HELD", hours(5), job="*", verdict=None, rule="brake-holds")
    ledger.add("GUARD_HELD", hours(4), job="*", verdict=None, rule="brake-lets-go")
    ledger.add("REQUEUED", hours(6), job="p", rule="chosen-by-hand", actor="cli:anna")
    ledger.add("RELEASED", hours(5), job="h", rule=None, verdict=None, actor="cli:anna")
    for ago in (7 * 24 + 1, 8 * 24, 13 * 24):
        ledger.add("REQUEUED", hours(ago))
    ledger.add("REQUEUED", hours(14 * 24 + 1))
    ledger.add("REQUEUED", hours(1), watch="other")
    w = watch_of(defib, ledger.db)
    expected = {"detected": 8, "recovered": 8, "requeued": 7, "failed": 1, "recovered_by_hand": 1,
                "held": 1, "retries_exhausted": 1, "brakes": 1, "by_hand": 2}
    assert {name: n for name, n in w["now"].items() if n} == expected
    assert w["before"]["recovered"] == 3
    assert w["causes"] == [{"n": 7, "verdict": "silent", "rule": "silent-too-long"},
                           {"n": 1, "verdict": "overdue", "rule": "overdue-too-long"}]
    assert w["kinds"] == [{"n": 6, "kind": "crawl"}, {"n": 1, "kind": "scrape"}]
    assert [o["n"] for o in w["owners"]] == [3, 3]
    assert sorted(w["actions"], key=str) == [
        {"n": 1, "actor": "cli:anna", "event": "RELEASED"},
        {"n": 1, "actor": "cli:anna", "event": "REQUEUED"}]


def test_every_day_of_the_period_is_there_also_those_with_none(ledger, defib):
    for ago in (0, 0, 2):
        ledger.add("REQUEUED", ago * DAY + hours(0.1))
    w = watch_of(defib, ledger.db, "--since", "4d")
    wanted = {}
    for ago in (0, 0, 2):
        day = (ledger.now - ago * DAY - hours(0.1)).strftime("%Y-%m-%d")
        wanted[day] = wanted.get(day, 0) + 1
    days = {d["day"]: d["recovered"] for d in w["days"]}
    first = (ledger.now - 4 * DAY).date()
    assert list(days) == [str(first + i * DAY) for i in range((ledger.now.date() - first).days + 1)]
    assert {day: n for day, n in days.items() if n} == wanted


def test_time_to_recover_is_median_and_longest(ledger, defib):
    for i, silent in enumerate((100, 200, 300, 4000)):
        ledger.add("REQUEUED", hours(1), job=str(i), silent=silent)
    ledger.add("REQUEUED", hours(1), job="unknown")
    times = watch_of(defib, ledger.db)["time_to_recover"]
    assert times["n"] == 4
    assert times["median_s"] == pytest.approx(200, abs=0.01)
    assert times["longest_s"] == pytest.approx(4000, abs=0.01)


def test_false_positives_blame_the_recovery_before_a_late_completion_once(ledger, defib):
    ledger.add("REQUEUED", hours(9 * 24), job="1")
    ledger.add("REQUEUED", hours(8), job="1")
    ledger.add("LATE_COMPLETION", hours(7), job="1", verdict=None)
    ledger.add("LATE_COMPLETION", hours(6), job="1", verdict=None)
    ledger.add("REQUEUED", hours(5), job="2")
    w = watch_of(defib, ledger.db)
    assert (w["false_positives"], w["now"]["recovered"]) == (1, 2)
    assert w["now"]["late_completions"] == 2


def test_a_recovery_of_the_scan_and_the_hold_of_a_poisoned_job_are_told(ledger, defib):
    add_job(ledger.db, 1, "running", 120, attempts=0, owner="somebody-abcdef")
    add_job(ledger.db, 2, "running", 120, attempts=3)
    assert defib("scan", "--fix", config=config(ledger.db)).code == 1
    w = watch_of(defib, ledger.db)
    assert (w["now"]["requeued"], w["now"]["held"], w["waiting"]) == (1, 1, 1)
    assert [h["job"] for h in w["holds"]] == ["2"]
    assert "****abcdef" in [o["owner"] for o in w["owners"]]
    assert w["time_to_recover"]["median_s"] == pytest.approx(7200, abs=60)
    text = defib("report", config=config(ledger.db)).out
    assert "1 (1 requeued); none in the 7d before" in text
    assert "waiting for an operator" in text and "somebody-abcdef" not in text


def test_the_trend_is_said_in_words(lite_ledger, defib):
    for ago in (1, 2, 3, 25, 26):
        lite_ledger.add("REQUEUED", hours(ago))
    out = defib("report", "--since", "24h", config=config(lite_ledger.db)).out
    assert "50 % more than in the 1d before (2)" in out


def test_threshold_advice_comes_from_what_was_learnt(db, defib):
    make_jobs(db)
    time = "timestamptz" if db.engine == "postgres" else "text"
    db.sql(f"ALTER TABLE jobs ADD COLUMN ended {time}")
    more = "    stats: {started_at: beat, finished_at: ended}\n"
    for i in range(150):
        add_job(db, i, "done", 60)
    db.sql("UPDATE jobs SET ended = " + ("beat + interval '5 seconds'" if db.engine == "postgres"
           else "strftime('%Y-%m-%dT%H:%M:%fZ', beat, '+5 seconds')"))
    defib("init", db=db)
    assert defib("learn", config=config(db, more)).code == 0
    advice = report(defib, db, more=more)["watches"][0]["advice"]
    assert any("could be" in sentence for sentence in advice), advice


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("href", "src"), (name, value)

    def handle_data(self, data):
        self.words += data


def test_hostile_names_stay_names_in_html(lite_ledger, defib):
    lite_ledger.add("REQUEUED", hours(1), job=HOSTILE, kind=HOSTILE, owner=HOSTILE)
    out = defib("report", "--format", "html", config=config(lite_ledger.db)).out
    page = Page(out)
    assert "script" not in page.tags and "link" not in page.tags and "img" not in page.tags
    assert "<script>alert(1)</script>" in page.words
    assert "\x1b" not in out
    assert "prefers-color-scheme" in out and "@media print" in out


def test_hostile_names_stay_names_in_markdown(lite_ledger, defib):
    lite_ledger.add("REQUEUED", hours(1), job=HOSTILE, kind=HOSTILE)
    out = defib("report", "--format", "markdown", config=config(lite_ledger.db)).out
    assert "<" not in out and "\x1b" not in out
    line, = [s for s in out.splitlines() if s.startswith("- **kinds:**")]
    assert re.fullmatch(r"- \*\*kinds:\*\* `[^`]*`: 1", line), line


def test_hostile_names_do_not_reach_the_terminal(lite_ledger, defib):
    for at in (1, 2):
        lite_ledger.add("REQUEUED", hours(at), job=HOSTILE)
    out = defib("report", config=config(lite_ledger.db)).out
    assert "\x1b" not in out and "alert(1)" in out


def test_a_database_that_is_down_is_named_and_the_rest_is_reported(lite_ledger, defib):
    lite_ledger.add("REQUEUED", hours(1))
    text = config(lite_ledger.db).replace(
        "watches:", "  - name: gone\n    url: postgres://x@127.0.0.1:1/y\nwatches:")
    text += PAIRS + "    database: gone\n"
    ran = defib("report", "--json", config=text)
    assert ran.code == 6 and "gone" in ran.err
    assert [w["watch"] for w in ran.json["watches"]] == ["jobs"]
    assert [lost["database"] for lost in ran.json["not_reported"]] == ["gone"]
    assert "not reported" in defib("report", config=text).out


def test_all_databases_down_is_a_database_error(lite, defib):
    ran = defib("report", config=config(lite).replace(lite.url, "postgres://x@127.0.0.1:1/y"))
    assert (ran.code, ran.err.count("\n")) == (4, 1)


def test_without_a_ledger_it_says_so(db, defib):
    make_jobs(db)
    ran = defib("report", config=config(db))
    assert ran.code == 0 and "there is no ledger yet" in ran.out


def test_watches_by_name_and_by_option(lite_ledger, defib):
    make_pairs(lite_ledger.db)
    for args in (("pairs",), ("--watch", "pairs")):
        out = report(defib, lite_ledger.db, *args, more=PAIRS)
        assert [w["watch"] for w in out["watches"]] == ["pairs"]
    both = report(defib, lite_ledger.db, more=PAIRS)
    assert [w["watch"] for w in both["watches"]] == ["jobs", "pairs"]


@pytest.mark.parametrize("args, said", [
    (("--format", "htm"), 'did you mean "html"?'), (("--since", "soon"), "--since"),
    (("--since", "400d"), "366d"), (("--since", "1s"), "1m"), (("jbos",), 'did you mean "jobs"?'),
    (("--output", "/nowhere/at/all"), "cannot write")])
def test_bad_input_is_one_line(lite, defib, args, said):
    make_jobs(lite)
    ran = defib("report", *args, config=config(lite))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


def test_into_a_file_whole_or_not_at_all(lite, defib, tmp_path):
    make_jobs(lite)
    path = tmp_path / "report.html"
    ran = defib("report", "--format", "html", "--output", path, config=config(lite))
    assert (ran.code, ran.out) == (0, "")
    assert path.read_text().endswith("</html>\n")
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["report.html"]


@pytest.mark.proof
def test_a_million_entries_do_not_hurt(db, defib):
    """Every statement within its time-out of 5 s; the report in a few seconds."""
    make_jobs(db)
    defib("init", db=db)
    if db.engine == "postgres":
        for first in range(1, 1000000, 10000):
            db.sql("INSERT INTO defib.ledger (id, at, batch, watch, job, event, actor, verdict, "
                   "rule, evidence) SELECT i, now() - i * interval '0.5 seconds', 'b', 'jobs', "
                   "i %% 5000, 'REQUEUED', 'd', 'silent', 'r', jsonb_build_object('law', 'l', "
                   "'kind', i %% 7, 'owner', i %% 50, 'alive_at', to_char(now() at time zone "
                   "'UTC' - interval '30 days', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')) "
                   "FROM generate_series(%s, %s) i", first, first + 9999)
        db.sql("ANALYZE defib.ledger")
    else:
        db.sql("INSERT INTO defib_ledger (at, batch, watch, job, event, actor, verdict, rule, "
               "evidence) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
               "i < 1000000) SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (-i / 2) || "
               "' seconds'), 'b', 'jobs', i % 5000, 'REQUEUED', 'd', 'silent', 'r', "
               "json_object('law', 'l', 'kind', i % 7, 'owner', i % 50, 'alive_at', "
               "'2020-01-01T00:00:00.000Z') FROM n")
    out = report(defib, db)
    w = out["watches"][0]
    assert w["missing"] is None and w["now"]["recovered"] == pytest.approx(1000000, abs=2)
