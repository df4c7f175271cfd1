"""A load generator for HTTP/2: `python -m benchmarks.engines.h2_load` with the flags of cmd/load for a plain measurement.

It opens one connection, as an apiserver's client does to a loopback address, with one request in flight for each connection of
cmd/load. It implements only the frames that it needs (RFC 9113): headers are literals without indexing (RFC 7541 §6.2.2).
"""

import argparse
import asyncio
import itertools
import json
import resource
import ssl
import struct
import sys
import time
from pathlib import Path

import uvloop

from benchmarks.harness.processes import cpu_seconds
from benchmarks.servers import PATH

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _AWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK = 1, 1
_INITIAL_WINDOW, _FRAME_SIZE = 4, 5
_LARGE = 1 << 30
_STATUS_200 = 0x88


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame (RFC 9113 §4.1)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """Return a header field, neither indexed nor compressed; both are shorter than 127 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head_of(body: bytes) -> bytes:
    fields = {
        b":method": b"POST", b":scheme": b"https", b":authority": b"localhost", b":path": f"{PATH}?timeout=10s".encode(),
        b"content-type": b"application/json", b"content-length": str(len(body)).encode(),
    }  # fmt: skip
    return b"".join(literal(name, value) for name, value in fields.items())


class Client(asyncio.Protocol):
    """A connection that sends a new request after each answer, until the time is over."""

    def __init__(
        self, bodies: list[bytes], window: tuple[float, float], in_flight: int, done: "asyncio.Future[None]"
    ) -> None:
        self.window, self.in_flight, self.done = window, in_flight, done
        self.requests = itertools.cycle([(head_of(body), body) for body in bodies])
        self.buffer, self.next_stream = bytearray(), 1
        self.credit, self.stream_credit, self.most = 65_535, 65_535, 16_384
        self.asked: dict[int, float] = {}
        self.left: dict[int, tuple[memoryview, int]] = {}
        """By stream: the unsent rest of the body, and the number of bytes that the server allows."""
        self.answered: dict[int, bytes] = {}
        self.good: set[int] = set()
        self.latencies: list[float] = []
        self.errors, self.begun = 0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        settings = struct.pack(">HI", _INITIAL_WINDOW, _LARGE)
        transport.write(_PREFACE + frame(_SETTINGS, 0, 0, settings) + frame(_WINDOW, 0, 0, struct.pack(">I", _LARGE)))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                return
            kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
            payload = bytes(self.buffer[9 : 9 + size])
            del self.buffer[: 9 + size]
            self.take(kind, flags, stream & 0x7FFFFFFF, payload)

    def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self.settle(payload)
        elif kind == _PING and not flags & _ACK:
            self.transport.write(frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW:
            self.allow(stream, int.from_bytes(payload, "big") & 0x7FFFFFFF)
        elif kind == _HEADERS and payload[0] == _STATUS_200:
            self.good.add(stream)
        elif kind == _DATA:
            self.answered[stream] = self.answered.get(stream, b"") + payload
            self.transport.write(frame(_WINDOW, 0, 0, struct.pack(">I", len(payload))) if payload else b"")
        elif kind in (_RESET, _AWAY):
            self.errors += 1
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            self.end(stream)

    def settle(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == _INITIAL_WINDOW:
                self.stream_credit = value
            elif name == _FRAME_SIZE:
                self.most = value
        self.transport.write(frame(_SETTINGS, _ACK, 0))
        if not self.begun:
            self.begun = True
            for _ in range(self.in_flight):
                self.ask()

    def allow(self, stream: int, more: int) -> None:
        if stream == 0:
            self.credit += more
        elif stream in self.left:
            rest, credit = self.left[stream]
            self.left[stream] = rest, credit + more
        self.transport.write(b"".join(part for one in list(self.left) for part in self.parts(one)))

    def ask(self) -> None:
        stream = self.next_stream
        self.next_stream += 2
        self.asked[stream] = time.perf_counter()
        head, body = next(self.requests)
        self.left[stream] = memoryview(body), self.stream_credit
        self.transport.write(b"".join([frame(_HEADERS, 4, stream, head), *self.parts(stream)]))

    def parts(self, stream: int) -> list[bytes]:
        """Return the frames that may be sent of a body."""
        rest, credit = self.left[stream]
        made = []
        while rest and (size := min(len(rest), credit, self.credit, self.most)) > 0:
            made.append(frame(_DATA, _END_STREAM if size == len(rest) else 0, stream, bytes(rest[:size])))
            rest, credit, self.credit = rest[size:], credit - size, self.credit - size
        if rest:
            self.left[stream] = rest, credit
        else:
            del self.left[stream]
        return made

    def end(self, stream: int) -> None:
        now, (begins, ends) = time.perf_counter(), self.window
        sent = self.asked.pop(stream)
        if begins <= now < ends:
            self.latencies.append(now - sent)
        self.errors += stream not in self.good or b'"patch"' not in self.answered.pop(stream, b"")
        self.good.discard(stream)
        if now < ends:
            self.ask()
        elif not self.asked:
            self.finish()

    def finish(self) -> None:
        self.transport.close()
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.errors += exc is not None or bool(self.asked)
        self.finish()


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


async def run(given: argparse.Namespace) -> dict[str, float]:
    context = ssl.create_default_context(cafile=given.ca)
    context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    begins = time.perf_counter() + given.warmup
    bodies = given.body.read_bytes().split(b"\n")
    client = Client(bodies, (begins, begins + given.seconds), given.connections, loop.create_future())
    await loop.create_connection(lambda: client, "127.0.0.1", given.port, ssl=context, server_hostname="localhost")
    pids = [int(pid) for pid in given.pid.split(",")]
    await asyncio.sleep(begins - time.perf_counter())
    began, own, theirs = time.perf_counter(), time.process_time(), sum(map(cpu_seconds, pids))
    await asyncio.sleep(client.window[1] - time.perf_counter())
    took, theirs = time.perf_counter() - began, sum(map(cpu_seconds, pids)) - theirs
    own = time.process_time() - own
    await asyncio.wait_for(client.done, 30)
    found = sorted(client.latencies)
    at = {
        f"p{name}_ms": found[int(len(found) * part)] * 1000
        for name, part in (("50", 0.5), ("99", 0.99), ("999", 0.999))
    }
    return {
        "requests": len(found), "errors": client.errors, **at, "requests_per_second": len(found) / given.seconds,
        "client_cpu": own / took, "cpu_us": theirs / len(found) * 1e6, "server_cpu": theirs / took, "rss_mib": sum(map(resident_mib, pids)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--body", type=Path, required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--connections", type=int, default=16, help="requests in flight")
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
