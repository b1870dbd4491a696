# SPDX-License-Identifier: Apache-2.0
"""Real faults on real programs, with the fixtures of tests/conftest.py."""

import pytest


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Fixtures that note a result can see whether the test passed."""
    outcome = yield
    if call.when == "call":
        item.rep_call_passed = outcome.get_result().passed
