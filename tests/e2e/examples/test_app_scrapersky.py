# SPDX-License-Identifier: Apache-2.0
"""ScraperSky's own program (A): the loop of its document leaves zombies; with defib there are none.

The server is uvicorn with FastAPI, SQLAlchemy and a pool of two connections, and is really killed;
only the times in the rows are changed. examples/scrapersky/README.md lists the document's
verification, step by step, with the tests that replay it.
"""

import collections
import contextlib
import datetime
import re

import pytest

from harness.databases import PgDatabase
from harness.http_daemon import Web
from harness.metrics import wait_scrape
from harness.pgserver import free_port
from harness.program import Program
from harness.python_apps import App
from harness.python_package import Scripts, package, script  # noqa: F401
from harness.receivers import Receiver
from harness.scrapersky import ALERT, IDENTIFY, NO_SESSION, REASON, RESET, move_ledger
from harness.waiting import eventually

pytestmark = pytest.mark.plain
TABLES = {"sitemaps": ("sitemap_files", "domain", "sitemap_import"),
          "pages": ("pages", "url", "page_processing")}
SECOND = str(1 / 60)
FIRES = ("firing", "trigger")  # in a webhook's words, in a pager's


class Sky(App):
    def start(self, **env):
        return super().start(**{"POLL_SECONDS": "0.1", "ZOMBIE_CLEANUP_INTERVAL_MINUTES": SECOND,
                                "ALERT_INTERVAL_SECONDS": "0.3", **env})

    def add(self, watch, name="quick", count=1):
        table, column, _ = TABLES[watch]
        return [str(row[0]) for row in self.db.sql(
            f"INSERT INTO {table} ({column}) SELECT %s || i FROM generate_series(1, %s) i "
            "RETURNING id", name, count)]

    def states(self, watch):
        """How many records have each status and error."""
        table, _, field = TABLES[watch]
        return collections.Counter(self.db.sql(
            f"SELECT {field}_status::text, {field}_error FROM {table}"))

    def begun(self, watch, server):
        return server.log.count(f"Processing {'Page' if watch == 'pages' else 'SitemapFile'} ID")

    def age(self, hours=2):
        """What is being processed has been so for hours."""
        for table, _, field in TABLES.values():
            self.db.sql(f"UPDATE {table} SET updated_at = now() - %s * interval '1 hour' "
                        f"WHERE {field}_status = 'Processing'", hours)

    def zombies(self):
        """The document's "Step 1: Identify Zombie Records"."""
        return {name: [str(row[0]) for row in self.db.sql(sql)] for name, sql in IDENTIFY.items()}

    def claims(self, server, **counts):
        """Records that the server has claimed, and one of each is being worked on."""
        for watch, count in counts.items():
            self.add(watch, "slow", count)
        for watch, count in counts.items():
            eventually(lambda: self.states(watch)["Processing", None] == count)
            eventually(lambda: self.begun(watch, server) == 1)

    @contextlib.contextmanager
    def dry(self, server):
        """Two pages are claimed; while the first is processed, exports take the pool's
        connections, and none is left for the second."""
        self.claims(server, pages=2)
        for n in (1, 2):
            assert self.ask("POST", "/exports")[1] == {"exports": n}
        assert self.ask("POST", "/site")[0] == 204
        eventually(lambda: self.states("pages")["Complete", None] == 1)
        yield
        assert self.ask("DELETE", "/exports")[0] == 204

    def killed_before(self, pages, sitemaps=1):
        """The document's program, killed with all of these in hand."""
        server = self.start(LOOP="before", BATCH_SIZE="100")
        self.claims(server, pages=pages, sitemaps=sitemaps)
        server.kill()


@pytest.fixture
def sky(pg, with_tables, defib, script):
    return Sky("scrapersky", pg, defib, script)


# ---- before: the zombies

def test_before_a_dry_pool_leaves_a_zombie(sky):
    """And its log says so as "Step 2: Verify Records Are Actually Stuck" greps for it."""
    server = sky.start(LOOP="before")
    with sky.dry(server):
        eventually(lambda: server.log.count("Skipping.") == 1)
    lost = re.search("Failed to get session for processing item (\\S+)[.] Skipping", server.log)[1]
    # The loop goes on, and never looks at it again.
    sky.add("pages")
    eventually(lambda: sky.states("pages")["Complete", None] == 2)
    sky.age()
    assert sky.zombies() == {"sitemaps": [], "pages": [lost]}


def test_before_a_killed_server_leaves_zombies_in_both_tables(sky):
    sky.killed_before(pages=3)
    sky.age()
    killed = sky.zombies()
    assert {name: len(found) for name, found in killed.items()} == {"sitemaps": 1, "pages": 3}
    server = sky.start(LOOP="before")
    sky.add("pages"), sky.add("sitemaps")
    for watch in TABLES:
        eventually(lambda: sky.begun(watch, server) > 0)
        eventually(lambda: sky.states(watch)["Complete", None] > 0)
    left = sky.zombies()
    assert all(set(killed[watch]) <= set(left[watch]) for watch in TABLES)


# ---- after: the loop

@pytest.mark.covers("A6", "A7", "A9", "A10", "A15")
def test_after_a_dry_pool_the_item_is_failed_and_failed_sessions_are_counted(sky):
    """As metrics, and as "Alert if failure rate > 1% of attempts"."""
    web = Web("127.0.0.1", free_port())
    chat = Receiver()
    web.daemon = server = sky.start(DEFIB_LISTEN=f"127.0.0.1:{web.port}", ALERT_SINK="chat",
                                    CHAT_URL=chat.url)
    with contextlib.closing(chat), sky.dry(server):
        eventually(lambda: sky.states("pages")["Failed", NO_SESSION] == 1)
        item = re.search(r"no session for pages (\S+) \(try 3 of 3\)", server.log)[1]
        assert server.log.count(f"no session for pages {item} ") == 3
        # Claims have failed too, and the metrics count each of them.
        failures = "defib_worker_connection_failures_total"
        wait_scrape(web, lambda seen: (seen.get(failures) or 0) >= 3 and
                    seen.get(failures) == server.log.count("no session for "))
        fired = eventually(lambda: chat.documents(rule="connection_failures"))[0]
        assert fired["severity"] == "critical" and fired["value"] > 0.01
    sky.add("pages", "missing"), sky.add("sitemaps")
    eventually(lambda: sky.states("pages") == {
        ("Complete", None): 2, ("Failed", NO_SESSION): 1, ("Failed", "ValueError: no such page"): 1})
    assert sky.states("sitemaps") == {("Complete", None): 1}
    assert ALERT not in server.log
    assert server.stop() == 0, server.log


AT_THAT_MOMENT = """
import asyncio
import app

async def poll():
    await app.get_session()
    for _ in range(10):
        await asyncio.sleep(0)
    return "goes on"

async def main():
    polling = asyncio.create_task(poll())
    class Session(app.AsyncSession):
        async def connection(self):
            asyncio.get_running_loop().call_soon(polling.cancel)
    app.AsyncSession = Session
    try:
        print(await polling)
    except asyncio.CancelledError:
        print("cancelled")

asyncio.run(main())
"""


def test_after_the_program_ends_even_if_a_session_comes_as_it_is_told_to(sky, package):
    """asyncio.wait_for() of Python 3.11 drops a cancellation that comes as its result does."""
    said = package.run(AT_THAT_MOMENT, folder=sky.dir, DATABASE_URL=sky.db.url)
    assert said.splitlines()[-1] == "cancelled"


@pytest.mark.proof  # after an outage, silence proves nothing for half a minute
@pytest.mark.covers("A7")
def test_after_an_item_that_cannot_even_be_failed_is_a_critical_line_and_the_cleanup_gets_it(sky):
    """The document's "test_sdk_loop_with_session_failure"; no session can be had at all."""
    server = sky.start()
    sky.claims(server, pages=2)
    with outage(sky.db):
        sky.ask("POST", "/site")
        server.wait_log(ALERT)
    stuck = re.search(f"{ALERT}: pages (\\S+) ", server.log)[1]
    assert sky.states("pages")["Processing", None] >= 1
    sky.age()
    assert stuck in sky.zombies()["pages"]
    eventually(lambda: sky.states("pages")["Complete", REASON] >= 1)
    eventually(lambda: sky.states("pages")["Processing", None] == 0)
    assert server.stop() == 0, server.log


@contextlib.contextmanager
def outage(db):
    """Nobody has a session, and nobody gets one."""
    admin = db.server.admin().cursor()
    admin.execute(f"ALTER DATABASE {db.name} ALLOW_CONNECTIONS false")
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                  (db.name,))
    try:
        yield
    finally:
        admin.execute(f"ALTER DATABASE {db.name} ALLOW_CONNECTIONS true")
        db.hang_up()


@pytest.mark.covers("A2", "A3")
def test_after_a_killed_server_both_tables_are_reset_and_processed(sky):
    """Killed with -9; "Step 4: Monitor Re-Processing" finds the records in the log."""
    first = sky.start(BATCH_SIZE="100")
    sky.claims(first, pages=3, sitemaps=1)
    first.kill()
    sky.age()
    zombies = sky.zombies()
    server = sky.start()
    assert sky.ask("POST", "/site")[0] == 204
    eventually(lambda: sky.states("sitemaps") == {("Complete", REASON): 1})
    eventually(lambda: sky.states("pages") == {("Complete", REASON): 3, ("Complete", None): 1})
    # One line for both tables, or one each if the second was only looked at a little later.
    told = re.findall(r'group="Zombie Record Cleanup" total=(\d+)', server.log)
    assert sum(map(int, told)) == 4, server.log
    again = re.findall(r"Processing (?:Page|SitemapFile) ID: (\S+)", server.log)
    assert {*zombies["pages"], *zombies["sitemaps"]} <= set(again)


@pytest.mark.covers("A2")
def test_after_the_kernel_killed_it_for_its_memory_its_pages_are_reset(sky):
    first = sky.start()
    sky.kill_by_memory(first, lambda: sky.add("pages", "huge"))
    assert sky.states("pages") == {("Processing", None): 1}
    sky.db.sql("UPDATE pages SET url = 'small'")
    sky.age()
    sky.start()
    eventually(lambda: sky.states("pages") == {("Complete", REASON): 1})


@pytest.mark.covers("A6")
def test_after_a_restart_no_record_waits_for_the_cleanup(sky):
    """A stop requeues the item in hand and the rest of its batch."""
    first = sky.start()
    sky.claims(first, pages=3, sitemaps=1)
    assert first.stop() == 0, first.log
    back = ("Queued", "Requeued: the program was stopped")
    assert (sky.states("pages"), sky.states("sitemaps")) == ({back: 3}, {back: 1})
    assert sky.db.sql("SELECT state FROM defib.worker") == [("left",)]


@pytest.mark.covers("A8")
def test_after_recent_records_are_not_touched(sky):
    """The document's "test_cleanup_ignores_recent_processing_records"."""
    sky.killed_before(pages=1)
    sky.age(hours=5 / 60)
    web = Web("127.0.0.1", free_port())
    web.daemon = sky.start(DEFIB_LISTEN=f"127.0.0.1:{web.port}")
    wait_scrape(web, lambda seen: all(
        (seen.get("defib_passes_total", watch=watch) or 0) >= 2 for watch in TABLES))
    assert sky.states("pages") == {("Processing", None): 1}
    assert sky.states("sitemaps") == {("Processing", None): 1}


def test_after_it_needs_no_other_privileges_than_init_prints(sky, defib):
    """It resets, processes, fails what got no session, and leaves."""
    sky.killed_before(pages=1)
    sky.age()
    with sky.as_own_role(defib, "sitemap_files, pages"):
        server = sky.start()
        sky.ask("POST", "/site")
        eventually(lambda: sky.states("sitemaps") == {("Complete", REASON): 1})
        sky.add("pages", "missing")
        eventually(lambda: sky.states("pages")["Failed", "ValueError: no such page"] == 1)
        assert server.stop() == 0, server.log
        assert "permission denied" not in server.log
        assert "works without" not in server.log


# ---- after: whom it tells

def five_minutes_ago():
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=5)
    return at.strftime("%a %H:%M").lower()


def resets(seen, watch):
    return seen.get("defib_recovered_total", watch=watch, remedy="requeue")


class Day:
    """Yesterday a killed server left 4 records, which were reset. Today another leaves 72."""

    def __init__(self, server, package, folder):
        self.chat, self.duty = Receiver(), Receiver()
        self.scripts = Scripts(package, folder / "python")
        program = Program(folder)
        self.sky = sky = Sky("scrapersky", PgDatabase(server, program), program, self.scripts)
        sky.killed_before(pages=3)
        sky.age()
        sky.rows = sky.db.sql  # of move_ledger()
        first = sky.start()
        sky.ask("POST", "/site")
        eventually(lambda: sky.states("sitemaps") == {("Complete", REASON): 1})
        # The sitemap has a page of its own, which is not left to the next server.
        eventually(lambda: sky.states("pages") == {("Complete", REASON): 3, ("Complete", None): 1})
        assert first.stop() == 0, first.log
        move_ledger(sky, days=1)

        self.web = Web("127.0.0.1", free_port())
        self.web.daemon = sky.start(
            POLL_SECONDS="3600", DEFIB_LISTEN=f"127.0.0.1:{self.web.port}",
            ZOMBIE_CLEANUP_INTERVAL_MINUTES="0.1", ALERT_SINK="chat", CHAT_URL=self.chat.url,
            PAGER_SINK="pager", PAGERDUTY_URL=self.duty.url, PAGERDUTY_KEY="k",
            REPORT_AT=five_minutes_ago())
        seen = wait_scrape(self.web, lambda seen: all(
            (seen.get("defib_passes_total", watch=watch) or 0) >= 1 for watch in TABLES))
        self.resets = {watch: resets(seen, watch) for watch in TABLES}
        sky.killed_before(pages=60, sitemaps=12)
        sky.age(hours=3)
        eventually(lambda: not any(sky.zombies().values()))

    def fired(self, rule, watch, receiver=None):
        """The first message that it fires. That yesterday's alert is over may come before it."""
        topic = f"defib/main/{watch}/{rule}"

        def found():
            return [got.json for got in (receiver or self.chat).taken()
                    if got.json.get("topic", got.json.get("dedup_key")) == topic
                    and got.json.get("status", got.json.get("event_action")) in FIRES]
        return eventually(found)[0]

    def close(self):
        self.scripts.close()
        self.sky.db.drop()
        self.chat.close()
        self.duty.close()


@pytest.fixture(scope="module")
def day(shared_server, package, tmp_path_factory):
    own = Day(shared_server, package, tmp_path_factory.mktemp("day"))
    yield own
    own.close()


@pytest.mark.covers("A10")
@pytest.mark.parametrize("rule, watch, severity, value", [
    ("stuck_warning", "sitemaps", "warning", 12), ("stuck_warning", "pages", "warning", 60),
    ("stuck_critical", "pages", "critical", 60)])
def test_after_more_than_10_are_a_warning_and_more_than_50_critical(day, rule, watch, severity,
                                                                    value):
    fired = day.fired(rule, watch)
    assert (fired["severity"], fired["value"]) == (severity, value)


@pytest.mark.covers("A10")
def test_after_a_count_that_doubles_within_an_hour_pages_somebody(day):
    assert day.fired("stuck_doubled", "pages", day.duty)


@pytest.mark.covers("A10")
def test_after_a_record_older_than_an_hour_is_an_alert(day):
    assert 10800 <= day.fired("stuck_long", "pages")["value"] < 11400


@pytest.mark.covers("A11")
def test_after_the_weekly_report_counts_what_was_reset(day):
    report = eventually(lambda: day.chat.documents(kind="report"))[0]
    assert report["name"] == "weekly"
    for watch, line in (("main/sitemaps", "1 requeued"), ("main/pages", "3 requeued")):
        part = report["text"].split(f"`{watch}`", 1)[1]
        assert line in part.split("`main/")[0], report["text"]


@pytest.mark.covers("A9", "A11")
def test_after_metrics_and_the_page_count_exactly_what_was_reset(day):
    def gained(seen):
        return {watch: resets(seen, watch) - day.resets[watch] for watch in TABLES}
    # A pass commits first, and is counted from the ledger then.
    seen = wait_scrape(day.web, lambda seen: all(gained(seen).values()))
    assert gained(seen) == {"sitemaps": 12, "pages": 60}
    trend = day.web.get("/api/v1/trend?since=7d").json
    assert {w["watch"]: sum(w["recovered"]) for w in trend["watches"] if w["watch"] in TABLES} == {
        "sitemaps": 13, "pages": 63}
    assert day.web.get("/").status == 200


@pytest.mark.covers("A2", "A12")
def test_after_the_reset_is_that_of_the_runbook(sky):
    """The document's UPDATE ("Step 3: Reset to Queued State") would find nothing left to do."""
    sky.killed_before(pages=3)
    sky.age()
    sky.start(POLL_SECONDS="3600")
    eventually(lambda: sky.states("pages") == {("Queued", REASON): 3})
    sky.db.sql(RESET)
    assert sky.states("pages") == {("Queued", REASON): 3}
