# SPDX-License-Identifier: Apache-2.0
"""What every test uses: databases, the program, and a limit that ends a test that hangs."""

import faulthandler
import resource
import signal
import time

import pytest

from harness import needs, npm_queues, pgversions
from harness.databases import LiteDatabase, PgDatabase, initialize
from harness.pgserver import QUIET, PgServer
from harness.program import BIN, Program
from harness.queue_workers import Queue, Wire
from harness.waiting import patience

# Far more than any test needs; `patience` adds to it on a busy machine.
HANGS_S = 1800
PROOF_HANGS_S = 4 * 3600

PG_FIXTURES = {"pg", "pg_queue", "server", "shared_server", "wire"}


def pytest_configure(config):
    if not config.option.markexpr:
        config.option.markexpr = "not proof and not bench"


def pytest_collection_modifyitems(items):
    for item in items:
        tell_mission(item)
        if engine_of(item) == "sqlite":
            item.add_marker("sqlite")
        elif engine_of(item) == "postgres" or hasattr(item.module, "PgServer"):
            item.add_marker("postgres")
    items.sort(key=lambda item: not item.get_closest_marker("long"))  # stable: files stay whole


def engine_of(item):
    """The engine of the test: from a parameter, else from its fixtures."""
    named = getattr(getattr(item, "callspec", None), "id", "")
    for engine in ("postgres", "sqlite"):
        if engine in named:
            return engine
    if PG_FIXTURES & set(item.fixturenames):
        return "postgres"
    return "sqlite" if "lite" in item.fixturenames else None


def tell_mission(item):
    """The report names the ids of the mission that a test covers, and its engine:
    scripts/project/mission.py counts them."""
    ids = dict.fromkeys(one for mark in item.iter_markers("covers") for one in mark.args)
    engine = engine_of(item)
    item.user_properties += [("covers", one) for one in ids]
    if ids and engine:
        item.user_properties.append(("engine", engine))


def core_s():
    """Seconds of a core that this process and those it has waited for have used."""
    return sum(sum(resource.getrusage(who)[:2])
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    """The report has what each test cost: scripts/project/cost.py adds it up."""
    item.began_core_s = core_s()
    needs.skip_if_lacking(item)
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield
    item.user_properties.append(("core_s", f"{core_s() - item.began_core_s:.2f}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """No test hangs: the alarm fails it, and if it is in C code, the run ends with a trace."""
    began = time.monotonic()
    usual = PROOF_HANGS_S if item.get_closest_marker("proof") or item.get_closest_marker("bench") \
        else HANGS_S

    def ring(_signal, _frame):
        limit, took = patience(usual), time.monotonic() - began
        if took < limit:
            signal.alarm(int(limit - took) + 1)  # the machine is busy
        else:
            pytest.fail(f"it hangs: not done after {took:.0f} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(usual)
    faulthandler.dump_traceback_later(20 * usual, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def shared_servers():
    """The run's PostgreSQL servers by version, each started by the first test that needs it."""
    servers = {}

    def of(version=None):
        version = pgversions.chosen_name(version)
        if version not in servers:
            servers[version] = PgServer(QUIET, version=version)
            servers[version].start()
            # Copies have the caches that a first session makes.
            servers[version].connect("template1").close()
        return servers[version]

    yield of
    for server in servers.values():
        server.remove()


@pytest.fixture(scope="session")
def shared_server(shared_servers):
    """The run's PostgreSQL; tests that stop or kill a server take `server` instead."""
    return shared_servers()


@pytest.fixture
def server_of_test(request, shared_servers):
    """The same, or for a test that is marked with `oldest_and_newest` each of three in turn."""
    try:
        return shared_servers(getattr(request, "param", None))
    except pgversions.NotAvailable as reason:
        pytest.skip(str(reason))


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("oldest_and_newest") and \
            "server_of_test" in metafunc.fixturenames:
        versions = pgversions.ends()
        metafunc.parametrize("server_of_test", versions, indirect=True, scope="function",
                             ids=[f"PostgreSQL-{version}" for version in versions])


@pytest.fixture
def server():
    """A server that belongs to this test alone."""
    own = PgServer()
    try:
        yield own.start()
    finally:
        own.remove()


@pytest.fixture
def pg(request, server_of_test):
    """An empty database, or one with defib's tables for a test that asks for `with_tables`."""
    asked = "with_tables" in request.fixturenames
    program = request.getfixturevalue("defib") if asked else None
    database = PgDatabase(server_of_test, program)
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
    return npm_queues.install(BIN.parent / "strangers")


@pytest.fixture
def graphile(pg, tmp_path, stranger_modules):
    own = npm_queues.Graphile(pg, tmp_path, stranger_modules)
    yield own
    own.close()


@pytest.fixture
def pgboss(pg, tmp_path, stranger_modules):
    own = npm_queues.PgBoss(pg, tmp_path, stranger_modules)
    yield own
    own.close()
