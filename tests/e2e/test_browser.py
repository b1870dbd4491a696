# SPDX-License-Identifier: Apache-2.0
"""The page in a real Chromium, on data made by workers that really crashed (wreckage.py).

The tests themselves are JavaScript (tests/web/*.mjs, node's own test runner): they run once, in one
browser, and each `test("…")` there is a test here. Only those that were asked for are run.
"""

import json
import os
import re
import subprocess

import pytest
from conftest import BIN, ROOT
from web import token_env
from wreckage import Wreckage

WEB = ROOT / "tests" / "web"
NAMES = [name for path in sorted(WEB.glob("*.mjs"))
         for name in re.findall(r'^test\("([^"]+)"', path.read_text(), re.M)]
LIMIT_S = 600  # for a machine that has ten times as much to do
TAP = re.compile(r"^(not )?ok \d+ - (.*?)(?: # (.*))?$")

pytestmark = pytest.mark.timeout(LIMIT_S + 60)


def install(folder):
    """playwright-core and axe-core as the lock file has them."""
    ran = subprocess.run([ROOT / "scripts" / "npm-install", WEB, folder], capture_output=True,
                         text=True, check=False)
    if ran.returncode:
        pytest.fail(f"playwright-core and axe-core: {ran.stderr.strip()}", pytrace=False)


def parse(tap):
    """{name: None, or why it failed} of the tests of a TAP stream."""
    told, why = {}, []
    for line in tap.splitlines():
        result = TAP.match(line)
        if result:
            why = []
            told[result[2].replace("\\#", "#")] = why if result[1] else (
                ["it was skipped"] if (result[3] or "").startswith("SKIP") else None)
        elif line.startswith("  "):
            why.append(line)
    return {name: None if reason is None else "\n".join(reason) for name, reason in told.items()}


def run_in_browser(folder, names, **env):
    """The result of each test of tests/web, by its name; it runs these."""
    modules = BIN.parent / "browser"
    install(modules)
    wreckage = Wreckage(folder)
    try:
        wreckage.make()
        env = {**os.environ, **token_env(), "DEFIB_URL": wreckage.url(),
               "DEFIB_ORDERS": wreckage.orders.url, "DEFIB_NODE_MODULES": str(modules),
               "DEFIB_TESTS": json.dumps(sorted(names)), "HOME": str(folder), **env}
        ran = subprocess.run(["node", "--test-reporter=tap", WEB / "all.mjs"], env=env,
                             capture_output=True, text=True, timeout=LIMIT_S, check=False)
        (BIN.parent / "browser.tap").write_text(ran.stdout)  # how long each took
        told = parse(ran.stdout)
        assert told, ran.stdout + ran.stderr
        return told
    finally:
        wreckage.close()


@pytest.fixture(scope="module")
def told(request, tmp_path_factory):
    asked = {item.callspec.params["name"] for item in request.session.items
             if item.path == request.path and hasattr(item, "callspec")}
    return run_in_browser(tmp_path_factory.mktemp("wreckage"), asked)


@pytest.mark.parametrize("name", NAMES)
def test_in_the_browser(told, name):
    assert name in told, f"it was not run; these were: {sorted(told)}"
    assert told[name] is None, told[name]


def test_every_test_of_the_browser_is_named_here(told):
    assert set(told) == set(NAMES)
