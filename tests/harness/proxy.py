# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy between workers and their server that injects faults.

Two tasks of one event loop in a thread forward each connection. Faults hit one
connection at random: cut (both ends get a reset), reply lost (the request
reaches the server, the reply does not come back), or a silence (nothing moves
for a while, as when packets vanish). close_for() affects all of them: nothing
moves either way until the time is over, and nothing is lost.
"""

import asyncio
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import threading

from harness.waiting import patience

CHUNK = 65536


class Link:
    def __init__(self, client, server):
        self.client, self.server = client, server
        self.lose_answer = False
        self.silence = 0.0

    def cut(self):
        for stream in (self.client, self.server):
            raw = stream.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                # Linger of zero: close() sends a reset.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.transport.abort()


class Proxy:
    """start(), stop(), close_for(); cut(), lose_answer(), be_silent(): False without connection."""

    def __init__(self, port, seed=0):
        self.target = port
        self.port = None
        self.links = []
        self.random = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._main, daemon=True)
        self.ready = threading.Event()
        self.closed_until = 0.0  # by the loop's clock

    def start(self):
        self.thread.start()
        assert self.ready.wait(patience()), "the proxy did not start"
        return self

    def _main(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._listen())
        self.ready.set()
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))

    async def _listen(self):
        listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]

    async def _carry(self, from_client, to_client):
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            to_client.transport.abort()
            return
        link = Link(to_client, to_server)
        self.links.append(link)
        try:
            await asyncio.wait([asyncio.ensure_future(self._pump(link, from_client, to_server)),
                                asyncio.ensure_future(self._pump(link, from_server, to_client))],
                               return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.links.remove(link)
            to_client.transport.abort()
            to_server.transport.abort()

    async def _pump(self, link, source, sink):
        try:
            while data := await source.read(CHUNK):
                if link.lose_answer and sink is link.client:
                    link.cut()
                    return
                if link.silence:
                    await asyncio.sleep(link.silence)
                    link.silence = 0.0
                while (left := self.closed_until - self.loop.time()) > 0:
                    await asyncio.sleep(left)
                sink.write(data)
                await sink.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass

    def _one(self, act):
        async def choose():
            if not self.links:
                return False
            act(self.random.choice(self.links))
            return True

        return asyncio.run_coroutine_threadsafe(choose(), self.loop).result(10)

    def cut(self):
        return self._one(Link.cut)

    def lose_answer(self):
        def act(link):
            link.lose_answer = True

        return self._one(act)

    def be_silent(self, seconds):
        def act(link):
            link.silence = seconds

        return self._one(act)

    def close_for(self, seconds):
        async def close():
            self.closed_until = self.loop.time() + seconds

        asyncio.run_coroutine_threadsafe(close(), self.loop).result(10)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(patience())


class Cable:
    """The workers' way to the server, in a process of its own: stopped, it carries nothing and
    breaks nothing, as when packets vanish."""

    def __init__(self, port):
        code = ("import sys; from harness import proxy; p = proxy.Proxy(int(sys.argv[1])).start(); "
                "print(p.port, flush=True); sys.stdin.read()")
        self.process = subprocess.Popen([sys.executable, "-c", code, str(port)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        cwd=pathlib.Path(__file__).parents[1])
        self.port = int(self.process.stdout.readline())

    def url(self, db):
        return f"postgres://postgres@127.0.0.1:{self.port}/{db.name}?sslmode=disable"

    def cut(self):
        self.process.send_signal(signal.SIGSTOP)

    def mend(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.process.kill()
        self.process.communicate()
