# SPDX-License-Identifier: Apache-2.0
"""A URL in an application's form, and a watch that is off: accepted or explained, never silent."""

import os

import pytest

from harness.daemon import Daemon

WATCH = """
databases:
  - {{name: main, url: '{url}'}}
watches:
  - name: pages
    enabled: ${{ZOMBIE_CLEANUP_ENABLED:-true}}
    table: pages
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 1h
    requeue: state = 'queued'
"""
TIME = {"postgres": "timestamptz", "sqlite": "text"}


@pytest.fixture
def pages(db):
    db.sql(f"CREATE TABLE pages (id integer PRIMARY KEY, state text, beat {TIME[db.engine]})")
    db.sql("INSERT INTO pages VALUES (1, 'running', '2020-01-01 00:00:00')")
    return db


def written_for(db):
    """The database's URL, as drivers of other languages have it written."""
    if db.engine == "sqlite":
        return [f"sqlite:///{db.path}", f"sqlite+aiosqlite:///{db.path}", f"file:{db.path}"]
    rest = db.url.split("://", 1)[1]
    more = "&" if "?" in rest else "?"
    return [f"postgresql+asyncpg://{rest}", f"postgres+psycopg2://{rest}{more}pgbouncer=true",
            f"postgresql://{rest}{more}connection_limit=3&schema=public"]


def test_the_urls_of_other_drivers_lead_to_the_same_rows(pages, defib):
    for url in written_for(pages):
        ran = defib("scan", "--json", config=WATCH.format(url=url))
        assert ran.code == 1 and ran.json["found"] == 1, (url, ran.err)
        quiet = url.startswith("sqlite:////") or "schema=" in url and "limit" not in url
        assert quiet or "ignor" in ran.err or "read as" in ran.err, (url, ran.err)
    given = defib("list", "--db", written_for(pages)[0], config=WATCH.format(url=pages.url))
    assert given.code == 0 and "1" in given.out, given.err


def test_a_relative_path_behind_three_slashes_is_relative(lite, defib):
    lite.sql("CREATE TABLE pages (id integer PRIMARY KEY, state text, beat text)")
    way = os.path.relpath(lite.path, defib.dir)
    ran = defib("scan", config=WATCH.format(url=f"sqlite:///{way}"))
    assert ran.code == 0, ran.err
    assert f"an absolute path is written sqlite:/{way}" in ran.err


@pytest.mark.parametrize("url, hint", [
    ("sqlite://jobs.db", "write sqlite:PATH"),
    ("jdbc:postgresql://anna:s3cret@h/db", "postgresql://USER@HOST/DATABASE"),
    ("mysql://anna:s3cret@h/db", "write postgres://"),
])
def test_a_url_that_cannot_be_read_is_refused_with_what_to_write(defib, url, hint):
    ran = defib("scan", config=WATCH.format(url=url))
    assert ran.code == 3 and hint in ran.err and "s3cret" not in ran.err, ran.err


@pytest.mark.parametrize("word", ["False", "no", "0", "OFF"])
def test_a_watch_that_is_off_says_so_and_which_variable_did_it(pages, defib, word):
    env = {"ZOMBIE_CLEANUP_ENABLED": word}
    config = WATCH.format(url=pages.url)
    for command in ("scan", "list", "status"):
        ran = defib(command, config=config, env=env)
        assert "watch pages is off" in ran.err, (command, ran)
        assert "ZOMBIE_CLEANUP_ENABLED" in ran.err
    doctor = defib("doctor", config=config, env=env)
    assert "off: enabled is false" in doctor.out and "ZOMBIE_CLEANUP_ENABLED" in doctor.out
    named = defib("scan", "pages", "--json", config=config, env=env)
    assert named.json["found"] == 1  # who names it means it


def test_a_daemon_logs_which_watches_are_off_and_why(pages, defib):
    daemon = Daemon(defib, WATCH.format(url=pages.url), env={"ZOMBIE_CLEANUP_ENABLED": "False"})
    off, = daemon.lines("a watch is off")
    assert off["watch"] == "pages" and "ZOMBIE_CLEANUP_ENABLED" in off["because"]
    assert daemon.stop() == 0
