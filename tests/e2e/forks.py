# SPDX-License-Identifier: Apache-2.0
"""pytest -p forks --forks N: the tests run in N processes, which are forked after collection.

Each process takes the next file when it is done with one: tests of one file stay together, they
may share a server. The tests are imported and collected once: as many processes that each collect
thousands of tests would compute for longer than many of these tests take.
"""

import gc
import multiprocessing.connection
import os
import signal
import sys
import traceback

import pytest
from _pytest.junitxml import LogXML
from _pytest.terminal import TerminalReporter

END_S = 20  # for the fixtures of a process, after an interrupt


def pytest_addoption(parser):
    parser.addoption("--forks", type=int, default=0, help="run files of tests in N processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    n = session.config.option.forks
    if not n or session.config.option.collectonly or session.testsfailed:
        return None
    files = {}
    for item in session.items:
        files.setdefault(item.path, []).append(item)
    Run(session, list(files.values()), min(n, len(files))).all()
    return True


class Run:
    """The process that forks: it hands out files, and reports what the others tell it."""

    def __init__(self, session, files, n):
        self.session, self.files, self.next = session, files, 0
        self.pids, self.at = {}, {}  # by connection: its process, the test that it runs
        self.died = []
        session.config._tmp_path_factory.getbasetemp()
        gc.collect()
        gc.freeze()  # what is never collected is never copied either
        sys.stdout.flush()
        for number in range(n):
            self._fork(number)

    def _fork(self, number):
        ours, its = multiprocessing.connection.Pipe()
        pid = os.fork()
        if pid:
            its.close()
            self.pids[ours] = pid
            return
        code = 1
        try:
            for other in (ours, *self.pids):
                other.close()
            Child(self.session, its, number).run(self.files)
            code = 0
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.session._setupstate.teardown_exact(None)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def all(self):
        try:
            while self.pids:
                for its in multiprocessing.connection.wait(list(self.pids)):
                    self._hear(its)
        except KeyboardInterrupt:
            for pid in self.pids.values():
                signal_if_there(pid, signal.SIGINT)
            multiprocessing.connection.wait(list(self.pids), END_S)
            raise
        if self.died:
            raise self.session.Interrupted("tests did not run: " + "; ".join(self.died))

    def _hear(self, its):
        try:
            kind, told = its.recv()
        except EOFError:
            self._over(its)
            return
        if kind == "file":  # it wants the next one
            its.send(self.next if self.next < len(self.files) else None)
            self.next += 1
        elif kind == "test":
            self.at[its] = told
        else:
            self._report(told)

    def _report(self, told):
        hook = self.session.config.hook
        report = hook.pytest_report_from_serializable(config=self.session.config, data=told)
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def _over(self, its):
        """A process that has ended: whether it was done, its status says."""
        pid = self.pids.pop(its)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            self.died.append(f"the process of {self.at.get(its)} ended with {status}")


def signal_if_there(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Child:
    """A process that runs tests: what it would print and keep, it tells the one that forked it."""

    def __init__(self, session, told, number):
        self.session, self.told = session, told
        config = session.config
        for plugin in list(config.pluginmanager.get_plugins()):
            if isinstance(plugin, (TerminalReporter, LogXML)):
                config.pluginmanager.unregister(plugin)
        config.pluginmanager.register(self, "forks-child")
        capture = config.pluginmanager.get_plugin("capturemanager")
        capture.stop_global_capturing()  # into files that all processes would share
        capture.start_global_capturing()
        folders = config._tmp_path_factory
        folders._basetemp = folders._basetemp / f"process{number}"
        folders._basetemp.mkdir(mode=0o700)

    def pytest_runtest_logstart(self, nodeid):
        self.told.send(("test", nodeid))

    def pytest_runtest_logreport(self, report):
        hook = self.session.config.hook
        self.told.send(("report", hook.pytest_report_to_serializable(
            config=self.session.config, report=report)))

    def _more(self, files):
        self.told.send(("file", None))
        number = self.told.recv()
        return [] if number is None else files[number]

    def run(self, files):
        items = self._more(files)
        while items:
            item, *items = items
            # Asked for only now: another process may be done sooner.
            items = items or self._more(files)
            self.session.config.hook.pytest_runtest_protocol(
                item=item, nextitem=items[0] if items else None)
