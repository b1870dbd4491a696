# SPDX-License-Identifier: Apache-2.0
"""The document's problem: nothing says whether the worker behind a step is alive."""

import contextlib
import types


@contextlib.contextmanager
def heartbeat(_workflow, _step):
    yield types.SimpleNamespace(check=lambda: None)
