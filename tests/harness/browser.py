# SPDX-License-Identifier: Apache-2.0
"""A real Chromium that runs the page's tests (tests/web)."""

import json
import os
import re
import subprocess

import pytest

from harness.browser_data import Wreckage
from harness.http_daemon import token_env
from harness.program import BIN, ROOT
from harness.waiting import patience

WEB = ROOT / "tests" / "web"
TAP = re.compile(r"^(not )?ok \d+ - (.*?)(?: # (.*))?$")


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
                             capture_output=True, text=True, timeout=patience(1500), check=False)
        (BIN.parent / "browser.tap").write_text(ran.stdout)  # how long each took
        told = parse(ran.stdout)
        assert told, ran.stdout + ran.stderr
        return told
    finally:
        wreckage.close()
