#!/usr/bin/python3
"""List what the build is made of, so that a new file needs no edit of meson.build.

sources.py core|cli|tests|embed   one path a line, relative to the repository
sources.py all                    everything that changes the shape of the build
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def listing(pattern, keep=lambda path: True):
    found = sorted(p.relative_to(ROOT) for p in ROOT.glob(pattern))
    return [str(p) for p in found if keep(p)]


def is_test(path):
    return path.name.endswith("_test.c")


def is_cli(path):
    return path.parts[1] == "cli"


# What `defib deploy` prints; the rest of deploy/ is read by others.
DEPLOYED = ("systemd", "cron", "kubernetes", "container")

# What the page is made of; the server knows their types (src/http/page.c).
WEB = (".html", ".css", ".js", ".svg")

KINDS = {
    "core": lambda: listing("src/**/*.c", lambda p: not is_test(p) and not is_cli(p)),
    "cli": lambda: listing("src/cli/**/*.c", lambda p: not is_test(p)),
    "tests": lambda: listing("src/**/*_test.c"),
    "embed": lambda: (listing("sql/**/*.sql") + listing("presets/**/*.yaml")
                      + listing("docs/openapi.yaml")
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
