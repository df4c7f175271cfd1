"""Reviews that arrive in several reads: the memory that they hold, and the path that answers after interruptions."""

from typing import Any

import pytest

from fleethook.server.protocol.connections import Stage
from tests.server.direct_connections import LIMIT, TURNS, Neighbour, Wire, app_for_tests, encode, long_review

BODY = long_review(20_000)
REQUEST = encode(BODY)
HALF = len(REQUEST) // 2
ONE_WRITE = 1
BY_ASGI = 2
"""Writes of an answer: head and body together, or one after the other."""


async def arriving(**settings: Any) -> tuple[Any, Wire]:
    """Return an app, and a connection to it by which half of a review has arrived."""
    app = app_for_tests(**settings)
    wire = Wire(app, direct=True)
    await wire.read(REQUEST[:HALF])
    return app, wire


async def test_a_review_is_counted_and_charged_while_it_arrives() -> None:
    app, wire = await arriving()
    assert wire.protocol.is_collecting
    assert not wire.state.tasks
    assert app.metrics.in_flight == 1
    assert app.bodies.total == HALF - REQUEST.index(b"{")
    await wire.read(REQUEST[HALF:])
    assert (app.metrics.in_flight, app.bodies.total) == (0, 0)
    assert (await wire.end()).writes == ONE_WRITE


async def test_a_connection_whose_first_review_arrives_is_not_unproven() -> None:
    _, wire = await arriving()
    assert wire.protocol.stage() is Stage.WAITING
    await wire.read(REQUEST[HALF:])
    assert wire.protocol.stage() is Stage.IDLE
    await wire.end()


async def test_a_client_that_leaves_releases_its_memory() -> None:
    app, wire = await arriving()
    assert (await wire.end()).received == b""
    assert (app.metrics.in_flight, app.bodies.total) == (0, 0)


async def test_a_review_that_is_too_slow_is_answered_with_408() -> None:
    app, wire = await arriving()
    # The timer of a body runs, as on the other path; the test ends it instead of waiting.
    assert wire.protocol._timer is not None
    wire.protocol._expire()
    assert (app.metrics.in_flight, app.bodies.total) == (0, 0)
    outcome = await wire.end()
    assert (outcome.received.split(b"\r\n")[0], outcome.is_closed) == (b"HTTP/1.1 408 Request Timeout", True)


async def test_a_review_without_room_for_its_rest_is_left_to_the_app() -> None:
    app, wire = await arriving()
    neighbour = Neighbour(app)
    neighbour.take()
    await wire.read(REQUEST[HALF:-1])
    assert not wire.protocol.is_collecting
    assert len(wire.state.tasks) == 1
    neighbour.give_back()
    await wire.read(REQUEST[-1:])
    outcome = await wire.end()
    assert (outcome.received[:15], outcome.writes) == (b"HTTP/1.1 200 OK", BY_ASGI)


async def test_a_server_that_starts_to_drain_closes_after_the_answer() -> None:
    app, wire = await arriving()
    app.draining = True
    await wire.read(REQUEST[HALF:])
    outcome = await wire.end()
    assert (outcome.writes, outcome.is_closed) == (BY_ASGI, True)
    assert b"connection: close" in outcome.received


async def test_a_shutdown_waits_for_the_rest_of_a_review() -> None:
    _, wire = await arriving()
    await wire.shut_down()
    assert not wire.transport.is_closed
    await wire.read(REQUEST[HALF:])
    outcome = await wire.end()
    assert (outcome.received[:15], outcome.is_closed) == (b"HTTP/1.1 200 OK", True)


async def test_a_client_that_stops_to_read_meanwhile_is_left_to_the_app() -> None:
    _, wire = await arriving()
    wire.protocol.pause_writing()
    await wire.read(REQUEST[HALF:])
    assert wire.transport.writes == []
    wire.protocol.resume_writing()
    await wire.read(b"\r\n")
    assert (await wire.end()).writes == BY_ASGI


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (encode(BODY, "Content-Type: text/plain"), b"415"),
        (encode(b" " * (LIMIT + 1)), b"413"),
    ],
    ids=["type", "length"],
)
async def test_a_refused_review_is_answered_before_its_body(head: bytes, status: bytes) -> None:
    wire = Wire(app_for_tests(), direct=True)
    await wire.read(head[:400])
    assert b"".join(wire.transport.writes).split()[1] == status
    await wire.end()


async def test_a_review_in_single_bytes_is_kept_in_one_buffer() -> None:
    _, wire = await arriving()
    for place in range(HALF, HALF + TURNS):
        await wire.read(REQUEST[place : place + 1])
    assert isinstance(wire.protocol._body, bytearray)
    await wire.read(REQUEST[HALF + TURNS :])
    assert (await wire.end()).writes == ONE_WRITE
