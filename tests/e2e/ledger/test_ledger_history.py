# SPDX-License-Identifier: Apache-2.0
"""Histories that the model allows, and forged ones that it must refuse."""

import pytest

from harness import model_replay

LEASE_MS = 1500


class Forged:
    """A job, told as it goes; a millisecond between what happens."""

    def __init__(self, *workers):
        self.history, self.us, self.now = model_replay.History(1), 0, ("queued", 0, None)
        for worker in workers:
            self.history.worker(self.tick(), worker, "alive")

    def tick(self):
        self.us += 1000
        return self.us

    def becomes(self, state, epoch, owner=None, **more):
        (was, was_epoch, was_owner), self.now = self.now, (state, epoch, owner)
        self.history.row(self.tick(), was, state, was_epoch, epoch, was_owner, owner,
                         **{"attempts": 1, "max_attempts": 5, **more})
        return self

    def runs(self, epoch, *what):
        for one in what or ("start", "end"):
            self.history.run(self.tick(), one, epoch)
        return self

    def dies(self, worker, cause="exit seen", **more):
        self.history.worker(self.tick(), worker, "dead", cause, lease_ms=LEASE_MS, **more)
        return self

    def leaves(self, worker):
        self.history.worker(self.tick(), worker, "left")
        return self

    def late(self, epoch, worker):
        self.history.refused(epoch, worker)
        return self


def lost(cause="exit seen", **more):
    """Epoch 1 is of worker 8, which dies; 9 is to take it."""
    return (Forged(8, 9).becomes("running", 1, 8).runs(1, "start").dies(8, cause, **more)
            .becomes("queued", 1, lost=True))


def claimed(*workers):
    return Forged(*(workers or (8,))).becomes("running", 1, 8)


def done():
    return claimed(8, 9).runs(1).becomes("done", 1)


def endless():
    """Its attempts are used up, and it is tried again."""
    forged = lost()
    forged.history.rows[-1].values["last"] = True
    return forged


HAPPENS = {
    "done": done(),
    "lost and found": lost().becomes("running", 2, 9).runs(2).becomes("done", 2),
    "silent for a lease": lost("silent", age_ms=LEASE_MS).becomes("running", 2, 9).runs(2)
    .becomes("done", 2),
    "the run of one that was declared dead goes on, and its end is refused":
    lost("session gone", age_ms=900).becomes("running", 2, 9).runs(1, "end").runs(2)
    .becomes("done", 2).late(1, 8),
    "a retry after a wait": claimed().runs(1).becomes("scheduled", 1).becomes("queued", 1)
    .becomes("running", 2, 8).runs(2).becomes("failed", 2),
    "a stray is given back": claimed().becomes("queued", 1).becomes("running", 2, 8).runs(2)
    .becomes("done", 2),
    "a run that was stopped": claimed().runs(1, "start").becomes("queued", 1)
    .becomes("running", 2, 8).runs(2).becomes("done", 2),
    "cancelled before a claim": Forged(8).becomes("cancelled", 0),
    "cancelled while it runs": claimed().becomes("cancelling", 1, 8).becomes("cancelled", 1),
    "its worker left": claimed(8, 9).leaves(8).becomes("queued", 1, lost=True)
    .becomes("running", 2, 9).runs(2).becomes("done", 2),
    "nothing is left to try": claimed().dies(8).becomes("failed", 1, lost=True, max_attempts=1),
}

# What is forged: which history, and the rule that refuses it.
FORGED = {
    "settled twice": (done().becomes("failed", 1), "job == QUEUED"),
    "run and settled again": (done().becomes("running", 2, 9).runs(2).becomes("done", 2),
                              "h_got == h_epoch"),
    "an epoch falls": (lost().becomes("running", 2, 9).runs(2, "start").becomes("running", 1, 8),
                       "h_got == h_epoch"),
    "an epoch stays": (lost().becomes("running", 1, 9), "h_got == h_epoch"),
    "an epoch jumps": (Forged(8).becomes("running", 2, 8), "h_got == h_epoch"),
    "an owner changes": (claimed(8, 9).becomes("running", 1, 9), "h_got == h_epoch"),
    "requeued before death was declared":
    (claimed(8, 9).becomes("queued", 1, lost=True).dies(8),
     "db_state[job_owner] == DEAD || REQUEUES_FIRST"),
    # Epoch 1 ends late, and with that the row of epoch 2 becomes done.
    "a settlement with an old epoch was taken":
    (lost().becomes("running", 2, 9).runs(2, "start").runs(1, "end").becomes("done", 2)
     .runs(2, "end"), "!h_ran || (in_hand && runner.phase == ENDED)"),
    "claimed while a living worker runs it":
    (claimed(8, 9).runs(1, "start").becomes("queued", 1).becomes("running", 2, 9).runs(1, "end"),
     "!runs_alive(0) && !runs_alive(1)"),
    "a run begins after its claim was given back":
    (claimed(8, 9).becomes("queued", 1).runs(1), "is_claim(x, h_epoch) || db_state[x] != ALIVE"),
    "declared silent within its lease": (lost("silent", age_ms=LEASE_MS - 1),
                                         "db_state[x] == DEAD"),
    "declared dead by its session, and heard since": (lost("session gone", age_ms=100),
                                                      "db_state[x] == DEAD"),
    "its exit was seen, and it is there": (lost(seen_us=1), "re_cause != EXIT || is_nobodys(x)"),
    "declared dead twice": (lost().dies(8), "db_state[x] == ALIVE"),
    "claimed by nobody that is registered": (Forged().becomes("running", 1, 8),
                                             "db_state[x] != UNKNOWN"),
    "a run that nobody claimed": (Forged(8).runs(1),
                                  "db_state[x] != UNKNOWN && h_epoch <= job_epoch"),
    "given up while there are attempts": (claimed().dies(8).becomes("failed", 1, lost=True), "job =="),
    "tried without attempts": (endless(), "job =="),
    "an end that was taken is called late": (done().late(1, 8), "true_done != h_epoch"),
    "left open": (lost(), "is_final"),
    "left with a worker": (claimed(), "is_final"),
}


@pytest.fixture(scope="module")
def said():
    """What the model says of all of them, in one search: {name: refusal or None}"""
    named = {**HAPPENS, **{name: forged for name, (forged, _) in FORGED.items()}}
    for name, forged in named.items():
        forged.history.job = name
    refused = {one.job: one for one in model_replay.refusals(
        [forged.history for forged in named.values()])}
    return {name: refused.get(name) for name in named}


@pytest.mark.parametrize("name", HAPPENS)
def test_what_happens_is_allowed(said, name):
    assert said[name] is None, str(said[name])


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_is_refused(said, name):
    assert said[name], "the model allows it"
    assert said[name].rule.startswith(FORGED[name][1]), str(said[name])


def test_a_refusal_tells_the_whole_history(said):
    text = str(said["left open"])
    assert "job left open: the model has 'is_final', which does not hold after:" in text
    assert "\n  worker 8 is declared dead (exit seen)" in text
    assert text.endswith("the test is over")


def told(coarse_us, seen_us):
    """One job whose worker is declared dead at 5,000 µs; its process was there at `seen_us`."""
    rows = [(2, 2000, 1, "queued", "running", 0, 1, None, 8, 1, 5, False),
            (4, 6000, 1, "running", "queued", 1, 1, 8, None, 1, 5, True),
            (6, 8000, 1, "queued", "running", 1, 2, None, 9, 2, 5, False),
            (7, 9000, 1, "running", "done", 2, 2, 9, None, 2, 5, False)]
    workers = [(1, 1000, 8, "alive", None, 0, LEASE_MS, "a"),
               (3, 5000, 8, "dead", "exit seen", 10, LEASE_MS, "a"),
               (5, 7000, 9, "alive", None, 0, LEASE_MS, "b")]
    # The end of the run is behind its settlement, by as little as a coarse clock hides.
    runs = [(2500, "start", 1, 1), (8500, "start", 1, 2), (9900, "end", 1, 2)]
    histories, complaints = model_replay.told(rows, workers, runs, [], [(1, 1)],
                                                {"a": seen_us}, coarse_us)
    assert not complaints
    return [one.rule for one in model_replay.refusals(histories)]


def test_a_run_is_told_by_its_rows_its_workers_and_its_file():
    assert told(coarse_us=1000, seen_us=4000) == []
    assert told(coarse_us=1000, seen_us=5900) == []


def test_a_clock_that_is_not_coarse_excuses_nothing():
    assert "phase == ENDED" in told(coarse_us=0, seen_us=4000)[0]
    assert told(coarse_us=1000, seen_us=6100) == ["re_cause != EXIT || is_nobodys(x)"]


def test_ledger_and_rows_must_tell_of_the_same_recoveries():
    row = (1, 1000, 1, "running", "queued", 1, 1, 8, None, 1, 5, True)
    for said in ([], [(1, 2)], [(1, 1), (1, 1)], [(2, 1)]):
        assert model_replay.told([row], [], [], [], said, {})[1], said
    assert not model_replay.told([row], [], [], [], [(1, 1)], {})[1]


def test_no_history_is_no_search():
    assert model_replay.refusals([]) == []
