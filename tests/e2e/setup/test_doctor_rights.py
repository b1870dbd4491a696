# SPDX-License-Identifier: Apache-2.0
"""defib doctor: which privileges a role lacks, and the exact grants that fix it."""

import pytest
from harness.doctor_setup import config, doctor, make_jobs, role  # noqa: F401


def test_missing_select_fails_until_the_printed_grant(pg, doctor):
    make_jobs(pg)
    pg.sql("CREATE TABLE beats (job bigint PRIMARY KEY, at timestamptz)")
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE") as url:
        text = config(url, alive_at="(SELECT b.at FROM beats b WHERE b.job = t.id)")
        fail = (seen := doctor(config=text)).one("read", "FAIL")
        assert fail["fix"] == f"GRANT SELECT ON public.beats TO r_{pg.name};" and seen.code == 3
        pg.sql(fail["fix"])
        assert doctor(config=text).one("read", "ok")


def test_beats_that_may_not_be_locked_warn_until_the_printed_grant(pg, doctor):
    make_jobs(pg)
    pg.sql("CREATE TABLE beats (job bigint PRIMARY KEY, at timestamptz)")
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE", "GRANT SELECT ON beats TO ROLE") as url:
        text = config(url, alive_at="(SELECT b.at FROM beats b WHERE b.job = t.id)")
        good, warn = doctor(config=text).of("write")
        assert (good["level"], warn["level"]) == ("ok", "warn")
        assert warn["fix"] == f"GRANT UPDATE ON beats TO r_{pg.name};"
        pg.sql(warn["fix"])
        assert doctor(config=text).one("write", "ok")


@pytest.mark.covers("F12")
def test_no_privilege_at_all_is_mended_by_the_printed_grants(pg, doctor):
    pg.sql('CREATE SCHEMA "my app"')
    make_jobs(pg)
    pg.sql('ALTER TABLE jobs SET SCHEMA "my app"')
    with role(pg, f"GRANT CREATE ON DATABASE {pg.name} TO ROLE") as url:
        text = config(url, table="my app.jobs")
        for _ in range(5):
            fixes = [f["fix"] for f in doctor(config=text).all if f["level"] == "FAIL"]
            for fix in fixes:
                assert fix.startswith("GRANT "), fix
                pg.sql(fix)
            if not fixes:
                break
        seen = doctor(config=text)
        assert (seen.code, seen.troubles()) == (0, [])


@pytest.mark.covers("F12")
def test_missing_update_names_the_very_columns(pg, doctor):
    make_jobs(pg)
    with role(pg, "GRANT SELECT ON jobs TO ROLE", "GRANT UPDATE (status) ON jobs TO ROLE") as url:
        text = config(url)
        fail = (seen := doctor(config=text)).one("write", "FAIL")
        assert "GRANT UPDATE (error, updated_at) ON" in fail["fix"] and seen.code == 3
        pg.sql(fail["fix"])
        assert doctor(config=text).one("write", "ok")


def test_missing_rights_of_the_users_own_statements_are_named(pg, doctor):
    make_jobs(pg)
    pg.sql("CREATE TABLE audit (job bigint)")
    pg.sql("CREATE TABLE beats (job bigint PRIMARY KEY, at timestamptz)")
    also = ('["INSERT INTO audit SELECT id FROM stuck", '
            '"DELETE FROM beats b USING stuck s WHERE b.job = s.id"]')
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE") as url:
        text = config(url, also=also)
        fixes = []
        for _ in range(2):
            fixes.append(doctor(config=text).one("write", "FAIL")["fix"])
            pg.sql(fixes[-1])
        assert fixes == [f"GRANT INSERT ON public.audit TO r_{pg.name};",
                         f"GRANT SELECT, DELETE ON public.beats TO r_{pg.name};"]
        assert doctor(config=text).one("write", "ok")


def test_a_call_needs_the_right_to_execute(pg, doctor):
    """Found without planning the call: what only looks like a name in it counts for nothing."""
    make_jobs(pg)
    pg.sql("CREATE TABLE others (id int); CREATE FUNCTION again(bigint, text) RETURNS int LANGUAGE "
           "sql AS 'SELECT 1'; REVOKE EXECUTE ON FUNCTION again FROM PUBLIC")
    with role(pg, "GRANT SELECT, UPDATE (status) ON jobs TO ROLE") as url:
        text = config(url, requeue='{call: "again(:id, \'from others\') /* from others */"}',
                      fail="{sql: [\"UPDATE jobs SET status = 'failed' FROM stuck WHERE jobs.id = "
                           "stuck.id\"]}")
        fail = doctor(config=text).one("write", "FAIL")
        assert fail["fix"] == f"GRANT EXECUTE ON FUNCTION again(bigint,text) TO r_{pg.name};"
        pg.sql(fail["fix"])
        assert doctor(config=text).one("write", "ok")


def test_a_remedy_that_updates_nothing_needs_the_right_to_lock(pg, doctor):
    make_jobs(pg)
    with role(pg, "GRANT SELECT ON jobs TO ROLE") as url:
        text = config(url, requeue='{call: "abs(:id)"}')
        fail = doctor(config=text).one("write", "FAIL")
        assert "locking" in fail["text"]
        pg.sql(fail["fix"])
        assert doctor(config=text).one("write", "ok")


def test_a_watch_that_only_reports_needs_no_right_to_write(pg, doctor):
    make_jobs(pg)
    with role(pg, "GRANT SELECT ON jobs TO ROLE") as url:
        seen = doctor(config=config(url, requeue=None, remedies="[{do: report}]"))
        assert "only reports" in seen.one("write", "ok")["text"]


def test_a_ledger_that_may_not_be_made_warns_until_a_dba_runs_what_init_prints(pg, doctor, defib):
    make_jobs(pg)
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE") as url:
        text = config(url)
        seen = doctor(config=text)
        warn = seen.one("ledger", "warn")
        assert all(word in warn["text"] for word in ("hold", "undo", "crash budget"))
        assert "defib init --print" in warn["fix"]
        assert warn["fix"] in seen.one("loop", "FAIL")["fix"] and seen.code == 3
        pg.sql(defib("init", "--print", config=text).out)
        seen = doctor(config=text)
        assert seen.one("ledger", "ok") and seen.one("loop", "ok") and seen.code == 0
        assert seen.one("daemon", "ok")


def test_a_ledger_of_another_role_warns_until_the_printed_grants(pg, doctor, defib):
    make_jobs(pg)
    pg.sql("UPDATE jobs SET updated_at = now() - interval '1 day' WHERE id = 50")
    assert defib("scan", "--fix", config=config(pg.url)).code == 0
    pg.sql("UPDATE jobs SET status = 'running', updated_at = now() - interval '1 day' "
           "WHERE id = 50")
    with role(pg, "GRANT SELECT, UPDATE ON jobs TO ROLE") as url:
        text = config(url)
        pg.sql(doctor(config=text).one("ledger", "warn")["fix"])
        assert doctor(config=text).one("ledger", "ok")
        ran = defib("scan", "--fix", "--json", config=text)
        assert ran.code == 0 and ran.json["recovered"] == 1, ran.err


def test_a_superuser_must_not_read_tables_of_others(pg, doctor):
    """Functions in index expressions run as the role that reads the table; doctor runs none."""
    make_jobs(pg)
    with role(pg) as url:
        name = f"r_{pg.name}"
        pg.sql(f"CREATE SCHEMA app AUTHORIZATION {name}; ALTER TABLE jobs SET SCHEMA app; "
               f"ALTER TABLE app.jobs OWNER TO {name}")
        seen = doctor(config=config(pg.url, table="app.jobs"))
        fail = seen.one("code", "FAIL")
        assert name in fail["text"] and "init --print" in fail["fix"] and seen.code == 3
        assert not seen.of("fits") and not seen.of("index")
        assert not doctor(config=config(url, table="app.jobs")).of("code")
