# SPDX-License-Identifier: Apache-2.0
"""The daemon's HTTP server: who may request what, what is refused and how, and that no request
waits for an unavailable database.
"""

import contextlib
import pathlib
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness.daemon import AGED, Daemon, config, make_jobs
from harness.databases import LiteDatabase, PgDatabase
from harness.http_daemon import TOKENS, Web, WebDaemon, serving, token_env, token_section
from harness.program import Program
from harness.queue_workers import Wire
from harness.waiting import eventually, patience

pytestmark = pytest.mark.sanitized
JOBS = "/api/v1/watches/aged/jobs"

LITE = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: aged
    table: jobs
    key: id
    running: status = 'running'
    alive_at: beat_at
    stuck_after: 1h
    requeue: status = 'queued'
"""


def lite_config(folder):
    database = LiteDatabase(folder / "jobs.db")
    database.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, beat_at text); "
                 "INSERT INTO jobs VALUES (1, 'queued', '2026-01-01T00:00:00Z')")
    database.drop()
    return LITE.format(url=database.url)


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """A daemon with a token of each role, over a file."""
    folder = tmp_path_factory.mktemp("web")
    with serving(folder, lite_config(folder), tokens=True) as own:
        yield own


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """One without tokens."""
    folder = tmp_path_factory.mktemp("local")
    text = lite_config(folder) + "environment: {name: staging, color: teal}\n"
    with serving(folder, text) as own:
        yield own


def refused_start(folder, text, *options, env=None):
    ran = Program(folder)("daemon", *options, config=text, env=env)
    assert ran.code == 3 or ran.code == 2, ran.err
    assert len(ran.err.splitlines()) == 1, ran.err
    return ran.err


# ---- who ----

def test_without_tokens_everybody_on_this_host_is_admin(local):
    status = local.get("/api/v1/status").json
    assert (status["role"], status["actor"]) == ("admin", "web:loopback")
    assert status["environment"] == {"name": "staging", "color": "teal"}


def test_with_tokens_nobody_sees_anything_without_one(web):
    nobody = web.by(None)
    for path in ("/api/v1/status", "/metrics", "/api/v1/watches", JOBS):
        answer = nobody.get(path)
        assert answer.status == 401, path
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert nobody.get("/healthz").json == {"ok": True}


def test_a_probe_names_nothing_to_who_has_no_token(web):
    eventually(lambda: web.get("/readyz").status == 200)
    assert web.by(None).get("/readyz").json == {"ready": True}
    assert "idle_ms" in web.get("/healthz").json


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_a_token_has_its_role_and_name(web, role):
    status = web.by(role).get("/api/v1/status").json
    assert (status["role"], status["actor"]) == (role, f"web:{role}")


def test_a_viewer_sees_and_changes_nothing(web):
    viewer = web.by("viewer")
    assert viewer.get(JOBS).status == 200
    answer = viewer.post("/api/v1/watches/aged/scan", {})
    assert answer.status == 403
    assert "the token has viewer" in answer.detail


def test_wrong_tokens_are_refused_and_the_right_one_is_always_heard(web):
    def ask(token):
        # From another address, so that other tests do not have to wait.
        connection = web.connect()
        connection.source_address = ("127.0.0.66", 0)
        with contextlib.closing(connection):
            return web.by(token).get("/api/v1/status", connection=connection)

    wrong = [ask("x" * 32) for _ in range(12)]
    assert [a.status for a in wrong[:10]] == [401] * 10
    assert wrong[-1].status == 429
    assert 1 <= int(wrong[-1].headers["Retry-After"]) <= 10
    assert ask("admin").status == 200  # who has it is not kept out by who guesses
    assert ask("x" * 32).status == 429
    assert ask(None).status == 401
    assert web.get("/api/v1/status").status == 200


def test_tokens_come_from_files_and_a_hup_replaces_them(tmp_path):
    secret = tmp_path / "token"
    secret.write_text("first-0123456789abcdef\n")
    secret.chmod(0o600)
    text = lite_config(tmp_path) + f"http:\n  tokens: [{{name: f, role: viewer, file: {secret}}}]\n"
    with serving(tmp_path, text) as own:
        assert own.by("first-0123456789abcdef").get("/api/v1/status").status == 200
        secret.write_text("second-0123456789abcdef\n")
        own.daemon.signal(signal.SIGHUP)
        eventually(lambda: own.by("second-0123456789abcdef").get("/api/v1/status").status == 200)
        assert own.by("first-0123456789abcdef").get("/api/v1/status").status == 401


# ---- from where ----

@pytest.mark.parametrize("host,status", [
    ("evil.example", 421), ("evil.example:80", 421), ("localhost", 200), ("127.0.0.1:1", 200),
    ("127.0.0.1.evil.example", 421), ("", 421), ("[::1]", 200)])
def test_a_host_that_is_not_ours_is_refused(local, host, status):
    assert local.get("/api/v1/status", headers={"Host": host}).status == status


@pytest.mark.parametrize("headers", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1"},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
def test_a_page_of_another_site_changes_nothing(local, headers):
    answer = local.post("/api/v1/watches/aged/scan", {}, headers=headers)
    assert answer.status == 403
    assert "comes from a page" in answer.detail


def test_a_page_of_our_own_may_ask(local):
    own = {"Origin": f"http://127.0.0.1:{local.port}", "Sec-Fetch-Site": "same-origin"}
    assert local.get("/api/v1/status", headers=own).status == 200


def test_a_form_of_another_site_is_refused_by_its_type(local):
    for kind in ("text/plain", "application/x-www-form-urlencoded", None):
        answer = local.post("/api/v1/watches/aged/scan", b"{}", headers={"Content-Type": kind})
        assert answer.status == 415, kind


def test_more_names_are_taken_from_the_configuration(tmp_path):
    text = lite_config(tmp_path) + "http: {hosts: [defib.example]}\n"
    with serving(tmp_path, text) as own:
        assert own.get("/healthz", headers={"Host": "defib.example:8443"}).status == 200
        assert own.get("/healthz", headers={"Host": "other.example"}).status == 421


# ---- what ----

@pytest.mark.parametrize("path", ["/healthz", "/nope", "/api/v1/status", "/metrics"])
def test_every_answer_carries_the_headers_of_safety(web, path):
    headers = web.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method,path,status", [
    ("GET", "/nope", 404), ("GET", "/api/v1/nope", 404), ("GET", "/api/v1/watches/nope/jobs", 404),
    ("DELETE", "/api/v1/status", 405), ("OPTIONS", "/api/v1/status", 405),
    ("BREW", "/healthz", 405), ("TRACE", "/healthz", 405),
    ("GET", "/api/v1/watches/../status", 400), ("GET", "/api/v1/watches/%2e%2e/jobs", 400),
    ("GET", "/api/v1/watches/%00/jobs", 400), ("GET", "/api/v1/watches/a%ff/jobs", 400),
    ("GET", "/api/v1/watches/a%2/jobs", 400), ("GET", "/healthz?x=%", 400),
    ("GET", "/" + "x/" * 40, 400), ("GET", "/" + "x" * 9000, 414)])
def test_what_cannot_be_done_is_a_problem(web, method, path, status):
    answer = web.ask(method, path)
    assert answer.status == status
    assert answer.detail
    assert status != 405 or "GET" in answer.headers["Allow"]


def test_a_method_that_is_not_possible_is_told_which_are(web):
    assert web.post("/healthz").headers["Allow"] == "GET, HEAD"


def test_head_is_get_without_a_body(web):
    got, head = web.get("/api/v1/status"), web.ask("HEAD", "/api/v1/status")
    assert head.status == 200 and head.body == b""
    assert abs(int(head.headers["Content-Length"]) - len(got.body)) <= 1


def test_a_broken_body_is_told_its_place(web):
    answer = web.post("/api/v1/watches/aged/scan", b'{"fix":\n tru}')
    assert answer.status == 400
    assert "line 2" in answer.detail
    for body in (b"[]", b"1", b'"x"', b"null", b"[" * 5000, b'{"a":1}x', b'{"a":"\\u0000"}',
                 b"\xff"):
        assert web.post("/api/v1/watches/aged/scan", body).status == 400, body[:20]


def test_a_body_that_is_too_large_is_refused(web):
    for size in ((1 << 20) + 1, 3 << 20):
        answer = web.post("/api/v1/watches/aged/scan", b"x" * size)
        assert answer.status == 413, size
        assert "1048576 bytes" in answer.detail


def test_a_body_whose_announced_size_is_absurd_is_not_read(web):
    with web.raw() as bare:
        bare.sendall(b"POST /api/v1/watches/aged/scan HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: 99999999999\r\n\r\n")
        assert bare.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_in_pieces_is_bounded_too(web):
    def pieces():
        for _ in range(40):
            yield b"x" * (1 << 16)
    with contextlib.closing(web.connect()) as connection:
        connection.request("POST", "/api/v1/watches/aged/scan", pieces(),
                           {"Authorization": f"Bearer {web.token}"}, encode_chunked=True)
        assert connection.getresponse().status == 413


def test_a_head_that_is_too_large_is_refused(web):
    answer = web.get("/healthz", headers={"X-Large": "x" * 60000})
    assert answer.status in (400, 413, 431)
    assert web.get("/healthz").status == 200


@pytest.mark.parametrize("sent", [
    b"GARBAGE\r\n\r\n", b"GET\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"POST /api/v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_what_is_no_request_harms_nobody(web, sent):
    with web.raw() as bare:
        bare.sendall(sent)
        bare.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            got = bare.recv(12)
            assert got == b"" or got.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5", b"HTTP/1.0 4")), got
    assert web.get("/healthz").status == 200


@pytest.mark.parametrize("sent", [
    b"", b"\r\n\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET /healthz HTTP/1.1\r\nHo",
    b"POST /api/v1/watches/aged/scan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"])
def test_who_goes_in_the_middle_of_a_request_harms_nobody(web, sent):
    with web.raw() as bare:
        bare.sendall(sent)
    assert web.get("/healthz").status == 200


def test_one_connection_serves_many_requests(web):
    with contextlib.closing(web.connect()) as connection:
        for path, status in (("/healthz", 200), (JOBS, 200), ("/nope", 404), (JOBS, 200)) * 5:
            assert web.get(path, connection=connection).status == status


def test_a_request_that_never_becomes_whole_is_cut(tmp_path):
    text = lite_config(tmp_path) + "http: {request_timeout: 1s}\n"
    with serving(tmp_path, text) as own, own.raw() as slow, own.raw() as idle:
        over = threading.Event()

        def drip():
            with contextlib.suppress(OSError):
                slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
                while not over.wait(0.1):
                    slow.sendall(b"X-A: b\r\n")
        threading.Thread(target=drip, daemon=True).start()

        def is_cut():
            with contextlib.suppress(ConnectionError):
                return slow.recv(1) == b""
            return True
        try:
            assert is_cut()
        finally:
            over.set()
        assert idle.recv(1) == b""
        assert own.get("/healthz").status == 200


# ---- a database that is away ----

@pytest.fixture(scope="module")
def cuttable(shared_server, tmp_path_factory):
    """A daemon whose connection to PostgreSQL can be cut."""
    folder = tmp_path_factory.mktemp("cut")
    database, wire = PgDatabase(shared_server), Wire(shared_server)
    make_jobs(database, 4)
    text = config(wire.url(database), AGED)
    with serving(folder, text, tokens=True) as own:
        yield own, wire
        wire.back()
    wire.close()
    database.drop()


def test_while_a_database_is_away_calls_are_told_at_once_and_the_rest_goes_on(cuttable):
    own, wire = cuttable
    eventually(own.ready)
    assert own.get(JOBS).status == 200
    wire.away()
    eventually(lambda: own.get(JOBS).status == 503)
    eventually(lambda: not own.ready())
    answers = [own.get(JOBS) for _ in range(20)]
    assert {a.status for a in answers} == {503}
    assert all(a.headers["Retry-After"] == "1" and a.detail for a in answers)
    for path in ("/healthz", "/metrics", "/api/v1/status", "/api/v1/watches"):
        assert own.get(path).status == 200, path
    assert own.get("/api/v1/status").json["databases"][0]["up"] is False
    assert own.get("/readyz").json["waiting_for"][0]["database"] == "main"
    wire.back()
    eventually(lambda: own.get(JOBS).status == 200)
    eventually(own.ready)


def test_a_database_that_hears_and_never_answers_costs_one_call_its_time_limit(cuttable):
    own, wire = cuttable
    eventually(lambda: own.get(JOBS).status == 200)
    wire.loses = lambda _sent: True
    try:
        wire.cut()
        eventually(lambda: own.get(JOBS).status == 503)
        begin = time.monotonic()
        assert {own.get(JOBS).status for _ in range(20)} == {503}
        # Each of them waiting for the database would be 40 s.
        assert time.monotonic() - begin < patience(20)
        assert own.get("/healthz").status == 200
    finally:
        wire.loses = None
        wire.cut()
    eventually(lambda: own.get(JOBS).status == 200)


def test_a_session_that_died_unseen_is_replaced_without_a_word(cuttable):
    own, wire = cuttable
    eventually(own.ready)
    eventually(lambda: own.get(JOBS).status == 200)
    wire.cut()
    answers = {own.get(JOBS).status for _ in range(3)}
    assert 200 in answers
    eventually(lambda: own.get(JOBS).status == 200)


def test_http_answers_before_the_database_was_ever_there(tmp_path):
    text = config("postgres://postgres@127.0.0.1:1/nothing", AGED)
    with serving(tmp_path, text) as own:
        assert own.get("/healthz").status == 200
        assert own.get("/readyz").status == 503
        assert own.get("/metrics").status == 200
        assert own.get(JOBS).status == 503


def test_many_calls_at_once_are_all_answered(cuttable):
    own, _ = cuttable
    eventually(own.ready)
    eventually(lambda: own.get(JOBS).status == 200)
    statuses = []

    def ask():
        statuses.append(own.get(JOBS).status)
    threads = [threading.Thread(target=ask) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 60 and set(statuses) <= {200, 503}
    assert statuses.count(200) >= 4


@contextlib.contextmanager
def locked_table(pg, own):
    """The table is locked, and a call waits for it: its answer is in the list."""
    answers = []
    blocker = pg.connect()
    blocker.autocommit = False
    blocker.cursor().execute("LOCK TABLE jobs")
    thread = threading.Thread(target=lambda: answers.append(own.get(JOBS)))
    thread.start()
    eventually(lambda: pg.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = "
                              "'Lock' AND datname = current_database()")[0][0] >= 1)
    yield answers
    thread.join()
    blocker.close()


def test_a_call_that_the_database_keeps_waiting_keeps_nobody_else(pg, tmp_path):
    make_jobs(pg, 4)
    text = config(pg.url, AGED, every="1h") + "http: {database_timeout: 1s}\n"
    with serving(tmp_path, text) as own:
        eventually(own.ready)
        with locked_table(pg, own) as answers:
            for path in ("/healthz", "/api/v1/status", "/metrics"):
                assert own.get(path).status == 200
            assert not answers
        assert answers[0].status == 503
        eventually(lambda: own.get(JOBS).status == 200)


def test_a_stop_answers_who_waits_at_a_desk(pg, tmp_path):
    make_jobs(pg, 4)
    text = config(pg.url, AGED, every="1h") + "http: {database_timeout: 2s}\n"
    with serving(tmp_path, text) as own:
        eventually(own.ready)
        with locked_table(pg, own) as answers:
            own.daemon.signal(signal.SIGTERM)
        assert answers[0].status == 503


def test_after_a_reload_calls_go_to_the_database_that_is_configured_now(tmp_path):
    folders = [tmp_path / "before", tmp_path / "after"]
    for folder in folders:
        folder.mkdir()
    texts = [lite_config(folder) for folder in folders]
    moved = LiteDatabase(folders[1] / "jobs.db")
    moved.sql("INSERT INTO jobs VALUES (2, 'queued', '2026-01-01T00:00:00Z')")
    moved.drop()
    with serving(tmp_path, texts[0]) as own:
        assert own.get(f"{JOBS}/2").status == 404
        own.daemon.config.write_text(texts[1])
        own.daemon.signal(signal.SIGHUP)
        eventually(lambda: own.get(f"{JOBS}/2").status == 200)
        assert own.get("/api/v1/status").json["setup"] == 2


# ---- TLS, and starts that are refused ----

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
                   check=True, capture_output=True)
    return folder


def tls_config(folder, certificate, key="key.pem"):
    return lite_config(folder) + (
        f"http:\n  tls: {{certificate: {certificate}/cert.pem, key: {certificate}/{key}}}\n")


def test_tls_with_the_files_of_the_configuration(tmp_path, certificate):
    with serving(tmp_path, tls_config(tmp_path, certificate)) as plain:
        trust = ssl.create_default_context(cafile=certificate / "cert.pem")
        own = Web(plain.host, plain.port, tls=trust)
        assert own.get("/healthz").status == 200
        assert own.get(JOBS).status == 200
        assert f"url=https://127.0.0.1:{own.port}" in plain.daemon.log
        with contextlib.suppress(ConnectionError), plain.raw() as bare:
            bare.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not bare.recv(100).startswith(b"HTTP/1.1 200")


def test_a_certificate_that_cannot_be_used_is_one_line(tmp_path, certificate):
    (certificate / "bad.pem").write_text("no key\n")
    said = refused_start(tmp_path, tls_config(tmp_path, certificate, "bad.pem"), "--listen",
                         "127.0.0.1:0")
    assert "cannot start the HTTP server" in said and "PEM files that belong together" in said


def test_a_key_that_is_not_there_is_one_line(tmp_path, certificate):
    said = refused_start(tmp_path, tls_config(tmp_path, certificate, "none.pem"), "--listen",
                         "127.0.0.1:0")
    assert "none.pem: No such file or directory" in said


def test_an_address_in_use_is_one_line(tmp_path, local):
    said = refused_start(tmp_path, lite_config(tmp_path), "--listen", f"127.0.0.1:{local.port}")
    assert "Address already in use; another process listens there" in said


@pytest.mark.parametrize("listen,words", [
    ("0.0.0.0:0", "there is no token"), ("[::]:0", "there is no token"),
    ("8080", "is not an address"), ("example.org:80", "is not an address"),
    ("127.0.0.1:99999", "is not an address")])
def test_an_address_that_is_no_good_is_one_line(tmp_path, listen, words):
    said = refused_start(tmp_path, lite_config(tmp_path), "--listen", listen)
    assert words in said


def test_with_tokens_others_may_reach_us(tmp_path):
    text = lite_config(tmp_path) + "http:\n" + token_section()
    daemon = WebDaemon(Program(tmp_path), text, listen="0.0.0.0:0", env=token_env())
    try:
        own = Web("127.0.0.1", int(daemon.address.rpartition(":")[2]), TOKENS["viewer"])
        assert own.get("/api/v1/status").status == 200
        assert own.get("/api/v1/status", headers={"Host": "10.1.2.3"}).status == 200
        assert own.get("/api/v1/status", headers={"Host": "evil.example"}).status == 421
    finally:
        assert daemon.stop() == 0
        daemon.kill()


def test_a_token_without_its_secret_is_one_line(tmp_path):
    text = lite_config(tmp_path) + "http:\n" + token_section()
    said = refused_start(tmp_path, text, "--listen", "127.0.0.1:0")
    assert "token viewer: the environment variable TOKEN_VIEWER is not set" in said
    said = refused_start(tmp_path, text, "--listen", "127.0.0.1:0",
                         env={**token_env(), "TOKEN_ADMIN": "hunter2"})
    assert "a secret must have 16 to 256 characters" in said and "hunter2" not in said


@pytest.mark.parametrize("http,words", [
    ('{listen: "0.0.0.0:80"}', "is reachable from other hosts, and there is no token"),
    ('{listen: "example.org:80"}', "is not an address; write 127.0.0.1:8080"),
    ("{tls: {key: k.pem}}", "tls needs certificate and key; certificate is missing"),
    ("{tokens: [{name: a, file: f, env: E}]}", "as file: or as env:, not both"),
    ("{tokens: [{name: a}]}", "and neither is given"),
    ("{tokens: [{name: a, role: boss, env: E}]}", "expects one of viewer, operator or admin"),
    ("{tokens: [{name: a, env: E}, {name: a, env: F}]}", 'two tokens are named "a"'),
    ("{max_body: 1}", "http.max_body"),
    ("{request_timeout: 10ms}", "request_timeout is at least 1s"),
    ("[]", "expects a map such as")])
def test_a_wrong_configuration_is_told_by_config_check(tmp_path, http, words):
    ran = Program(tmp_path)("config", "check", config=lite_config(tmp_path) + f"http: {http}\n")
    assert ran.code == 3 and words in ran.err, ran.err


def test_the_effective_configuration_shows_no_token(tmp_path):
    text = lite_config(tmp_path) + "http:\n" + token_section()
    ran = Program(tmp_path)("config", "show", config=text, env=token_env())
    assert ran.code == 0 and "http.max_connections" in ran.out
    assert not any(secret in ran.out + ran.err for secret in TOKENS.values())


@pytest.mark.skipif(not pathlib.Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
def test_the_other_version_of_addresses_is_served_too(tmp_path):
    daemon = WebDaemon(Program(tmp_path), lite_config(tmp_path), listen="[::1]:0")
    try:
        assert daemon.address.startswith("[::1]:")
        assert daemon.web().get("/healthz").status == 200
        assert daemon.stop() == 0
    finally:
        daemon.kill()


def test_without_listen_there_is_no_http(tmp_path):
    daemon = Daemon(Program(tmp_path), lite_config(tmp_path))
    try:
        assert daemon.stop() == 0
        assert "http server started" not in daemon.log
    finally:
        daemon.kill()
