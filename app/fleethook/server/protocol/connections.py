"""The connections of one server process: their limit, and the choice of connections that are closed for new ones.

The server admits a new connection as long as it can close another one, so that no client can shut out a kubelet by
holding connections. If all connections are being answered, it admits a few more for health checks only.
"""

import asyncio
import fcntl
import os
import resource
import socket
import sys
import termios
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fleethook.fair_limits import client_of, name_account
from fleethook.server.protocol.bodies import BodyBudget
from fleethook.server_settings import ServerSettings

# The search for connections to close visits all of them. Closing several at once makes it rare under a flood.
_CLOSED_AT_ONCE: Final = 32
_RESERVE_SHARE: Final = 64
_MIN_RESERVE: Final = 4


class ConnectionStage(IntEnum):
    """The state of a connection, in the order in which connections are closed for new ones."""

    UNPROVEN = 0
    """It has not sent a request: TLS handshake, silence, headers."""
    IDLE = 1
    """It waits for the next request. Clients expect servers to close such connections, and repeat their request."""
    WAITING = 2
    """It waits for its client: to send the rest of a request, or to read an answer."""
    ANSWERING = 3
    """The request has arrived, and the server works on its answer. It is never closed for another connection."""


class Exchange(Protocol):
    """The HTTP side of a connection, after the TLS handshake."""

    def stage(self) -> ConnectionStage:
        """Return the state of the connection."""

    def end(self) -> None:
        """Close the connection without waiting for the client."""


class ClientConnection:
    """One accepted connection.

    Attributes:
        address: The address of its client, from `client_of`.
        client: The client to which it counts: the address, or the logical cluster of its last request.
        health_only: Whether the server answers only health checks on it, since there are too many connections.
        exchange: Its HTTP side, None until the TLS handshake is complete.
        is_gone: Whether it has ended.
    """

    __slots__ = ("_socket", "_wait", "address", "client", "exchange", "health_only", "is_gone")

    def __init__(self, accepted: socket.socket, address: str, *, health_only: bool) -> None:
        """Take an accepted socket."""
        self._socket: Final = accepted
        self.address: Final = address
        self.client = address
        self.health_only: Final = health_only
        self.exchange: Exchange | None = None
        self._wait: asyncio.Future[None] | None = None
        self.is_gone = False

    @property
    def is_assigned(self) -> bool:
        """Whether it counts to a logical cluster."""
        return self.client is not self.address

    def assign(self, cluster: str) -> None:
        """Count the connection to the logical cluster of its last request, and no longer to the client's address.

        Args:
            cluster: A cluster whose reviews the client may have answered.
        """
        self.client = name_account(cluster)

    def wait_for(self, turn: "asyncio.Future[None]") -> None:
        """Take the turn for which the request of the connection waits. It is cancelled with the connection."""
        self._wait = turn
        if self.is_gone:
            turn.cancel()

    def leave(self) -> None:
        """Take note that the connection has ended."""
        self.is_gone = True
        if self._wait is not None:
            self._wait.cancel()

    def stage(self) -> ConnectionStage:
        """Return the state of the connection."""
        return ConnectionStage.UNPROVEN if self.exchange is None else self.exchange.stage()

    def end(self) -> None:
        """Close the connection."""
        if self.exchange is not None:
            self.exchange.end()
            return
        try:
            # The event loop owns the socket. It reads the end of the stream and closes the socket.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The client has closed it.
            return


class Connections:
    """All connections of a server process, oldest first."""

    def __init__(self, limit: int) -> None:
        """Allow ``limit`` connections, and some more for health checks."""
        self.limit: Final = limit
        self._reserve: Final = max(_MIN_RESERVE, limit // _RESERVE_SHARE)
        self._open: Final[dict[ClientConnection, None]] = {}
        self._health: Final[dict[ClientConnection, None]] = {}
        self.closed = 0
        """Connections that were closed to make room for others."""
        self.crowded = 0
        """Connections that were accepted for health checks only."""

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._open) + len(self._health)

    def admit(self, accepted: socket.socket, address: tuple[str, int] | None) -> ClientConnection:
        """Count an accepted connection of a client's address, and close others if there are too many."""
        client = client_of(address)
        if len(self._open) >= self.limit:
            count = max(1, self.limit // _CLOSED_AT_ONCE)
            for victim in choose_victims(self._open, newcomer=client, count=count):
                self._end(victim)
        health_only = len(self._open) >= self.limit
        connection = ClientConnection(accepted, client, health_only=health_only)
        self.crowded += health_only
        if health_only and len(self._health) >= self._reserve:
            self._end(next(iter(self._health)))
        (self._health if health_only else self._open)[connection] = None
        return connection

    def remove(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone."""
        self._open.pop(connection, None)
        self._health.pop(connection, None)
        connection.leave()

    def _end(self, connection: ClientConnection) -> None:
        # Its place is free at once, its memory in one of the next turns of the event loop.
        self._open.pop(connection, None)
        self._health.pop(connection, None)
        self.closed += 1
        connection.end()


def choose_victims(connections: Iterable[ClientConnection], *, newcomer: str, count: int) -> list[ClientConnection]:
    """Return up to ``count`` connections to close for a new one.

    Clients above their share lose connections first, and the client with most connections before others. Such a client
    loses silent connections, then idle ones, then those in the middle of a request or an answer. Logical clusters lose
    connections before addresses do, because a silent connection of an apiserver may become one of any cluster. A client
    within its share loses only silent and idle connections. Among equal connections, the oldest is closed first.

    Args:
        connections: All connections, oldest first.
        newcomer: The client of the new connection.
        count: The maximum number of returned connections.
    """
    client_connections = list(connections)
    held = Counter(connection.client for connection in client_connections)
    held[newcomer] += 1
    share = len(client_connections) / len(held)
    victims = []
    for place, connection in enumerate(client_connections):
        stage, size = connection.stage(), held[connection.client]
        if (
            stage is ConnectionStage.UNPROVEN
            or stage is ConnectionStage.IDLE
            or (stage is ConnectionStage.WAITING and size > share)
        ):
            is_greedy = size > share
            order = (not is_greedy, not (is_greedy and connection.is_assigned), -size if is_greedy else 0, stage, place)
            victims.append((*order, connection))
    victims.sort(key=lambda victim: victim[:-1])
    return [connection for *_, connection in victims[:count]]


# Seconds between two checks of a closing connection; enough for the event loop to write close_notify.
_LOOK_SECONDS: Final = 0.05


class ClosingProtocol(HttpToolsProtocol):
    """Ends idle connections at once at shutdown, and other connections after the client has received its answer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shutting_down = False
        self._end_timer: asyncio.TimerHandle | None = None

    def shutdown(self) -> None:
        """Start to close the connection: now if it is idle, else after the request in flight."""
        self._shutting_down = True
        has_all = self._count_unsent() == 0
        super().shutdown()
        self.end_when_closing(has_all=has_all)

    def on_response_complete(self) -> None:
        """Close the connection after the answer at shutdown."""
        super().on_response_complete()
        if self._shutting_down:
            self.end_when_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking the connection."""
        if self._end_timer is not None:
            self._end_timer.cancel()
        super().connection_lost(exc)

    def end_when_closing(self, *, has_all: bool = False) -> None:
        """End a connection that is closing at shutdown, without waiting for the client to close its side.

        Args:
            has_all: Whether the client had received all bytes before the connection was closed, so that only
                close_notify is in flight.
        """
        if self._shutting_down and self.transport.is_closing() and self._end_timer is None:
            self._look_again(looks_left=0 if has_all else 1)

    def close_at_once(self) -> None:
        """Close a connection that has nothing to send, without waiting for the client to close its side."""
        self.transport.close()
        if self._end_timer is None:
            self._look_again(looks_left=0)

    def _look_again(self, *, looks_left: int) -> None:
        self._end_timer = self.loop.call_later(_LOOK_SECONDS, self._look, looks_left)

    def _look(self, looks_left: int) -> None:
        if looks_left == 0:
            self.transport.abort()
        elif self._count_unsent():
            # The client still reads its answer; the shutdown timeout limits this.
            self._look_again(looks_left=1)
        else:
            # The event loop may hold more bytes and pass them to the system before the next check.
            self._look_again(looks_left=looks_left - 1)

    def _count_unsent(self) -> int:
        """Return the number of bytes that the client has not acknowledged, as far as TLS and the system know."""
        connected = self.transport.get_extra_info("socket")
        try:
            queued = None if connected is None else fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:
            queued = None
        if queued is None:
            # The connection is gone; the event loop calls connection_lost next.
            return 0
        return int.from_bytes(queued, sys.byteorder) + self.transport.get_write_buffer_size()


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


# The limits of connections and bodies, from the memory that the server may use:
#     max_connections    = memory / 4 / 1 MiB, at least 64, at most 16384 and at most the limit of open files - 256
#     body_memory        = memory / 4, at least twice body_limit
# The other half is for the objects, their compiled plans and the program. With the chart's limit of 1 GiB: 256
# connections and 256 MiB of bodies.
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
