import socket
from collections.abc import Iterator

import pytest

from app.api.connections import Connection, Connections, Stage, choose_victims

UNPROVEN, IDLE, WAITING, ANSWERING = Stage


class Held:
    """The HTTP side of a connection in a state."""

    def __init__(self, stage: Stage) -> None:
        self.found = stage
        self.ended = False

    def stage(self) -> Stage:
        return self.found

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def accepted() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def connection(client: str, stage: Stage, accepted: socket.socket) -> Connection:
    made = Connection(accepted, client, health_only=False)
    made.exchange = Held(stage)
    return made


@pytest.mark.parametrize(
    ("held", "newcomer", "victims"),
    [
        # Of one client: silent connections, then idle ones, each the oldest first, then those that wait for the client.
        ([("a", WAITING), ("a", IDLE), ("a", UNPROVEN), ("a", IDLE)], "a", [2, 1, 3, 0]),
        ([("a", ANSWERING), ("a", ANSWERING)], "b", []),
        # A client beyond its share loses connections that another one within its share would keep.
        ([("b", IDLE), ("a", WAITING), ("a", WAITING), ("a", WAITING)], "b", [1, 2, 3, 0]),
        ([("b", UNPROVEN), ("a", IDLE), ("a", UNPROVEN), ("a", IDLE)], "b", [2, 1, 3, 0]),
        # A client within its share loses no request that has begun.
        ([("a", WAITING), ("b", WAITING), ("c", IDLE)], "d", [2, 0, 1]),
        ([("a", ANSWERING), ("a", ANSWERING), ("b", WAITING)], "c", []),
    ],
)
def test_the_choice_of_connections_that_are_closed(
    held: list[tuple[str, Stage]], newcomer: str, victims: list[int], accepted: socket.socket
) -> None:
    found = [connection(client, stage, accepted) for client, stage in held]
    chosen = choose_victims(found, newcomer=newcomer, count=9)
    assert [found.index(victim) for victim in chosen] == victims
    assert choose_victims(found, newcomer=newcomer, count=1) == chosen[:1]


def test_a_logical_cluster_above_its_share_loses_connections_before_the_address_of_all_clusters(
    accepted: socket.socket,
) -> None:
    found = [connection("10.0.0.1", stage, accepted) for stage in (UNPROVEN, UNPROVEN, ANSWERING, IDLE, IDLE, IDLE)]
    for number, cluster in ((2, "ws2"), (3, "ws2"), (4, "ws2"), (5, "ws3")):
        found[number].assign(cluster)
    chosen = choose_victims(found, newcomer="10.0.0.1", count=9)
    assert [found.index(victim) for victim in chosen] == [3, 4, 0, 1, 5]


def test_a_new_connection_takes_the_place_of_an_idle_one(accepted: socket.socket) -> None:
    connections = Connections(2)
    first, second = (connections.admit(accepted, ("10.0.0.1", port)) for port in (1, 2))
    first.exchange, second.exchange = Held(ANSWERING), Held(IDLE)
    third = connections.admit(accepted, ("10.0.0.1", 3))
    assert (first.exchange.ended, second.exchange.ended, third.health_only, len(connections)) == (False, True, False, 2)


def test_beyond_the_limit_connections_are_for_health_checks_and_the_newest_stay(accepted: socket.socket) -> None:
    connections = Connections(1)
    connections.admit(accepted, ("10.0.0.1", 1)).exchange = Held(ANSWERING)
    further = [connections.admit(accepted, ("10.0.0.1", port)) for port in range(5)]
    assert [one.health_only for one in further] == [True] * 5
    assert len(connections) == 5
    # The first of them was closed for the fifth; it had not finished its TLS handshake.
    with pytest.raises(BrokenPipeError):
        accepted.send(b"x")


def test_a_connection_that_is_gone_makes_room(accepted: socket.socket) -> None:
    removed: list[int] = []
    connections = Connections(1, removed=lambda: removed.append(1))
    first = connections.admit(accepted, None)
    first.exchange = Held(ANSWERING)
    connections.remove(first)
    assert not connections.admit(accepted, None).health_only
    assert removed == [1]
