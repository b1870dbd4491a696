# SPDX-License-Identifier: Apache-2.0
"""Alerts from end to end: real daemons, real receivers that fail, hang and wait."""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket

import pytest

from harness import stuck_jobs
from harness.alerting import config, webhook
from harness.daemon import BEATING, Daemon, World, config as beating_config, make_jobs
from harness.databases import LiteDatabase
from harness.http_daemon import TOKENS, WebDaemon, token_env, token_section
from harness.program import ROOT, Program
from harness.receivers import Receiver
from harness.waiting import eventually

# Other rules would fire too: tests of one rule switch the others off.
RULES = ("stuck_warning", "stuck_critical", "stuck_doubled", "stuck_long", "connection_failures",
         "recovered_many", "recovered_fast", "detection_slow", "recovery_rate", "false_positives",
         "retries_exhausted", "brake_held", "scan_overdue", "database_away",
         "results_set_aside", "unstarted")


# Stuck jobs stay stuck: nothing is done about them.
REPORTED = {"remedies": "[{do: report}]"}


@pytest.fixture
def receiver():
    with contextlib.ExitStack() as stack:
        def one(*plan):
            made = Receiver(*plan)
            stack.callback(made.close)
            return made
        yield one


def only(name, **options):
    """The text of `rules:` with which only this rule is evaluated."""
    given = "".join(f", {k}: {v}" for k, v in options.items())
    return "".join(f"    - {{name: {rule}, enabled: false}}\n" for rule in RULES
                   if rule != name) + f"    - {{name: {name}{given}}}\n"


def table(db, name):
    return f"defib.{name}" if db.engine == "postgres" else f"defib_{name}"


def there(db):
    """Whether a daemon has made its tables."""
    return bool(db.sql("SELECT 1 FROM pg_tables WHERE tablename = 'delivery'"
                       if db.engine == "postgres" else
                       "SELECT 1 FROM sqlite_master WHERE name = 'defib_delivery'"))


def deliveries(db, **wanted):
    if not there(db):
        return []
    rows = db.sql(f"SELECT sink, id, tries, answer, ended FROM {table(db, 'delivery')} ORDER BY seq")
    found = [dict(zip(("sink", "id", "tries", "answer", "ended"), row)) for row in rows]
    return [one for one in found if all(one[k] == v for k, v in wanted.items())]


def state(db, rule, watch="jobs"):
    if not there(db):
        return None
    rows = db.sql(f"SELECT state FROM {table(db, 'alert')} WHERE rule = %s AND watch = %s",
                  rule, watch)
    return rows[0][0] if rows else None


@pytest.fixture
def daemon(defib):
    started = []

    def start(configuration, *options, **more):
        started.append(Daemon(defib, configuration, *options, **more))
        return started[-1]
    yield start
    for one in started:
        one.kill()


# ---- one alert, sent to sinks of every kind: a daemon and its receivers for several tests


class Scene:
    """12 jobs are stuck, found and recovered; every sink gets two messages."""

    def __init__(self, folder):
        self.db = LiteDatabase(folder / "test.db")
        self.program = Program(folder)
        self.receiver = Receiver()
        self.out = folder / "command.out"
        url = f"http://127.0.0.1:{self.receiver.port}"
        sinks = (webhook("hook", self.receiver, headers="{X-Token: t0ken-hidden}")
                 + f"  - {{name: text, type: webhook, url: \"{url}/text\", format: text}}\n"
                 f"  - {{name: spare, type: webhook, url: \"{url}/spare\"}}\n"
                 f"  - {{name: manager, type: alertmanager, url: \"{url}\"}}\n"
                 f"  - {{name: pager, type: pagerduty, url: \"{url}/pager\", key: k3y-hidden}}\n"
                 f"  - {{name: program, type: command, run: [/bin/sh, -c, 'cat >>{self.out}; "
                 f"echo \" $DEFIB_ALERT_RULE $DEFIB_ALERT_STATUS\" >>{self.out}']}}\n")
        stuck_jobs.make(self.db, 12)
        self.config = config(self.db, sinks, "hook, text, manager, pager, program, log",
                             only("stuck_warning")) + "http:\n" + token_section()
        self.daemon = WebDaemon(self.program, self.config, env=token_env())
        self.web = self.daemon.web(TOKENS["admin"])
        eventually(lambda: len(deliveries(self.db, ended="sent")) == 12)

    def at(self, path):
        return [got for got in self.receiver.taken() if got.path == path]

    def close(self):
        self.daemon.kill()
        self.receiver.close()
        self.db.drop()


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    own = Scene(tmp_path_factory.mktemp("alerts"))
    yield own
    own.close()


@pytest.mark.covers("A10")
def test_a_webhook_is_told_what_was_stuck_before_the_reset_and_that_it_is_over(scene):
    fired, over = [got.json for got in scene.at("/hook")]
    assert (fired["status"], over["status"]) == ("firing", "resolved")
    assert fired["value"] == 12 and fired["limit"] == 10
    assert fired["text"] == "WARNING jobs (main): 12 jobs are stuck (alert above 10)"
    assert (fired["rule"], fired["severity"]) == ("stuck_warning", "warning")
    assert (fired["database"], fired["watch"]) == ("main", "jobs")
    assert fired["topic"] == over["topic"] and fired["id"] != over["id"]
    assert fired["fired_at"] == over["fired_at"] and over["at"] > fired["at"]
    shown, = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "alerts.md").read_text(), re.S)
    assert json.loads(shown).keys() == fired.keys()


def test_a_receiver_gets_its_headers_and_an_id_by_which_to_tell_repetitions(scene):
    got = scene.at("/hook")[0]
    assert got.headers["X-Token"] == "t0ken-hidden"
    assert got.headers["Idempotency-Key"] == got.json["id"]
    assert got.headers["Content-Type"] == "application/json"


def test_the_text_form_is_the_sentence_alone(scene):
    fired, over = scene.at("/text")
    assert fired.text == "WARNING jobs (main): 12 jobs are stuck (alert above 10)"
    assert over.text.startswith("RESOLVED jobs (main): stuck_warning ended after ")
    assert fired.headers["Content-Type"].startswith("text/plain")


def test_alertmanager_gets_labels_annotations_start_and_end(scene):
    fired, over = [got.json[0] for got in scene.at("/api/v2/alerts")]
    assert fired["labels"] == {"alertname": "defib_stuck_warning", "severity": "warning",
                               "source": "defib", "database": "main", "watch": "jobs"}
    assert over["labels"] == fired["labels"]
    assert fired["annotations"]["summary"].startswith("WARNING jobs (main): 12 jobs")
    assert fired["startsAt"] == over["startsAt"]
    assert fired["endsAt"] > over["endsAt"] > fired["startsAt"]


def test_pagerduty_gets_trigger_then_resolve_with_the_same_dedup_key(scene):
    trigger, resolve = [got.json for got in scene.at("/pager")]
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"] == "defib/main/jobs/stuck_warning"
    assert trigger["routing_key"] == "k3y-hidden"
    payload = trigger["payload"]
    assert payload["summary"].startswith("WARNING jobs (main): 12 jobs")
    assert (payload["source"], payload["severity"]) == ("defib", "warning")
    assert payload["custom_details"]["value"] == 12 and payload["timestamp"]


def test_a_command_gets_the_message_on_stdin_and_in_its_environment(scene):
    lines = scene.out.read_text().splitlines()
    told = [(json.loads(line[:line.rindex("}") + 1]), line.split()[-2:]) for line in lines]
    assert [words for _, words in told] == [["stuck_warning", "firing"],
                                            ["stuck_warning", "resolved"]]
    assert told[0][0]["value"] == 12


def test_the_log_has_a_line_for_each(scene):
    fired, over = scene.daemon.lines("alert")
    assert (fired["status"], over["status"]) == ("firing", "resolved")
    assert fired["level"] == "warn" and fired["rule"] == "stuck_warning"


def test_secrets_are_in_no_log_and_no_table(scene):
    ran = scene.program("alert", "list", "--all", "--json", config=scene.config)
    dump = "\n".join(scene.db.connect().iterdump())
    for secret in ("t0ken-hidden", "k3y-hidden"):
        assert secret not in scene.daemon.log + ran.out + ran.err + dump


def test_list_says_how_rules_stand_and_what_became_of_messages(scene):
    ran = scene.program("alert", "list", "--all", "--json", config=scene.config)
    assert ran.code == 0, ran.err
    told = {(one["watch"], one["rule"]): one for one in ran.json["alerts"]}
    assert len(told) == len(RULES)
    one = told["jobs", "stuck_warning"]
    assert (one["state"], one["enabled"], one["limit"]) == ("resolved", True, 10)
    assert one["fired_at"] and one["sinks"][0] == "hook"
    assert told["*", "database_away"]["enabled"] is False
    assert {d["state"] for d in ran.json["deliveries"]} == {"sent"}
    text = scene.program("alert", "list", config=scene.config)
    assert text.code == 0 and text.out.startswith("no alert is firing")


def test_every_rule_is_documented_with_its_severity(scene):
    said = (ROOT / "docs" / "alerts.md").read_text()
    for one in scene.program("alert", "list", "--json", config=scene.config).json["alerts"]:
        assert f"| `{one['rule']}` | {one['severity']} |" in said


def test_limits_are_told_in_words_and_sinks_by_their_names(scene):
    got = scene.web.by("viewer").get("/api/v1/alerts").json
    limits = {one["rule"]: one["threshold"] for one in got["alerts"]}
    assert limits["stuck_warning"] == "above 10" and limits["recovery_rate"] == "below 90 %"
    assert limits["stuck_long"] == "above 1h" and limits["brake_held"] is None
    assert {"sink": "hook", "type": "webhook"} in got["sinks"]


def test_the_same_is_answered_over_http(scene):
    ran = scene.program("alert", "list", "--json", config=scene.config).json
    assert scene.web.by("viewer").get("/api/v1/alerts").json["alerts"] == ran["alerts"]
    got = scene.web.by("viewer").get("/api/v1/deliveries?database=main&limit=20").json
    assert got == {"deliveries": ran["deliveries"]}


def test_a_test_message_over_http_is_the_admins_to_send(scene):
    path = "/api/v1/alerts/test"
    assert scene.web.by("operator").post(path, {"sink": "spare"}).status == 403
    assert scene.web.post(path, {"sink": "spar"}).status == 404
    got = scene.web.post(path, {"sink": "spare"})
    assert got.status == 200, got.text
    assert got.json == {"sinks": [{"sink": "spare", "type": "webhook", "sent": True,
                                   "answer": "HTTP 200"}]}
    assert [one.json["kind"] for one in scene.at("/spare")] == ["test"]


# ---- receivers that fail


def test_what_fails_is_tried_again_and_taken_once(lite, daemon, receiver):
    hook = receiver(500, "drop")
    stuck_jobs.make(lite, 12)
    daemon(config(lite, webhook("hook", hook), "hook", only("stuck_warning")))
    eventually(lambda: len(hook.taken()) == 2)
    fired = [got.json["id"] for got in hook.got[:3]]
    assert len(set(fired)) == 1
    assert [one["status"] for one in hook.documents()] == ["firing", "resolved"]
    eventually(lambda: deliveries(lite, ended="sent", tries=3))


def test_retry_after_is_waited_for(lite, daemon, receiver):
    hook = receiver((429, {"Retry-After": "3"}))
    stuck_jobs.make(lite, 12)
    daemon(config(lite, webhook("hook", hook), "hook", only("stuck_warning")))
    eventually(lambda: len(hook.taken()) == 2)
    assert hook.got[1].at - hook.got[0].at >= 2.9


@pytest.mark.parametrize("status,says", [(400, "HTTP 400: no, thank you"),
                                         (302, "HTTP 302, redirects are not followed")])
def test_what_is_refused_is_noted_and_not_tried_again(lite, daemon, receiver, status, says):
    hook = receiver((status, {"Location": "http://127.0.0.1:1/"}))
    stuck_jobs.make(lite, 12)
    one = daemon(config(lite, webhook("hook", hook), "hook", only("stuck_warning")))
    refused = eventually(lambda: deliveries(lite, ended="refused"))
    assert refused[0]["answer"].startswith(says) and refused[0]["tries"] == 1
    eventually(lambda: hook.documents(status="resolved"))
    assert len(hook.got) == 2
    assert one.lines("a sink refused a message")


def test_a_sink_that_hangs_delays_neither_scans_nor_others(lite, daemon, receiver):
    deaf, well = receiver(), receiver()
    deaf.always = "hang"
    stuck_jobs.make(lite, 12)
    one = daemon(config(lite, webhook("deaf", deaf, timeout="2m") + webhook("well", well),
                        "deaf, well", only("stuck_warning")))
    eventually(lambda: len(well.taken()) == 2)
    assert len(deaf.got) == 1 and not deaf.taken()
    one.wait_passes("jobs", 2)
    assert one.stop() == 0  # and it keeps nobody from stopping


# ---- nothing lost, nothing twice


def firing(db):
    return state(db, "stuck_warning") == "firing"


def test_a_daemon_that_is_killed_before_it_could_send_loses_nothing(db, daemon, receiver):
    hook = receiver()
    hook.always = 500
    stuck_jobs.make(db, 12)
    text = config(db, webhook("hook", hook, timeout="1s"), "hook", only("stuck_warning"),
                  **REPORTED)
    one = daemon(text)
    eventually(lambda: firing(db) if hook.got else False)
    one.signal(signal.SIGKILL)
    one.wait()
    hook.always = None
    daemon(text)
    eventually(lambda: hook.documents(status="firing"))
    ids = [got.json["id"] for got in hook.taken()]
    assert len(ids) == len(set(ids))
    assert {got.json["id"] for got in hook.got if got.json["status"] == "firing"} == {ids[0]}


def test_who_comes_next_neither_fires_again_nor_forgets(lite, daemon, receiver):
    hook = receiver()
    stuck_jobs.make(lite, 12)
    text = config(lite, webhook("hook", hook), "hook", only("stuck_warning"), **REPORTED)
    one = daemon(text)
    # Between the sending and its record it would, correctly, be sent again with the same id.
    eventually(lambda: deliveries(lite, ended="sent"))
    one.signal(signal.SIGKILL)
    one.wait()
    two = daemon(text)
    two.wait_passes("jobs", 3)
    assert firing(lite)
    lite.sql("UPDATE jobs SET status = 'queued'")
    eventually(lambda: hook.documents(status="resolved"))
    assert [one["status"] for one in hook.documents()] == ["firing", "resolved"]


def test_a_watch_that_a_reload_takes_away_leaves_nothing_firing(lite, daemon, receiver):
    hook = receiver()
    stuck_jobs.make(lite, 12)
    text = config(lite, webhook("hook", hook), "hook", only("stuck_warning"), **REPORTED)
    one = daemon(text)
    eventually(lambda: hook.documents(status="firing"))
    (one.log_path.parent / one.log_path.name.replace(".log", ".yaml")).write_text(
        text.replace("  - name: jobs\n", "  - name: others\n"))
    one.signal(signal.SIGHUP)
    over = eventually(lambda: hook.documents(status="resolved", watch="jobs"))
    assert over[0]["rule"] == "stuck_warning"
    eventually(lambda: hook.documents(status="firing", watch="others"))


def test_of_two_daemons_one_tells(pg, daemon, receiver):
    hook = receiver()
    stuck_jobs.make(pg, 12)
    text = config(pg, webhook("hook", hook), "hook", only("stuck_warning"), **REPORTED)
    both = [daemon(text), daemon(text)]
    eventually(lambda: hook.documents(status="firing"))
    leader = next(one for one in both if one.lines("leads the watch"))
    leader.stop()
    other = next(one for one in both if one is not leader)
    other.wait_passes("jobs", 2)
    pg.sql("UPDATE jobs SET status = 'queued'")
    eventually(lambda: hook.documents(status="resolved"))
    assert [one["status"] for one in hook.documents()] == ["firing", "resolved"]


# ---- most workers silent at once


@pytest.mark.covers("F6")
def test_a_brake_that_holds_is_told_and_so_is_its_end(pg, defib, receiver):
    hook = receiver()
    world = World(defib, pg)
    try:
        make_jobs(pg, 60, lanes=["beating"])
        crew = world.work(count=6, rows=10)
        text = beating_config(pg.url, BEATING, beat=1, stuck=8,
                              guard="{brake_ceiling: 30m, pace: 0}")
        daemon = world.daemon(text + f"sinks:\n{webhook('hook', hook)}alerts:\n  every: 300ms\n"
                              f"  sinks: [hook]\n  rules:\n{only('brake_held')}", "--no-queue")
        daemon.wait_passes("beating", 3)
        crew.signal(signal.SIGSTOP)
        fired = eventually(lambda: hook.documents(status="firing"))[0]
        assert (fired["rule"], fired["severity"], fired["watch"]) == (
            "brake_held", "critical", "beating")
        crew.signal(signal.SIGCONT)
        over = eventually(lambda: hook.documents(status="resolved"))[0]
        assert over["topic"] == fired["topic"]
    finally:
        world.close()


# ---- the watcher itself


def test_scans_that_do_not_finish_are_told_of(pg, daemon, receiver):
    hook = receiver()
    stuck_jobs.make(pg, 0)
    daemon(config(pg, webhook("hook", hook), "hook", only("scan_overdue", above="0s"),
                  every="300ms", statement_timeout="200ms"))
    eventually(lambda: there(pg))
    holder = pg.connect()
    holder.autocommit = False
    holder.cursor().execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
    fired = eventually(lambda: hook.documents(status="firing"))[0]
    assert fired["rule"] == "scan_overdue" and "no scan has finished" in fired["text"]
    holder.rollback()
    eventually(lambda: hook.documents(status="resolved"))
    holder.close()


def test_a_database_that_is_away_is_told_of_from_memory_and_written_down_later(
        pg, wire, daemon, receiver):
    hook = receiver()
    stuck_jobs.make(pg, 0)
    text = config(pg, webhook("hook", hook), "hook", only("database_away", above="1s"))
    one = daemon(text.replace(pg.url, wire.url(pg)))
    eventually(lambda: there(pg))
    one.wait_passes("jobs")
    wire.away()
    fired = eventually(lambda: hook.documents(status="firing"))[0]
    assert fired["text"].startswith("CRITICAL main: the database has not answered for ")
    wire.back()
    over = eventually(lambda: hook.documents(status="resolved"))[0]
    assert over["topic"] == fired["topic"] == "defib/main/*/database_away"
    assert over["fired_at"] == fired["fired_at"]
    eventually(lambda: len(deliveries(pg, ended="sent")) == 2)
    assert state(pg, "database_away", "*") == "resolved"
    assert len(hook.taken()) == 2


# ---- the command, and the configuration


def test_a_test_message_is_sent_now_and_the_answers_are_told(defib, lite, receiver):
    hook, pager = receiver(), receiver()
    sinks = (webhook("hook", hook)
             + f"  - {{name: pager, type: pagerduty, url: \"{pager.url}\", key: k}}\n")
    ran = defib("alert", "test", config=config(lite, sinks, "hook"))
    assert ran.code == 0, ran.out + ran.err
    assert ran.out == ("hook (webhook): sent, HTTP 200\npager (pagerduty): sent, HTTP 200\n"
                       "log (log): sent, logged\n")
    assert hook.documents()[0]["kind"] == "test"
    assert [got.json["event_action"] for got in pager.taken()] == ["trigger", "resolve"]


def test_a_sink_that_does_not_take_it_is_told_and_is_the_exit_code(defib, lite, receiver):
    hook = receiver(401)
    text = config(lite, webhook("hook", hook), "hook")
    ran = defib("alert", "test", "--sink", "hook", config=text)
    assert (ran.code, ran.out) == (4, "hook (webhook): refused, HTTP 401: no, thank you\n")
    ran = defib("alert", "test", "--sink", "hok", config=text)
    assert ran.code == 2 and 'did you mean "hook"?' in ran.err


def test_a_command_gets_no_descriptor_besides_its_own_three(defib, lite):
    """Of a client, a database, or whoever started defib: it could read and write them."""
    sinks = "  - {name: lists, type: command, run: [/bin/sh, -c, 'echo /proc/self/fd/*; exit 1']}\n"
    with socket.socketpair()[0] as open_one:
        os.set_inheritable(open_one.fileno(), True)
        number = fcntl.fcntl(open_one, fcntl.F_DUPFD, 40)
        try:
            ran = defib("alert", "test", "--sink", "lists", config=config(lite, sinks, "lists"),
                        close_fds=False)
        finally:
            os.close(number)
    assert "/proc/self/fd/2" in ran.out and f"/proc/self/fd/{number}" not in ran.out, ran.out


def test_a_command_that_hangs_is_ended_with_all_it_started(defib, lite):
    sinks = "  - {name: slow, type: command, timeout: 300ms, run: [/bin/sh, -c, 'sleep 86400 & wait']}\n"
    ran = defib("alert", "test", "--sink", "slow", config=config(lite, sinks, "slow"))
    assert (ran.code, ran.out) == (4, "slow (command): try again, ended by its time limit\n")


MISTAKES = [
    ("type: webhook", "type: webhok", "expects one of log, command, webhook"),
    ("sinks: [hook]", "sinks: [hok]", 'there is no sink "hok"; did you mean "hook"?'),
    ("name: stuck_warning", "name: stuck_warnin", 'there is no rule "stuck_warnin"; did you mean '
     '"stuck_warning"?'),
    ("above: 20", "below: 20", '"below" has no meaning for this rule; its limit is "above"'),
    ("above: 20", "above: many", "expects a number such as 10 or 0.1"),
    ("above: 20", "above: 20, watch: job", 'there is no watch "job"; did you mean "jobs"?'),
    ("above: 20", "window: 1h", "looks at the current state and has no window"),
    ('url: "http', 'url: "ftp', "expects a URL that begins with http:// or https://"),
]


@pytest.mark.parametrize("right,wrong,says", MISTAKES, ids=[m[1] for m in MISTAKES])
def test_a_mistake_in_sinks_or_rules_is_told(defib, lite, right, wrong, says):
    text = config(lite, '  - {name: hook, type: webhook, url: "http://h/"}\n', "hook",
                  "    - {name: stuck_warning, above: 20}\n")
    assert defib("config", "check", config=text).code == 0
    assert right in text
    ran = defib("config", "check", config=text.replace(right, wrong, 1))
    assert ran.code == 3 and says in ran.err


def test_a_watch_has_its_own_limit_and_the_rest_of_the_rule_of_all(defib, lite, receiver):
    text = config(lite, webhook("hook", receiver()), "hook",
                  "    - {name: stuck_warning, above: 3, watch: jobs}\n"
                  "    - {name: stuck_warning, severity: page}\n")
    stuck_jobs.make(lite, 0)
    ran = defib("alert", "list", "--json", config=text)
    one = next(a for a in ran.json["alerts"] if a["rule"] == "stuck_warning")
    assert (one["limit"], one["severity"]) == (3, "page")
