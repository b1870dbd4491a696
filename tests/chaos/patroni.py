# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL as people run it for high availability: three nodes under Patroni, etcd and HAProxy.

Each node is a network namespace and a PID namespace of its own, with etcd, Patroni and
PostgreSQL in it, run by an unprivileged user. So a node can be switched off (every process at
once), frozen, and cut off as a machine is. All of it stands in a network namespace of the
test's own: no address is taken from the machine, and nothing is left when the test ends,
whatever ends it.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import psycopg2
import yaml

from harness.pgserver import BIN, Session, die_with_parent, signal_all, unprivileged
from harness.waiting import eventually, patience

NEEDS = ("patroni", "etcd", "haproxy", "nft", "ip", "nsenter", "unshare")
NODES = 3
NET = "10.77.0"
HUB = f"{NET}.1"
PG, REST, ETCD, ETCD_PEER, PROXY = 5432, 8008, 2379, 2380, 5000
# Patroni wants loop_wait + 2 * retry_timeout <= ttl. Its defaults are 30, 10 and 10.
TTL_S, LOOP_S, RETRY_S = 10, 2, 4
HEALTHY_S = 240
CLONE_NEWNET = 0x40000000
# The first process of a node has nothing to do but to collect orphans.
INIT = ("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "print('up', flush=True)\nwhile True: signal.pause()")

HAPROXY = """
global
    maxconn 500
defaults
    mode tcp
    retries 2
    timeout connect 4s
    timeout client 30m
    timeout server 30m
    timeout check 3s
listen primary
    bind {hub}:{proxy}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 3 rise 1 on-marked-down shutdown-sessions
{servers}
"""

CUT = """
table inet cut {{
    chain arriving {{
        type filter hook input priority 0; policy drop;
        iif lo accept
        {arriving}
    }}
    chain leaving {{
        type filter hook output priority 0; policy drop;
        oif lo accept
        {leaving}
    }}
}}
"""


def missing():
    """Why the cluster cannot be had here; None where it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    lacking = [name for name in NEEDS if not shutil.which(name, path=path)]
    if lacking:
        return f"not installed: {', '.join(lacking)} (scripts/setup proof)"
    tried = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True,
                           text=True, check=False)
    return f"no network namespace: {tried.stderr.strip()}" if tried.returncode else None


def run(*argv, given=None):
    done = subprocess.run(list(map(str, argv)), input=given, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {done.stderr}")
    return done.stdout


class Network:
    """This thread, and what it starts from now on, in a network namespace of its own."""

    def __init__(self):
        self.before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._call("unshare", CLONE_NEWNET)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "hub", "type", "bridge")
        run("ip", "addr", "add", f"{HUB}/24", "dev", "hub")
        run("ip", "link", "set", "hub", "up")

    @staticmethod
    def _call(name, *args):
        libc = ctypes.CDLL(None, use_errno=True)
        if getattr(libc, name)(*args):
            raise OSError(ctypes.get_errno(), name)

    def leave(self):
        self._call("setns", self.before, CLONE_NEWNET)
        os.close(self.before)


class Node:
    """on(), off(); freeze()/thaw() and kill() processes by name; cut()/join()."""

    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.name, self.address = f"n{number}", f"{NET}.{10 + number}"
        self.dir = cluster.dir / self.name
        self.data = self.dir / "data"
        self.holder = self.pid = None
        self.dir.mkdir()
        if cluster.user:
            os.chown(self.dir, cluster.user.pw_uid, cluster.user.pw_gid)
        (self.dir / "patroni.yaml").write_text(yaml.safe_dump(self._settings()))

    def _settings(self):
        members = [f"{NET}.{10 + n}:{ETCD}" for n in range(1, NODES + 1)]
        return {
            "scope": "ha", "name": self.name,
            "restapi": {"listen": f"{self.address}:{REST}",
                        "connect_address": f"{self.address}:{REST}"},
            # By its old interface: with the new one a leader of Patroni 3.0 that was frozen writes
            # itself over its successor when it goes on, and what was acknowledged is lost.
            "etcd": {"hosts": members},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_S, "loop_wait": LOOP_S, "retry_timeout": RETRY_S,
                    "maximum_lag_on_failover": 1 << 20,
                    # A leader that crashed is not waited for.
                    "primary_start_timeout": 0,
                    "synchronous_mode": self.cluster.synchronous,
                    "synchronous_mode_strict": self.cluster.synchronous,
                    "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": {
                        "max_connections": 100, "shared_buffers": "64MB", "wal_log_hints": "on",
                        "wal_keep_size": "256MB", "log_min_messages": "warning",
                        "timezone": "UTC"}},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"},
                           "no-sync"],
                "pg_hba": ["local all all trust", f"host all all {NET}.0/24 trust",
                           f"host replication all {NET}.0/24 trust"],
            },
            "postgresql": {
                "listen": f"{self.address}:{PG}", "connect_address": f"{self.address}:{PG}",
                "bin_dir": str(BIN), "data_dir": str(self.data),
                "pgpass": str(self.dir / "pgpass"),
                "parameters": {"unix_socket_directories": str(self.dir)},
                "authentication": {"superuser": {"username": "postgres"},
                                   "replication": {"username": "replicator"},
                                   "rewind": {"username": "rewinder"}},
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
            "watchdog": {"mode": "off"},
        }

    # ---- the machine

    def on(self):
        """Switch it on. A lock file of before would name whoever now has that number."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
             sys.executable, "-c", INIT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent, start_new_session=True)
        assert self.holder.stdout.readline() == b"up\n"
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.pid = int(children.read_text().split()[0])
        # The old one goes with its namespace, a moment after the last process.
        eventually(lambda: not pathlib.Path(f"/sys/class/net/{self.name}").exists()
                   and self._wire())
        self._start_etcd()
        self._start_patroni()

    def _wire(self):
        try:
            run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns",
                self.pid)
        except RuntimeError as failed:
            if "exists" in str(failed):
                return False
            raise
        run("ip", "link", "set", self.name, "master", "hub", "up")
        for words in ("link set lo up", f"addr add {self.address}/24 dev eth0",
                      "link set eth0 up"):
            self._in("ip", *words.split())
        return True

    def _in(self, *argv, given=None):
        return run("nsenter", "-t", self.pid, "--net", "--", *argv, given=given)

    def _spawn(self, name, *argv):
        """A child of the node's first process: whoever started it has no part in it any more."""
        user = self.cluster.user
        as_user = ["-S", user.pw_uid, "-G", user.pw_gid] if user else []
        argv = ["nsenter", "-t", self.pid, "--net", "--pid", "--mount", *as_user, "--",
                "setsid", "--fork", *argv]
        with open(self.dir / f"{name}.log", "ab") as log:
            subprocess.run(list(map(str, argv)), cwd=self.dir, stdin=subprocess.DEVNULL,
                           stdout=log, stderr=log, check=True,
                           env={"PATH": f"{BIN}:/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                                "HOME": str(self.dir)})

    def _start_patroni(self):
        self._spawn("patroni", "patroni", self.dir / "patroni.yaml")

    def _start_etcd(self):
        peers = ",".join(f"n{n}=http://{NET}.{10 + n}:{ETCD_PEER}" for n in range(1, NODES + 1))
        client, peer = f"http://{self.address}:{ETCD}", f"http://{self.address}:{ETCD_PEER}"
        self._spawn("etcd", "etcd", "--name", self.name, "--data-dir", self.dir / "etcd",
                    "--listen-client-urls", client, "--advertise-client-urls", client,
                    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                    "--initial-cluster", peers, "--initial-cluster-state", "new",
                    "--enable-v2", "--heartbeat-interval", "200", "--election-timeout", "2000",
                    "--logger", "zap", "--log-level", "warn")

    def off(self):
        """Every process at once, as when the power fails."""
        if not self.holder:
            return
        signal_all([self.pid], signal.SIGKILL)
        self.holder.wait(patience())
        self.holder.stdout.close()
        self.holder = self.pid = None

    def pids(self, *names):
        """Processes of this node of these names; of all names without any."""
        space = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "ns" / "pid") == space and (
                        not names or (process / "comm").read_text().strip() in names):
                    found.append(int(process.name))
        return [pid for pid in found if pid != self.pid]

    def signal(self, number, *names):
        """Until nobody is left who has not got it: a server starts processes meanwhile."""
        told = set()
        while fresh := set(self.pids(*names)) - told:
            signal_all(fresh, number)
            told |= fresh
        return told

    # ---- its network

    def cut(self, clients=False):
        """No packet arrives or leaves; with `clients`, those of the database alone."""
        arriving = f"ip saddr {HUB} tcp dport {PG} accept" if clients else ""
        leaving = f"ip daddr {HUB} tcp sport {PG} accept" if clients else ""
        self._in("nft", "-f", "-", given=CUT.format(arriving=arriving, leaving=leaving))

    def join(self):
        self._in("nft", "delete", "table", "inet", "cut")

    # ---- what it says, and what its operator does

    def ask(self, path, given=None):
        """A document of Patroni's, or its answer to an order; None where it does not answer."""
        order = urllib.request.Request(f"http://{self.address}:{REST}/{path}",
                                       given and json.dumps(given).encode())
        try:
            with urllib.request.urlopen(order, timeout=2) as answer:
                return answer.read() if given else json.load(answer)
        except urllib.error.HTTPError as refused:
            refused.close()
        except (OSError, ValueError):
            pass
        return None

    def restart_patroni(self):
        self.signal(signal.SIGKILL, "patroni")
        self._start_patroni()

    def connect(self, dbname="postgres", **more):
        session = psycopg2.connect(host=self.address, port=PG, dbname=dbname, user="postgres",
                                   connect_timeout=5, connection_factory=Session, **more)
        session.autocommit = True
        return session

    def url(self, dbname="postgres"):
        return f"postgres://postgres@{self.address}:{PG}/{dbname}"


class Cluster:
    """start(), leader(), healthy(); `proxied` and `listed` are its two URLs."""

    def __init__(self, synchronous):
        self.synchronous = synchronous
        self.user = unprivileged()
        where = os.environ.get("DEFIB_TEST_MEMORY") or os.environ.get("DEFIB_TEST_TMP", "/tmp")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dfb-", dir=where))
        self.dir.chmod(0o711)
        self.proxy = self.network = None
        self.nodes = [Node(self, number) for number in range(1, NODES + 1)]
        hosts = ",".join(f"{node.address}:{PG}" for node in self.nodes)
        self.proxied = f"postgres://postgres@{HUB}:{PROXY}/postgres"
        self.listed = f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def start(self):
        self.network = Network()
        for node in self.nodes:
            node.on()
        self._start_proxy()
        eventually(self.healthy, HEALTHY_S)
        return self

    def _start_proxy(self):
        servers = "\n".join(f"    server {node.name} {node.address}:{PG} check port {REST}"
                            for node in self.nodes)
        path = self.dir / "haproxy.cfg"
        path.write_text(HAPROXY.format(hub=HUB, proxy=PROXY, servers=servers))
        with open(self.dir / "haproxy.log", "ab") as log:
            self.proxy = subprocess.Popen(["/usr/sbin/haproxy", "-db", "-f", path],
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          preexec_fn=die_with_parent, start_new_session=True)

    def members(self, but=None):
        """What Patroni says of each, by the first node that answers."""
        for node in self.nodes:
            said = node is not but and node.pid and node.ask("cluster")
            if said:
                return {member["name"]: member for member in said["members"]}
        return {}

    def leader(self, but=None):
        """The node that Patroni calls the leader and that takes writes; None: there is none."""
        for name, member in self.members(but).items():
            node = next(node for node in self.nodes if node.name == name)
            if member["role"] in ("leader", "master") and node is not but and self.is_primary(node):
                return node
        return None

    @staticmethod
    def is_primary(node):
        try:
            with contextlib.closing(node.connect()) as session, session.cursor() as cursor:
                cursor.execute("SELECT NOT pg_is_in_recovery()")
                return cursor.fetchone()[0]
        except psycopg2.Error:
            return False

    def healthy(self):
        """All nodes follow one leader; of them, one at the commit where it is synchronous."""
        leader = self.leader()
        if not leader:
            return False
        try:
            with contextlib.closing(leader.connect()) as session, session.cursor() as cursor:
                cursor.execute("SELECT count(*), count(*) FILTER (WHERE sync_state = 'sync') "
                               "FROM pg_stat_replication WHERE state = 'streaming' "
                               "AND application_name LIKE 'n_'")
                streaming, at_commit = cursor.fetchone()
        except psycopg2.Error:
            return False
        roles = sorted(member["role"] for member in self.members().values())
        wanted = ["leader", "replica", "sync_standby"] if self.synchronous else [
            "leader", "replica", "replica"]
        return streaming == NODES - 1 and roles == wanted and (
            at_commit == 1 or not self.synchronous)

    def mend(self):
        """What an operator does with a cluster that does not come together by itself; what it was.

        Patroni 3.0 does not see that a standby cannot go on with the log that it has.
        """
        leader = self.leader()
        if not leader:
            return None
        streaming = {name for name, in self.sql(
            "SELECT application_name FROM pg_stat_replication WHERE state = 'streaming'")}
        stuck = [node for node in self.nodes if node is not leader and node.name not in streaming]
        for node in stuck:
            node.ask("reinitialize", {"force": True})
        if stuck:
            return f"copied anew: {', '.join(node.name for node in stuck)}"
        leader.restart_patroni()
        return f"Patroni of {leader.name} restarted"

    def sql(self, query, *params, limit=60):
        """On the leader; asked again where there is none: only for what may be asked twice."""
        end = time.monotonic() + limit
        while True:
            try:
                leader = self.leader()
                if leader:
                    with contextlib.closing(leader.connect()) as session, \
                            session.cursor() as cursor:
                        cursor.execute(query, params or None)
                        return cursor.fetchall() if cursor.description else []
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                pass
            assert time.monotonic() < end, f"no leader within {limit} s: {self.members()}"
            time.sleep(0.2)

    def logs(self, lines=15):
        """The ends of all logs, for a test that fails."""
        found = []
        for path in sorted(self.dir.glob("**/*.log")):
            said = path.read_text(errors="replace").splitlines()
            found.append(f"--- {path.relative_to(self.dir)}\n" + "\n".join(said[-lines:]))
        return "\n".join(found)

    def close(self, keep=None):
        """All of it; its logs go to the folder `keep`."""
        for node in self.nodes:
            node.off()
        for path in self.dir.glob("*/*.log") if keep else ():
            shutil.copy(path, keep / f"{path.parent.name}-{path.name}")
        if self.proxy:
            self.proxy.kill()
            self.proxy.wait()
        if self.network:
            self.network.leave()
        shutil.rmtree(self.dir, ignore_errors=True)
