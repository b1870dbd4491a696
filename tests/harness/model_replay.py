# SPDX-License-Identifier: Apache-2.0
"""Replay what really happened to jobs against the model: tests/model/job.pml, replay.pml.

A History is what was written down about one job: each change of its row (a trigger of the
test's), how its workers began and ended, what the job's own runs wrote, and what the ledger says.
It is turned into steps, and Spin takes these through the statements of the model: which row may
follow which is said there and nowhere else. refusals() names each history that the model forbids.

    history = History(job=7)
    history.worker(at, ms, id, "alive")             registered, "left" or "dead" with a cause
    history.row(at, ms, was=…, became=…, …)         the row changed
    history.run(us, "start", epoch)                 a run wrote that it began or ended
    history.refused(epoch, owner)                   the ledger calls an end late
"""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness.program import ROOT
from harness.waiting import patience

MODEL = ROOT / "tests" / "model"
FILES = ("job.pml", "replay.pml", "replay_rules.pml")

# replay.pml has them by their places.
STEPS = ("enter", "leave", "declared", "claimed", "settled", "recovered", "cancel", "started",
         "ended", "refused_late", "is_final")
STATES = {"queued": 0, "scheduled": 0, "running": 1, "cancelling": 1, "done": 2, "held": 3}
FINAL = ("done", "failed", "timed_out", "cancelled", "rolled_back")
# What a worker is told by: the model's SILENT, LOCK and EXIT.
CAUSES = {"silent": 0, "session gone": 1, "exit seen": 2}
GRACE_MS = 250  # life/locks.h: a lock that is gone convicts after this time
AS_DONE, AS_RETRY, AS_RELEASED = range(3)
FIELDS = ("is", "of", "epoch", "as", "why", "state", "owner", "fresh", "seen", "last", "ran",
          "goes_on")
MOST = 250  # a byte of the model


@dataclasses.dataclass
class Step:
    us: int  # when, by the one clock that all have
    name: str
    said: str  # as a person reads it
    values: dict


def numbers(step, ids):
    """As the model reads it; workers are numbered as they come in this history."""
    row = {**dict.fromkeys(FIELDS, 0), **step.values, "is": STEPS.index(step.name)}
    for field in ("of", "owner"):
        row[field] = ids.setdefault(row[field], len(ids)) if row[field] else 0
    if max(row.values()) > MOST:
        raise ValueError(f"too long for the model: {step.said}")
    return [int(row[field]) for field in FIELDS]


class History:
    """One job. Rows are given in the order in which the database wrote them."""

    def __init__(self, job):
        self.job, self.rows, self.runs, self.late, self.owners = job, [], [], [], {}

    def worker(self, us, worker, state, cause=None, age_ms=0, lease_ms=0, seen_us=0):
        """`seen_us`: its process was there so long after it was declared dead; 0: it was not."""
        of = {"of": worker}
        if state == "alive":
            step = Step(us, "enter", f"worker {worker} registers", of)
        elif state == "left":
            step = Step(us, "leave", f"worker {worker} leaves", of)
        else:
            least_ms = lease_ms if cause == "silent" else GRACE_MS
            step = Step(us, "declared", f"worker {worker} is declared dead ({cause}), "
                        f"renewed {age_ms} ms ago, its process " +
                        (f"seen {seen_us / 1000:.1f} ms later" if seen_us else "gone"),
                        {**of, "why": CAUSES[cause], "fresh": age_ms < least_ms,
                         "seen": seen_us > 0})
        self.rows.append(step)

    def row(self, us, was, became, was_epoch, epoch, was_owner, owner, attempts=0, max_attempts=0,
            lost=False):
        """`lost`: the row says that its worker was, which recovery alone writes."""
        ran, runs = (state in ("running", "cancelling") for state in (was, became))
        same = (was_epoch, was_owner) == (epoch, owner)
        said = f"{was} epoch {was_epoch} of {was_owner} becomes {became} epoch {epoch} of {owner}"
        values = {"epoch": epoch, "owner": owner or 0, "of": was_owner or 0}
        if same and ran == runs and became not in FINAL and was not in FINAL:
            return  # as the model sees it nothing has changed: scheduled is due, or a cancel waits
        if runs:
            name, values["of"], values["state"] = "claimed", owner or 0, STATES["running"]
            self.owners.setdefault(epoch, owner)
        elif ran and lost:
            # A hold and a failure for good are one in the model: nobody tries again.
            over = became in FINAL or became == "held"
            name, values["state"] = "recovered", STATES["held" if over else "queued"]
            values["last"] = was == "cancelling" or attempts >= max_attempts
        elif ran:
            name, over = "settled", became in FINAL
            values["as"] = AS_DONE if over else AS_RETRY if became == "scheduled" else AS_RELEASED
            values["state"], values["ran"] = STATES["done" if over else "queued"], became == "done"
        else:
            name, values["state"] = "cancel", STATES["done" if became in FINAL else became]
        self.rows.append(Step(us, name, said, values))

    def run(self, us, what, epoch):
        self.runs.append((us, what, epoch))

    def refused(self, epoch, worker):
        self.late.append(Step(0, "refused_late", f"the ledger calls the end of epoch {epoch} by "
                              f"{worker} late", {"epoch": epoch, "of": worker}))

    def steps(self):
        """Rows in their order; between them, by the clock, what the runs wrote."""
        runs = sorted((Step(us, "started" if what == "start" else "ended", f"a run of epoch {epoch} "
                            f"{'begins' if what == 'start' else 'ends'}",
                            {"epoch": epoch, "of": self.owners.get(epoch, 0)})
                       for us, what, epoch in self.runs), key=lambda step: step.us)
        steps = []
        for row in self.rows:
            while runs and runs[0].us < row.us:
                steps.append(runs.pop(0))
            steps.append(row)
        steps += runs
        writes_until = {step.values["epoch"]: n for n, step in enumerate(steps)
                        if step.name == "ended"}
        for n, step in enumerate(steps):
            if step.name == "settled":
                step.values["goes_on"] = writes_until.get(step.values["epoch"], 0) > n
        return [*steps, *self.late, Step(0, "is_final", "the test is over", {})]


@dataclasses.dataclass
class Refusal:
    job: int
    rule: str
    steps: list  # as people read them, up to the one that is refused

    def __str__(self):
        return (f"job {self.job}: the model has {self.rule!r}, which does not hold after:\n  " +
                "\n  ".join(self.steps))


def header(histories):
    """history.h, and how many workers one of them has at most."""
    rows, starts, most = [], [0], 1
    for history in histories:
        ids = {0: 0}
        rows += [numbers(step, ids) for step in history.steps()]
        starts.append(len(rows))
        most = max(most, len(ids) - 1)
    members = ", ".join(FIELDS)
    return (f"struct step {{ unsigned char {members}; }};\n"
            "static const struct step steps[] = {\n" +
            "".join("{" + ",".join(map(str, row)) + "},\n" for row in rows) + "};\n"
            f"static const int histories[] = {{{', '.join(map(str, starts))}}};\n"
            f"#define NHISTORIES {len(histories)}\n"), most, len(rows)


def must(argv, folder):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=patience(), errors="replace")
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def refusals(histories):
    """What the model forbids: the first thing of each history."""
    if not histories:
        return []
    folder = pathlib.Path(tempfile.mkdtemp(prefix="defib-replay-"))
    try:
        text, ids, n = header(histories)
        (folder / "history.h").write_text(text)
        for name in FILES:
            shutil.copy(MODEL / name, folder)
        must(["spin", "-a", "-DREPLAY", f"-DIDS={max(4, ids)}", "job.pml"], folder)
        must(["gcc", "-w", "-O0", "-DSAFETY", "-DNOFAIR", "-DVECTORSZ=8192", "-o", "pan", "pan.c"],
             folder)
        said = must(["./pan", "-n", "-w20", f"-m{n + len(histories) + 1000}"], folder)
    finally:
        shutil.rmtree(folder)
    replayed = re.search(r"^replayed (\d+)$", said, re.M)
    if not replayed or int(replayed[1]) != len(histories) or "errors: 0" not in said:
        raise RuntimeError(f"not all of {len(histories)} histories were replayed:\n{said}")
    found = {}
    for who, at, rule in re.findall(r"^refused (\d+) (\d+) (.*)$", said, re.M):
        history = histories[int(who)]
        steps = [step.said for step in history.steps()[:int(at) + 1]]
        found.setdefault(int(who), Refusal(history.job, rule, steps))
    return [found[who] for who in sorted(found)]


def told(rows, workers, runs, late, recovered, seen_until, coarse_us=0):
    """Histories of all jobs of a run, and where ledger and rows do not agree.

    rows, workers, late, recovered as chaos_checks.py asks for them; runs: (us, what, job, epoch);
    seen_until: {incarnation: when its process was last there}. The database's clock may be
    coarse, and its times early by so much: what came before seems to come later.
    """
    ends, owned, steps = {}, {}, {}
    for at, us, worker, state, cause, age_ms, lease_ms, incarnation in workers:
        ends.setdefault(worker, []).append((at, "worker", (
            us, worker, state, cause, int(age_ms or 0), lease_ms,
            max(0, seen_until.get(incarnation, 0) - us - coarse_us))))
    for at, us, job, was, *more in rows:
        us += coarse_us if was in ("running", "cancelling") else 0
        steps.setdefault(job, []).append((at, "row", (us, was, *more)))
        owned.setdefault(job, set()).update(owner for owner in more[3:5] if owner)
    histories = {}
    for job, changes in steps.items():
        histories[job] = History(job)
        changes += [end for worker in owned[job] for end in ends.get(worker, [])]
        for _, what, known in sorted(changes):
            getattr(histories[job], what)(*known)
    for us, what, job, epoch in runs:
        histories.setdefault(job, History(job)).run(us, what, epoch)
    for job, epoch, actor in late:
        histories.setdefault(job, History(job)).refused(epoch, int(actor.partition(":")[2]))
    said = sorted(recovered)
    done = sorted((job, step.values["epoch"]) for job, history in histories.items()
                  for step in history.rows if step.name == "recovered")
    complaints = [] if said == done else [
        f"ledger and rows differ about recoveries of (job, epoch): "
        f"{sorted(set(said) ^ set(done))[:5] or 'one is told twice'}"]
    return list(histories.values()), complaints
