# SPDX-License-Identifier: Apache-2.0
"""ScraperSky (A): the work order "Zombie Record Cleanup and Prevention" replayed, step by step: its
SQL, its tests, its thresholds and its success criteria, on the example as it ships.

Sessions are really unavailable (the role may not connect any more, or the connection to the server
is cut), workers are real processes, and the times in the rows are changed.
"""

import contextlib
import datetime
import json

import pytest

from harness.databases import LiteDatabase, PgDatabase
from harness.document_replay import kill_container, page_server, praised_lines, type_readme
from harness.example_systems import EXAMPLES
from harness.metrics import wait_scrape
from harness.pgserver import free_port
from harness.python_package import LIBRARY, package  # noqa: F401
from harness.queue_workers import Wire
from harness.receivers import Receiver
from harness.scrapersky import ALERT, NO_SESSION, REASON, RESET, Sky, move_ledger
from harness.spools import records
from harness.waiting import eventually

HOUR_S = 3600

PAGES = "SELECT url, page_processing_status, page_processing_error FROM pages ORDER BY url"


# ---- Current Workaround (Manual Recovery) ----


@pytest.fixture
def sky(shared_server, tmp_path):
    own = Sky(PgDatabase(shared_server), tmp_path)
    yield own
    own.close()


@pytest.mark.covers("A1", "A12")
def test_step_1_identify_zombie_records(sky):
    """What the document's queries name is what defib calls stuck, in the same order."""
    for hours in (2, 5, 3):
        sky.add_pages(1, hours * HOUR_S)
        sky.add_sitemaps(1, hours * HOUR_S, "Processing")
    sky.add_pages(2, 300)
    for watch, keys in sky.zombies().items():
        assert len(keys) == 3
        ran = sky("list", "--watch", watch, "--where", "stuck", "--limit", "100", "--ids")
        assert ran.out.split() == [f"{watch}/{key}" for key in keys]
    scanned = sky("scan", "--json").json["watches"]
    assert {w["watch"]: [job["key"] for job in w["jobs"]] for w in scanned} == sky.zombies()


@pytest.mark.covers("A2", "A12")
def test_step_3_reset_to_queued_state(sky):
    """The document's UPDATE, taken back, and defib's: the same rows, the same values."""
    sky.add_pages(3, 2 * HOUR_S)
    sky.add_pages(2, 300)
    by_hand = sky.db.connect()
    by_hand.autocommit = False
    cursor = by_hand.cursor()
    cursor.execute(RESET)
    cursor.execute(PAGES)
    wanted = cursor.fetchall()
    by_hand.rollback()
    by_hand.close()
    assert sky("scan", "pages", "--fix").code == 0
    assert sky.rows(PAGES) == wanted
    assert sky.cell("SELECT count(*) FROM pages WHERE page_processing_status = 'Queued' "
                    "AND updated_at > now() - interval '1 minute'") == 3


# ---- Testing Strategy ----


@pytest.mark.covers("A2")
def test_cleanup_resets_stuck_records(sky):
    sky.add_pages(1, 2 * HOUR_S)
    assert sky("scan", "--fix", "--json").json["recovered"] == 1
    assert sky.page().page_processing_status == "Queued"
    assert "Auto-reset" in sky.page().page_processing_error


@pytest.mark.covers("A8")
def test_cleanup_ignores_recent_processing_records(sky):
    sky.add_pages(1, 300)
    assert sky("scan", "--fix", "--json").json["recovered"] == 0
    assert sky.page().page_processing_status == "Processing"


class Limited(PgDatabase):
    """A database whose role can be kept from opening another session: the pool is exhausted."""

    def __init__(self, server):
        super().__init__(server)
        self.role = f"sky_{self.name}"
        self.sql(f"CREATE ROLE {self.role} LOGIN")
        self.sql(f"GRANT CREATE ON DATABASE {self.name} TO {self.role}")
        self.sql(f"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {self.role}")
        assert "postgres@" in self.url
        self.url = self.url.replace("postgres@", f"{self.role}@")

    def exhaust(self, yes):
        """Those who have a session keep it."""
        self.sql(f"ALTER ROLE {self.role} CONNECTION LIMIT {0 if yes else -1}")

    def drop(self):
        self.sql(f"ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM {self.role}")
        super().drop_now()
        admin = self.server.connect()
        admin.cursor().execute(f"DROP ROLE {self.role}")
        admin.close()


def working(sky, env=None):
    """A daemon whose workers have settled in: each has the sessions that it keeps."""
    daemon = sky.daemon("--work", "--no-queue", env=env)
    eventually(lambda: len(daemon.lines("worker started")) == 2)
    eventually(lambda: {"sitemaps", "pages"} <= {line["source"] for line in daemon.lines("tick")})
    return daemon


@pytest.mark.covers("A6", "A7", "A9", "A10", "A15")
def test_sdk_loop_attempts_retry_for_error_handling_session(shared_server, tmp_path):
    """No session for any item: each has 3 tries and is Failed through the session that was kept;
    the loop pauses, resumes by itself when sessions can be had, and leaves no zombie. "Alert if
    failure rate > 1% of attempts" is sent."""
    sky = Sky(Limited(shared_server), tmp_path)
    with contextlib.closing(sky), contextlib.closing(Receiver()) as chat:
        daemon = working(sky, env={"ALERT_SINK": "chat", "CHAT_URL": chat.url,
                                   "ALERT_INTERVAL_SECONDS": "1"})
        sky.db.exhaust(True)
        sky.add_sitemaps(6)
        sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Failed' "
                  f"AND sitemap_import_error = '{NO_SESSION}'", 6)
        tries = [int(line["try"]) for line in daemon.lines("no session for a job")]
        assert sorted(tries) == [1] * 6 + [2] * 6 + [3] * 6
        said = daemon.lines("no session for a job")[0]
        assert "too many connections for role" in said["because"]
        daemon.wait_log('"claims: jobs cannot get a session"')
        eventually(lambda: sky.cell(
            "SELECT coalesce(sum((info->>'failures')::int), 0) FROM defib.worker") >= 18)

        sky.db.exhaust(False)
        sky.add_sitemaps(12)
        sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Complete'", 12)
        daemon.wait_log("breaker closed")
        # A sitemap becomes a page (WF6), and the page is processed (WF7).
        sky.until("SELECT count(*) FROM pages WHERE page_processing_status = 'Complete'", 12)
        assert sky.sitemaps("Processing") == 0 and ALERT not in daemon.log
        alert = eventually(lambda: chat.documents(rule="connection_failures"))[0]
        assert alert["status"] == "firing" and alert["value"] > 0.01, alert
        assert daemon.stop() == 0


@pytest.fixture
def wire(sky):
    own = Wire(sky.db.server)
    yield own
    own.close()


@pytest.mark.covers("A7")
def test_sdk_loop_with_session_failure(sky, wire):
    """Not even `Failed` can be written: one critical line names the record, and the sweeper
    gets it."""
    sky.add_sitemaps(1)
    daemon = working(sky, env={"DATABASE_URL": wire.url(sky.db), "SITEMAP_COMMAND": "./held.sh"})
    sky.until_lines("began", 1)
    wire.away()
    (sky.dir / "go").touch()
    daemon.wait_log(ALERT)
    key, = set(sky.lines("began"))
    alert, = [line for line in daemon.log.splitlines() if ALERT in line]
    assert "level=critical" in alert and f"sitemaps {key} stuck" in alert
    assert len(daemon.lines("no session for a job")) == 3
    kill_container(daemon)
    wire.back()
    assert sky.sitemap() == ("Processing", None)

    sky.rows("UPDATE sitemap_files SET updated_at = now() - interval '2 hours'")
    assert sky.zombies()["sitemaps"] == [key]
    cleanup = sky.daemon()
    sky.until("SELECT sitemap_import_status::text FROM sitemap_files", "Queued")
    assert sky.sitemap() == ("Queued", REASON)
    assert cleanup.stop() == 0


# ---- Future Enhancements ----


@pytest.mark.covers("A14")
def test_graceful_degradation(sky, wire):
    """With a spool the result of what was done meanwhile waits on disk; nothing is done twice."""
    sky.add_sitemaps(1)
    (sky.dir / "offline").touch()
    spool = sky.dir / "spool"
    daemon = working(sky, env={"DATABASE_URL": wire.url(sky.db), "SITEMAP_COMMAND": "./held.sh",
                               "ZOMBIE_SPOOL": str(spool)})
    sky.until_lines("began", 1)
    wire.away()
    (sky.dir / "go").touch()
    daemon.wait_log("job ended")
    eventually(lambda: records(spool))
    assert sky.sitemap() == ("Processing", None)
    wire.back()
    sky.until("SELECT sitemap_import_status::text FROM sitemap_files", "Complete")
    assert len(sky.lines("began")) == 1 and ALERT not in daemon.log
    assert daemon.stop() == 0


@pytest.mark.covers("A13")
def test_database_level_constraint(sky):
    """Recovery inside the database, with nothing of defib running."""
    assert sky("install", "pages", "--yes").code == 0
    sky.add_pages(2, 2 * HOUR_S)
    sky.add_pages(1, 300)
    assert sky.cell('SELECT defib."recover_pages"()') == 2
    assert sky.zombies()["pages"] == []
    assert [row[1:] for row in sky.rows(PAGES)] == [("Processing", None)] + [("Queued", REASON)] * 2
    assert sky("uninstall", "pages", "--yes").code == 0


# ---- Monitoring & Alerting, Success Criteria: one day of a daemon, and whom it tells ----


def an_hour_of_the_week(minutes_ago):
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=minutes_ago)
    return at.strftime("%a %H:%M").lower()


class Day:
    """Yesterday three zombies were reset. Today 12 sitemaps and 60 pages are found at once."""

    def __init__(self, server, folder):
        self.chat, self.duty = Receiver(), Receiver()
        self.sky = sky = Sky(PgDatabase(server), folder)
        sky.env.update({
            "ALERT_SINK": "chat", "CHAT_URL": self.chat.url, "ALERT_INTERVAL_SECONDS": "0.3",
            "PAGER_SINK": "pager", "PAGERDUTY_URL": self.duty.url, "PAGERDUTY_KEY": "k",
            "ZOMBIE_CLEANUP_INTERVAL_MINUTES": "0.1", "REPORT_AT": an_hour_of_the_week(5)})
        sky.add_sitemaps(1, 2 * HOUR_S, "Processing")
        sky.add_pages(2, 2 * HOUR_S)
        self.yesterday = sky("scan", "--fix")
        move_ledger(sky, days=1)
        self.daemon = sky.daemon("--no-queue", listen=True)
        self.web = self.daemon.web()
        for watch in ("sitemaps", "pages"):
            self.daemon.wait_passes(watch, 1)
        with sky.db.connect() as session, session.cursor() as all_at_once:
            all_at_once.execute("BEGIN")
            for table, column, name, n in (
                    ("sitemap_files", "sitemap_import_status", "domain", 12),
                    ("pages", "page_processing_status", "url", 60)):
                all_at_once.execute(
                    f"INSERT INTO {table} ({name}, {column}, updated_at) SELECT 'today' || i, "
                    f"'Processing', now() - interval '3 hours' FROM generate_series(1, {n}) i")
            all_at_once.execute("INSERT INTO pages (url, page_processing_status, updated_at) "
                                "VALUES ('alive', 'Processing', now() - interval '5 minutes')")
            all_at_once.execute("COMMIT")
        eventually(lambda: not any(sky.zombies().values()))

    def told(self, rule, watch, status="firing", receiver=None):
        def one():
            return [got.json for got in (receiver or self.chat).taken()
                    if got.json.get("topic", got.json.get("dedup_key")) ==
                    f"defib/main/{watch}/{rule}" and
                    got.json.get("status", status) == status]
        return eventually(one)[0]

    def close(self):
        self.sky.close()
        self.chat.close()
        self.duty.close()


@pytest.fixture(scope="module")
def day(shared_server, tmp_path_factory):
    own = Day(shared_server, tmp_path_factory.mktemp("day"))
    yield own
    own.close()


@pytest.mark.covers("A3")
def test_cleanup_logs_the_total_and_the_count_of_each_table(day):
    assert "total=3 Sitemaps=1 Pages=2" in day.yesterday.err

    def told():
        return day.daemon.lines("stuck jobs reset", group="Zombie Record Cleanup")

    def total(name):
        return sum(int(line.get(name, 0)) for line in told())
    # One pass after the other, or both in one: it depends on when they were found.
    # A pass that found nothing in a table does not name it.
    eventually(lambda: total("total") >= 72)
    assert (total("Sitemaps"), total("Pages"), total("total")) == (12, 60, 72)
    assert {line["level"] for line in told()} == {"warn"}
    eventually(lambda: day.daemon.lines("no stuck jobs", level="debug"))


@pytest.mark.covers("A2", "A8")
def test_stuck_records_are_automatically_reset_to_queued_and_recent_ones_left(day):
    sky = day.sky
    assert sky.rows("SELECT DISTINCT page_processing_status::text, page_processing_error "
                    "FROM pages WHERE url <> 'alive'") == [("Queued", REASON)]
    assert sky.rows("SELECT DISTINCT sitemap_import_status::text, sitemap_import_error "
                    "FROM sitemap_files") == [("Queued", REASON)]
    assert sky.rows("SELECT page_processing_status::text, page_processing_error FROM pages "
                    "WHERE url = 'alive'") == [("Processing", None)]


@pytest.mark.covers("A10")
@pytest.mark.parametrize("rule, watch, severity, value", [
    ("stuck_warning", "sitemaps", "warning", 12), ("stuck_warning", "pages", "warning", 60),
    ("stuck_critical", "pages", "critical", 60)])
def test_alerting_triggers_when_zombie_count_exceeds_threshold(day, rule, watch, severity, value):
    """Warning above 10, critical above 50; the count is that before the reset."""
    fired = day.told(rule, watch)
    assert (fired["severity"], fired["value"]) == (severity, value)
    day.told(rule, watch, "resolved")


@pytest.mark.covers("A10")
def test_add_alerting_for_records_stuck_for_more_than_1_hour(day):
    """Its sign of life is three hours old: its age, not its age beyond the threshold of an hour."""
    fired = day.told("stuck_long", "pages")
    assert fired["severity"] == "critical" and 10800 <= fired["value"] < 11400


@pytest.mark.covers("A10")
def test_pagerduty_when_zombie_count_doubles_in_1_hour(day):
    event = day.told("stuck_doubled", "pages", receiver=day.duty)
    assert event["event_action"] == "trigger" and event["routing_key"] == "k"
    assert {got.json["dedup_key"] for got in day.duty.taken()} == {"defib/main/pages/stuck_doubled"}


@pytest.mark.covers("A9")
def test_metrics_to_track(day):
    """Zombie record count by workflow, resets by run, day and week, session failures."""
    def shows(seen):
        return all((
            seen.get("defib_jobs_stuck", watch="pages") == 0,
            seen.get("defib_recovered_total", watch="pages", remedy="requeue") == 60,
            seen.get("defib_recovered_total", watch="sitemaps", remedy="requeue") == 12,
            seen.get("defib_last_pass_jobs", watch="pages", outcome="recovered") is not None,
            seen.get("defib_connection_tries_total", database="main")))
    seen = wait_scrape(day.web, shows)
    assert seen.get("defib_connection_failures_total", database="main") == 0
    windows = {dict(labels)["window"] for labels in seen.all("defib_recoveries_recent")}
    assert len(windows) >= 2, windows


@pytest.mark.covers("A11")
def test_monitoring_dashboard_shows_zombie_record_trends(day):
    trend = day.web.get("/api/v1/trend?since=7d").json
    recovered = {w["watch"]: sum(w["recovered"]) for w in trend["watches"]}
    assert (recovered["sitemaps"], recovered["pages"]) == (13, 62)
    assert day.web.get("/").status == 200


@pytest.mark.covers("A11")
def test_weekly_report_of_cleanup_operations(day):
    report = eventually(lambda: day.chat.documents(kind="report"))[0]
    assert report["name"] == "weekly" and report["text"].startswith("# defib report, 7d to ")
    for watch, line in (("main/sitemaps", "1 requeued"), ("main/pages", "2 requeued")):
        part = report["text"].split(f"`{watch}`", 1)[1]
        assert line in part.split("`main/")[0], report["text"]


@pytest.mark.covers("A5")
def test_never_two_cleanups_at_once(day):
    """A second instance of the scheduler: every record is reset once all the same."""
    second = day.sky.daemon("--no-queue")
    day.sky.add_pages(40, 3 * HOUR_S)
    eventually(lambda: not any(day.sky.zombies().values()))
    assert day.sky.rows("SELECT max(n) FROM (SELECT count(*) AS n FROM defib.ledger "
                        "WHERE event = 'REQUEUED' GROUP BY watch, job) each") == [(1,)]
    assert second.stop() == 0


# ---- the remaining criteria ----


@pytest.mark.covers("A4")
def test_automated_cleanup_job_running_every_15_minutes(sky):
    daemon = sky.daemon("--no-queue")
    for watch in ("sitemaps", "pages"):
        eventually(lambda: daemon.passes(watch))
        assert 0 < int(daemon.passes(watch)[0]["next_check_s"]) <= 900
    shown = {row["path"]: row["value"] for row in sky("config", "show", "--json").json}
    assert shown["watches.pages.every"] == "15m" and shown["watches.pages.stuck_after"] == "60m"
    assert daemon.stop() == 0


@pytest.mark.covers("A4")
def test_environment_variables(sky):
    """ZOMBIE_CLEANUP_ENABLED, ZOMBIE_STUCK_THRESHOLD_MINUTES, ZOMBIE_CLEANUP_INTERVAL_MINUTES."""
    sky.add_pages(1, 10 * 60)
    off = sky("scan", "--fix", "--json", env={"ZOMBIE_CLEANUP_ENABLED": "false"})
    assert (off.json["watches"], sky.page().page_processing_status) == ([], "Processing")
    assert sky("scan", "--json").json["found"] == 0
    env = {"ZOMBIE_STUCK_THRESHOLD_MINUTES": "5", "ZOMBIE_CLEANUP_INTERVAL_MINUTES": "1"}
    daemon = sky.daemon("--no-queue", env=env)
    eventually(lambda: sky.page().page_processing_status == "Queued")
    eventually(lambda: daemon.passes("pages"))
    assert int(daemon.passes("pages")[0]["next_check_s"]) <= 60
    assert daemon.stop() == 0


@pytest.mark.covers("A11", "A2")
def test_zero_manual_interventions_required_over_1_week_period(sky):
    """Seven days with zombies, moved into the past one by one: nobody had to do anything."""
    for day in range(7):
        sky.add_pages(3, (2 + day) * HOUR_S)
        sky.add_sitemaps(1, 2 * HOUR_S, "Processing")
        move_ledger(sky, days=1)
        assert sky("scan", "--fix").code == 0
        assert not any(sky.zombies().values())
    week = sky("report", "--since", "8d", "--json").json
    assert (week["now"]["recovered"], week["now"]["by_hand"], week["now"]["held"]) == (28, 0, 0)
    pages, = [w for w in week["watches"] if w["watch"] == "pages"]
    assert [d["recovered"] for d in pages["days"] if d["recovered"]] == [3] * 7


def check_by_hand(said, sql):
    """Three of four records were reset, and all but the youngest processed."""
    assert "total=3 Sitemaps=1 Pages=2" in said["defib scan --fix"]
    assert "2 requeued" in said["defib report"]
    states = dict(sql("SELECT page_processing_status, count(*) FROM pages GROUP BY 1"))
    assert states == {"Complete": 3, "Processing": 1}
    assert sql("SELECT sitemap_import_status FROM sitemap_files") == [("Complete",)]


@pytest.mark.covers("A12")
def test_every_command_of_the_readme_does_what_it_says_on_sqlite(tmp_path):
    db = LiteDatabase(tmp_path / "scrapersky.db")
    said = type_readme("scrapersky", tmp_path, "sqlite", {"scrapersky.db": str(db.path)})
    check_by_hand(said, db.sql)
    db.drop()


@pytest.mark.covers("A12", "A2", "A7")
def test_every_command_of_the_readme_does_what_it_says(shared_server, tmp_path,
                                                       package):  # noqa: F811
    """The program's zombies and their end; then the same by hand."""
    port = free_port()
    places = {"127.0.0.1:8000": f"127.0.0.1:{port}", "--port 8000": f"--port {port}",
              "127.0.0.1:7433": f"127.0.0.1:{free_port()}"}
    with page_server(shared_server, "scrapersky", "scrapersky_hand") as env:
        # A program of process.sh gets only the URL.
        places["postgres:///"] = shared_server.url("")
        said = type_readme("scrapersky", tmp_path, "postgres", places, PYTHON=package.python,
                           DEFIB_LIBRARY=str(LIBRARY), POLL_SECONDS="0.2", **env)
        with contextlib.closing(shared_server.connect("scrapersky_hand")) as session:
            check_by_hand(said, Cursor(session))
        with contextlib.closing(shared_server.connect("scrapersky")) as session:
            sql = Cursor(session)
            ended = sql("SELECT url, page_processing_status, page_processing_error FROM pages "
                        "ORDER BY url")
    zombies = said[f"curl -sS http://127.0.0.1:{port}/records"]
    assert json.loads(zombies) == {"sitemap_files": {"Processing": 1},
                                   "pages": {"Complete": 1, "Processing": 1}}
    # In one run or in two: the page was claimed later.
    resets = said["grep 'Zombie Record Cleanup' server.log"]
    assert "Sitemaps=1" in resets and "Pages=1" in resets
    assert "connection_failures" in said["cat alerts.txt"]
    assert [row[1:] for row in ended] == [
        ("Complete", None), ("Complete", None), ("Complete", REASON), ("Complete", None),
        ("Failed", NO_SESSION)], ended


class Cursor:
    """Rows of a statement."""

    def __init__(self, session):
        self.cursor = session.cursor()

    def __call__(self, sql):
        self.cursor.execute(sql)
        return self.cursor.fetchall()


def test_the_lines_that_the_readme_praises_are_there():
    text = (EXAMPLES / "scrapersky" / "defib.yaml").read_text()
    praised = praised_lines("scrapersky")
    assert len(praised) >= 9 and [line for line in praised if line not in text] == []
