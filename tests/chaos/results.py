# SPDX-License-Identifier: Apache-2.0
"""What a test of this folder has shown, for docs/tested.md: see proof_results.py."""

import pathlib

from harness import proof_results


def note(module, claim, figure, n):
    """A zero is of n trials, and has a bound; any other figure is what was measured."""
    command = f"/usr/bin/python3 -m pytest -m proof tests/chaos/{pathlib.Path(module).name}"
    said = str(figure)
    if said == "0" or said.startswith("0 of "):
        proof_results.record(claim, command, f"0 of {n:,}", n)
    else:
        counted = n == 1 or " of " in said
        proof_results.record(claim, command, said if counted else f"{said} ({n:,})")
