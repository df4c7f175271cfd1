"""Exports spans with OpenTelemetry over OTLP/HTTP. Its environment variables (``OTEL_*``) configure the rest.

Import this module only if traces are wanted: the packages are the extra ``otel``.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span as OpenTelemetrySpan
from opentelemetry.trace import SpanKind, StatusCode, Tracer, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fleethook import __version__
from fleethook.tracing.spans_and_otel_variables import Attributes, Kind, Span

_KINDS: Final = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_EMPTY: Final = Context()
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_FIELDS: Final = (b"traceparent", b"tracestate")
_PATH: Final = "/v1/traces"
_MAX_ERROR: Final = 1000
_CLOSE_SECONDS: Final = 5.0


class OTLPSpan:
    """A span of OpenTelemetry, which exports it if its trace is sampled."""

    def __init__(self, tracer: Tracer, span: OpenTelemetrySpan) -> None:
        self._tracer: Final = tracer
        self._span: Final = span

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of W3C Trace Context for requests to other processes."""
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers, set_span_in_context(self._span, _EMPTY))
        return headers

    @property
    def trace_id(self) -> str:
        """The id of the trace, 32 hexadecimal digits, ``""`` if it is not exported."""
        return format_trace_id(self._span.get_span_context().trace_id) if self._span.is_recording() else ""

    def start(self, name: str, kind: Kind, attributes: Attributes) -> Span:
        """Start a child."""
        parent = set_span_in_context(self._span, _EMPTY)
        return OTLPSpan(self._tracer, self._tracer.start_span(name, parent, _KINDS[kind], dict(attributes)))

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(dict(attributes))

    def end(self, error: str = "") -> None:
        """End the span, as failed if there is an error."""
        if error:
            self._span.set_status(StatusCode.ERROR, error[:_MAX_ERROR])
        self._span.end()


class OTLPTracing:
    """Starts traces and exports their spans; the environment variable ``OTEL_TRACES_SAMPLER`` chooses the traces."""

    def __init__(self, exporter: SpanExporter, *, close_seconds: float = _CLOSE_SECONDS) -> None:
        """Start the thread that exports; `close` waits for it as long as ``close_seconds``."""
        self._close_seconds: Final = close_seconds
        resource = Resource.create({"service.version": __version__})
        # The SDK sets this name if neither OTEL_SERVICE_NAME nor OTEL_RESOURCE_ATTRIBUTES has one.
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "fleethook"}))
        self._provider: Final = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Final = self._provider.get_tracer("fleethook", __version__)

    def close(self) -> None:
        """Export the remaining spans, for a few seconds at most: a process ends also if the collector is silent."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(self._close_seconds)

    def start(self, name: str, headers: Iterable[tuple[bytes, bytes]]) -> Span:
        """Start a span; it continues the trace of a ``traceparent`` header.

        Args:
            name: The name of the span.
            headers: Headers of an ASGI scope, with names in lower case.
        """
        carrier = {one.decode("latin-1"): value.decode("latin-1") for one, value in headers if one in _FIELDS}
        context = _PROPAGATOR.extract(carrier, context=_EMPTY) if carrier else _EMPTY
        return OTLPSpan(self._tracer, self._tracer.start_span(name, context, SpanKind.SERVER))

    def start_root(self, name: str) -> Span:
        """Start a trace of this process itself."""
        return OTLPSpan(self._tracer, self._tracer.start_span(name, _EMPTY, SpanKind.INTERNAL))


def start_otlp(endpoint: str | None) -> OTLPTracing:
    """Return tracing that exports to a collector.

    Args:
        endpoint: The base URL of the collector, as in ``OTEL_EXPORTER_OTLP_ENDPOINT``; None to take it from the
            environment.
    """
    return OTLPTracing(OTLPSpanExporter(None if endpoint is None else endpoint.rstrip("/") + _PATH))
