"""A server among honest and hostile clients, and its memory all the while.

    python -m benchmarks.engines.soak --seconds 600 --port PORT --pid PID --authority CA

Each kind of client has an address of its own (127.0.0.x), as clients of a cluster have.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.reviews import review

MUTATE = "/mutate-apps-v1-deployment"
HEAD = f"POST {MUTATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
HUGE = 8 * 1024 * 1024 - 4096
PAUSE = 0.05


class Clients:
    """Clients of all kinds, until the time is over."""

    def __init__(self, port: int, authority: Path, seconds: float) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._until = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.latencies: dict[str, list[float]] = {"honest": [], "health": []}

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    async def repeat(self, kind: str, address: int, talk: Callable[[int], Awaitable[None]]) -> None:
        """Have one client after another, as each one is cut off."""
        while not self.is_over:
            try:
                async with asyncio.timeout(max(0.1, self._until - time.monotonic())):
                    await talk(address)
                self.counts[kind] += 1
            except (OSError, EOFError, TimeoutError):
                if self.is_over:
                    # The server did not cut this client; the measurement did.
                    return
                self.counts[f"{kind}: cut"] += 1
            await asyncio.sleep(PAUSE)

    @contextlib.asynccontextmanager
    async def connected(self, address: int, *, tls: bool = True, window: int | None = None) -> Any:
        plain = socket.socket()
        plain.setblocking(False)
        plain.bind((f"127.0.0.{address}", 0))
        if window is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        writer = None
        try:
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self._port))
            options = {"ssl": self._tls, "server_hostname": "localhost"} if tls else {}
            reader, writer = await asyncio.open_connection(sock=plain, limit=2**16, **options)
            yield reader, writer
        finally:
            if writer is not None:
                writer.transport.abort()
            plain.close()

    async def honest(self, address: int) -> None:
        body = review("UPDATE")
        async with self.connected(address) as (reader, writer):
            while not self.is_over:
                began = time.perf_counter()
                writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                status = await _answer(reader)
                self.latencies["honest"].append(time.perf_counter() - began)
                self.counts[f"honest: {status}"] += 1
                await asyncio.sleep(PAUSE)

    async def health(self, address: int) -> None:
        began = time.perf_counter()
        async with self.connected(address) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            status = await _answer(reader)
        self.latencies["health"].append(time.perf_counter() - began)
        self.counts[f"health: {status}"] += 1
        await asyncio.sleep(1)

    async def stalled_body(self, address: int) -> None:
        async with self.connected(address) as (reader, writer):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % HUGE + b" " * (HUGE // 2))
            await reader.read(1)

    async def silent(self, address: int) -> None:
        async with self.connected(address, tls=False) as (reader, _):
            await reader.read(1)

    async def silent_tls(self, address: int) -> None:
        async with self.connected(address) as (reader, _):
            await reader.read(1)

    async def half_a_head(self, address: int) -> None:
        async with self.connected(address) as (reader, writer):
            writer.write(HEAD + b"a:b\r\n" * 100)
            await reader.read(1)

    async def never_reading(self, address: int) -> None:
        async with self.connected(address, window=4096) as (_, writer):
            writer.transport.pause_reading()
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5)
            # asyncio notices that the server has cut it off when it writes.
            while not self.is_over:
                await asyncio.sleep(1)
                writer.write(b"G")
                await writer.drain()

    async def pipelining(self, address: int) -> None:
        async with self.connected(address) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 5000)
            while await reader.read(2**16):
                pass

    async def huge_body(self, address: int) -> None:
        """A review whose object takes 27 times its bytes when it is decoded."""
        document = json.loads(review("UPDATE"))
        document["request"]["object"]["metadata"]["annotations"] = None
        text = (
            json.dumps(document)
            .encode()
            .replace(b'"annotations": null', b'"x": [' + b"[]," * (HUGE // 3 - 6000) + b"[]]")
        )
        async with self.connected(address) as (reader, writer):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(text) + text)
            self.counts[f"huge body: {await _answer(reader)}"] += 1

    async def run(self, *, crowd: int) -> None:
        """Have ``crowd`` clients of the kinds that only hold connections, and some of each other kind."""
        kinds = [
            ("honest", 1, self.honest, 4), ("health", 2, self.health, 1), ("stalled body", 3, self.stalled_body, 60),
            ("no TLS", 4, self.silent, crowd), ("silent", 5, self.silent_tls, crowd), ("half a head", 6, self.half_a_head, crowd // 4),
            ("never reading", 7, self.never_reading, 60), ("pipelining", 8, self.pipelining, 8), ("huge body", 9, self.huge_body, 4),
        ]  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            for kind, address, talk, count in kinds:
                for _ in range(count):
                    tasks.create_task(self.repeat(kind, address, talk))


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


def resident(pid: int) -> float:
    """MiB that a process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(pid)


async def watch(pid: int, samples: list[float]) -> None:
    while True:
        samples.append(resident(pid))
        await asyncio.sleep(0.25)


async def soak(given: argparse.Namespace) -> dict[str, Any]:
    clients, samples = Clients(given.port, given.authority, given.seconds), [resident(given.pid)]
    watching = asyncio.create_task(watch(given.pid, samples))
    await clients.run(crowd=given.crowd)
    watching.cancel()
    await asyncio.sleep(given.rest)
    return {
        "samples": samples, "after": resident(given.pid), "counts": dict(clients.counts),
        **{f"{kind}_ms": _percentiles(found) for kind, found in clients.latencies.items()},
    }  # fmt: skip


def _percentiles(found: list[float]) -> dict[str, float]:
    ordered = sorted(found) or [float("nan")]
    return {
        name: 1000 * ordered[int(share * (len(ordered) - 1))]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rest", type=float, default=5, help="seconds after the last client")
    parser.add_argument("--crowd", type=int, default=300)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--authority", type=Path, required=True)
    print(json.dumps(asyncio.run(soak(parser.parse_args()))))


if __name__ == "__main__":
    main()
