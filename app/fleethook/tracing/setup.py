"""Decides whether a process exports traces, and starts that."""

import importlib.util
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

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
