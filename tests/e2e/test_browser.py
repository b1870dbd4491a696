# SPDX-License-Identifier: Apache-2.0
"""The page in a real Chromium, on data made by workers that really crashed (wreckage.py).

The tests themselves are JavaScript (tests/web/*.mjs, node's own test runner): they run once, in one
browser, and each `test("…")` there is a test here. Screenshots of every view are in screenshots/ of
the build directory afterwards.
"""

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
TAP = re.compile(r"^(not )?ok \d+ - (.*?)(?: # .*)?$")

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
            told[result[2].replace("\\#", "#")] = why if result[1] else None
        elif line.startswith("  "):
            why.append(line)
    return {name: None if reason is None else "\n".join(reason) for name, reason in told.items()}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The result of each test of tests/web, by its name."""
    modules = BIN.parent / "browser"
    install(modules)
    folder = tmp_path_factory.mktemp("wreckage")
    wreckage = Wreckage(folder)
    try:
        wreckage.make()
        env = {**os.environ, **token_env(), "DEFIB_URL": wreckage.url(),
               "DEFIB_ORDERS": wreckage.orders.url, "DEFIB_NODE_MODULES": str(modules),
               "DEFIB_SCREENSHOTS": str(BIN.parent / "screenshots"), "HOME": str(folder)}
        ran = subprocess.run(["node", "--test-reporter=tap", WEB / "all.mjs"], env=env,
                             capture_output=True, text=True, timeout=LIMIT_S, check=False)
        (BIN.parent / "browser.tap").write_text(ran.stdout)  # how long each took
        told = parse(ran.stdout)
        assert told, ran.stdout + ran.stderr
        return told
    finally:
        wreckage.close()


@pytest.mark.parametrize("name", NAMES)
def test_in_the_browser(told, name):
    assert name in told, f"it was not run; these were: {sorted(told)}"
    assert told[name] is None, told[name]


def test_every_test_of_the_browser_is_named_here(told):
    assert set(told) == set(NAMES)
