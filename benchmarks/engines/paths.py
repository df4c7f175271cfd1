"""The direct path and the ASGI path of a review in turns, in one process without a network: `python -m benchmarks.engines.paths`.

A protocol gets the bytes of different UPDATE reviews, in reads that match the TLS records of an apiserver, and a transport that
discards its writes. So the figures exclude TLS, sockets and the load generator. Prints µs of CPU for each request, and the ratio by
turn, which is meaningful on a busy machine, too.

An apiserver writes 4,096 bytes (the buffer of Go's net/http), then the rest. TLS cuts each write into records: of 1,186 bytes,
then each that much longer, until a connection has sent 128 KiB, from then on of 16 KiB (crypto/tls, maxPayloadSizeForWrite).
A server may find several records in one read.
"""

import argparse
import asyncio
import itertools
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvloop
from uvicorn.server import ServerState

from benchmarks.servers import PATH
from benchmarks.servers.ours import app_of
from benchmarks.varied import reviews
from fleethook.app import Fleethook
from fleethook.cli.serve.uvicorn_server import make_config
from fleethook.server.health import HealthOnly
from fleethook.server.protocol.connections import ClientConnection, Connections
from fleethook.server.protocol.head_limits_and_timeouts import Guard, GuardedProtocol
from fleethook.work.threads_and_gc import settle_garbage_collector

REQUESTS = 100
"""Number of requests in a turn."""
WARMUP = 2
"""Turns before the first measurement."""
ASGI, DIRECT = "ASGI", "direct"

Cut = Callable[[bytes], list[bytes]]
"""Returns the reads in which a request arrives."""
_BUFFER = 4_096
_RECORD = 16_384
_FIRST_RECORD = 1_186


class Transport(asyncio.Transport):
    """Discards and counts the writes."""

    writes = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, _data: Any) -> None:
        self.writes += 1

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


def request(body: bytes) -> bytes:
    head = (
        f"POST {PATH}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"User-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def records(sizes: Iterator[int]) -> Cut:
    """Return a cut into the writes of Go's net/http, and of those into records of at most these sizes."""

    def cut(text: bytes) -> list[bytes]:
        found = []
        for write in (text[:_BUFFER], text[_BUFFER:]):
            place = 0
            while place < len(write):
                size = min(next(sizes), _RECORD)
                found.append(write[place : place + size])
                place += size
        return found

    return cut


PATTERNS: dict[str, Callable[[], Cut]] = {
    "one read": lambda: lambda text: [text],
    "records of a keep-alive connection": lambda: records(itertools.repeat(_RECORD)),
    # Records grow over its first 128 KiB, again and again.
    "records of a new connection": lambda: records(itertools.cycle(_FIRST_RECORD * number for number in range(1, 14))),
}


class Route:
    """One path to an app."""

    def __init__(self, app: Fleethook, requests: list[list[bytes]], *, direct: bool) -> None:
        state = ServerState()
        state.default_headers = [(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")]
        guard = Guard(3600.0, 3600.0, Connections(10), HealthOnly(app), app.find_direct if direct else None)
        connection = ClientConnection(socket.socket(), "127.0.0.1", health_only=False)
        loop = asyncio.get_running_loop()
        self.protocol = GuardedProtocol(make_config(app), state, {}, loop, guard=guard, connection=connection)
        self.transport = Transport()
        self.protocol.connection_made(self.transport)
        self.requests = itertools.cycle(requests)

    async def turn(self) -> float:
        """Return the µs of CPU of one request."""
        asked = list(itertools.islice(self.requests, REQUESTS))
        began = time.thread_time_ns()
        for reads in asked:
            before = self.transport.writes
            for read in reads:
                self.protocol.data_received(read)
            if self.transport.writes == before:
                while not self.protocol.cycle.response_complete:
                    await asyncio.sleep(0)
        return (time.thread_time_ns() - began) / REQUESTS / 1e3


async def measure(turns: int) -> None:
    bodies = reviews("UPDATE")
    for kind in ("fleethook", "floor"):
        given = argparse.Namespace(
            name=kind, port=0, cert_dir=Path(tempfile.gettempdir()), overriders=0, objects=0, hooks=0
        )
        app = app_of(given)
        settle_garbage_collector()
        for pattern, make in PATTERNS.items():
            cut = make()
            requests = [cut(request(body)) for body in bodies]
            print(f"{kind}, {pattern}: {sum(map(len, requests)) / len(requests):.1f} reads for each request")
            await _measure_routes(app, requests, turns)


async def _measure_routes(app: Fleethook, requests: list[list[bytes]], turns: int) -> None:
    routes = {name: Route(app, requests, direct=name == DIRECT) for name in (ASGI, DIRECT)}
    found: dict[str, list[float]] = {name: [] for name in routes}
    for number in range(turns + WARMUP):
        for name, route in routes.items():
            spent = await route.turn()
            if number >= WARMUP:
                found[name].append(spent)
    for name, spent in found.items():
        print(f"  {name}: {min(spent):.1f} µs at best, {statistics.median(spent):.1f} in the median")
    ratios = [direct / asgi for direct, asgi in zip(found[DIRECT], found[ASGI], strict=True)]
    low, *_, high = statistics.quantiles(ratios, n=10)
    print(f"  {DIRECT} : {ASGI} by turn: {statistics.median(ratios):.2f} ({low:.2f}-{high:.2f}, 8 of 10 turns)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=50)
    given = parser.parse_args()
    # The server writes a log line for each review as usual; /dev/null discards it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(given.turns))


if __name__ == "__main__":
    main()
