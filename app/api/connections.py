"""The connections of one server process: how many there are, and which of them give way to new ones.

A new connection always gets in as long as another one can be closed for it, so nobody can keep a kubelet out by holding
connections. If all connections are being answered, some more get in for health checks only.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, Protocol

from app.api.body_memory import client_of

# The search for connections to close looks at all of them. Closing several at once makes it rare under a flood.
_CLOSED_AT_ONCE: Final = 32
_RESERVE_SHARE: Final = 64
_MIN_RESERVE: Final = 4


class Stage(IntEnum):
    """The state of a connection, in the order in which connections are closed for new ones."""

    UNPROVEN = 0
    """It has not sent a request: TLS handshake, silence, headers."""
    IDLE = 1
    """It waits for the next request. Clients expect that such a connection is closed, and send their request again."""
    WAITING = 2
    """It waits for its client: for the rest of a request, or to have an answer read."""
    ANSWERING = 3
    """The request has arrived, the answer is under way. Such a connection is never closed for another one."""


class Exchange(Protocol):
    """The HTTP side of a connection, once it has one."""

    def stage(self) -> Stage:
        """Return the state of the connection."""

    def end(self) -> None:
        """Close the connection without waiting for the client."""


class Connection:
    """One accepted connection.

    Attributes:
        client: The client it counts for, as `client_of` returns it.
        health_only: Whether only health checks are answered, since there are too many connections.
        exchange: Its HTTP side, None until the TLS handshake is done.
    """

    __slots__ = ("_socket", "client", "exchange", "health_only")

    def __init__(self, accepted: socket.socket, client: str, *, health_only: bool) -> None:
        self._socket: Final = accepted
        self.client: Final = client
        self.health_only: Final = health_only
        self.exchange: Exchange | None = None

    def stage(self) -> Stage:
        """Return the state of the connection."""
        return Stage.UNPROVEN if self.exchange is None else self.exchange.stage()

    def end(self) -> None:
        """Close the connection."""
        if self.exchange is not None:
            self.exchange.end()
            return
        try:
            # The event loop holds the socket. It sees the end of the stream and closes it.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The client has closed it.
            return


class Connections:
    """All connections of a server process, oldest first."""

    def __init__(self, limit: int, *, removed: Callable[[], None] | None = None) -> None:
        """Allow ``limit`` connections, and some more for health checks.

        Args:
            limit: The number.
            removed: Called when a connection is gone.
        """
        self.limit: Final = limit
        self._reserve: Final = max(_MIN_RESERVE, limit // _RESERVE_SHARE)
        self._removed: Final = removed
        self._open: Final[dict[Connection, None]] = {}
        self._health: Final[dict[Connection, None]] = {}
        self.closed = 0
        """How many were closed to make room for others."""
        self.crowded = 0
        """How many were accepted for health checks only."""

    def __len__(self) -> int:
        """Return how many connections there are."""
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
        # Its memory is free in one of the next turns of the event loop, and its place at once.
        self._open.pop(connection, None)
        self._health.pop(connection, None)
        self.closed += 1
        connection.end()


def choose_victims(connections: Iterable[Connection], *, newcomer: str, count: int) -> list[Connection]:
    """Return up to ``count`` connections that are closed to make room for another one.

    Clients that hold more than their share lose connections first: those that are silent, then idle ones, then those
    half through a request or an answer. A client within its share loses only silent and idle ones. Among connections
    that are alike, the oldest goes first.

    Args:
        connections: All connections, oldest first.
        newcomer: The client of the new connection.
        count: The most that are returned.
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
        victims.append((not is_greedy, stage, place, connection))
    victims.sort(key=lambda victim: victim[:3])
    return [connection for *_, connection in victims[:count]]
