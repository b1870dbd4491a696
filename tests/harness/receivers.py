# SPDX-License-Identifier: Apache-2.0
"""Receivers of messages: real HTTP servers in threads that record requests, and misbehave.

A receiver answers as its `plan` says, one entry per request, and 200 when that is used up: a
status, (status, headers), (status, headers, text), "drop" (the connection ends without an answer)
or "hang" (none comes until the receiver is closed).
"""

import http.server
import json
import sys
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        answer = receiver.record(self.path, self.headers, body)
        if answer == "hang":
            receiver.over.wait()
        if answer in ("hang", "drop"):
            self.close_connection = True
            self.connection.close()
            return
        status, headers, *said = answer if isinstance(answer, tuple) else (answer, {})
        text = said[0].encode() if said else b"no, thank you" if status >= 300 else b"ok"
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A sender that was killed ends its connections: that is no error of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Got:
    """One request."""

    def __init__(self, path, headers, text, answer):
        self.path, self.headers, self.text, self.answer = path, headers, text, answer
        self.at = time.monotonic()
        self.taken = answer == 200

    @property
    def json(self):
        return json.loads(self.text)


class Receiver:
    def __init__(self, *plan):
        self.plan, self.got = list(plan), []
        self.always = None  # instead of 200
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.receiver = self
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def record(self, path, headers, body):
        with self.lock:
            answer = self.plan.pop(0) if self.plan else self.always or 200
            self.got.append(Got(path, dict(headers), body, answer))
            return answer

    def taken(self):
        """What was answered with 200, in order."""
        with self.lock:
            return [got for got in self.got if got.taken]

    def documents(self, **wanted):
        """Those of them that are JSON with these members."""
        found = [got.json for got in self.taken()]
        return [one for one in found if all(one.get(k) == v for k, v in wanted.items())]

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
