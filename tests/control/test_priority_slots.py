"""Slots with priority for short work."""

import asyncio

import pytest

from app.control.priority_slots import PrioritySlots


class Work:
    """Pieces of work that hold a slot until the test ends them."""

    def __init__(self, slots: PrioritySlots) -> None:
        self._slots = slots
        self.running: list[str] = []
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, name: str, lane: str, *, long: bool) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, lane, long=long))
        await settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await settled()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name]])
        await settled()

    async def _hold(self, name: str, lane: str, *, long: bool) -> None:
        async with self._slots.hold(lane, long=long):
            self.running.append(name)
            self.begun.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_long_work_leaves_a_slot_for_short_work() -> None:
    work = Work(PrioritySlots(3))
    for number in range(5):
        await work.add(f"long {number}", f"lane {number}", long=True)
    assert work.running == ["long 0", "long 1"]
    await work.add("short", "other", long=False)
    assert work.running == ["long 0", "long 1", "short"]


async def test_short_work_overtakes_waiting_long_work() -> None:
    work = Work(PrioritySlots(1))
    await work.add("first", "a", long=True)
    for number in range(16):
        await work.add(f"long {number}", f"lane {number}", long=True)
    await work.add("short", "honest", long=False)
    await work.end("first")
    assert work.running == ["short"]
    await work.end("short")
    assert work.running == ["long 0"]


async def test_lanes_take_turns() -> None:
    work = Work(PrioritySlots(1))
    await work.add("first", "a", long=False)
    for number in range(3):
        await work.add(f"a{number}", "a", long=False)
    await work.add("b0", "b", long=False)
    for name in ("first", "a0", "b0", "a1"):
        await work.end(name)
    assert work.begun == ["first", "a0", "b0", "a1", "a2"]


@pytest.mark.parametrize("given", [False, True])
async def test_the_slot_of_cancelled_work_is_granted_again(given: bool) -> None:
    work = Work(PrioritySlots(1))
    await work.add("first", "a", long=False)
    await work.add("gone", "b", long=False)
    await work.add("next", "c", long=False)
    if given:
        await work.end("first")
        assert work.running == ["gone"]
        await work.cancel("gone")
    else:
        await work.cancel("gone")
        await work.end("first")
    assert work.running == ["next"]


async def test_a_crowd_in_one_lane_leaves_the_reserved_slots_to_other_lanes() -> None:
    work = Work(PrioritySlots(4, reserved=2))
    for number in range(5):
        await work.add(f"crowd {number}", "crowd", long=False)
    assert work.running == ["crowd 0", "crowd 1"]
    for lane in "abc":
        await work.add(lane, lane, long=False)
    await work.add("a again", "a", long=False)
    assert work.running == ["crowd 0", "crowd 1", "a", "b"]
    await work.end("a")
    assert work.running == ["crowd 0", "crowd 1", "b", "c"]
    # A slot that is free beyond the reserved ones goes to any lane, in turns.
    for name in ("b", "c"):
        await work.end(name)
    assert work.running == ["crowd 0", "crowd 1", "a again"]
    await work.end("a again")
    await work.end("crowd 0")
    assert work.running == ["crowd 1", "crowd 2"]
