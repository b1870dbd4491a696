# SPDX-License-Identifier: Apache-2.0
"""What others put in the place of our own files is input, as rows of our tables are: it ends no
program, makes none wait, and nothing of it is recorded as a result or as a job.

The files are those below `--spool` (results of a worker, new jobs, which database was last reached,
timelines), tokens, and the file beside an SQLite database that wakes workers.
"""

import os
import random
import shutil
import sqlite3
import time

import pytest

from harness.http_daemon import serving, token_env
from harness.outages import outage, spooled, up_and_go  # noqa: F401  (a fixture)
from harness.waiting import eventually

pytestmark = [pytest.mark.sanitized, pytest.mark.long]

BYTES = [b"", b"\0" * 70_000, b"\xff\xfe", b"x" * 70_000, b"{",
         b"1 2\n9223372036854775807 9223372036854775807\n-1 -1\n 1\n" + b"9" * 70_000,
         b"0" * 63 + b" 0000000000000000\n", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 5000]
SCRIPTS = ["CREATE TABLE other (x)", "CREATE VIEW record AS SELECT 1 AS number",
           "CREATE TABLE record (number); INSERT INTO record VALUES (1)",
           "CREATE TABLE record (x); CREATE TABLE name (y)", "PRAGMA user_version = 99",
           "PRAGMA application_id = 7; CREATE TABLE a (b)"]
# In a file that is ours otherwise.
CHANGES = ["DROP TABLE record", "DROP TABLE name", "ALTER TABLE record ADD COLUMN more",
           "CREATE TRIGGER t AFTER DELETE ON record BEGIN INSERT INTO record SELECT * FROM record; END",
           "CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END",
           "UPDATE record SET bytes = x'00'", "UPDATE record SET database = ''", "DELETE FROM name",
           "UPDATE record SET number = -number", "UPDATE record SET id = 'x'",
           "UPDATE record SET bytes = CAST(replace(CAST(bytes AS text), '\"epoch\":1', "
           "'\"epoch\":2') AS blob)"]


def databases():
    """Each change of a spool's file, as a function that makes it."""
    def script(text, anew):
        def change(file):
            if anew:
                file.unlink(missing_ok=True)
            session = sqlite3.connect(file)
            try:
                session.executescript(text)
            except sqlite3.Error:
                pass  # a constraint of ours
            session.close()
        return change

    def flip(seed):
        def change(file):
            draw, text = random.Random(seed), bytearray(file.read_bytes())
            for _ in range(40):
                text[draw.randrange(len(text))] = draw.randrange(256)
            file.write_bytes(text)
        return change
    return [script(text, True) for text in SCRIPTS] + [script(text, False) for text in CHANGES] + \
        [flip(seed) for seed in range(4)] + [lambda file: os.truncate(file, 5000)]


def strange():
    """What is no file."""
    def fifo(file):
        os.mkfifo(file)

    def link(file):
        file.symlink_to("/dev/zero")
    return [fifo, link, lambda file: file.mkdir()]


def replaced(file, change):
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    for one in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
        one.unlink(missing_ok=True)
    change(file)


def cases(original):
    """Each way to put something else in the place of a file with these bytes."""
    kept = original.read_bytes() if original.is_file() else b""

    def written(text):
        return lambda file: file.write_bytes(text)

    def of_ours(change):
        def made(file):
            file.write_bytes(kept)
            change(file)
        return made
    if original.name == "lock":  # nobody reads it
        return strange()
    every = [written(text) for text in BYTES] + strange()
    if original.suffix == ".db":
        every += [of_ours(change) for change in databases()]
    return every


def rounds(folder, names):
    """Each file with each of its cases, and all files at once: one program reads several."""
    locks = [name for name in names if name.name == "lock"]
    yield from ([(name, case)] for name in locks for case in cases(folder / name))
    of = {name: cases(folder / name) for name in names if name not in locks}
    for number in range(max(len(each) for each in of.values())):
        yield [(name, each[(number + 7 * place) % len(each)])
               for place, (name, each) in enumerate(of.items())]


def runs_well(ran):
    assert 0 <= ran.code <= 6, ran
    assert "Sanitizer" not in ran.err and "runtime error" not in ran.err, ran.err[-5000:]


@pytest.fixture
def spool(queue, outage):  # noqa: F811
    """A folder with every file, after an outage: a result and a new job wait in it."""
    folder = queue.program.dir / "spool"
    options = ("--name", "anna", "--spool", folder)
    queue.program("enqueue", "none", "k", "--delay", "1d", "--spool", folder, db=outage.url)
    queue.enqueue("--max-attempts", "9")
    worker = queue.work(*options, "--lease", "10m", url=outage.url,
                        run='touch up; await go; echo "\\"spooled\\"" >&3')
    up_and_go(queue)
    outage.begin()
    (queue.program.dir / "go").touch()
    eventually(lambda: spooled(queue, "anna"))
    worker.kill()
    ran = queue.program("enqueue", "none", "kept", "--delay", "1d", "--spool", folder, db=outage.url)
    assert ran.out == "spooled\n", ran
    outage.end()
    return folder


def files(folder):
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in found if not path.name.endswith(("-wal", "-shm"))]


def checkpoint(folder):
    for file in folder.rglob("spool.db"):
        session = sqlite3.connect(file)
        session.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        session.close()


def stranger(queue):
    """A worker that lives as long as the test."""
    if queue.db.engine == "postgres":
        return queue.db.sql("SELECT defib.register('stranger', 'test/stranger', 3600000)")[0][0]
    now, hour = int(time.time() * 1000), 3_600_000
    queue.db.sql("INSERT INTO defib_worker (id, name, incarnation, started_at, renewed_at, lease_ms, "
                 "expires_at) VALUES (9000000000000, 'stranger', 'test/stranger', %s, %s, %s, %s)",
                 now, now, hour, now + hour)
    return 9000000000000


@pytest.mark.parametrize("db", ["postgres"], indirect=True)
def test_files_below_a_spool(queue, spool):
    checkpoint(spool)
    whole = queue.program.dir / "whole"
    shutil.copytree(spool, whole)
    names = [path.relative_to(spool) for path in files(spool)]
    assert {"spool.db", "database"} <= {name.name for name in names}, names
    # The job runs elsewhere now: whatever is in the spool, nothing of it is that run's end.
    job, = queue.all("id", "queue = 'default'")[0]
    queue.db.sql(f"UPDATE {queue.table('job')} SET state = 'running', epoch = 2, owner = %s "
                 "WHERE id = %s", stranger(queue), job)
    was = queue.one(job, "state, owner, epoch")
    for changes in rounds(whole, names):
        shutil.rmtree(spool)
        shutil.copytree(whole, spool)
        for name, change in changes:
            replaced(spool / name, change)
        runs_well(queue.program("enqueue", "none", "new", "--delay", "1d", "--spool", spool,
                                db=queue.db))
        runs_well(queue.program("work", "--queue", "nothing", "--drain", "--name", "anna",
                                "--spool", spool, "--db", queue.url, "--", "true"))
        assert queue.one(job, "state, owner, epoch") == was, changes
        assert queue.result(job) is None
    kinds = {kind for kind, in queue.all("kind")}
    assert kinds <= {"test", "k", "kept", "new"}, kinds


def test_the_file_that_wakes_workers(lite, defib, with_tables):
    wake = lite.path.with_name(lite.path.name + ".defib-wake")
    for n, change in enumerate(strange()):
        replaced(wake, change)
        runs_well(defib("enqueue", "q", "k", db=lite))
        runs_well(defib("work", "--queue", "q", "--drain", "--spool", "off", "--db", lite.url, "--",
                        "true"))
        assert lite.sql("SELECT count(*) FROM defib_job WHERE state = 'done'") == [(n + 1,)]


def test_files_of_tokens(lite, defib, with_tables):
    file = defib.dir / "token"
    config = (f'databases: [{{name: main, url: "{lite.url}"}}]\n'
              f"http: {{tokens: [{{role: admin, name: a, file: {file}}}]}}\n")
    for text in BYTES:
        file.write_bytes(text)
        runs_well(defib("daemon", "--listen", "127.0.0.1:0", config=config, env=token_env()))
    file.write_bytes(b"0123456789abcdef0123456789abcdef\n\xff\0")
    with serving(defib.dir, config) as web:
        assert web.ask("GET", "/api/v1/status", headers={
            "Authorization": "Bearer 0123456789abcdef0123456789abcdef"}).status == 200
