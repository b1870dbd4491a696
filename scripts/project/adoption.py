#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How many lines of code each of the five systems in examples/ loses and gains: adoption.py [--check]

    adoption.py                          print the table of docs/clients.md
    adoption.py --write                  write it there
    adoption.py --check                  exit 1 if the page has another table
    adoption.py --documents DIR          also count the documents again, if you have them

Lines are counted without blank lines and comments (and docstrings, in Python). The program's lines
are those of its files *_before and *_after, or those that BEFORE and AFTER name. A document's own patch
is what it prints as code of its remedy: between the first and the last line of each part, which are
found by their beginning. Documents leave parts out, so their number is a lower bound.
"""

import argparse
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- scripts/project/adoption.py -->\n", "<!-- end -->\n"

# What its document prints of its own remedy, and how many lines that is. Each part is (first line,
# last line), by their beginnings.
SYSTEMS = {
    "scrapersky": {
        "what": "FastAPI, SQLAlchemy", "patch": 105, "document": "000_061af5020c7eb8fd.txt",
        "goes": "clean-up scheduler, tries for an error session, settings",
        "parts": [("import logging", '    logger.info(f"Added job'),
                  ("from src.services.zombie_record_cleanup", "from src.services.zombie"),
                  ("    setup_zombie_cleanup_scheduler", "    setup_zombie_cleanup_scheduler"),
                  ("    # Attempt multiple retries", "    continue"),
                  ("ZOMBIE_CLEANUP_ENABLED", "ZOMBIE_CLEANUP_INTERVAL_MINUTES")]},
    "scristill": {
        "what": "asyncio scheduler", "patch": 25, "document": "001_09aab33f82022132.txt",
        "goes": "clean-up at start, stagger, burst counters (sketched, mostly in words)",
        "parts": [("async def _cleanup_stale_jobs", "async def _cleanup_stale_jobs"),
                  ("scheduler_cleanup_stale_on_startup", "scheduler_cleanup_stale_on_startup"),
                  ("self._scrape_task =", "self._extract_task ="),
                  ("scheduler_startup_stagger", "scheduler_startup_stagger"),
                  ("async def _run_scrape_worker", "        jobs_since_startup += 1"),
                  ("scheduler_startup_burst_limit: int", "scheduler_startup_window_seconds: int")]},
    "ruvon": {
        "what": "Celery", "patch": 72, "document": "002_02596ee83d7c87fa.txt",
        "goes": "heartbeat manager, zombie scanner, recovery, retries, saga, metrics (their use; "
                "the classes are not shown)",
        "parts": [("from ruvon.heartbeat", '    return {"result"'),
                  ("from ruvon.zombie_scanner", "    stale_threshold_seconds=120    # 2"),
                  ("await persistence.update_workflow_status(",
                   "await persistence.delete_heartbeat"),
                  ("async def recover_zombie_with_retry", "        alert_ops_team"),
                  ("async def recover_zombie_with_saga",
                   "        await persistence.update_workflow_status(workflow_id, \"FAILED_WORKER"),
                  ("zombies_per_hour =", '    alert("Low zombie recovery'),
                  ("from prometheus_client", "zombies_recovered.inc()")]},
    "octolab": {
        "what": "FastAPI", "patch": 24, "document": "003_bbf52887cc7b6009.txt",
        "goes": "worker loop, its cancellation, claim, start-up tick, settings (excerpts)",
        "parts": [("teardown_worker_enabled: bool", "teardown_worker_startup_tick: bool"),
                  ("except asyncio.CancelledError:", "    raise  # Propagate to main"),
                  ("except asyncio.CancelledError:", "    raise  # Propagate to loop"),
                  ("except asyncio.CancelledError:", "    raise  # Don't mark FAILED"),
                  ("query = (", ")"),
                  ("if settings.teardown_worker_startup_tick", "    processed =")]},
    "ocr": {
        "what": "Node.js, pg", "patch": 61, "document": "004_90e8118278dd228a.txt",
        "goes": "stale monitor, its start and stop, reset, statistics (excerpts)",
        "parts": [("{", "}"), ("SELECT * FROM extraction_queue", "  AND ocr_started_at"),
                  ("UPDATE extraction_queue", "  AND ocr_started_at"),
                  ("async start(): Promise", "  await this.processor.cleanup"),
                  ("import { StaleOCRMonitor }", "customMonitor.start"),
                  ("SELECT", "ORDER BY ocr_started_at"), ("SELECT", "LIMIT 20"),
                  ("SELECT", "  AND ocr_started_at IS NOT NULL")]},
}
BEFORE = {"ocr": ["before.js"]}
AFTER = {"ocr": ["monitor.js", "reset-stuck-ocr-jobs.js", "stats.js"]}


def python_lines(path):
    """Lines with code: no blank ones, comments or docstrings."""
    lines, last = set(), None
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
            tokenize.ENCODING, tokenize.ENDMARKER)
    with open(path, "rb") as file:
        for token in tokenize.tokenize(file.readline):
            text = token.type == tokenize.STRING and last in (None, tokenize.NEWLINE,
                                                             tokenize.INDENT, tokenize.DEDENT)
            if token.type not in skip and not text:
                lines.update(range(token.start[0], token.end[0] + 1))
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING):
                last = token.type
    return len(lines)


def code_lines(lines):
    """Without blank lines, and lines that are only a comment of Python, YAML, SQL or JavaScript."""
    return len([line for line in lines if line.strip()
                and not re.match(r"\s*(#|//|--|/\*|\*|\"\"\")", line)])


def counted(path):
    return python_lines(path) if path.suffix == ".py" else code_lines(path.read_text().splitlines())


def program(name, suffix, named):
    """The files of a program that exist only before, or only after."""
    app = ROOT / "examples" / name / "app"
    files = [app / one for one in named.get(name, [])] or sorted(app.glob(f"*_{suffix}.py"))
    return sum(map(counted, files))


def part(lines, first, last):
    """The lines of a part of a document; it follows what was counted before."""
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    end = next(i for i in range(start, len(lines)) if lines[i].startswith(last))
    return lines[start:end + 1], lines[end + 1:]


def patch(system, folder):
    lines = (folder / system["document"]).read_text(errors="replace").splitlines()
    total = 0
    for first, last in system["parts"]:
        got, lines = part(lines, first, last)
        total += code_lines(got)
    return total


def table():
    rows = ["| system | patch of its document | code before | code with defib | `defib.yaml` | "
            "no longer needed |", "|---|---|---|---|---|---|"]
    for name, system in SYSTEMS.items():
        rows.append(
            f"| [{name}](../examples/{name}): {system['what']} | {system['patch']} | "
            f"{program(name, 'before', BEFORE)} | {program(name, 'after', AFTER)} | "
            f"{counted(ROOT / 'examples' / name / 'defib.yaml')} | {system['goes']} |")
    return "\n".join(rows) + "\n"


def again(folder):
    """Compare the numbers above with the documents in this directory."""
    wrong = [f"{name}: {patch(system, folder)} lines, not {system['patch']}"
             for name, system in SYSTEMS.items() if patch(system, folder) != system["patch"]]
    print("\n".join(wrong or ["the documents have as many lines"]))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--documents", type=pathlib.Path)
    args = parser.parse_args()
    if args.documents:
        return again(args.documents)
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    new = before + BEGIN + table() + END + rest.partition(END)[2]
    if args.write:
        PAGE.write_text(new)
    elif args.check and new != text:
        print(f"{PAGE.name} has another table: run scripts/project/adoption.py --write")
        return 1
    elif not args.check:
        print(table(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
