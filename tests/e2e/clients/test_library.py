# SPDX-License-Identifier: Apache-2.0
"""libdefib as a C program uses it: installed, found by pkg-config, linked and run."""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest

from harness.program import BIN, ROOT
from harness.waiting import eventually, patience

pytestmark = pytest.mark.plain
EXAMPLE = ROOT / "examples" / "embed"
BUILD = BIN.parent


def run(*argv, **options):
    ran = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False,
                         timeout=patience(), **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of what `make install` would put into the system."""
    if "asan" in BUILD.name or "tsan" in BUILD.name:
        pytest.skip("a sanitized library needs a sanitized program")
    root = tmp_path_factory.mktemp("installed")
    run("/usr/bin/meson", "install", "-C", BUILD, "--no-rebuild", "--quiet",
        env={**os.environ, "DESTDIR": str(root)})
    return root


@pytest.fixture(scope="module")
def library(installed):
    """The folder of the shared library."""
    return next(installed.rglob("libdefib.so")).parent


def found_in(root, library):
    """An environment in which pkg-config and the loader find that copy."""
    return {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig"),
            "PKG_CONFIG_SYSROOT_DIR": str(root), "LD_LIBRARY_PATH": str(library)}


class Outside:
    """Builds C programs as a user would: from an installed copy, in a directory of their own."""

    def __init__(self, root, folder, flags):
        self.library = next(root.rglob("libdefib.a")).parent
        self.env = found_in(root, self.library)
        self.folder = folder
        self.flags = flags

    def asked(self, *words):
        return run("pkg-config", *words, "defib", env=self.env).split()

    def build(self, source):
        """A C file as a command."""
        program = self.folder / source.stem
        run("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", *self.asked("--cflags"), source,
            *self.asked(*self.flags), "-o", program, env=self.env)

        def start(*args, **options):
            return subprocess.Popen([program, *map(str, args)], env=self.env, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

        def act(*args):
            return run(program, *args, env=self.env)

        act.start = start
        return act


@pytest.fixture(scope="module", params=["shared", "static"])
def outside(request, installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    if request.param == "shared":
        return Outside(installed, folder, ["--libs"])
    root = folder / "installed"
    shutil.copytree(installed, root, symlinks=True)
    for path in root.rglob("libdefib.so*"):
        path.unlink()
    return Outside(root, folder, ["--static", "--libs"])


@pytest.fixture(scope="module")
def examples(installed, library, tmp_path_factory):
    """The examples, built by their own Makefile against that copy; each a command as a function."""
    folder = tmp_path_factory.mktemp("embed")
    env = found_in(installed, library)
    for name in ("orders.c", "saga.c", "shop.h", "Makefile"):
        (folder / name).write_bytes((EXAMPLE / name).read_bytes())
    run("make", "-C", folder, env={**env, "CFLAGS": "-Werror"})

    def command(name):
        def start(*args):
            return subprocess.Popen([folder / name, *map(str, args)], env=env, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def act(*args):
            return run(folder / name, *args, env=env)

        act.start = start
        return act

    return command


@pytest.fixture
def orders(examples):
    return examples("orders")


@pytest.fixture
def saga(examples):
    return examples("saga")


def public():
    """The calls that the header declares."""
    header = (ROOT / "include" / "defib.h").read_text()
    return set(re.findall(r"^DEFIB_API [^;(]*?\b(\w+)\(", header, re.M))


def global_names(*nm):
    """Of a library: its defined symbols that others can link with."""
    lines = run("nm", "--defined-only", *nm).splitlines()
    return {line.split()[-1] for line in lines if len(line.split()) == 3}


def test_only_the_public_face_is_exported(library):
    assert "defib_worker_run" in public()
    assert global_names("-D", library / "libdefib.so") == public()
    assert global_names("-g", library / "libdefib.a") == public()


def test_the_library_needs_four_libraries_and_the_systems(library):
    said = run("readelf", "-d", library / "libdefib.so")
    needed = {name.split(".so")[0] for name in re.findall(r"NEEDED.*\[(.*)\]", said)}
    assert needed == {"libpq", "libsqlite3", "libjansson", "libfyaml", "libc"}
    assert "soname: [libdefib.so.0]" in said


def test_header_library_and_pkg_config_agree_on_the_version(outside, tmp_path):
    source = tmp_path / "version.c"
    source.write_text('#include <defib.h>\n#include <stdio.h>\nint main(void) { return 0 > '
                      'printf("%s %s %d %d", DEFIB_VERSION, defib_version(),'
                      ' DEFIB_VERSION_NUMBER, defib_version_number()); }\n')
    version = outside.asked("--modversion")[0]
    major, minor, patch = map(int, version.split("."))
    number = str(major * 10000 + minor * 100 + patch)
    assert outside.build(source)().split() == [version, version, number, number]


def test_the_page_of_the_library_is_what_the_header_says():
    run("/usr/bin/python3", ROOT / "scripts" / "library_docs.py", "--check")
    page = (ROOT / "docs" / "library.md").read_text()
    assert [name for name in public() if f"{name}(" not in page] == []


def test_the_header_is_c_and_cxx_by_itself(installed, tmp_path):
    include = next(installed.rglob("defib.h")).parent
    for compiler, name, std in (("gcc", "a.c", "c99"), ("clang", "a.c", "c17"),
                                ("g++", "a.cc", "c++17")):
        if compiler == "g++" and not pathlib.Path("/usr/bin/g++").exists():
            continue
        source = tmp_path / name
        source.write_text("#include <defib.h>\n"
                          "defib_pool pool = DEFIB_POOL_INIT;\n"
                          "defib_step steps[] = {DEFIB_STEP_INIT, DEFIB_STEP(\"a\", 0, 0)};\n"
                          "defib_job_spec job = DEFIB_JOB_SPEC_INIT;\n"
                          "defib_worker_options options = DEFIB_WORKER_OPTIONS_INIT;\n"
                          "defib_counts counts = DEFIB_COUNTS_INIT;\n")
        run(compiler, f"-std={std}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{include}",
            "-c", source, "-o", tmp_path / "a.o")


# ---- one program for each use, shared and static, on both engines

def example(outside, name):
    return outside.build(ROOT / "examples" / "library" / f"{name}.c")


def old_jobs(db):
    db.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, updated_at timestamp)")
    for job in (1, 2):
        db.sql("INSERT INTO jobs VALUES (%s, 'running', '2020-01-01 00:00:00')", job)


def test_a_program_that_attaches_scans_fixes_and_undoes_is_short():
    lines = (ROOT / "examples" / "library" / "scan.c").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith("/*")]) <= 30


@pytest.mark.covers("F1", "F10")
def test_a_program_attaches_scans_fixes_and_undoes(outside, db):
    old_jobs(db)
    said = example(outside, "scan")(db.url).splitlines()
    assert said == ["jobs 1 is silent, requeue: recovered", "jobs 2 is silent, requeue: recovered",
                    *said[2:4], "2 recovered, 2 undone"]
    assert db.sql("SELECT DISTINCT status FROM jobs") == [("running",)]
    told = example(outside, "ledger")(db.url).splitlines()
    assert [line.split()[0] for line in told] == ["REQUEUED", "REQUEUED", "UNDONE", "UNDONE"]


@pytest.mark.covers("C1")
def test_a_program_beats_for_its_own_job(outside, db):
    old_jobs(db)
    beating = example(outside, "beat").start(db.url, 2, stdin=subprocess.PIPE)
    try:
        assert beating.stdout.readline() == "beating\n", beating.stderr.read()
        fresh = "SELECT id FROM jobs WHERE updated_at > '2026-01-01'"
        assert db.sql(fresh) == [(2,)]
        db.sql("UPDATE jobs SET updated_at = '2020-01-01 00:00:00'")
        eventually(lambda: db.sql(fresh) == [(2,)])
        beating.communicate(timeout=patience())
    finally:
        beating.kill()
    assert beating.returncode == 0


STARVED = r"""
#include <defib.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static int asked;

static int refused(void *ctx, size_t bytes)
{
	(void)ctx, (void)bytes;
	asked++;
	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit all, little = {64 << 20, 64 << 20};
	defib_watches *watches = NULL;
	void **eaten = NULL;
	(void)argc;
	defib_set_out_of_memory(refused, NULL);
	getrlimit(RLIMIT_AS, &all);
	little.rlim_max = all.rlim_max;
	setrlimit(RLIMIT_AS, &little);
	for (void **more; (more = malloc(4096)); eaten = more)
		*more = eaten;
	puts(defib_err_name(defib_watches_new(argv[1], &watches, NULL)));
	while (eaten) {
		void *next = *eaten;
		free(eaten);
		eaten = next;
	}
	setrlimit(RLIMIT_AS, &all);
	puts(defib_err_name(defib_watches_new(argv[1], &watches, NULL)));
	defib_watches_free(watches);
	return asked;
}
"""


def test_a_program_without_memory_gets_an_error_and_goes_on(outside, tmp_path):
    source = tmp_path / "starved.c"
    source.write_text(STARVED)
    assert outside.build(source)("sqlite:/nowhere.db").split() == ["MEMORY", "OK"]


def test_a_program_enqueues_and_works(outside, db):
    example(outside, "enqueue")(db.url, "ada", "grace")
    assert sorted(example(outside, "worker")(db.url).splitlines()) == [
        '{"to": "ada"}', '{"to": "grace"}']


def test_every_order_has_one_invoice(orders, lite):
    for number in range(10):
        assert orders(lite.path, "place", f"customer {number}", 100 * number)
    assert orders(lite.path, "work", "--drain") == "10 jobs settled\n"
    assert lite.sql("SELECT count(*), count(DISTINCT order_id) FROM invoices") == [(10, 10)]
    assert lite.sql("SELECT DISTINCT state FROM defib_job") == [("done",)]


def test_a_worker_stops_on_a_signal_of_the_program(orders, lite):
    orders(lite.path, "place", "ada", 1)
    worker = orders.start(lite.path, "work")
    try:
        while not lite.sql("SELECT 1 FROM invoices"):
            assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=patience())
    finally:
        worker.kill()
    assert (worker.returncode, out) == (0, "1 jobs settled\n"), err
    assert lite.sql("SELECT state FROM defib_worker") == [("left",)]


def test_a_killed_worker_leaves_no_order_with_two_invoices(orders, lite):
    for number in range(100):
        orders(lite.path, "place", f"customer {number}", 1)

    def works_until(query, wanted):
        worker = orders.start(lite.path, "work")
        try:
            while lite.sql(query)[0][0] < wanted:
                assert worker.poll() is None
                time.sleep(0.001)
        finally:
            worker.kill()
            worker.communicate()

    # A job that was lost three times would be held for an operator.
    for invoices in (20, 40):
        works_until("SELECT count(*) FROM invoices", invoices)
    works_until("SELECT count(*) FROM defib_job WHERE state = 'done'", 100)
    assert lite.sql("SELECT count(*), count(DISTINCT order_id) FROM invoices") == [(100, 100)]


# ---- a handler that forks

FORKS = """
#define _POSIX_C_SOURCE 200809L
#include <defib.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static defib_outcome fork_and_return(defib_job *job, void *ctx)
{
	char result[16];
	int status = -1;
	pid_t child = fork();
	(void)ctx;
	if (child == 0) {
		/* Locks that other threads had at the fork stay locked here: none of these takes one. */
		if (defib_job_progress(job, "child", "text") != DEFIB_LEASE_LOST ||
		    !defib_job_should_stop(job) || !defib_job_lost(job))
			_exit(3);
		defib_job_session(job, 0);
		defib_job_finish(job, DEFIB_DONE);
		return DEFIB_FAILED;
	}
	waitpid(child, &status, 0);
	snprintf(result, sizeof result, "%d", WEXITSTATUS(status));
	return defib_job_result(job, result) ? DEFIB_FAILED : DEFIB_DONE;
}

int main(int argc, char **argv)
{
	defib_worker_options o = {.size = sizeof o, .url = argv[argc - 1], .drain = 1};
	defib_pool pool = {.size = sizeof pool, .queue = "q", .handler = fork_and_return};
	defib_message m;
	defib_worker *w;
	pid_t child;
	int status;
	if (defib_worker_new(&o, &pool, 1, &w, &m)) {
		fprintf(stderr, "%s\\n", m.what);
		return 1;
	}
	child = fork();
	if (child == 0) { /* the handle is the parent's: none of these waits for its threads */
		defib_worker_stop(w);
		defib_worker_run(w);
		defib_worker_free(w);
		_exit(9);
	}
	waitpid(child, &status, 0);
	defib_worker_run(w);
	defib_worker_free(w);
	printf("%d\\n", WEXITSTATUS(status));
	return 0;
}
"""


def test_a_forked_child_of_a_handler_never_runs_the_librarys_code(outside, lite, defib):
    assert defib("init", db=lite).code == 0
    assert defib("enqueue", "q", "fork", db=lite).code == 0
    source = outside.folder / "forks.c"
    source.write_text(FORKS)
    assert outside.build(source)(lite.url) == "9\n"
    assert lite.sql("SELECT j.state, j.attempts, d.result FROM defib_job j JOIN defib_job_data d "
                    "ON d.job = j.id") == [("done", 1, "0")]


FORKED_SESSION = """
#define _POSIX_C_SOURCE 200809L
#include <defib.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	defib_job_spec job = {.size = sizeof job, .queue = "q", .kind = "k"};
	defib_db *db;
	defib_message m;
	int status = -1;
	pid_t child;
	(void)argc;
	if (defib_open(argv[1], 0, &db, &m) || defib_enqueue(db, &job, NULL, &m))
		return 1;
	child = fork();
	if (child == 0) {
		defib_err err = defib_enqueue(db, &job, NULL, &m);
		defib_close(db);
		_exit(err);
	}
	waitpid(child, &status, 0);
	printf("%s\\n", defib_err_name((defib_err)WEXITSTATUS(status)));
	printf("%s\\n", defib_err_name(defib_enqueue(db, &job, NULL, &m)));
	defib_close(db);
	return 0;
}
"""


def test_a_forked_child_neither_uses_nor_ends_the_session_of_its_parent(outside, db, defib):
    """It has the same socket: an answer to the child would be read by the parent."""
    assert defib("init", db=db).code == 0
    source = outside.folder / "forked_session.c"
    source.write_text(FORKED_SESSION)
    assert outside.build(source)(db.url).split() == ["REFUSED", "OK"]
    assert db.sql(f"SELECT count(*) FROM {'defib_' if db.engine == 'sqlite' else 'defib.'}job") == [
        (2,)]


# ---- a workflow in C

def bank(lite, what):
    path = pathlib.Path(f"{lite.path}.{what}")
    return path.read_text().splitlines() if path.exists() else []


def steps_of(lite, job):
    return dict(lite.sql("SELECT step, state FROM defib_step WHERE job = %s", job))


def test_a_saga_in_c_runs_its_steps(saga, lite):
    job = saga(lite.path, "place", "home").strip()
    assert saga(lite.path, "work", "--drain") == "3 jobs settled\n"
    assert lite.sql("SELECT state FROM defib_job") == [("done",)]
    assert steps_of(lite, job) == {"charge": "done", "reserve": "done", "ship": "done"}
    assert lite.sql("SELECT shipped, (SELECT number FROM stock) FROM orders") == [(1, 2)]


@pytest.mark.covers("C9")
def test_a_saga_in_c_is_undone_in_reverse(saga, lite):
    job = saga(lite.path, "place", "nowhere").strip()
    saga(lite.path, "work", "--drain")
    assert lite.sql("SELECT state, error FROM defib_job") == [
        ("rolled_back", "ship: there is no such address")]
    assert lite.sql("SELECT step FROM defib_step WHERE state = 'undone' AND job = %s ORDER BY epoch",
                    job) == [("reserve",), ("charge",)]
    assert lite.sql("SELECT number FROM stock") == [(3,)]
    assert bank(lite, "refunds") == bank(lite, "charges") == ['{"receipt": "order-1"}']


def test_a_step_that_fails_second_undoes_the_first_only(saga, lite):
    for _ in range(4):
        saga(lite.path, "place", "home")
    saga(lite.path, "work", "--drain")
    assert lite.sql("SELECT state, error FROM defib_job WHERE state <> 'done'") == [
        ("rolled_back", "reserve: sold out")]
    assert (len(bank(lite, "charges")), len(bank(lite, "refunds"))) == (4, 1)
    assert lite.sql("SELECT sum(number) FROM moves") == [(-3,)]


@pytest.mark.covers("C9")
def test_a_worker_killed_in_the_middle_of_a_rollback_leaves_the_rest_to_the_next(saga, lite):
    refunds = pathlib.Path(f"{lite.path}.refunds")
    os.mkfifo(refunds)  # which nobody reads: the bank does not answer
    job = saga(lite.path, "place", "nowhere").strip()
    worker = saga.start(lite.path, "work")

    def is_at_the_refund():
        assert worker.poll() is None
        return (steps_of(lite, job).get("reserve") == "undone"
                and lite.sql("SELECT state, undoing FROM defib_job") == [("running", 1)])

    try:
        eventually(is_at_the_refund)
    finally:
        worker.kill()
        worker.communicate()
    assert stat.S_ISFIFO(refunds.stat().st_mode)
    refunds.unlink()
    worker = saga.start(lite.path, "work")

    def is_rolled_back():
        assert worker.poll() is None
        return lite.sql("SELECT state FROM defib_job") == [("rolled_back",)]

    try:
        eventually(is_rolled_back)
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=patience())
    finally:
        worker.kill()
    assert lite.sql("SELECT number FROM moves") == [(-1,), (1,)]
    assert bank(lite, "refunds") == ['{"receipt": "order-1"}']
    assert steps_of(lite, job) == {"charge": "undone", "reserve": "undone"}
