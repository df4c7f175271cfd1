"""The rate, the concurrency and the order of turns."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fleethook.work.rate_limit import RateLimiter, TokenBucket
from tests.work.clock import FakeClock


def test_a_bucket_allows_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(10, burst=3)
    assert [round(bucket.take(1000.0), 6) for _ in range(5)] == [1000, 1000, 1000, 1000.1, 1000.2]
    assert [round(bucket.take(1100.0), 6) for _ in range(4)] == [1100, 1100, 1100, 1100.1]


def test_next_does_not_take_a_token() -> None:
    bucket = TokenBucket(10, burst=1)
    bucket.take(1000.0)
    assert round(bucket.next(1000.0), 6) == round(bucket.next(1000.0), 6) == 1000.1


class Callers:
    """Callers that hold their turn until the test ends it."""

    def __init__(self, pace: RateLimiter, clock: FakeClock) -> None:
        self.pace, self.clock = pace, clock
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def call(self, name: str, *, lane: str = "") -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, lane))

    async def _hold(self, name: str, lane: str) -> None:
        async with self.pace.turn(lane):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, name: str, *, after: float = 0) -> None:
        """End a running turn after some seconds."""
        assert name in self.begun
        self.clock.advance(after)
        self._ends[name].set()
        await self._tasks[name]
        await settle()

    def cancel(self, name: str) -> None:
        self._tasks[name].cancel()

    async def cancel_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.wait(self._tasks.values())


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def callers(clock: FakeClock, *, per_second: float = 10, at_once: int = 2) -> AsyncIterator[Callers]:
    made = Callers(RateLimiter(per_second, at_once=at_once, scheduler=clock), clock)
    yield made
    await made.cancel_all()


async def test_concurrent_turns_are_limited() -> None:
    async with callers(FakeClock(), per_second=1000) as made:
        for name in "abc":
            made.call(name)
        await settle()
        assert made.begun == ["a", "b"]
        await made.end("a", after=1)
        assert made.begun == ["a", "b", "c"]


async def test_turns_per_second_are_limited() -> None:
    clock = FakeClock()
    async with callers(clock, at_once=2) as made:
        for name in "abcd":
            made.call(name)
        await settle()
        for name in "ab":
            await made.end(name)
        assert made.begun == ["a", "b"]
        clock.advance(0.1)
        await settle()
        assert made.begun == ["a", "b", "c"]
        clock.advance(0.1)
        await settle()
        assert made.begun == ["a", "b", "c", "d"]


async def test_a_lane_with_many_calls_does_not_delay_another() -> None:
    async with callers(FakeClock(), per_second=1000, at_once=1) as made:
        for number in range(50):
            made.call(f"big{number}", lane="big")
        await settle()
        made.call("small", lane="small")
        await settle()
        await made.end("big0", after=1)
        await made.end("big1", after=1)
        assert made.begun == ["big0", "big1", "small"]


async def test_a_cancelled_call_takes_no_turn_and_releases_its_turn() -> None:
    clock = FakeClock()
    async with callers(clock, per_second=1000, at_once=1) as made:
        for name in "abc":
            made.call(name)
        await settle()
        made.cancel("b")
        await settle()
        clock.advance(1)
        made.cancel("a")
        await settle()
        assert made.begun == ["a", "c"]


async def test_a_call_cancelled_at_the_grant_releases_its_turn() -> None:
    async with callers(FakeClock(), per_second=1000, at_once=1) as made:
        async with made.pace.turn(""):
            for name in "bc":
                made.call(name)
            await settle()
            made.clock.advance(1)
        # The turn was granted to b, but b has not run since.
        made.cancel("b")
        made.clock.advance(1)
        await settle()
        made.clock.advance(1)
        await settle()
        assert made.begun == ["c"]
