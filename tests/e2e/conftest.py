# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test uses: databases, the program, and a time limit."""

import collections
import dataclasses
import faulthandler
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import strangers  # noqa: E402
from databases import LiteDatabase, PgDatabase, initialize  # noqa: E402
from forks import pytest_addoption, pytest_runtestloop  # noqa: E402, F401
from pgserver import QUIET, PgServer  # noqa: E402
from tools import tools  # noqa: E402
from workers import Queue, Wire  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DEFIB_BIN", ROOT / "build" / "defib")).resolve()
TIMEOUT_S = 120
LONG_TIMEOUT_S = 1800
LONG_MARKS = ("proof", "bench")
# These wait for most of their time, or need a library without sanitizers. Other tests run the same
# code under sanitizers.
WAITING_FILES = ("test_bad_weather", "test_work_outage", "test_work_lease", "test_work_scrapersky",
                 "test_brake_workers", "test_brake", "test_doubt", "test_daemon", "test_backlog",
                 "test_words", "test_crash", "test_races", "test_install_cron", "test_clients",
                 "test_browser", "test_service", "test_reload", "test_daemon_pools", "test_alerts",
                 "test_metrics", "test_series", "test_report_sent", "test_deploy", "test_top",
                 "test_demo", "test_strangers", "test_library", "test_hardened", "test_secrets",
                 "test_python_package", "test_python_worker", "test_python_watches",
                 "test_python_docs", "test_app_ruvon", "test_app_octolab", "test_app_scrapersky",
                 "test_app_scristill", "test_background", "test_example_pages", "test_progress")
# These wait as much, compute much in the server and in Spin, or start many processes of commands
# that other tests run under sanitizers. They run under sanitizers in `make proof`.
PATIENT_FILES = ("test_startup", "test_failover", "test_grants", "test_rights",
                 "test_doctor_rights", "test_presets", "test_presets_rules", "test_foreign_steps",
                 "test_false_positives", "test_numbers", "test_status", "test_unseen", "test_held",
                 "test_learn", "test_stats", "test_whatif", "test_owner_alive", "test_pooler",
                 "test_work_pooler", "test_work_ocr", "test_work_octolab", "test_work_scristill",
                 "test_work_ahead", "test_ledger_history", "test_recorded", "test_sql",
                 "test_stored_scripts", "test_locked_out", "test_large", "test_time_zone",
                 "test_force", "test_tested", "test_drift", "test_house", "test_mission",
                 "test_work_silence", "test_work_sweeps", "test_alerts_live", "test_set_aside",
                 "test_chaos", "test_scan_plans", "test_work_plans", "test_system_c",
                 "test_replay_ocr", "test_replay_octolab", "test_replay_ruvon",
                 "test_replay_scrapersky", "test_replay_scristill", "test_example_ocr",
                 "test_example_octolab", "test_example_ruvon", "test_example_scrapersky",
                 "test_example_scristill", "test_guides", "test_runbook", "test_presets_npm",
                 "test_install", "test_install_same", "test_init_schemas", "test_retention",
                 "test_completion", "test_help", "test_coverage", "test_bench", "test_doctor",
                 "test_attach", "test_hostile_terminal", "test_init", "test_ledger", "test_list",
                 "test_masked", "test_docs", "test_by_hand", "test_undo", "test_config",
                 "test_attach_attacks", "test_explain", "test_show", "test_node_package",
                 "test_node_heartbeat", "test_node_docs", "test_http_abuse")
# In `make check` a test that is written for both engines runs on one of them, by its name: on the
# other one it is a `twin`, which `make proof` runs. These files are about what engines do
# differently. Of the tests that show an id of the mission, some stay on each engine.
BOTH_ENGINES_FILES = ("test_races", "test_chaos", "test_crash", "test_database_urls",
                      "test_api_large", "test_sql", "test_numbers")
# Files that take longest, longest first, so that they do not end last.
LONG_FILES = ("test_bad_weather", "test_app_ruvon", "test_work_silence", "test_work_outage",
              "test_replay_scrapersky", "test_app_scrapersky", "test_work_sweeps",
              "test_work_lease", "test_system_c", "test_python_worker", "test_scan_plans",
              "test_replay_octolab", "test_clients", "test_alerts", "test_replay_scristill",
              "test_words", "test_service", "test_retention", "test_brake", "test_brake_workers",
              "test_chaos", "test_doubt", "test_attach", "test_work_scrapersky",
              "test_install_cron", "test_startup", "test_by_hand", "test_workflow",
              "test_app_scristill", "test_work_program", "test_deploy", "test_work_queue",
              "test_replay_ruvon", "test_work_tables", "test_background", "test_completion",
              "test_crash", "test_app_octolab", "test_outbox")
SANITIZER_SAYS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")


def pytest_configure(config):
    for line in (
        "proof: takes long; runs in `make proof` only",
        "bench: measures; runs in `make bench` only",
        "waits: mostly waits; left out of the run under sanitizers",
        "patient: mostly waits; under sanitizers in `make proof` only",
        "lite: runs on SQLite",
        "twin: `make check` runs the same test on the other engine",
        "covers(*ids): which of the mission's systems and cases a test shows",
        "timeout(seconds): another time limit than the usual one",
    ):
        config.addinivalue_line("markers", line)
    if not config.option.markexpr:
        config.option.markexpr = "not proof and not bench"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem in WAITING_FILES:
            item.add_marker("waits")
        if item.path.stem in PATIENT_FILES:
            item.add_marker("patient")
        if engine_of(item) == "sqlite":
            item.add_marker("lite")
        tell_mission(item)
    for item in list(twins(items)):
        item.add_marker("twin")
    rank = {name: n for n, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))  # stable: files stay whole


ENGINES = ("postgres", "sqlite")
PG_FIXTURES = {"pg", "pg_queue", "server", "shared_server", "wire"}


def engine_of(item):
    """The engine of the test: from a parameter, else from its fixtures."""
    named = getattr(getattr(item, "callspec", None), "id", "")
    said = [engine for engine in ENGINES if engine in named]
    if said:
        return said[0]
    return "postgres" if PG_FIXTURES & set(item.fixturenames) else (
        "sqlite" if "lite" in item.fixturenames else None)


ENGINE_PARAMETER = re.compile(r"(?<=[\[-])(postgres|sqlite)(?=[\]-])")


def both_names(item):
    """The names of a test on each engine, first the one that `make check` runs, which is chosen by
    the name. Empty if the test is written for one engine."""
    if not ENGINE_PARAMETER.search(item.nodeid) or item.path.stem in BOTH_ENGINES_FILES:
        return []
    names = [ENGINE_PARAMETER.sub(engine, item.nodeid, count=1) for engine in ENGINES]
    return names[::-1] if zlib.crc32(names[0].encode()) % 2 else names


def twins(items):
    """The tests that `make check` leaves out on one engine: as many as possible while each id of the
    mission is still shown on both engines, if any test shows it on both."""
    there = {item.nodeid for item in items}
    showing = collections.Counter((one, engine_of(item)) for item in items for one in ids_of(item))
    for item in items:
        names = both_names(item)
        shows = [(one, engine_of(item)) for one in ids_of(item)]
        if item.nodeid in names[1:] and names[0] in there and all(showing[s] > 1 for s in shows):
            showing.subtract(shows)
            yield item


def ids_of(item):
    """The ids of the mission that a test covers."""
    return dict.fromkeys(one for mark in item.iter_markers("covers") for one in mark.args)


def tell_mission(item):
    """The report names the ids that a test covers, and its engine: scripts/mission.py counts them.
    """
    ids, engine = ids_of(item), engine_of(item)
    item.user_properties += [("covers", one) for one in ids]
    if ids and engine:
        item.user_properties.append(("engine", engine))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """No test hangs: the alarm fails it, and if it is in C code, the run ends with a trace."""
    mark = item.get_closest_marker("timeout")
    long = any(item.get_closest_marker(name) for name in LONG_MARKS)
    limit = mark.args[0] if mark else LONG_TIMEOUT_S if long else TIMEOUT_S

    def ring(_signal, _frame):
        pytest.fail(f"not done after {limit} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(limit)
    faulthandler.dump_traceback_later(limit + 60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def shared_server():
    """The run's PostgreSQL; tests that stop or kill a server take `server` instead."""
    server = PgServer(QUIET)
    try:
        server.start()
        server.connect("template1").close()  # copies have the caches that a first session makes
        yield server
    finally:
        server.remove()


@pytest.fixture
def server():
    """A server that belongs to this test alone."""
    own = PgServer()
    try:
        yield own.start()
    finally:
        own.remove()


@pytest.fixture
def pg(request, shared_server):
    """An empty database, or one with defib's tables for a test that asks for `with_tables`."""
    asked = "with_tables" in request.fixturenames
    program = request.getfixturevalue("defib") if asked else None
    database = PgDatabase(shared_server, program)
    yield database
    database.drop()


@pytest.fixture
def with_tables():
    """For a test that needs defib's tables but does not test their creation: see `pg`, `lite`."""


@pytest.fixture(scope="session")
def lite_model(tmp_path_factory):
    """A file where the program made its tables: others are copies of it."""
    folder = tmp_path_factory.mktemp("model")
    model = LiteDatabase(folder / "model.db")
    initialize(model, Program(folder))
    return model


@pytest.fixture
def lite(request, tmp_path):
    """The same as `pg` in a file."""
    folder = tmp_path / "lite"
    folder.mkdir()
    asked = "with_tables" in request.fixturenames
    model = request.getfixturevalue("lite_model") if asked else None
    database = LiteDatabase(folder / "test.db", model)
    yield database
    database.drop()


@pytest.fixture(params=["postgres", "sqlite"])
def db(request):
    """The same test on both engines."""
    return request.getfixturevalue({"postgres": "pg", "sqlite": "lite"}[request.param])


@dataclasses.dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Program:
    """defib("scan", "--json", db=…, config=…): the program in an empty directory and environment.
    """

    def __init__(self, folder):
        self.dir = folder
        self.bin = BIN

    def _env(self, extra):
        kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        if os.geteuid() != 0:  # tests look into /proc, which is root's alone otherwise
            kept["DEFIB_DUMPABLE"] = "1"
        return {"HOME": str(self.dir), "PATH": f"/usr/bin:/bin:{tools()}", **kept,
                **(extra or {})}

    def _argv(self, args, db, config):
        argv = [str(self.bin), *map(str, args)]
        if config is not None:
            path = pathlib.Path(config) if "\n" not in str(config) else self.dir / "defib.yaml"
            if "\n" in str(config):
                path.write_text(config)
            argv += ["-c", str(path)]
        if db is not None:
            argv += ["--db", getattr(db, "url", db)]
        return argv

    def start(self, *args, db=None, config=None, env=None, **options):
        """Without waiting: the Popen, for tests that act while it runs."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen(self._argv(args, db, config), cwd=self.dir,
                                env=self._env(env), **options)

    def __call__(self, *args, timeout=60, **options):
        child = self.start(*args, **options)
        try:
            out, err = child.communicate(timeout=timeout)
        finally:
            child.kill()
            child.wait()
        for word in SANITIZER_SAYS:
            assert word not in (err or ""), err
        return Ran(child.returncode, out, err)


@pytest.fixture
def defib(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    return Program(folder)


@pytest.fixture
def queue(defib, db, with_tables):
    """The built-in queue with its tables; its workers end with the test."""
    own = Queue(defib, db)
    yield own
    own.close()


@pytest.fixture
def pg_queue(defib, pg, with_tables):
    """The same on PostgreSQL alone."""
    own = Queue(defib, pg)
    yield own
    own.close()


@pytest.fixture
def wire(pg):
    """A connection to the server that the test can cut."""
    own = Wire(pg.server)
    yield own
    own.close()


@pytest.fixture(scope="session")
def stranger_modules():
    """graphile-worker and pg-boss from npm: if they are not available, tests with them are skipped.
    """
    return strangers.install(BIN.parent / "strangers")


@pytest.fixture
def graphile(pg, tmp_path, stranger_modules):
    own = strangers.Graphile(pg, tmp_path, stranger_modules)
    yield own
    own.close()


@pytest.fixture
def pgboss(pg, tmp_path, stranger_modules):
    own = strangers.PgBoss(pg, tmp_path, stranger_modules)
    yield own
    own.close()
