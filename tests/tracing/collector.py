"""A collector of traces: OTLP over HTTP, with protobuf bodies."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_server import HTTPAnswer, HTTPRequest, serve_http


class ReceivedSpan(NamedTuple):
    """A span as exported, with the resource that exported it."""

    name: str
    trace: str
    id: str
    parent: str
    kind: str
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector:
    """The spans that arrived, and the paths of the requests."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.port = 0
        self.hold = threading.Event()
        self.hold.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.hold.wait()
        self.requests.append((path, headers))
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _read(group.resource.attributes)
            self.spans += [_convert(span, resource) for scope in group.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def tree(self, root: ReceivedSpan) -> dict[str, Any]:
        """The names of the descendants of a span, in the order of their ends."""
        children = [span for span in self.spans if span.parent == root.id]
        return {child.name: self.tree(child) for child in children}


def _read(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def _convert(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    kind = {1: "internal", 2: "server", 3: "client"}[span.kind]
    parent = span.parent_span_id.hex()
    return ReceivedSpan(
        span.name, span.trace_id.hex(), span.span_id.hex(), parent, kind, span.status.code == 2, _read(span.attributes), resource
    )  # fmt: skip


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()

    def respond(request: HTTPRequest) -> HTTPAnswer:
        collector.take(request.path, {name.lower(): text for name, text in request.headers.items()}, request.body)
        return HTTPAnswer(200)

    with serve_http(respond) as collector.port:
        yield collector
