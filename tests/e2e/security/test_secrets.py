# SPDX-License-Identifier: Apache-2.0
"""A secret in every place that takes one, and then a search in every place that could show it:
output, log, errors, tables, metrics, API, arguments and environment of processes, server's log."""

import base64
import contextlib
import os
import pathlib
import pwd
import re
import resource
import signal
import subprocess
import sys
import urllib.parse

import pytest
import yaml

from harness import stuck_jobs
from harness.databases import PgDatabase
from harness.http_daemon import WebDaemon
from harness.pgserver import PgServer
from harness.program import BIN, ROOT, Program
from harness.proof_results import record
from harness.receivers import Receiver
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain
COMMAND = "make test T=test_secrets"
# Each stands in one place only, so that a leak names its source.
PLACES = ("url", "query", "encoded", "pgpassword", "passfile", "token", "token-file", "hook-path",
          "hook-query", "hook-user", "header", "bearer", "pager", "passed", "unset")
SECRET = {place: f"s3cr3t-{place}-{n:02d}x7Qz9" for n, place in enumerate(PLACES)}
SECRET["encoded"] = "s3cr3t@enc/oded:x7Qz9%"
ENCODED = urllib.parse.quote(SECRET["encoded"], safe="")
BASIC = base64.b64encode(f"me:{SECRET['hook-user']}".encode()).decode()
FORMS = {**SECRET, "encoded as in the URL": ENCODED, "user as it is sent": BASIC}

CONFIG = """\
databases:
  - {{name: main, url: "${{DATABASE_URL}}"}}
  - {{name: query, url: "${{QUERY_URL}}"}}
  - {{name: encoded, url: "${{ENCODED_URL}}"}}
  - {{name: environment, url: "postgres://app_pgpassword@127.0.0.1:{port}/{name}"}}
  - {{name: file, url: "postgres://app_passfile@127.0.0.1:{port}/{name}?passfile={passfile}"}}
  - {{name: away, url: "postgres://app:{unset}@127.0.0.1:1/nowhere"}}
watches:
  - name: jobs
    database: main
    table: jobs
    key: id
    running: status = 'running'
    alive_at: updated_at
    stuck_after: 1h
    every: 500ms
    requeue: status = 'queued', error = :reason, updated_at = :now
    work:
      ready: status = 'queued'
      claim: status = 'running', updated_at = :now
      done: status = 'done'
      failed: status = 'failed'
      release: status = 'queued'
      poll: 100ms
      pass_environment: ["APP_KEY={passed}"]
      command: [/bin/sh, -c, 'env | grep -v ^APP_KEY= >{folder}/job.tmp;
                cat /proc/[0-9]*/cmdline >>{folder}/job.tmp 2>/dev/null;
                mv {folder}/job.tmp {folder}/job.env; sleep 0.2']
http:
  tokens:
    - {{name: anna, role: admin, env: ADMIN_TOKEN}}
    - {{name: prometheus, role: viewer, file: {folder}/token}}
sinks:
  - {{name: hook, type: webhook, timeout: 2s, url: "http://127.0.0.1:{hook}/services/{path}?k={query}",
     headers: {{X-Token: {header}, Authorization: "Bearer {bearer}"}}}}
  - {{name: user, type: webhook, timeout: 2s, url: "http://me:{user}@127.0.0.1:{hook}/x"}}
  - {{name: gone, type: webhook, timeout: 2s, url: "http://me:{user}@127.0.0.1:1/services/{path}"}}
  - {{name: pager, type: pagerduty, url: "http://127.0.0.1:{hook}/pager", key: {pager}}}
  - {{name: program, type: command, pass_environment: ["APP_KEY={passed}"],
     run: [/bin/sh, -c, 'env | grep -v ^APP_KEY= >{folder}/alert.tmp;
            mv {folder}/alert.tmp {folder}/alert.env; echo $APP_KEY; exit 1']}}
alerts:
  every: 300ms
  sinks: [hook, user, gone, pager, program, log]
  rules: [{{name: stuck_warning, above: 0}}]
"""


class Echo(Receiver):
    """One that refuses everything, and says back all that it was sent."""

    def record(self, path, headers, body):
        super().record(path, headers, body)
        return 404, {"X-Echo": "yes"}, f"Cannot POST {path}\n{headers}\n{body}"


class Scene:
    def __init__(self, folder):
        self.folder = folder
        folder.chmod(0o755)
        self.server = PgServer({"log_statement": "all", "log_connections": "on",
                                "password_encryption": "scram-sha-256"})
        hba = self.server.data / "pg_hba.conf"
        hba.write_text("host all +app 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
        self.server.start()
        self.db = PgDatabase(self.server)
        self.db.sql("CREATE ROLE app")
        for place in ("url", "query", "encoded", "pgpassword", "passfile"):
            self.db.sql(f"CREATE ROLE app_{place} LOGIN SUPERUSER IN ROLE app PASSWORD %s",
                        SECRET[place])
        # The statement above is in the server's log: what follows must not be.
        self.log_from = len(self.server.log.read_bytes())
        stuck_jobs.make(self.db, 3)
        passfile = folder / "passfile"
        passfile.write_text(f"*:*:*:app_passfile:{SECRET['passfile']}\n")
        passfile.chmod(0o600)
        (folder / "token").write_text(SECRET["token-file"] + "\n")
        (folder / "token").chmod(0o600)
        self.receiver = Echo()
        at = f"127.0.0.1:{self.server.port}/{self.db.name}"
        self.env = {
            "DATABASE_URL": f"postgres://app_url:{SECRET['url']}@{at}",
            "QUERY_URL": f"postgres://app_query@{at}?password={SECRET['query']}",
            "ENCODED_URL": f"postgres://app_encoded:{ENCODED}@{at}",
            "PGPASSWORD": SECRET["pgpassword"], "ADMIN_TOKEN": SECRET["token"],
        }
        self.config = CONFIG.format(
            port=self.server.port, name=self.db.name, passfile=passfile, folder=folder,
            hook=self.receiver.port, path=SECRET["hook-path"], query=SECRET["hook-query"],
            header=SECRET["header"], bearer=SECRET["bearer"], user=SECRET["hook-user"],
            pager=SECRET["pager"], passed=SECRET["passed"], unset=SECRET["unset"])
        self.program = Program(folder)
        (folder / "bad").mkdir()
        self.bad = Program(folder / "bad")  # writes configurations of its own
        self.path = folder / "secrets.yaml"
        self.path.write_text(self.config)
        self.path.chmod(0o600)

    def run(self, *args, env=None, **more):
        return self.program(*args, config=self.path, env={**self.env, **(env or {})}, **more)

    def close(self):
        self.receiver.close()
        self.server.remove()


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    own = Scene(tmp_path_factory.mktemp("secrets"))
    yield own
    own.close()


@pytest.fixture(scope="module")
def daemon(scene):
    """A daemon that did all it does: it recovered, worked, alerted, failed to reach a database."""
    assert scene.run("init", "--db", "main").code == 0
    own = WebDaemon(scene.program, scene.config, "--work", env=scene.env)
    try:
        web = own.web(SECRET["token"])
        eventually(lambda: (scene.folder / "job.env").exists()
                   and (scene.folder / "alert.env").exists())
        eventually(lambda: len(scene.db.sql(
            "SELECT DISTINCT sink FROM defib.delivery WHERE answer IS NOT NULL")) == 6)
        yield own, web
        assert own.stop() == 0
    finally:
        own.kill()


def leaks(text, but=()):
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    plain = text.replace("\\", "")
    # A part is a leak too: nobody needs the last characters to guess them.
    return [place for place, secret in FORMS.items()
            if place not in but and (secret in plain or secret[:-4] in plain)]


COMMANDS = [
    "scan", "scan --json", "list", "list --where stuck --json", "show jobs/1", "explain jobs 1",
    "status", "status --json", "stats", "doctor", "doctor --json", "report", "report --json",
    "report --format html", "ledger", "ledger --json", "ledger verify", "alert list",
    "alert list --json", "alert test", "alert test --sink hook", "alert test --sink gone",
    "config show", "config show --json", "config check", "init --print", "sql jobs",
    "deploy systemd", "deploy kubernetes", "deploy cron", "whatif jobs --stuck-after 2h", "learn",
    "prune --dry-run", "hold jobs/1 --yes --reason r", "release jobs/1 --yes --reason r",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_secret(scene, daemon, command):
    ran = scene.run(*command.split(), "--verbose")
    assert leaks(ran.out + ran.err, ("unset", "passed", "pager", "header", "bearer", "hook-path",
                                     "hook-query", "hook-user") if command.startswith("deploy")
                 else ()) == [], ran.out + ran.err


def test_the_daemon_shows_no_secret_anywhere(scene, daemon):
    """Log, every route as admin, metrics, all tables, sessions, arguments, files it wrote."""
    own, web = daemon
    shown = {"log": own.log}
    document = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())
    worker = web.post("/api/v1/workers", {"name": "w"}).json
    for path, item in document["paths"].items():
        if "get" not in item or path.endswith("/events"):
            continue
        filled = re.sub(r"\{(\w+)\}", lambda m: {"watch": "jobs", "key": "1", "queue": "q",
                                                 "id": str(worker["worker"])}[m[1]], path)
        for query in ("", "?format=csv", "?format=html"):
            shown[filled + query] = web.get(filled + query).text
    tables = scene.db.sql("SELECT schemaname, tablename FROM pg_tables "
                          "WHERE schemaname IN ('defib', 'public')")
    for schema, table in tables:
        shown[table] = str(scene.db.sql(f'SELECT * FROM "{schema}"."{table}"'))
    shown["pg_stat_activity"] = str(scene.db.sql("SELECT * FROM pg_stat_activity"))
    shown["server's log"] = scene.server.log.read_bytes()[scene.log_from:]
    shown["arguments"] = b"".join(path.read_bytes() for path in cmdlines(own.pid))
    assert len(shown) > 60 and b"daemon" in shown["arguments"]
    found = {where: leaks(text) for where, text in shown.items() if leaks(text)}
    assert found == {}, {where: excerpt(shown[where]) for where in found}
    assert worker["secret"] not in str(shown)
    record("a secret in each place that takes one is shown in no output, table, log or metric",
           COMMAND, f"{len(FORMS)} secrets, {len(shown) + len(COMMANDS)} outputs searched, 0 found",
           len(shown) + len(COMMANDS))


def excerpt(text):
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    at = text.find("s3cr3t")
    return text[max(0, at - 200):at + 80]


def cmdlines(pid):
    """Of a process and all that it started."""
    yield pathlib.Path(f"/proc/{pid}/cmdline")
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            with contextlib.suppress(OSError):
                yield from cmdlines(int(child))


def test_programs_that_are_started_find_no_secret(scene, daemon):
    """In their environment, and in the arguments of all processes of this host."""
    for name in ("job.env", "alert.env"):
        text = (scene.folder / name).read_text(errors="replace")
        assert "DEFIB_" in text
        assert leaks(text) == [], name
    # What the receivers must get, they got: the search would find it.
    got = str([(one.path, one.headers, one.text) for one in scene.receiver.got])
    assert set(leaks(got)) >= {"hook-path", "hook-query", "header", "bearer", "pager"}


BAD_URLS = [
    "postgres://app:{}@127.0.0.1:1/app", "postgres://app:{}@127.0.0.1:port/app",
    "postgres://app:{}@/[::1/app", "postgresql://app@127.0.0.1:1/app?password={}",
    "postgres://app@127.0.0.1:1/app?password={}&nonsense=1", "psql://app:{}@127.0.0.1/app",
    "postgres//app:{}@127.0.0.1/app", "postgresql+asyncpg://app:{}@127.0.0.1:1/app",
    "postgres://app:{}@127.0.0.1:{port}/nothing", "postgres://app_url:{}@127.0.0.1:{port}/postgres",
    "postgres://app:{}@no.such.host.invalid/app", "mysql://app:{}@127.0.0.1/app",
    "postgres://app:{}%zz@127.0.0.1/app", "host=127.0.0.1 port=1 user=app password={}",
    "postgres://app@127.0.0.1:1/app?sslpassword={}&sslmode=require", "jdbc:postgresql://h/d?password={}",
]


@pytest.mark.parametrize("url", BAD_URLS)
@pytest.mark.parametrize("how", ["argument", "environment", "file"])
def test_a_url_that_fails_is_told_without_its_password(scene, url, how):
    url = url.replace("{port}", str(scene.server.port)).replace("{}", SECRET["url"])
    for command in (["scan"], ["doctor"], ["config", "show"], ["init"]):
        if how == "argument":
            ran = scene.bad(*command, "--table", "jobs", "--verbose", db=url)
        elif how == "environment":
            ran = scene.bad(*command, "--verbose", env={"DEFIB_DB": url})
        else:
            ran = scene.bad(*command, "--verbose", config=(
                f"databases: [{{name: main, url: '{url}'}}]\nwatches:\n  - {{name: jobs, table: jobs, "
                "key: id, running: 'true', alive_at: at, stuck_after: 1h, requeue: 'x = 1'}\n"))
        assert leaks(ran.out + ran.err) == [], (command, ran.out + ran.err)


BAD_FILES = [
    "sinks: [{{name: a, type: webhook, url: 'htp://me:{0}@host/{0}'}}]",
    "sinks: [{{name: a, type: webhook, url: 'https://h/{0}', headers: {{'X Bad': '{0}'}}}}]",
    "sinks: [{{name: a, type: webhook, url: 'https://h/{0}', headers: ['{0}']}}]",
    "sinks: [{{name: a, type: pagerduty, key: ['{0}']}}]",
    "sinks: [{{name: a, type: pagerduty, kye: '{0}'}}]",
    "sinks: [{{name: a, type: webhook, url: {{'{0}': 1}}}}]",
    "http: {{tokens: [{{name: a, role: admin, token: '{0}'}}]}}",
]


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_wrong_configuration_is_told_without_its_secrets(scene, text):
    ran = scene.bad("config", "check", config="databases: [{name: main, url: 'sqlite:x.db'}]\n"
                        + text.format(SECRET["hook-path"]) + "\n")
    assert ran.code != 0, ran.out
    assert leaks(ran.out + ran.err) == [], ran.err


def test_a_password_among_the_arguments_is_wiped(scene):
    """It is in the caller's hand, but no `ps` shows it later, nor does a program of ours get it."""
    env = {"PGPASSWORD": SECRET["pgpassword"]}
    for command in (("init",), ("enqueue", "mail", "send")):
        assert scene.run(*command, "--db", "main").code == 0
    child = scene.program.start(
        "work", "--queue", "mail", "--drain", "--db", scene.env["DATABASE_URL"], "--", "/bin/sh",
        "-c", f"env >{scene.folder}/w; cat /proc/[0-9]*/cmdline >>{scene.folder}/w; sleep 0.3; "
        f"mv {scene.folder}/w {scene.folder}/work.env", env=env)
    out, err = child.communicate(timeout=patience())
    assert child.returncode == 0, err
    seen = (scene.folder / "work.env").read_text(errors="replace")
    assert "--queue" in seen and leaks(seen + out + err) == []


# ---- memory: core dumps, and other processes of the same user ----

HOLD = ("http: {{tokens: [{{name: a, role: admin, env: ADMIN_TOKEN}}]}}\n"
        "databases: [{{name: main, url: 'sqlite:{}'}}]\n")


def someone():
    """A user that is not root, where we may choose."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def user_of(folder):
    """That user may come here, and all files are its own."""
    for part in folder.parents[:3]:
        part.chmod(part.stat().st_mode | 0o011)
    folder.chmod(0o777)
    for path in folder.rglob("*"):
        path.chmod(0o777)
    yield


@contextlib.contextmanager
def held(folder, **env):
    """A daemon of an ordinary user that may write core dumps as large as it likes."""
    with user_of(folder):
        pass
    config = folder / "defib.yaml"
    config.write_text(HOLD.format(folder / "test.db"))

    def unlimited():
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    child = subprocess.Popen(
        [str(BIN), "daemon", "-c", str(config), "--listen", "127.0.0.1:0"], cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin", "ADMIN_TOKEN": SECRET["token"], **kept,
             **env},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(folder / "log", "wb"),
        preexec_fn=unlimited, **someone())
    try:
        eventually(lambda: "http server started" in (folder / "log").read_text())
        yield child
    finally:
        child.kill()
        child.wait()


def dumped(child):
    """Whether the kernel wrote a core dump of it."""
    os.kill(child.pid, signal.SIGABRT)
    _, status = os.waitpid(child.pid, 0)
    assert os.WIFSIGNALED(status), status
    child.returncode = -signal.SIGABRT
    return os.WCOREDUMP(status)


@pytest.fixture
def sanitized():
    if b"__asan_init" in BIN.read_bytes() or b"__tsan_init" in BIN.read_bytes():
        pytest.skip("sanitizers handle SIGABRT and core dumps themselves")


def test_a_daemon_that_crashes_leaves_no_core_dump(tmp_path, sanitized):
    with held(tmp_path) as child:
        assert not dumped(child)
    assert not list(tmp_path.glob("core*"))


def test_core_dumps_can_be_had_for_debugging(tmp_path, sanitized):
    """Also shows that the test above could fail."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("core dumps are forbidden here by a hard limit")
    with held(tmp_path, DEFIB_DUMPABLE="1") as child:
        written = dumped(child)
    if not written:
        pytest.skip("the kernel writes no core dumps here")
    for core in tmp_path.glob("core*"):
        assert SECRET["token"].encode() in core.read_bytes()


PEEK = """
import sys
for name in ("environ", "mem", "maps"):
    try:
        open(f"/proc/{sys.argv[1]}/{name}", "rb").close()
        print(name)
    except PermissionError:
        pass
"""


@pytest.mark.parametrize("debugged", [False, True])
def test_another_process_of_the_same_user_reads_neither_memory_nor_environment(tmp_path, debugged):
    """Such as the program of a job, which has a clean environment of its own."""
    with held(tmp_path, **({"DEFIB_DUMPABLE": "1"} if debugged else {})) as child:
        ran = subprocess.run([sys.executable, "-c", PEEK, str(child.pid)], capture_output=True,
                             text=True, check=False, cwd="/", **someone())
        assert ran.returncode == 0, ran.stderr + (tmp_path / "log").read_text()
    assert ("environ" in ran.stdout.split()) == debugged, ran.stdout


def test_a_program_that_is_started_can_be_debugged(tmp_path):
    """What hides us is not inherited: a job's own crash leaves the core dump that it should."""
    program = Program(tmp_path)
    db = f"sqlite:{tmp_path}/q.db"
    assert program("init", db=db).code == 0
    assert program("enqueue", "q", "k", db=db).code == 0
    with user_of(tmp_path):
        ran = subprocess.run([str(BIN), "work", "--db", db, "--queue", "q", "--drain", "--",
                              "/bin/sh", "-c", f"stat -c %u /proc/self/environ >{tmp_path}/owner"],
                             capture_output=True, text=True, check=False, cwd=tmp_path,
                             env=program._env(None), **someone())
    assert ran.returncode == 0, ran.stderr
    assert int((tmp_path / "owner").read_text()) == someone().get("user", os.geteuid())

