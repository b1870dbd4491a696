# SPDX-License-Identifier: Apache-2.0
"""A terminal in which a program runs, its keys and its screen: tmux, used like a real one."""

import os
import shlex
import subprocess

from harness.waiting import eventually, patience


class Terminal:
    """One command in a tmux server of its own; gone, with what runs in it, at close()."""

    def __init__(self, folder, argv, env, width=80, height=24, term="screen-256color"):
        self.folder = folder
        self.raw = folder / "raw"
        (folder / "tmux.conf").write_text(f"set -g default-terminal {term}\nset -g escape-time 0\n"
                                          "set -g status off\nset -g remain-on-exit on\n")
        words = " ".join(shlex.quote(f"{k}={v}") for k, v in env.items())
        run = f"env -u LANG -u TMUX {words} {shlex.join(map(str, argv))}; echo ended $?; exec sh"
        self.tmux("-f", folder / "tmux.conf", "new-session", "-d", "-x", width, "-y", height,
                  "-c", folder, "exec sh")
        self.tmux("pipe-pane", "-o", f"cat > {self.raw}")
        self.keys(text=f"PS1=ready:; clear; {run}")
        self.keys("Enter")

    def tmux(self, *args):
        ran = subprocess.run(["tmux", "-u", "-S", str(self.folder / "tmux"), *map(str, args)],
                             env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                                  "HOME": str(self.folder)}, capture_output=True, timeout=patience())
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode()

    def keys(self, *names, text=None):
        """Keys by tmux's names, or a text as it is."""
        self.tmux("send-keys", *(["-l", text] if text is not None else names))

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def shows(self, *texts):
        """Wait until all of them are there; the screen then."""
        return self.until(lambda screen: all(t in screen for t in texts), texts)

    def until(self, holds, what="it"):
        seen = ""

        def found():
            nonlocal seen
            seen = self.screen()
            return holds(seen)
        try:
            eventually(found, 30)
        except AssertionError:
            raise AssertionError(f"never {what!r} on:\n{seen}") from None
        return seen

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)

    def close(self):
        pids = self.tmux("list-panes", "-a", "-F", "#{pane_pid}").split()
        self.tmux("kill-server")
        for pid in map(int, pids):
            eventually(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), 10)
