"""The memory of request bodies, and its shares."""

import asyncio
import json
import sys

import msgspec
import pytest

from fleethook.server.protocol.body_limit import RequestError, read_body
from fleethook.server.protocol.body_memory import (
    DECODED_BYTES_PER_BYTE,
    BodyBudget,
    BodyCharge,
    OverBudgetError,
    client_of,
    count_decoded,
)
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
