# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: another configuration is put in force without a restart, or the old one stays and the log
says why. The state of a watch that remains is kept: its leader, its guard, its counts.
"""

import contextlib
import re
import signal

import pytest

from harness.daemon import AGED, BEATING, Manager, World, config, make_jobs, parse_logfmt
from harness.databases import LiteDatabase
from harness.http_daemon import WebDaemon
from harness.metrics import scrape
from harness.shell_pages import sample
from harness.waiting import eventually

READ, WRONG = ("configuration reloaded",
               "the configuration is invalid; the previous one stays in force")


# Nothing but age: a server that has just come up is no reason to wait.
LATE = AGED.replace("alive_at:", "started_at:").replace("stuck_after:", "overdue_after:")


@pytest.fixture
def world(pg, defib, with_tables):
    own = World(defib, pg)
    yield own
    own.close()


def stuck_rows(world, n, seconds, lane="aged"):
    make_jobs(world.db, n, lanes=[lane])
    world.db.sql("UPDATE jobs SET status = 'running', owner = 'gone', "
                 "beat_at = now() - %s * interval '1 second'", seconds)


def reload(daemon, text=None, says=READ):
    """Another configuration, and the signal to read it; returns once the log says so."""
    if text is not None:
        daemon.config.write_text(text)
    had = len(daemon.lines(says))
    daemon.signal(signal.SIGHUP)
    eventually(lambda: len(daemon.lines(says)) > had or daemon.process.poll() is not None)
    return daemon.lines(says)[-1]


def leaders(world):
    return dict(world.db.sql("SELECT watch, epoch FROM defib.leader WHERE holder IN (SELECT "
                             "holder FROM defib.leader WHERE expires_at > clock_timestamp())"))


@pytest.mark.covers("C5")
def test_interval_and_threshold_of_the_command_line_count_and_outlive_a_reload(world):
    """Without a unit they are seconds, as a crontab has them."""
    stuck_rows(world, 3, seconds=600)
    slow = config(world.url, LATE, stuck=3600, every="1h")
    daemon = WebDaemon(world.program, slow, "--no-queue", "--interval", "1", "--threshold", "120")
    world.daemons.append(daemon)
    web = daemon.web()
    eventually(lambda: world.count("status = 'queued'") == 3)
    world.db.sql("UPDATE jobs SET status = 'running', beat_at = now() - interval '10 minutes' "
                 "WHERE id = 1")
    reload(daemon, slow)
    eventually(lambda: world.count("status = 'queued'") == 3)
    daemon.wait_passes("aged", 2)
    assert scrape(web).get("defib_pass_every_seconds", watch="aged") == 1
    values = {v["path"]: (v["value"], v["origin"])
              for v in web.get("/api/v1/config").json}
    assert values["watches.aged.every"] == ("1s", "command line")
    assert values["watches.aged.overdue_after"] == ("2m", "command line")
    assert daemon.stop() == 0


@pytest.mark.covers("C5", "C7")
@pytest.mark.parametrize("options, code, says", [
    (["--interval", "0"], 2, "--interval of a daemon must be more than 0s"),
    (["--interval", "often"], 2, "--interval expects a duration"),
    (["--threshold", "-1"], 2, "--threshold expects a duration"),
    (["--threshold", "3"], 5, "a threshold under twice its beat of 2s"),
    (["--threshold", "0", "aged"], 5, "a threshold of 0s would make every running row stuck"),
    (["--threshold", "60", "--work"], 2, "set stuck_after in the configuration"),
])
def test_times_of_the_command_line_that_cannot_be_are_refused_in_one_line(
        lite, defib, options, code, says):
    ran = defib("daemon", "--no-queue", *options, config=config(lite.url))
    assert ran.code == code and says in ran.err, ran.err
    assert len(ran.err.splitlines()) == 1, ran.err


@pytest.mark.covers("C11", "A4")
def test_another_threshold_is_in_force_without_a_restart(world):
    stuck_rows(world, 3, seconds=600)
    quiet = config(world.url, LATE, stuck=3600)
    daemon = world.daemon(quiet, "--no-queue")
    daemon.wait_passes("aged", 2)
    led = "SELECT watch, holder, epoch, since FROM defib.leader"  # since: also if it leads anew
    before = world.db.sql(led)
    assert world.count("status = 'running'") == 3
    reload(daemon, quiet.replace("overdue_after: 3600s", "overdue_after: 60s"))
    eventually(lambda: world.count("status = 'queued'") == 3)
    assert world.db.sql(led) == before != [], "a reload is no reason to lead anew"
    assert daemon.stop() == 0


@pytest.mark.covers("C11")
def test_another_remedy_and_interval_are_in_force_for_the_next_pass(world):
    stuck_rows(world, 2, seconds=600)
    text = config(world.url, LATE, stuck=3600, every="1h")
    daemon = world.daemon(text, "--no-queue")
    daemon.wait_passes("aged", 1)
    text = text.replace("after: 3600s", "after: 60s").replace("every: 1h", "every: 1s")
    reload(daemon, text.replace("status = 'queued', owner", "status = 'again', owner"))
    eventually(lambda: world.count("status = 'again'") == 2)
    daemon.wait_passes("aged", 2)
    assert daemon.stop() == 0


def test_a_wrong_configuration_changes_nothing_and_is_told_with_its_place(world):
    stuck_rows(world, 2, seconds=600)
    text = config(world.url, LATE, stuck=3600)
    daemon = world.daemon(text, "--no-queue")
    daemon.wait_passes("aged", 1)
    line = reload(daemon, text.replace("after: 3600s", "after: soon"), WRONG)
    assert list(line)[1:] == list(dict(parse_logfmt(sample("daemon.md", "level=error"))))
    number = 1 + text[:text.index("overdue_after")].count("\n")
    assert re.search(rf"{daemon.config.name}:{number}:\d+: .*soon", line["because"]), line
    assert daemon.lines(READ) == []
    daemon.wait_passes("aged", 2)
    assert reload(daemon, "watches: [", WRONG)["because"].startswith(str(daemon.config))
    daemon.config.unlink()
    assert "daemon" in reload(daemon, says=WRONG)["because"]
    daemon.wait_passes("aged", 2)
    reload(daemon, text.replace("after: 3600s", "after: 60s"))
    eventually(lambda: world.count("status = 'queued'") == 2)
    assert daemon.stop() == 0


def test_watches_come_and_go(world):
    make_jobs(world.db, 4)
    both, one = config(world.url), config(world.url, AGED)
    daemon = WebDaemon(world.program, one, "--no-queue")
    world.daemons.append(daemon)
    web = daemon.web()

    def shown():
        return {w["watch"] for w in web.get("/api/v1/watches").json["watches"]}

    def measured():
        return set(re.findall(r'defib_leader{watch="(\w+)"', web.get("/metrics").text))
    daemon.wait_passes("aged", 1)
    assert shown() == measured() == {"aged"}
    reload(daemon, both)
    daemon.wait_passes("beating", 1)
    eventually(lambda: set(leaders(world)) == shown() == measured() == {"aged", "beating"})
    reload(daemon, one)
    eventually(lambda: set(leaders(world)) == {"aged"})
    daemon.wait_log("a watch is no longer scanned")
    eventually(lambda: shown() == measured() == {"aged"})
    had = len(daemon.passes("beating"))
    daemon.wait_passes("aged", 3)
    assert len(daemon.passes("beating")) == had
    assert daemon.stop() == 0


@pytest.mark.covers("E3")
def test_databases_come_go_and_move(world, tmp_path):
    make_jobs(world.db, 2)
    files = [LiteDatabase(tmp_path / f"{name}.db") for name in ("old", "new")]
    for file in files:
        file.sql("CREATE TABLE jobs (id integer PRIMARY KEY, lane text, status text, owner text, "
                 "beat_at text)")
    one = config(world.url, AGED)
    far = AGED.format(stuck=5, every="300ms").replace("name: aged", "name: far\n    database: far")
    there, moved = (one.replace("watches:", f"  - name: far\n    url: {file.url}\nwatches:") + far
                    for file in files)
    daemon = world.daemon(one, "--no-queue")
    with contextlib.ExitStack() as stack:
        for file in files:
            stack.callback(file.drop)
        reload(daemon, there)
        daemon.wait_passes("far", 2)
        reload(daemon, moved)
        eventually(lambda: files[1].sql("SELECT 1 FROM sqlite_master WHERE name = 'defib_leader'"))
        eventually(lambda: files[1].sql("SELECT count(*) FROM defib_leader") == [(1,)])
        assert files[0].sql("SELECT count(*) FROM defib_leader") == [(0,)]
        reload(daemon, one)
        eventually(lambda: len(daemon.lines("a database is no longer watched")) == 2)
        had = len(daemon.passes("far"))
        daemon.wait_passes("aged", 3)
        assert len(daemon.passes("far")) == had
        assert files[1].sql("SELECT count(*) FROM defib_leader") == [(0,)]
        assert daemon.stop() == 0


def test_a_watch_that_was_named_and_is_gone_is_a_wrong_configuration(world):
    make_jobs(world.db, 2)
    daemon = world.daemon(config(world.url), "aged")
    daemon.wait_passes("aged", 1)
    line = reload(daemon, config(world.url, BEATING), WRONG)
    assert 'there is no watch "aged"' in line["because"]
    daemon.wait_passes("aged", 1)
    assert daemon.passes("beating") == []
    assert daemon.stop() == 0


@pytest.mark.covers("C11", "F6")
def test_a_brake_that_holds_goes_on_holding(world):
    """A new guard would consider all silent workers stale at its first look."""
    make_jobs(world.db, 10, lanes=["beating"])
    text = config(world.url, BEATING, guard="{pace: 0}")
    daemon = world.daemon(text, "--no-queue")
    crew = world.work(count=10, rows=1)
    daemon.wait_passes("beating", 4)
    crew.signal(signal.SIGSTOP)
    world.wait_status("beating", braking=True)
    reload(daemon, text.replace("every: 500ms", "every: 300ms"))
    daemon.wait_passes("beating", 5)
    status = world.status("beating")
    assert status["braking"] and status["brakes"] == 1 and status["every_s"] == 0
    assert world.events("REQUEUED") == []
    crew.signal(signal.SIGCONT)
    world.wait_status("beating", braking=False)
    assert daemon.stop() == 0


def test_the_service_manager_hears_of_each_reload(world):
    make_jobs(world.db, 2)
    with contextlib.closing(Manager(world.program.dir / "notify")) as manager:
        daemon = world.daemon(config(world.url, AGED), "--no-queue", env=manager.env())
        assert manager.hear() == "READY=1"
        for says, text in ((READ, None), (WRONG, "watches: 5\n")):
            reload(daemon, text, says)
            while (said := manager.hear()) == "WATCHDOG=1":
                pass
            assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", said)
            assert manager.hear() == "READY=1"
        assert daemon.stop() == 0


def test_tokens_change_and_a_limit_that_changed_is_said_to_need_a_restart(lite, defib):
    lite.sql("CREATE TABLE jobs (id integer PRIMARY KEY, lane text, status text, owner text, "
             "beat_at text)")
    token = defib.dir / "token"
    token.write_text("the-first-secret-of-anna\n")
    text = config(lite.url, AGED) + (
        f"http: {{listen: '127.0.0.1:0', tokens: [{{name: anna, role: admin, file: {token}}}]}}\n")
    daemon = WebDaemon(defib, text, "--no-queue")
    try:
        def answer(secret):
            return daemon.web(secret).get("/api/v1/status").status
        assert answer("the-first-secret-of-anna") == 200
        token.write_text("another-secret-of-anna\n")
        reload(daemon)
        assert (answer("the-first-secret-of-anna"), answer("another-secret-of-anna")) == (401, 200)
        assert "restart" not in daemon.log
        reload(daemon, text.replace("'127.0.0.1:0'", "'127.0.0.1:0', max_body: 4096"))
        daemon.wait_log("only tokens and hosts of http: change without a restart")
        assert answer("another-secret-of-anna") == 200
        assert daemon.stop() == 0
    finally:
        daemon.kill()


def test_reloads_while_jobs_are_recovered_lose_and_double_nothing(world):
    """Every batch ends under the configuration with which it began."""
    n = 2000
    stuck_rows(world, n, seconds=600)
    text = config(world.url, LATE, stuck=60, guard="{pace: 0}").replace(
        "    every:", "    batch: 20\n    every:")
    daemon = world.daemon(text, "--no-queue")
    for i in range(10):
        reload(daemon, text.replace("after: 60s", f"after: {61 + i}s"))
    eventually(lambda: world.count("status = 'queued'") == n)
    assert world.db.sql("SELECT count(*), count(DISTINCT job) FROM defib.ledger WHERE "
                        "event = 'REQUEUED'") == [(n, n)]
    assert daemon.stop() == 0
