# SPDX-License-Identifier: Apache-2.0
"""Columns without a time zone that hold local time: `time_zone` reads and writes them."""

import pytest

TABLE = """
    CREATE TABLE visits (id int PRIMARY KEY, status text, updated_at timestamp, seen_at timestamptz);
    INSERT INTO visits VALUES
        (1, 'running', clock_timestamp() AT TIME ZONE 'America/New_York' - interval '2 hours', NULL),
        (2, 'running', clock_timestamp() AT TIME ZONE 'America/New_York' - interval '2 minutes', NULL)
"""


def config(db, zone="", alive_at="updated_at"):
    return f"""
databases:
  - {{name: main, url: '{db.url}'}}
watches:
  - name: visits
    table: visits
    key: id
    running: status = 'running'
    alive_at: {alive_at}
    {zone}
    stuck_after: 10m
    requeue: status = 'queued', updated_at = :now, seen_at = :now
"""


@pytest.fixture
def visits(pg):
    pg.sql(TABLE)
    return pg


def test_local_times_are_read_and_written_in_the_zone_of_the_watch(visits, defib):
    """The cure by an expression made :now write UTC: hours wrong, rows looked alive."""
    ran = defib("scan", "--fix", config=config(visits, "time_zone: America/New_York"))
    assert ran.code == 0, ran.err
    rows = visits.sql(
        "SELECT status, abs(extract(epoch FROM clock_timestamp() AT TIME ZONE 'America/New_York' - "
        "updated_at)) < 60, abs(extract(epoch FROM clock_timestamp() - seen_at)) < 60 "
        "FROM visits ORDER BY id")
    assert rows[0] == ("queued", True, True)
    assert rows[1][0] == "running"


def test_a_time_in_another_form_is_written_as_its_column_wants_it(pg, defib):
    """Beside a sign of life in numbers; within an expression it stays a number."""
    pg.sql("CREATE TABLE visits (id int PRIMARY KEY, status text, beat bigint, seen_at timestamptz, "
           "local_at timestamp, ended_at timestamptz); "
           "INSERT INTO visits VALUES (1, 'running', 0)")
    text = config(pg, alive_at="beat").replace(
        "updated_at = :now, seen_at = :now",
        "beat = :now, seen_at = :now , local_at = :now, ended_at = to_timestamp(:now)")
    ran = defib("scan", "--fix", config=text.replace("stuck_after", "time_type: epoch\n    stuck_after"))
    assert ran.code == 0, ran.err
    near = "abs(extract(epoch FROM clock_timestamp() - {})) < 60"
    assert pg.sql("SELECT abs(extract(epoch FROM clock_timestamp()) - beat) < 60, "
                  f"{near.format('seen_at')}, {near.format('ended_at')}, "
                  "abs(extract(epoch FROM clock_timestamp() AT TIME ZONE 'UTC' - local_at)) < 60 "
                  "FROM visits") == [(True,) * 4]


def test_now_is_written_to_numbers_as_they_are_beside_a_timestamp(db, defib):
    """In the unit that the column's values show; an expression sees a time."""
    big, stamp = ("bigint", "timestamptz") if db.engine == "postgres" else ("INTEGER", "TEXT")
    db.sql(f"CREATE TABLE visits (id int PRIMARY KEY, status text, updated_at {stamp}, seen_at {stamp}, "
           f"s {big}, ms {big})")
    db.sql("INSERT INTO visits VALUES (1, 'running', '2026-01-01 00:00:00', NULL, NULL, 1767225600000)")
    set_list = "updated_at = :now, s = :now, ms = :now"
    if db.engine == "postgres":
        set_list += ", seen_at = to_timestamp(extract(epoch FROM :now))"
    ran = defib("scan", "--fix", config=config(db).replace("updated_at = :now, seen_at = :now", set_list))
    assert ran.code == 0, ran.err
    (s, ms), = db.sql("SELECT s, ms FROM visits")
    assert 1.7e9 < s < 1e10 and abs(ms / 1000 - s) < 3600


@pytest.mark.covers("F12")
def test_doctor_finds_by_a_round_trip_that_now_is_written_in_another_form(visits, defib):
    zone = "updated_at AT TIME ZONE 'America/New_York'"
    ran = defib("doctor", config=config(visits, alive_at=zone))
    assert "is read by" in ran.out and "time_zone" in ran.out, ran.out
    ran = defib("doctor", config=config(visits, "time_zone: America/New_York"))
    assert "is read by" not in ran.out
    assert "is read and written in America/New_York" in ran.out, ran.out


def test_a_zone_that_nobody_knows_is_one_clear_line(visits, defib):
    ran = defib("scan", config=config(visits, "time_zone: Mars/Olympus"))
    assert ran.code == 3 and 'no time zone "Mars/Olympus"' in ran.err, ran


def test_a_zone_and_another_form_contradict_each_other(visits, defib):
    ran = defib("config", "check",
                config=config(visits, "time_zone: Europe/Berlin\n    time_type: utc"))
    assert ran.code == 3 and "leave time_type out" in ran.err + ran.out, ran


def test_sqlite_knows_no_zones_and_says_so(lite, defib):
    lite.sql("CREATE TABLE visits (id int PRIMARY KEY, status text, updated_at text, seen_at text)")
    ran = defib("scan", config=config(lite, "time_zone: America/New_York"))
    assert ran.code == 3 and "SQLite has no time zones" in ran.err, ran
