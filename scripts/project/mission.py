#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which tests prove each id of tests/mission.txt: mission.py [--list FILE] REPORT.xml…

Tests name ids by @pytest.mark.covers(...); conftest.py puts them, and the engine that a
test ran on, into the JUnit reports. Prints a line per id: how many tests passed, on which
engine, in which files. All names of tests go to FILE.

An id whose tests assert less than its text has a line `weak ID what is missing` in the
list. It is printed with what is missing and is not counted as proved. An id that is not
weak and has no passing test, and an id that is used but not in the list, are failures: exit
code 1, and a line for each.
"""

import argparse
import collections
import pathlib
import sys
import xml.etree.ElementTree

LIST = pathlib.Path(__file__).resolve().parents[2] / "tests" / "mission.txt"
WEAK = "weak "
WIDTH = 100


def rows():
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def wanted():
    """{id: what it is}, in the order of the list."""
    return dict(row.split(" ", 1) for row in rows() if not row.startswith(WEAK))


def weak():
    """{id: [what its tests do not show]}"""
    found = collections.defaultdict(list)
    for row in rows():
        if row.startswith(WEAK):
            name, missing = row[len(WEAK):].split(" ", 1)
            found[name].append(missing)
    return found


def passed(case):
    return not {"failure", "error", "skipped"} & {part.tag for part in case}


def shown(reports):
    """{id: {(file, test, engine)}} of tests that passed; empty if a test that names the id failed.

    A test that ran in several reports is one test.
    """
    found = collections.defaultdict(set)
    for report in reports:
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            said = [(p.get("name"), p.get("value")) for p in case.iter("property")]
            engine = dict(said).get("engine", "none")
            where = (case.get("classname") or "?").split(".")[-1].removeprefix("test_")
            for name, value in said:
                if name == "covers":
                    found[value] |= {(where, case.get("name"), engine)} if passed(case) else set()
    return found


def engines(tests):
    """"postgres 8, sqlite 4": the tests without a database are counted as `none`."""
    counts = collections.Counter(engine for _, _, engine in tests)
    return ", ".join(f"{engine} {counts[engine]}" for engine in sorted(counts, key=lambda one: (
        one == "none", one)))


def row(name, tests):
    files = list(dict.fromkeys(where for where, _, _ in sorted(tests)))
    text = f"{name:<4}{len(tests):>3}  {engines(tests)}: "
    for i, one in enumerate(files):
        if len(text) + len(one) > WIDTH:
            return f"{text}and {len(files) - i} more"
        text += f"{one} "
    return text.rstrip()


def full(ids, found, missing):
    """Every test by its name, for the file."""
    for name, what in ids.items():
        yield f"{name} {what}"
        yield from (f"    weak: {one}" for one in missing[name])
        yield from (f"    {engine:<8} test_{where}.py::{test}"
                    for where, test, engine in sorted(found[name]))


def judge(ids, found, missing):
    """(lines to print, problems)"""
    proved = [name for name in ids if found[name] and not missing[name]]
    lite = [name for name in proved if any(engine == "sqlite" for _, _, engine in found[name])]
    lines = [row(name, found[name]) for name in proved]
    lines += [f"weak: {name}: {one}" for name in ids for one in missing[name]]
    lines.append(f"{len(proved)} of {len(ids)} ids are proved by passing tests, {len(lite)} of them "
                 f"on SQLite too; weak: {sum(bool(missing[name]) for name in ids)}")
    problems = [f"no test that covers {name} has passed: {ids[name]}"
                for name in ids if not found[name] and not missing[name]]
    problems += [f"a test covers {name}, which {LIST.name} does not have"
                 for name in sorted(found) if name not in ids]
    problems += [f"{LIST.name} says that {name} is weak, and does not have it"
                 for name in sorted(missing) if name not in ids]
    return lines, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", type=pathlib.Path, help="file for the names of all tests")
    parser.add_argument("reports", nargs="*")
    args = parser.parse_args()
    ids, found, missing = wanted(), shown(args.reports), weak()
    lines, problems = judge(ids, found, missing)
    if args.list:
        args.list.parent.mkdir(parents=True, exist_ok=True)
        args.list.write_text("\n".join(full(ids, found, missing)) + "\n")
    print("\n".join(lines + problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
