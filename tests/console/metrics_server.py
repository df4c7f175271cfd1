"""A server of metrics on loopback whose answers a test chooses."""

import contextlib
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fleethook.server.metrics import Metrics, certificate_gauge


class MetricsServer:
    """Answers with `body`, or with the metrics of `metrics` if it is None; `headers` has those of the last request."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self.url = f"{scheme}://localhost:{server.server_port}/metrics"
        self.metrics = Metrics()
        self.metrics.registry.register(certificate_gauge(lambda: 1_800_000_000.0))
        self.status = 200
        self.body: bytes | None = None
        self.location = ""
        self.headers: list[dict[str, str]] = []

    def count(self, outcome: str = "allowed", times: int = 1) -> None:
        for _ in range(times):
            self.metrics.count_review("/a", "CREATE", outcome, seconds=0.002)

    def read(self) -> bytes:
        return self.metrics.exposition("text/plain; version=0.0.4")[0] if self.body is None else self.body


@contextlib.contextmanager
def serving_metrics(context: ssl.SSLContext | None = None) -> Iterator[MetricsServer]:
    """Serve metrics until the end of the context, over TLS with an SSL context."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.headers.append(dict(self.headers))
            body = made.read()
            self.send_response(made.status)
            if made.location:
                self.send_header("Location", made.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made = MetricsServer(server, "http" if context is None else "https")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
