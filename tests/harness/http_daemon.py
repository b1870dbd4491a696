# SPDX-License-Identifier: Apache-2.0
"""The daemon over HTTP, as tests see it: a client, and a daemon with its tokens.

A module shares one daemon where that is honest:

    @pytest.fixture(scope="module")
    def web(shared_server, tmp_path_factory):
        with serving(tmp_path_factory.mktemp("web"), config(...), tokens=True) as own:
            yield own

    def test_…(web):
        assert web.get("/api/v1/status").status == 200           # as admin
        assert web.by("viewer").post("/api/v1/…", {}).status == 403
"""

import contextlib
import dataclasses
import http.client
import json
import socket

from harness.daemon import Daemon
from harness.program import Program
from harness.waiting import patience

# A token of each role, by the name that stands in the ledger as web:NAME.
TOKENS = {role: f"{role}-0123456789abcdef0123456789abcdef"
          for role in ("viewer", "operator", "admin")}


def token_env():
    return {f"TOKEN_{role.upper()}": secret for role, secret in TOKENS.items()}


def token_section():
    """`tokens:` of the configuration, to stand below `http:`."""
    return "  tokens:\n" + "".join(
        f"    - {{name: {role}, role: {role}, env: TOKEN_{role.upper()}}}\n" for role in TOKENS)


@dataclasses.dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def detail(self):
        """What the problem is, of an answer that is one."""
        assert self.headers["Content-Type"] == "application/problem+json", self.text
        assert self.json["status"] == self.status
        return self.json["detail"]


class Web:
    """A client. Every request has a connection of its own, unless `session()` is used."""

    def __init__(self, host, port, token=None, tls=None, timeout=patience()):
        self.host, self.port, self.token, self.tls, self.timeout = host, port, token, tls, timeout
        self.daemon = None

    def by(self, role):
        """The same as another caller: one of TOKENS, any other token, or None for no token."""
        other = Web(self.host, self.port, TOKENS.get(role, role), self.tls, self.timeout)
        other.daemon = self.daemon
        return other

    def connect(self):
        if self.tls:
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout,
                                               context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def raw(self):
        """A bare socket, for what no client would send."""
        return socket.create_connection((self.host, self.port), timeout=self.timeout)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """`body` is sent as it is where it is bytes, else as JSON."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        sent = {name: value for name, value in sent.items() if value is not None}
        own = connection or self.connect()
        try:
            own.request(method, path, body, sent)
            got = own.getresponse()
            return Answer(got.status, got.headers, got.read())
        finally:
            if not connection:
                own.close()

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.ask("POST", path, body, **options)

    def ready(self):
        """Whether every database was queried and every watch is handled."""
        return self.get("/readyz").status == 200


class WebDaemon(Daemon):
    """`defib daemon` that listens on a free port of this host."""

    def __init__(self, program, configuration, *options, listen="127.0.0.1:0", env=None):
        super().__init__(program, configuration, *options, "--listen", listen, env=env)
        self.wait_log("http server started")
        self.address = self.lines("http server started")[0]["address"]

    def web(self, token=None, tls=None):
        host, _, port = self.address.rpartition(":")
        client = Web(host.strip("[]"), int(port), token, tls)
        client.daemon = self
        return client


@contextlib.contextmanager
def serving(folder, configuration, *options, tokens=False, env=None):
    """A daemon of this configuration, and a client of it: as admin where there are tokens."""
    if tokens:
        configuration = configuration.rstrip("\n") + "\nhttp:\n" + token_section()
    daemon = WebDaemon(Program(folder), configuration, *options,
                       env={**(token_env() if tokens else {}), **(env or {})})
    try:
        yield daemon.web(TOKENS["admin"] if tokens else None)
        assert daemon.stop() == 0, daemon.log
    finally:
        daemon.kill()
