# SPDX-License-Identifier: Apache-2.0
"""Real faults on real programs: the fixtures and the time limit of the end-to-end tests."""

import importlib.util
import pathlib
import sys

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

# Under a name of its own: pytest knows two modules called conftest only by their folders.
_spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
e2e_conftest = sys.modules.setdefault("e2e_conftest", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(e2e_conftest)
globals().update({name: value for name, value in vars(e2e_conftest).items()
                  if not name.startswith("__")})


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # noqa: F821
def pytest_runtest_makereport(item, call):
    """Fixtures that note a result can see whether the test passed."""
    outcome = yield
    if call.when == "call":
        item.rep_call_passed = outcome.get_result().passed
