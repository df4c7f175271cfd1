"""The event loop and its TLS alone: accepts a connection and answers any request with constant bytes.

The difference to our server is the cost of uvicorn and our app. The rest is the cost of OpenSSL and the kernel.
"""

import argparse
import asyncio
from pathlib import Path

import uvloop

from benchmarks.servers.constant import constant_answer
from benchmarks.servers.ours import serving_context

_BODY = constant_answer()
_CLOSING = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
_ANSWER = _CLOSING % (len(_BODY), _BODY)


class Protocol(asyncio.Protocol):
    """Answers one request, complete by its Content-Length, and closes the connection."""

    def __init__(self) -> None:
        self.missing = -1

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.missing < 0:
            head, _, body = data.partition(b"\r\n\r\n")
            self.missing = int(head.rpartition(b"Content-Length:")[2].split(b"\r\n", 1)[0]) - len(body)
        else:
            self.missing -= len(data)
        if self.missing == 0:
            self.transport.write(_ANSWER)
            self.transport.close()


async def _serve(port: int, directory: Path) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Protocol, "127.0.0.1", port, ssl=serving_context(directory), backlog=2048)
    print(f"serving on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def serve(given: argparse.Namespace) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(given.port, given.cert_dir))
