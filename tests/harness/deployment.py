# SPDX-License-Identifier: Apache-2.0
"""Hosts, units, cron lines and manifests of deploy/, as tests read and start them."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from harness.example_systems import ago
from harness.program import BIN, ROOT, Ran
from harness.waiting import patience

DEPLOY = ROOT / "deploy"
CONFIG = """\
databases:
  - name: main
    url: ${DATABASE_URL}
watches:
  - name: jobs
    table: jobs
    key: id
    running: state = 'running'
    alive_at: beat
    stuck_after: 1h
    requeue: state = 'queued', beat = :now
    every: 5m
    work:
      ready: state = 'ready'
      order: id
      claim: state = 'running', beat = :now
      done: state = 'done'
      failed: state = 'failed'
      release: state = 'ready'
      command: [/bin/true]
"""


class Host:
    """A host that has the program, a configuration, its secrets, and one stuck job."""

    def __init__(self, db, folder, config=CONFIG):
        self.db, self.folder = db, folder
        self.config = folder / "defib.yaml"
        self.config.write_text(config)
        self.secrets = {"DATABASE_URL": db.url, "DEFIB_TOKEN": "0123456789abcdef0123456789abcdef",
                        "DEFIB_METRICS_TOKEN": "fedcba9876543210fedcba9876543210"}
        self.environment = folder / "environment"
        self.environment.write_text("".join(f"{k}='{v}'\n" for k, v in self.secrets.items()))
        db.sql("CREATE TABLE jobs (id integer PRIMARY KEY, state text, beat text)")
        db.sql(f"INSERT INTO jobs VALUES (1, 'running', {ago(db, 7200)})")

    def state(self, job=1):
        return self.db.sql("SELECT state FROM jobs WHERE id = %s", job)[0][0]

    def here(self, text):
        """The same words with this host's places."""
        for place, own in (("/usr/local/bin/defib", BIN), ("/etc/defib/defib.yaml", self.config),
                           ("/etc/defib/environment", self.environment)):
            text = text.replace(place, str(own))
        return text

    def env(self, names=None):
        kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        wanted = self.secrets if names is None else {n: self.secrets[n] for n in names}
        return {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", **kept, **wanted}

    def run(self, argv, names=None):
        done = subprocess.run([self.here(word) for word in argv], env=self.env(names), timeout=patience(),
                              cwd=self.folder, capture_output=True, text=True, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def running(self, argv, names=None, **more):
        """Until the block is over; its log is a file."""
        log = self.folder / "log"
        with open(log, "wb") as out:
            child = subprocess.Popen([self.here(word) for word in argv], cwd=self.folder,
                                     env={**self.env(names), **more}, stdout=out, stderr=out)
        child.log = lambda: log.read_text(errors="replace")
        try:
            yield child
        finally:
            child.terminate()
            assert child.wait(patience()) == 0, child.log()
            assert "Sanitizer" not in child.log()


def unit_lines(text, key):
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def argv_of(text, key="ExecStart", instance="jobs"):
    line, = unit_lines(text, key)
    return shlex.split(line.replace("%i", instance))


def analyze(*args):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(["systemd-analyze", *map(str, args)], capture_output=True, text=True,
                          timeout=patience(), check=False)
    said = done.stdout + done.stderr
    if "Failed to initialize manager" in said or "not permitted" in said:
        pytest.skip(f"systemd-analyze cannot run here: {said.strip()}")
    return done.returncode, said


def put_units(folder, texts):
    """As they would be installed, with a program that is there."""
    for name, text in texts.items():
        (folder / name).write_text(text.replace("/usr/local/bin/defib", str(BIN)))
    return [folder / name for name in texts]


def cron_line(text):
    """Schedule, user and command of the only line that has them."""
    line, = [s for s in text.splitlines() if s and not s.startswith("#") and s[0] in "*0123456789"]
    fields = line.split(None, 6)
    return " ".join(fields[:5]), fields[5], fields[6]


def by_cron(text, here, folder, prefix=()):
    """A line of /etc/cron.d as Debian's cron runs it: the file's own settings and four names of
    cron's are all of the environment; no terminal, a session of its own, the file's shell."""
    command = cron_line(text)[2]
    assert "%" not in command  # cron would make a line end of it
    settings = dict(s.split("=", 1) for s in text.splitlines() if re.match(r"[A-Z]+=", s))
    env = {"HOME": str(folder), "LOGNAME": "defib", "PATH": "/usr/bin:/bin", **settings}
    env |= {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    done = subprocess.run([*prefix, env["SHELL"], "-c", here(command)], env=env, cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          start_new_session=True, timeout=patience())
    return Ran(done.returncode, done.stdout, done.stderr)


def manifests():
    return {p.name: yaml.safe_load(p.read_text()) for p in (DEPLOY / "kubernetes").glob("*.yaml")}


def container_of(manifest):
    spec = manifest["spec"]
    pod = (spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec)["template"]["spec"]
    container, = pod["containers"]
    return pod, container


def apt_packages(step):
    return {w for w in step.split("install ")[1].split("&&")[0].split() if not w.startswith("-")}
