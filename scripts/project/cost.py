#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What tests cost: cost.py [--tests] REPORT.xml…

Adds up the seconds of a core and the seconds that tests took, by file or with --tests by test, from
reports of pytest's (`make check` keeps them in build/said). The server that tests share is counted
with the last test that used it.
"""

import collections
import signal
import sys
import xml.etree.ElementTree


def costs(report, by_test):
    """(name, seconds of a core, seconds) of each test."""
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = case.get("classname").rpartition(".")[2]
        core = sum(float(one.get("value")) for one in case.iter("property")
                   if one.get("name") == "core_s")
        yield f"{name}::{case.get('name')}" if by_test else name, core, float(case.get("time"))


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as with `| head`
    by_test = "--tests" in sys.argv
    reports = [word for word in sys.argv[1:] if word != "--tests"]
    if not reports:
        sys.exit(__doc__)
    sums = collections.defaultdict(lambda: [0, 0, 0])
    for report in reports:
        for name, core, took in costs(report, by_test):
            for n, value in enumerate((core, took, 1)):
                sums[name][n] += value
    for name, (core, took, count) in sorted(sums.items(), key=lambda row: -row[1][0]):
        print(f"{core:8.1f} s of a core {took:8.1f} s {count:5} tests  {name}")
    print(f"{sum(row[0] for row in sums.values()):8.1f} s of a core in all")


main()
