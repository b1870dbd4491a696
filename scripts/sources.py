#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""List what the build is made of, so that a new file needs no edit of meson.build.

sources.py library|service|program   C files of a unit, one path per line (units: ranks.py)
sources.py tests                     unit tests
sources.py simulator                 C files of tests/sim
sources.py fuzz                      targets of tests/fuzz
sources.py embedded|shipped          files inside the library; inside the program only
sources.py all                       everything that changes the shape of the build
"""

import pathlib
import sys

from ranks import UNIT, UNITS

ROOT = pathlib.Path(__file__).resolve().parent.parent


def listing(pattern, keep=lambda path: True):
    found = sorted(p.relative_to(ROOT) for p in ROOT.glob(pattern))
    return [str(p) for p in found if keep(p)]


def is_test(path):
    return path.name.endswith("_test.c")


def unit_of(path):
    """Of src/ROOM/FILE; a file outside the rooms belongs to the library."""
    return UNIT[path.parts[1]] if len(path.parts) > 2 else "library"


def sources(unit):
    return listing("src/**/*.c", lambda p: not is_test(p) and unit_of(p) == unit)


def tests():
    """Each with the unit that it is linked with."""
    return [f"{unit_of(pathlib.Path(p))}:{p}" for p in listing("src/**/*_test.c")]


# What `defib deploy` prints; the rest of deploy/ is read by others.
DEPLOYED = ("systemd", "cron", "kubernetes", "container")

# What the page is made of; the server knows their types (src/http/page.c).
WEB = (".html", ".css", ".js", ".svg")

KINDS = {
    **{unit: lambda unit=unit: sources(unit) for unit in UNITS},
    "tests": tests,
    "simulator": lambda: listing("tests/sim/*.c"),
    "fuzz": lambda: listing("tests/fuzz/*.c", lambda p: p.name != "replay.c"),
    "embedded": lambda: listing("sql/**/*.sql") + listing("presets/**/*.yaml"),
    "shipped": lambda: (listing("docs/openapi.yaml")
                        + listing("completions/*")
                        + listing("web/**/*", lambda p: p.suffix in WEB)
                        + listing("deploy/*/*", lambda p: p.parts[1] in DEPLOYED)),
}


def main():
    wanted = sys.argv[1] if len(sys.argv) == 2 else ""
    if wanted != "all" and wanted not in KINDS:
        sys.exit(__doc__)
    kinds = KINDS if wanted == "all" else [wanted]
    for kind in kinds:
        for path in KINDS[kind]():
            print(path)


main()
