"""A TCP proxy in front of the apiserver whose connections a test can cut, stall, delay or refuse."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator


class Proxy:
    """Forwards bytes both ways; TLS passes through unseen.

    Attributes:
        port: The port that it listens on.
        accepted: Number of accepted connections.
        delay: Seconds by which bytes from the apiserver arrive later. The rate at which they arrive does not change.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0
        self.accepted = 0
        self.delay = 0.0

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Stop accepting connections, and cut the open ones."""
        if self._server:
            self._server.close()
        # A connection that was just accepted is not known yet.
        await asyncio.sleep(0)
        self.cut()

    async def end(self) -> None:
        """Refuse, and leave nothing open."""
        await self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A closed transport releases its socket in the next turn of the loop.
        await asyncio.sleep(0)

    def cut(self) -> None:
        """End every connection as a pulled cable does, with a reset."""
        for writer in list(self._open):
            writer.transport.abort()
        self._open.clear()

    def stall(self) -> None:
        """Stop forwarding, without closing a connection."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._open.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # The loop reports a cancelled callback of its own as an error; there is none.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(upstream_writer)
            try:
                await asyncio.gather(self._pump(reader, upstream_writer), self._late(upstream_reader, writer))
            finally:
                upstream_writer.close()
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        self._open.discard(writer)
        writer.close()

    async def _late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pump with a delay. It reads chunks on arrival, so that the delay of one does not add to that of the next."""
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        taking = asyncio.create_task(self._take(reader, chunks))
        with contextlib.suppress(OSError):
            while (chunk := await chunks.get())[1]:
                # Bytes keep their order when the delay gets shorter.
                await asyncio.sleep(chunk[0] - asyncio.get_running_loop().time())
                await self._flowing.wait()
                writer.write(chunk[1])
                await writer.drain()
        taking.cancel()
        self._open.discard(writer)
        writer.close()

    async def _take(self, reader: asyncio.StreamReader, chunks: "asyncio.Queue[tuple[float, bytes]]") -> None:
        data = b" "
        while data:
            data = b""
            with contextlib.suppress(OSError):
                data = await reader.read(65536)
            await chunks.put((asyncio.get_running_loop().time() + self.delay, data))


@contextlib.contextmanager
def run_proxy_in_thread(target: int) -> Iterator[Proxy]:
    """Run a proxy on its own thread, for blocking tests."""
    proxy, loop = Proxy(target), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(proxy.listen(), loop).result(10)
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy.end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextlib.asynccontextmanager
async def run_proxy(target: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.end()
