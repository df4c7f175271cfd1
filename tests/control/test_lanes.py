import asyncio

import pytest

from app.control.lanes import Lanes, wait_for_turn


async def test_lanes_take_turns_and_each_lane_keeps_its_order() -> None:
    lanes = Lanes()
    turns = {name: lanes.join(name[0]) for name in ("a1", "a2", "a3", "b1")}
    order = [lanes.next() for _ in range(4)]
    assert order == [turns[name] for name in ("a1", "b1", "a2", "a3")]
    assert lanes.next() is None
    assert not lanes


async def test_a_cancelled_turn_is_left_out() -> None:
    lanes = Lanes()
    gone, kept = lanes.join("a"), lanes.join("a")
    gone.cancel()
    assert lanes.next() is kept


@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_turn_is_given_back_if_its_task_is_cancelled_after_it_got_it(*, has_turn: bool) -> None:
    turn, given_back = Lanes().join("a"), list[str]()
    task = asyncio.create_task(wait_for_turn(turn, give_back=lambda: given_back.append("once")))
    await asyncio.sleep(0)
    if has_turn:
        turn.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert given_back == (["once"] if has_turn else [])


async def test_a_turn_is_kept_after_the_wait() -> None:
    turn, given_back = Lanes().join("a"), list[str]()
    turn.set_result(None)
    await wait_for_turn(turn, give_back=lambda: given_back.append("once"))
    assert given_back == []
