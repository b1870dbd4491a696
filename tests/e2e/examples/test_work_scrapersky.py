# SPDX-License-Identifier: Apache-2.0
"""ScraperSky (A): a batch is claimed at once, each item ends separately, and a record that could
not be written is reset by a later scan.
"""

import signal

import pytest

from harness.example_systems import ago
from harness.outages import Outage
from harness.spools import records
from harness.table_workers import TableWorkers
from harness.waiting import eventually

REASON = "Auto-reset from stuck Processing state"
# Goes on until the test lets this domain go: with 0, or with an error.
ITEM = """
domain=$(sed 's/.*"domain": *"\\([^"]*\\)".*/\\1/')
echo "$domain" >>began
await "go.$domain"
if [ -s "go.$domain" ]; then cat "go.$domain" >&2; exit 1; fi
"""


@pytest.fixture
def sky(db, defib, with_tables):
    own = TableWorkers("scrapersky", db, defib)
    yield own
    own.close()


@pytest.fixture
def outage(request, sky):
    wire = request.getfixturevalue("wire") if sky.db.engine == "postgres" else None
    own = Outage(sky, wire)
    yield own
    own.end()


def add_sitemap(sky, domain, seconds=60, status="Queued", error=None):
    sky.insert("sitemap_files", domain=domain, sitemap_import_status=status,
               sitemap_import_error=error, updated_at=sky.ago(seconds))


def let_go(sky, domain, error=""):
    whole = sky.dir / f"error.{domain}"
    whole.write_text(error)
    whole.rename(sky.dir / f"go.{domain}")  # it looks for the file, then at what is in it


def state(sky, domain):
    return sky.rows("SELECT sitemap_import_status, sitemap_import_error FROM sitemap_files"
                    " WHERE domain = %s", domain)[0]


def until_state(sky, domain, wanted):
    sky.until(f"SELECT sitemap_import_status FROM sitemap_files WHERE domain = '{domain}'", wanted)


@pytest.mark.covers("A6")
def test_a_batch_is_claimed_in_one_transaction_and_each_item_ends_on_its_own(sky):
    for name in "abcd":
        add_sitemap(sky, name, error="of an earlier try")
    worker = sky.work("sitemaps", "--concurrency", "4", run=ITEM)
    sky.until_lines("began", 4)
    # :now is the transaction's own, so one instant means one transaction.
    assert len(sky.rows("SELECT DISTINCT updated_at FROM sitemap_files")) == 1
    assert [state(sky, name) for name in "abcd"] == [("Processing", None)] * 4
    let_go(sky, "b")
    until_state(sky, "b", "Complete")
    let_go(sky, "c", "robots.txt said no")
    until_state(sky, "c", "Failed")
    assert "robots.txt said no" in state(sky, "c")[1]
    assert [state(sky, name) for name in "ad"] == [("Processing", None)] * 2
    let_go(sky, "a")
    let_go(sky, "d")
    until_state(sky, "a", "Complete")
    until_state(sky, "d", "Complete")
    assert worker.stop() == 0
    assert worker.log.count("claimed=4") == 1


@pytest.mark.covers("A6")
def test_a_claim_takes_no_more_than_the_batch(sky):
    for n in range(15):
        add_sitemap(sky, f"s{n}", seconds=100 - n)
    worker = sky.work("sitemaps", "--concurrency", "15", "--poll", "1h", "--grace", "0s",
                      run=ITEM)
    sky.until_lines("began", 10)
    assert sky.cell("SELECT count(*) FROM sitemap_files"
                    " WHERE sitemap_import_status = 'Processing'") == 10
    assert sorted(sky.lines("began")) == sorted(f"s{n}" for n in range(10))
    assert worker.stop() == 0


@pytest.mark.covers("A6")
def test_what_is_not_finished_at_a_stop_is_queued_again_without_an_error(sky):
    add_sitemap(sky, "a")
    worker = sky.work("sitemaps", "--grace", "0s", run=ITEM)
    sky.until_lines("began", 1)
    assert worker.stop() == 0
    assert state(sky, "a") == ("Queued", None)


@pytest.mark.covers("A7")
def test_a_record_that_could_not_be_written_is_alerted_and_reset_by_a_later_scan(sky, outage):
    add_sitemap(sky, "a")
    worker = sky.work("sitemaps", "--spool", "off", "--lease", "1s", "--name", "anna", run=ITEM,
                      url=outage.url)
    sky.until_lines("began", 1)
    key = str(sky.cell("SELECT id FROM sitemap_files"))
    outage.begin()
    let_go(sky, "a")
    worker.wait_log("ZOMBIE RECORD ALERT")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 6
    outage.end()
    alerts = [line for line in worker.log.splitlines() if "ZOMBIE RECORD ALERT" in line]
    assert len(alerts) == 1 and f"sitemaps {key} stuck" in alerts[0]
    assert state(sky, "a") == ("Processing", None)
    # An hour later, by the row; the lease of a second is over as soon.
    sky.rows(f"UPDATE sitemap_files SET updated_at = {ago(sky.db, 3700)}")
    eventually(lambda: sky("scan", "sitemaps", "--fix", "--json").json["recovered"] == 1)
    assert state(sky, "a") == ("Queued", REASON)


@pytest.mark.covers("A7")
def test_a_worker_that_lives_queues_what_it_could_not_record_itself(sky, outage):
    add_sitemap(sky, "a")
    worker = sky.work("sitemaps", "--spool", "off", "--lease", "2s", run=ITEM, url=outage.url)
    sky.until_lines("began", 1)
    outage.begin()
    let_go(sky, "a")
    worker.wait_log("ZOMBIE RECORD ALERT")
    outage.end()
    until_state(sky, "a", "Complete")
    assert worker.stop() == 6
    assert len(sky.lines("began")) == 2


@pytest.mark.covers("A14")
def test_a_result_waits_in_the_spool_and_is_written_when_the_database_is_back(sky, outage):
    add_sitemap(sky, "a")
    worker = sky.work("sitemaps", "--spool", sky.dir / "spool", "--lease", "10m", run=ITEM,
                      url=outage.url)
    sky.until_lines("began", 1)
    outage.begin()
    let_go(sky, "a", "no such host")
    worker.wait_log("job ended")
    eventually(lambda: records(sky.dir / "spool"))
    assert state(sky, "a") == ("Processing", None)
    outage.end()
    until_state(sky, "a", "Failed")
    assert "no such host" in state(sky, "a")[1]
    assert worker.stop() == 0
    assert len(sky.lines("began")) == 1


@pytest.mark.covers("A15")
def test_the_loop_pauses_while_the_database_is_away_and_goes_on_by_itself(sky, outage):
    add_sitemap(sky, "a")
    let_go(sky, "a")
    let_go(sky, "b")
    worker = sky.work("sitemaps", "--poll", "50ms", "--lease", "10m", run=ITEM, url=outage.url)
    until_state(sky, "a", "Complete")
    # On SQLite an idle look only reads: the lock shows when there is something to claim.
    sky.db.freeze(worker)
    add_sitemap(sky, "b")
    outage.begin()
    worker.signal(signal.SIGCONT)
    worker.wait_log("breaker opened")
    outage.end()
    until_state(sky, "b", "Complete")
    worker.wait_log("breaker closed")
    assert worker.stop() == 0


@pytest.mark.covers("A3")
@pytest.mark.parametrize("options", [["--no-startup"], []], ids=["sweep", "start"])
def test_a_sweep_and_a_start_log_the_line_of_scan_and_daemon(lite, defib, with_tables, options):
    sky = TableWorkers("scrapersky", lite, defib)
    try:
        for name in "ab":
            add_sitemap(sky, name, 7200, "Processing")
        worker = sky.work("sitemaps", *options, run="true")
        sky.until("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = 'Complete'", 2)
        line, = [one for one in worker.log.splitlines() if "stuck jobs reset" in one]
        assert 'warn: stuck jobs reset group="Zombie Record Cleanup" total=2 Sitemaps=2' in line
        assert worker.stop() == 0
    finally:
        sky.close()
