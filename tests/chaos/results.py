# SPDX-License-Identifier: Apache-2.0
"""What a test of this folder has shown, for docs/tested.md: see proof_results.py."""

import pathlib

import proof_results


def note(module, claim, figure, n):
    """A zero is of n trials, and has a bound; any other figure is what was measured."""
    command = f"/usr/bin/python3 -m pytest -m proof tests/chaos/{pathlib.Path(module).name}"
    if figure == 0:
        proof_results.record(claim, command, f"0 of {n:,}", n)
    else:
        proof_results.record(claim, command, f"{figure} ({n:,})" if n > 1 else str(figure))
