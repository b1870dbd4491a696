#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which ids of tests/mission.txt have tests that ran and passed: mission.py REPORT.xml…

Tests name ids by @pytest.mark.covers(...); conftest.py puts them, and the engine that a
test ran on, into the JUnit reports. An id without a passing test, and a test that names an
id which is not in the list, are failures: exit code 1, and a line for each.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree

LIST = pathlib.Path(__file__).resolve().parent.parent / "tests" / "mission.txt"
COLUMNS = 4


def wanted():
    """{id: what it is}, in the order of the list."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(" ", 1) for line in lines)


def passed(case):
    return not {"failure", "error", "skipped"} & {part.tag for part in case}


def shown(reports):
    """{id: {engine: how many tests passed}}; a test that ran in several reports is one test."""
    cases = {}
    for report in reports:
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            said = [(p.get("name"), p.get("value")) for p in case.iter("property")]
            engine = dict(said).get("engine", "none")
            for name, value in said:
                if name == "covers":
                    test = (value, engine, case.get("classname"), case.get("name"))
                    cases[test] = cases.get(test, False) or passed(case)
    found = collections.defaultdict(collections.Counter)
    for (name, engine, _, _), good in cases.items():
        found[name][engine] += good
    return found


def cell(name, counts):
    """"A10   5, lite 2": passed on any engine, and of these on SQLite."""
    lite = f", lite {counts['sqlite']}" if counts["sqlite"] else ""
    return f"{name:<4}{sum(counts.values()):>3}{lite}"


def table(ids, found):
    """The ids run from left to right: one column per letter would be long and thin."""
    cells = [cell(name, found[name]) for name in ids]
    return ["  ".join(f"{one:<16}" for one in cells[i:i + COLUMNS]).rstrip()
            for i in range(0, len(cells), COLUMNS)]


def judge(reports):
    """(lines to print, problems)"""
    ids, found = wanted(), shown(reports)
    lines = table(ids, found)
    done = [name for name in ids if sum(found[name].values())]
    lite = [name for name in ids if found[name]["sqlite"]]
    lines.append(f"{len(done)} of {len(ids)} ids are shown by passing tests, "
                 f"{len(lite)} of them on SQLite too")
    problems = [f"no test that covers {name} has passed: {ids[name]}"
                for name in ids if name not in done]
    problems += [f"a test covers {name}, which {LIST.name} does not have"
                 for name in sorted(found) if name not in ids]
    return lines, problems


def main(reports):
    lines, problems = judge(reports)
    print("\n".join(lines + problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
