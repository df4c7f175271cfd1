"""Work that goes on at once as far as it can."""

import asyncio

import pytest

from fleethook.work.immediate_steps import Done, Steps, begin, finish


async def double(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return 2 * number


def add(*numbers: int) -> Steps[int]:
    """Return the sum of numbers; odd ones are doubled, which has to be waited for."""
    found = 0
    for number in numbers:
        try:
            found += (yield double(number)) if number % 2 else number
        except ValueError:
            found += 1_000
    return found


def fail() -> Steps[int]:
    yield from ()
    raise LookupError("nothing here")


def test_work_that_waits_for_nothing_is_done_at_once_without_an_event_loop() -> None:
    assert begin(add(2, 4)) == Done(6)


async def test_work_goes_on_with_what_it_has_waited_for() -> None:
    begun = begin(add(2, 3, 5, 4))
    assert not isinstance(begun, Done)
    assert await begun == 22


@pytest.mark.parametrize("numbers", [(2, 4), (1, 2), (2, 1)])
async def test_both_ways_return_the_same(numbers: tuple[int, ...]) -> None:
    assert await finish(add(*numbers)) == sum(2 * number if number % 2 else number for number in numbers)


async def test_an_error_is_raised_where_the_work_waits() -> None:
    assert await finish(add(-1, 3)) == 1_006


def test_an_error_before_any_waiting_is_raised_at_once() -> None:
    with pytest.raises(LookupError, match="nothing here"):
        begin(fail())


async def test_a_cancellation_ends_the_work_where_it_waits() -> None:
    ended: list[str] = []
    never = asyncio.Event()

    def wait() -> Steps[int]:
        try:
            yield never.wait()
        finally:
            ended.append("ended")
        return 1

    task = asyncio.create_task(finish(wait()))
    await asyncio.sleep(0)
    work_is_waiting = not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (work_is_waiting, ended) == (True, ["ended"])
