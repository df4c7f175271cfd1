"""A TCP balancer that behaves like a Service: new connections go to one of the backends, existing ones stay."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

from tests.waiting import NET


class Balancer:
    """Runs in its own thread; backends are ports on loopback."""

    def __init__(self) -> None:
        self.backends: list[int] = []
        self.port = 0
        self._turn = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=NET)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        # A connection that was just accepted belongs to a task, which would leave it open if cancelled before its start.
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Like kube-proxy: if a listed backend does not listen, the client loses its connection.
        backends = list(self.backends)
        if not backends:
            writer.transport.abort()
            return
        port = backends[next(self._turn) % len(backends)]
        try:
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(_pump(reader, back_writer), _pump(back_reader, writer))
        finally:
            for end in (writer, back_writer):
                end.transport.abort()

    def start(self) -> None:
        self._thread.start()
        self.call(self._listen())

    def stop(self) -> None:
        self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


@contextlib.contextmanager
def balancer() -> Iterator[Balancer]:
    running = Balancer()
    running.start()
    try:
        yield running
    finally:
        running.stop()
