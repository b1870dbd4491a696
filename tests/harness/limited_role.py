# SPDX-License-Identifier: Apache-2.0
"""A role that may not create, and what a DBA does for it."""


COUNTED = {"startup": "off", "attempts": "attempts", "max_attempts": "3", "every": "200ms",
           "cancel": "status = 'cancelled'", "fail": "status = 'failed'",
           "requeue": "status = 'queued', attempts = attempts + 1, updated_at = :now",
           "hold": "status = 'held'", "release": "status = 'queued'"}
WORK = "{ready: \"status = 'queued'\", claim: \"status = 'running', updated_at = :now\", " \
       "done: \"status = 'done'\", failed: \"status = 'failed'\", release: \"status = 'queued'\", " \
       "command: ['true']}"


def stuck(pg, n=1):
    pg.sql("UPDATE jobs SET status = 'done', updated_at = now(), attempts = 0")
    pg.sql("UPDATE jobs SET status = 'running', updated_at = now() - interval '1 day' "
           "WHERE id <= %s", n)


def dba(pg, defib, text, *options):
    """What a DBA does: run all that is printed."""
    printed = defib("init", "--print", *options, config=text)
    assert printed.code == 0, printed.err
    pg.sql(printed.out)
