import asyncio

from fleethook.work.scheduler import LoopScheduler, sleep
from tests.work.clock import FakeClock


async def test_sleep_uses_the_time_of_the_scheduler() -> None:
    clock = FakeClock()
    sleeping = asyncio.create_task(sleep(clock, 30.0))
    await asyncio.sleep(0)
    clock.advance(29.0)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1.0)
    await asyncio.wait_for(sleeping, 60)


async def test_a_cancelled_sleep_cancels_its_timer() -> None:
    clock = FakeClock()
    sleeping = asyncio.create_task(sleep(clock, 30.0))
    await asyncio.sleep(0)
    sleeping.cancel()
    await asyncio.wait([sleeping])
    assert clock.next() == float("inf")


async def test_the_loop_scheduler_uses_the_running_loop() -> None:
    scheduler, called = LoopScheduler(), asyncio.Event()
    assert scheduler.time() <= asyncio.get_running_loop().time()
    scheduler.call_at(scheduler.time(), called.set)
    cancelled = scheduler.call_at(scheduler.time(), called.clear)
    cancelled.cancel()
    await asyncio.wait_for(called.wait(), 60)
