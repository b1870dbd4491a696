# SPDX-License-Identifier: Apache-2.0
"""What must be true after chaos, as SQL that finds the rows for which it is not.

Triggers of the test record every change of every job, and how workers begin and
end; the program's file of side effects becomes a table keyed by (job, epoch).
The invariants are queries over jobs, that history, the effects and the ledger:
each must find nothing. ledger_history.py replays the same history against the model.
Written for PostgreSQL; on SQLite `defib.` is read as `defib_`.
"""

FINAL = "('done', 'failed', 'timed_out', 'cancelled')"

TABLES = """
CREATE TABLE chaos_sent (n bigint PRIMARY KEY, acknowledged integer NOT NULL);
CREATE TABLE chaos_effect (job bigint, epoch bigint, pid bigint, runs integer, fate text,
                           PRIMARY KEY (job, epoch));
"""

COLUMNS = """job, was, became, was_epoch, epoch, was_owner, owner, attempts, max_attempts,
 crashed, cause"""
VALUES = """NEW.id, OLD.state, NEW.state, OLD.epoch, NEW.epoch, OLD.owner, NEW.owner,
 NEW.attempts, NEW.max_attempts, NEW.crashes - OLD.crashes, NEW.cause"""
HISTORY = """job bigint, was text, became text, was_epoch bigint, epoch bigint,
 was_owner bigint, owner bigint, attempts integer, max_attempts integer, crashed integer,
 cause text"""

# SQLite has one writer: the last of both and one more.
LITE_AT = """(SELECT 1 + max(coalesce((SELECT max(at) FROM chaos_history), 0),
                        coalesce((SELECT max(at) FROM chaos_worker), 0)))"""
# Milliseconds are all that SQLite's clock has.
LITE_US = "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) * 1000"

# In one order with the changes of jobs; how long ago it had renewed is by the database's clock.
WORKER = """worker bigint, state text, cause text, age_ms bigint, lease_ms bigint, incarnation text"""
WORKER_COLUMNS = "worker, state, cause, age_ms, lease_ms, incarnation"

HISTORY_OF = {
    "postgres": f"""
CREATE SEQUENCE chaos_at;
CREATE FUNCTION chaos_us() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)';
CREATE TABLE chaos_history (at bigint PRIMARY KEY DEFAULT nextval('chaos_at'),
                            us bigint NOT NULL DEFAULT chaos_us(), {HISTORY});
CREATE TABLE chaos_worker (at bigint PRIMARY KEY DEFAULT nextval('chaos_at'),
                           us bigint NOT NULL DEFAULT chaos_us(), {WORKER});
CREATE FUNCTION chaos_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.chaos_history ({COLUMNS}) VALUES ({VALUES});
    RETURN NULL;
END $$;
CREATE FUNCTION chaos_note_worker() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.chaos_worker ({WORKER_COLUMNS})
    VALUES (NEW.id, NEW.state, NEW.cause,
            extract(epoch FROM clock_timestamp() - NEW.renewed_at) * 1000, NEW.lease_ms,
            NEW.incarnation);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_note AFTER UPDATE ON defib.job FOR EACH ROW EXECUTE FUNCTION chaos_note();
CREATE TRIGGER chaos_note_entry AFTER INSERT ON defib.worker FOR EACH ROW
    EXECUTE FUNCTION chaos_note_worker();
CREATE TRIGGER chaos_note_worker AFTER UPDATE ON defib.worker FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION chaos_note_worker();
""",
    "sqlite": f"""
CREATE TABLE chaos_history (at INTEGER PRIMARY KEY, us bigint, {HISTORY});
CREATE TABLE chaos_worker (at INTEGER PRIMARY KEY, us bigint, {WORKER});
CREATE TRIGGER chaos_note AFTER UPDATE ON defib_job BEGIN
    INSERT INTO chaos_history (at, us, {COLUMNS}) VALUES ({LITE_AT}, {LITE_US}, {VALUES});
END;
""" + "".join(f"""
CREATE TRIGGER {name} AFTER {when} BEGIN
    INSERT INTO chaos_worker (at, us, {WORKER_COLUMNS})
    VALUES ({LITE_AT}, {LITE_US}, NEW.id, NEW.state, NEW.cause, {LITE_US} / 1000 - NEW.renewed_at,
            NEW.lease_ms, NEW.incarnation);
END;
""" for name, when in (
        ("chaos_note_entry", "INSERT ON defib_worker"),
        ("chaos_note_worker", "UPDATE ON defib_worker WHEN OLD.state <> NEW.state"))),
}

# Made when the run is over, for the queries below.
INDEXES = ("CREATE INDEX chaos_history_job ON chaos_history (job, epoch)",
           "CREATE INDEX chaos_history_was ON chaos_history (job, was_epoch)")

OPEN = f"SELECT count(*) FROM defib.job WHERE state NOT IN {FINAL}"
ALIVE = "SELECT id, renewed_at FROM defib.worker WHERE state = 'alive'"

# (what must hold, a query for the rows where it does not)
CHECKS = [
    ("I1 an acknowledged enqueue is there, once", """
        WITH there AS MATERIALIZED (
            SELECT job, CAST(payload->>'n' AS bigint) AS n FROM defib.job_data)
        SELECT s.n, count(d.job) FROM chaos_sent s LEFT JOIN there d ON d.n = s.n
        GROUP BY s.n, s.acknowledged HAVING count(d.job) > 1 OR count(d.job) < s.acknowledged"""),
    ("I1 every job has its data", """
        SELECT d.job FROM defib.job_data d LEFT JOIN defib.job j ON j.id = d.job
        WHERE j.id IS NULL
        UNION ALL SELECT j.id FROM defib.job j LEFT JOIN defib.job_data d ON j.id = d.job
        WHERE d.job IS NULL"""),
    ("I2 a job becomes final once", f"""
        SELECT j.id, j.state, count(h.job) FROM defib.job j
        LEFT JOIN chaos_history h ON h.job = j.id AND h.became IN {FINAL}
        GROUP BY j.id, j.state HAVING count(h.job) <> 1"""),
    ("I2 a final state never changes",
     f"SELECT job, was, became, epoch FROM chaos_history WHERE was IN {FINAL}"),
    ("I2 no epoch ran twice", "SELECT job, epoch, runs FROM chaos_effect WHERE runs <> 1"),
    ("I2 done means that its last epoch said so", """
        SELECT j.id, j.epoch, e.fate FROM defib.job j
        LEFT JOIN chaos_effect e ON e.job = j.id AND e.epoch = j.epoch
        WHERE j.state = 'done' AND coalesce(e.fate, '') NOT IN ('done', 'done_result')"""),
    ("I2 a result is of the epoch that settled", """
        SELECT j.id, j.state, j.epoch, d.result FROM defib.job j
        JOIN defib.job_data d ON d.job = j.id
        LEFT JOIN chaos_effect e ON e.job = j.id AND e.epoch = j.epoch
        WHERE (d.result IS NOT NULL AND CAST(d.result->>'epoch' AS bigint) <> j.epoch)
           OR (d.result IS NOT NULL) <> (j.state = 'done' AND e.fate = 'done_result')"""),
    ("I3, I4 a claim raises the epoch by one, nothing else touches it", """
        SELECT job, was, became, was_epoch, epoch FROM chaos_history
        WHERE epoch <> was_epoch + (CASE WHEN was = 'queued' AND became = 'running'
                                    THEN 1 ELSE 0 END)"""),
    ("I3 what ran had been claimed", """
        SELECT e.job, e.epoch FROM chaos_effect e
        LEFT JOIN chaos_history h ON h.job = e.job AND h.epoch = e.epoch AND h.became = 'running'
            AND h.was = 'queued'
        WHERE h.job IS NULL"""),
    ("I4 the epoch is the number of claims", """
        SELECT j.id, j.epoch, count(h.job) FROM defib.job j
        LEFT JOIN chaos_history h ON h.job = j.id AND h.became = 'running' AND h.was = 'queued'
        GROUP BY j.id, j.epoch HAVING count(h.job) <> j.epoch"""),
    ("I5 running means an owner, final means none", """
        SELECT job, became, owner FROM chaos_history
        WHERE (owner IS NOT NULL) <> (became IN ('running', 'cancelling'))"""),
    ("I5 an owner does not change without a settlement between", """
        SELECT job, was, became, was_owner, owner FROM chaos_history
        WHERE was_owner IS NOT NULL AND owner IS NOT NULL AND was_owner <> owner"""),
    ("I8 attempts stay within their maximum",
     "SELECT job, attempts, max_attempts FROM chaos_history WHERE attempts > max_attempts"),
    ("I12 nothing is left open",
     f"SELECT id, state, epoch, owner FROM defib.job WHERE state NOT IN {FINAL}"),
    ("the ledger has each requeue of a lost job, and no other", """
        SELECT j.id, h.n, l.n FROM defib.job j
        LEFT JOIN (SELECT job, count(*) AS n FROM chaos_history
                   WHERE was IN ('running', 'cancelling') AND became = 'queued' AND crashed = 1
                   GROUP BY job) h ON h.job = j.id
        LEFT JOIN (SELECT CAST(job AS bigint) AS job, count(*) AS n FROM defib.ledger
                   WHERE watch = 'queue' AND event = 'REQUEUED' GROUP BY job) l ON l.job = j.id
        WHERE coalesce(h.n, 0) <> coalesce(l.n, 0)"""),
    ("the ledger calls late only what was not taken", """
        SELECT l.job, l.epoch, l.actor, h.became FROM defib.ledger l
        JOIN chaos_history h ON h.job = CAST(l.job AS bigint) AND h.was_epoch = l.epoch
            AND l.actor = 'worker:' || CAST(h.was_owner AS text)
        WHERE l.event = 'LATE_COMPLETION' AND h.was IN ('running', 'cancelling')
            AND h.owner IS NULL AND h.crashed = 0 AND h.became <> 'queued'"""),
    ("who was lost has a cause, and nobody is left alive", """
        SELECT id, name, state, cause FROM defib.worker
        WHERE state = 'alive' OR (state = 'dead' AND cause IS NULL)"""),
]

# ---- for the replay against the model

ROWS = """SELECT at, us, job, was, became, was_epoch, epoch, was_owner, owner, attempts,
 max_attempts, crashed = 1 AND cause = 'lost' FROM chaos_history ORDER BY at"""
WORKERS = f"SELECT at, us, {WORKER_COLUMNS} FROM chaos_worker ORDER BY at"
LATE = """SELECT CAST(job AS bigint), epoch, actor FROM defib.ledger
 WHERE watch = 'queue' AND event = 'LATE_COMPLETION'"""
RECOVERED = """SELECT CAST(job AS bigint), epoch FROM defib.ledger
 WHERE watch = 'queue' AND event IN ('REQUEUED', 'FAILED', 'HELD')"""
