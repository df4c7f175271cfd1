"""The connections of one server process: their limit, and the choice of connections that are closed for new ones.

The server admits a new connection as long as it can close another one, so that no client can shut out a kubelet by
holding connections. If all connections are being answered, it admits a few more for health checks only.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, Protocol

from app.api.body_memory import client_of

# The search for connections to close visits all of them. Closing several at once makes it rare under a flood.
_CLOSED_AT_ONCE: Final = 32
_RESERVE_SHARE: Final = 64
_MIN_RESERVE: Final = 4


class Stage(IntEnum):
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

    def stage(self) -> Stage:
        """Return the state of the connection."""

    def end(self) -> None:
        """Close the connection without waiting for the client."""


class Connection:
    """One accepted connection.

    Attributes:
        client: The client to which it counts: from `client_of`, or the logical cluster of its last request.
        is_assigned: Whether it counts to a logical cluster.
        health_only: Whether the server answers only health checks on it, since there are too many connections.
        exchange: Its HTTP side, None until the TLS handshake is complete.
    """

    __slots__ = ("_socket", "client", "exchange", "health_only", "is_assigned")

    def __init__(self, accepted: socket.socket, client: str, *, health_only: bool) -> None:
        self._socket: Final = accepted
        self.client = client
        self.is_assigned = False
        self.health_only: Final = health_only
        self.exchange: Exchange | None = None

    def assign(self, cluster: str) -> None:
        """Count the connection to the logical cluster of its last request, and no longer to the client's address."""
        self.client, self.is_assigned = f"logical cluster {cluster}", True

    def stage(self) -> Stage:
        """Return the state of the connection."""
        return Stage.UNPROVEN if self.exchange is None else self.exchange.stage()

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

    def __init__(self, limit: int, *, removed: Callable[[], None] | None = None) -> None:
        """Allow ``limit`` connections, and some more for health checks.

        Args:
            limit: The maximum number of connections.
            removed: Called when a connection is gone.
        """
        self.limit: Final = limit
        self._reserve: Final = max(_MIN_RESERVE, limit // _RESERVE_SHARE)
        self._removed: Final = removed
        self._open: Final[dict[Connection, None]] = {}
        self._health: Final[dict[Connection, None]] = {}
        self.closed = 0
        """Connections that were closed to make room for others."""
        self.crowded = 0
        """Connections that were accepted for health checks only."""

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._open) + len(self._health)

    def admit(self, accepted: socket.socket, address: tuple[str, int] | None) -> Connection:
        """Count an accepted connection, and close others if there are too many.

        Args:
            accepted: Its socket.
            address: Of the client.
        """
        client = client_of(address)
        if len(self._open) >= self.limit:
            self._make_room(client)
        health_only = len(self._open) >= self.limit
        connection = Connection(accepted, client, health_only=health_only)
        self.crowded += health_only
        if health_only and len(self._health) >= self._reserve:
            self._end(next(iter(self._health)))
        (self._health if health_only else self._open)[connection] = None
        return connection

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        self._open.pop(connection, None)
        self._health.pop(connection, None)
        if self._removed is not None:
            self._removed()

    def _make_room(self, client: str) -> None:
        count = max(1, self.limit // _CLOSED_AT_ONCE)
        for connection in choose_victims(self._open, newcomer=client, count=count):
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        # Its place is free at once, its memory in one of the next turns of the event loop.
        self._open.pop(connection, None)
        self._health.pop(connection, None)
        self.closed += 1
        connection.end()


def choose_victims(connections: Iterable[Connection], *, newcomer: str, count: int) -> list[Connection]:
    """Return up to ``count`` connections to close for another one.

    Clients above their share lose connections first: silent ones, then idle ones, then those in the middle of a request
    or an answer. Logical clusters lose theirs before addresses do, because a silent connection of an apiserver may
    become one of any cluster. A client within its share loses only silent and idle connections. Among equal
    connections, the oldest is closed first.

    Args:
        connections: All connections, oldest first.
        newcomer: The client of the new connection.
        count: The maximum number of returned connections.
    """
    found = list(connections)
    held = Counter(connection.client for connection in found)
    held[newcomer] += 1
    share = len(found) / len(held)
    victims = []
    for place, connection in enumerate(found):
        stage, is_greedy = connection.stage(), held[connection.client] > share
        if stage is Stage.ANSWERING or (stage is Stage.WAITING and not is_greedy):
            continue
        victims.append((not is_greedy, not (is_greedy and connection.is_assigned), stage, place, connection))
    victims.sort(key=lambda victim: victim[:4])
    return [connection for *_, connection in victims[:count]]
