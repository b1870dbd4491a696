# SPDX-License-Identifier: Apache-2.0
"""Chaos on a database whose rules were taken out: the model must forbid what happens then."""

import re
import signal

import pytest

from harness import databases
from harness.chaos_run import Chaos
from harness.chaos_run import chosen_seed, durable_server  # noqa: F401

pytestmark = pytest.mark.proof


class Broken(Chaos):
    """A function of defib's has these words no more."""

    function, words = None, ()

    def prepare(self):
        super().prepare()
        text = self.db.sql("SELECT pg_get_functiondef(%s::regproc)", self.function)[0][0]
        for word in self.words:
            assert word in text, f"{self.function} has no {word!r}"
            text = text.replace(word, "")
        self.db.sql(text)

    def plan(self):
        return [self.stop] * self.others


class NoEpoch(Broken):
    """A worker that was stopped goes on when others have just taken its jobs."""

    function = "defib.settle_refused"
    words = (" AND j.epoch = g.epoch", "AND j.owner IS NOT DISTINCT FROM worker")

    def stop(self):
        if self.wakes:
            return False  # one at a time: when most are silent nobody is declared dead
        for worker in self.workers:
            busy = self.sql("SELECT max(w.id) FROM defib.worker w JOIN defib.job j ON j.owner = w.id "
                            "WHERE w.name = %s AND w.state = 'alive'", worker.name)[0][0]
            if busy and worker.signal(signal.SIGSTOP):
                self.wakes.append((busy, worker, worker.process))
                return True
        return False

    def wake_stopped(self, everybody=False):
        """When a job that was taken from it runs again."""
        for one in list(self.wakes):
            stopped, worker, process = one
            again = self.sql("SELECT 1 FROM chaos_history h JOIN defib.job j ON j.id = h.job "
                             "WHERE h.was_owner = %s AND h.became = 'queued' "
                             "AND j.state = 'running' AND j.owner <> %s", stopped, stopped)
            gone = worker.process is not process
            if again or gone or everybody:
                self.wakes.remove(one)
            if (again or everybody) and not gone:
                worker.signal(signal.SIGCONT)


class BlindReaper(Broken):
    """Somebody gives jobs back without asking who has them."""

    function, words = "defib.turn", ()

    def tend(self):
        super().tend()
        if self.random.random() < 0.2:
            self.sql("UPDATE defib.job SET state = 'queued', owner = NULL, crashes = crashes + 1, "
                     "cause = 'lost' WHERE id = (SELECT min(id) FROM defib.job "
                     "WHERE state = 'running' AND claimed_at < now() - interval '50 ms')")


@pytest.mark.parametrize("kind,rules", [
    (NoEpoch, ("runner.phase == ENDED", "!runs_alive(0)")),
    (BlindReaper, ("db_state[job_owner] == DEAD",))])
def test_what_a_broken_database_does_is_forbidden(durable_server, defib, tmp_path,  # noqa: F811
                                                  kind, rules):
    db = databases.PgDatabase(durable_server)
    chaos = kind(defib.bin, db, tmp_path, chosen_seed(), jobs=300, kills=0, others=8,
                 server=durable_server, step_s=(0.3, 0.6), settle_s=60)
    with pytest.raises(AssertionError) as wrong:
        chaos.run()
    print(wrong.value)
    found = re.search(r"the model forbids (\d+) histories, the first: job \d+: the model has '(.*)'",
                      str(wrong.value))
    assert found and int(found[1]) > 0
    assert any(rule in found[2] for rule in rules), found[2]
