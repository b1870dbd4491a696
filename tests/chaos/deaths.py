# SPDX-License-Identifier: Apache-2.0
"""One scene, played again from the same state with a death at another system call each time.

A scene is a database as it was when the scene begins, its spool, and a command: the victim, run
under die_at.c. After its death an ordinary worker finishes what is left. Bookkeepers are the
file that jobs write (chaos_job.c), a trigger's history, and what enqueuers were told; the queries
of invariants.py compare them.
"""

import collections
import os
import pathlib
import random
import shutil
import subprocess
import time

from books import Books
from harness import invariants
from harness.databases import LiteDatabase, PgDatabase
from harness.queue_workers import Queue
from harness.waiting import eventually, patience

HERE = pathlib.Path(__file__).parent
LEASE = "600ms"
FINAL_S = 60
NO_DATABASE = 4  # an exit code
# Deaths a scene: as many as are named, spread over all its calls; 0 is one at every call.
DEATHS = int(os.environ.get("DEFIB_DEATHS", "120"))


def build_die_at(folder):
    program = folder / "die_at"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program,
                    HERE / "die_at.c"], check=True)
    return program


class LiteStage:
    """A database in a file; the scene's state is a copy of it."""

    def __init__(self, folder):
        self.path = folder / "chaos.db"
        self.model = folder / "model.db"
        self.db = LiteDatabase(self.path)

    def files(self):
        return [self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm")]

    def keep(self):
        self.db.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        self.db.drop()
        shutil.copy(self.path, self.model)

    def restore(self):
        self.db.drop()
        for path in self.files():
            path.unlink(missing_ok=True)
        shutil.copy(self.model, self.path)
        self.db = LiteDatabase(self.path)
        return self.db

    def away(self):
        self.holder = self.db.connect()
        self.holder.execute("BEGIN IMMEDIATE")

    def back(self):
        self.holder.execute("ROLLBACK")
        self.holder.close()

    def close(self):
        self.db.drop()


class PgStage:
    """A database of a server; the scene's state is the template of all others.

    Its name stays: a spool belongs to the database of one address.
    """

    def __init__(self, server):
        self.server = server
        self.db = PgDatabase(server, name="chaos")

    def admin(self, *statements):
        session = self.server.connect()
        try:
            for statement in statements:
                session.cursor().execute(statement)
        finally:
            session.close()

    def keep(self):
        self.db.hang_up()
        self.admin("DROP DATABASE IF EXISTS model WITH (FORCE)")
        eventually(self.renamed)

    def renamed(self):
        self.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                   "WHERE datname = 'chaos'")
        try:
            self.admin("ALTER DATABASE chaos RENAME TO model")
        except Exception as why:  # a session that has just been ended
            if "being accessed" not in str(why):
                raise
            return False
        return True

    def restore(self):
        self.db.hang_up()
        self.admin("DROP DATABASE IF EXISTS chaos WITH (FORCE)",
                   f"CREATE DATABASE chaos TEMPLATE model {self.server.copy_strategy()}")
        return self.db

    def away(self):
        self.db.hang_up()
        self.admin("ALTER DATABASE chaos ALLOW_CONNECTIONS false",
                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                   "WHERE datname = 'chaos'")

    def back(self):
        self.admin("ALTER DATABASE chaos ALLOW_CONNECTIONS true")

    def close(self):
        self.db.hang_up()
        self.admin("DROP DATABASE IF EXISTS chaos WITH (FORCE)",
                   "DROP DATABASE IF EXISTS model WITH (FORCE)")


class Scene(Books):
    """play(): the scene once for each death; what the bookkeepers found wrong raises."""

    runs_most = 2     # one that died and one retry

    def __init__(self, defib, stage, folder):
        super().__init__(defib.bin, stage.db, folder)
        self.stage, self.defib = stage, defib
        self.die_at = build_die_at(folder)
        self.spool = folder / "spool"
        self.log = folder / "victim.log"
        self.leaving = folder / "leaving"
        self.calls = 0
        self.died = collections.Counter()

    # ---- what scenes say for themselves

    def set_up(self):
        """The state in which the scene begins."""
        assert self.put(3).returncode == 0

    def counts_from(self):
        return "start"

    def victim(self):
        return self.work_argv("--drain")

    def job(self):
        return [self.program]

    def play_victim(self, child):
        """What happens while it runs; the scene is over when it has ended."""
        child.wait(patience())

    def finish(self):
        """After the death: ordinary workers, until everything is final and the dead are known."""
        limit = patience(FINAL_S)
        end = time.monotonic() + limit
        self.finishers = []
        while True:
            done = subprocess.run(self.work_argv("--drain"), env=self.env, cwd=self.folder,
                                  capture_output=True, text=True, timeout=limit, check=False)
            # 4: no answer from the database in time, as on a busy machine; a supervisor starts again.
            self.finishers.append(f"exit {done.returncode}:\n{done.stderr}")
            assert done.returncode in (0, 4), done.stderr
            if self.is_final() and not self.sql(invariants.ALIVE):
                return
            assert time.monotonic() < end, f"not final within {limit:.0f} s:\n{done.stderr}"

    # ---- parts of scenes

    def work_argv(self, *options, job=None):
        return [str(word) for word in (
            self.bin, "work", "--db", self.db.url, "--queue", "chaos", "--name", "anna",
            "--lease", LEASE, "--poll", "100ms", "--crash-budget", "off", "--concurrency", 3,
            "--pass-environment", "CHAOS_SEED", "--pass-environment", "CHAOS_EFFECTS",
            "--spool", self.spool, *options, "--", *(job or self.job()))]

    # ---- the play

    def prepare(self):
        self.effects.write_text("")
        Queue(self.defib, self.db)
        self.open()
        self.set_up()
        self.stage.keep()
        self.kept = self.effects.read_text(), dict(self.sent)
        self.spool_model = self.folder / "spool.model"
        if self.spool.exists():
            self.spool.rename(self.spool_model)

    def restore(self):
        self.db = self.stage.restore()
        self.effects.write_text(self.kept[0])
        self.sent = dict(self.kept[1])
        shutil.rmtree(self.spool, ignore_errors=True)
        if self.spool_model.exists():
            shutil.copytree(self.spool_model, self.spool)

    def once(self, n):
        """Die at call n; the victim's exit status, how many calls it made, the last one."""
        self.restore()
        self.leaving.unlink(missing_ok=True)
        counted = self.folder / "counted"
        with open(self.log, "wb") as log:
            child = subprocess.Popen([str(self.die_at), str(n), str(self.counts_from()), str(counted),
                                      *self.victim()], env=self.env, cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.play_victim(child)
        finally:
            child.kill()
            child.wait()
        calls, last = counted.read_text().split()
        return child.returncode, int(calls), last

    def found_wrong(self):
        """Claims are not counted: a job that was lost twice may be claimed beside others, is then
        handed back, and claimed again to run alone."""
        found = super().found_wrong()
        rows = self.sql("SELECT job, count(*) FROM chaos_effect GROUP BY job "
                        f"HAVING count(*) > {self.runs_most}")
        return found + ([f"more than one retry: {rows}"] if rows else [])

    def check(self, n, last):
        self.finish()
        found = self.found_wrong()
        assert not found, (f"killed at call {n}, {last}:\n" + "\n".join(found) +
                           f"\n{self.log.read_text()}\n{self.effects.read_text()}\n" +
                           "\n".join(self.finishers) + "\n" +
                           "\n".join(map(str, self.sql("SELECT * FROM chaos_history ORDER BY at")))
                           + "\n" +
                           "\n".join(map(str, self.sql("SELECT * FROM chaos_worker ORDER BY at"))))

    def chosen(self):
        """Which calls: all, or some of every part of the scene."""
        if not DEATHS or DEATHS >= self.calls:
            return range(1, self.calls + 1)
        draw, width = random.Random(), self.calls / DEATHS
        return sorted({1 + int(width * (i + draw.random())) for i in range(DEATHS)})

    def play(self):
        self.prepare()
        code, self.calls, last = self.once(0)
        assert code == 0, self.log.read_text()
        self.check(0, last)
        for n in self.chosen():
            code, calls, last = self.once(n)
            # It may have fewer calls this time: then it has ended as it should, or the machine was
            # too busy for the deadline of its session.
            assert (code, calls) == (128 + 9, n) or (code in (0, NO_DATABASE) and calls < n), (
                n, code, calls, self.log.read_text())
            self.died[last] += code == 128 + 9
            self.check(n, last)
        print(f"{type(self).__name__} on {self.db.engine}: {self.calls} calls, "
              f"{sum(self.died.values())} deaths: {dict(self.died)}", flush=True)
        return sum(self.died.values())
