"""Work that pauses or waits."""

import asyncio

import pytest

from fleethook.work.pausing import Done, Pauses, Slice, Work, begin, do_at_once


async def double(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return 2 * number


def add(*numbers: int) -> Work[int]:
    """Return the sum of numbers; odd ones are doubled, and the work waits for that."""
    found = 0
    for number in numbers:
        try:
            found += (yield double(number)) if number % 2 else number
        except ValueError:
            found += 1_000
    return found


def fail() -> Work[int]:
    yield from ()
    raise LookupError("nothing here")


def test_work_that_waits_for_nothing_is_done_at_once_without_an_event_loop() -> None:
    assert begin(add(2, 4)) == Done(6)


async def test_work_goes_on_with_the_result_of_each_awaitable() -> None:
    begun = begin(add(2, 3, 5, 4))
    assert not isinstance(begun, Done)
    assert await begun == 22


@pytest.mark.parametrize("numbers", [(2, 4), (1, 2), (2, 1)])
async def test_begun_work_can_be_awaited_whether_it_waits_or_not(numbers: tuple[int, ...]) -> None:
    assert await begin(add(*numbers)) == sum(2 * number if number % 2 else number for number in numbers)


async def test_an_error_is_raised_where_the_work_waits() -> None:
    assert await begin(add(-1, 3)) == 1_006


def test_an_error_before_any_waiting_is_raised_at_once() -> None:
    with pytest.raises(LookupError, match="nothing here"):
        begin(fail())


async def test_a_cancellation_ends_the_work_where_it_waits() -> None:
    ended: list[str] = []
    never = asyncio.Event()

    def wait() -> Work[int]:
        try:
            yield never.wait()
        finally:
            ended.append("ended")
        return 1

    async def run() -> int:
        return await begin(wait())

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    work_is_waiting = not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (work_is_waiting, ended) == (True, ["ended"])


def test_work_without_waiting_is_done_at_once() -> None:
    seen: list[str] = []

    def work() -> Work[str]:
        for step in (None, Slice.READS_STORE, Slice.PURE):
            seen.append("slice")
            assert (yield step) is None
        return (yield lambda: "done")

    def broken() -> Work[None]:
        yield
        raise ValueError("broken")

    assert do_at_once(work()) == "done"
    assert seen == ["slice"] * 3
    with pytest.raises(ValueError, match="broken"):
        do_at_once(broken())


def test_work_that_waits_cannot_be_done_at_once() -> None:
    def work() -> Work[int]:
        return (yield Done(2))

    with pytest.raises(TypeError, match=r"the work waits for Done\(result=2\); run the work with begin"):
        do_at_once(work())


def test_a_pause_is_due_at_the_limit_of_units() -> None:
    pauses = Pauses(3)
    assert [pauses.due() for _ in range(7)] == [False, False, True, False, False, True, False]
    assert pauses.due(5)
    assert not pauses.due(2)
