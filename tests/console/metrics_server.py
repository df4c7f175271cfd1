"""A server of metrics on loopback whose answers a test chooses."""

import contextlib
import ssl
from collections.abc import Iterator

from fleethook.server.metrics import Metrics, certificate_gauge
from tests.http_server import HTTPAnswer, HTTPRequest, serve_http


class MetricsServer:
    """Answers with `body`, or with the metrics of `metrics` if it is None; `headers` has those of the last request."""

    def __init__(self) -> None:
        self.url = ""
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
    made = MetricsServer()

    def respond(request: HTTPRequest) -> HTTPAnswer:
        made.headers.append(dict(request.headers))
        return HTTPAnswer(made.status, made.read(), {"Location": made.location} if made.location else {})

    with serve_http(respond, context) as port:
        made.url = f"http{'s' if context else ''}://localhost:{port}/metrics"
        yield made
