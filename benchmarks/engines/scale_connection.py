"""A connection to the program that replaces an apiserver with a fleet of any size."""

import asyncio
import contextlib
import itertools
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from benchmarks.engines.scale_objects import Size
from benchmarks.engines.scale_origin import frame, read_frame
from fleethook.cluster.api_errors import APIError


class OriginConnection:
    """Replaces `fleethook.cluster.apiserver_connection.Connection` by a connection to `scale_origin` over a socket."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        review: Callable[[str, bytes], Awaitable[bytes]],
    ):
        self.host = "benchmark"
        self._reader, self._writer, self._review = reader, writer, review
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._watchers: list[tuple[str, asyncio.Queue[bytes]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        while True:
            number, kind, *rest = await read_frame(self._reader)
            if kind == "done" and rest[0] < 400:
                self._waiting.pop(number).set_result(rest[1])
            elif kind == "done":
                self._waiting.pop(number).set_exception(APIError(rest[0], "NotFound", "not served"))
            elif kind == "event":
                for plural, queue in self._watchers:
                    if plural == rest[0]:
                        queue.put_nowait(rest[1])
            else:
                task = asyncio.create_task(self._admit(number, *rest))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _admit(self, number: int, path: str, body: bytes) -> None:
        self._writer.write(frame([number, "answer", await self._review(path, body)]))

    async def request(self, method, path, *, query=None, body=None, content_type="", timeout=30) -> bytes:  # noqa: ARG002, ASYNC109
        number = next(self._numbers)
        self._waiting[number] = future = asyncio.get_running_loop().create_future()
        self._writer.write(frame([number, method, path, query, body]))
        return await future

    async def json(self, method: str, path: str, **rest: Any) -> Any:
        return msgspec.json.decode(await self.request(method, path, **rest))

    @contextlib.asynccontextmanager
    async def lines(self, path, *, query, idle) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        watcher = (path.rsplit("/", 1)[-1], asyncio.Queue())
        self._watchers.append(watcher)

        async def each() -> AsyncIterator[bytes]:
            while True:
                yield await watcher[1].get()

        try:
            yield each()
        finally:
            self._watchers.remove(watcher)


@contextlib.asynccontextmanager
async def origin_of(size: Size, review: Callable[[str, bytes], Awaitable[bytes]]) -> AsyncIterator[OriginConnection]:
    """Start `scale_origin` with a fleet, and end it after the context.

    Args:
        size: The fleet.
        review: Answers reviews of the workloads that the connection changes.
    """
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/origin"
        command = [sys.executable, "-m", "benchmarks.engines.scale_origin", path, str(size.subjects), str(size.pools)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as origin:  # noqa: ASYNC220 - nothing runs before it
            assert origin.stdout
            origin.stdout.readline()
            connection = OriginConnection(*await asyncio.open_unix_connection(path, limit=1 << 26), review)
            reading = asyncio.create_task(connection.run())
            try:
                yield connection
            finally:
                reading.cancel()
                origin.terminate()
