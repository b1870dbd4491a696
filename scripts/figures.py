#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""figures.py [--write]: README's table of measured figures, taken from docs/performance.md.

Without --write it exits with 1 if README.md says something else. bench/performance calls it with
--write after it has measured.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: scripts/figures.py -->\n", "<!-- end of figures -->"


def crash(text, setup):
    return re.search(rf"^\| {setup} \| \d+ \| ([\d.]+) ms", text, re.M)[1]


def jobs(text, in_hand):
    line = re.search(rf"^- {in_hand} in hand, jobs/s: .*", text, re.M)[0]
    return {name: re.search(rf"{name} ([\d,]*\d)", line)[1]
            for name in ("defib", "graphile-worker", "pg-boss")}


def best(text):
    return re.search(r"^\| 10 in hand \| ([\d.]+) of pg-boss at its best", text, re.M)[1]


def table(text):
    one, many = jobs(text, "1"), jobs(text, "1,000")
    return f"""| measured ([all of it](docs/performance.md)) | defib | graphile-worker | pg-boss | command |
|---|---|---|---|---|
| `kill -9` of a worker to its job running elsewhere, PostgreSQL | {crash(text, 'PostgreSQL, one host')} ms | – | – | `bench/crash` |
| the same, the other worker on another host | {crash(text, 'PostgreSQL, another host')} ms | – | – | `bench/crash` |
| the same on SQLite | {crash(text, 'SQLite')} ms | – | – | `bench/crash` |
| jobs per second, one worker with 1 job in hand | {one['defib']} | {one['graphile-worker']} | {one['pg-boss']} | `bench/throughput` |
| jobs per second, 1,000 jobs in hand | {many['defib']} | {many['graphile-worker']} | {many['pg-boss']} | `bench/throughput` |

Medians. defib is not always ahead: with 10 jobs in hand it reaches {best(text)} of pg-boss at its best batch size.
"""


def main():
    readme = ROOT / "README.md"
    wanted = table((ROOT / "docs" / "performance.md").read_text())
    before, _, rest = readme.read_text().partition(BEGIN)
    have, _, after = rest.partition(END)
    if sys.argv[1:] == ["--write"]:
        readme.write_text(f"{before}{BEGIN}{wanted}{END}{after}")
    elif have != wanted:
        sys.exit("README.md has other figures than docs/performance.md: scripts/figures.py --write")


main()
