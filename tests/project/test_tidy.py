# SPDX-License-Identifier: Apache-2.0
"""scripts/tidy checks what changed, and only that."""

import shutil
import subprocess

import pytest

from harness.program import ROOT

NINJA = """\
rule cc
  command = cc -I../src -MD -MF $out.d -c $in -o $out
  deps = gcc
  depfile = $out.d
build one.o: cc ../src/one.c
build two.o: cc ../src/two.c
"""


@pytest.fixture
def tree(tmp_path):
    """Two sources, of which only two.c includes a header."""
    for folder in ("src", "build", "scripts"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "scripts/tidy", tmp_path / "scripts/tidy")
    (tmp_path / ".clang-tidy").write_text("Checks: '-*,clang-analyzer-core.*'\n"
                                          "WarningsAsErrors: '*'\n")
    (tmp_path / "src/one.c").write_text("int one(void)\n{\n\treturn 1;\n}\n")
    (tmp_path / "src/two.h").write_text("#define TWO 2\n")
    (tmp_path / "src/two.c").write_text('#include "two.h"\n'
                                        "int two(void)\n{\n\treturn 2 / TWO;\n}\n")
    (tmp_path / "build/build.ninja").write_text(NINJA)
    return tmp_path


def tidy(tree):
    """Its exit code, and how many files it checked and skipped."""
    subprocess.run(["ninja", "-C", "build"], cwd=tree, check=True, capture_output=True)
    commands = subprocess.run(["ninja", "-C", "build", "-t", "compdb"], cwd=tree, check=True,
                              capture_output=True, text=True).stdout
    (tree / "build/compile_commands.json").write_text(commands)
    done = subprocess.run(["scripts/tidy"], cwd=tree, capture_output=True, text=True)
    words = done.stdout.splitlines()[-1].split()
    return done.returncode, int(words[1]), int(words[4])


def test_what_passed_is_skipped_until_it_changes(tree):
    assert tidy(tree) == (0, 2, 0)
    assert tidy(tree) == (0, 0, 2)
    (tree / "src/one.c").write_text("int one(void)\n{\n\treturn 1 + 0;\n}\n")
    assert tidy(tree) == (0, 1, 1)


def test_a_changed_header_is_a_change_of_each_source_that_includes_it(tree):
    assert tidy(tree) == (0, 2, 0)
    (tree / "src/two.h").write_text("#define TWO 0\n")
    assert tidy(tree) == (1, 1, 1)
    # What failed is checked again.
    assert tidy(tree) == (1, 1, 1)


def test_a_changed_configuration_is_a_change_of_all(tree):
    assert tidy(tree) == (0, 2, 0)
    with open(tree / ".clang-tidy", "a", encoding="utf-8") as file:
        file.write("HeaderFilterRegex: 'src/'\n")
    assert tidy(tree) == (0, 2, 0)


def test_a_changed_compile_command_is_a_change_of_its_source(tree):
    assert tidy(tree) == (0, 2, 0)
    ninja = tree / "build/build.ninja"
    ninja.write_text(NINJA.replace("cc -I", "cc -DMORE -I"))
    assert tidy(tree) == (0, 2, 0)
