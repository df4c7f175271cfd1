import asyncio

import pytest

from app.control.fair_queue import FairQueue, wait_for_turn


async def test_lanes_take_turns() -> None:
    queue = FairQueue()
    names = {queue.join(lane): name for lane, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"))}
    order = []
    while (turn := queue.next()) is not None:
        order.append(names[turn])
    assert order == ["a1", "b1", "c1", "a2", "a3"]
    assert not queue


async def test_a_lane_that_joins_again_is_behind_the_others() -> None:
    queue = FairQueue()
    queue.join("a")
    second = queue.join("b")
    queue.next()
    queue.join("a")
    assert queue.next() is second


async def test_cancelled_futures_are_skipped() -> None:
    queue = FairQueue()
    first, second = queue.join("a"), queue.join("a")
    first.cancel()
    assert bool(queue)
    assert queue.next() is second
    second.cancel()
    queue.join("b").cancel()
    assert queue.next() is None
    assert not queue


@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_turn_granted_to_a_cancelled_task_is_released(*, has_turn: bool) -> None:
    turn, given_back = FairQueue().join("a"), list[str]()
    task = asyncio.create_task(wait_for_turn(turn, give_back=lambda: given_back.append("once")))
    await asyncio.sleep(0)
    if has_turn:
        turn.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert given_back == (["once"] if has_turn else [])


async def test_a_turn_stays_after_the_wait() -> None:
    turn, given_back = FairQueue().join("a"), list[str]()
    turn.set_result(None)
    await wait_for_turn(turn, give_back=lambda: given_back.append("once"))
    assert given_back == []
