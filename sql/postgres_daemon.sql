-- Tables of daemons in a PostgreSQL database: leaders, operator overrides, the state of each
-- watch, learned run times, numbers over time, alerts and messages.
-- Runs as it is in psql; running it again changes nothing.

-- One leader per watch. It is a lease and not a session's lock, so that a daemon that is stopped
-- with its session open loses it too, and so that it works through a pooler.
CREATE TABLE IF NOT EXISTS defib.leader (
    watch      text PRIMARY KEY,
    holder     text NOT NULL,
    epoch      bigint NOT NULL DEFAULT 1,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- An operator override, in force until it is cleared or expires.
CREATE TABLE IF NOT EXISTS defib.setting (
    watch  text NOT NULL,
    name   text NOT NULL, -- pause, raise, override
    value  text NOT NULL,
    actor  text NOT NULL,
    reason text,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    until  timestamptz,
    role   text, -- that wrote it
    PRIMARY KEY (watch, name)
);

-- Only a role that may lead watches, as a daemon's, knows more about who asks than the database
-- does (its callers over HTTP have tokens), and only such a role may tell a daemon to ignore guards:
-- the daemon checks that it could recover the jobs itself.
CREATE OR REPLACE FUNCTION defib.setting_ordered() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.role := session_user;
    IF has_table_privilege(session_user, 'defib.leader', 'UPDATE') THEN
        RETURN NEW;
    END IF;
    IF NEW.name = 'override' THEN
        RAISE EXCEPTION 'role % may not tell a daemon to ignore guards', session_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'An admin may, over HTTP.';
    END IF;
    NEW.actor := 'database:' || session_user;
    RETURN NEW;
END $$;
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'defib.setting'::regclass
            AND tgname = 'setting_ordered') THEN
        CREATE TRIGGER setting_ordered BEFORE INSERT OR UPDATE ON defib.setting
            FOR EACH ROW EXECUTE FUNCTION defib.setting_ordered();
    END IF;
END $$;

-- What the leader of a watch last reported, for `defib status`.
CREATE TABLE IF NOT EXISTS defib.status (
    watch  text PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text NOT NULL,
    info   jsonb NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- Run times by kind, as a histogram of bounded size.
CREATE TABLE IF NOT EXISTS defib.learned (
    watch   text NOT NULL,
    kind    text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    buckets jsonb NOT NULL,
    PRIMARY KEY (watch, kind)
);

-- Numbers of each watch over time, in steps of three lengths (src/insight/series.h). The leader of
-- a watch writes them and removes what is older than its range. Step 0 has one row per watch: up
-- to where ledger and ended jobs were counted.
CREATE TABLE IF NOT EXISTS defib.series (
    step    bigint NOT NULL, -- seconds
    at      bigint NOT NULL, -- when the step began, in seconds since 1970
    watch   text NOT NULL,
    numbers jsonb NOT NULL,
    PRIMARY KEY (step, at, watch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- Sums of the ledger's entries after first_id up to last_id, per watch (src/ledger/digest.h). The
-- row of watch "*" says that there is a digest, also if none of its entries is of a watch.
CREATE TABLE IF NOT EXISTS defib.digest (
    form     text NOT NULL, -- by what they were summed up: that of another version is not used
    watch    text NOT NULL,
    last_id  bigint NOT NULL,
    first_id bigint NOT NULL,
    from_us  bigint NOT NULL, -- the first and the last time of an entry, since 1970
    to_us    bigint NOT NULL,
    events   text NOT NULL, -- by day and event
    tops     text NOT NULL, -- by cause, kind, owner, job, actor
    times    text NOT NULL, -- how long each recovered job had no worker, in milliseconds
    PRIMARY KEY (form, watch, last_id)
);

-- State of each alert rule, by watch ("*": of the database as a whole). The
-- leader of the watch writes it, together with the messages that follow from it.
CREATE TABLE IF NOT EXISTS defib.alert (
    watch    text NOT NULL,
    rule     text NOT NULL,
    severity text NOT NULL,
    state    text NOT NULL, -- pending, firing, resolved
    since    timestamptz NOT NULL,
    fired_at timestamptz, -- when it last began to fire
    told_at  timestamptz, -- when its last message was written
    repeats  bigint NOT NULL DEFAULT 0,
    value    float8 NOT NULL DEFAULT 0,
    sentence text NOT NULL DEFAULT '',
    topic    text NOT NULL DEFAULT '', -- by which receivers group messages
    holder   text NOT NULL DEFAULT '',
    PRIMARY KEY (watch, rule)
);

-- Messages to sinks: alerts and reports. Any daemon sends a message that is due and has not
-- ended. While it tries, due_at is moved ahead; a try that is never finished is made again.
CREATE TABLE IF NOT EXISTS defib.delivery (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sink     text NOT NULL,
    id       text NOT NULL,
    kind     text NOT NULL,
    topic    text, -- messages of one topic reach a sink in order
    document jsonb NOT NULL,
    made_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries    bigint NOT NULL DEFAULT 0,
    answer   text, -- to the last try
    ended    text, -- sent, refused, given up
    ended_at timestamptz,
    UNIQUE (sink, id)
);
CREATE INDEX IF NOT EXISTS delivery_due ON defib.delivery (sink, seq) WHERE ended IS NULL;
CREATE INDEX IF NOT EXISTS delivery_ended_at ON defib.delivery (ended_at) WHERE ended IS NOT NULL;

-- What retention has removed and what it keeps, by rule; the row '' is the last round.
CREATE TABLE IF NOT EXISTS defib.kept (
    rule    text PRIMARY KEY,
    at      timestamptz NOT NULL,
    removed bigint NOT NULL DEFAULT 0,
    rows    bigint,      -- that are kept; the planner's estimate if there are many
    oldest  timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- An act on all jobs that match some terms, which the leader of the watch carries out. Its id is
-- the batch in the ledger.
CREATE TABLE IF NOT EXISTS defib.act (
    id         text PRIMARY KEY,
    watch      text NOT NULL,
    act        text NOT NULL,
    terms      text NOT NULL, -- a JSON list of texts
    step       text,
    overrides  boolean NOT NULL DEFAULT false,
    reason     text,
    actor      text NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    state      text NOT NULL DEFAULT 'waiting', -- waiting, running, done, cancelled, failed
    total      bigint NOT NULL, -- that matched when it was ordered; -1: more than were counted
    up_to      text, -- the last job that matched then
    position   text, -- the last job that was handled
    parts      bigint NOT NULL DEFAULT 0, -- transactions so far
    done       bigint NOT NULL DEFAULT 0,
    others     text NOT NULL DEFAULT '{}', -- other outcomes and their numbers
    refusal    text, -- the first one
    updated_at timestamptz,
    ended_at   timestamptz,
    error      text,
    role       text -- that ordered it
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX IF NOT EXISTS act_open ON defib.act (at) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS act_ended_at ON defib.act (ended_at) WHERE ended_at IS NOT NULL;

-- The role that orders an act is as the database knows it; the daemon checks its rights. What a role
-- that may not lead watches says about the actor or the progress does not count; it may not override
-- guards, nor add to a batch that the ledger has already. What was ordered stays: after that a
-- daemon notes how far it is, and others may cancel it.
CREATE OR REPLACE FUNCTION defib.act_ordered() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leads boolean := has_table_privilege(session_user, 'defib.leader', 'UPDATE');
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.role := session_user;
        IF leads THEN
            RETURN NEW;
        END IF;
        IF NEW.overrides THEN
            RAISE EXCEPTION 'role % may not override guards in the background', session_user
                USING ERRCODE = 'insufficient_privilege',
                      HINT = 'Act without --background, or as an admin over HTTP.';
        END IF;
        IF EXISTS (SELECT 1 FROM defib.ledger l WHERE l.batch = NEW.id
                   OR (l.batch ~>=~ (NEW.id || '.') AND l.batch ~<~ (NEW.id || '/'))) THEN
            RAISE EXCEPTION 'batch % is in the ledger already', NEW.id
                USING ERRCODE = 'unique_violation';
        END IF;
        NEW.actor := 'database:' || session_user;
        NEW.state := CASE NEW.state WHEN 'done' THEN 'done' ELSE 'waiting' END;
        NEW.at := clock_timestamp();
        NEW.ended_at := CASE NEW.state WHEN 'done' THEN NEW.at END;
        NEW.position := NULL;
        NEW.parts := 0;
        NEW.done := 0;
        NEW.others := '{}';
        NEW.refusal := NULL;
        NEW.error := NULL;
        NEW.updated_at := NULL;
        RETURN NEW;
    END IF;
    IF (NEW.id, NEW.watch, NEW.act, NEW.terms, NEW.step, NEW.overrides, NEW.reason, NEW.actor,
        NEW.at, NEW.total, NEW.up_to, NEW.role) IS DISTINCT FROM
       (OLD.id, OLD.watch, OLD.act, OLD.terms, OLD.step, OLD.overrides, OLD.reason, OLD.actor,
        OLD.at, OLD.total, OLD.up_to, OLD.role) THEN
        RAISE EXCEPTION 'background act % was ordered as it is and stays so', OLD.id
            USING ERRCODE = 'insufficient_privilege', HINT = 'Cancel it, and order another.';
    END IF;
    IF NOT leads AND ((NEW.position, NEW.parts, NEW.done, NEW.others, NEW.refusal, NEW.updated_at,
                       NEW.error, NEW.state, NEW.ended_at IS NULL) IS DISTINCT FROM
                      (OLD.position, OLD.parts, OLD.done, OLD.others, OLD.refusal, OLD.updated_at,
                       OLD.error, 'cancelled', false) OR OLD.ended_at IS NOT NULL) THEN
        RAISE EXCEPTION 'role % may cancel a background act, and change nothing else of it',
            session_user USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'defib.act'::regclass
            AND tgname = 'act_ordered') THEN
        CREATE TRIGGER act_ordered BEFORE INSERT OR UPDATE ON defib.act
            FOR EACH ROW EXECUTE FUNCTION defib.act_ordered();
    END IF;
END $$;
