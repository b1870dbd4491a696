# SPDX-License-Identifier: Apache-2.0
"""Scripts that `defib sql` prints, run as printed."""

import subprocess

from harness.waiting import patience

def run_script(db, script, folder):
    """The script in the database's own shell; its output."""
    path = folder / "watch.sql"
    path.write_text(script)
    if db.engine == "postgres":
        argv = ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-At", "-f", path, db.url]
        given = None
    else:
        argv = ["sqlite3", "-batch", "-bail", db.path]
        given = script
    ran = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=patience())
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout


def dump(db):
    """Every row of every table of the user's and of ours."""
    if db.engine == "postgres":
        tables = db.sql("SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
                        " WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1")
    else:
        tables = db.sql("SELECT '\"' || replace(name, '\"', '\"\"') || '\"' FROM sqlite_master"
                        " WHERE type = 'table' ORDER BY 1")
    return {name: db.sql(f"SELECT * FROM {name} ORDER BY 1") for name, in tables}
