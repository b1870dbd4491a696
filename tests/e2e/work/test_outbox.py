# SPDX-License-Identifier: Apache-2.0
"""New jobs while the database is unavailable: stored on disk, enqueued once and in order later."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from harness import spools
from harness.http_daemon import serving
from harness.outages import Away, begin_again
from harness.waiting import eventually, patience

CONFIG = """
databases:
  - name: main
    url: {url}
http:
  spool: {spool}
"""


@pytest.fixture
def away(queue):
    own = Away(queue)
    yield own
    own.end()
    if own.wire:
        own.wire.close()


def kept(ran):
    assert ran.code == 0, ran.err
    assert ran.out == "spooled\n"
    assert len(ran.err.splitlines()) == 1 and "kept in" in ran.err
    return True


# ---- the command ----

@pytest.mark.covers("A14")
def test_jobs_are_kept_while_the_database_is_away_and_go_in_first_when_it_is_back(away):
    with away.now():
        for n in range(3):
            kept(away.enqueue(json.dumps({"n": n})))
        assert away.waits()
    assert away.payloads() == []
    ran = away.enqueue('{"n": 3}')
    assert ran.code == 0 and ran.out.strip().isdigit() and ran.err == ""
    assert away.numbers() == [0, 1, 2, 3]
    assert not away.waits()


def test_a_job_for_an_old_primary_is_kept(away):
    """The spool remembers a later timeline of this cluster: the server came back after a failover
    and would acknowledge a job that the new primary never sees."""
    if away.db.engine == "sqlite":
        pytest.skip("a file has no timelines")
    assert away.enqueue('{"n": 0}').out.strip().isdigit()
    file = away.spool / "timelines"
    cluster, number = file.read_text().split()
    file.write_text(f"{cluster} {int(number) + 1}\n")
    ran = away.enqueue('{"n": 1}')
    assert ran.out == "spooled\n" and "it is an old primary that came back" in ran.err
    assert away.numbers() == [0]
    file.unlink()
    away.enqueue('{"n": 2}')
    assert away.numbers() == [0, 1, 2]


@pytest.mark.covers("A14")
def test_a_kept_job_has_a_token_that_leads_to_it(away):
    with away.now():
        said = away.enqueue('{"n": 1}', "--json").json
    assert said["spooled"] is True
    away.enqueue('{"n": 2}')
    (jobs,), = away.db.sql(f"SELECT jobs FROM {away.queue.table('enqueued')} WHERE token = %s",
                           said["token"])
    first = away.queue.all("id")[0][0]
    assert (json.loads(jobs) if isinstance(jobs, str) else jobs) == [first]


@pytest.mark.covers("A14")
def test_many_are_kept_too_and_both_are_counted(away):
    away.queue.program.dir.joinpath("n.jsonl").write_text(
        "".join(f'{{"n": {n}}}\n' for n in range(1500)))
    with away.now():
        ran = away.enqueue("--bulk", "n.jsonl")
        assert (ran.code, ran.out) == (0, "0 jobs enqueued, 1500 spooled\n")
        assert len(ran.err.splitlines()) == 1
    ran = away.enqueue("--bulk", "n.jsonl", "--json")
    assert ran.json == {"enqueued": 1500, "spooled": 0}
    assert away.numbers() == [*range(1500), *range(1500)]


def test_everything_that_was_said_of_a_job_is_kept(away):
    with away.now():
        kept(away.enqueue('{"n": 1}', "--priority", "7", "--delay", "1h", "--unique-key", "k",
                          "--max-attempts", "2", "--timeout", "90s", "--tags", "a,b"))
    away.enqueue('{"n": 2}')
    row = away.queue.all("priority, state, unique_key, max_attempts, timeout_ms")[0]
    assert row == (7, "scheduled", "k", 2, 90000)


def test_without_a_spool_it_fails_and_says_what_would_help(away):
    with away.now():
        ran = away.queue.program("enqueue", "default", "test", db=away.url)
    assert ran.code != 0 and ran.out == ""
    assert "--spool DIR keeps new jobs until the database is back" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_what_is_wrong_is_not_kept(away):
    """Only what may succeed later unchanged: bad JSON, and a queue without tables, are errors."""
    ran = away.enqueue("{")
    assert ran.code == 2 and "not JSON" in ran.err
    away.db.sql("DROP TABLE defib.job CASCADE" if away.db.engine == "postgres" else
                "DROP TABLE defib_job")
    ran = away.enqueue("{}")
    assert ran.code != 0 and "defib init" in ran.err
    assert not away.waits()


def test_a_folder_of_another_database_is_refused(away, tmp_path):
    ran = away.queue.program("enqueue", "q", "k", "--spool", away.spool,
                             db=f"sqlite:{tmp_path}/nowhere.db")
    kept(ran)
    ran = away.enqueue("{}")
    assert ran.code == 2 and "its own spool directory" in ran.err
    assert away.queue.all("id") == [] and away.waits()


@pytest.mark.covers("A14")
def test_an_exhausted_pool_is_away(pg_queue):
    """The role has as many sessions as it may have: SQLSTATE 53300, for real."""
    queue, db = pg_queue, pg_queue.db
    role = f"app_{db.name}"
    db.sql(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    try:
        db.sql(f"GRANT USAGE ON SCHEMA defib TO {role}")
        db.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA defib TO {role}")
        db.sql(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA defib TO {role}")
        own = Away(queue)
        own.wire.close()
        own.url = db.server.url(db.name, role)
        holder = db.server.connect(db.name, role)
        try:
            ran = own.enqueue('{"n": 1}')
            kept(ran)
            assert "too many connections" in ran.err
        finally:
            holder.close()
        # The server forgets the session a moment after its client has left.
        eventually(lambda: own.enqueue('{"n": 2}').out != "spooled\n")
        numbers = own.numbers()
        assert numbers[0] == 1 and set(numbers[1:]) == {2}
    finally:
        db.sql(f"DROP OWNED BY {role}")
        db.sql(f"DROP ROLE {role}")


@pytest.mark.covers("A14")
def test_a_commit_whose_answer_is_lost_is_kept_and_goes_in_once(pg_queue, wire):
    own = Away(pg_queue)
    own.wire.close()
    own.wire, own.url = wire, wire.url(pg_queue.db)
    wire.loses = lambda sent: b"COMMIT" in sent
    child = own.queue.program.start("enqueue", "default", "test", '{"n": 1}', "--spool", own.spool,
                                    db=own.url)
    try:
        assert wire.held.wait(patience())
        wire.loses = None
        wire.cut()
        out, err = child.communicate(timeout=patience())
    finally:
        child.kill()
        child.wait()
    assert (child.returncode, out) == (0, "spooled\n"), err
    assert own.enqueue('{"n": 2}').code == 0
    assert own.numbers() == [1, 2]


# ---- killed in the middle ----

@pytest.mark.covers("A14")
def test_a_drain_that_is_killed_anywhere_loses_nothing_and_puts_nothing_in_twice(away):
    """Drains are killed one after the other, each at whatever moment it is in."""
    many = away.queue.program.dir / "many.jsonl"
    many.write_text("".join(f'{{"n": {n}}}\n' for n in range(1000)))
    with away.now():
        for _ in range(2):
            assert away.enqueue("--bulk", many).code == 0
        for n in range(4):
            kept(away.enqueue(json.dumps({"n": 1000 + n})))
    for n in range(6):
        child = away.queue.program.start("enqueue", "default", "last", "--spool", away.spool,
                                         db=away.url)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.01 * (n + 1))
        child.kill()
        child.wait()
        if not away.waits():
            break
    assert away.enqueue('{"n": 9999}').code == 0
    assert away.numbers() == [*range(1000)] * 2 + [*range(1000, 1004)] + [9999]


# ---- who drains ----

@pytest.mark.covers("A14")
def test_a_worker_drains_what_waits_when_it_starts(away):
    with away.now():
        for n in range(3):
            kept(away.enqueue(json.dumps({"n": n})))
    worker = away.queue.drain("--spool", away.spool, url=away.url)
    assert "enqueued stored jobs" in worker.log
    assert away.numbers() == [0, 1, 2]
    assert away.queue.all("state, epoch") == [("done", 1)] * 3


@pytest.mark.covers("A14")
def test_a_running_worker_drains_it_when_the_database_is_back(away):
    worker = away.queue.work("--spool", away.spool, "--lease", "10m", "--poll", "100ms",
                             url=away.url)
    with away.now(used=True):
        for n in range(2):
            kept(away.enqueue(json.dumps({"n": n})))
    eventually(lambda: away.queue.all("state, epoch") == [("done", 1)] * 2)
    assert away.numbers() == [0, 1]
    assert not away.waits()
    assert worker.stop() == 0


def test_a_worker_cannot_have_the_name_of_the_folder(away):
    ran = away.queue.program("work", "--name", "new", "--", "true", db=away.url)
    assert ran.code == 2 and "another name" in ran.err


@pytest.mark.covers("A14")
def test_what_is_refused_for_ever_is_kept_aside_and_told(away):
    if away.db.engine == "postgres":
        away.db.sql("ALTER TABLE defib.job ADD CHECK (kind <> 'bad')")
    else:
        away.db.sql("CREATE TRIGGER no_bad BEFORE INSERT ON defib_job WHEN new.kind = 'bad' BEGIN "
                    "SELECT raise(ABORT, 'not this'); END")
    with away.now():
        kept(away.enqueue('{"n": 1}'))
        kept(away.queue.program("enqueue", "default", "bad", '{"to": "ann"}', "--spool",
                                away.spool, db=away.url))
        kept(away.enqueue('{"n": 2}'))
    worker = away.queue.drain("--spool", away.spool, url=away.url)
    assert away.numbers() == [1, 2]
    line, = [line for line in worker.log.splitlines() if "critical" in line]
    assert "refuses new jobs" in line and "ann" in line
    assert b"ann" in spools.texts(away.spool / "new" / "refused")[0]


# ---- over HTTP ----

@pytest.mark.covers("A14")
def test_over_http_jobs_are_answered_202_and_go_in_when_the_database_is_back(away, tmp_path):
    folder = tmp_path / "web"
    folder.mkdir()
    path = "/api/v1/queues/default/jobs"
    config = CONFIG.format(url=away.url, spool=away.spool)
    with serving(folder, config) as web:
        eventually(web.ready)
        assert web.post(path, {"kind": "test", "payload": {"n": 0}}).status == 201
        with away.now(used=True):
            for n in (1, 2):
                got = web.post(path, {"kind": "test", "payload": {"n": n}})
                assert got.status == 202, got.text
                assert got.json["spooled"] is True and len(got.json["token"]) == 32
            many = {"jobs": [{"kind": "test", "payload": {"n": n}} for n in (3, 4)]}
            assert web.post(path, many).status == 202
            assert web.post(path, {"kind": 5}).status == 400
            assert away.payloads() == [{"n": 0}]
        eventually(lambda: len(away.payloads()) == 5)
        eventually(lambda: web.post(path, {"kind": "test", "payload": {"n": 5}}).status == 201)
        numbers = away.numbers()
        assert numbers[:5] == [0, 1, 2, 3, 4] and set(numbers[5:]) == {5}


def test_a_daemon_that_is_killed_leaves_it_to_the_next(away, tmp_path):
    folder = tmp_path / "web"
    folder.mkdir()
    config = CONFIG.format(url=away.url, spool=away.spool)
    path = "/api/v1/queues/default/jobs"
    with contextlib.suppress(AssertionError), serving(folder, config) as web:
        eventually(web.ready)
        away.begin(used=True)
        assert web.post(path, {"kind": "test", "payload": {"n": 1}}).status == 202
        web.daemon.signal(signal.SIGKILL)
        web.daemon.process.wait()
    away.end()
    with serving(folder, config):
        eventually(lambda: away.numbers() == [1])


def test_without_http_spool_it_stays_503(pg_queue, tmp_path):
    away = Away(pg_queue)
    config = CONFIG.format(url=away.url, spool="none").replace("http:\n  spool: none\n", "")
    with contextlib.closing(away.wire), serving(tmp_path, config) as web:
        eventually(web.ready)
        with away.now():
            assert web.post("/api/v1/queues/default/jobs", {"kind": "test"}).status == 503
        assert away.queue.all("id") == []


# ---- the folder


@pytest.fixture(params=["link", "link-slash", "stranger", "everybody", "group"])
def foreign(request, tmp_path):
    """A folder that is not ours to keep jobs in, and the word for why."""
    real, named = tmp_path / "real", tmp_path / "named"
    real.mkdir()
    if request.param.startswith("link"):
        named.symlink_to(real)
        return f"{named}/" if request.param == "link-slash" else str(named), "symbolic link"
    if request.param == "everybody":
        real.chmod(0o777)
        return str(real), "every user"
    if request.param == "group":
        real.chmod(0o770)
        return str(real), "its group"
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    shutil.chown(real, "nobody")
    return str(real), "another user"


def test_a_spool_folder_of_others_is_refused_in_one_line(away, foreign):
    """Other users could read or change what is stored there: new jobs, results, and jobs over HTTP.
    """
    folder, word = foreign
    program, url = away.queue.program, away.url
    for ran in (program("enqueue", "q", "k", "--spool", folder, db=url),
                program("work", "--queue", "q", "--drain", "--spool", folder, "--db", url, "--",
                        "true"),
                program("daemon", "--listen", "127.0.0.1:0",
                        config=CONFIG.format(url=url, spool=folder))):
        assert ran.code not in (0, 1), ran.out
        assert word in ran.err and folder.rstrip("/") in ran.err
        assert len([line for line in ran.err.splitlines() if word in line]) == 1
    assert not list(pathlib.Path(folder).iterdir())


def test_the_folder_of_a_worker_s_own_results_is_looked_at_too(away):
    away.spool.mkdir(mode=0o700)
    (away.spool / "elsewhere").mkdir()
    (away.spool / "mine").symlink_to(away.spool / "elsewhere")
    ran = away.queue.program("work", "--queue", "q", "--name", "mine", "--drain", "--spool",
                             away.spool, "--db", away.url, "--", "true")
    assert ran.code not in (0, 1) and "symbolic link" in ran.err


def test_one_flipped_bit_costs_one_job_and_all_behind_it_go_in_in_order(away):
    with away.now():
        for n in range(5):
            kept(away.enqueue(json.dumps({"n": n})))
    spools.into_file(away.spool / "new")
    file = away.spool / "new" / "spool.db"
    bytes_ = bytearray(file.read_bytes())
    bytes_[bytes_.index(b'{\\"n\\": 2}') + 8] ^= 4
    file.write_bytes(bytes_)
    worker = away.queue.drain("--spool", away.spool, url=away.url)
    assert away.numbers() == [0, 1, 3, 4]
    assert "changed on disk" in worker.log
    assert b'{\\"n\\": 6}' in spools.texts(away.spool / "new" / "refused")[0]
    assert {path.stat().st_mode & 0o777 for path in (away.spool / "new").rglob("*")
            if path.is_file()} == {0o600}


def test_jobs_for_another_database_at_the_address_are_set_aside_and_said(away):
    """Which database it is, the folder knows from the last process that reached it."""
    assert away.enqueue('{"n": 1}').code == 0
    with away.now():
        kept(away.enqueue('{"to": "ann"}'))
    begin_again(away.queue)
    worker = away.queue.drain("--spool", away.spool, url=away.url)
    assert away.numbers() == []
    line, = [line for line in worker.log.splitlines() if "critical" in line]
    assert "another database" in line and "ann" in line
    assert b"ann" in spools.texts(away.spool / "new" / "refused")[0]
    with away.now():
        kept(away.enqueue('{"n": 2}'))
    away.queue.drain("--spool", away.spool, url=away.url)
    assert away.numbers() == [2]
