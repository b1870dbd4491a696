# SPDX-License-Identifier: Apache-2.0
"""What a role that can only connect can keep from happening by taking locks: nothing."""

import psycopg2
import pytest

from harness import stuck_jobs as jobs
from harness.attached_table import do, named

pytestmark = pytest.mark.oldest_and_newest

NUMBERS = (1684366953, 1684366954, 1684366955)


@pytest.fixture
def stranger(pg):
    pg.sql("CREATE ROLE stranger LOGIN")
    session = named(pg, "stranger", "stranger")
    yield session
    session.close()
    pg.hang_up()
    pg.sql("DROP OWNED BY stranger; DROP ROLE stranger")


def test_recovery_needs_no_lock_that_a_stranger_can_take(pg, defib, stranger):
    """Also while defib's tables are made."""
    jobs.make(pg, 10)
    for number in NUMBERS:
        do(stranger, f"SELECT pg_advisory_lock({number}), pg_advisory_lock({number}, n) "
                     "FROM generate_series(0, 9) n")
    assert defib("init", db=pg).code == 0
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        do(stranger, "SELECT true FROM defib.ledger_order FOR UPDATE")
    ran = defib("scan", "--fix", config=jobs.config(pg))
    assert ran.code == 0, ran.out + ran.err
    assert jobs.agree(pg) == 10
    assert defib("enqueue", "mail", "send", db=pg).code == 0
    assert defib("work", "--queue", "mail", "--drain", "--", "true", db=pg).code == 0
