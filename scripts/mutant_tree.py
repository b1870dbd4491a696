# SPDX-License-Identifier: Apache-2.0
"""Copies of the tree, each with one mutant at a time: for mutants, whose changes are written by
hand, and for mutate, which draws them."""

import contextlib
import filecmp
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIES = 2
STOP_S = 60
# A copy has no other server: what runs on several versions would install them first, and a mutant
# is not caught because that takes long.
DEBIANS = {"DEFIB_TEST_POSTGRES": "15"}
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
          "-m", "not proof and not bench"]


def end_on_signals():
    """Also where the caller ignores SIGINT: an interrupted run ends what it started."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.default_int_handler)


def is_test_of_c(path):
    return path.stem.endswith("_test")


def tracked():
    """The files of the tree: those that git knows and those that it would add."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


class DoesNotBuild(Exception):
    pass


class Tree:
    """A copy of the tree. A copy that exists is brought up to date and keeps its build."""

    def __init__(self, folder, kind):
        self.folder, self.kind, self.child = folder, kind, None
        names = tracked()
        for name in names:
            copy = folder / name
            if not copy.exists() or not filecmp.cmp(ROOT / name, copy, shallow=False):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy)  # with a new time, so that it is built again
        gone = self.there() - set(names)
        for name in gone:
            (folder / name).unlink()

    def there(self):
        found = (path for path in self.folder.rglob("*") if path.is_file() or path.is_symlink())
        names = (path.relative_to(self.folder) for path in found)
        return {name.as_posix() for name in names
                if name.parts[0] != "build" and "__pycache__" not in name.parts}

    def build(self, *targets):
        done = subprocess.run(["scripts/build", "build", self.kind, "--quiet", *targets],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DoesNotBuild(done.stdout + done.stderr)

    @contextlib.contextmanager
    def changed(self, path, text):
        """The file has this text until the end of the block."""
        place = self.folder / path
        before = place.read_text()
        place.write_text(text)
        try:
            yield
        finally:
            place.write_text(before)

    def run(self, argv, limit_s):
        """The exit status and what was printed. The status is None if the limit ended the program."""
        with tempfile.TemporaryFile() as said:
            self.child = subprocess.Popen(
                argv, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**DEBIANS, **os.environ, "DEFIB_BIN": str(self.folder / "build/defib")})
            try:
                code = self.child.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
                self.stop()
            said.seek(0)
            return code, said.read().decode(errors="replace")

    def stop(self):
        """End what run() started. Meson ends its tests, which are in groups of their own, if asked."""
        if self.child and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGTERM)
            try:
                self.child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait()


def in_lanes(items, folder, kind, work, copies=COPIES):
    """work(tree, item) for each item, in as many copies of the tree at a time."""
    waiting, trees, errors = queue.Queue(), [], []
    for item in items:
        waiting.put(item)

    def lane(number):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        try:
            tree = Tree(place, kind)
            trees.append(tree)
            while not errors:
                work(tree, waiting.get_nowait())
        except queue.Empty:
            pass
        except Exception as error:
            errors.append(error)

    lanes = [threading.Thread(target=lane, args=(n,)) for n in range(min(copies, len(items)))]
    for one in lanes:
        one.start()
    try:
        for one in lanes:
            one.join()
    except BaseException as error:  # interrupted
        errors.append(error)
        for tree in trees:
            tree.stop()
    if errors:
        raise errors[0]
