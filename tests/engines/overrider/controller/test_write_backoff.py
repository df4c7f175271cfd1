"""Tests of the pauses between writes of one workload."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.controller.write_backoff import Backoff, RateLimiter, TokenBucket
from fleethook.model.gvk import GroupKind
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


DEPLOYMENT = GroupKind("apps", "Deployment")
ONE = ObjectKey("", DEPLOYMENT, "default", "one")


def backoff(jitter: float = 1.0, *, retries: float = 5.0) -> Backoff:
    return Backoff(retries_per_second=retries, longest=600.0, jitter=lambda: jitter)


def write_repeatedly(made: Backoff, until: float, *, digest: str = "d", start: float = 0.0) -> list[float]:
    """Write repeatedly as soon as the backoff allows it; return the times of the writes."""
    times, now = [], start
    while now <= until:
        now = made.due(ONE, digest, now)
        if now <= until:
            made.wrote(ONE, digest, now)
            made.ended(ONE, "conflict")
            times.append(now)
    return times


def test_a_permanent_conflict_has_growing_pauses() -> None:
    assert write_repeatedly(backoff(), 3000) == [0, 2, 8, 26, 80, 242, 728, 1328, 1928, 2528]


@pytest.mark.parametrize("jitter", [0.8, 1.2])
def test_the_first_minute_has_four_writes_with_any_jitter(jitter: float) -> None:
    assert len(write_repeatedly(backoff(jitter), 60)) == 4


@given(st.lists(st.floats(0.0, 5.0), min_size=60, max_size=60))
def test_no_order_of_events_causes_more_writes(events: list[float]) -> None:
    """Each event of any client asks whether the workload may be written."""
    made, now, writes = backoff(0.8), 0.0, 0
    for pause in events:
        now += pause
        if now > 60:
            break
        if made.due(ONE, "d", now) <= now:
            made.wrote(ONE, "d", now)
            made.ended(ONE, "")
            writes += 1
    assert writes <= 5


def test_another_hash_is_written_at_once_and_resets_the_backoff() -> None:
    made = backoff()
    write_repeatedly(made, 60)
    assert made.due(ONE, "other", 60) == 60
    made.wrote(ONE, "other", 60)
    assert made.due(ONE, "other", 60) == 62


def test_a_long_time_without_a_write_resets_the_backoff() -> None:
    made = backoff()
    made.wrote(ONE, "d", 0)
    assert made.due(ONE, "d", 121) == 121
    made.wrote(ONE, "d", 121)
    assert made.due(ONE, "d", 121) == 123


def test_the_pause_of_an_outage_is_at_most_a_minute() -> None:
    made, now = backoff(), 0.0
    for _ in range(10):
        now = made.due(ONE, "d", now)
        made.wrote(ONE, "d", now)
        made.ended(ONE, "no answer", outage=True)
    assert made.due_of(ONE) == now + 60


def test_retries_of_all_workloads_share_one_limit() -> None:
    made = backoff(retries=5.0)
    keys = [ObjectKey("", DEPLOYMENT, "default", str(number)) for number in range(100)]
    for key in keys:
        assert made.due(key, "d", 0) == 0
        made.wrote(key, "d", 0)
    turns = sorted(made.due(key, "d", 2) for key in keys)
    assert turns[:5] == [2] * 5
    assert turns[-1] == pytest.approx(2 + 95 / 5)
    # A reserved turn stays reserved until its time.
    assert sorted(made.due(key, "d", 3) for key in keys) == [max(turn, 3) for turn in turns]


def test_a_problem_is_remembered_until_a_long_time_without_a_write() -> None:
    made = backoff()
    made.wrote(ONE, "d", 0)
    made.ended(ONE, "changed back", conflict="image")
    made.wrote(ONE, "d", 2)
    assert (made.problem(ONE), made.conflict(ONE)) == ("changed back", "image")
    made.prune(100)
    assert len(made) == 1
    made.prune(1000)
    assert (len(made), made.problem(ONE), made.conflict(ONE), made.unproven(ONE)) == (0, "", "", "")


def test_a_deleted_workload_has_no_backoff() -> None:
    made = backoff()
    made.wrote(ONE, "d", 0)
    made.forget(ONE)
    assert len(made) == 0
