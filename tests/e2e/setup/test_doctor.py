# SPDX-License-Identifier: Apache-2.0
"""defib doctor: each finding is provoked, and its printed fix, run as printed, makes it go away."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest

from harness.doctor_setup import INDEX, Findings, config, doctor, make_jobs, role  # noqa: F401
from harness.pgserver import PgServer, free_port
from harness.pooler import PGBOUNCER, Pooler
from harness.program import Ran
from harness.waiting import eventually, patience


def test_a_healthy_database_and_watch_have_nothing_but_ok(db, doctor):
    make_jobs(db)
    seen = doctor(config=config(db.url))
    assert (seen.code, seen.troubles()) == (0, [])
    assert seen.doc["ok"] == len(seen.all) and (seen.doc["warn"], seen.doc["fail"]) == (0, 0)


def test_doctor_changes_nothing(db, doctor):
    make_jobs(db, index=False)
    count = {"postgres": "SELECT count(*) FROM pg_class",
             "sqlite": "SELECT count(*) FROM sqlite_master"}[db.engine]
    before = (db.sql(count), db.sql("SELECT * FROM jobs ORDER BY id"))
    doctor(config=config(db.url))
    assert (db.sql(count), db.sql("SELECT * FROM jobs ORDER BY id")) == before


def test_text_has_a_line_a_finding_and_the_fix_below_it(lite, defib):
    make_jobs(lite, index=False)
    ran = defib("doctor", config=config(lite.url))
    lines = ran.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("warn  the scan has no index"))
    assert lines[at + 1].startswith("      fix: CREATE INDEX ")
    assert "database db1" in lines and "watch jobs" in lines
    assert any(line.startswith("ok    ") for line in lines)
    assert lines[-1].endswith(", 1 warn, 0 FAIL")
    assert ran.code == 0


def test_quiet_shows_only_what_needs_a_hand(lite, defib):
    make_jobs(lite, index=False)
    ran = defib("doctor", "--quiet", config=config(lite.url))
    assert ran.out.splitlines()[1].startswith("warn  ") and "ok  " not in ran.out


def test_a_database_that_is_down_fails_and_does_not_stop_the_other(lite, doctor):
    make_jobs(lite)
    gone = f"postgres://nobody@127.0.0.1:{free_port()}/none"
    seen = doctor(config=config(lite.url, gone, "sqlite:/nowhere/x.db"))
    down = seen.of("reachable", "FAIL")
    assert [f["database"] for f in down] == ["db2", "db3"] and all(f["fix"] for f in down)
    assert seen.of("reachable", "ok")[0]["database"] == "db1"
    assert seen.one("index", "ok")
    assert seen.code == 4


def test_watch_names_restrict_the_examination(lite, doctor, defib):
    make_jobs(lite)
    text = config(lite.url, "sqlite:/nowhere/x.db")
    assert doctor("jobs", config=text).code == 0
    assert defib("doctor", "jbos", config=text).code == 2


def test_a_watch_that_is_off_is_called_off(lite, doctor):
    make_jobs(lite)
    seen = doctor(config=config(lite.url, enabled="false", table="gone"))
    assert "off" in seen.one("enabled", "ok")["text"] and seen.code == 0


@pytest.mark.covers("F12")
@pytest.mark.parametrize("wrong", [
    {"table": "jbos"}, {"key": "idd"}, {"running": "stat = 'running'"}, {"alive_at": "updated"},
    {"requeue": "stat = 'queued'"},
])
def test_what_does_not_fit_the_table_fails_with_a_place(db, doctor, wrong):
    make_jobs(db)
    seen = doctor(config=config(db.url, **wrong))
    fail = seen.one("fits", "FAIL")
    assert "watch jobs" in fail["text"] and fail["fix"]
    assert seen.code == 3 and not seen.of("index")


def test_a_near_miss_is_the_fix(db, doctor):
    make_jobs(db)
    seen = doctor(config=config(db.url, table="jbos"))
    assert seen.one("fits", "FAIL")["fix"] == 'did you mean "jobs"?'


@pytest.mark.covers("F12")
def test_a_large_table_without_an_index_fails_until_the_printed_index_is_there(db, doctor):
    make_jobs(db, rows=20000, index=False)
    text = config(db.url)
    fail = (seen := doctor(config=text)).one("index", "FAIL")
    assert seen.code == 3 and "whole table" in fail["text"] and "0,000 rows" in fail["text"]
    assert fail["fix"].startswith("CREATE INDEX ")
    db.sql(fail["fix"])
    seen = doctor(config=text)
    assert (seen.code, seen.troubles()) == (0, []) and seen.one("index", "ok")


def test_a_small_table_without_an_index_warns_until_the_printed_index_is_there(db, doctor):
    make_jobs(db, index=False)
    text = config(db.url)
    warn = (seen := doctor(config=text)).one("index", "warn")
    assert seen.code == 0
    db.sql(warn["fix"])
    assert "the scan uses index" in doctor(config=text).one("index", "ok")["text"]


@pytest.mark.parametrize("watch", [
    {"alive_at": "coalesce(updated_at, updated_at)"},
    {"started_at": "updated_at", "overdue_after": "2h"},
    {"missing": "orphan"},
    {"alive_at": "(SELECT max(b.at) FROM beats b WHERE b.job = t.id)"},
    {"alive_at": "(select max(b.at) from beats b where b.job = t.id)"},
    {"alive_at": "t.updated_at", "running": "t.status = 'running'"},
])
def test_the_printed_index_serves_other_shapes_of_watches(db, doctor, watch):
    make_jobs(db, rows=20000, index=False)
    db.sql("CREATE TABLE beats (job bigint PRIMARY KEY, at %s)" %
           ("timestamptz" if db.engine == "postgres" else "TEXT"))
    text = config(db.url, **watch)
    db.sql(doctor(config=text).one("index", "FAIL")["fix"])
    assert doctor(config=text).one("index", "ok")


def test_text_times_warn_and_their_printed_index_serves(pg, doctor):
    make_jobs(pg, rows=20000, index=False)
    pg.sql("ALTER TABLE jobs ALTER updated_at DROP DEFAULT, ALTER updated_at TYPE text")
    text = config(pg.url)
    seen = doctor(config=text)
    assert "no index can be used" in seen.one("types", "warn")["text"]
    pg.sql(seen.one("index", "FAIL")["fix"])
    assert doctor(config=text).one("index", "ok")


def test_an_index_on_the_sign_alone_does_not_serve_a_large_table(pg, doctor):
    make_jobs(pg, rows=50000, index=False)
    pg.sql("UPDATE jobs SET updated_at = now() - interval '1 day' + id * interval '1 second', "
           "status = CASE WHEN id % 5 = 0 THEN 'running' ELSE 'done' END")
    pg.sql("CREATE INDEX by_time ON jobs (updated_at)")
    pg.sql("VACUUM FULL ANALYZE jobs")
    text = config(pg.url)
    fail = doctor(config=text).one("index", "FAIL")
    assert "through index by_time" in fail["text"]
    pg.sql(fail["fix"])
    assert doctor(config=text).one("index", "ok")


@pytest.mark.parametrize("watch", [
    {"running": "(SELECT s.active FROM states s WHERE s.job = t.id) = 1",
     "alive_at": "(SELECT s.at FROM states s WHERE s.job = t.id)"},
    {"running": "status = 'running' AND updated_at < {clock}",
     "alive_at": "(SELECT s.at FROM states s WHERE s.job = t.id)"},
], ids=["only-the-key", "not-immutable"])
def test_an_index_that_would_not_be_used_is_not_proposed(db, doctor, watch):
    make_jobs(db, index=False)
    pg = db.engine == "postgres"
    db.sql("CREATE TABLE states (job bigint PRIMARY KEY, active int, at %s)" %
           ("timestamptz" if pg else "TEXT"))
    watch = {key: text.replace("{clock}", "clock_timestamp()" if pg else "CURRENT_TIMESTAMP")
             for key, text in watch.items()}
    fix = doctor(config=config(db.url, **watch)).one("index", "warn")["fix"]
    assert fix.startswith("no index can serve this watch"), fix


def test_an_index_is_not_proposed_for_rows_that_it_could_not_skip(pg, doctor):
    make_jobs(pg, rows=20000, index=False)
    pg.sql("UPDATE jobs SET status = 'running', updated_at = now() - interval '1 day'")
    pg.sql("VACUUM FULL ANALYZE jobs")
    text = config(pg.url)
    assert "CREATE" not in doctor(config=text).one("index", "FAIL")["fix"]


def test_an_index_that_is_there_is_not_proposed_again(pg, doctor):
    """Its table was never analysed since it grew: that is what to do."""
    make_jobs(pg, rows=20000, index=False)
    pg.sql("UPDATE jobs SET status = 'running', updated_at = now() - interval '1 day'")
    pg.sql("VACUUM ANALYZE jobs")
    pg.sql("ALTER TABLE jobs SET (autovacuum_enabled = off)")
    pg.sql("UPDATE jobs SET status = 'done' WHERE id % 2 = 0 OR id % 3 = 0")
    pg.sql("CREATE INDEX mine ON jobs (updated_at, id) WHERE status = 'running'")
    pg.sql(f"ALTER DATABASE {pg.name} SET enable_indexscan = off")
    pg.sql(f"ALTER DATABASE {pg.name} SET enable_bitmapscan = off")
    pg.sql(f"ALTER DATABASE {pg.name} SET enable_indexonlyscan = off")
    fix = doctor(config=config(pg.url)).one("index", "FAIL")["fix"]
    assert not fix.startswith("CREATE"), fix


def test_a_unique_index_that_cannot_be_built_is_not_proposed(db, doctor):
    make_jobs(db)
    db.sql("UPDATE jobs SET attempts = CASE WHEN status = 'running' THEN id ELSE 0 END")
    warn = doctor(config=config(db.url, key="attempts")).one("key", "warn")
    assert "unique columns as key" in warn["fix"]


def test_another_large_table_that_a_look_reads_whole_fails(pg, doctor):
    make_jobs(pg)
    pg.sql("CREATE TABLE beats (job bigint, at timestamptz)")
    pg.sql("INSERT INTO beats SELECT i, now() FROM generate_series(1, 20000) i")
    pg.sql("ANALYZE beats")
    text = config(pg.url, alive_at="(SELECT b.at FROM beats b WHERE b.job = t.id)")
    fail = doctor(config=text).of("index", "FAIL")[0]
    assert "public.beats" in fail["text"] and "job = t.id" in fail["fix"]
    pg.sql("CREATE INDEX ON beats (job)")
    assert not doctor(config=text).of("index", "FAIL")


def test_a_key_that_is_not_unique_warns_until_the_printed_index_is_there(db, doctor):
    make_jobs(db)
    db.sql("UPDATE jobs SET attempts = id")
    text = config(db.url, key="[attempts, kind]")
    warn = doctor(config=text).one("key", "warn")
    db.sql(warn["fix"])
    assert doctor(config=text).one("key", "ok")


def test_indexes_for_a_view_are_advised_on_the_table_behind_it(pg, doctor):
    make_jobs(pg, index=False)
    pg.sql("CREATE VIEW few AS SELECT * FROM jobs WHERE id > 0")
    seen = doctor(config=config(pg.url, table="few"))
    for check in ("key", "index"):
        assert '"few" is a view: on the table behind it, CREATE' in seen.one(check, "warn")["fix"]


@pytest.mark.covers("F12")
def test_a_requeue_without_bounds_and_ledger_fails(db, doctor):
    make_jobs(db)
    seen = doctor(config=config(db.url, top="ledger: 'off'"))
    assert seen.one("ledger", "warn") and seen.one("loop", "FAIL")["fix"] and seen.code == 3
    bounded = config(db.url, top="ledger: 'off'", attempts="attempts", max_attempts=3)
    assert doctor(config=bounded).one("loop", "ok")


def test_time_without_a_zone_warns_until_the_watch_says_utc(pg, doctor):
    make_jobs(pg, index=False)
    pg.sql("ALTER TABLE jobs ALTER updated_at TYPE timestamp")
    assert "read as UTC" in doctor(config=config(pg.url)).one("types", "warn")["text"]
    pg.sql(f"ALTER DATABASE {pg.name} SET TimeZone = 'America/New_York'")
    local = doctor(config=config(pg.url)).one("types", "FAIL")
    assert "now() is local time here (America/New_York)" in local["text"]
    assert "time_zone: America/New_York" in local["fix"]
    assert doctor(config=config(pg.url, time_type="utc")).one("types", "ok")


def test_the_form_that_is_advised_for_times_works(pg, doctor, defib):
    """Also beside a sign of life whose type has no such form, which is read by its own."""
    make_jobs(pg, index=False)
    pg.sql("ALTER TABLE jobs ALTER updated_at TYPE timestamp, ADD until bigint")
    pg.sql("UPDATE jobs SET until = extract(epoch FROM now())::bigint + 60")
    for advised, said in ("time_type", "utc"), ("time_zone", "Area/City"):
        seen = doctor(config=config(pg.url, expires_at="until"))
        assert f"write {advised}: {said}" in seen.of("types", "warn")[0]["fix"]
        value = "Europe/Berlin" if said == "Area/City" else said
        text = config(pg.url, expires_at="until", **{advised: value})
        assert "FAIL" not in [f["level"] for f in doctor(config=text).of("fits")]
        assert defib("scan", config=text).code in (0, 1)


def test_a_form_of_time_that_no_column_has_is_one_clear_line(pg, doctor, defib):
    make_jobs(pg, index=False)
    pg.sql("ALTER TABLE jobs ALTER updated_at DROP DEFAULT, ALTER updated_at TYPE text")
    text = config(pg.url, time_type="utc")
    assert "time_type: utc does not fit type text" in doctor(config=text).one("fits", "FAIL")["text"]
    ran = defib("scan", config=text)
    assert ran.code == 3 and "time_type: utc does not fit type text" in ran.err


def test_what_a_scan_cannot_read_is_no_warning_but_a_failure(pg, doctor, defib):
    """The expression is valid, but not as what the watch takes it for."""
    make_jobs(pg)
    text = config(pg.url, attempts="updated_at", max_attempts="3")
    assert doctor(config=text).one("fits", "FAIL")
    assert defib("scan", config=text).code == 3


@pytest.mark.covers("C7", "F12")
def test_a_threshold_of_two_beats_warns(db, doctor):
    make_jobs(db)
    assert doctor(config=config(db.url, beat="30m")).one("threshold", "warn")["fix"]
    assert doctor(config=config(db.url, beat="10m")).one("threshold", "ok")
    assert "only age" in doctor(config=config(db.url)).one("threshold", "ok")["text"]


def test_a_sign_of_life_in_the_future_warns(db, doctor):
    make_jobs(db)
    later = {"postgres": "now() + interval '150 minutes'",
             "sqlite": "datetime('now', '+150 minutes')"}
    db.sql(f"UPDATE jobs SET updated_at = {later[db.engine]} WHERE id = 50")
    warn = doctor(config=config(db.url)).one("sign", "warn")
    assert warn["text"].startswith("1 running row has") and "2h" in warn["text"]


def test_rows_of_two_watches_are_told(db, doctor):
    make_jobs(db)
    one = config(db.url)
    other = one.partition("watches:\n")[2].replace("name: jobs", "name: other")
    table = "public.jobs" if db.engine == "postgres" else "Jobs"

    def said(text):
        found, = [f for f in doctor(config=one + text).of("overlap") if f["watch"] == "other"]
        return found["level"], found["text"]
    level, text = said(other.replace("table: 'jobs'", f"table: '{table}'"))
    assert level == "warn" and text.startswith("2 running rows are also of watch jobs"), text
    level, text = said(other.replace("key: 'id'", "key: [id, kind]"))
    assert level == "warn" and "because their keys differ" in text, text
    assert said(other.replace("= ''running''", "= ''exporting''"))[0] == "ok"
    assert doctor(config=one).of("overlap") == []
    db.sql("CREATE TABLE elsewhere AS SELECT * FROM jobs")
    text = one + other.replace("table: 'jobs'", "table: elsewhere")
    assert doctor(config=text).of("overlap") == []


def test_a_missing_sign_of_life_warns_unless_it_is_an_orphan(db, doctor):
    make_jobs(db)
    db.sql("UPDATE jobs SET updated_at = NULL WHERE id IN (50, 100)")
    warn = doctor(config=config(db.url)).one("sign", "warn")
    assert warn["text"].startswith("2 running rows have no alive_at")
    assert doctor(config=config(db.url, missing="orphan")).one("sign", "ok")


def test_rows_that_break_the_look_fail(pg, doctor):
    make_jobs(pg, index=False)
    pg.sql("UPDATE jobs SET kind = 'seven-ish' WHERE id = 50")
    pg.sql("UPDATE jobs SET updated_at = '2020-01-01'")
    seen = doctor(config=config(pg.url, attempts="kind::int", max_attempts="3"))
    assert "seven-ish" in seen.one("look", "FAIL")["text"] and seen.code == 3


@pytest.mark.covers("F12")
def test_an_idle_transaction_on_a_watched_table_is_named_and_the_fix_ends_it(pg, doctor):
    make_jobs(pg)
    held = pg.connect()
    held.autocommit = False
    with held.cursor() as cursor:
        cursor.execute("SET application_name = 'forgetful'")
        cursor.execute("UPDATE jobs SET error = 'x' WHERE id = 50")
    assert doctor(config=config(pg.url)).one("idle", "ok"), "60 s are not over"
    warn = doctor("--idle-after", "0s", config=config(pg.url)).one("idle", "warn")
    pid = held.get_backend_pid()
    assert "forgetful" in warn["text"] and warn["fix"] == f"SELECT pg_terminate_backend({pid});"
    pg.sql(warn["fix"])
    eventually(lambda: not pg.sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid))
    assert doctor("--idle-after", "0s", config=config(pg.url)).one("idle", "ok")
    held.close()


def test_a_reader_that_idles_hides_no_rows(pg, doctor):
    make_jobs(pg)
    reader = pg.connect()
    reader.autocommit = False
    with reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM jobs")
    assert doctor("--idle-after", "0s", config=config(pg.url)).one("idle", "ok")
    reader.close()


@pytest.mark.covers("F12")
def test_read_only_by_default_fails_until_the_printed_setting(pg, doctor):
    make_jobs(pg)
    pg.sql(f"ALTER DATABASE {pg.name} SET default_transaction_read_only = on")
    seen = doctor(config=config(pg.url))
    fail = seen.one("writable", "FAIL")
    assert seen.code == 4
    pg.sql(fail["fix"])
    try:
        assert doctor(config=config(pg.url)).one("writable", "ok")
    finally:
        pg.sql(f"ALTER ROLE postgres IN DATABASE {pg.name} RESET default_transaction_read_only")


def test_a_standby_fails_for_writing(server, doctor):
    standby = PgServer(standby_of=server)
    try:
        standby.start()
        seen = doctor("--db", standby.url())
        assert "standby" in seen.one("writable", "FAIL")["text"] and seen.code == 4
    finally:
        standby.remove()


def own_address():
    """An address of this host that is not loopback, or None."""
    said = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    return next((word for word in said if "." in word), None)


def test_an_open_connection_to_another_address_warns_until_it_is_encrypted(doctor):
    address = own_address()
    if not address:
        pytest.skip("this host has no address but loopback")
    own = PgServer(settings={"listen_addresses": "*"})
    try:
        with open(own.data / "pg_hba.conf", "a") as hba:
            hba.write("host all all samehost trust\n")
        url = f"postgres://postgres@{address}:{own.port}/postgres"
        own.start()
        warn = doctor("--db", url).one("tls", "warn")
        assert address in warn["text"] and "sslmode=require" in warn["fix"]
        own.stop()
        key, cert = own.data / "server.key", own.data / "server.crt"
        subprocess.run(["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj",
                        "/CN=test", "-keyout", key, "-out", cert], check=True, capture_output=True)
        for path in (key, cert):
            path.chmod(0o600)
            if own.user:
                os.chown(path, own.user.pw_uid, own.user.pw_gid)
        own.settings["ssl"] = "on"
        own.start()
        assert doctor("--db", url + "?sslmode=require").one("tls", "ok")
        assert doctor("--db", url + "?sslmode=disable").one("tls", "warn")
    finally:
        own.remove()


def test_a_timeline_that_may_not_be_read_is_told(pg, doctor):
    assert "timeline 1: an old primary" in doctor("--db", pg.url).one("timeline", "ok")["text"]
    with role(pg) as url:
        pg.sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        assert "is unknown" in doctor("--db", url).one("timeline", "ok")["text"]


def test_loopback_needs_no_encryption(pg, doctor):
    assert "stays on this host" in doctor("--db", pg.url).one("tls", "ok")["text"]


@pytest.mark.skipif(not PGBOUNCER.exists(), reason="pgbouncer is not installed")
def test_a_transaction_pooler_warns_and_all_other_checks_work_through_it(pg, doctor):
    make_jobs(pg)
    own = Pooler(pg.server)
    try:
        seen = doctor(config=config(own.url(pg.name)))
        assert seen.one("pooler", "warn")["fix"] and seen.code == 0
        assert seen.troubles() == [("pooler", "warn")]
    finally:
        own.stop()
    assert doctor(config=config(pg.url)).one("pooler", "ok")


@pytest.mark.covers("C14", "F12")
@pytest.mark.plain  # for no sanitizer: libfaketime and theirs cannot be loaded together
@pytest.mark.parametrize("shift, word", [("-1h", "ahead of"), ("+1h", "behind")])
def test_another_clock_warns_and_never_fails(pg, doctor, shift, word):
    library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    if not os.path.exists(library) or "asan" in os.environ.get("DEFIB_BIN", ""):
        pytest.skip("libfaketime cannot be loaded here")
    make_jobs(pg)
    seen = doctor(config=config(pg.url), env={"LD_PRELOAD": library, "FAKETIME": shift})
    warn = seen.one("clock", "warn")
    assert word in warn["text"] and "database's clock" in warn["text"] and warn["fix"]
    assert seen.code == 0
    assert doctor(config=config(pg.url)).one("clock", "ok")


@pytest.mark.covers("F12")
def test_a_file_without_a_write_ahead_log_warns_until_the_printed_pragma(lite, doctor):
    make_jobs(lite)
    lite.sql("PRAGMA journal_mode = DELETE")
    warn = doctor(config=config(lite.url)).one("journal", "warn")
    lite.sql(warn["fix"])
    assert doctor(config=config(lite.url)).one("journal", "ok")


def test_a_damaged_file_fails(lite, doctor):
    make_jobs(lite, rows=5000)
    lite.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    lite.drop()
    with open(lite.path, "r+b") as f:
        f.seek(8192)
        f.write(b"\xff" * 4096)
    seen = doctor("--db", lite.url)
    assert "damaged" in seen.one("integrity", "FAIL")["text"] and seen.code == 4


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user without rights")
def test_a_file_that_may_not_be_written_fails_until_it_may(lite, defib):
    make_jobs(lite)
    lite.sql("PRAGMA journal_mode = DELETE")
    lite.drop()
    nobody = pwd.getpwnam("nobody")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dfb-ro-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        path = folder / "jobs.db"
        shutil.copy(lite.path, path)
        shutil.copy(defib.bin, folder / "defib")

        def look():
            child = subprocess.run([folder / "defib", "doctor", "--json", "--db", f"sqlite:{path}"],
                                   cwd=folder, user=nobody.pw_uid, group=nobody.pw_gid,
                                   extra_groups=[], capture_output=True, text=True, timeout=patience())
            return Findings(Ran(child.returncode, child.stdout, child.stderr))

        seen = look()
        assert str(path) in seen.one("writable", "FAIL")["fix"] and seen.code == 4
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
        assert look().one("writable", "FAIL")["fix"].endswith(str(folder))
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        assert look().one("writable", "ok")
    finally:
        shutil.rmtree(folder)


def test_hostile_names_are_quoted_in_every_fix(db, doctor):
    serial = "bigserial" if db.engine == "postgres" else "INTEGER"
    db.sql(f'CREATE TABLE "a ""b;c" ("i d" {serial}, "st\'ate" text, at timestamp)')
    text = config(db.url, table='"a ""b;c"', key="i d", running="\"st'ate\" = 'running'",
                  alive_at="at", time_type="utc", requeue="\"st'ate\" = 'queued'")
    seen = doctor(config=text)
    assert seen.code == 0
    for warning in ("key", "index"):
        db.sql(seen.one(warning, "warn")["fix"])
    assert doctor(config=text).troubles() == []


def test_partitions_are_served_by_the_printed_index(pg, doctor):
    pg.sql("CREATE TABLE jobs (id bigint, status text, error text, updated_at timestamptz, "
           "PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    for part in range(2):
        pg.sql(f"CREATE TABLE jobs_{part} PARTITION OF jobs FOR VALUES FROM ({part * 20000}) "
               f"TO ({part * 20000 + 20000})")
    pg.sql("INSERT INTO jobs SELECT i, CASE WHEN i % 50 = 0 THEN 'running' ELSE 'done' END, NULL, "
           "now() FROM generate_series(1, 39999) i")
    pg.sql("ANALYZE jobs")
    fail = doctor(config=config(pg.url)).one("index", "FAIL")
    assert "40,000" in fail["text"] or "39,999" in fail["text"]


@pytest.mark.covers("F12")
def test_a_sequence_behind_its_table_is_found_and_set_right(pg, defib, doctor):
    """After a restore or a failover: enqueue reports it and assigns no id, doctor has the fix."""
    make_jobs(pg)
    text = config(pg.url)
    assert defib("init", db=pg).code == 0
    for _ in range(3):
        assert defib("enqueue", "mail", "send", db=pg).code == 0
    assert doctor(config=text).one("sequences", "ok")
    pg.sql("SELECT setval(pg_get_serial_sequence('defib.job', 'id'), 1)")
    for more in (), ("--unique-key", "u"), ("--spool", str(defib.dir / "spool")):
        ran = defib("enqueue", "mail", "send", *more, db=pg)
        assert (ran.code, ran.out) == (4, ""), ran.err
        assert "the sequence of defib.job is behind its table" in ran.err
        pg.sql("SELECT setval(pg_get_serial_sequence('defib.job', 'id'), 1)")
    assert pg.sql("SELECT count(*) FROM defib.job") == [(3,)]
    behind = doctor(config=text).one("sequences", "FAIL")
    pg.sql(behind["fix"])
    assert doctor(config=text).one("sequences", "ok")
    ran = defib("enqueue", "mail", "send", "--unique-key", "u", db=pg)
    assert ran.code == 0 and int(ran.out) > 3


# ---- what a held job looks like ----

def test_doctor_says_what_a_poison_job_looks_like_without_words_for_a_hold(db, doctor):
    make_jobs(db)
    text = doctor(config=config(db.url)).one("hold", "ok")["text"]
    assert "stuck 3 times within 72h" in text or "stuck 3 times within 3d" in text
    assert "defib's own table only" in text and "still matches running (status = 'running')" in text
    seen = doctor(config=config(db.url, hold="status = 'failed'"))
    assert "in its own table" in seen.one("hold", "ok")["text"]
    assert not doctor(config=config(db.url, remedies="[{do: report}]")).of("hold")


def test_a_release_that_leaves_used_up_attempts_is_warned_about(db, doctor):
    make_jobs(db)
    words = {"attempts": "attempts", "max_attempts": "3", "hold": "status = 'failed'",
             "work": "{ready: \"status = 'queued' AND attempts < 3\", claim: status = 'running', "
                     "done: status = 'done', failed: status = 'failed'}"}
    warned, = doctor(config=config(db.url, **words)).of("hold", "warn")
    fix = warned["fix"]
    assert fix.startswith("add to the watch: release: ") and fix.endswith(", attempts = 0")
    seen = doctor(config=config(db.url, **words, release=fix.split("release: ")[1]))
    assert not seen.of("hold", "warn")


# ---- remedies, tried on a row

def rows_of(db):
    return db.sql("SELECT * FROM jobs ORDER BY id")


@pytest.mark.covers("F12")
def test_a_remedy_that_leaves_the_row_running_is_found_before_it_is_needed(db, doctor):
    """Doctor tries each remedy on one row, and leaves nothing of it."""
    make_jobs(db)
    before = rows_of(db)
    found = doctor(config=config(db.url, requeue="error = :reason, updated_at = :now",
                                 fail="status = 'failed'"))
    bad = found.of("remedy", "FAIL")
    assert len(bad) == 1 and "requeue was tried on job 50" in bad[0]["text"]
    assert "leaves running true" in bad[0]["text"] and "stays_running: true" in bad[0]["fix"]
    good = found.of("remedy", "ok")
    assert len(good) == 1 and good[0]["text"].startswith("fail: tried on job 50 and rolled back")
    assert rows_of(db) == before


def test_a_row_that_the_database_refuses_to_write_is_a_warning(pg, doctor):
    make_jobs(pg)
    pg.sql("ALTER TABLE jobs ADD CHECK (status <> 'queued') NOT VALID")
    assert "the database refuses it" in doctor(config=config(pg.url)).one("remedy", "warn")["text"]


def test_without_a_running_row_no_remedy_can_be_tried(db, doctor):
    make_jobs(db, rows=10)
    found = doctor(config=config(db.url)).one("remedy", "ok")
    assert found["text"] == "no row is running, so no remedy could be tried"


def test_a_row_that_somebody_has_is_not_waited_for(pg, doctor):
    make_jobs(pg)
    holder = pg.connect()
    holder.autocommit = False
    holder.cursor().execute("SELECT 1 FROM jobs WHERE status = 'running' FOR UPDATE")
    assert doctor(config=config(pg.url)).of("remedy") == []
    holder.close()


# ---- what is not watched, and what is said of it ----

def test_without_a_watch_that_is_what_doctor_says(db, defib, doctor):
    make_jobs(db)
    warn = doctor("--db", db.url).one("watches", "warn")
    assert "no watch is configured" in warn["text"] and warn["fix"]
    assert defib("init", db=db).code == 0
    assert "built-in queue" in doctor("--db", db.url).one("watches", "ok")["text"]
    assert not doctor(config=config(db.url)).of("watches")


def test_a_value_that_looks_mistyped_warns_also_if_the_watch_once_recovered(db, defib, doctor):
    make_jobs(db)
    old = {"postgres": "now() - interval '1 day'", "sqlite": "datetime('now', '-1 day')"}[db.engine]
    db.sql(f"UPDATE jobs SET updated_at = {old}")
    assert defib("scan", "--fix", config=config(db.url)).code == 0
    db.sql("UPDATE jobs SET status = 'exporting' WHERE id < 10")
    warn = doctor(config=config(db.url, running="status = 'exportin'")).one("running", "warn")
    assert "did you mean 'exporting'?" in warn["text"]
