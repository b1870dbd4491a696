# SPDX-License-Identifier: Apache-2.0
"""Every view wide and narrow, light and dark: `make screenshots` puts the pictures into
build/screenshots. test_browser.py looks at each view wide and light, narrow and dark, and takes no
pictures."""

import re

import pytest

from harness.browser import WEB, run_in_browser
from harness.program import BIN

NAMES = re.findall(r'^test\("([^"]+)"', (WEB / "tour.mjs").read_text(), re.M)

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return run_in_browser(tmp_path_factory.mktemp("wreckage"), NAMES,
                          DEFIB_SCREENSHOTS=str(BIN.parent / "screenshots"))


@pytest.mark.parametrize("name", NAMES)
def test_in_all_four_ways(told, name):
    assert told[name] is None, told[name]
