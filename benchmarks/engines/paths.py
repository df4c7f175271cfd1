"""The direct path and the ASGI path of a review in turns, in one process without a network: `python -m benchmarks.engines.paths`.

A protocol gets the bytes of an UPDATE review and a transport that discards its writes, so the figures exclude TLS, sockets and the
load generator. Prints µs of CPU for each request, and the ratio by turn, which is meaningful on a busy machine, too.
"""

import argparse
import asyncio
import os
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
from uvicorn.server import ServerState

from app.api.connections import Connection, Connections
from app.api.health import HealthOnly
from app.api.protocol import Guard, GuardedProtocol
from app.asgi import Fleethook
from app.cli.server import server_config
from app.lifetime import settle_garbage_collector
from benchmarks.reviews import review
from benchmarks.servers import PATH
from benchmarks.servers.ours import app_of

REQUESTS = 100
"""Number of requests in a turn."""


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


def request() -> bytes:
    body = review("UPDATE")
    head = (
        f"POST {PATH}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"User-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Route:
    """One path to an app."""

    def __init__(self, app: Fleethook, *, direct: bool) -> None:
        state = ServerState()
        state.default_headers = [(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")]
        guard = Guard(3600.0, 3600.0, Connections(10), HealthOnly(app), app.find_direct if direct else None)
        connection = Connection(socket.socket(), "127.0.0.1", health_only=False)
        loop = asyncio.get_running_loop()
        self.protocol = GuardedProtocol(server_config(app), state, {}, loop, guard=guard, connection=connection)
        self.transport = Transport()
        self.protocol.connection_made(self.transport)
        self.request = request()

    async def turn(self) -> float:
        """Return the µs of CPU of one request."""
        began = time.thread_time_ns()
        for _ in range(REQUESTS):
            before = self.transport.writes
            self.protocol.data_received(self.request)
            if self.transport.writes == before:
                while not self.protocol.cycle.response_complete:
                    await asyncio.sleep(0)
        return (time.thread_time_ns() - began) / REQUESTS / 1e3


async def measure(turns: int) -> None:
    for kind in ("fleethook", "floor"):
        given = argparse.Namespace(name=kind, port=0, cert_dir=Path(tempfile.gettempdir()), overriders=10, objects=0)
        app = app_of(given)
        settle_garbage_collector()
        paths = {"ASGI": Route(app, direct=False), "direct": Route(app, direct=True)}
        found: dict[str, list[float]] = {name: [] for name in paths}
        for number in range(turns + 2):
            for name, path in paths.items():
                spent = await path.turn()
                if number >= 2:
                    found[name].append(spent)
        for name, spent in found.items():
            print(f"{kind}, {name}: {min(spent):.1f} µs at best, {statistics.median(spent):.1f} in the median")
        ratios = [direct / asgi for direct, asgi in zip(found["direct"], found["ASGI"], strict=True)]
        low, *_, high = statistics.quantiles(ratios, n=10)
        print(f"{kind}, direct : ASGI by turn: {statistics.median(ratios):.2f} ({low:.2f}-{high:.2f}, 8 of 10 turns)")


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
