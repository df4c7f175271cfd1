"""Exports spans with OpenTelemetry over OTLP/HTTP. Its environment variables (``OTEL_*``) configure the rest.

Import this module only if traces are wanted: the packages are the extra ``otel``.
"""

import random
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span as OpenTelemetrySpan
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fleethook import __version__
from fleethook.tracing.spans import Attributes, Kind, Span, UnsampledSpan, find_trace_headers

_KINDS: Final = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_EMPTY: Final = Context()
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_PATH: Final = "/v1/traces"
_MAX_ERROR: Final = 1000
_CLOSE_SECONDS: Final = 5.0
# W3C Trace Context, section 3.2: 00-<32 digits>-<16 digits>-<2 digits>. The lowest bit of the last one means "sampled".
_DASH: Final = 52
_FLAGS: Final = 54
_UNSAMPLED: Final = b"02468ace"
_RATIO: Final = re.compile(r"(?:ParentBased\{root:)?TraceIdRatioBased\{([0-9.e-]+)\}")


class _Ids(RandomIdGenerator):
    """Random ids. The id of a trace is drawn before its span, because the sampler needs it."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self) -> int:
        """Draw the id of the next trace."""
        self.drawn = random.getrandbits(128) or 1
        return self.drawn

    def generate_trace_id(self) -> int:
        """Return the id that was drawn."""
        return self.drawn


class ExportedSpan:
    """A span that OpenTelemetry exports."""

    def __init__(self, tracer: Tracer, span: OpenTelemetrySpan) -> None:
        self._tracer: Final = tracer
        self._span: Final = span

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of W3C Trace Context for requests to other processes."""
        found = self._span.get_span_context()
        headers = {"traceparent": f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"}
        if found.trace_state:
            headers["tracestate"] = found.trace_state.to_header()
        return headers

    @property
    def trace_id(self) -> str:
        """The id of the trace, 32 hexadecimal digits."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def start(self, name: str, kind: Kind, attributes: Attributes) -> Span:
        """Start a child."""
        parent = set_span_in_context(self._span, _EMPTY)
        return ExportedSpan(self._tracer, self._tracer.start_span(name, parent, _KINDS[kind], dict(attributes)))

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

    def __init__(self, exporter: SpanExporter) -> None:
        """Start the thread that exports."""
        self._ids: Final = _Ids()
        resource = Resource.create({"service.version": __version__})
        # The SDK sets this name if neither OTEL_SERVICE_NAME nor OTEL_RESOURCE_ATTRIBUTES has one.
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "fleethook"}))
        self._provider: Final = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Final = self._provider.get_tracer("fleethook", __version__)
        self._follows_parent: Final = isinstance(self._provider.sampler, ParentBased)
        self._bound: Final = _find_bound(self._provider.sampler.get_description())

    def close(self) -> None:
        """Export the remaining spans, for a few seconds at most: a process ends also if the collector is silent."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(_CLOSE_SECONDS)

    def start(self, name: str, headers: Iterable[tuple[bytes, bytes]]) -> Span | None:
        """Start a span; it continues the trace of a ``traceparent`` header.

        Args:
            name: The name of the span.
            headers: Headers of an ASGI scope, with names in lower case.

        Returns:
            The span, or None if the sampler leaves the trace out and the caller sent none.
        """
        for key, value in headers:
            if key == b"traceparent":
                if self._follows_parent and _is_unsampled(value):
                    return UnsampledSpan(headers)
                return self._continue(name, headers)
        return self._start_root(name, SpanKind.SERVER)

    def start_root(self, name: str) -> Span | None:
        """Start a trace of this process itself; None if the sampler leaves it out."""
        return self._start_root(name, SpanKind.INTERNAL)

    def _continue(self, name: str, headers: Iterable[tuple[bytes, bytes]]) -> Span | None:
        carrier = find_trace_headers(headers)
        if not carrier:
            return self._start_root(name, SpanKind.SERVER)
        context = _PROPAGATOR.extract(carrier, context=_EMPTY)
        self._ids.draw()
        span = self._tracer.start_span(name, context, SpanKind.SERVER)
        return ExportedSpan(self._tracer, span) if span.is_recording() else UnsampledSpan(headers)

    def _start_root(self, name: str, kind: SpanKind) -> Span | None:
        drawn = self._ids.draw()
        # `start_span` takes several times as long as the sampler, and the sampler several times as long as this
        # comparison.
        if self._bound is not None:
            is_sampled = drawn & TraceIdRatioBased.TRACE_ID_LIMIT < self._bound
        else:
            decision = self._provider.sampler.should_sample(_EMPTY, drawn, name).decision
            is_sampled = decision is Decision.RECORD_AND_SAMPLE
        return ExportedSpan(self._tracer, self._tracer.start_span(name, _EMPTY, kind)) if is_sampled else None


def _is_unsampled(parent: bytes) -> bool:
    """Return whether a ``traceparent`` has the flags of an unsampled trace. Its ids are not checked."""
    return len(parent) > _FLAGS and parent[_DASH] == ord("-") and parent[_FLAGS] in _UNSAMPLED


def _find_bound(description: str) -> int | None:
    """Return the bound below which trace ids are sampled, None unless the sampler takes a share of new traces."""
    found = _RATIO.match(description)
    return None if found is None else TraceIdRatioBased.get_bound_for_rate(float(found[1]))


def start_otlp(endpoint: str | None) -> OTLPTracing:
    """Return tracing that exports to a collector.

    Args:
        endpoint: The base URL of the collector, as in ``OTEL_EXPORTER_OTLP_ENDPOINT``; None to take it from the
            environment.
    """
    return OTLPTracing(OTLPSpanExporter(None if endpoint is None else endpoint.rstrip("/") + _PATH))
