# SPDX-License-Identifier: Apache-2.0
"""@pytest.mark.needs("pg_cron"): a test that is skipped where the PostgreSQL of the run lacks it.

A word is the name of an extension; `PostgreSQL >= 15` is a version.
"""

import operator
import re

import pytest

from harness import pgversions

VERSION = re.compile(r"PostgreSQL (>=|<) (\d+)")
COMPARED = {">=": operator.ge, "<": operator.lt}


def lacking(need, binaries):
    """Why these binaries do not serve, or None."""
    version = VERSION.fullmatch(need)
    if version:
        fits = COMPARED[version[1]](binaries.major, int(version[2]))
        return None if fits else f"needs {need}"
    return None if binaries.has_extension(need) else (
        f"needs {need}, which is not in this PostgreSQL")


def skip_if_lacking(item):
    params = getattr(getattr(item, "callspec", None), "params", {})
    for need in (need for mark in item.iter_markers("needs") for need in mark.args):
        try:
            reason = lacking(need, pgversions.chosen(params.get("server_of_test")))
        except pgversions.NotAvailable as why:
            reason = str(why)
        if reason:
            pytest.skip(reason)
