# SPDX-License-Identifier: Apache-2.0
"""A small memory cgroup for processes that the kernel should kill, or a skip with the reason."""

import contextlib
import os
import pathlib

import pytest

from harness.waiting import eventually

MEMORY_CGROUP = pathlib.Path("/sys/fs/cgroup/memory")


@contextlib.contextmanager
def small_memory(megabytes=64):
    folder = MEMORY_CGROUP / f"defib-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as why:
        pytest.skip(f"no memory cgroup can be made here: {why}")
    try:
        (folder / "memory.limit_in_bytes").write_text(str(megabytes << 20))
        swap = folder / "memory.memsw.limit_in_bytes"
        if swap.exists():
            swap.write_text(str(megabytes << 20))
    except OSError as why:
        folder.rmdir()
        pytest.skip(f"a memory cgroup's limit cannot be set here: {why}")
    yield folder
    eventually(lambda: not (folder / "cgroup.procs").read_text().split())
    folder.rmdir()
