# SPDX-License-Identifier: Apache-2.0
"""What scripts/check and scripts/proof are made of: steps that run one after the other.

A step is a command that passes or fails as a whole, the unit tests of a build, or pytest. Each says
what it took, in seconds and in seconds of a core. However a run ends, it removes its files; the tests
themselves end what they started.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
RECORDED = "DEFIB_PROOF_RESULTS"  # tests/harness/proof_results.py

Counts = collections.namedtuple("Counts", "passed failed skipped", defaults=(0, 0, 0))

GIB = 1 << 30
PER_TEST = GIB // 2  # a server, a daemon, a few workers
# Servers of tests have their data in memory, if there is as much as this.
SHARED_MEMORY = pathlib.Path("/dev/shm")
SHARED_MEMORY_LEAST = 4 * GIB

# If few tests fail, each is run again by itself. Those that pass then are unsteady: the last line of
# the output names them, and they must be mended or deleted.
SECOND_LOOK_MOST = 5


def memory():
    """Bytes that can be used: of the machine, or of the control group that we are in."""
    free = re.search(r"MemAvailable: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]
    most = [int(free) * 1024]
    groups = [line.split(":", 2)[1:] for line in
              pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    for controller, group in groups:
        place = pathlib.Path(f"/sys/fs/cgroup/{controller}{group}")
        for limit, used in (("memory.max", "memory.current"),
                            ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with contextlib.suppress(OSError, ValueError):  # no such group, or no limit
                most.append(int((place / limit).read_text()) - int((place / used).read_text())
                            + cached(place))
    return min(most)


def cached(group):
    """Bytes of a control group that are copies of files: they make room for what needs it."""
    counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(counts.get("total_inactive_file", counts.get("inactive_file", 0)))


def cores():
    return len(os.sched_getaffinity(0))


def free_share():
    """How much of a core a process gets now that wants all of it."""
    began, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.2:
        pass
    return 0.2 / (time.monotonic() - began)


def at_once():
    """How many tests: they mostly wait, so several for each core, and fewer while others use the
    machine, but never fewer than it has cores: then we would only leave the machine to the others.
    No more than fit into memory."""
    share = max(cores(), 4 * cores() * free_share())
    return max(1, round(min(share, memory() / PER_TEST)))


class Run:
    def __init__(self):
        self.tmp = tempfile.mkdtemp(prefix="defib-", dir="/tmp")
        self.shared = None
        if SHARED_MEMORY.is_dir() and memory() > 2 * SHARED_MEMORY_LEAST and \
                shutil.disk_usage(SHARED_MEMORY).free > SHARED_MEMORY_LEAST:
            self.shared = tempfile.mkdtemp(prefix="defib-", dir=SHARED_MEMORY)
        for folder in filter(None, (self.tmp, self.shared)):
            os.chmod(folder, 0o711)  # PostgreSQL runs as another user when we are root
        self.results, self.unsteady, self.reports = [], [], []
        self.env = self._clean_env()

    def _clean_env(self):
        """Nothing of the caller's databases, locale or time zone reaches a test."""
        keep = ("PATH", "HOME", "USER", "LOGNAME", "TERM", "CI", "DEFIB_HA_FAULTS",
                "DEFIB_HA_SEED", "DEFIB_TEST_POSTGRES", RECORDED)
        env = {key: os.environ[key] for key in keep if key in os.environ}
        env.update(LC_ALL="C.UTF-8", TZ="UTC", TMPDIR=self.tmp, DEFIB_TEST_TMP=self.tmp,
                   PYTHONPYCACHEPREFIX=f"{self.tmp}/pycache",
                   ASAN_OPTIONS="exitcode=99:abort_on_error=0",
                   UBSAN_OPTIONS="print_stacktrace=1")
        if self.shared:
            env["DEFIB_TEST_MEMORY"] = self.shared
        return env

    def command(self, argv, **env):
        """Run to its end: (exit code, what it said)."""
        child = subprocess.Popen(list(map(str, argv)), cwd=ROOT, env={**self.env, **env},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace")
        try:
            said = child.communicate()[0]
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)  # pytest stops its servers in order
            child.communicate()  # it hangs if nobody reads what it still says
            raise
        return child.returncode, said

    @contextlib.contextmanager
    def step(self, name):
        """A step tells its outcome by `tell(counts, said)`: what it said is shown if it failed."""
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)

        def tell(counts, said=""):
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            core_s = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
            self.results.append(counts)
            keep(name, said)
            if counts.failed and said:
                print(f"--- {name}\n{said.rstrip()}\n---")
            skipped = f", {counts.skipped} skipped" if counts.skipped else ""
            print(f"{name}: {'FAILED' if counts.failed else 'ok'} ({counts.passed} passed, "
                  f"{counts.failed} failed{skipped}; {time.monotonic() - began:.0f} s, "
                  f"{core_s:.0f} s of a core)", flush=True)
            return not counts.failed

        yield tell

    def simple(self, name, *argv):
        """A command that passes or fails as a whole; True if it passed."""
        with self.step(name) as tell:
            code, said = self.command(argv)
            return tell(Counts(passed=int(code == 0), failed=int(code != 0)), said)

    def build(self, folder, kind, *targets):
        return self.simple(f"build {kind}", "scripts/build", folder, kind, "--quiet", *targets)

    def unit(self, name, build, *tests, **env):
        """What meson runs: all test programs of a build, or these."""
        log = ROOT / build / "meson-logs" / "testlog.json"

        def meson(*chosen):
            log.unlink(missing_ok=True)
            code, said = self.command(["scripts/with-postgres", "/usr/bin/meson", "test", "-C",
                                       build, "--no-rebuild", "--print-errorlogs",
                                       "--num-processes", at_once(), *chosen], **env)
            return code, said, log.read_text().splitlines() if log.exists() else []

        with self.step(name) as tell:
            code, said, lines = meson(*tests)
            rows = {row["name"]: unit_counts(row) for row in map(json.loads, lines)}
            failed = [test for test, row in rows.items() if row.failed]
            if failed and len(failed) <= SECOND_LOOK_MOST:
                for test in failed:
                    again, more, lines = meson(test.split(" / ")[-1])
                    said += f"\n--- {test} by itself\n{more}"
                    if again == 0:
                        rows[test] = unit_counts(json.loads(lines[0]))
                        self.unsteady.append(test)
            counts = Counts(*map(sum, zip(Counts(), *rows.values())))
            if code and not failed:
                counts = counts._replace(failed=1)  # meson itself did not run
            return tell(counts, said)

    def pytest(self, name, build, marks, *where, several=True, **env):
        """Tests with these marks on the program of a build; files stay whole, they share servers."""
        argv = [PYTHON, "-m", "pytest", "-q", "-rs", "--durations=10", "-m", marks]
        env = {"DEFIB_BIN": str(ROOT / build / "defib"), **env}
        with self.step(name) as tell:
            report = pathlib.Path(self.tmp) / f"report-{len(self.reports)}.xml"
            self.reports.append(report)
            spread = ("-n", at_once(), "--dist", "loadfile") if several else ()
            code, said = self.command([*argv, *spread, f"--junitxml={report}",
                                       f"--basetemp={self.tmp}/pytest", *where], **env)
            if code not in (0, 1, 5) or not report.exists():
                return tell(Counts(failed=1), said)
            counts, failed = read_report(report)
            keep(f"{name}.xml", report.read_text())  # how long each test took
            if failed and len(failed) <= SECOND_LOOK_MOST:
                for test in failed:
                    again, more = self.command([*argv, f"--basetemp={self.tmp}/again", test], **env)
                    said += f"\n--- {test} by itself\n{more}"
                    if again == 0:
                        counts = counts._replace(passed=counts.passed + 1,
                                                 failed=counts.failed - 1)
                        self.unsteady.append(test)
            return tell(counts, said)

    def nothing_left_running(self):
        """No process is left whose directory or environment is that of this run."""
        with self.step("nothing is left running") as tell:
            end = time.monotonic() + 60
            while (left := sorted(self._processes())) and time.monotonic() < end:
                time.sleep(0.1)
            return tell(Counts(passed=int(not left), failed=int(bool(left))), "\n".join(left))

    def _processes(self):
        mine = self.tmp.encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if mine in (process / "environ").read_bytes() or \
                        mine in os.fsencode(os.readlink(process / "cwd")):
                    said = (process / "cmdline").read_text(errors="replace")
                    yield f"{process.name}: " + said.replace("\0", " ")


def keep(name, said):
    """All output of a step, in build/said."""
    folder = ROOT / "build" / "said"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / re.sub(r"[^a-z0-9.]+", "-", name.lower())).write_text(said or "")


# cmocka's lines for one test each; the summary repeats failed names behind the count.
CMOCKA = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\w+)$", re.M)


def unit_counts(row):
    """The counts of one test program, from what it printed."""
    said = (row.get("stdout") or "") + "\n" + (row.get("stderr") or "")
    names = {"OK": set(), "FAILED": set(), "SKIPPED": set()}
    for kind, name in CMOCKA.findall(said):
        names[kind].add(name)
    good = row["result"] in ("OK", "EXPECTEDFAIL", "SKIP")
    failed = len(names["FAILED"]) or int(not good)  # it crashed, or a sanitizer ended it
    passed = len(names["OK"]) or int(good and not names["SKIPPED"])  # not a program of cmocka's
    return Counts(passed, failed, len(names["SKIPPED"]))


def read_report(report):
    """The counts of a report of pytest's, and the names of the tests that failed."""
    tree = xml.etree.ElementTree.parse(report)
    suite = next(tree.iter("testsuite"))
    total, bad, broken, skipped = (
        int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped"))
    failed = []
    for case in tree.iter("testcase"):
        if any(part.tag in ("failure", "error") for part in case):
            *folders, file = case.get("classname").split(".")
            failed.append(f"{'/'.join((*folders, file))}.py::{case.get('name')}")
    return Counts(total - bad - broken - skipped, bad + broken, skipped), list(dict.fromkeys(failed))


def skips(report):
    """{why: how many tests} of a report of pytest's."""
    tree = xml.etree.ElementTree.parse(report)
    return collections.Counter(part.get("message") for part in tree.iter("skipped"))


def main(steps):
    """Run these; the last lines are the sum and the names of unsteady tests."""
    def interrupted(_signal, _frame):
        raise KeyboardInterrupt

    # Also where the caller ignores SIGINT: what we start would inherit that.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, interrupted)
    run, began = Run(), time.monotonic()
    try:
        steps(run)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        run.results.append(Counts(failed=1))
    finally:
        for folder in filter(None, (run.tmp, run.shared)):
            shutil.rmtree(folder, ignore_errors=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = Counts(*map(sum, zip(Counts(), *run.results)))
    print(f"{(time.monotonic() - began) / 60:.1f} minutes, "
          f"{used.ru_utime + used.ru_stime:.0f} s of a core")
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}")
    if run.unsteady:
        print("unsteady: " + ", ".join(run.unsteady))
    sys.exit(1 if total.failed or not total.passed else 0)
