# SPDX-License-Identifier: Apache-2.0
"""Numbers and durations at their limits: taken as they are, or refused in words. Nothing overflows,
no value quietly becomes another one, and no database is asked for what it cannot store."""

import re

import pytest
import yaml

from harness.http_daemon import serving
from harness.python_package import package  # noqa: F401  (a fixture)
from harness.queue_workers import Queue

pytestmark = pytest.mark.sanitized

EXIT_USAGE, EXIT_CONFIG = 2, 3
HOSTILE = ["0", "-1", "1us", "36525d", "2147483648", "9223372036854775807", "99999999999999999999"]
# What databases say about a number, instead of us; and what must never be said.
RAW = re.compile(r"out of range|for type integer|exceeds integer|bigint|invalid value for parameter|"
                 r"overflow|runtime error|Sanitizer|constraint", re.IGNORECASE)

CONFIG = """
databases:
  - {name: main, url: "%s"}
watches:
  - name: pages
    table: pages
    key: id
    running: status = 'running'
    alive_at: at
    started_at: at
    stuck_after: 1h
    overdue_after: 12h
    requeue: status = 'queued'
    fail: status = 'failed'
    attempts: attempts
    max_attempts: 5
    work:
      ready: status = 'queued'
      claim: status = 'running', at = :now
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
      command: ["true"]
"""
TABLE = {"sqlite": "CREATE TABLE pages (id integer PRIMARY KEY, status text, at text, attempts int)",
         "postgres": "CREATE TABLE pages (id bigint PRIMARY KEY, status text, at timestamptz, "
                     "attempts int)"}

# How each command with such an option is run: before the option, and after it.
LINES = {
    "scan": (["scan", "pages"], []),
    "list": (["list", "--watch", "pages"], []),
    "alert": (["alert", "list"], []),
    "act": (["act", "status"], []),
    "ledger": (["ledger"], []),
    "report": (["report"], []),
    "learn": (["learn", "pages"], []),
    "whatif": (["whatif", "pages", "--stuck-after", "2h"], []),
    "pause": (["pause", "pages"], []),
    "raise": (["raise", "pages", "--by", "2"], []),
    "work": (["work", "--queue", "q", "--drain", "--spool", "off", "--name", "limits"],
             ["--", "true"]),
    "enqueue": (["enqueue", "q", "k"], []),
    "force": (["force", "pages", "--action", "fail", "--dry-run"], []),
    "requeue": (["requeue", "--watch", "pages", "--all", "--dry-run"], []),
    "doctor": (["doctor", "--db", "main"], []),
    "prune": (["prune", "pages"], []),
    "install": (["install", "pages"], []),
}
# Options that are part of another form of the command.
FORMS = {("ledger", "older-than"): ["ledger", "prune", "--yes"]}
# They run until they are stopped: only what they refuse is tried.
ENDLESS = {"daemon": ["daemon"], "beat": ["beat", "pages"], "demo": ["demo"]}
LEFT_OUT = {"top": "needs a terminal",
            **dict.fromkeys(("retry", "fail", "hold", "release", "rollback", "excuse",
                             "cancel"),
                            "selects jobs as requeue does")}
REFUSED = ["-1", "36526d", "99999999999999999999", "1e9", ""]


@pytest.fixture
def pages(defib, db, with_tables):
    db.sql(TABLE[db.engine])
    path = defib.dir / "defib.yaml"
    path.write_text(CONFIG % db.url)
    return path


def options_of(defib, command):
    """Names of the options that take a number or a duration, from its help."""
    ran = defib("help", command)
    own = ran.out.partition("Everywhere:")[0]
    return re.findall(r"^  --([a-z-]+) (?:N|DURATION)\b", own, re.MULTILINE)


def commands(defib):
    """Of all groups; the word of a group may be left out."""
    return re.findall(r"^  (?:[a-z]+ )?([a-z]+)  ", defib("help", "--all").out, re.MULTILINE)


def answered(ran, option, value):
    """It was done, or refused in one line that names the option."""
    said = ran.err + ran.out
    assert not RAW.search(ran.err), ran
    assert 0 <= ran.code <= 6 and ran.code != 4, ran
    if ran.code == EXIT_USAGE:
        assert f"--{option}" in said, ran
    return ran.code


def test_every_number_of_every_command(defib, db, pages):
    tried = 0
    for command in commands(defib):
        for option in options_of(defib, command) if command not in LEFT_OUT else ():
            if command in ENDLESS:
                for value in REFUSED:
                    ran = defib(*ENDLESS[command], f"--{option}={value}", "-c", pages)
                    assert answered(ran, option, value) == EXIT_USAGE, ran
                continue
            before, after = LINES.get(command, ([command], []))
            for value in HOSTILE:
                ran = defib(*FORMS.get((command, option), before), f"--{option}={value}",
                            "-c", pages, *after)
                answered(ran, option, value)
                tried += 1
    assert tried > 100


def refuses(ran, *words):
    assert ran.code == EXIT_USAGE, ran
    for word in words:
        assert word in ran.err, ran
    assert "init" not in ran.err, ran


def test_limits_of_a_new_job(defib, db, with_tables):
    def enqueue(*args):
        return defib("enqueue", "q", "k", *args, db=db)
    refuses(enqueue("--timeout", "25d"), "--timeout must be from 0s to 24d 20h", "25d")
    refuses(enqueue("--max-attempts", "0"), "--max-attempts", "from 1 to 2147483647", "0")
    refuses(enqueue("--max-attempts", "2147483648"), "--max-attempts", "from 1 to 2147483647")
    refuses(enqueue("--priority", "32767"), "--priority", "from -32768 to 32766")
    refuses(enqueue("--delay", "36526d"), "--delay", "at most 36525d")
    queue = Queue(defib, db)
    for args in (["--timeout", "24d"], ["--max-attempts", "2147483647"], ["--priority", "-32768"],
                 ["--delay", "36525d"]):
        queue.enqueue(*args)
    # Shorter than what is stored, but a limit.
    queue.enqueue("--timeout", "1us")
    assert queue.all("timeout_ms, max_attempts, priority") == [
        (24 * 86_400_000, 5, 0), (None, 2147483647, 0), (None, 5, -32768), (None, 5, 0), (1, 5, 0)]


def test_the_numbers_of_a_program_in_sql(pg_queue):
    def enqueue(**numbers):
        given = ", ".join(f"{name} => {value}" for name, value in numbers.items())
        try:
            return pg_queue.db.sql(f"SELECT defib.enqueue('q', 'k', {given})")[0][0]
        except Exception as wrong:  # noqa: B902
            return str(wrong).splitlines()[0]
    assert "max_attempts must be at least 1" in enqueue(max_attempts=0)
    assert "max_attempts must be at least 1" in enqueue(max_attempts="NULL")
    assert "timeout_ms must not be negative" in enqueue(timeout_ms=-1)
    assert "delay_ms must be from 0" in enqueue(delay_ms=-1)
    assert "delay_ms must be from 0" in enqueue(delay_ms=2**62)
    assert "priority must be from -32768 to 32766" in enqueue(priority=32767)
    assert isinstance(enqueue(max_attempts=1, timeout_ms=1, delay_ms=0, priority=32766), int)


def test_a_new_job_over_http(defib, db, with_tables):
    config = f'databases:\n  - {{name: main, url: "{db.url}"}}\n'
    with serving(defib.dir, config) as web:
        def enqueue(**members):
            return web.post("/api/v1/queues/q/jobs", {"kind": "k", **members})
        for members, word in (({"timeout": "25d"}, "timeout must be at most 24d 20h"),
                              ({"timeout": "36526d"}, "timeout must be a duration"),
                              ({"max_attempts": 0}, "max_attempts must be"),
                              ({"max_attempts": 2**31}, "max_attempts must be"),
                              ({"delay": "-1s"}, "delay must be a duration"),
                              ({"priority": 32767}, "priority must be")):
            answer = enqueue(**members)
            assert answer.status == 400 and word in answer.detail, (members, answer.text)
        assert enqueue(timeout="1us", delay="36525d").status == 201
    assert db.sql(f"SELECT timeout_ms FROM {'defib.' if db.engine == 'postgres' else 'defib_'}job") \
        == [(1,)]


PYTHON = """
import defib, sys
database = defib.Database(sys.argv[1])
for wrong in (dict(max_attempts=0), dict(timeout=-1), dict(timeout=25 * 86400), dict(delay=1e18),
              dict(delay=float("nan")), dict(priority=32767)):
    try:
        database.enqueue("q", "k", **wrong)
        print("taken", wrong)
    except defib.UsageError:
        pass
database.enqueue("q", "k", timeout=1e-6, max_attempts=1)
"""


@pytest.mark.plain
def test_a_new_job_of_a_python_program(lite, with_tables, package):  # noqa: F811
    assert package.run(PYTHON, lite.url) == ""
    assert lite.sql("SELECT timeout_ms, max_attempts FROM defib_job") == [(1, 1)]


# The shortest and longest values that the configuration takes; the longest are used together.
KEYS = {
    "every": ("1ms", "36525d"), "statement_timeout": ("30s", "36525d"), "limit": ("0", 2**63 - 1),
    "batch": ("1", 10000), "overdue_after": ("1us", "36525d"), "stuck_after": ("1us", "36525d"),
    "guard.brake_ceiling": ("1us", "36525d"), "guard.brake_owners": ("0", 2**63 - 1),
    "guard.burst": ("0", 2**63 - 1), "guard.pace": ("0", 1e300),
    "crash_budget.max": ("0", 2**63 - 1), "backoff.base": ("0s", "36525d"),
    "backoff.cap": ("0s", "36525d"), "backoff.factor": ("0", 1e300),
    "work.poll": ("10ms", "36525d"), "work.timeout": ("0s", "36525d"), "work.grace": ("0s", "36525d"),
    "work.batch": ("0", 10000), "work.concurrency": ("1", 10000),
    "work.burst.window": ("0s", "36525d"), "work.burst.limit": ("0", 2**63 - 1),
}
BEYOND = {"every": "0s", "statement_timeout": "0s", "work.poll": "9ms", "work.concurrency": "0",
          "batch": "0", "limit": "-1", "stuck_after": "0s", "guard.brake_ceiling": "0s"}


def with_values(url, values):
    config = yaml.safe_load(CONFIG % url)
    for key, value in values.items():
        at = config["watches"][0]
        *path, last = key.split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return yaml.safe_dump(config)


@pytest.mark.parametrize("key", BEYOND)
def test_a_value_beyond_the_limits_is_refused_with_its_place(defib, lite, key):
    for value in (BEYOND[key], "-1", "99999999999999999999999"):
        ran = defib("config", "check", config=with_values(lite.url, {key: value}))
        assert ran.code == EXIT_CONFIG and key.partition(".")[0] in ran.err, (value, ran)


@pytest.mark.parametrize("which", [0, 1], ids=["shortest", "longest"])
def test_all_limits_of_the_configuration_at_once(defib, db, with_tables, which):
    db.sql(TABLE[db.engine])
    long_ago = "'1999-12-31T00:00:00Z'" if db.engine == "postgres" else "'1999-12-31 00:00:00'"
    db.sql(f"INSERT INTO pages VALUES (1, 'running', {long_ago}, 1)")
    db.sql(f"INSERT INTO pages VALUES (2, 'queued', {long_ago}, 1)")
    config = with_values(db.url, {key: values[which] for key, values in KEYS.items()})
    assert defib("config", "check", config=config).code == 0
    for args in (["scan", "--fix", "pages"], ["list", "--watch", "pages"], ["whatif", "pages",
                 "--stuck-after", "36525d"], ["doctor"],
                 ["work", "pages", "--drain", "--spool", "off", "--concurrency", "2"]):
        ran = defib(*args, config=config)
        assert ran.code in (0, 1) and not RAW.search(ran.err), ran
    states = dict(db.sql("SELECT id, status FROM pages"))
    assert states == {1: "done" if which == 0 else "running", 2: "done"}
