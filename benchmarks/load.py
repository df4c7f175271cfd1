"""A load generator: keep-alive connections over TLS, each sending its next review when the last is answered.

`python benchmarks/load.py PORT OPERATION SECONDS CONNECTIONS CA` prints one line of JSON.
"""

import asyncio
import json
import ssl
import sys
import time

import uvloop
from reviews import explore_review, review

PATH = "/mutate-apps-v1-deployment"
EXPLORE = "/explore"


class Client(asyncio.Protocol):
    """One connection. Answers are recognised by their Content-Length; anything but 200 and allowed is an error."""

    def __init__(self, request: bytes, until: float, latencies: list[float], done: "asyncio.Future[None]") -> None:
        self.request, self.until, self.latencies, self.done = request, until, latencies, done
        self.buffer = b""
        self.errors = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        now = time.perf_counter()
        self.latencies.append(now - self.sent)
        self.errors += not (head.startswith(b"HTTP/1.1 200") and (b'"patch"' in body or b'"successful":true' in body))
        self.buffer = b""
        if now < self.until:
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.errors += exc is not None
        if not self.done.done():
            self.done.set_result(None)


async def run(port: int, operation: str, seconds: float, connections: int, authority: str) -> dict[str, float]:
    path, body = (EXPLORE, explore_review(operation)) if operation.startswith("Explore") else (PATH, review(operation))
    head = f"POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n\r\n"
    context = ssl.create_default_context(cafile=authority)
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    clients: list[Client] = []
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(connections):
        client = Client(head.encode() + body, started + seconds, latencies, loop.create_future())
        clients.append(client)
        await loop.create_connection(
            lambda client=client: client, "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
    await asyncio.gather(*(client.done for client in clients))
    took = time.perf_counter() - started
    latencies.sort()
    return {
        "requests_per_second": len(latencies) / took,
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1000,
        "errors": sum(client.errors for client in clients),
        "client_cpu": (time.process_time() - cpu) / took,
        "requests": len(latencies),
    }


if __name__ == "__main__":
    _, port, operation, seconds, connections, authority = sys.argv
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(run(int(port), operation, float(seconds), int(connections), authority))))
