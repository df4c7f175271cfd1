import asyncio
import json
import sys
from typing import Any

import msgspec
import pytest

from app.api.body_limit import RequestError, read_body
from app.api.body_memory import (
    DECODED_BYTES_PER_BYTE,
    BodyBudget,
    BodyCharge,
    OverBudgetError,
    client_of,
    count_decoded,
)
from app.api.sending import PIECE_BYTES, PacedApp
from tests.waiting import settled

AT_ONCE = 0.0
LONG = 3600.0


async def test_one_client_gets_half_and_leaves_room_for_another() -> None:
    budget = BodyBudget(1000, max_wait=AT_ONCE)
    with BodyCharge(budget, "a") as first, BodyCharge(budget, "b") as other:
        await first.add(400)
        with BodyCharge(budget, "a") as second:
            await second.add(100)
            with pytest.raises(OverBudgetError):
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


async def test_released_bytes_are_reported() -> None:
    released: list[int] = []
    budget = BodyBudget(1000, released=released.append)
    with BodyCharge(budget, "a") as charge:
        await charge.add(10)
        await charge.add(20)
    assert released == [30]


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


@pytest.mark.parametrize("part", ["[]", "{}", "1.5", '{"":0}', '"ab"', '{"a":0,"b":0}', "[[]]"])
def test_the_worst_case_is_not_exceeded(part: str) -> None:
    body = f"[{','.join([part] * 1000)}]".encode()
    size = size_of(msgspec.json.decode(body))
    assert size <= DECODED_BYTES_PER_BYTE * len(body)
    assert size <= count_decoded(body)


def size_of(value: object) -> int:
    inner: list[object] = []
    if isinstance(value, list):
        inner = value
    elif isinstance(value, dict):
        inner = list(value.values())
    # Small numbers and texts of one character are shared.
    return 0 if value == 0 and isinstance(value, int) else sys.getsizeof(value) + sum(map(size_of, inner))


@pytest.mark.parametrize(
    ("address", "client"),
    [
        (None, ""),
        (("10.0.0.1", 5), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 5), "2001:db8:1:2::"),
        (("2001:db8:1:2:ffff::", 5), "2001:db8:1:2::"),
        (("::ffff:10.0.0.1", 5), "10.0.0.1"),
        (("fe80::1%eth0", 5), "fe80::"),
        (("not:an:address", 5), "not:an:address"),
    ],
)
def test_a_client_is_a_host_or_a_network_of_ipv6(address: tuple[str, int] | None, client: str) -> None:
    assert client_of(address) == client


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


async def answer_of(budget: BodyBudget, *sizes: int, sent: list[dict[str, object]] | None = None) -> Any:
    """The messages of an answer in parts of these sizes, with the bytes that were charged meanwhile."""
    messages: list[dict[str, object]] = [] if sent is None else sent

    async def app(scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for size in sizes:
            await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
        await send({"type": "http.response.body"})

    async def send(message: dict[str, object]) -> None:
        messages.append({**message, "held": budget.total})

    await PacedApp(app, budget)({"type": "http"}, None, send)  # type: ignore[arg-type]
    return messages


async def test_a_large_answer_is_sent_in_pieces_and_charged_until_its_end() -> None:
    budget = BodyBudget(10 * PIECE_BYTES)
    start, *pieces, end = await answer_of(budget, 2 * PIECE_BYTES + 1)
    assert start["status"] == 200
    assert [len(piece["body"]) for piece in pieces] == [PIECE_BYTES, PIECE_BYTES, 1]
    assert [piece["more_body"] for piece in (*pieces, end)] == [True, True, True, False]
    assert {piece["held"] for piece in pieces} == {2 * PIECE_BYTES + 1}
    assert budget.total == 0


async def test_a_large_answer_without_room_is_503() -> None:
    budget = BodyBudget(2 * PIECE_BYTES, max_wait=AT_ONCE)
    with BodyCharge(budget, "other") as other:
        await other.add(PIECE_BYTES)
        with BodyCharge(budget, "another") as another:
            await another.add(PIECE_BYTES // 2)
            start, body = await answer_of(budget, PIECE_BYTES + 1)
    assert (start["status"], body["type"]) == (503, "http.response.body")
    assert (b"retry-after", b"1") in start["headers"]


async def test_an_answer_that_has_begun_is_cut_if_there_is_no_room() -> None:
    budget, sent = BodyBudget(2 * PIECE_BYTES, max_wait=AT_ONCE), list[dict[str, object]]()
    with BodyCharge(budget, "other") as other, BodyCharge(budget, "another") as another:
        await other.add(PIECE_BYTES)
        await another.add(PIECE_BYTES // 2)
        with pytest.raises(OverBudgetError):
            await answer_of(budget, 10, PIECE_BYTES + 1, sent=sent)
    # The client sees that the answer is incomplete: nothing says that it has ended.
    assert [(message.get("status"), len(message.get("body", b""))) for message in sent] == [(200, 0), (None, 10)]  # type: ignore[arg-type]
    assert sent[-1]["more_body"]


async def test_a_small_answer_is_sent_as_it_is() -> None:
    budget = BodyBudget(1000)
    start, body, _ = await answer_of(budget, 10)
    assert (start["status"], body["body"], body["held"]) == (200, b"x" * 10, 0)
