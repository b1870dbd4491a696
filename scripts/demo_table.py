#!/usr/bin/python3
"""demo_table.py make|show|ledger|queue|state: the tables of the demonstration, here."""

import sqlite3
import sys

COLUMNS = "id, url, page_processing_status, page_processing_error, updated_at"
PAGES = [
    ("https://example.com/pricing", "Complete", "-3 hours"),
    ("https://example.com/careers", "Processing", "-2 hours"),
    ("https://example.com/about", "Processing", "-5 minutes"),
    ("https://example.com/blog/42", "Processing", "-26 hours"),
    ("https://example.com/contact", "Queued", "-9 hours"),
]


def make(db):
    db.execute(
        "CREATE TABLE pages (id INTEGER PRIMARY KEY, url TEXT, page_processing_status TEXT,"
        " page_processing_error TEXT, updated_at TEXT)"
    )
    db.executemany(
        "INSERT INTO pages (url, page_processing_status, updated_at)"
        " VALUES (?, ?, datetime('now', ?))",
        PAGES,
    )
    db.commit()


def show(db, query):
    cursor = db.execute(query)
    rows = [[column[0] for column in cursor.description]]
    rows += [["" if cell is None else str(cell) for cell in row] for row in cursor]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    what = sys.argv[1]
    db = sqlite3.connect("queue.db" if what in ("queue", "state") else "jobs.db")
    if what == "state":
        print(db.execute("SELECT state FROM defib_job").fetchone()[0])
    elif what == "queue":
        show(db, "SELECT id, kind, state, attempts, crashes, epoch FROM defib_job")
        show(db, "SELECT job, event, verdict, rule, actor FROM defib_ledger")
    elif what == "make":
        make(db)
    elif what == "show":
        show(db, f"SELECT {COLUMNS} FROM pages ORDER BY id")
    else:
        show(db, "SELECT at, job, event, verdict, rule, actor, batch FROM defib_ledger")


main()
