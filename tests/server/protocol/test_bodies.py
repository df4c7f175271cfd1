"""The memory of request bodies, and its shares."""

import asyncio
import json
import sys
from collections.abc import MutableMapping
from typing import Any

import pytest

from fleethook.fair_limits import LimitError
from fleethook.model.admission import allowed
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.bodies import (
    DECODED_BYTES_PER_BYTE,
    PIECE_BYTES,
    BodyBudget,
    BodyCharge,
    Reply,
    RequestError,
    count_decoded,
    read_body,
    send_body,
    send_reply,
)
from fleethook.server.protocol.connections import ConnectionStage
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from tests.asgi_client import call
from tests.server.direct_connections import LIMIT, Neighbour, Wire, app_for_tests, encode, long_review
from tests.waiting import settled

AT_ONCE = 0.0
LONG = 3600.0


async def test_one_client_gets_half_and_leaves_room_for_another() -> None:
    budget = BodyBudget(1000, max_wait=AT_ONCE)
    with BodyCharge(budget, "a") as first, BodyCharge(budget, "b") as other:
        await first.add(400)
        with BodyCharge(budget, "a") as second:
            await second.add(100)
            with pytest.raises(LimitError):
                await second.add(1)
        await other.add(200)
        assert budget.total == 600
    assert budget.total == 0


async def test_a_single_request_finds_room_at_any_size() -> None:
    budget = BodyBudget(1000, max_wait=AT_ONCE)
    with BodyCharge(budget, "a") as charge:
        await charge.add(300)
        await charge.add(5000)
        assert budget.total == budget.largest == 500


async def test_a_request_waits_until_another_one_is_answered() -> None:
    budget = BodyBudget(1000, max_wait=LONG)
    with BodyCharge(budget, "a") as late:
        with BodyCharge(budget, "a") as early:
            await early.add(500)
            waiting = asyncio.create_task(late.add(300))
            await settled(lambda: budget._waiting)
            assert not waiting.done()
        await waiting
        assert budget.total == 300


async def test_decoded_objects_are_counted_if_the_worst_case_finds_no_room() -> None:
    body = json.dumps({"text": "x" * 100}).encode()
    assert count_decoded(body) < DECODED_BYTES_PER_BYTE * len(body)
    budget = BodyBudget(4 * count_decoded(body), max_wait=AT_ONCE)
    with BodyCharge(budget, "other") as other, BodyCharge(budget, "third") as third, BodyCharge(budget, "a") as charge:
        await other.add(2 * count_decoded(body))
        await third.add(count_decoded(body) // 2)
        before = budget.total
        await charge.add_decoded(body)
        assert budget.total == before + count_decoded(body)


def size_of(value: object) -> int:
    inner: list[object] = []
    if isinstance(value, list):
        inner = value
    elif isinstance(value, dict):
        inner = list(value.values())
    # Small numbers and texts of one character are shared.
    return 0 if value == 0 and isinstance(value, int) else sys.getsizeof(value) + sum(map(size_of, inner))


async def test_a_body_without_room_gets_503_and_is_not_read_further() -> None:
    budget = BodyBudget(1000, max_wait=AT_ONCE)
    asked = 0

    async def receive() -> dict[str, object]:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * 300, "more_body": True}

    with BodyCharge(budget, "other") as other, BodyCharge(budget, "a") as charge:
        await other.add(450)
        with pytest.raises(RequestError) as refused:
            await read_body(receive, limit=10_000, charge=charge)
    assert (refused.value.code, refused.value.retry_after, asked) == (503, 1, 2)
    assert "body_memory" in str(refused.value)


PATH = "/review"
REVIEW = json.dumps({
    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1", "operation": "CREATE"},
}).encode()  # fmt: skip


@pytest.fixture
def endpoint() -> AdmissionEndpoint:
    return AdmissionEndpoint(PATH, lambda _: allowed(), metrics=Metrics(), body_limit=20_000, log=None)


@pytest.mark.parametrize(
    "headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/yaml"},
                {"Content-Type": "application/json", "Content-Encoding": "gzip"}],
)  # fmt: skip
async def test_another_content_type_is_415(endpoint: AdmissionEndpoint, headers: dict[str, str]) -> None:
    answer = await call(endpoint, PATH, REVIEW, headers=headers)
    assert (answer.status, answer.json()["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_413(endpoint: AdmissionEndpoint, announced: bool) -> None:
    headers = {"content-type": "application/json"} | ({"content-length": "20001"} if announced else {})
    chunks = [b"{}"] if announced else [b" " * 10_000, b" " * 10_001]
    answer = await call(endpoint, PATH, *chunks, headers=headers)
    assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.json()["message"] == "the body is larger than 20000 bytes"


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
    assert wire.protocol.stage() is ConnectionStage.WAITING
    await wire.read(REQUEST[HALF:])
    assert wire.protocol.stage() is ConnectionStage.IDLE
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


async def test_a_large_answer_is_sent_in_pieces() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await send_body(send, b"x" * (2 * PIECE_BYTES + 1))
    assert [(len(one["body"]), one["more_body"]) for one in sent] == [
        (PIECE_BYTES, True), (PIECE_BYTES, True), (1, False),
    ]  # fmt: skip


async def test_an_answer_is_sent_with_its_headers() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    reply = Reply(429, b'{"a":1}', ((b"retry-after", b"1"),))
    await send_reply(send, reply)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"7"), (b"retry-after", b"1")]
    assert sent[0] == {"type": "http.response.start", "status": 429, "headers": headers}
    assert b"".join(one.get("body", b"") for one in sent[1:]) == b'{"a":1}'
    assert not sent[-1].get("more_body")
