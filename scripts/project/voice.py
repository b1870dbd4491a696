#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no phrase of scripts/project/voice.txt is in anything that people read.

voice.py [ROOT]: prints file:line, the phrase and what to write instead; exits 1 if there is one.
Reads documents, sources, page, SQL, presets, examples, deployment files, scripts and benchmarks.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = ("*.md", "docs", "src", "include", "web", "sql", "presets", "examples", "deploy",
          "completions", "clients", "scripts", "bench")
SUFFIXES = {".md", ".c", ".h", ".js", ".html", ".css", ".sql", ".yaml", ".yml", ".py", ".sh",
            ".bash", ".fish", ".service", ".json", ""}
# Between two words of a phrase: white space, the leader of a comment, a joint of literals.
GAP = r"(?:\s|\\n|\"\s*\"|\n\s*(?:\*|//|#|--)\s)+"


def phrases(path):
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            wrong, _, instead = line.partition(" -> ")
            yield wrong.strip(), instead.strip()


def pattern(phrase):
    # Not within a name such as late-declaration-convicts.
    start = r"(?<![\w-])" if phrase[0].isalnum() else ""
    end = r"(?![\w-])" if phrase[-1].isalnum() else ""
    return re.compile(start + GAP.join(map(re.escape, phrase.split())) + end, re.I)


def files(root):
    for place in PLACES:
        for path in sorted(root.glob(place)):
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file() and file.suffix in SUFFIXES:
                    yield file


def check(root, rules):
    for file in files(root):
        text = file.read_text(errors="replace")
        lower = text.lower()
        for wrong, instead, search in rules:
            # Most files lack a word of most phrases, which is found out sooner than by a pattern.
            if not all(word in lower for word in wrong.lower().split()):
                continue
            for match in search.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{file.relative_to(root)}:{line}: \"{wrong}\": write \"{instead}\""


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT
    rules = [(wrong, instead, pattern(wrong))
             for wrong, instead in phrases(ROOT / "scripts" / "project" / "voice.txt")]
    found = list(check(root, rules))
    print("\n".join(found) or "voice: in order")
    sys.exit(bool(found))


main()
