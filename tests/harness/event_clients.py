# SPDX-License-Identifier: Apache-2.0
"""Listeners to a daemon's events (GET /api/v1/events), for tests."""

import dataclasses
import http.client
import json
import urllib.parse

from harness.waiting import HANGS_S



@dataclasses.dataclass
class Event:
    id: str
    name: str
    data: dict


class Refused(Exception):
    """The server answered with a problem."""

    def __init__(self, status, headers, problem):
        super().__init__(f"{status}: {problem}")
        self.status, self.headers, self.problem = status, headers, problem


class Listener:
    """One stream; `last` is the id of the last event that its client saw."""

    def __init__(self, url, last=None, token=None, limit=HANGS_S, **query):
        at = urllib.parse.urlsplit(url)
        self.wire = http.client.HTTPConnection(at.hostname, at.port, timeout=limit)
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        if token:
            headers["Authorization"] = f"Bearer {token}"
        path = "/api/v1/events"
        if query:
            path += "?" + urllib.parse.urlencode(query)
        self.wire.request("GET", path, headers=headers)
        self.answer = self.wire.getresponse()
        self.last = last
        if self.answer.status != 200:
            text = self.answer.read()
            self.close()
            raise Refused(self.answer.status, self.answer.headers, json.loads(text))
        assert self.answer.headers["Content-Type"].startswith("text/event-stream")

    def _block(self):
        """The fields of one block, None at the end of the stream."""
        fields = {}
        while True:
            line = self.answer.readline()
            if not line:
                return None
            line = line.decode().rstrip("\n")
            if not line:
                return fields
            name, _, value = line.partition(": ")
            fields[name or "comment"] = value

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            fields = self._block()
            if fields is None:
                raise StopIteration
            self.last = fields.get("id", self.last)
            if "data" in fields:
                return Event(self.last, fields["event"], json.loads(fields["data"]))

    def next(self, name, **wanted):
        """The next event of a name whose data has these members."""
        for event in self:
            if event.name == name and wanted.items() <= event.data.items():
                return event
        raise AssertionError(f"the stream ended before {name} {wanted}")

    def ledger(self, n):
        """The next n entries of ledgers."""
        return [self.next("ledger") for _ in range(n)]

    def up(self, *databases):
        """Returns once these are known: entries committed from now on are sent."""
        for name in databases or ("main",):
            self.next("database", database=name)
        return self

    def close(self):
        self.wire.close()
