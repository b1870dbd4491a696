-- What daemons keep in an SQLite database: who leads a watch, what persons have told the
-- daemons, how they are, and what was learnt of run times. Times are milliseconds since 1970.
-- Runs as it is in sqlite3; running it again changes nothing.
CREATE TABLE IF NOT EXISTS defib_leader (
    watch      TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    epoch      INTEGER NOT NULL DEFAULT 1,
    since      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS defib_setting (
    watch  TEXT NOT NULL,
    name   TEXT NOT NULL, -- pause, raise
    value  TEXT NOT NULL,
    actor  TEXT NOT NULL,
    reason TEXT,
    at     INTEGER NOT NULL,
    until  INTEGER,
    PRIMARY KEY (watch, name)
);

CREATE TABLE IF NOT EXISTS defib_status (
    watch  TEXT PRIMARY KEY,
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

-- State of each alert rule, by watch ("*": of the database as a whole).
CREATE TABLE IF NOT EXISTS defib_alert (
    watch    TEXT NOT NULL,
    rule     TEXT NOT NULL,
    severity TEXT NOT NULL,
    state    TEXT NOT NULL, -- pending, firing, resolved
    since    INTEGER NOT NULL,
    fired_at INTEGER, -- the last time that it came to fire
    told_at  INTEGER, -- the last message of it
    repeats  INTEGER NOT NULL DEFAULT 0,
    value    REAL NOT NULL DEFAULT 0,
    sentence TEXT NOT NULL DEFAULT '',
    topic    TEXT NOT NULL DEFAULT '', -- by which receivers tell that messages belong together
    holder   TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (watch, rule)
);

-- Messages to sinks: alerts, reports. What has no end yet is sent when it is due, by any
-- daemon; a sender moves due_at while he tries, and what he does not end is due again.
CREATE TABLE IF NOT EXISTS defib_delivery (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    sink     TEXT NOT NULL,
    id       TEXT NOT NULL,
    kind     TEXT NOT NULL,
    topic    TEXT, -- messages of one topic reach a sink in their order
    document TEXT NOT NULL,
    made_at  INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    tries    INTEGER NOT NULL DEFAULT 0,
    answer   TEXT, -- of the last try
    ended    TEXT, -- sent, refused, given up
    ended_at INTEGER,
    UNIQUE (sink, id)
);
CREATE INDEX IF NOT EXISTS defib_delivery_due ON defib_delivery (sink, seq) WHERE ended IS NULL;
CREATE INDEX IF NOT EXISTS defib_delivery_ended_at ON defib_delivery (ended_at)
    WHERE ended IS NOT NULL;

-- What retention has removed, and what is kept, by rule; the row of '' is the last round.
CREATE TABLE IF NOT EXISTS defib_kept (
    rule    TEXT PRIMARY KEY,
    at      INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0,
    rows    INTEGER,
    oldest  INTEGER
);
