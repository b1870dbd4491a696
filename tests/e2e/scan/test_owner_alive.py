# SPDX-License-Identifier: Apache-2.0
"""owner_alive: a row whose owner is null has no worker that could be dead."""

import pytest

from harness.example_systems import ago

WATCH = """
databases:
  - {{name: main, url: '{url}'}}
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    {owner}
    owner_alive: EXISTS (SELECT 1 FROM processes p WHERE p.id = t.owner)
    alive_at: beat
    stuck_after: 10m
    requeue: state = 'queued', owner = NULL
"""
TIME = {"postgres": "timestamptz", "sqlite": "text"}


@pytest.fixture
def jobs(db, with_tables):
    """1: no owner yet, 2: its process lives, 3: its process is gone, 4: no owner, and silent."""
    db.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state text, owner text,"
           f" beat {TIME[db.engine]})")
    db.sql("CREATE TABLE processes (id text PRIMARY KEY)")
    db.sql("INSERT INTO processes VALUES ('p1')")
    for key, owner, seconds in ((1, None, 0), (2, "p1", 0), (3, "p9", 0), (4, None, 3600)):
        db.sql(f"INSERT INTO jobs VALUES (%s, 'running', %s, {ago(db, seconds)})", key, owner)
    return db


def test_a_row_without_an_owner_is_never_dead_though_exists_is_never_null(jobs, defib):
    config = WATCH.format(url=jobs.url, owner="owner: owner")
    found = defib("scan", "--json", config=config).json["watches"][0]["jobs"]
    assert sorted((j["key"], j["verdict"]) for j in found) == [("3", "dead"), ("4", "silent")]
    told = defib("explain", "jobs", "1", config=config).out
    assert "owner_alive" in told and "unknown" in told, told
    assert defib("scan", "--fix", config=config).code == 0
    assert jobs.sql("SELECT id FROM jobs WHERE state = 'running' ORDER BY id") == [(1,), (2,)]


def test_doctor_says_how_a_row_without_an_owner_is_judged(jobs, defib):
    config = WATCH.format(url=jobs.url, owner="owner: owner")
    doctor = defib("doctor", config=config)
    assert "a row without an owner is judged by its signs of life" in doctor.out, doctor.out


def test_doctor_warns_of_owner_alive_without_owner(jobs, defib):
    doctor = defib("doctor", config=WATCH.format(url=jobs.url, owner="label: Jobs"))
    assert "owner_alive is given without owner" in doctor.out, doctor.out
    assert "write owner: with the column that names the worker" in doctor.out
