# SPDX-License-Identifier: Apache-2.0
"""A table that `defib attach` has given its trigger, and sessions that claim its rows."""

import psycopg2

TABLE = """
CREATE TABLE jobs (id int PRIMARY KEY, status text NOT NULL, worker text,
                   updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO jobs SELECT n, 'queued' FROM generate_series(1, 9) n
"""
WATCH = """
databases: [{name: main, url: "%(url)s"}]
watches:
  - name: jobs
    table: %(table)s
    key: %(key)s
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 4h
    requeue: status = 'queued', worker = :reason
    %(more)s
"""


def config(pg, table="jobs", key="id", more=""):
    return WATCH % {"url": pg.url, "table": table, "key": key, "more": more}


def claims(pg, watch="jobs"):
    return pg.sql("SELECT job, application, pid FROM defib.claimed_by WHERE watch = %s "
                  "ORDER BY job", watch)


def named(pg, name, user="postgres"):
    session = psycopg2.connect(pg.server.url(pg.name, user), application_name=name)
    session.autocommit = True
    return session


def do(session, sql, *params):
    with session.cursor() as cursor:
        cursor.execute(sql, params or None)
