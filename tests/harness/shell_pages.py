# SPDX-License-Identifier: Apache-2.0
"""Pages that tell a person what to type, typed by a test: every line, all in one shell.

    for command, code, said in type_all(commands(page), folder, env):
        assert code == expected(command), f"{command}\n{said}"

    assert shape(ran.out) == shape(sample("daemon.md", "main/pages: "))

A line's comment may name the exit code that is expected (`# exit 1`), and blocks may be
for one engine only:  ```sh postgres
"""

import contextlib
import os
import re
import signal
import subprocess

import pytest

from harness.program import ROOT
from harness.waiting import patience

DOCS = ROOT / "docs"
MARK = "@@ended"


def commands(page, engine=None):
    """The lines of its shell blocks, without those of another engine; `\\` joins two."""
    blocks = re.findall(r"```sh(?: (\w+))?\n(.*?)```", page.read_text(), re.S)
    text = "".join(text for only, text in blocks if not only or only == engine)
    return [line for line in text.replace("\\\n", " ").splitlines() if line]


def sample(page, begins):
    """A sample of output on a page of docs/: the one block without a language that begins like
    this."""
    text = (DOCS / page).read_text()
    found, = re.findall(rf"^```\n({re.escape(begins)}.*?)^```", text, re.M | re.S)
    return found


def shape(text):
    """A text without what differs between runs: times, durations, numbers, spacing."""
    for pattern, sign in ((r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d\d:\d\d:\d\dZ", "TIME"),
                          (r"\d+(?: ?[mµ]s|[dhms])(?: \d+[dhms])*\b", "DURATION"),
                          (r"\d[\d,.]*", "0"), (r" +", " "), (r" $", "")):
        text = re.sub(pattern, sign, text, flags=re.M)
    return text


def expected(command):
    said = re.search(r"# exit (\d+)", command)
    return int(said[1]) if said else 0


def environment(folder, program):
    """A user's environment: the program by its name, a home, and nothing else."""
    places = folder / "bin"
    places.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (places / "defib").symlink_to(program)
    kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    return {"HOME": str(folder), "PATH": f"{places}:/usr/bin:/bin", **kept}


def type_all(lines, folder, env, timeout=patience()):
    """(command, exit code, output) of each; background processes end with the shell."""
    script = "exec 2>&1\n" + "".join(f"{line}\ncode=$?; echo; echo {MARK} $code\n"
                                     for line in lines)
    log = folder / "typed.log"
    with open(log, "wb") as out:
        shell = subprocess.Popen(["/bin/bash", "-c", script], cwd=folder, env=env, stdout=out,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        shell.wait(timeout)
    except subprocess.TimeoutExpired:
        pytest.fail(f"not done after {timeout} s; so far:\n{log.read_text(errors='replace')}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    said = log.read_text(errors="replace")
    parts = re.split(rf"{MARK} (\d+)\n", said)[:-1]
    assert len(parts) == 2 * len(lines), said
    return [(lines[i], int(parts[2 * i + 1]), parts[2 * i]) for i in range(len(lines))]
