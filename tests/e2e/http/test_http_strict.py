# SPDX-License-Identifier: Apache-2.0
"""Requests that a proxy in front could parse differently are refused, and the connection ends."""

import json
import socket

import pytest

from harness.http_daemon import serving

pytestmark = pytest.mark.sanitized
CONFIG = """
databases:
  - name: main
    url: sqlite:{path}
"""
SMUGGLED = b"GET /api/v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strict")
    with serving(folder, CONFIG.format(path=folder / "jobs.db")) as own:
        yield own


def said(web, *parts):
    """All that is answered to these bytes until the server ends the connection."""
    with web.raw() as sock:
        got = b""
        try:
            for part in parts:
                sock.sendall(part)
            while block := sock.recv(65536):
                got += block
        except ConnectionError:
            pass
        except socket.timeout:
            pytest.fail(f"the connection was not ended after {got}")
        return got


def statuses(got):
    return [one[:3] for one in got.split(b"HTTP/1.1 ")[1:]]


def post(*headers, body=b"", line=b"POST /api/v1/watches/queue/pause HTTP/1.1\r\n",
         host=b"Host: localhost\r\n"):
    return line + host + b"".join(headers) + b"\r\n" + body


def length(n):
    return b"Content-Length: %d\r\n" % n


BAD = {
    "length-and-encoding": post(length(5), CHUNKED, body=b"0\r\n\r\n"),
    "encoding-and-length": post(CHUNKED, length(5), body=b"0\r\n\r\n"),
    "two-lengths": post(length(5), length(6), body=b"[]   "),
    "two-same-lengths": post(length(2), length(2), body=b"{}"),
    "list-of-lengths": post(b"Content-Length: 2, 2\r\n", body=b"{}"),
    "negative-length": post(b"Content-Length: -1\r\n"),
    "plus-length": post(b"Content-Length: +2\r\n", body=b"{}"),
    "hex-length": post(b"Content-Length: 0x2\r\n", body=b"{}"),
    "blank-in-length": post(b"Content-Length: 2 2\r\n", body=b"{}"),
    "huge-length": post(b"Content-Length: 99999999999999999999999\r\n"),
    "empty-length": post(b"Content-Length:\r\n"),
    "two-encodings": post(CHUNKED, CHUNKED, body=b"0\r\n\r\n"),
    "other-encoding": post(b"Transfer-Encoding: gzip, chunked\r\n", body=b"0\r\n\r\n"),
    "odd-encoding": post(b"Transfer-Encoding: xchunked\r\n", body=b"0\r\n\r\n"),
    "encoding-of-an-old-client": post(CHUNKED, body=b"0\r\n\r\n",
                                      line=b"POST /api/v1/watches/queue/pause HTTP/1.0\r\n"),
    "two-hosts": post(b"Host: localhost\r\n"),
    "two-tokens": post(b"Authorization: Bearer x\r\n", b"authorization: Bearer y\r\n"),
    "two-same-tokens": post(b"Authorization: Bearer x\r\n", b"Authorization: Bearer x\r\n"),
    "two-worker-secrets": post(b"Defib-Worker-Secret: x\r\n", b"Defib-Worker-Secret: y\r\n"),
    "two-origins": post(b"Origin: http://localhost\r\n", b"Origin: http://elsewhere\r\n"),
    "two-other-hosts": post(b"Host: elsewhere\r\n"),
    "no-host": post(host=b""),
    "blank-before-colon": post(b"Content-Length : 2\r\n", body=b"{}"),
    "tab-before-colon": post(b"X-A\t: 2\r\n"),
    "blank-in-name": post(b"X A: 2\r\n"),
    "no-colon": post(b"X-A\r\n"),
    "no-name": post(b": 2\r\n"),
    "folded": post(b"X-A: 1\r\n  2\r\n"),
    "folded-by-tab": post(b"X-A: 1\r\n\t2\r\n"),
    "folded-at-first": post(b"", host=b" X-A: 1\r\nHost: localhost\r\n"),
    "line-ends-with-lf": post(line=b"GET /healthz HTTP/1.1\n"),
    "header-ends-with-lf": post(b"X-A: 1\n"),
    "last-ends-with-lf": b"GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n",
    "empty-line-is-lf": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n",
    "all-lf": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "bare-cr": post(b"X-A: 1\rX-B: 2\r\n"),
    "control-in-value": post(b"X-A: 1\x012\r\n"),
    "nul-in-value": post(b"X-A: 1\x002\r\n"),
    "two-blanks-in-line": post(line=b"GET  /healthz HTTP/1.1\r\n"),
    "two-blanks-before-version": post(line=b"GET /healthz  HTTP/1.1\r\n"),
    "tab-in-line": post(line=b"GET\t/healthz HTTP/1.1\r\n"),
    "blank-behind-version": post(line=b"GET /healthz HTTP/1.1 \r\n"),
    "other-version": post(line=b"GET /healthz HTTP/2.0\r\n"),
    "chunk-of-no-number": post(CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "chunk-negative": post(CHUNKED, body=b"-2\r\n{}\r\n0\r\n\r\n"),
    "chunk-plus": post(CHUNKED, body=b"+2\r\n{}\r\n0\r\n\r\n"),
    "chunk-0x": post(CHUNKED, body=b"0x2\r\n{}\r\n0\r\n\r\n"),
    "chunk-huge": post(CHUNKED, body=b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    "chunk-blank": post(CHUNKED, body=b" 2\r\n{}\r\n0\r\n\r\n"),
    "chunk-too-long": post(CHUNKED, body=b"2\r\n{}xx\r\n0\r\n\r\n"),
}


# Of a length that is too large, or another version, the library has its own words; a blank
# in a target ends the connection without one.
OTHERS = {"two-blanks-before-version": None, "huge-length": b"413", "chunk-huge": b"413",
          "other-version": b"505"}


@pytest.mark.parametrize("name", BAD)
def test_what_two_could_read_differently_is_refused_and_closed(web, name):
    """Two lengths, a length beside an encoding, bare line feeds, two hosts, folded lines, blanks
    before a colon, odd numbers: 400, and what follows on the connection is not heard."""
    got = said(web, BAD[name] + SMUGGLED)
    status = OTHERS.get(name, b"400")
    assert set(statuses(got)) == ({status} if status else set()), got
    assert b"there is nothing at this address" not in got


def test_what_is_refused_is_told_in_one_line(web):
    got = said(web, BAD["length-and-encoding"])
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"Connection: close" in head and b"application/problem+json" in head
    assert "Transfer-Encoding" in json.loads(body)["detail"]


def test_a_second_request_on_a_connection_is_read_as_strictly(web):
    good = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    got = said(web, good + b"GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n" + SMUGGLED)
    assert statuses(got) == [b"200", b"400"], got


@pytest.mark.parametrize("request_", [
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost:localhost\r\nX-A:\t 1 \t\r\nX-B:\r\nX-B: 2\r\n\r\n",
    b"GET /healthz?a=%20b&c HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c=d\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: \xc3\xa4\r\nX-A: 2\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    b"\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%68ealthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"y" * 6000 + b"\r\n\r\n",
], ids=range(7))
def test_what_is_well_formed_is_answered(web, request_):
    """On a connection that stays open until it is asked to end."""
    got = said(web, request_ * 3 + LAST)
    assert statuses(got) == [b"200"] * 3 + [b"404"], got


@pytest.mark.parametrize("body", [
    b"2\r\n{}\r\n0\r\n\r\n", b"1\r\n{\r\n01\r\n}\r\n0\r\n\r\n",
    b"1;a=b\r\n{\r\nA\r\n\"a\":      \r\n1\r\n1\r\n1\r\n}\r\n0\r\n\r\n",
    b"2\n{}\r\n0\r\n\r\n", b"2\r\n{}\n0\r\n\r\n", b"2\r\n{}\r\n0\n\n"])
def test_a_body_in_chunks_is_read_and_is_the_last_on_its_connection(web, body):
    """How its lines end does not matter then: nothing that follows is heard."""
    got = said(web, post(CHUNKED, b"Content-Type: application/json\r\n", body=body) + SMUGGLED)
    assert got.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in got, got
    assert b"is not JSON" not in got and b"there is nothing at this address" not in got


def test_a_head_that_comes_byte_by_byte_is_the_same(web):
    good = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n\r\n"
    got = said(web, *(bytes([b]) for b in good * 2 + LAST))
    assert statuses(got) == [b"200"] * 2 + [b"404"], got
