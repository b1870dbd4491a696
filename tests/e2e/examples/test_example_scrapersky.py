# SPDX-License-Identifier: Apache-2.0
"""ScraperSky (A): stuck `Processing` rows of two tables, back to `Queued`."""

import pytest

from harness.example_systems import Example, age

REASON = "Auto-reset from stuck Processing state"
HOUR = 3600


@pytest.fixture
def sky(db, defib, with_tables):
    return Example("scrapersky", db, defib)


def add_page(sky, url, seconds, status="Processing"):
    sky.insert("pages", url=url, page_processing_status=status, updated_at=sky.ago(seconds))


def add_sitemap(sky, domain, seconds, status="Processing"):
    sky.insert("sitemap_files", domain=domain, sitemap_import_status=status,
               updated_at=sky.ago(seconds))


def urls(ran):
    return [job["evidence"]["url"] for watch in ran.json["watches"] for job in watch["jobs"]]


@pytest.mark.covers("A1")
def test_stuck_rows_are_found_oldest_first(sky):
    for url, hours in (("b", 3), ("a", 5), ("c", 2)):
        add_page(sky, url, hours * HOUR)
    ran = sky("scan", "pages", "--json")
    assert urls(ran) == ["a", "b", "c"]
    assert ran.code == 1


@pytest.mark.covers("A1")
def test_a_limit_takes_the_oldest_and_leaves_the_rest(sky):
    for url, hours in (("b", 3), ("a", 5), ("c", 2)):
        add_page(sky, url, hours * HOUR)
    ran = sky("scan", "pages", "--fix", "--limit", "2", "--json")
    assert urls(ran) == ["a", "b"]
    assert ran.json["watches"][0]["limited"]
    left = sky.row("pages", ["url"], "page_processing_status = 'Processing'")
    assert left.url == "c"


@pytest.mark.covers("A2")
def test_a_page_gets_the_reason_the_state_and_the_time(sky):
    add_page(sky, "https://example.com", 2 * HOUR)
    assert sky("scan", "--fix").code == 0
    row = sky.row("pages", ["page_processing_status", "page_processing_error"])
    assert row.page_processing_status == "Queued"
    assert row.page_processing_error == REASON
    assert sky.db.sql(f"SELECT {age(sky.db, 'updated_at')} FROM pages")[0][0] < 60


@pytest.mark.covers("A2")
def test_a_sitemap_gets_the_reason_the_state_and_the_time(sky):
    add_sitemap(sky, "example.com", 2 * HOUR)
    assert sky("scan", "--fix").code == 0
    row = sky.row("sitemap_files", ["sitemap_import_status", "sitemap_import_error"])
    assert row.sitemap_import_status == "Queued"
    assert row.sitemap_import_error == REASON
    assert sky.db.sql(f"SELECT {age(sky.db, 'updated_at')} FROM sitemap_files")[0][0] < 60


@pytest.mark.covers("A2")
def test_the_time_is_written_as_the_table_writes_it(lite, defib):
    sky = Example("scrapersky", lite, defib)
    add_page(sky, "a", 2 * HOUR)
    sky("scan", "--fix")
    written = sky.row("pages", ["updated_at"]).updated_at
    assert written[4] == "-" and written[10] == " " and len(written) == 23


@pytest.mark.covers("A3")
def test_one_pass_frees_both_tables_and_warns_once_with_total_and_counts(sky):
    add_sitemap(sky, "example.com", 2 * HOUR)
    add_page(sky, "a", 2 * HOUR)
    add_page(sky, "b", 2 * HOUR)
    ran = sky("scan", "--fix")
    warnings = [line for line in ran.err.splitlines() if "Zombie Record Cleanup" in line]
    assert len(warnings) == 1
    assert 'warn: stuck jobs reset group="Zombie Record Cleanup" total=3 Sitemaps=1 Pages=2' \
        in warnings[0]
    freed = "SELECT count(*) FROM pages WHERE page_processing_status = 'Queued'"
    assert sky.db.sql(freed) == [(2,)]


@pytest.mark.covers("A3")
def test_a_warning_is_not_printed_when_there_is_nothing(sky):
    ran = sky("scan", "--fix", "--quiet")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.covers("A3")
def test_a_debug_line_says_that_there_is_nothing(sky):
    assert "Zombie Record Cleanup" not in sky("scan", "--fix").err
    ran = sky("scan", "--fix", "--verbose")
    line = [line for line in ran.err.splitlines() if "Zombie Record Cleanup" in line]
    assert len(line) == 1 and "debug" in line[0].lower()
    assert "no stuck jobs" in line[0] and "total=0 Sitemaps=0 Pages=0" in line[0]


@pytest.mark.covers("A3")
def test_each_batch_of_a_table_is_one_transaction(pg, defib):
    """With its entries of the ledger, which have the row's transaction too."""
    sky = Example("scrapersky", pg, defib)
    add_sitemap(sky, "example.com", 2 * HOUR)
    for name in "abcde":
        add_page(sky, name, 2 * HOUR)
    sky.config = sky.defib.dir / "batches.yaml"
    sky.config.write_text((sky.dir / "defib.yaml").read_text().replace(
        "    table: pages\n", "    table: pages\n    batch: 3\n"))
    assert sky("scan", "--fix").code == 0

    def written(table):
        return sorted(pg.sql(f"SELECT xmin::text, count(*) FROM {table} GROUP BY 1"))
    pages, sitemaps = written("pages"), written("sitemap_files")
    assert [n for _, n in pages] == [3, 2] and [n for _, n in sitemaps] == [1]
    assert sorted(pages + sitemaps) == written("defib.ledger")


@pytest.mark.covers("A4")
def test_the_environment_turns_the_cleanup_off(sky):
    add_page(sky, "a", 2 * HOUR)
    ran = sky("scan", "--fix", "--json", env={"ZOMBIE_CLEANUP_ENABLED": "false"})
    assert (ran.code, ran.json["found"], ran.json["watches"]) == (0, 0, [])
    assert sky.row("pages", ["page_processing_status"]).page_processing_status == "Processing"


@pytest.mark.covers("A4")
def test_the_environment_sets_the_threshold_in_minutes(sky):
    add_page(sky, "a", 10 * 60)
    assert sky("scan", "--json").json["found"] == 0
    assert sky("scan", "--json", env={"ZOMBIE_STUCK_THRESHOLD_MINUTES": "5"}).json["found"] == 1


@pytest.mark.covers("A4")
def test_the_environment_sets_the_interval_in_minutes(sky):
    def interval(**env):
        shown = sky("config", "show", "--json", env=env).json
        return next(row for row in shown if row["path"].endswith("pages.every"))

    assert interval()["value"] == "15m"
    changed = interval(ZOMBIE_CLEANUP_INTERVAL_MINUTES="30")
    assert changed["value"] == "30m"
    assert "ZOMBIE_CLEANUP_INTERVAL_MINUTES" in changed["origin"]


@pytest.mark.covers("A8")
def test_a_row_of_five_minutes_is_not_touched_at_sixty(sky):
    add_page(sky, "recent", 5 * 60)
    add_sitemap(sky, "recent", 5 * 60)
    before = sky.db.sql("SELECT * FROM pages"), sky.db.sql("SELECT * FROM sitemap_files")
    ran = sky("scan", "--fix", "--json")
    assert (ran.code, ran.json["found"], ran.json["recovered"]) == (0, 0, 0)
    assert before == (sky.db.sql("SELECT * FROM pages"), sky.db.sql("SELECT * FROM sitemap_files"))


@pytest.mark.covers("A8")
def test_rows_that_are_not_processing_are_not_touched_however_old(sky):
    for status in ("Queued", "Complete", "Failed"):
        add_page(sky, status, 100 * HOUR, status)
    before = sky.db.sql("SELECT * FROM pages ORDER BY url")
    assert sky("scan", "--fix").code == 0
    assert sky.db.sql("SELECT * FROM pages ORDER BY url") == before


@pytest.mark.covers("F8")
def test_a_record_that_is_stuck_for_the_third_time_is_no_zombie_again(sky):
    """It leaves `Processing` with the reason; an operator's release queues it."""
    sky.insert("pages", url="/a", page_processing_status="Processing", updated_at=sky.ago(7200))
    for _ in range(2):
        assert sky("scan", "pages", "--fix").code == 0
        sky.db.sql("UPDATE pages SET page_processing_status = 'Processing', updated_at = "
                   + sky.ago(7200)[1])
    assert sky("scan", "pages", "--fix", "--json").json["held"] == 1
    row = sky.row("pages", ["id", "page_processing_status", "page_processing_error"])
    assert row.page_processing_status == "Failed"
    assert row.page_processing_error == "Held for an operator: stuck 3 times within 3d"
    assert sky("scan").code == 0
    assert sky("release", f"pages/{row.id}", "--yes").code == 0
    assert sky.row("pages", ["page_processing_status"]).page_processing_status == "Queued"
