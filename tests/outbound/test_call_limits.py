"""Limits of calls: quotas and fair shares."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.outbound.call_limits import STARTS_PER_TURN, CallSlots, FullError, Quotas
from tests.hypothesis_profiles import examples
from tests.waiting import NET


class Calls:
    """Calls that the test ends."""

    def __init__(self, **quotas: int) -> None:
        self.slots = CallSlots(Quotas(**quotas))
        self.running: dict[asyncio.Task[None], tuple[str, str]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, consumer: str, endpoint: str = "e", *, seconds: float = NET) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._run(consumer, endpoint, seconds))
        self.tasks.append(task)
        return task

    async def _run(self, consumer: str, endpoint: str, seconds: float) -> None:
        async with self.slots.hold(consumer, endpoint, seconds=seconds):
            task = asyncio.current_task()
            assert task
            self.running[task] = (consumer, endpoint)
            try:
                await asyncio.Event().wait()
            finally:
                del self.running[task]

    @property
    def consumers(self) -> dict[str, int]:
        return dict(Counter(consumer for consumer, _ in self.running.values()))

    async def settle(self) -> None:
        for _ in range(2 * len(self.tasks) + 10):
            await asyncio.sleep(0)

    async def end(self, task: "asyncio.Task[None]") -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self.settle()


@pytest.mark.parametrize(
    ("quotas", "limit"),
    [({"connections": 1}, "connections"), ({"calls": 1}, "calls"), ({"total": 1}, "total")],
)
async def test_a_call_without_a_slot_in_time_fails_with_its_limit(quotas: dict[str, int], limit: str) -> None:
    calls = Calls(**quotas)
    calls.begin("ws2")
    await calls.settle()
    with pytest.raises(FullError) as raised:
        await calls.begin("ws2", seconds=0.01)
    assert raised.value.limit == limit
    assert calls.slots.refused[limit] == 1
    assert calls.slots.queued == 0


async def test_waiting_calls_of_a_consumer_are_limited() -> None:
    calls = Calls(calls=2)
    begun = [calls.begin("ws2") for _ in range(2 + 16 + 3)]
    await calls.settle()
    assert [type(task.exception()) for task in begun if task.done()] == [FullError] * 3
    assert calls.slots.queued == 16


async def test_a_slot_granted_to_a_cancelled_call_is_released() -> None:
    calls = Calls(connections=1)
    first, second = calls.begin("ws2"), calls.begin("ws2")
    await calls.settle()
    first.cancel()
    while calls.slots.queued:
        await asyncio.sleep(0)
    assert (calls.slots.under_way, calls.running) == (1, {}), "it is granted, and the call does not know yet"
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (calls.slots.under_way, calls.slots._slots._lanes) == (0, {})


steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from("abc"), st.sampled_from("ef")),
        st.tuples(st.just("end"), st.integers(0, 20), st.just("")),
        st.tuples(st.just("turn"), st.just(""), st.just("")),
        st.tuples(st.just("tick"), st.just(""), st.just("")),
    ),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(steps, st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_quotas_hold_and_no_call_waits_without_reason(made: Any, connections: int, most: int, total: int) -> None:
    async def run() -> None:
        calls = Calls(connections=connections, calls=most, total=total)
        for action, what, endpoint in made:
            if action == "begin":
                calls.begin(what, endpoint)
            elif action == "end" and what < len(calls.tasks):
                calls.tasks[what].cancel()
            elif action == "turn":
                await calls.settle()
            elif action == "tick":
                await asyncio.sleep(0)
            _check_bounds(calls, connections, most, total)
        await calls.settle()
        _check_bounds(calls, connections, most, total)
        _check_no_slot_is_free(calls, connections, most, total)
        for task in calls.tasks:
            task.cancel()
        await asyncio.gather(*calls.tasks, return_exceptions=True)
        assert (calls.slots._slots._lanes, calls.slots.under_way, calls.slots.queued) == ({}, 0, 0)

    asyncio.run(run())


def _check_bounds(calls: Calls, connections: int, most: int, total: int) -> None:
    assert all(count <= connections for count in Counter(calls.running.values()).values())
    assert all(count <= most for count in calls.consumers.values())
    assert len(calls.running) <= 2 * total


def _check_no_slot_is_free(calls: Calls, connections: int, most: int, total: int) -> None:
    for consumer, state in calls.slots._slots._lanes.items():
        count = calls.consumers.get(consumer, 0)
        for endpoint in state.waiting:
            full = list(calls.running.values()).count((consumer, str(endpoint))) >= connections or count >= most
            assert full or len(calls.running) >= (total if count else 2 * total)


async def test_retries_and_new_calls_share_the_starts_of_an_iteration() -> None:
    slots = CallSlots(Quotas())
    turns: list[int] = []
    turn = 0

    async def repeat() -> None:
        await slots.take_turn()
        turns.append(turn)

    tasks = [asyncio.create_task(repeat()) for _ in range(3 * STARTS_PER_TURN)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turn += 1
    assert max(Counter(turns).values()) <= STARTS_PER_TURN
