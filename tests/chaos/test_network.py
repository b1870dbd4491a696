# SPDX-License-Identifier: Apache-2.0
"""Packets that vanish between network namespaces: some of them, all in one direction, or all."""

import os
import re
import signal
import subprocess
import time

import pytest

from books import Books
from harness import stuck_jobs
from harness.daemon import Daemon
from harness.databases import PgDatabase
from harness.queue_workers import Queue, up_for
from harness.waiting import eventually, patience
from net import Cable, need_namespaces, server_for
from results import note

pytestmark = pytest.mark.proof

LEASE_S = 6


class Net:
    """A server, a cable for each of two hosts, the queue and its books."""

    def __init__(self, defib, folder):
        self.server = self.queue = None
        self.cables = []
        for _ in range(2):
            self.cables.append(Cable())
        self.server = server_for(self.cables)
        self.db = PgDatabase(self.server)
        self.queue = Queue(defib, self.db)
        self.books = Books(defib.bin, self.db, folder)
        self.books.open()
        self.plain = defib._argv
        self.far = []
        self.defib = defib
        up_for(self.db, LEASE_S + 1)

    def url(self, cable):
        return re.sub(r"@127\.0\.0\.1:", f"@{cable.here}:", self.db.url)

    def command(self, cable, *args):
        """A command at the other end of a cable; what it was, and how long it took."""
        begun = time.monotonic()
        argv = cable.argv([str(self.defib.bin), *map(str, args), "--db", self.url(cable)])
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=patience(), check=False,
                             env=self.books.env, cwd=self.defib.dir, stdin=subprocess.DEVNULL)
        return ran, time.monotonic() - begun

    def work(self, cable, name, *options, **more):
        """A worker of the books' jobs at the other end."""
        self.defib._argv = lambda args, db, config: cable.argv(self.plain(args, db, config))
        try:
            worker = self.queue.work(
                "--queue", "chaos", "--name", name, "--lease", f"{LEASE_S}s", "--poll", "200ms",
                "--crash-budget", "off", "--pass-environment", "CHAOS_SEED",
                "--pass-environment", "CHAOS_EFFECTS", "--spool", self.defib.dir / name,
                *options, url=self.url(cable), env=self.books.env, **more)
        finally:
            self.defib._argv = self.plain
        self.far.append(worker)
        return worker

    def watcher(self):
        """One beside the server that works on nothing, and sees all there is to see."""
        return self.queue.work("--queue", "idle", "--name", "near", "--lease", f"{LEASE_S}s")

    def beats(self, name, n):
        """So many renewals of a worker."""
        def stamp():
            return self.db.sql("SELECT renewed_at FROM defib.worker WHERE name = %s "
                               "ORDER BY id DESC LIMIT 1", name)
        for _ in range(n):
            last = stamp()
            eventually(lambda before=last: stamp() != before)

    def dead(self):
        return self.db.sql("SELECT name, cause FROM defib.worker WHERE state = 'dead'")

    def end(self):
        """Everything becomes final, all leave, and the books agree."""
        eventually(self.books.is_final)
        for worker in self.queue.workers:
            # unshare stands before those at the other ends: its child is asked.
            for pid in worker.children() if worker in self.far else [worker.pid]:
                os.kill(pid, signal.SIGTERM)
        for worker in self.queue.workers:
            worker.wait(patience())
        found = self.books.found_wrong()
        assert not found, "\n".join(found)

    def close(self):
        if self.queue:
            self.queue.close()
        if self.server:
            self.server.remove()
        for cable in self.cables:
            cable.remove()


@pytest.fixture
def net(defib, tmp_path):
    need_namespaces()
    own = Net.__new__(Net)
    try:
        own.__init__(defib, tmp_path)
        yield own
    finally:
        own.close()


def test_nearly_a_third_of_all_packets_is_lost(net):
    """Slow: every call ends, nothing is lost and nothing is settled twice.

    A worker may be declared dead whose calls failed for its whole lease, or whose new session
    came later than the grace of a session that is gone; how many were is noted. It lives on.
    """
    net.watcher()
    as_usual = ("--concurrency", "4", "--lease", "15s")
    first = net.work(net.cables[0], "anna", *as_usual, program=[net.books.program])
    net.work(net.cables[1], "bert", *as_usual, program=[net.books.program])
    for cable in net.cables:
        cable.lose(30)
    took = []
    for part in range(10):
        begun = time.monotonic()
        done = subprocess.run(
            net.cables[part % 2].argv([str(net.defib.bin), "enqueue", "chaos", "plain", "--bulk",
                                       "-", "--max-attempts", "20", "--db",
                                       net.url(net.cables[part % 2])]),
            input="".join(f'{{"n": {part * 10 + i}}}\n' for i in range(10)), text=True,
            capture_output=True, check=False, timeout=patience(), env=net.books.env)
        took.append(time.monotonic() - begun)
        net.books.sent.update({part * 10 + i: int(done.returncode == 0) for i in range(10)})
    eventually(net.books.is_final)
    declared = net.dead()
    assert {cause for _, cause in declared} <= {"session gone", "silent"}, first.log
    assert first.process.poll() is None, first.log
    assert sum(net.books.sent.values()) > 0
    for cable in net.cables:
        cable.heal()
    net.end()
    note(__file__, "30 % of packets lost: jobs lost or settled twice", 0, 100)
    note(__file__, "30 % of packets lost: longest enqueue of ten jobs in seconds",
         round(max(took), 1), 10)
    note(__file__, "30 % of packets lost: living workers declared dead", len(declared), 2)


WAYS = {"deaf": Cable.deaf, "mute": Cable.mute, "cut": Cable.cut}


@pytest.mark.parametrize("way", WAYS)
def test_a_partition_shorter_than_the_lease_costs_nothing(net, way):
    """Whichever direction is gone."""
    net.books.put(6)
    net.watcher()
    far = net.work(net.cables[0], "anna", "--concurrency", "3", "--lease", "30s",
                   program=[net.books.program])
    eventually(lambda: net.books.started() > 0)
    WAYS[way](net.cables[0])
    time.sleep(LEASE_S)  # the time of the fault itself
    net.cables[0].heal()
    eventually(net.books.is_final)
    assert net.dead() == [] and net.queue.ledger("REQUEUED") == [], far.log
    net.end()
    note(__file__, f"partition ({way}) shorter than the lease: jobs recovered", 0, 6)


@pytest.mark.parametrize("way", WAYS)
def test_a_partition_longer_than_the_lease_is_one_recovery_and_no_second_settlement(net, way):
    """Who is cut off is fenced when it returns, lives on, and works again."""
    net.books.put(1)
    script = ('echo "start $DEFIB_JOB_ID $DEFIB_EPOCH $$ - $(date +%s%6N)" >>"$CHAOS_EFFECTS"; '
              'if [ "$DEFIB_EPOCH" = 1 ]; then while [ ! -e go ]; do sleep 0.05; done; fi; '
              'echo "end $DEFIB_JOB_ID $DEFIB_EPOCH $$ done $(date +%s%6N)" >>"$CHAOS_EFFECTS"')
    far = net.work(net.cables[0], "anna", program=["/bin/sh", "-c", script])
    eventually(lambda: net.books.started() == 1)
    net.watcher()
    net.beats("near", 4)  # who watches must have heard of it
    begun = time.monotonic()
    WAYS[way](net.cables[0])
    near = net.work(net.cables[1], "bert", program=["/bin/sh", "-c", script])
    eventually(net.books.is_final)
    took = time.monotonic() - begun
    assert took > LEASE_S * 0.6, "recovered while its lease was fresh"
    (net.defib.dir / "go").touch()
    net.cables[0].heal()
    net.books.put(4)
    eventually(net.books.is_final)
    assert far.process.poll() is None, far.log
    assert net.db.sql("SELECT state, epoch, crashes FROM defib.job WHERE id = 1") == [
        ("done", 2, 1)], near.log
    net.end()
    note(__file__, f"partition ({way}) beyond the lease: seconds until another has done the job",
         round(took, 1), 1)


def test_half_open_the_server_s_side_is_gone(net):
    """Its sessions are ended while nothing reaches the worker: it finds out, and keeps its job."""
    net.books.put(3)
    net.watcher()
    far = net.work(net.cables[0], "anna", "--concurrency", "3", "--lease", "60s",
                   program=[net.books.program])
    eventually(lambda: net.books.started() > 0)
    net.cables[0].cut()
    net.db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
               "WHERE client_addr = %s::inet", net.cables[0].there)
    eventually(lambda: net.db.sql("SELECT count(*) FROM pg_stat_activity WHERE client_addr = "
                                  "%s::inet", net.cables[0].there) == [(0,)])
    net.cables[0].heal()
    eventually(net.books.is_final)
    assert net.dead() == [] and net.queue.ledger("REQUEUED") == [], far.log
    net.end()
    note(__file__, "half-open, the server's side gone: jobs recovered", 0, 3)


def test_half_open_the_worker_s_side_is_gone(net):
    """Killed while nothing reaches the server: its session lingers, with its locks, and convicts
    or saves nobody; its job is free when its lease is over."""
    net.books.put(1)
    far = net.work(net.cables[0], "anna", program=["/bin/sh", "-c", (
        'echo "start $DEFIB_JOB_ID $DEFIB_EPOCH $$ - $(date +%s%6N)" >>"$CHAOS_EFFECTS"; '
        'exec sleep 600')])
    eventually(lambda: net.books.started() == 1)
    net.watcher()
    net.beats("near", 4)
    net.cables[0].cut()
    begun = time.monotonic()
    far.kill()
    sessions = net.db.sql("SELECT count(*) FROM pg_stat_activity WHERE client_addr = %s::inet",
                          net.cables[0].there)[0][0]
    assert sessions > 0
    eventually(lambda: net.queue.state(1) == "queued")
    took = time.monotonic() - begun
    net.queue.workers.remove(far)
    net.work(net.cables[1], "bert", program=[net.books.program])
    net.end()
    note(__file__, "half-open, the worker's side gone: seconds until its job is free",
         round(took, 1), 1)


COMMANDS = [("status",), ("list",), ("enqueue", "chaos", "plain", "{}"), ("stats",), ("doctor",),
            ("ledger",), ("scan", "--fix"), ("prune", "--yes"), ("work", "--drain", "--", "true")]


@pytest.mark.parametrize("way", ["mute", "deaf"])
def test_every_command_ends_when_packets_vanish_in_one_direction(net, way):
    """By its own deadline, with one line that says so."""
    WAYS[way](net.cables[0])
    took = []
    for words in COMMANDS:
        ran, seconds = net.command(net.cables[0], *words)
        took.append(seconds)
        assert ran.returncode not in (0, 1), (words, ran.stdout, ran.stderr)
        assert (ran.stdout + ran.stderr).strip(), words
    note(__file__, f"commands with packets dropped one way ({way}): longest in seconds",
         round(max(took), 1), len(took))


@pytest.mark.parametrize("way", WAYS)
def test_a_daemon_that_is_cut_off_is_followed_by_the_other(net, way):
    """Stuck rows that appear meanwhile are freed by the other, and each of them once."""
    stuck_jobs.make(net.db, 50)
    daemons = []
    try:
        net.defib._argv = lambda args, db, config: net.cables[0].argv(
            net.plain(args, db, config))
        first = Daemon(net.defib, stuck_jobs.config(net.url(net.cables[0]), every="300ms"))
        net.defib._argv = net.plain
        daemons.append(first)
        first.wait_log("leads the watch")
        eventually(lambda: stuck_jobs.requeued(net.db) == 50)
        daemons.append(Daemon(net.defib, stuck_jobs.config(net.db, every="300ms")))
        WAYS[way](net.cables[0])
        daemons[1].wait_log("leads the watch", limit=120)
        stuck_jobs.fill(net.db, 50, first=51)
        eventually(lambda: stuck_jobs.requeued(net.db) == 100)
        net.cables[0].heal()
        stuck_jobs.fill(net.db, 50, first=101)
        eventually(lambda: stuck_jobs.requeued(net.db) == 150)
        assert stuck_jobs.agree(net.db) == 150
        assert first.process.poll() is None, first.log
    finally:
        net.defib._argv = net.plain
        for daemon in daemons:
            daemon.kill()
    note(__file__, f"leading daemon cut off ({way}): rows recovered twice", 0, 150)
