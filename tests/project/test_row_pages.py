# SPDX-License-Identifier: Apache-2.0
"""Rows are read in pages of 1,000: each such page has a test that goes beyond it."""

import re

from steps import ROOT

CHAOS = ROOT / "tests" / "chaos" / "test_pages.py"


def pages_of_the_source():
    """file:NAME of each #define of 1000 that is no time."""
    for path in (ROOT / "src").rglob("*.[ch]"):
        if path.stem.endswith("_test") or path.name.endswith("_test.h"):
            continue
        for name in re.findall(r"^#define (\w+) 1000\b", path.read_text(), re.M):
            if not name.endswith(("_MS", "_US")):
                yield f"{path.relative_to(ROOT / 'src')}:{name}"


def test_each_page_of_rows_is_in_the_table():
    found = set(pages_of_the_source())
    assert found == set(PAGES), found ^ set(PAGES)


def test_each_test_of_the_table_exists():
    chaos = re.findall(r"^def (test_\w+)", CHAOS.read_text(), re.M)
    for test in PAGES.values():
        assert not test.startswith("test_") or test in chaos or \
            list((ROOT / "tests" / "e2e").rglob(test)), test


# Every page of 1,000, and the test that goes beyond it. "shown": as many as a person asked for, or
# as many as are shown, with a word that there are more.
PAGES = {
    "http/api_read.c:COUNTED_MOST": "shown",
    "http/api_read.c:WORKERS_MOST": "shown",
    "http/api_read.c:JOBS_MOST": "shown",
    "http/api_history.c:PAGE_MOST": "shown",
    "http/api_history.c:DELIVERIES_MAX": "shown",
    "http/api_work.c:JOBS_MOST": "shown",
    "http/api_worker.c:JOBS_NOTED": "shown",
    "worker/engine.c:ENDS_MAX": "test_results_while_the_database_was_away",
    "worker/source_queue.c:PROMOTE_MAX": "test_delayed_jobs_that_become_due_at_once",
    "ledger/seen.h:SEEN_STEP": "a step of a write, not a page",
    "ledger/retention.h:RETENTION_STEP": "test_old_jobs_that_retention_removes",
    "recover/mistakes.h:LATE_JOBS": "shown",
    "recover/mistakes.h:NEAR_MISSES_MAX": "shown",
    "recover/waiting.c:WORKERS_MOST": "shown",
    "watch/waiting_sql.h:WAITING_ROWS": "test_unstarted.py",
    "recover/browse.c:PAGE_ROWS": "test_held_jobs_are_released_by_a_term",
    "recover/held.c:HELD_PAGE": "test_a_hold_that_is_over_behind_a_page_that_is_in_force",
    "recover/exits.c:PAGE_CLAIMS": "test_attach.py",
    "recover/carry.c:DUE_AT_ONCE": "test_a_retry_behind_a_page_that_is_refused",
    "cli/top/talk.c:TARGETS_MAX": "shown",
    "cli/cmd_background.c:LISTED_MAX": "shown",
    "cli/cmd_status.c:WORKERS_MAX": "shown",
    "cli/cmd_alert.c:MESSAGES_MAX": "shown",
    "cli/cmd_ledger.c:PAGE": "test_ledger_entries_that_are_read",
    "cli/cmd_enqueue.c:BULK_BATCH": "test_new_jobs_kept_while_the_database_was_away",
    "insight/story.h:STORY_ENTRIES_MAX": "shown",
    "recover/decide.c:BACKOFF_STEPS_MAX": "a bound of a loop, not a page",
    "daemon/background_acts.c:RESERVED": "numbers that are left out",
    "ledger/digest.h:DIGEST_IDS": "of a sum; digest_test has more",
    "watch/compile.c:MASKED_BYTES_MAX": "bytes of a value",
    "setup/doctor_plan.c:LOOK_LIMIT": "of a plan, not of rows",
    "setup/doctor_watch.c:OVERLAP_MOST": "shown",
    "life/life.c:WHOLE_A_WORKER": "a time",
    "store/sqlite.c:PROGRESS_OPS": "steps of a machine",
}
