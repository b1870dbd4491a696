# SPDX-License-Identifier: Apache-2.0
"""Whatever clients do, the scan loop continues, others are answered, and memory stays bounded.

One daemon, whose watch is scanned all the time, serves every test; each prints how many passes it
made meanwhile compared with a calm time, and its memory.
"""

import json
import os
import random
import re
import socket
import time

import pytest

from harness.daemon import World, make_jobs
from harness.databases import PgDatabase
from harness.http_clients import Crowd, allow_many_files, ask, request
from harness.program import BIN, Program
from harness.waiting import eventually, patience

TOKEN = "an-admin's-token-of-forty-characters-...."
VIEWERS = [f"the-token-of-viewer-number-{n}-{'.' * 20}" for n in range(1, 5)]
GROWTH_MAX_KB = 64 * 1024  # beyond a calm daemon, with a thousand connections
# Far more than they take, far less than the abuse lasts.
GAP_MAX_S = 20             # between two passes that are due 4 times a second
WAIT_MAX_MS = 10_000       # for an answer
CALM_S = 2

CONFIG = """
databases:
  - name: main
    url: {url}
http:
  request_timeout: 8s
  tokens:
    - {{name: root, role: admin, file: {token}}}
{viewers}watches:
  - name: aged
    table: jobs
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
    requeue: status = 'queued'
    every: 250ms
"""


def seconds(line):
    day, _, fraction = line["ts"].rstrip("Z").partition(".")
    return time.mktime(time.strptime(day, "%Y-%m-%dT%H:%M:%S")) + int(fraction) / 1000


class Patient(World):
    """The daemon under abuse."""

    def __init__(self, program, db):
        super().__init__(program, db)
        make_jobs(db, 20, lanes=["aged"])
        token = program.dir / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        viewers = ""
        for n, text in enumerate(VIEWERS):
            one = token.with_name(f"viewer-{n}")
            one.write_text(text)
            one.chmod(0o600)
            viewers += f"    - {{name: viewer-{n}, role: viewer, file: {one}}}\n"
        self.served = self.daemon(CONFIG.format(url=db.url, token=token, viewers=viewers), "--no-queue",
                                  "--listen", "127.0.0.1:0")
        self.served.wait_log("http server started")
        self.url = self.served.lines("http server started")[0]["url"]
        self.served.wait_passes("aged", 2)
        built = BIN.read_bytes()
        self.sanitized = b"__asan_init" in built or b"__tsan_init" in built
        time.sleep(CALM_S)
        self.calm_rate = self._rate(self.served.passes("aged"), CALM_S)
        self.calm_kb = self.rss_kb()

    @staticmethod
    def _rate(passes, took_s):
        end = seconds(passes[-1])
        return sum(end - seconds(line) < took_s for line in passes) / took_s

    def rss_kb(self):
        with open(f"/proc/{self.served.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def files(self):
        return len(os.listdir(f"/proc/{self.served.pid}/fd"))

    def ask(self, path, **more):
        return ask(self.url, request(path, token=TOKEN, **more))

    def answers(self, path="/api/v1/watches"):
        """How long a well-behaved client waits, in ms."""
        client = self.ask(path)
        assert client.status == 200, client.got
        return client.took_ms


class Meanwhile:
    """What the daemon did beside being abused; checked at the end of the test."""

    def __init__(self, patient, record):
        self.patient, self.record = patient, record
        self.before = len(patient.served.passes("aged"))
        self.begun = time.monotonic()
        self.figures = {}

    def note(self, **figures):
        self.figures.update(figures)

    def check(self):
        took_s = time.monotonic() - self.begun
        # The loop goes on: a pass that began after the abuse ends well.
        self.patient.served.wait_passes("aged", 1)
        passes = self.patient.served.passes("aged")[self.before - 1:]
        times = [seconds(line) for line in passes]
        gap = max(b - a for a, b in zip(times, times[1:]))
        kb = self.patient.rss_kb()
        if took_s > 1:
            self.note(passes_per_s=round((len(passes) - 2) / took_s, 1))
        self.note(took_s=round(took_s, 1),
                  calm_per_s=round(self.patient.calm_rate, 1), worst_gap_s=round(gap, 2),
                  rss_mb=round(kb / 1024, 1), calm_mb=round(self.patient.calm_kb / 1024, 1))
        for name, value in self.figures.items():
            self.record(name, value)
        print(" ".join(f"{name}={value}" for name, value in self.figures.items()))
        assert gap < patience(GAP_MAX_S), self.figures
        assert self.patient.sanitized or kb < self.patient.calm_kb + GROWTH_MAX_KB, self.figures
        assert self.patient.answers() < patience(WAIT_MAX_MS)


@pytest.fixture(scope="module")
def patient(shared_server, tmp_path_factory):
    allow_many_files()
    db = PgDatabase(shared_server)
    own = Patient(Program(tmp_path_factory.mktemp("abuse")), db)
    yield own
    assert own.served.stop() == 0, own.served.log[-3000:]
    own.close()
    db.drop()


@pytest.fixture
def meanwhile(patient, record_property):
    own = Meanwhile(patient, record_property)
    yield own
    own.check()


@pytest.fixture
def crowd(patient):
    """crowd(n): clients that are connected, and gone when the test ends."""
    crowds = []

    def more(n, **options):
        crowds.append(Crowd(patient.url, **options).connect(n))
        return crowds[-1]
    yield more
    for one in crowds:
        one.close()


def thousand(crowd, meanwhile, n):
    paths = ["/healthz", "/api/v1/watches", "/metrics", "/readyz", "/api/v1/watches/aged/jobs"]
    all_ = crowd(n).say([request(paths[i % len(paths)], token=TOKEN) for i in range(n)]).finish()
    statuses = all_.statuses()
    meanwhile.note(clients=n, statuses=statuses, p50_ms=round(all_.ms(0.5)),
                   p99_ms=round(all_.ms(0.99)))
    # Some may be told to come again; nobody is left without an answer or given a wrong one.
    assert set(statuses) <= {200, 503}, statuses
    return statuses


def test_a_thousand_clients_at_once(crowd, meanwhile):
    statuses = thousand(crowd, meanwhile, 1000)
    assert statuses[200] >= 600  # what is answered from memory is always answered


@pytest.mark.proof
def test_more_clients_than_there_may_be(crowd, meanwhile):
    """Those beyond the limit wait for the pace, or are closed."""
    for _ in range(5):
        all_ = crowd(3000).say(request("/healthz")).finish(60)
        statuses = all_.statuses()
        assert set(statuses) <= {200, 503, 0}, statuses
        assert statuses[200] >= 1000
    meanwhile.note(clients=3000, statuses=statuses)


HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Drip: "


def drip(patient, crowd, n, rounds, start=HALF_A_HEAD):
    """Half-open requests that send a byte now and then, and how long others wait meanwhile."""
    dripping = crowd(n).say(start)
    waited = []
    for _ in range(rounds):
        dripping.say(b" ").step(0.1)
        waited.append(patient.answers("/healthz"))
        waited.append(patient.answers())
    return dripping, sorted(waited)


def test_clients_that_drip_keep_nobody_waiting_and_are_cut(patient, crowd, meanwhile):
    head = request("/api/v1/watches/aged/pause", "POST", token=TOKEN, close=False,
                   headers=["Content-Length: 1000", "Content-Type: application/json"])
    bodies = crowd(100).say(head)
    heads, waited = drip(patient, crowd, 400, 10)
    # The time for a whole request is over for them, whatever they go on sending.
    end = time.monotonic() + patience()
    both = heads.clients + bodies.clients
    while not all(client.ended for client in both) and time.monotonic() < end:
        heads.say(b" ").step(0.1)
        bodies.say(b" ").step(0.1)
    assert all(client.ended for client in both)
    assert set(heads.statuses()) <= {0, 408}
    assert set(bodies.statuses()) <= {0, 408}
    meanwhile.note(heads=400, bodies=100, others_p50_ms=round(waited[10], 1),
                   others_max_ms=round(waited[-1], 1))
    assert waited[-1] < patience(WAIT_MAX_MS)


def test_a_probe_is_answered_whoever_else_is_connected(patient, crowd, meanwhile):
    """More slow connections than allowed, and they continue: a supervisor that restarts the daemon
    because /healthz is silent would restart it because of a crowd of clients."""
    slow = crowd(1150).say(HALF_A_HEAD)
    waited = []
    for turn in range(10):
        slow.say(b" ").step(0.05)
        if turn % 3 == 2:  # those that were cut come again
            crowd(100).say(HALF_A_HEAD)
        for path in ("/healthz", "/readyz"):
            client = ask(patient.url, request(path))
            assert client.status == 200, client.got
            waited.append(client.took_ms)
    meanwhile.note(slow=1150, probes_max_ms=round(max(waited), 1))
    assert max(waited) < patience(WAIT_MAX_MS), waited


@pytest.mark.parametrize("target", ["/api/v1/watches?access_token={}", "/api/v1/watches;t={}",
                                    "/?{}", "/api/v1/watches?a=b#{}"])
def test_no_token_is_logged_wherever_it_stands(patient, target):
    """A wrong Bearer beside a token in the query: only the path of the target is logged."""
    before = len(patient.served.lines("a wrong token was sent"))
    for secret in (TOKEN, "a-secret-in-the-wrong-place"):
        client = Crowd(patient.url, source="127.0.0.3").connect(1).say(
            request(target.format(secret.replace("'", "%27")), token="wrong-" + secret)).finish()
        assert client.statuses() == {401: 1}
        client.close()
    eventually(lambda: len(patient.served.lines("a wrong token was sent")) == before + 2)
    for secret in ("a-secret-in-the-wrong-place", TOKEN, TOKEN.replace("'", "%27"), "forty-char"):
        assert secret not in patient.served.log


@pytest.mark.proof
def test_a_thousand_that_drip_all_the_time(patient, crowd, meanwhile):
    waited = []
    for _ in range(10):
        dripping, more = drip(patient, crowd, 1000, 30)
        waited += more
        dripping.close()
    meanwhile.note(drips=1000, others_max_ms=round(max(waited), 1))
    assert max(waited) < patience(WAIT_MAX_MS)


def test_bodies_over_the_cap_are_refused_before_they_are_read(patient, crowd, meanwhile):
    said = crowd(20).say(request("/api/v1/watches/aged/pause", "POST", token=TOKEN,
                                 headers=["Content-Length: 100000000",
                                          "Content-Type: application/json"])).finish()
    assert said.statuses() == {413: 20}
    head = request("/api/v1/watches/aged/pause", "POST", token=TOKEN,
                   headers=["Transfer-Encoding: chunked", "Content-Type: application/json"])
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    whole = crowd(5).say(head + chunk * 4 + b"0\r\n\r\n").finish()
    assert whole.statuses() == {413: 5}
    # One that never ends is closed.
    endless = crowd(3).say(head + chunk * 50).finish()
    assert endless.statuses() == {0: 3}
    meanwhile.note(declared=said.statuses(), chunked=whole.statuses(), endless=endless.statuses())


@pytest.mark.parametrize("body", [
    b"{", b"[]", b"nul", b'{"for": }', b'{"a":1}{"b":2}', b"\xff\xfe{}", b'"text"', b"7",
    b"[" * 100000, b'{"a":' * 20000, b'{"for":"\xc3\x28"}', b'{"a":1,"a":2}',
    b'{"for":1e999999}', b'{"for":"1h","for":"2h"}', b"\0" * 64,
], ids=range(15))
def test_broken_json_is_a_clear_refusal(patient, body):
    client = patient.ask("/api/v1/watches/aged/pause", method="POST", body=body)
    assert client.status == 400, client.got
    assert json.loads(client.body)["detail"]


TRICKS = [
    "/../../etc/passwd", "/api/v1/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
    "/api/v1/watches/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "//api/v1/watches//", "/api/v1/watches/",
    "/api/v1/watches/%00", "/api/v1/watches/aged%00", "/api/v1/watches/%", "/api/v1/watches/%zz",
    "/api/v1/watches/aged/jobs/%27%3B%20DROP%20TABLE%20jobs%3B--", "/api/v1/watches/%ff%fe",
    "/api/v1/watches/" + "a" * 3000, "/api/v1/watches/aged/jobs/" + "%41" * 2000, "/api/v1",
    "/api/v2/watches", "/API/V1/watches", "*", "http://elsewhere.example/api/v1/watches",
    "/api/v1/watches/aged/jobs/1/../../../healthz", "/healthz/..", "/healthz/", "/;x=1",
    "/api/v1/watches/\t", "/api/v1/ledger?limit=-1", "/api/v1/ledger?limit=99999999999999999999",
    "/api/v1/ledger?limit=1&limit=2&%00=3", "/" + "a/" * 500,
]


def test_paths_that_trick_find_nothing(patient, crowd, meanwhile):
    statuses = {}
    for trick in TRICKS:
        client = ask(patient.url, request(trick, token=TOKEN))
        statuses[client.status] = statuses.get(client.status, 0) + 1
        assert client.status in (0, 400, 404, 405, 414, 421, 431) or \
            (client.status == 200 and b"root:" not in client.got), (trick, client.got)
        assert b"root:x:" not in client.got
    assert patient.db.sql("SELECT count(*) FROM jobs")[0][0] == 20
    meanwhile.note(tricks=len(TRICKS), statuses=statuses)


def test_wrong_tokens_by_the_thousand_are_not_heard(patient, crowd, meanwhile):
    """A client that guesses must wait, and no other does."""
    statuses = {}
    for i in range(4):
        wrong = crowd(250, source="127.0.0.2")
        wrong.say([request("/api/v1/watches", token=f"guess-{i}-{k}") for k in range(250)])
        for status, n in wrong.finish().statuses().items():
            statuses[status] = statuses.get(status, 0) + n
        wrong.close()
        assert patient.answers() < patience(WAIT_MAX_MS)
    # 0: closed without an answer, by a machine that is too busy. That one was not heard either.
    assert set(statuses) <= {0, 401, 429} and 429 in statuses, statuses
    assert statuses[401] <= 20, statuses
    # The right one is always accepted, also from there: others must not lock out its owner.
    right = crowd(1, source="127.0.0.2").say(request("/api/v1/watches", token=TOKEN)).finish()
    assert right.statuses() == {200: 1}
    # One guess in 10 s is heard: it may just be due, but never two in a row.
    for _ in range(2):
        wrong = crowd(1, source="127.0.0.2").say(request("/api/v1/watches", token="guess")).finish()
        if wrong.statuses() == {429: 1}:
            break
    assert wrong.statuses() == {429: 1} and b"Retry-After" in wrong.clients[0].got
    meanwhile.note(guesses=1000, statuses=statuses)


def test_pipelined_requests_are_answered_in_their_order(patient, crowd, meanwhile):
    one = request("/healthz", close=False)
    other = request("/api/v1/nothing", token=TOKEN, close=False)
    last = request("/healthz")
    piped = crowd(20).say((one + other) * 50 + last).finish()
    for client in piped.clients:
        answers = [part[:3] for part in client.got.split(b"HTTP/1.1 ")[1:]]
        assert answers == [b"200", b"404"] * 50 + [b"200"]
    meanwhile.note(clients=20, requests=2020)


def test_garbage_is_closed_or_refused(patient, crowd, meanwhile):
    chance = random.Random(7)
    garbage = [chance.randbytes(chance.randrange(1, 5000)) + b"\r\n\r\n" for _ in range(150)]
    garbage += [b"GET\r\n\r\n", b"\r\n" * 5000, b"GET / HTTP/9.9\r\n\r\n",
                b"\0" * 1000 + b"\r\n\r\n",
                b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
                b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200000 + b"\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                b"Content-Length: 2\r\n\r\nab",
                b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"h" * 500]
    said = crowd(len(garbage)).say(garbage).finish()
    assert all(status == 0 or 400 <= status < 600 for status in said.statuses()), said.statuses()
    meanwhile.note(pieces=len(garbage), statuses=said.statuses())


def test_clients_that_leave_early_leave_nothing_behind(patient, crowd, meanwhile):
    paths = ["/api/v1/watches", "/api/v1/watches/aged/jobs", "/api/v1/events", "/metrics",
             "/api/v1/ledger"]
    for i in range(10):
        leaving = crowd(50).say([request(paths[k % 5], token=TOKEN) for k in range(50)])
        leaving.step(0.02 * (i % 3))
        leaving.drop()
    files = patient.files()
    eventually(lambda: patient.files() < 100)
    meanwhile.note(left=500, files=files)


def test_an_old_client_is_answered_and_closed(patient):
    client = ask(patient.url, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert client.status in (200, 400) and client.ended
    client = ask(patient.url, b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert client.status == 200 and client.ended


def no_streams(patient):
    """Those of tests before are gone; where there were none, there is no such number."""
    return not re.search(rb"^defib_http_streams [1-9]", patient.ask("/metrics").body, re.M)


def all_said(crowd):
    crowd.step(0.1)
    return all(client.got for client in crowd.clients)


def stream_of(token):
    return request("/api/v1/events", token=token, close=False)


def test_one_token_does_not_take_the_streams_of_others(patient, crowd):
    eventually(lambda: no_streams(patient))
    greedy = crowd(60).say(stream_of(VIEWERS[0]))
    eventually(lambda: all_said(greedy))
    assert greedy.statuses() == {200: 50, 503: 10}
    refused = next(client for client in greedy.clients if client.status == 503)
    assert b"50 streams of this token are open" in refused.body
    other = crowd(1).say(stream_of(VIEWERS[1]))
    eventually(lambda: all_said(other))
    assert other.statuses() == {200: 1}
    greedy.drop()
    other.drop()


def test_there_are_so_many_streams_and_no_more(patient, crowd, meanwhile):
    eventually(lambda: no_streams(patient))
    stream = stream_of(TOKEN)
    tokens = [TOKEN, *VIEWERS]
    streams = crowd(210).say([stream_of(tokens[i % len(tokens)]) for i in range(210)])
    eventually(lambda: all_said(streams))
    statuses = streams.statuses()
    assert statuses == {200: 200, 503: 10}
    refused = next(client for client in streams.clients if client.status == 503)
    assert b"200 streams are open" in refused.body
    # Requests do not wait for listeners.
    assert patient.ask("/healthz").status == 200
    for act in ("pause", "resume"):
        done = patient.ask(f"/api/v1/watches/aged/{act}", method="POST", body=b"{}")
        assert done.status == 200, done.got
    streams.drop()

    def one_more():
        again = Crowd(patient.url).connect(1).say(stream).step(0.5)
        again.close()
        return again.clients[0].status == 200
    eventually(one_more)
    meanwhile.note(streams=210, statuses=statuses)


def test_a_client_that_reads_nothing_costs_a_bounded_amount(patient, meanwhile):
    """Hundreds of answers are requested and none is read."""
    before = [patient.answers() for _ in range(20)]
    deaf = []
    for _ in range(100):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(tuple(Crowd(patient.url).address))
        sock.setblocking(False)
        try:
            sock.send(request("/metrics", token=TOKEN, close=False) * 200)
        except BlockingIOError:
            pass
        deaf.append(sock)
    waited = [patient.answers() for _ in range(20)]
    meanwhile.note(deaf=100, others_max_ms=round(max(waited), 1))
    for sock in deaf:
        sock.close()
    assert max(waited) < patience(WAIT_MAX_MS) + 5 * max(before)
