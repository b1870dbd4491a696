# SPDX-License-Identifier: Apache-2.0
"""The ledger as a stream of events: nothing lost or repeated, whichever clients come and go."""

import json
import signal
import threading

import pytest

from harness import program
from harness.daemon import World, make_jobs
from harness.databases import PgDatabase
from harness.event_clients import Listener, Refused
from harness.http_clients import ask, request
from harness.waiting import eventually

STUCK = "UPDATE jobs SET status = 'running', owner = 'secret-owner', " \
        "beat_at = now() - interval '1 hour' WHERE id BETWEEN %s AND %s"
WATCH = """
  - name: aged
    table: jobs
    key: id
    running: status = 'running' AND lane = 'aged'
    owner: owner
    alive_at: beat_at
    stuck_after: {stuck_after}
    mask: [owner]
    requeue: status = 'queued', owner = NULL
    every: 1h
  - name: other
    table: jobs
    key: id
    running: status = 'running' AND lane = 'other'
    alive_at: beat_at
    stuck_after: {stuck_after}
    fail: status = 'failed'
    remedies: [{{do: fail}}]
    every: 1h
"""


def configuration(url, more="", stuck_after="1d"):
    return f"databases:\n  - name: main\n    url: {url}\n{more}watches:" + \
        WATCH.format(stuck_after=stuck_after)


def listening(daemon):
    daemon.wait_log('msg="http server started"')
    return daemon.lines("http server started")[0]["url"]


class Place(World):
    """A table with stuck jobs, and a daemon that leaves them to callers of `recover`: it has more
    patience, because on a busy machine it may lose its lead, and scan when it leads again."""

    def __init__(self, program, db, **more):
        super().__init__(program, db, **more)
        make_jobs(db, 1200, lanes=["aged", "other"])
        self.used = 0
        assert program("init", db=db).code == 0

    def serve(self, text=None, url=None, leads=("aged", "other")):
        """A daemon that has finished its first pass: the next is due in an hour."""
        daemon = self.daemon(text or configuration(url or self.url), "--no-queue",
                             "--listen", "127.0.0.1:0")
        daemon.wait_log("http server started")
        self.led_by(daemon, leads)
        return daemon

    def led_by(self, daemon, watches=("aged", "other")):
        eventually(lambda: all(daemon.passes(watch) for watch in watches))

    def recover(self, n):
        """So many jobs that never were recovered before, half of each watch; their entries."""
        before = self.top()
        self.db.sql(STUCK, self.used + 1, self.used + n)
        self.used += n
        ran = self.program("scan", "--fix", config=configuration(self.db.url, stuck_after="60s"))
        assert ran.code == 0, ran.out + ran.err
        return self.ids(before)

    def top(self):
        return self.db.sql("SELECT coalesce(max(id), 0) FROM defib.ledger")[0][0]

    def end(self, id):
        """How an event's id names this entry."""
        (of,), = self.db.sql("SELECT left(value, 8) FROM defib.meta WHERE name = 'database'")
        return f"{id}@{of}"

    def ids(self, after):
        return [id for id, in self.db.sql("SELECT id FROM defib.ledger WHERE id > %s ORDER BY id",
                                          after)]


@pytest.fixture(scope="module")
def place(shared_server, tmp_path_factory):
    """One daemon for most tests."""
    db = PgDatabase(shared_server)
    own = Place(program.Program(tmp_path_factory.mktemp("events")), db)
    own.url_of_daemon = listening(own.serve())
    yield own
    assert own.daemons[0].stop() == 0
    own.close()
    db.drop()


@pytest.fixture
def listen(place):
    """listen(last=…, watch=…): streams that end with the test."""
    streams = []

    def more(url=None, **options):
        streams.append(Listener(url or place.url_of_daemon, **options))
        return streams[-1]
    yield more
    for stream in streams:
        stream.close()


def numbers(events):
    return [event.data["id"] for event in events]


def test_an_entry_is_said_as_the_command_says_it(place, listen):
    stream = listen().up()
    ids = place.recover(4)
    said = stream.ledger(len(ids))
    after = str(ids[0] - 1)
    printed = place.program("ledger", "--after", after, "--json", config=configuration(place.url))
    assert [event.data for event in said] == [json.loads(line) for line in
                                              printed.out.splitlines()]
    assert said[-1].id == f"main={place.end(ids[-1])}"


def test_nothing_is_lost_or_repeated_over_reconnects_amid_500_recoveries(place, listen):
    stream = listen().up()
    ids, seen = [], []

    def recover():
        for _ in range(10):
            ids.extend(place.recover(50))
    work = threading.Thread(target=recover)
    work.start()
    while len(seen) < 500:
        # Each client takes another number of entries, then disconnects in the middle.
        seen += numbers(stream.ledger(min(1 + len(seen) % 97, 500 - len(seen))))
        stream.close()
        stream = listen(last=stream.last)
    work.join()
    assert len(ids) == 500
    assert seen == ids


def test_filters_pass_what_they_name(place, listen):
    of_watch, of_event = listen(watch="other").up(), listen(event="REQUEUED").up()
    before = place.top()
    place.recover(20)
    wanted = place.db.sql("SELECT id, watch, event FROM defib.ledger WHERE id > %s ORDER BY id",
                          before)
    other = [id for id, watch, _ in wanted if watch == "other"]
    requeued = [id for id, _, event in wanted if event == "REQUEUED"]
    assert len(other) == len(requeued) == 10
    assert numbers(of_watch.ledger(10)) == other
    assert numbers(of_event.ledger(10)) == requeued
    # Resumed from before, with the filter.
    again = listen(last=f"main={place.end(before)}", watch="other")
    assert numbers(again.ledger(10)) == other


def test_a_parameter_resumes_where_no_header_can_be_set(place, listen):
    before = place.top()
    ids = place.recover(2)
    assert numbers(listen(last_event_id=f"main={before}").ledger(2)) == ids


def test_watches_are_told_at_first_and_when_they_change(place, listen):
    stream = listen(watch="aged")
    first = stream.next("watch")
    assert first.data["watch"] == "aged"
    assert place.program("pause", "aged", "--for", "1h", config=configuration(place.url)).code == 0
    assert stream.next("watch", paused=True).data["watch"] == "aged"
    assert place.program("resume", "aged", config=configuration(place.url)).code == 0
    assert stream.next("watch", paused=False)


@pytest.mark.parametrize("query, says", [
    ({"last": "main"}, "Last-Event-ID"),
    ({"last": "main=1,main=2"}, "Last-Event-ID"),
    ({"event": "REQUEUD"}, "REQUEUED"),
    ({"colour": "red"}, "colour"),
])
def test_what_makes_no_sense_is_refused(listen, query, says):
    with pytest.raises(Refused) as refused:
        listen(**query)
    assert refused.value.status == 400
    assert says in refused.value.problem["detail"]


def test_who_is_too_far_behind_is_told_what_he_misses(place, listen):
    before = place.top()
    place.db.sql("INSERT INTO defib.ledger (id, batch, watch, job, event, actor) "
                 "SELECT nextval('defib.ledger_id'), 'x', 'aged', i::text, 'HELD', 'test' "
                 "FROM generate_series(1, 10100) i")
    top = place.top()
    stream = listen(last=f"main={place.end(before)}")
    gap = stream.next("gap", database="main", after=before)
    assert gap.data["up_to"] == top - 10000
    got = numbers(stream.ledger(10000))
    assert got == list(range(top - 9999, top + 1))


def test_two_databases_have_one_id(place, listen, pg):
    second = Place(place.program, pg)
    daemon = place.serve(configuration(place.url, f"  - name: second\n    url: {pg.url}\n").replace(
        "  - name: other\n", "  - name: other\n    database: second\n").replace(
        "  - name: aged\n", "  - name: aged\n    database: main\n"), leads=["other"])
    url = listening(daemon)
    stream = listen(url)
    eventually(lambda: (stream.next("database"), stream.last.count("="))[1] == 2)
    first = stream.ledger(len(place.recover(2)))
    assert {event.data["database"] for event in first} == {"main"}
    assert sorted(stream.last.split(",")) == [f"main={place.end(numbers(first)[-1])}",
                                              f"second={second.end(0)}"]
    then = stream.ledger(len(second.recover(2)))
    assert {event.data["database"] for event in then} == {"second"}
    assert sorted(stream.last.split(",")) == [f"main={place.end(numbers(first)[-1])}",
                                              f"second={second.end(numbers(then)[-1])}"]
    daemon.stop()
    place.daemons.remove(daemon)
    second.close()


def test_tables_that_were_made_again_are_another_ledger(place, listen, pg):
    """Its ids begin again at 1, and are soon beyond the last one that the client saw."""
    own = Place(place.program, pg)
    url = listening(own.serve())
    stream = listen(url).up()
    seen = stream.ledger(len(own.recover(2)))[-1].id
    stream.close()
    pg.sql("DROP SCHEMA defib CASCADE")
    assert place.program("init", db=pg).code == 0
    own.recover(20)
    stream = listen(url, last=seen)
    gap = stream.next("gap", database="main")
    assert "made again" in gap.data["because"] and gap.data["up_to"] == own.top()
    assert own.recover(2) == numbers(stream.ledger(2))
    own.close()


def test_a_database_that_is_away_is_told_and_nothing_is_missed(place, listen, wire, pg):
    own = Place(place.program, pg, url=wire.url(pg))
    try:
        stream = listen(listening(own.serve())).up()
        wire.away()
        assert stream.next("database").data["state"] == "away"
        ids = own.recover(30)
        wire.back()
        assert stream.next("database").data["state"] == "back"
        assert numbers(stream.ledger(30)) == ids
    finally:
        own.close()


def test_another_daemon_goes_on_where_a_killed_one_ended(place, listen, pg):
    own = Place(place.program, pg)
    try:
        first, second = own.serve(), own.serve(leads=())
        stream = listen(listening(first)).up()
        ids = own.recover(40)
        seen = numbers(stream.ledger(13))
        first.kill()
        own.led_by(second)
        ids += own.recover(40)
        # What was under way to us when it was killed may still be read, or not.
        try:
            seen += [event.data["id"] for event in stream if event.name == "ledger"]
        except OSError:
            pass
        stream = listen(listening(second), last=stream.last)
        seen += numbers(stream.ledger(80 - len(seen)))
        assert seen == ids
    finally:
        own.close()


def test_a_viewer_sees_masks_and_needs_a_token(place, listen, tmp_path, pg):
    token = tmp_path / "token"
    token.write_text("v" * 40)
    token.chmod(0o600)
    own = Place(place.program, pg)
    text = configuration(pg.url) + \
        f"http:\n  tokens:\n    - {{name: vera, role: viewer, file: {token}}}\n"
    try:
        url = listening(own.serve(text))
        with pytest.raises(Refused) as refused:
            listen(url)
        assert refused.value.status == 401
        stream = listen(url, token="v" * 40).up()
        own.recover(2)
        said = json.dumps([event.data for event in stream.ledger(2)])
        assert "secret-owner" not in said and "****" in said
    finally:
        own.close()


def test_a_reload_ends_streams_and_a_token_that_it_takes_away_opens_none(place, tmp_path, pg):
    own = Place(place.program, pg)
    token = tmp_path / "token"
    token.write_text("a" * 40)
    token.chmod(0o600)
    text = configuration(pg.url) + \
        f"http:\n  tokens:\n    - {{name: anna, role: viewer, file: {token}}}\n"
    try:
        daemon = own.serve(text)
        stream = Listener(listening(daemon), token="a" * 40).up()
        token.write_text("b" * 40)
        daemon.signal(signal.SIGHUP)
        assert [event for event in stream if event.name == "ledger"] == []
        with pytest.raises(Refused) as refused:
            Listener(listening(daemon), token="a" * 40, last=stream.last)
        assert refused.value.status == 401
        ids = own.recover(2)
        again = Listener(listening(daemon), token="b" * 40, last=stream.last)
        assert numbers(again.ledger(2)) == ids
        again.close()
    finally:
        own.close()


def test_half_of_all_connections_stay_for_calls(place, listen, pg):
    own = Place(place.program, pg)
    try:
        url = listening(own.serve(configuration(pg.url) + "http: {max_connections: 6}\n"))
        for _ in range(3):
            listen(url).up()
        with pytest.raises(Refused) as refused:
            listen(url)
        assert refused.value.status == 503 and refused.value.headers["Retry-After"]
        assert "3 streams are open" in refused.value.problem["detail"]
        assert ask(url, request("/healthz")).status == 200
        act = request("/api/v1/watches/aged/pause", "POST", b'{"reason": "in time"}')
        assert ask(url, act).status == 200
    finally:
        own.close()


def test_a_stream_ends_with_the_daemon(place, pg):
    own = Place(place.program, pg)
    try:
        daemon = own.serve()
        stream = Listener(listening(daemon)).up()
        assert daemon.stop() == 0
        assert [event for event in stream if event.name == "ledger"] == []
    finally:
        own.close()
