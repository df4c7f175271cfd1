"""Spans, without a library: the code that is traced knows the current span and starts children of it.

Without a current span nothing is traced, and `start_child` costs one look-up of a context variable. `start_tracing`
reads the variables ``OTEL_*`` that decide whether a process exports traces.
"""

import contextlib
import importlib.util
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

_T = TypeVar("_T")
Attribute = str | int | bool
Attributes = Mapping[str, Attribute]
Kind = Literal["server", "client", "internal"]
"""Server spans answer a request of another process, client spans wait for another process."""

_NO_ATTRIBUTES: Final[Attributes] = {}


class Span(Protocol):
    """One traced operation."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of W3C Trace Context with which a request to another process continues the trace."""

    @property
    def trace_id(self) -> str:
        """The id of the trace, 32 hexadecimal digits, ``""`` if the span is not exported."""

    def start(self, name: str, kind: Kind, attributes: Attributes) -> "Span":
        """Start a child."""

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""

    def end(self, error: str = "") -> None:
        """End the span, as failed if there is an error."""


CURRENT: Final[ContextVar[Span | None]] = ContextVar("fleethook_span", default=None)
"""The span of the operation that this task or thread works on."""

StartTrace = Callable[[str, Iterable[tuple[bytes, bytes]]], Span]
"""Starts a span by its name and the headers of an ASGI scope.

It raises nothing, because it is called for each review.
"""

StartRoot = Callable[[str], Span]
"""Starts the span of an operation that no other process asked for. It raises nothing."""


def start_child(name: str, kind: Kind = "internal", attributes: Attributes = _NO_ATTRIBUTES) -> Span | None:
    """Start a child of the current span, which its caller ends; None if nothing is traced."""
    current = CURRENT.get()
    return None if current is None else current.start(name, kind, attributes)


@contextlib.contextmanager
def child_span(name: str, kind: Kind = "internal", attributes: Attributes = _NO_ATTRIBUTES) -> Iterator[Span | None]:
    """Make a child of the current span the current one; an exception ends it as failed. Yields None if not traced.

    Use it in coroutines and threads only: a generator would leave the span behind in the context of its caller.
    """
    with enter_span(start_child(name, kind, attributes)) as span:
        yield span


@contextlib.contextmanager
def enter_span(span: Span | None) -> Iterator[Span | None]:
    """Make a span the current one and end it; an exception ends it as failed. None changes nothing."""
    if span is None:
        yield None
        return
    token = CURRENT.set(span)
    try:
        yield span
    except BaseException as error:
        span.end(describe_failure(error))
        raise
    else:
        span.end()
    finally:
        CURRENT.reset(token)


def begin_in_span(
    span: Span,
    begin: Callable[[], _T | Coroutine[Any, Any, _T]],
    *,
    explain: Callable[[BaseException], Attributes] = lambda _: _NO_ATTRIBUTES,
) -> _T | Coroutine[Any, Any, _T]:
    """Begin work while a span is the current one, and end the span with the work.

    The first part runs in the context of a connection, which other reviews share. So the span is not the current one
    between the first part and the rest.

    Args:
        span: The span.
        begin: Returns the result, or a coroutine that goes on with the work and returns the result.
        explain: Returns the attributes of a failure.

    Raises:
        Exception: The work has failed before it waited for anything.
    """
    token = CURRENT.set(span)
    try:
        begun = begin()
    except BaseException as error:
        span.note(explain(error))
        span.end(describe_failure(error))
        raise
    finally:
        CURRENT.reset(token)
    if isinstance(begun, CoroutineType):
        return _finish_in_span(span, begun, explain)
    span.end()
    return begun


async def _finish_in_span(
    span: Span, begun: Coroutine[Any, Any, _T], explain: Callable[[BaseException], Attributes]
) -> _T:
    with enter_span(span):
        try:
            return await begun
        except BaseException as error:
            span.note(explain(error))
            raise


def find_trace_id() -> str:
    """Return the id of the current trace, ``""`` if nothing is exported."""
    current = CURRENT.get()
    return "" if current is None else current.trace_id


def propagated_headers() -> Mapping[str, str]:
    """Return the headers with which a request to another process continues the current trace, none without one."""
    current = CURRENT.get()
    return {} if current is None else current.headers


def describe_failure(error: BaseException) -> str:
    """Return the text of an error for a span; errors such as a cancellation have none."""
    return str(error) or type(error).__name__


if TYPE_CHECKING:
    from fleethook.tracing.otlp import OTLPTracing

_log: Final = logging.getLogger(__name__)
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_INSTALL: Final = "OpenTelemetry is not installed: install fleethook[otel]"


class TracingError(Exception):
    """The requested traces cannot be exported."""


def start_tracing(endpoint: str | None, environment: Mapping[str, str] = os.environ) -> "OTLPTracing | None":
    """Return the tracing of a process, None if no traces are wanted. The caller closes it.

    Traces are wanted if there is an endpoint, or one in the environment. The standard variables switch them off again
    with ``OTEL_SDK_DISABLED=true`` or ``OTEL_TRACES_EXPORTER=none``.

    Args:
        endpoint: The base URL of the collector; None to look for one in the environment.
        environment: The environment variables.

    Raises:
        TracingError: An endpoint is given, and OpenTelemetry is not installed. An endpoint in the environment only
            causes a warning then, because an operator may set it for every container.
    """
    found = endpoint or next((environment[name] for name in _ENDPOINTS if environment.get(name)), None)
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if found is None or is_off or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    if not all(map(_is_installed, _NEEDED)):
        if endpoint is not None:
            raise TracingError(f"--otlp-endpoint: {_INSTALL}")
        _log.warning("no traces are exported to %s: %s", found, _INSTALL)
        return None
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        _log.warning("traces are exported with %s: %s is not supported", _PROTOCOL, protocol)
    from fleethook.tracing.otlp import start_otlp  # noqa: PLC0415 - the packages are an extra

    return start_otlp(endpoint)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
