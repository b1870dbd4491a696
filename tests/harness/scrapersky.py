# SPDX-License-Identifier: Apache-2.0
"""What ScraperSky's document (A) says, word for word, and its ledger moved in time."""


from harness.document_replay import Replay, program

REASON = "Auto-reset from stuck Processing state"
NO_SESSION = "Failed to obtain processing session"
ALERT = "ZOMBIE RECORD ALERT"
# The document's SQL, by table: "Step 1: Identify Zombie Records", "Step 3: Reset to Queued State".
IDENTIFY = {
    "sitemaps": """
SELECT id, domain, updated_at, sitemap_import_status, sitemap_import_error
FROM sitemap_files
WHERE sitemap_import_status = 'Processing'
  AND updated_at < NOW() - INTERVAL '1 hour'
ORDER BY updated_at ASC
LIMIT 100;""",
    "pages": """
SELECT id, url, updated_at, page_processing_status, page_processing_error
FROM pages
WHERE page_processing_status = 'Processing'
  AND updated_at < NOW() - INTERVAL '1 hour'
ORDER BY updated_at ASC
LIMIT 100;"""}
RESET = """
UPDATE pages
SET page_processing_status = 'Queued',
    page_processing_error = 'Auto-reset from stuck Processing state',
    updated_at = NOW()
WHERE page_processing_status = 'Processing'
  AND updated_at < NOW() - INTERVAL '1 hour';"""
# An item that waits for the test, and then does what the shipped program does.
HELD = """#!/bin/sh
echo "$DEFIB_JOB_ID" >>began
await go
[ -e offline ] || exec ./process.sh "$@"
"""


class Sky(Replay):
    def __init__(self, db, folder):
        super().__init__("scrapersky", db, folder)
        program(self, "held.sh", HELD)

    def add_pages(self, n, seconds, status="Processing"):
        self.rows("INSERT INTO pages (url, page_processing_status, updated_at) "
                  "SELECT 'https://example.com/' || %s || '/' || i, %s::page_processing_status, "
                  "now() - %s * interval '1 second' FROM generate_series(1, %s) i",
                  str(seconds), status, seconds, n)

    def add_sitemaps(self, n, seconds=0, status="Queued"):
        self.rows("INSERT INTO sitemap_files (domain, sitemap_import_status, updated_at) "
                  "SELECT 'example' || i || '.com', %s::sitemap_import_status, "
                  "now() - %s * interval '1 second' FROM generate_series(1, %s) i",
                  status, seconds, n)

    def zombies(self):
        """The document's own question, of both tables: keys, oldest first."""
        return {name: [str(row[0]) for row in self.rows(sql)] for name, sql in IDENTIFY.items()}

    def sitemaps(self, status):
        return self.cell("SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = %s",
                         status)

    def page(self):
        return self.row("pages", ["page_processing_status", "page_processing_error"])

    def sitemap(self):
        row = self.row("sitemap_files", ["sitemap_import_status", "sitemap_import_error"])
        return row.sitemap_import_status, row.sitemap_import_error

    def close(self):
        super().close()
        self.db.drop()


def move_ledger(sky, days):
    """What is in it happened so many days earlier. It is append-only: not for a test's clock."""
    sky.rows("ALTER TABLE defib.ledger DISABLE TRIGGER USER")
    sky.rows("UPDATE defib.ledger SET at = at - %s * interval '1 day'", days)
    sky.rows("ALTER TABLE defib.ledger ENABLE TRIGGER USER")
