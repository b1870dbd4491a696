# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, in one thread: each sends arbitrary bytes and reads to the end."""

import dataclasses
import resource
import selectors
import socket
import struct
import time
import urllib.parse

from harness.waiting import HANGS_S, patience



def allow_many_files():
    """As many sockets as the hard limit lets this process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def address_of(url):
    at = urllib.parse.urlsplit(url)
    return at.hostname, at.port


def request(path, method="GET", body=b"", token=None, close=True, version="1.1", headers=()):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost"]
    lines += list(headers)
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if close:
        lines.append("Connection: close")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines + ["", ""]).encode() + body


@dataclasses.dataclass
class Client:
    sock: socket.socket
    text: bytes
    sent: int = 0
    got: bytes = b""
    begun: float = 0
    took_ms: float = 0
    ended: bool = False

    @property
    def status(self):
        """Of the first answer; 0: it was closed without one, -1: nothing came in time."""
        if self.got.startswith(b"HTTP/1."):
            return int(self.got[9:12])
        return 0 if self.ended else -1

    @property
    def body(self):
        return self.got.partition(b"\r\n\r\n")[2]


class Crowd:
    def __init__(self, url, source=None):
        """`source` is an address of this host to come from."""
        self.address = address_of(url)
        self.source = (source, 0) if source else None
        self.clients = []
        self.selector = selectors.EpollSelector()

    def connect(self, n):
        """Sockets that have sent nothing yet."""
        for _ in range(n):
            sock = socket.create_connection(self.address, patience(), self.source)
            sock.setblocking(False)
            client = Client(sock, b"")
            self.clients.append(client)
            self.selector.register(sock, selectors.EVENT_READ, client)
        return self

    def say(self, texts):
        """Client i begins to send texts[i], or the one text."""
        for i, client in enumerate(self.clients):
            more = texts if isinstance(texts, bytes) else texts[i]
            client.text, client.sent = client.text[client.sent:] + more, 0
            client.begun = time.monotonic()
            if not client.ended:
                self.selector.modify(client.sock, selectors.EVENT_READ | selectors.EVENT_WRITE,
                                     client)
        return self

    def _end(self, client):
        client.ended = True
        client.took_ms = (time.monotonic() - client.begun) * 1000
        self.selector.unregister(client.sock)

    def _write(self, client):
        client.sent += client.sock.send(client.text[client.sent:client.sent + 65536])
        if client.sent == len(client.text):
            self.selector.modify(client.sock, selectors.EVENT_READ, client)

    def _read(self, client):
        more = client.sock.recv(65536)
        client.got += more
        if not more:
            self._end(client)

    def step(self, seconds):
        """What happens within this time, or until all are answered."""
        end = time.monotonic() + seconds
        while self.selector.get_map() and time.monotonic() < end:
            for key, mask in self.selector.select(max(0, end - time.monotonic())):
                client = key.data
                try:
                    if mask & selectors.EVENT_WRITE and client.sent < len(client.text):
                        self._write(client)
                    if mask & selectors.EVENT_READ:
                        self._read(client)
                except (ConnectionError, socket.timeout):
                    self._end(client)
        return self

    def finish(self, limit=HANGS_S):
        """Until the server has closed every connection."""
        return self.step(limit)

    def drop(self):
        """Disconnect without a message: RST."""
        for client in self.clients:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self.selector.close()
        for client in self.clients:
            client.sock.close()

    def statuses(self):
        found = {}
        for client in self.clients:
            found[client.status] = found.get(client.status, 0) + 1
        return found

    def ms(self, share):
        took = sorted(client.took_ms for client in self.clients if client.ended)
        return took[min(len(took) - 1, int(len(took) * share))] if took else 0


def ask(url, text, limit=HANGS_S):
    """One client that sends these bytes; what it got."""
    crowd = Crowd(url).connect(1).say(text).finish(limit)
    crowd.close()
    return crowd.clients[0]
