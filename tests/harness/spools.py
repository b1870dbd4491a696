# SPDX-License-Identifier: Apache-2.0
"""What waits in the spools below a folder, read while their owners have them."""

import pathlib
import shutil
import sqlite3
import tempfile


def texts(folder):
    """The records of all spools, in order: a copy is read, because their owners lock them."""
    found = []
    for file in sorted(pathlib.Path(folder).rglob("spool.db")):
        with tempfile.TemporaryDirectory() as copy:
            for part in (file, file.with_name("spool.db-wal")):
                if part.exists():
                    shutil.copy(part, copy)
            session = sqlite3.connect(f"{copy}/spool.db")
            try:
                found += session.execute("SELECT bytes FROM record ORDER BY number").fetchall()
            except sqlite3.DatabaseError:
                pass  # copied while it was written: ask again
            finally:
                session.close()
    return [text for text, in found]


def records(folder):
    return len(texts(folder))


def into_file(folder):
    """All of a spool that no process has into its file: its log is empty then."""
    session = sqlite3.connect(folder / "spool.db")
    session.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    session.close()
