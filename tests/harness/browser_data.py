# SPDX-License-Identifier: Apache-2.0
"""The data of the browser tests: databases in which jobs were really lost.

It has a week of history (a server whose clock is advanced while scans run), then workers are
killed, frozen and poisoned, and one crew falls silent as a whole. `Wreckage` leaves a daemon that
serves all of it, and takes commands of the browser's tests over HTTP (`Orders`): stop the server,
start it, let another worker die, work off what waits, kill the daemon and start another.
"""

import datetime
import http.server
import json
import os
import shutil
import signal
import threading

from harness import stuck_jobs
from harness.daemon import Beaters, make_jobs
from harness.databases import LiteDatabase, PgDatabase
from harness.http_daemon import TOKENS, WebDaemon, token_env, token_section
from harness.pgserver import PgServer
from harness.program import ROOT, Program
from harness.queue_workers import Queue, Worker
from harness.waiting import eventually

CRAWL, RENDER = 48, 12  # rows that the crews take; see _crash()
WEEK = 24  # scans of the past week
HOSTILE = {
    "html": "<img src=x onerror=\"window.hacked=1\"><b>bold</b>",
    "script": "</script><script>window.hacked=1;alert(1)</script>",
    "link": "javascript:window.hacked=1",
    "control": "\x1b[31mred\x1b[0m\x1b]0;title\x07 \x01\x02 \r\n tab\t",
    "direction": "\u202egpj.exe\u202c \u2066isolated\u2069 شركة",
    "template": "{{7*7}} ${7*7} <%= 7 %>",
}

CONFIG = """
environment: {{name: staging, color: "#b35900"}}
databases:
  - name: main
    url: {main}
  - name: archive
    url: {archive}
watches:
  - name: crawl
    database: main
    table: jobs
    key: id
    running: status = 'running' AND lane = 'crawl'
    state: status
    owner: owner
    alive_at: beat_at
    beat: 2s
    stuck_after: 5s
    show: [lane]
    requeue: status = 'queued', owner = NULL
    fail: status = 'failed', owner = NULL
    remedies: [{{do: report}}]
    every: 500ms
  - name: render
    database: main
    table: jobs
    key: id
    running: status = 'running' AND lane = 'render'
    state: status
    owner: owner
    alive_at: beat_at
    beat: 2s
    stuck_after: 5s
    requeue: status = 'queued', owner = NULL
    every: 500ms
  - name: imports
    database: main
    table: imports
    key: id
    running: status = 'running'
    state: status
    owner: owner
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued', error = :reason, updated_at = :now
    fail: status = 'failed', error = :reason
    reason: "freed: {{verdict}}"
    every: 5s
    stats: {{ready: status = 'queued', failed: status = 'failed'}}
  - name: tickets
    database: main
    table: tickets
    key: name
    running: status = 'running'
    state: status
    owner: owner
    alive_at: beat_at
    stuck_after: 1h
    text: body
    requeue: status = 'queued', owner = NULL
    remedies: [{{do: report}}]
    every: 2s
  - name: labs
    database: main
    table: labs
    key: name
    running: status = 'ending'
    state: status
    alive_at: updated_at
    stuck_after: 1h
    end_when: status = 'up'
    end: status = 'ending', updated_at = :now
    every: 2s
  - name: mails
    database: archive
    table: jobs
    key: id
    running: status = 'running'
    state: status
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued'
    every: 2s
workflows:
  - name: order
    saga: true
    steps:
      - {{name: reserve, run: [./reserve.sh], undo: [./unreserve.sh], timeout: 60s}}
      - {{name: charge, run: [./charge.sh], undo: [./refund.sh]}}
      - {{name: ship, run: [./ship.sh]}}
sinks:
  - {{name: chat, type: webhook, url: "http://127.0.0.1:9/nobody-listens"}}
alerts:
  every: 1s
  sinks: [log]
  rules:
    - {{name: brake_held, sinks: [log, chat]}}
http:
"""

TICKETS = ("CREATE TABLE tickets (name text PRIMARY KEY, status text NOT NULL, owner text, "
           "beat_at timestamptz, body text)")
LABS = "CREATE TABLE labs (name text PRIMARY KEY, status text NOT NULL, updated_at timestamptz)"


class Wreckage:
    def __init__(self, folder):
        self.program = Program(folder)
        self.server = PgServer(clocked=True)
        self.server.clock.now = datetime.datetime.utcnow() - datetime.timedelta(days=7)
        self.server.clock.forward(0)
        self.crews = []
        self.queue = self.daemon = None
        self.orders = Orders(self)

    def make(self):
        self.server.start()
        self.db = PgDatabase(self.server)
        self.archive = LiteDatabase(self.program.dir / "archive.db")
        for script in (ROOT / "examples" / "workflow").glob("*.sh"):
            shutil.copy(script, self.program.dir)
        self.config = CONFIG.format(main=self.db.url, archive=self.archive.url) + token_section()
        self.file = self.program.dir / "wreckage.yaml"
        self.file.write_text(self.config)
        for database in (self.db, self.archive):
            ran = self.program("init", db=database)
            assert ran.code == 0, ran.err
        self._fill()
        self._past()
        self._crash()

    def _fill(self):
        make_jobs(self.db, 0)
        self.db.sql("INSERT INTO jobs (id, lane) SELECT i, CASE WHEN i <= %s THEN 'crawl' ELSE "
                    "'render' END FROM generate_series(1, %s) i", CRAWL, CRAWL + RENDER)
        self.db.sql(stuck_jobs.CREATE["postgres"].replace("TABLE jobs", "TABLE imports"))
        self.db.sql(TICKETS)
        self.db.sql(LABS)
        self.db.sql("INSERT INTO labs VALUES ('demo', 'up', now())")
        stuck_jobs.make(self.archive, 3)

    def _past(self):
        """Seven days of scans that each found something; the server's clock says when."""
        for i in range(WEEK):
            n = 15 + (i * 37) % 160
            self.db.sql(stuck_jobs.FILL["postgres"].replace("INTO jobs", "INTO imports"),
                        i * 1000 + 1, i * 1000 + n)
            ran = self.program("scan", "imports", "--fix", config=self.file, env=token_env())
            assert ran.code in (0, 6), ran.err
            self.server.clock.forward(7 * 86400 // WEEK)
        self.db.hang_up()
        self.server.stop()
        self.server.clock = None  # from here on it is today
        self.server.start()

    # ---- today ----

    def _crash(self):
        self._hostile()
        self.queue = Queue(self.program, self.db)
        self._flows()
        self.daemon = WebDaemon(self.program, self.config, env=token_env())
        self.crews.append(self._crew("crawler", 2, 20))
        self.crews.append(self._crew("spare", 4, 2))
        self.crews.append(self._crew("painter", 4, 3))
        self.db.sql("INSERT INTO jobs (id, lane) "
                    "SELECT i, 'crawl' FROM generate_series(101, 400) i")
        self._lost()
        self._poison()
        late = self._quiet()
        # Two of six fall silent, which is theirs; four of four are a mass death.
        self.crews[0].signal(signal.SIGKILL)
        self.crews[2].signal(signal.SIGSTOP)
        self._seen()
        self._late(*late)

    def _crew(self, name, count, rows):
        had = self.running()
        crew = Beaters(self.db.url, self.program.dir / name, name=f"{name}-", count=count,
                       rows=rows)
        eventually(lambda: self.running() == had + count * rows)
        return crew

    def running(self):
        return self.db.sql("SELECT count(*) FROM jobs WHERE status = 'running'")[0][0]

    def _hostile(self):
        for name, text in HOSTILE.items():
            # No address may hold control characters: such a key is refused by the server.
            key = name if name == "control" else text
            self.db.sql("INSERT INTO tickets VALUES (%s, 'running', %s, "
                        "now() - interval '2 hours', %s)", key, text, text)
        self.db.sql("INSERT INTO tickets VALUES ('plain/with?odd#signs&more', 'running', 'w', "
                    "now() - interval '3 hours', 'x')")

    def enqueue(self, queue, kind, payload, *more):
        path = self.program.dir / "payload.json"
        path.write_text(json.dumps(payload))
        ran = self.program("enqueue", queue, kind, f"@{path}", *more, db=self.db)
        assert ran.code == 0, ran.err

    def _flows(self):
        """Orders that are shipped, one that is rolled back, and some that no worker takes."""
        for address in ("home", "home", "nowhere"):
            self.queue.enqueue(json.dumps({"item": "lamp", "address": address}), kind="order")
        self.work_off()
        for name, text in HOSTILE.items():
            self.enqueue("hostile", name, {"text": text, text: [text]})
        self.enqueue("hostile", "large", {"blob": "<b>x</b>" * 131072})

    def work_off(self):
        ran = self.program("work", "--drain", db="main", config=self.file, env=token_env())
        assert ran.code == 0, ran.err

    def _work(self, name, run, *options):
        log = self.program.dir / f"{name}.log"
        with open(log, "wb") as out:
            process = self.program.start("work", "--verbose", "--name", name, "--db", self.db.url,
                                         *options, "--", "/bin/sh", "-c", run, stdout=out,
                                         stderr=out)
        worker = Worker(process, log)
        self.queue.workers.append(worker)
        worker.wait_log("worker started")
        return worker

    def _lost(self):
        """Living workers, one killed with jobs in hand, and one frozen."""
        self.queue.bulk(40, queue="mail", kind="send")
        self._work("mailer-1", "true", "--queue", "mail", "--concurrency", "2")
        self.queue.bulk(6, queue="video", kind="encode")
        killed = self._work("encoder-1", "sleep 600", "--queue", "video", "--concurrency", "4")
        frozen = self._work("encoder-2", "sleep 600", "--queue", "video", "--concurrency", "2",
                            "--lease", "3s")
        eventually(lambda: self.queue.all("id", "queue = 'video' AND state = 'running'")[5:])
        killed.kill()
        self.db.freeze(frozen)
        self._work("encoder-3", "sleep 600", "--queue", "video", "--concurrency", "3")

    def _poison(self):
        """A job that kills every worker that takes it, until it is held."""
        job = self.queue.enqueue('{"file": "bomb.png"}', queue="poison", kind="resize")
        for i in range(3):
            worker = self._work(f"resizer-{i + 1}", "kill -9 $PPID", "--queue", "poison")
            worker.wait()
            self.queue.wait_state(job, "queued", "held")
        self.queue.wait_state(job, "held")

    def _quiet(self):
        """A worker in another language takes a job and lets its lease expire."""
        job = self.queue.enqueue('{"page": 7}', queue="late", kind="fetch")
        worker, = self.db.sql("SELECT defib.register('reader-1', 'test/reader-1', 3000)")[0]
        (taken, epoch), = self.db.sql("SELECT id, epoch FROM defib.claim(%s, 'late', 1)", worker)
        assert taken == job
        return job, worker, epoch

    def _late(self, job, worker, epoch):
        """It comes back with its result after the job was recovered."""
        self.queue.wait_state(job, "queued")
        (accepted,), = self.db.sql("SELECT accepted FROM defib.settle(%s, ARRAY[%s]::bigint[], "
                                   "ARRAY[%s]::bigint[], ARRAY['done'])", worker, job, epoch)
        assert not accepted

    def _seen(self):
        """Until the daemon has seen everything, and reported it."""
        web = self.web = self.daemon.web(TOKENS["admin"])
        eventually(web.ready)
        eventually(lambda: len(web.get("/api/v1/watches/crawl/jobs?where=stuck&limit=100")
                               .json["jobs"]) == 40)
        eventually(lambda: [a for a in web.get("/api/v1/alerts").json["alerts"]
                            if a["state"] == "firing" and a["rule"] == "brake_held"])

    def url(self):
        return f"http://{self.daemon.address}"

    def close(self):
        self.orders.close()
        for crew in self.crews:
            crew.close()
        if self.queue:
            self.queue.close()
        if self.daemon:
            self.daemon.kill()
        self.server.remove()


class Orders:
    """POST /NAME does what is named, and answers when it is done."""

    def __init__(self, wreckage):
        def stop():
            wreckage.db.hang_up()
            wreckage.server.stop()

        def another_dies():
            os.kill(wreckage.crews[1].pids.pop(), signal.SIGKILL)

        def restart_daemon():
            address = wreckage.daemon.address
            wreckage.daemon.kill()
            wreckage.daemon = WebDaemon(wreckage.program, wreckage.config, listen=address,
                                        env=token_env())
            eventually(wreckage.daemon.web(TOKENS["admin"]).ready)

        known = {"/restart-daemon": restart_daemon, "/stop-server": stop, "/start-server": wreckage.server.start,
                 "/another-dies": another_dies, "/work-off": wreckage.work_off}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                known[self.path]()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        # One thread that stays: a server that is started ends with the thread that started it.
        self.http = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


MADE = "lib/tables.js"  # the daemon makes it, from the tables of events, acts and verdicts
