# SPDX-License-Identifier: Apache-2.0
"""File systems that are full, or nearly."""

import contextlib
import subprocess

import pytest

@contextlib.contextmanager
def tiny_filesystem(path, size):
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@contextlib.contextmanager
def full_disk(folder):
    ballast = folder / "ballast"
    with contextlib.suppress(OSError):
        with open(ballast, "wb", buffering=0) as out:
            while True:
                out.write(b"x" * 4096)
    yield
    ballast.unlink()
