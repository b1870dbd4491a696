# SPDX-License-Identifier: Apache-2.0
"""What a proof showed, for docs/tested.md: a JSON list a module in $DEFIB_PROOF_RESULTS."""

import fcntl
import json
import os
import pathlib


def note(module, claim, figure, n):
    """Add one claim of a test module; nothing where nobody collects them."""
    folder = os.environ.get("DEFIB_PROOF_RESULTS")
    if not folder:
        return
    name = pathlib.Path(module).stem
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(folder) / f"chaos_{name}.json"
    command = f"scripts/check proof (tests/chaos/{name}.py)"
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests of a module may run in several processes
        file.seek(0)
        rows = json.loads(file.read() or "[]")
        rows = [row for row in rows if row["claim"] != claim]
        rows.append({"claim": claim, "command": command, "figure": figure, "n": n})
        file.truncate(0)
        file.write(json.dumps(rows, indent=1) + "\n")
