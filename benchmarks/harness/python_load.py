"""The load generator without Go: keep-alive TLS connections, each of which sends a review after every answer.

It accepts the flags of cmd/load for a plain measurement and prints the same figures. It has about a third of its speed.
"""

import argparse
import asyncio
import itertools
import json
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from benchmarks.harness.processes import cpu_seconds
from benchmarks.servers import PATH


class Client(asyncio.Protocol):
    """One connection. Answers end by their Content-Length; anything but 200 with a patch is an error."""

    def __init__(self, requests: Iterator[bytes], window: tuple[float, float], done: "asyncio.Future[None]") -> None:
        self.requests, self.window, self.done = requests, window, done
        self.buffer = b""
        self.latencies: list[float] = []
        self.errors = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        now = time.perf_counter()
        begins, ends = self.window
        if begins <= now < ends:
            self.latencies.append(now - self.sent)
        self.errors += not (head.startswith(b"HTTP/1.1 200") and b'"patch"' in body)
        self.buffer = b""
        if now < ends:
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.errors += exc is not None or time.perf_counter() < self.window[1]
        if not self.done.done():
            self.done.set_result(None)


def request(body: bytes) -> bytes:
    head = (
        f"POST {PATH}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"User-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def run(given: argparse.Namespace) -> dict[str, float]:
    context = ssl.create_default_context(cafile=given.ca)
    loop = asyncio.get_running_loop()
    begins = time.perf_counter() + given.warmup
    window = (begins, begins + given.seconds)
    bodies = given.body.read_bytes().split(b"\n")
    # Each connection begins with another body, as those of cmd/load do.
    starts = [len(bodies) * number // given.connections for number in range(given.connections)]
    clients = [
        Client(map(request, itertools.cycle(bodies[start:] + bodies[:start])), window, loop.create_future())
        for start in starts
    ]
    for client in clients:
        await loop.create_connection(
            lambda client=client: client, "127.0.0.1", given.port, ssl=context, server_hostname="localhost"
        )
    pids = [int(pid) for pid in given.pid.split(",")]
    await asyncio.sleep(begins - time.perf_counter())
    began, own, theirs = time.perf_counter(), time.process_time(), sum(map(cpu_seconds, pids))
    await asyncio.sleep(window[1] - time.perf_counter())
    took = time.perf_counter() - began
    own, theirs = time.process_time() - own, sum(map(cpu_seconds, pids)) - theirs
    await asyncio.gather(*(client.done for client in clients))
    found = sorted(latency for client in clients for latency in client.latencies)
    at = {
        f"p{name}_ms": found[int(len(found) * part)] * 1000
        for name, part in (("50", 0.5), ("99", 0.99), ("999", 0.999))
    }
    return {
        "requests": len(found), "errors": sum(client.errors for client in clients), **at,
        "requests_per_second": len(found) / given.seconds, "client_cpu": own / took,
        "cpu_us": theirs / len(found) * 1e6, "server_cpu": theirs / took,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--body", type=Path, required=True, help="a file with a body in each line")
    parser.add_argument("--ca", required=True)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warmup", type=float, default=1)
    parser.add_argument("--pid", required=True)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(run(given))
    print(json.dumps(found))
    sys.exit(found["errors"] > 0)


if __name__ == "__main__":
    main()
