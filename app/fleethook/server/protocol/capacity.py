"""The limits of connections and bodies, derived from the memory that the server may use, and their metrics.

    max_connections    = memory limit / 4 / 1 MiB, at least 64, at most 16384 and at most the limit of open files - 256
    body_memory        = memory limit / 4, at least twice body_limit

The other half of the memory is for the objects, their compiled plans and the program. With the chart's limit of 1 GiB:
256 connections and 256 MiB of bodies.
"""

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleethook.server.protocol.bodies import BodyBudget
from fleethook.server.protocol.connections import Connections
from fleethook.server_settings import ServerSettings

# Version 1 expresses "no limit" by the largest multiple of the page size; no machine has an exbibyte.
_NO_LIMIT = 1 << 60
# Files with the limit of a container, of version 2 and of version 1 of control groups.
_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")


def find_memory_limit(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use: the limit of its container, or the memory of the machine.

    Args:
        root: Directory that holds ``sys``.
    """
    found = (_read_limit(root / "sys/fs/cgroup" / name) for name in _LIMITS)
    return min([_physical_memory(), *(limit for limit in found if limit is not None)])


def _read_limit(file: Path) -> int | None:
    """Return the limit in a file, None without a file or a limit (``max``)."""
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return None
    return limit if limit < _NO_LIMIT else None


def _physical_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


_CONNECTION_BYTES: Final = 1024 * 1024
"""The approximate maximum memory of a connection of a hostile client. Measured with 100 connections: 58 KiB if silent,
173 KiB with unread answers, 612 KiB with a body that the server stops reading, 930 to 1,210 KiB with both."""

_SHARE: Final = 4
_MIN_CONNECTIONS: Final = 64
_MAX_CONNECTIONS: Final = 16384
# Files that are not connections of clients: manifests, watches, webhooks' connections, libraries.
_OTHER_FILES: Final = 256


class Capacity(NamedTuple):
    """Limits of one server process."""

    connections: int
    """Maximum number of open connections."""
    body_bytes: int
    """Maximum number of bytes of bodies and of the objects decoded from them."""


def derive_capacity(settings: ServerSettings, *, memory: int, open_files: int) -> Capacity:
    """Return the limits of the server; settings override the formula.

    Args:
        settings: The settings.
        memory: Bytes that the process may use.
        open_files: File descriptors that one process may have.
    """
    share = memory // _SHARE
    most = max(1, min(_MAX_CONNECTIONS, open_files - _OTHER_FILES))
    connections = min(most, max(_MIN_CONNECTIONS, share // _CONNECTION_BYTES))
    bodies = max(share, 2 * settings.body_limit)
    return Capacity(settings.max_connections or connections, settings.body_memory or bodies)


def find_capacity(settings: ServerSettings) -> Capacity:
    """Return the limits of this process."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if open_files == resource.RLIM_INFINITY:
        open_files = _MAX_CONNECTIONS + _OTHER_FILES
    return derive_capacity(settings, memory=find_memory_limit(), open_files=open_files)


class EdgeMetrics(Collector):
    """Connections and body memory, their limits, and counters of refusals."""

    def __init__(self, connections: Callable[[], Connections | None], bodies: BodyBudget) -> None:
        """Read both when the metrics are scraped; ``connections`` returns None before the server listens."""
        self._connections: Final = connections
        self._bodies: Final = bodies

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        connections, bodies = self._connections(), self._bodies
        if connections is not None:
            yield GaugeMetricFamily("fleethook_connections", "Open connections.", len(connections))
            yield GaugeMetricFamily(
                "fleethook_connections_limit",
                "Maximum number of open connections (max_connections).",
                connections.limit,
            )
            yield CounterMetricFamily(
                "fleethook_connections_closed",
                "Connections that were closed to make room for others.",
                connections.closed,
            )
            yield CounterMetricFamily(
                "fleethook_connections_health_only",
                "Connections beyond the limit, on which only health checks are answered.",
                connections.crowded,
            )
        yield GaugeMetricFamily(
            "fleethook_body_bytes", "Bytes charged for bodies and the objects decoded from them.", bodies.total
        )
        yield GaugeMetricFamily(
            "fleethook_body_bytes_limit", "Maximum number of bytes that may be charged (body_memory).", bodies.limit
        )
        yield CounterMetricFamily(
            "fleethook_bodies_refused", "Requests and answers that found no body memory in time.", bodies.refused
        )
