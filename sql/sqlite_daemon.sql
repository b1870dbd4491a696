-- Tables of daemons in an SQLite database: leaders, operator overrides, the state of each
-- watch, learned run times, numbers over time, alerts and messages. Times are milliseconds since 1970.
-- Runs as it is in sqlite3; running it again changes nothing.
CREATE TABLE IF NOT EXISTS defib_leader (
    watch      TEXT NOT NULL PRIMARY KEY,
    holder     TEXT NOT NULL,
    epoch      INTEGER NOT NULL DEFAULT 1,
    since      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS defib_setting (
    watch  TEXT NOT NULL,
    name   TEXT NOT NULL, -- pause, raise, override
    value  TEXT NOT NULL,
    actor  TEXT NOT NULL,
    reason TEXT,
    at     INTEGER NOT NULL,
    until  INTEGER,
    role   TEXT, -- SQLite has none
    PRIMARY KEY (watch, name)
);

CREATE TABLE IF NOT EXISTS defib_status (
    watch  TEXT NOT NULL PRIMARY KEY,
    at     INTEGER NOT NULL,
    holder TEXT NOT NULL,
    info   TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS defib_learned (
    watch   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    buckets TEXT NOT NULL,
    PRIMARY KEY (watch, kind)
);

-- Numbers of each watch over time, in steps of three lengths (src/insight/series.h). The leader of
-- a watch writes them and removes what is older than its range. Step 0 has one row per watch: up
-- to where ledger and ended jobs were counted.
CREATE TABLE IF NOT EXISTS defib_series (
    step    INTEGER NOT NULL, -- seconds
    at      INTEGER NOT NULL, -- when the step began, in seconds since 1970
    watch   TEXT NOT NULL,
    numbers TEXT NOT NULL,
    PRIMARY KEY (step, at, watch)
) WITHOUT ROWID;

-- Sums of the ledger's entries after first_id up to last_id, per watch (src/ledger/digest.h). The
-- row of watch "*" says that there is a digest, also if none of its entries is of a watch.
CREATE TABLE IF NOT EXISTS defib_digest (
    form     TEXT NOT NULL, -- by what they were summed up: that of another version is not used
    watch    TEXT NOT NULL,
    last_id  INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    from_us  INTEGER NOT NULL, -- the first and the last time of an entry, since 1970
    to_us    INTEGER NOT NULL,
    events   TEXT NOT NULL, -- by day and event
    tops     TEXT NOT NULL, -- by cause, kind, owner, job, actor
    times    TEXT NOT NULL, -- how long each recovered job had no worker, in milliseconds
    PRIMARY KEY (form, watch, last_id)
) WITHOUT ROWID;

-- State of each alert rule, by watch ("*": of the database as a whole).
CREATE TABLE IF NOT EXISTS defib_alert (
    watch    TEXT NOT NULL,
    rule     TEXT NOT NULL,
    severity TEXT NOT NULL,
    state    TEXT NOT NULL, -- pending, firing, resolved
    since    INTEGER NOT NULL,
    fired_at INTEGER, -- when it last began to fire
    told_at  INTEGER, -- when its last message was written
    repeats  INTEGER NOT NULL DEFAULT 0,
    value    REAL NOT NULL DEFAULT 0,
    sentence TEXT NOT NULL DEFAULT '',
    topic    TEXT NOT NULL DEFAULT '', -- by which receivers group messages
    holder   TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (watch, rule)
);

-- Messages to sinks: alerts and reports. Any daemon sends a message that is due and has not
-- ended. While it tries, due_at is moved ahead; a try that is never finished is made again.
CREATE TABLE IF NOT EXISTS defib_delivery (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    sink     TEXT NOT NULL,
    id       TEXT NOT NULL,
    kind     TEXT NOT NULL,
    topic    TEXT, -- messages of one topic reach a sink in order
    document TEXT NOT NULL,
    made_at  INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    tries    INTEGER NOT NULL DEFAULT 0,
    answer   TEXT, -- to the last try
    ended    TEXT, -- sent, refused, given up
    ended_at INTEGER,
    UNIQUE (sink, id)
);
CREATE INDEX IF NOT EXISTS defib_delivery_due ON defib_delivery (sink, seq) WHERE ended IS NULL;
CREATE INDEX IF NOT EXISTS defib_delivery_ended_at ON defib_delivery (ended_at)
    WHERE ended IS NOT NULL;

-- What retention has removed and what it keeps, by rule; the row '' is the last round.
CREATE TABLE IF NOT EXISTS defib_kept (
    rule    TEXT NOT NULL PRIMARY KEY,
    at      INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0,
    rows    INTEGER,
    oldest  INTEGER
);

-- An act on all jobs that match some terms, which the leader of the watch carries out. Its id is
-- the batch in the ledger.
CREATE TABLE IF NOT EXISTS defib_act (
    id         TEXT NOT NULL PRIMARY KEY,
    watch      TEXT NOT NULL,
    act        TEXT NOT NULL,
    terms      TEXT NOT NULL, -- a JSON list of texts
    step       TEXT,
    overrides  INTEGER NOT NULL DEFAULT 0,
    reason     TEXT,
    actor      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    state      TEXT NOT NULL DEFAULT 'waiting', -- waiting, running, done, cancelled, failed
    total      INTEGER NOT NULL, -- that matched when it was ordered; -1: more than were counted
    up_to      TEXT, -- the last job that matched then
    position   TEXT, -- the last job that was handled
    parts      INTEGER NOT NULL DEFAULT 0, -- transactions so far
    done       INTEGER NOT NULL DEFAULT 0,
    others     TEXT NOT NULL DEFAULT '{}', -- other outcomes and their numbers
    refusal    TEXT, -- the first one
    updated_at INTEGER,
    ended_at   INTEGER,
    error      TEXT,
    role       TEXT -- SQLite has none
);
CREATE INDEX IF NOT EXISTS defib_act_open ON defib_act (at) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS defib_act_ended_at ON defib_act (ended_at) WHERE ended_at IS NOT NULL;
