# SPDX-License-Identifier: Apache-2.0
"""Programs for the jobs of tests, compiled once per run: `await`, see await.c."""

import fcntl
import functools
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent


@functools.cache
def tools():
    """Their directory, for a PATH."""
    folder = pathlib.Path(os.environ.get("DEFIB_TEST_TMP", tempfile.gettempdir())) / "defib-tools"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes begin at once
        source, program = HERE / "await.c", folder / "await"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    return folder
