"""Limits and a cache that consumers share."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.fair_limits import MAX_WAITING, CallLimit, FairCache, FairQueue, Limit, LimitError, client_of
from tests.hypothesis_profiles import examples
from tests.waiting import NET, until


@pytest.mark.parametrize(("part", "alone"), [(1, 50), (3, 25), (9, 10)])
def test_one_consumer_leaves_room_for_the_next(part: int, alone: int) -> None:
    limit = Limit(100, part=part)
    while limit.take("greedy"):
        pass
    assert limit.total == alone
    assert limit.take("modest", (100 - alone) // part)
    limit.release("greedy", alone)
    assert limit.take("greedy")


def test_each_consumer_may_take_one_while_any_is_free() -> None:
    limit = Limit(3, part=8)
    assert [limit.take(consumer) for consumer in ("a", "a", "b", "c", "d")] == [True, False, True, True, False]


STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(1, 20)))


@given(STEPS)
def test_the_total_is_the_sum_of_the_amounts_that_consumers_hold(steps: list[tuple[bool, str, int]]) -> None:
    limit, held = Limit(60), {"a": 0, "b": 0, "c": 0}
    for takes, who, size in steps:
        if takes and limit.take(who, size):
            held[who] += size
        elif not takes and held[who] >= size:
            limit.release(who, size)
            held[who] -= size
        assert limit.total == sum(held.values()) <= 60


def queue_of(*items: str) -> FairQueue[str]:
    """Return items that wait for the consumers of their first letters."""
    made = FairQueue[str]()
    for item in items:
        made.add(item[0], item)
    return made


def take_all(queue: FairQueue[str], allowed: str = "abc") -> list[str]:
    taken = []
    while (found := queue.take(lambda consumer: consumer in tuple(allowed))) is not None:
        consumer, item = found
        assert consumer == item[0]
        taken.append(item)
    return taken


def test_consumers_take_turns_and_keep_the_order_of_arrival() -> None:
    assert take_all(queue_of("a1", "a2", "a3", "b1", "c1", "b2", "a1")) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_consumer_that_comes_back_is_behind_the_others() -> None:
    queue = queue_of("a1", "b1")
    assert queue.take(lambda _: True) == ("a", "a1")
    queue.add("a", "a2")
    assert take_all(queue) == ["b1", "a2"]


def test_a_consumer_that_is_not_allowed_keeps_its_items() -> None:
    queue = queue_of("a1", "b1", "a2")
    assert take_all(queue, "b") == ["b1"]
    assert (len(queue), queue.count("a"), queue.count("b")) == (2, 2, 0)
    assert (queue.has("a", "a1"), queue.has("b", "b1"), queue.has("a", "b1")) == (True, False, False)
    assert take_all(queue) == ["a1", "a2"]
    assert len(queue) == 0


def test_a_discarded_item_is_not_taken() -> None:
    queue = queue_of("a1", "a2", "b1")
    for consumer, item in (("a", "a1"), ("a", "a1"), ("c", "c9")):
        queue.discard(consumer, item)
    assert len(queue) == 2
    assert take_all(queue) == ["a2", "b1"]


class Calls:
    """Calls that run until the test ends them."""

    def __init__(self, limit: int) -> None:
        self.limit = CallLimit(limit)
        self.running: list[str] = []
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, *names: str) -> None:
        """Begin calls of the consumers of their first letters."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold(name))
            await settled()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self.tasks[name]
            await settled()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])
        await settled()

    async def _hold(self, name: str) -> None:
        async with self.limit.hold(name[0]):
            self.running.append(name)
            self.begun.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_callers_take_turns() -> None:
    calls = Calls(1)
    await calls.add("a1", "a2", "a3", "b1")
    await calls.end("a1", "a2", "b1")
    assert calls.begun == ["a1", "a2", "b1", "a3"]


@pytest.mark.parametrize("given", [False, True])
async def test_the_call_of_a_cancelled_caller_does_not_count(given: bool) -> None:
    calls = Calls(1)
    await calls.add("a1", "b1", "c1")
    if given:
        await calls.end("a1")
        assert calls.running == ["b1"]
        await calls.cancel("b1")
    else:
        await calls.cancel("b1")
        await calls.end("a1")
    assert calls.running == ["c1"]


async def test_a_crowd_of_one_consumer_leaves_room_for_the_calls_of_others() -> None:
    calls = Calls(6)
    await calls.add("a1", "a2", "a3", "a4", "b1", "b2", "b3", "c1")
    assert calls.running == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert (calls.limit.total, calls.limit.waiting, calls.limit.count("a")) == (6, 2, 4)
    await calls.add("d1")
    await calls.end("a1")
    assert calls.running[-1] == "d1", "the consumer without a call is next"
    await calls.end("d1", "c1", "b1")
    assert calls.running == ["a2", "a3", "b2", "a4", "b3"]


async def test_a_cancelled_turn_ends_the_wait_and_leaves_no_state() -> None:
    limit = CallLimit(1)
    assert limit.join("a") is None
    turns = [turn for turn in (limit.join("a"), limit.join("a")) if turn is not None]
    waits = [asyncio.create_task(limit.wait(turn, "a")) for turn in turns]
    await settled()
    assert (limit.count("a"), limit.waiting) == (3, 2)
    turns[0].cancel()
    await settled()
    assert (limit.waiting, limit.held) == (1, {"a": 1})
    # Cancelled before its caller knows, when the call before it ends.
    turns[1].cancel()
    limit.release("a")
    await asyncio.wait(waits)
    assert all(wait.cancelled() for wait in waits)
    assert (limit.total, limit.held, limit.waiting) == (0, {}, 0)


async def test_a_call_that_cannot_start_in_time_is_refused_and_counted() -> None:
    limit = CallLimit(1)
    async with limit.hold("a", seconds=1) as has_waited:
        assert not has_waited
        with pytest.raises(LimitError):
            async with limit.hold("a", seconds=0.01):
                raise AssertionError("it is beyond the limit")
        waiting = [asyncio.create_task(_hold_for_ever(limit)) for _ in range(MAX_WAITING + 3)]
        await until(lambda: sum(task.done() for task in waiting) == 3)
        assert (limit.refused, limit.waiting) == (4, MAX_WAITING)
        for task in waiting:
            task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (limit.total, limit.waiting) == (0, 0)


async def _hold_for_ever(limit: CallLimit) -> None:
    async with limit.hold("a", seconds=NET):
        raise AssertionError("it is beyond the limit")


actions = st.lists(st.tuples(st.sampled_from(["begin", "end", "tick", "settle"]), st.integers(0, 20)), max_size=40)


@settings(max_examples=examples(200))
@given(actions, st.integers(1, 9))
def test_the_limit_holds_and_no_call_waits_without_reason(made: list[tuple[str, int]], most: int) -> None:
    async def run() -> None:
        calls = Calls(most)
        for place, (action, number) in enumerate(made):
            name = f"{'abc'[number % 3]}{place}"
            if action == "begin":
                calls._ends[name] = asyncio.Event()
                calls.tasks[name] = asyncio.create_task(calls._hold(name))
            elif action == "end" and number < len(calls.tasks):
                list(calls.tasks.values())[number].cancel()
            await asyncio.sleep(0)
            if action == "settle":
                await settled()
                assert calls.limit.total == len(calls.running)
                waiting = [one for one in "abc" if calls.limit.count(one) > calls.limit.held[one]]
                assert not any(map(calls.limit.allows, waiting))
            assert len(calls.running) <= calls.limit.total <= most
        for task in calls.tasks.values():
            task.cancel()
        await asyncio.gather(*calls.tasks.values(), return_exceptions=True)
        assert (calls.limit.total, calls.limit.held, calls.limit.waiting) == (0, {}, 0)

    asyncio.run(run())


LIMIT = 6
steps = st.lists(
    st.tuples(st.sampled_from("pg"), st.sampled_from("abc"), st.integers(0, 9)), max_size=60
)  # fmt: skip


@given(steps)
def test_only_the_owner_with_most_entries_loses_one(made: list[tuple[str, str, int]]) -> None:
    cache: FairCache[int, tuple[str, int]] = FairCache(LIMIT)
    expected: dict[tuple[str, int], None] = {}
    for action, owner, key in made:
        entry = (owner, key)
        if action == "g":
            assert (cache.get(owner, key) is not None) == (entry in expected)
        else:
            evicted = cache.put(owner, key, entry)
            expected[entry] = None
            sizes = Counter(owner for owner, _ in expected)
            assert len(evicted) == max(0, len(expected) - LIMIT)
            for one in evicted:
                assert sizes[one[0]] == max(sizes.values())
                del expected[one]
        assert sorted(cache.values()) == sorted(expected)
        assert len(cache) == len(expected)


def test_values_in_use_stay_beyond_the_limit() -> None:
    used = {1, 2}
    cache: FairCache[int, int] = FairCache(1, is_idle=lambda value: value not in used)
    assert cache.put("a", 1, 1) == cache.put("a", 2, 2) == []
    used.add(3)
    assert cache.put("b", 3, 3) == []
    used -= {1, 3}
    assert cache.put("b", 4, 4) == [1, 3, 4]
    assert cache.values() == [2]


def test_sizes_count_instead_of_numbers() -> None:
    cache: FairCache[int, int] = FairCache(10, size_of=lambda value: value)
    cache.put("a", 1, 6)
    assert [cache.put("b", key, 1) for key in (1, 2, 3)] == [[], [], []]
    assert cache.put("b", 4, 2) == [6]
    assert cache.put("b", 4, 9) == [1, 1]


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
