# SPDX-License-Identifier: Apache-2.0
"""scripts/coverage: what was not run is seen, and a bar that is not reached fails."""

import importlib.machinery
import importlib.util
import json
import subprocess

import pytest

from harness import proof_results
from harness.program import ROOT

ENGINE = """#include <assert.h>
int step(int a, int b);
int step(int a, int b)
{
	assert(a >= 0 &&
	       b >= 0);
	if (a && b)
		return 1;
	return 0;
}
"""
MAIN = """#include <stdlib.h>
int step(int a, int b);
int never(void);
int never(void)
{
	return 1;
}
int main(void)
{
	return CALLS;
}
"""
ALL = "step(1, 1) - 1 + step(1, 0) + step(0, 1) + (never() - 1)"


@pytest.fixture
def tree(tmp_path):
    def make(calls):
        for name, text in (("worker/engine.c", ENGINE), ("base/main.c", MAIN),
                           ("base/other_test.c", "int unused(void);\nint unused(void) { return 1; }\n")):
            path = tmp_path / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("CALLS", calls))
        build = tmp_path / "build-coverage"
        build.mkdir()
        sources = sorted((tmp_path / "src").rglob("*.c"))
        for source in sources:
            subprocess.run(["gcc", "--coverage", "-O0", "-c", f"../{source.relative_to(tmp_path)}",
                            "-o", f"{source.name}.o"], cwd=build, check=True)
        subprocess.run(["gcc", "--coverage", "-o", "program", *(f"{s.name}.o" for s in sources)],
                       cwd=build, check=True)
        subprocess.run([build / "program"], check=True)
        return tmp_path
    return make


def coverage(root, *options):
    return subprocess.run([ROOT / "scripts" / "coverage", "--root", root, *options],
                          capture_output=True, text=True, check=False)


def shares(root):
    rows = json.loads((root / "build-coverage" / "coverage.json").read_text())
    return {row["what"]: (row["hit"], row["of"]) for row in rows}


def test_all_is_run_and_the_other_branch_of_an_assertion_does_not_count(tree):
    root = tree(ALL)
    ran = coverage(root, "--report")
    found = shares(root)
    assert found["branches of engine"] == (4, 4), ran.stdout
    assert found["lines of src/"] == (9, 9)
    # There is no judge, decide or guard in this tree: nothing shows that their bars are reached.
    assert ran.returncode == 1
    assert [line.split()[2] for line in ran.stdout.splitlines() if "UNDER" in line] == [
        "judge", "decide", "guard"]


def test_of_another_tree_nothing_is_recorded(tree, tmp_path, monkeypatch):
    monkeypatch.setenv(proof_results.FOLDER, str(tmp_path / "results"))
    coverage(tree(ALL), "--report")
    assert not (tmp_path / "results").exists()


def test_a_branch_and_a_line_that_no_test_takes(tree):
    root = tree("step(1, 1) - 1 + step(1, 0)")
    ran = coverage(root, "--report")
    assert shares(root)["branches of engine"] == (3, 4)
    assert shares(root)["lines of src/"] == (7, 9)
    assert ran.returncode == 1
    assert "lines of src/" in [line[:13] for line in ran.stdout.splitlines() if "UNDER" in line]
    said = coverage(root, "--missing", "src/worker/engine.c").stdout
    assert said.count("\n") == 1 and "if (a && b)" in said
    assert "never run" in coverage(root, "--missing", "src/base/main.c").stdout


def test_counters_of_two_stages_are_one(tree):
    """What the one has run need not be run by the other; a spoilt file spoils its own stage only."""
    root = tree("getenv(\"LATER\") ? step(0, 1) : step(1, 1) - 1 + step(1, 0)")
    loader = importlib.machinery.SourceFileLoader("coverage_script", str(ROOT / "scripts" / "coverage"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("coverage_script", loader))
    loader.exec_module(script)
    build = root / "build-coverage"
    script.keep(build, "unit")
    assert not list(build.glob("*.gcda")) and list(build.glob("kept/unit/*.gcda"))
    coverage(root, "--report")
    assert shares(root)["branches of engine"] == (3, 4)
    subprocess.run([build / "program"], check=True, env={"LATER": "yes"})
    script.keep(build, "e2e")
    coverage(root, "--report")
    assert shares(root)["branches of engine"] == (4, 4)


def test_counters_of_another_source_are_refused(tree):
    root = tree(ALL)
    (root / "src" / "base" / "main.c").write_text(MAIN.replace("CALLS", "0"))
    subprocess.run(["gcc", "--coverage", "-O0", "-c", "../src/base/main.c", "-o", "main.c.o"],
                   cwd=root / "build-coverage", check=True)
    ran = coverage(root, "--report")
    assert ran.returncode == 1 and "other than the source" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_that_is_not_there(tree):
    ran = coverage(tree("0"), "--missing", "src/x.c")
    assert ran.returncode == 1 and "was not compiled" in ran.stderr
