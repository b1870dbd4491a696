# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a long ledger read: digests instead of entries, and no list against a list.

bench/page measures the same on a million jobs; here the server counts the rows that were read.
"""

import signal

import pytest

from harness.http_daemon import serving
from harness.plans import explained, filtered, read
from harness.waiting import eventually

ENTRIES = 20_000  # of 20 days, 86 seconds apart
DIGEST_IDS = 1000  # src/ledger/digest.h

CONFIG = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: jobs
    table: jobs
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
"""


@pytest.fixture
def long(defib, pg):
    """A database with a long ledger, of which a daemon has made digests."""
    pg.sql("CREATE TABLE jobs (id bigint PRIMARY KEY, status text, beat_at timestamptz)")
    config = CONFIG.format(url=pg.url)
    assert defib("init", config=config).code == 0
    pg.sql("""INSERT INTO defib.ledger (id, at, batch, watch, job, event, actor, verdict, rule,
        evidence) SELECT i, now() - (%s - i) * interval '86 seconds', 'b', 'jobs', i %% 501,
        CASE WHEN i %% 400 = 0 THEN 'LATE_COMPLETION' ELSE 'REQUEUED' END, 'daemon:x', 'silent',
        'default', '{"kind": "k", "owner": "w"}' FROM generate_series(1, %s) AS i""",
           ENTRIES, ENTRIES)
    pg.sql("VACUUM ANALYZE defib.ledger")
    with serving(defib.dir, config) as web:
        def made():
            web.daemon.signal(signal.SIGHUP)
            return pg.sql("SELECT count(*) FROM defib.digest WHERE watch = '*'")[0][0]
        eventually(lambda: made() == ENTRIES // DIGEST_IDS)
    return config


@pytest.mark.needs("PostgreSQL >= 15")  # its counters are read (harness/plans.py)
def test_a_report_reads_digests_and_the_ends_of_its_period(defib, pg, long):
    ((recovered,),) = pg.sql("SELECT count(*) FROM defib.ledger WHERE event = 'REQUEUED' AND "
                             "at > now() - interval '9 days'")
    before = read(pg)
    ran = defib("report", "--since", "9d", "--format", "json", config=long)
    assert ran.code == 0, ran.err
    # Both halves of the digest in which the period begins, and that in which the one before does;
    # late completions with what each blames.
    assert read(pg) - before <= 4 * DIGEST_IDS + 10 * (ENTRIES // 400) < ENTRIES / 4
    assert abs(ran.json["watches"][0]["now"]["recovered"] - recovered) <= 1  # the period moved on


def test_mistakes_are_counted_without_joining_two_lists(defib, pg, long):
    begin = explained(pg)
    ran = defib("stats", "jobs", "--json", config=long)
    assert ran.code == 0, ran.err
    assert ran.json["watches"][0]["false_positives"]["week"] > 0
    assert filtered(pg, begin) <= ENTRIES / 10
