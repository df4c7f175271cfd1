"""The event loop and its TLS alone, which admits every review: the least that a webhook in Python can do.

It finds the uid by a search in the bytes. It decodes, counts and logs nothing. The difference to the no-op in our app is the
cost of HTTP, of our edge, of the decoded review, of metrics and of logs.
"""

import argparse
import asyncio
from pathlib import Path

import uvloop

from benchmarks.servers.ours import serving_context

_BODY = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"00000000-0000-0000-0000-000000000000","allowed":true}}'
_BEFORE, _UID, _AFTER = _BODY.partition(b"00000000-0000-0000-0000-000000000000")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY)


class Protocol(asyncio.Protocol):
    """Answers requests, one after the other, each complete by its Content-Length."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.received = b""
        self.length = -1

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.length < 0 and b"\r\n\r\n" in self.received:
            head, _, _ = self.received.partition(b"\r\n\r\n")
            self.length = len(head) + 4 + int(head.rpartition(b"Content-Length:")[2].split(b"\r\n", 1)[0])
        if len(self.received) == self.length:
            found = self.received.index(b'"uid":"') + 7
            self.transport.write(b"%s%s%s%s" % (_HEAD, _BEFORE, self.received[found : found + len(_UID)], _AFTER))
            self.received, self.length = b"", -1


async def _serve(port: int, directory: Path) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Protocol, "127.0.0.1", port, ssl=serving_context(directory))
    print(f"serving on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def serve(given: argparse.Namespace) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(given.port, given.cert_dir))
