# SPDX-License-Identifier: Apache-2.0
"""How the program and the shared library were built, read back from their files."""

import re
import subprocess

import pytest

from harness.program import BIN
from harness.proof_results import record

pytestmark = pytest.mark.plain
BUILD = BIN.parent
COMMAND = "make test T=test_hardened"


def readelf(path, *options):
    ran = subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True,
                         check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return ran.stdout


@pytest.fixture(params=["defib", "libdefib.so.0"])
def built(request):
    if b"__asan_init" in BIN.read_bytes() or b"__tsan_init" in BIN.read_bytes():
        pytest.skip("a sanitized build has checks of its own")
    return BUILD / request.param


def test_it_is_loaded_at_another_address_each_time(built):
    assert re.search(r"Type:\s+DYN", readelf(built, "-h"))
    if built.name == "defib":
        assert re.search(r"FLAGS_1.*\bPIE\b", readelf(built, "-d"))


def test_its_tables_of_addresses_are_bound_at_once_and_read_only(built):
    assert "GNU_RELRO" in readelf(built, "-l")
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", readelf(built, "-d"))


def test_no_memory_is_both_written_and_run(built):
    segments = readelf(built, "-l")
    stack, = re.findall(r"GNU_STACK\s.*?\s([RWE ]{2,3})\s+0x", segments)
    assert "E" not in stack, stack
    loads = re.findall(r"LOAD\s+(?:0x\w+\s+){5}([RWE ]{3})", segments)
    assert len(loads) >= 2 and not [flags for flags in loads if "W" in flags and "E" in flags]
    assert "TEXTREL" not in readelf(built, "-d")


def names(built):
    """Functions of other libraries that it calls."""
    table = readelf(built, "--dyn-syms")
    return set(re.findall(r"UND (\w+)", table))


def test_stacks_are_guarded(built):
    assert "__stack_chk_fail" in names(built)


def test_copies_are_checked_against_the_room_that_there_is(built):
    checked = {name for name in names(built) if name.endswith("_chk")} - {"__stack_chk_fail"}
    assert checked >= {"__snprintf_chk", "__memcpy_chk"} or len(checked) >= 5, checked


def test_indirect_calls_have_marked_targets(built):
    """On x86 a function that can be called by address begins with endbr64."""
    if "X86-64" not in readelf(built, "-h"):
        pytest.skip("another processor has other marks")
    assert built.read_bytes().count(b"\xf3\x0f\x1e\xfa") > 500


def test_large_stack_frames_are_probed():
    """Each page is touched, so that no frame reaches over the guard page of another thread."""
    commands = (BUILD / "compile_commands.json").read_text()
    ours = [line for line in commands.splitlines() if "\"command\"" in line and "/src/" in line
            and "_test.c" not in line]
    if any("-fsanitize" in line for line in ours):
        pytest.skip("a sanitized build has checks of its own")
    assert len(ours) > 100
    for flag in ("-fstack-clash-protection", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=3"):
        assert [line for line in ours if flag not in line] == [], flag
    record("program and library are position independent, fully RELRO, bound at start, without an "
           "executable stack, with stack protector, stack clash protection and FORTIFY_SOURCE",
           COMMAND, "both files read back with readelf")
