# SPDX-License-Identifier: Apache-2.0
"""OctoLab's emergency command (D): the oldest labs are torn down, or failed, by hand."""

import json

import pytest

from harness.example_systems import ledger
from harness.table_workers import TableWorkers
from harness.waiting import eventually

OWNER = "7c9e6679-7425-40de-944b-e07fc1abc123"
TEAR = 'echo "$DEFIB_JOB_ID" >>torn; echo "tearing down"'


@pytest.fixture
def octolab(db, defib, with_tables):
    own = TableWorkers("octolab", db, defib)
    yield own
    own.close()


def force(octolab, *args, run=TEAR, env=None):
    """The program to run stands last, so the configuration goes by the environment."""
    env = {**octolab.env, "DEFIB_CONFIG": str(octolab.config), **(env or {})}
    return octolab.defib("force", *args, "--", "/bin/sh", "-c", run, env=env)


def add_lab(octolab, minutes, status="ending"):
    octolab.insert("labs", owner_id=OWNER, status=status, updated_at=octolab.ago(minutes * 60))


def labs(octolab):
    """Ids, oldest first."""
    return [str(key) for key, in octolab.rows("SELECT id FROM labs ORDER BY updated_at")]


def states(octolab):
    return [status for status, in octolab.rows("SELECT status FROM labs ORDER BY updated_at")]


def everything(octolab):
    return octolab.rows("SELECT * FROM labs ORDER BY id")


@pytest.mark.covers("D7")
def test_force_runs_the_teardown_of_the_oldest_here_and_now(octolab):
    for minutes in (40, 30, 20, 5):
        add_lab(octolab, minutes)
    first, second, third, young = labs(octolab)
    ran = force(octolab, "labs", "--action", "force", "--older-than", "10m", "--max", "2", "--yes")
    assert ran.code == 0, ran.err
    assert octolab.lines("torn") == [first, second]
    assert states(octolab) == ["finished", "finished", "ending", "ending"]
    assert all(f"labs/{lab}  done       in " in ran.out for lab in (first, second)), ran.out
    assert third not in ran.out and young not in ran.out
    assert "main/labs: 2 done, 0 failed, 0 skipped" in ran.out
    assert "tearing down" in ran.err


@pytest.mark.covers("D7")
def test_force_works_where_the_worker_is_switched_off(octolab):
    add_lab(octolab, 20)
    ran = force(octolab, "--action", "force", "--yes", env={"TEARDOWN_WORKER_ENABLED": "false"})
    assert (ran.code, states(octolab)) == (0, ["finished"]), ran.err


@pytest.mark.covers("D7")
def test_a_teardown_that_fails_is_named_with_what_it_said_and_tried_once(octolab):
    add_lab(octolab, 30)
    add_lab(octolab, 20)
    first, _ = labs(octolab)
    script = (f'echo x >>tries; [ "$DEFIB_JOB_ID" = "{first}" ] || exit 0; '
              "echo no network >&2; exit 3")
    ran = force(octolab, "labs", "--action", "force", "--yes", run=script)
    assert ran.code == 6
    assert f"labs/{first}  failed     in " in ran.out and "no network" in ran.out
    assert states(octolab) == ["failed", "finished"]
    assert len(octolab.lines("tries")) == 2


@pytest.mark.covers("D7")
def test_a_job_that_stays_ready_after_its_failure_is_not_tried_again(octolab):
    add_lab(octolab, 30)
    octolab.change(("failed: status = 'failed', error = :error", "failed: error = :error"))
    ran = force(octolab, "labs", "--action", "force", "--yes", run="echo x >>tries; exit 1")
    assert (ran.code, octolab.lines("tries")) == (5, ["x"])


@pytest.mark.covers("D7")
def test_a_lab_that_a_living_worker_has_is_skipped_and_named(octolab):
    add_lab(octolab, 30)
    add_lab(octolab, 20)
    first, second = labs(octolab)
    octolab.work("labs", "--poll", "1h", run="touch up; await go",
                 env={"TEARDOWN_WORKER_BATCH_SIZE": "1"})
    eventually((octolab.dir / "up").exists)
    ran = force(octolab, "labs", "--action", "force", "--yes")
    assert ran.code == 6
    assert f"labs/{first}  skipped    a live worker has it" in ran.out
    assert ran.out.startswith("JOB ") and ran.out.count("OUTCOME") == 1
    assert octolab.lines("torn") == [second]
    (octolab.dir / "go").touch()
    octolab.until("SELECT count(*) FROM labs WHERE status = 'finished'", 2)


@pytest.mark.covers("D7")
@pytest.mark.parametrize("action", ["force", "fail"])
def test_a_dry_run_names_the_labs_and_changes_nothing(octolab, action):
    add_lab(octolab, 30)
    add_lab(octolab, 5)
    old, young = labs(octolab)
    before = everything(octolab)
    ran = octolab("force", "labs", "--action", action, "--dry-run")
    assert ran.code == 0, ran.err
    assert old in ran.out and young not in ran.out
    assert everything(octolab) == before and not octolab.lines("torn")


@pytest.mark.covers("D7")
def test_fail_writes_the_reason_and_the_ledger_says_who(octolab):
    add_lab(octolab, 30)
    add_lab(octolab, 20)
    ran = octolab("force", "labs", "--action", "fail", "--older-than", "25m", "--yes",
                  "--reason", "the host is gone")
    assert ran.code == 0, ran.err
    assert octolab.rows("SELECT status, error FROM labs ORDER BY updated_at") == [
        ("failed", "the host is gone"), ("ending", None)]
    (event, actor, reason), = octolab.rows(
        f"SELECT event, actor, reason FROM {ledger(octolab.db)}")
    assert (event, reason) == ("FAILED", "the host is gone") and actor.startswith("cli:")
    assert "defib undo " in ran.out


@pytest.mark.covers("D9")
def test_owner_ids_stay_masked(octolab):
    add_lab(octolab, 30)
    ran = octolab("force", "labs", "--action", "fail", "--yes")
    assert OWNER not in ran.out + ran.err


@pytest.mark.parametrize("action", ["force", "fail"])
def test_without_a_terminal_and_without_yes_nothing_is_done(octolab, action):
    add_lab(octolab, 30)
    before = everything(octolab)
    ran = octolab("force", "labs", "--action", action)
    assert ran.code == 5
    assert "--yes" in ran.err and "1 job of watch labs in database main" in ran.err
    assert everything(octolab) == before


def test_nothing_old_enough_is_said_and_is_no_error(octolab):
    add_lab(octolab, 5)
    ran = octolab("force", "labs", "--action", "force", "--yes")
    assert (ran.code, ran.out) == (0, "watch labs has no open job older than 10m: nothing to do\n")


def test_json_is_a_line_a_job(octolab):
    add_lab(octolab, 30)
    ran = force(octolab, "labs", "--action", "force", "--yes", "--json")
    line, = ran.out.splitlines()
    said = json.loads(line)
    assert (said["job"], said["outcome"]) == (f"labs/{labs(octolab)[0]}", "done")


@pytest.mark.parametrize("args, code, says", [
    (("labs",), 2, "--action force"),
    (("labs", "--action", "burn"), 2, 'no --action "burn"; there are force and fail'),
    (("labz", "--action", "fail"), 2, 'did you mean "labs"?'),
    (("labs", "--action", "fail", "--older-than", "soon"), 2, "--older-than"),
    (("labs", "--action", "fail", "--max", "0"), 2, "--max must be from 1"),
])
def test_bad_input_is_one_clear_line(octolab, args, code, says):
    ran = octolab("force", *args, "--yes")
    assert ran.code == code and says in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_a_watch_that_does_not_say_how_to_fail_says_what_to_add(octolab):
    octolab.change(("    fail: status = 'failed', error = :reason\n", ""))
    ran = octolab("force", "labs", "--action", "fail", "--yes")
    assert ran.code == 3
    assert "watch labs does not say how to fail" in ran.err and "fail: status" in ran.err
