# SPDX-License-Identifier: Apache-2.0
"""The page in a real Chromium, on data made by workers that really crashed (tests/harness/browser_data.py).

The tests themselves are JavaScript (tests/web/*.mjs, node's own test runner): they run once, in one
browser, and each `test("…")` there is a test here. Only those that were asked for are run.
"""

import re

import pytest

from harness.browser import WEB, run_in_browser

pytestmark = [pytest.mark.plain, pytest.mark.long]
NAMES = [name for path in sorted(WEB.glob("*.mjs"))
         for name in re.findall(r'^test\("([^"]+)"', path.read_text(), re.M)]

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
