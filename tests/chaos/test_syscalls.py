# SPDX-License-Identifier: Apache-2.0
"""Death at each system call of claim, beat, settle, recover, release and drain.

SIGKILL as the victim enters a call that others can notice; then nothing is lost, nothing is
settled twice and a job is run again once: chaos_checks.py, by what the jobs wrote themselves.
"""

import subprocess

import pytest

from deaths import LiteStage, PgStage, Scene
from harness.spools import records
from harness.waiting import eventually
from results import note

pytestmark = pytest.mark.proof

# Writes what chaos_job.c writes, and stays until it is ended.
STAYS = ('echo "start $DEFIB_JOB_ID $DEFIB_EPOCH $$ - $(date +%s%6N)" >>"$CHAOS_EFFECTS"; '
         'exec sleep 600')
LEAVES = """
echo "start $DEFIB_JOB_ID $DEFIB_EPOCH $$ - $(date +%s%6N)" >>"$CHAOS_EFFECTS"
if [ "$DEFIB_EPOCH" = 1 ]; then
    while [ "$(wc -l <"$CHAOS_EFFECTS")" -lt 3 ]; do sleep 0.01; done
    [ "$DEFIB_JOB_ID" != 1 ] || { touch leaving; kill -TERM "$PPID"; }
    exec sleep 600
fi
echo "end $DEFIB_JOB_ID $DEFIB_EPOCH $$ done $(date +%s%6N)" >>"$CHAOS_EFFECTS"
"""
SPOOLS = """
echo "start $DEFIB_JOB_ID $DEFIB_EPOCH $$ - $(date +%s%6N)" >>"$CHAOS_EFFECTS"
while [ ! -e "go.$DEFIB_JOB_ID" ]; do sleep 0.01; done
echo "{\\"epoch\\": $DEFIB_EPOCH}" >&3
echo "end $DEFIB_JOB_ID $DEFIB_EPOCH $$ done_result $(date +%s%6N)" >>"$CHAOS_EFFECTS"
"""


class Work(Scene):
    """Claim, start, beat, settle, leave: three jobs that end in three ways."""


class Recover(Scene):
    """Three jobs of a worker that was killed before."""

    runs_most = 3  # its own, the victim's, and the one after

    def set_up(self):
        assert self.put(3).returncode == 0
        with open(self.log, "wb") as log:
            first = subprocess.Popen(self.work_argv(job=["/bin/sh", "-c", STAYS]), env=self.env,
                                     cwd=self.folder, stdout=log, stderr=log)
        try:
            eventually(lambda: self.started() == 3)
        finally:
            first.kill()
            first.wait()


class Release(Scene):
    """A worker that is told to leave hands back what it has not finished."""

    def counts_from(self):
        return self.leaving

    def victim(self):
        return self.work_argv("--grace", "100ms")

    def job(self):
        return ["/bin/sh", "-c", LEAVES]


class Drain(Scene):
    """Three results in the spool of a worker that was killed while the database was away.

    They are results: whoever dies over them, no job is run again.
    """

    runs_most = 1

    def set_up(self):
        assert self.put(3).returncode == 0
        with open(self.log, "wb") as log:
            first = subprocess.Popen(self.work_argv(job=["/bin/sh", "-c", SPOOLS]), env=self.env,
                                     cwd=self.folder, stdout=log, stderr=log)
        try:
            eventually(lambda: self.started() == 3)
            self.stage.away()
            for job in (1, 2, 3):
                size = self.spooled()
                (self.folder / f"go.{job}").touch()
                eventually(lambda before=size: self.spooled() > before)
        finally:
            first.kill()
            first.wait()
            self.stage.back()

    def spooled(self):
        return records(self.spool)


SCENES = [Work, Recover, Release, Drain]


@pytest.fixture(params=["postgres", "sqlite"])
def stage(request, tmp_path):
    if request.param == "sqlite":
        own = LiteStage(tmp_path)
    else:
        own = PgStage(request.getfixturevalue("shared_server"))
    yield own
    own.close()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.lower())
def test_death_at_each_system_call(scene, stage, defib, tmp_path):
    played = scene(defib, stage, tmp_path)
    deaths = played.play()
    note(__file__, f"{scene.__name__.lower()} on {stage.db.engine}: killed at a system call, "
         "nothing is lost, settled twice or run again more than once", 0, deaths)
