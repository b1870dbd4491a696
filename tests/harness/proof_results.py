# SPDX-License-Identifier: Apache-2.0
"""What a run has shown, kept for docs/tested.md: a claim, its command, its figure.

A test that proves a claim calls record(); scripts/project/tested makes the page of what was recorded.
The folder is named by DEFIB_PROOF_RESULTS; without it nothing is kept, so that a single run of a
test leaves no file. Each process has its own file there, which holds a list of

    {"claim": ..., "command": ..., "figure": ..., "n": ..., "at": ..., "commit": ...}

n is the number of trials where the figure is a zero ("0 of n"): the page adds the bound. When it was
recorded, and of which commit it is, is added here.
"""

import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = "DEFIB_PROOF_RESULTS"


def commit():
    """None where the source is no clone."""
    said = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    return said.stdout.strip() or None


def record(claim, command, figure, n=None):
    """Keep one result. The same claim said again replaces what was said before."""
    for name, said in (("claim", claim), ("command", command), ("figure", figure)):
        if not isinstance(said, str) or not said.strip() or "\n" in said:
            raise ValueError(f"a result needs a {name} of one line, not {said!r}")
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ValueError(f"n is a number of trials, not {n!r}")
    if not os.environ.get(FOLDER):
        return
    folder = pathlib.Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{os.getpid()}.json"
    kept = json.loads(file.read_text()) if file.exists() else []
    kept = [one for one in kept if one["claim"] != claim]
    kept.append({"claim": claim, "command": command, "figure": figure, "n": n,
                 "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit()})
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(kept, indent=1) + "\n")
    unfinished.replace(file)
