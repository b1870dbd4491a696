#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write the reference in docs/library.md from include/defib.h.

library_docs.py [--check]: the text above the mark is written by hand and kept. With --check
nothing is written, and it exits 1 if the page does not match the header.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "library.md"
MARK = "<!-- made from include/defib.h by scripts/library_docs.py -->\n"
NOISE = re.compile(r"^(/\* clang-format (on|off) \*/|#(if|ifdef|ifndef|else|endif|include)\b.*"
                   r"|extern \"C\" \{|\})$")


def sections(header):
    """Each part of the header with its title; errors, version and log come first."""
    body = header[header.index("/* The version that"):header.rindex("#ifdef __cplusplus")]
    parts = re.split(r"/\* ---- (.*?) ---- \*/\n", body)
    return [("errors, version, log", parts[0]), *zip(parts[1::2], parts[2::2])]


def shown(text):
    text = re.sub(r"DEFIB_API |DEFIB_MUST_CHECK ", "", text)
    text = re.sub(r"DEFIB_MUST_CHECK defib_err\n", "defib_err ", text)
    # A prototype on several lines is joined, and broken again if it is too long.
    text = re.sub(r"^(\w[^;{}/]*\([^;{}]*\);)", lambda m: " ".join(m.group(1).split()), text,
                  flags=re.M)
    lines = [line.expandtabs(4) for line in text.splitlines() if not NOISE.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def reference():
    header = (ROOT / "include" / "defib.h").read_text()
    return "".join(f"\n## {title[0].upper()}{title[1:]}\n```c\n{shown(text)}\n```\n"
                   for title, text in sections(header))


def main():
    by_hand = PAGE.read_text().split(MARK)[0]
    page = by_hand + MARK + reference()
    if sys.argv[1:] == ["--check"]:
        sys.exit(None if PAGE.read_text() == page else
                 "run: scripts/references")
    PAGE.write_text(page)


main()
