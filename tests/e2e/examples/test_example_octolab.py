# SPDX-License-Identifier: Apache-2.0
"""OctoLab (D): a watch that only reports, and owners that are not shown."""

import pytest

from harness.example_systems import Example

OWNER = "7c9e6679-7425-40de-944b-e07fc1abc123"


@pytest.fixture
def octolab(db, defib, with_tables):
    return Example("octolab", db, defib)


def add_lab(octolab, minutes, status="ending"):
    octolab.insert("labs", owner_id=OWNER, status=status, updated_at=octolab.ago(minutes * 60))


@pytest.mark.covers("D6")
def test_the_configuration_is_in_order_and_takes_the_environment_s_names(octolab):
    ran = octolab("config", "check")
    assert (ran.code, ran.err) == (0, "")
    shown = octolab("config", "show", "--json", env={
        "TEARDOWN_WORKER_ENABLED": "false", "TEARDOWN_WORKER_INTERVAL_SECONDS": "7",
        "TEARDOWN_WORKER_BATCH_SIZE": "4", "TEARDOWN_WORKER_STARTUP_TICK": "false"}).json
    work = {row["path"].split(".work.")[1]: row["value"]
            for row in shown if ".work." in row["path"]}
    wanted = {"enabled": "false", "poll": "7s", "batch": "4", "startup_tick": "false"}
    assert {key: work[key] for key in wanted} == wanted


@pytest.mark.covers("D10")
def test_a_lab_ending_for_more_than_ten_minutes_is_reported(octolab):
    add_lab(octolab, 9)
    assert octolab("scan").code == 0
    add_lab(octolab, 11)
    ran = octolab("scan")
    assert ran.code == 1
    assert "main/labs: 1 stuck of 2 running" in ran.out


def test_fix_changes_nothing_where_the_rule_is_to_report(octolab):
    add_lab(octolab, 60)
    before = octolab.db.sql("SELECT * FROM labs")
    ran = octolab("scan", "--fix", "--json")
    assert ran.code == 1
    assert (ran.json["found"], ran.json["recovered"]) == (1, 0)
    assert ran.json["watches"][0]["jobs"][0]["remedy"] == "report"
    assert octolab.db.sql("SELECT * FROM labs") == before


@pytest.mark.covers("D9")
@pytest.mark.parametrize("args", [("scan",), ("scan", "--json"), ("scan", "--fix", "--verbose"),
                                  ("explain", "labs"), ("explain", "labs", "--json")])
def test_owner_ids_are_masked_in_every_output(octolab, args):
    add_lab(octolab, 60)
    key = octolab.row("labs", ["id"]).id
    ran = octolab(*args, *([key] if args[0] == "explain" else []))
    assert OWNER not in ran.out + ran.err
    assert "****abc123" in ran.out


@pytest.mark.covers("D9")
def test_a_masked_column_stays_masked_as_the_owner_of_a_job(octolab):
    add_lab(octolab, 60)
    text = octolab.config.read_text().replace("    show: [owner_id]\n", "    owner: owner_id\n")
    for args in (("scan",), ("scan", "--json")):
        ran = octolab.defib(*args, config=text, env={"DATABASE_URL": octolab.db.url})
        assert OWNER not in ran.out + ran.err
        assert "****abc123" in ran.out
