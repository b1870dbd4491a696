# SPDX-License-Identifier: Apache-2.0
"""`defib list`: jobs by what is known of them, page by page, for people and for programs."""

import pytest

from harness.job_table import PAIRS, add_job, config, ids, json_lines, make_jobs, make_pairs
from harness.example_systems import Example

STATES = ("queued", "failed", "running")


@pytest.fixture
def jobs(db):
    """Twelve jobs, older by ten minutes each; two of them never beat."""
    make_jobs(db)
    for i in range(1, 13):
        add_job(db, i, STATES[i % 3], None if i in (5, 8) else i * 10,
                kind="crawl" if i % 2 else "scrape", attempts=i % 4)
    return db


def listed(defib, db, *args, more="", **options):
    return ids(defib("list", "--ids", *args, config=config(db, more), **options))


def numbers(names):
    return [int(name.partition("/")[2]) for name in names]


def test_a_table_with_what_a_person_wants_to_know(jobs, defib):
    ran = defib("list", config=config(jobs))
    lines = ran.out.splitlines()
    assert ran.code == 0 and ran.err == ""
    assert lines[0].split() == ["JOB", "STATE", "KIND", "AGE", "VERDICT", "OWNER", "ATTEMPTS",
                                "title"]
    assert lines[-1] == "12 shown"
    eleven, = [line for line in lines if line.startswith("jobs/11 ")]
    for said in ("running", "crawl", "1h 50m", "silent 1h 50m (limit 1h)", "3 of 3", "title 11"):
        assert said in eleven


def test_columns_stand_below_their_titles(jobs, defib):
    lines = defib("list", config=config(jobs)).out.splitlines()
    at = lines[0].index("title")
    assert all(line[at:].startswith("title") for line in lines[1:-1])


def test_a_masked_owner_is_masked_for_people_and_programs(jobs, defib):
    for ran in (defib("list", config=config(jobs)), defib("list", "--json", config=config(jobs))):
        assert "worker-number-3" not in ran.out and "****mber-3" in ran.out


@pytest.mark.parametrize("terms,found", [
    (["state=failed"], [1, 4, 7, 10]),
    (["state!=failed", "kind=scrape"], [2, 6, 8, 12]),
    (["running"], [11, 2, 5, 8]),
    (["stuck"], [11]),
    (["verdict=silent"], [11]),
    (["verdict!=silent"], []),
    (["verdict=dead"], []),
    (["age>75m"], [9, 10, 11, 12]),
    (["age>15m", "age<45m"], [2, 3, 4]),
    (["title=title 7"], [7]),
    (["text~TITLE 1"], [1, 10, 11, 12]),
    (["any~TITLE 1"], [1, 10, 11, 12]),
    (["any~number-12"], [12]),
    (["owner=worker-number-9"], [9]),
    (["owner~NUMBER-1", "state~UEU"], [12]),
    (["held"], []),
    (["recovered"], []),
])
def test_terms_choose_jobs_and_all_must_hold(jobs, defib, terms, found):
    where = [word for term in terms for word in ("--where", term)]
    assert numbers(listed(defib, jobs, *where)) == found


@pytest.mark.covers("C5")
def test_a_status_is_the_state_as_the_table_has_it(jobs, defib):
    assert numbers(listed(defib, jobs, "--status", "failed")) == [1, 4, 7, 10]
    assert numbers(listed(defib, jobs, "--status", "failed", "--where", "kind=scrape")) == [4, 10]
    assert listed(defib, jobs, "--status", "x' OR '1'='1") == []
    assert listed(defib, jobs, "--status", "failed=") == []


@pytest.mark.parametrize("value", ["'", "x' OR '1'='1", "%", "_", "$1", "?1", ":reason", "\\"])
def test_a_value_is_never_sql(jobs, defib, value):
    assert listed(defib, jobs, "--where", f"title={value}") == []
    assert listed(defib, jobs, "--where", f"text~{value}") == []


@pytest.mark.parametrize("term,says", [
    ("statt=x", 'did you mean "state"?'),
    ("titel=x", 'did you mean "title"?'),
    ("verdict=silnt", 'did you mean "silent"?'),
    ("age>soon", "a duration such as"),
    ("stuck=1", "write stuck"),
    ("1=1", "has no"),
])
def test_a_term_that_nobody_knows_is_one_line(jobs, defib, term, says):
    ran = defib("list", "--where", term, config=config(jobs))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_nothing_that_matches_is_no_failure(jobs, defib):
    ran = defib("list", "--where", "state=nowhere", config=config(jobs))
    assert (ran.code, ran.out, ran.err) == (0, "no jobs match\n", "")


@pytest.mark.parametrize("order,first", [
    ((), [1, 2, 3]),
    (("--desc",), [12, 11, 10]),
    (("--sort", "age"), [12, 11, 10]),
    (("--sort", "age", "--desc"), [1, 2, 3]),
    (("--sort", "state"), [1, 4, 7]),
])
def test_order(jobs, defib, order, first):
    assert numbers(listed(defib, jobs, *order))[:3] == first


@pytest.mark.parametrize("order", [(), ("--desc",), ("--sort", "age"), ("--sort", "age", "--desc"),
                                   ("--sort", "state"), ("--sort", "state", "--desc")])
def test_pages_together_are_the_whole_list(jobs, defib, order):
    whole = listed(defib, jobs, *order)
    assert len(whole) == 12
    pages, after = [], ()
    for _ in range(4):
        rows = json_lines(defib("list", "--json", "--limit", "3", *order, *after,
                                config=config(jobs)))
        pages += [row["job"] for row in rows]
        after = ("--after", rows[-1]["cursor"])
    assert pages == whole
    assert json_lines(defib("list", "--json", *order, *after, config=config(jobs))) == []


def test_a_page_goes_on_where_it_ended_though_rows_before_it_are_gone(jobs, defib):
    rows = json_lines(defib("list", "--json", "--limit", "4", config=config(jobs)))
    jobs.sql("DELETE FROM jobs WHERE id <= 4")
    assert numbers(listed(defib, jobs, "--after", rows[-1]["cursor"])) == list(range(5, 13))


def test_a_page_says_how_the_next_one_is_asked_for(jobs, defib):
    ran = defib("list", "--limit", "5", config=config(jobs))
    last = ran.out.splitlines()[-1]
    assert last.startswith("5 shown; next page: --after ")
    assert numbers(listed(defib, jobs, "--after", last.split()[-1])) == list(range(6, 13))


@pytest.mark.parametrize("args,says", [
    (("--after", "nonsense"), "is not a cursor"),
    (("--sort", "size"), 'there is no order "size"; there are key, age and state'),
    (("--limit", "0"), "at least 1"),
    (("--limit", "x"), "whole number"),
    (("--watch", "jbos"), 'did you mean "jobs"?'),
])
def test_bad_input_is_one_line(jobs, defib, args, says):
    ran = defib("list", *args, config=config(jobs))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_a_cursor_of_another_order_is_refused(jobs, defib):
    rows = json_lines(defib("list", "--json", "--limit", "1", config=config(jobs)))
    ran = defib("list", "--sort", "age", "--after", rows[0]["cursor"], config=config(jobs))
    assert ran.code == 2 and "another order" in ran.err


def test_several_watches_are_one_list_with_pages_across_them(jobs, defib):
    make_pairs(jobs)
    whole = listed(defib, jobs, more=PAIRS)
    assert whole[11:] == ["jobs/12", 'pairs/["x\\"y","1"]', 'pairs/["z","2"]']
    rows = json_lines(defib("list", "--json", "--limit", "13", config=config(jobs, PAIRS)))
    rest = listed(defib, jobs, "--after", rows[-1]["cursor"], more=PAIRS)
    assert [row["job"] for row in rows] + rest == whole


def test_a_watch_that_does_not_know_a_term_has_no_such_jobs(jobs, defib):
    make_pairs(jobs)
    assert listed(defib, jobs, "--where", "kind=crawl", "--where", "stuck", more=PAIRS) == [
        "jobs/11"]
    assert listed(defib, jobs, "--where", "stuck", more=PAIRS) == [
        "jobs/11", 'pairs/["x\\"y","1"]']


def test_states_have_their_names_and_are_found_by_them(jobs, defib):
    make_pairs(jobs)
    for state in ("WORKING", "working", "6"):
        assert listed(defib, jobs, "--where", f"state={state}", more=PAIRS) == [
            'pairs/["x\\"y","1"]']
    assert "WORKING (6)" in defib("list", "--watch", "pairs", config=config(jobs, PAIRS)).out


def test_jobs_by_name_and_from_stdin(jobs, defib, tmp_path):
    make_pairs(jobs)
    assert listed(defib, jobs, "3", "--watch", "jobs", more=PAIRS) == ["jobs/3"]
    assert listed(defib, jobs, "jobs/3", "jobs/3", 'pairs/["z", 2]', "jobs/99", more=PAIRS) == [
        "jobs/3", 'pairs/["z","2"]']
    path = tmp_path / "ids"
    path.write_text("jobs/4\n\n  jobs/5  \r\njobs/4\n")
    with open(path) as lines:
        assert listed(defib, jobs, "-", more=PAIRS, stdin=lines) == ["jobs/4", "jobs/5"]


def test_an_empty_stdin_names_no_job_at_all(jobs, defib):
    assert listed(defib, jobs, "-") == []


def test_what_list_prints_is_what_the_next_command_takes(jobs, defib, tmp_path):
    path = tmp_path / "ids"
    path.write_text(defib("list", "--ids", "--where", "stuck", config=config(jobs)).out)
    with open(path) as lines:
        ran = defib("requeue", "-", "--yes", config=config(jobs), stdin=lines)
    assert ran.code == 0, ran.err
    assert jobs.sql("SELECT state FROM jobs WHERE id = 11") == [("queued",)]


def test_a_name_without_its_watch_is_told(jobs, defib):
    make_pairs(jobs)
    ran = defib("list", "3", config=config(jobs, PAIRS))
    assert ran.code == 2 and "write WATCH/3, or give --watch NAME" in ran.err
    ran = defib("list", "jbos/3", config=config(jobs, PAIRS))
    assert ran.code == 2 and 'did you mean "jobs"?' in ran.err


def test_held_and_recovered_jobs_are_found_after_a_fix(jobs, defib):
    add_job(jobs, 20, minutes=120, attempts=0)
    assert defib("scan", "--fix", config=config(jobs)).code == 1
    assert listed(defib, jobs, "--where", "recovered") == ["jobs/20"]
    assert listed(defib, jobs, "--where", "held") == ["jobs/11"]
    assert "held: attempts" in defib("list", "--where", "held", config=config(jobs)).out


def test_a_hold_ends_in_the_list_when_the_job_beats_again(jobs, defib):
    defib("scan", "--fix", config=config(jobs))
    assert listed(defib, jobs, "--where", "held") == ["jobs/11"]
    jobs.sql("UPDATE jobs SET owner = 'another' WHERE id = 11")
    assert listed(defib, jobs, "--where", "held") == []


def test_control_characters_do_not_reach_the_terminal(jobs, defib):
    add_job(jobs, 30, "queued", 1, title="a\x1b[31mb")
    out = defib("list", "jobs/30", config=config(jobs)).out
    assert "\x1b" not in out and "a?[31mb" in out


def test_json_has_every_fact_of_a_job(jobs, defib):
    row, = json_lines(defib("list", "jobs/11", "--json", config=config(jobs)))
    assert row["age_s"] == pytest.approx(6600, abs=60)
    assert row["measured_s"] == pytest.approx(6600, abs=60)
    wanted = {"job": "jobs/11", "database": "main", "watch": "jobs", "key": "11",
              "state": "running", "state_name": None, "kind": "crawl", "running": True,
              "verdict": "silent", "limit_s": 3600, "attempts": 3, "max_attempts": 3,
              "held": None, "retry_at": None, "show": {"title": "title 11"}}
    assert {key: row[key] for key in wanted} == wanted


def test_a_watch_on_the_command_line_is_listed_too(jobs, defib):
    ran = defib("list", "--ids", "--table", "jobs", "--key", "id", "--running", "state = 'running'",
                "--alive-at", "beat", "--stuck-after", "1h", "--where", "stuck", db=jobs)
    assert ids(ran) == ["jobs/11"]


def test_a_database_that_is_down_does_not_hide_the_others(jobs, defib):
    text = config(jobs).replace("watches:", "  - name: gone\n    url: "
                                "postgres://x@127.0.0.1:1/y?connect_timeout=2\nwatches:")
    text += PAIRS + "    database: gone\n"
    ran = defib("list", "--ids", config=text)
    assert ran.code == 6 and len(ran.out.split()) == 12 and "gone" in ran.err


def test_the_built_in_queue_is_a_watch_named_queue(queue, defib):
    first = queue.enqueue('{"to": "alice"}', queue="mails", kind="send")
    second = queue.enqueue('{"to": "bob"}', queue="mails", kind="send")
    out = defib("list", db=queue.db).out
    assert f"queue/{first}" in out and "mails" in out and "queued" in out
    found = defib("list", "--ids", "--where", "text~BOB", "--where", "queue=mails", db=queue.db)
    assert ids(found) == [f"queue/{second}"]
    assert ids(defib("list", "--ids", "--where", "age>1h", db=queue.db)) == []


def test_without_its_tables_the_queue_says_how_to_make_them(db, defib):
    db.sql("CREATE TABLE other (x integer)")
    ran = defib("list", db=db)
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert "defib init" in ran.err


@pytest.mark.covers("C5")
def test_crashed_workflows_are_listed_with_their_pending_retry(db, defib):
    ruvon = Example("ruvon", db, defib)
    for key in ("550e8400-e29b-41d4-a716-446655440001", "550e8400-e29b-41d4-a716-446655440002"):
        ruvon.insert("workflow_executions", id=key, workflow_type="Order", status="PENDING_ASYNC",
                     current_step="Process_Payment", metadata="{}")
    ruvon.insert("workflow_heartbeats", workflow_id="550e8400-e29b-41d4-a716-446655440001",
                 worker_id="celery@worker1", last_heartbeat=ruvon.ago(600), current_step="x")
    assert ruvon("scan", "--fix").code == 0
    ran = ruvon("list", "--status", "FAILED_WORKER_CRASH")
    assert ran.code == 0, ran.err
    assert "workflows/550e8400-e29b-41d4-a716-446655440001" in ran.out
    assert "446655440002" not in ran.out
    assert "retry due in" in ran.out and "Process_Payment" in ran.out


@pytest.mark.covers("E4", "E7")
def test_documents_that_were_recovered_are_found(db, defib, tmp_path):
    ocr = Example("ocr", db, defib)
    for key, minutes in (("stuck-1", 15), ("fresh-1", 1)):
        ocr.insert("extraction_queue", id=key, status_id=6, document_number="12345678",
                   ocr_worker_id="ocr-monitor-1", ocr_started_at=ocr.ago(minutes * 60),
                   ocr_attempts=1)
    env = {"STAGING_DATABASE_URL": f"sqlite:{tmp_path}/none.db"}
    stuck = ocr("list", "--watch", "ocr", "--where", "stuck", env=env).out
    for said in ("ocr/stuck-1", "OCR_PROCESSING (6)", "ocr-monitor-1", "1 of 3", "12345678"):
        assert said in stuck
    assert ocr("scan", "--fix", "--db", "production", env=env).code == 0
    found = ocr("list", "--watch", "ocr", "--where", "recovered", "--where", "state=COMPLETE",
                env=env)
    assert "ocr/stuck-1" in found.out and "fresh-1" not in found.out


# ---- a pause

PAUSED = "recovery of jobs is paused by cli:"


def test_a_list_of_a_paused_watch_says_so(jobs, defib):
    assert PAUSED not in defib("list", config=config(jobs)).out
    ran = defib("pause", "jobs", "--reason", "a move\x1b[31m", config=config(jobs))
    assert ran.code == 0, ran.err
    line, = [one for one in defib("list", config=config(jobs)).out.splitlines() if PAUSED in one]
    assert "until it is cleared, because: a move" in line and "\x1b" not in line
    assert defib("resume", "jobs", config=config(jobs)).code == 0
    assert PAUSED not in defib("list", config=config(jobs)).out


@pytest.mark.parametrize("form", ["--ids", "--json"])
def test_a_pause_is_not_told_to_programs(jobs, defib, form):
    assert defib("pause", "jobs", config=config(jobs)).code == 0
    ran = defib("list", form, config=config(jobs))
    assert ran.code == 0 and "paused" not in ran.out
