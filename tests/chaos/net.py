# SPDX-License-Identifier: Apache-2.0
"""A network namespace with one cable to the server, and what can be done to the cable.

What runs in it reaches the server by its address at the other end of a veth pair. Rules of nft in
the namespace drop packets: of both directions or of one, all of them or some.
"""

import pathlib
import shutil
import subprocess

import pytest

from harness.pgserver import PgServer

TABLE = """
table inet faults {{
    chain hear {{ type filter hook input priority 0; policy accept; {hear} }}
    chain say {{ type filter hook output priority 0; policy accept; {say} }}
}}
"""


def run(*words, given=None):
    return subprocess.run(words, input=given, capture_output=True, text=True, check=True)


def need_namespaces():
    if not all(map(shutil.which, ("ip", "nft", "unshare"))):
        pytest.skip("no ip, nft or unshare")
    probe = subprocess.run(["unshare", "--net", "--pid", "--fork", "nft", "list", "ruleset"],
                           capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no network namespace can be made here: {probe.stderr.strip()}")


class Cable:
    """Between the host and one namespace: 10.213.N.1 and 10.213.N.2."""

    def __init__(self):
        number = self._number()
        self.here, self.there = f"10.213.{number}.1", f"10.213.{number}.2"
        self.near, far = f"dfb{number}-host", f"dfb{number}-far"
        try:
            self._lay(far)
        except subprocess.CalledProcessError:
            self.remove()
            raise

    def _lay(self, far):
        # A namespace goes some time after its name, and what was in it: also an older pair.
        subprocess.run(["ip", "link", "del", self.near], capture_output=True, check=False)
        run("ip", "link", "add", self.near, "type", "veth", "peer", "name", far, "netns", self.name)
        run("ip", "addr", "add", f"{self.here}/24", "dev", self.near)
        run("ip", "link", "set", self.near, "up")
        self.inside("ip", "addr", "add", f"{self.there}/24", "dev", far)
        self.inside("ip", "link", "set", far, "up")
        self.inside("ip", "link", "set", "lo", "up")

    def _number(self):
        """One that nobody uses: several tests may run at once."""
        for number in range(1, 255):
            self.name = f"dfb-net-{number}"
            if subprocess.run(["ip", "netns", "add", self.name], capture_output=True,
                              check=False).returncode == 0:
                return number
        raise RuntimeError("no network namespace is free: ip netns list")

    def inside(self, *words, given=None):
        return run("ip", "netns", "exec", self.name, *words, given=given)

    def argv(self, argv):
        """A command on that side, in a PID namespace of its own: to others it is another host."""
        return ["ip", "netns", "exec", self.name, "unshare", "--pid", "--fork", "--kill-child",
                "--mount-proc", *argv]

    def faults(self, hear="", say=""):
        """Rules for what comes in and what goes out, from now on."""
        self.inside("nft", "-f", "-", given="table inet faults\ndelete table inet faults\n" +
                    TABLE.format(hear=hear, say=say))

    def lose(self, percent):
        rule = f"numgen random mod 100 < {percent} drop;"
        self.faults(rule, rule)

    def deaf(self):
        self.faults(hear="drop;")

    def mute(self):
        self.faults(say="drop;")

    def cut(self):
        self.faults("drop;", "drop;")

    def heal(self):
        self.faults()

    def remove(self):
        subprocess.run(["ip", "link", "del", self.near], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


def server_for(cables):
    """A server that listens at the host's ends, with commits that outlive a session."""
    addresses = ",".join(["127.0.0.1", *(cable.here for cable in cables)])
    server = PgServer({"listen_addresses": f"'{addresses}'", "synchronous_commit": "on"})
    server.settings["listen_addresses"] = addresses
    with open(pathlib.Path(server.data) / "pg_hba.conf", "a") as rules:
        rules.write("host all all 10.213.0.0/16 trust\n")
    return server.start()
