"""Slots that lanes share."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.fairness import ExpiringCache, FairCache, Lanes, Limits, Shares, Slots, client_of


@pytest.mark.parametrize(("multiple", "alone"), [(1, 50), (3, 75), (9, 90)])
def test_one_consumer_leaves_room_for_the_next(multiple: int, alone: int) -> None:
    shares = Shares(100, multiple=multiple)
    while shares.take("greedy", 1):
        pass
    assert shares.total == alone
    assert shares.take("modest", (100 - alone) // 2)
    shares.give_back("greedy", alone)
    assert shares.take("greedy", 1)


STEPS = st.lists(st.tuples(st.sampled_from(["take", "give_back", "move"]), st.sampled_from("abc"), st.integers(1, 20)))


@given(STEPS)
def test_the_total_is_the_sum_of_what_consumers_hold(steps: list[tuple[str, str, int]]) -> None:
    shares, held = Shares(60, multiple=2), {"a": 0, "b": 0, "c": 0}
    for step, who, size in steps:
        other = "b" if who == "a" else "a"
        if step == "take" and shares.take(who, size):
            held[who] += size
        elif step != "take" and held[who] >= size:
            if step == "give_back":
                shares.give_back(who, size)
            elif shares.move(size, source=who, target=other):
                held[other] += size
            else:
                continue
            held[who] -= size
        assert shares.total == sum(held.values()) <= 60


def lanes_of(*items: str) -> Lanes[str]:
    """Return items in the lanes of their first letters."""
    made = Lanes[str]()
    for item in items:
        made.add(item[0], item)
    return made


def take_all(lanes: Lanes[str], eligible: str = "abc") -> list[str | None]:
    taken = [lanes.take(lambda lane: lane in tuple(eligible))]
    while taken[-1] is not None:
        taken.append(lanes.take(lambda lane: lane in tuple(eligible)))
    return taken[:-1]


def test_lanes_take_turns_and_keep_the_order_of_arrival() -> None:
    assert take_all(lanes_of("a1", "a2", "a3", "b1", "c1", "b2")) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_lane_that_comes_back_is_behind_the_others() -> None:
    lanes = lanes_of("a1", "b1")
    assert lanes.take() == "a1"
    lanes.add("a", "a2")
    assert take_all(lanes) == ["b1", "a2"]


def test_a_lane_that_is_not_eligible_keeps_its_items() -> None:
    lanes = lanes_of("a1", "b1", "a2")
    assert take_all(lanes, "b") == ["b1"]
    assert (len(lanes), list(lanes), "b" in lanes) == (2, ["a"], False)
    assert (lanes.has("a", "a1"), lanes.has("b", "b1"), lanes.has("a", "b1")) == (True, False, False)
    assert take_all(lanes) == ["a1", "a2"]
    assert len(lanes) == 0


def test_a_discarded_item_is_not_taken() -> None:
    lanes = lanes_of("a1", "a2", "b1")
    assert lanes.discard("a", "a1")
    assert not lanes.discard("a", "a1")
    assert not lanes.discard("c", "c9")
    assert len(lanes) == 2
    assert take_all(lanes) == ["a2", "b1"]


class Work:
    """Pieces of work that hold a slot until the test ends them."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.running: list[str] = []
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, name: str, lane: str, *, part: str | None = None) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, lane, part))
        await settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await settled()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name]])
        await settled()

    async def _hold(self, name: str, lane: str, part: str | None) -> None:
        async with self.slots.hold(lane, part):
            self.running.append(name)
            self.begun.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_lanes_take_turns() -> None:
    work = Work(Slots(Limits(1)))
    await work.add("first", "a")
    for number in range(3):
        await work.add(f"a{number}", "a")
    await work.add("b0", "b")
    for name in ("first", "a0", "b0", "a1"):
        await work.end(name)
    assert work.begun == ["first", "a0", "b0", "a1", "a2"]


@pytest.mark.parametrize("given", [False, True])
async def test_the_slot_of_cancelled_work_is_granted_again(given: bool) -> None:
    work = Work(Slots(Limits(1)))
    await work.add("first", "a")
    await work.add("gone", "b")
    await work.add("next", "c")
    if given:
        await work.end("first")
        assert work.running == ["gone"]
        await work.cancel("gone")
    else:
        await work.cancel("gone")
        await work.end("first")
    assert work.running == ["next"]


async def test_a_crowd_in_one_lane_leaves_the_reserved_slots_to_other_lanes() -> None:
    work = Work(Slots(Limits(4, reserved=2)))
    for number in range(5):
        await work.add(f"crowd {number}", "crowd")
    assert work.running == ["crowd 0", "crowd 1"]
    for lane in "abc":
        await work.add(lane, lane)
    await work.add("a again", "a")
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


async def test_the_lane_with_the_fewest_slots_is_next() -> None:
    work = Work(Slots(Limits(3)))
    for name in ("a1", "a2", "b1"):
        await work.add(name, name[0])
    for name in ("a3", "b2", "c1"):
        await work.add(name, name[0])
    for name in ("a1", "b1", "a2"):
        await work.end(name)
    assert work.begun == ["a1", "a2", "b1", "c1", "b2", "a3"]


async def test_parts_of_a_lane_have_a_limit_and_take_turns() -> None:
    work = Work(Slots(Limits(9, each=3, part=1)))
    for name in ("e1", "e2", "e3", "f1", "f2", "g1", "g2"):
        await work.add(name, "a", part=name[0])
    await work.add("other", "b", part="e")
    assert work.running == ["e1", "f1", "g1", "other"]
    assert slots_of(work) == (4, 4)
    await work.end("f1")
    assert work.running == ["e1", "g1", "other", "f2"]
    await work.end("e1")
    assert work.running[-1] == "e2"


def slots_of(work: Work) -> tuple[int, int]:
    return work.slots.held, work.slots.queued


@pytest.mark.parametrize(
    ("limits", "exhausted"),
    [(Limits(2, part=1), "part"), (Limits(2, each=1), "each"), (Limits(1), "total"), (Limits(2, reserved=1), "total")],
)
async def test_the_exhausted_limit_has_a_name(limits: Limits, exhausted: str) -> None:
    slots = Slots(limits)
    assert slots.find_exhausted("a", "e") == ""
    slots.take("a", "e")
    assert slots.find_exhausted("a", "e") == exhausted
    assert not slots.allows("a", "e")
    slots.release("a", "e")
    assert slots.allows("a", "e")


async def test_a_cancelled_turn_ends_the_wait_and_leaves_no_state() -> None:
    slots = Slots(Limits(1))
    assert slots.join("a") is None
    turns = [turn for turn in (slots.join("a"), slots.join("a")) if turn is not None]
    waits = [asyncio.create_task(slots.wait(turn, "a")) for turn in turns]
    await settled()
    assert (slots.count("a"), slots.waiting("a")) == (3, 2)
    turns[0].cancel()
    await settled()
    assert (slots.waiting("a"), slots.held_by_lane()) == (1, {"a": 1})
    # Cancelled before its caller knows, when the slot becomes free.
    turns[1].cancel()
    slots.release("a")
    await asyncio.wait(waits)
    assert all(wait.cancelled() for wait in waits)
    assert (slots.held, slots.queued, slots._lanes) == (0, 0, {})


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_value_expires_after_its_own_time(clock: Clock) -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(10, clock=clock)
    cache.put("a", "short", 1, seconds=1)
    cache.put("a", "long", 2, seconds=5)
    clock.now = 1.0
    assert (cache.get("a", "short"), cache.get("a", "long"), len(cache)) == (None, 2, 1)
    clock.now = 5.0
    assert cache.get("a", "long") is None


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_value_without_a_lifetime_is_not_kept_and_replaces_the_old_one(clock: Clock, seconds: float) -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(10, clock=clock)
    cache.put("a", "key", 1, seconds=9)
    cache.put("a", "key", 2, seconds=seconds)
    assert (cache.get("a", "key"), len(cache)) == (None, 0)


LIMIT = 6
steps = st.lists(
    st.tuples(st.sampled_from("pxg"), st.sampled_from("abc"), st.integers(0, 9)), max_size=60
)  # fmt: skip


@given(steps)
def test_only_the_owner_with_most_entries_loses_one(made: list[tuple[str, str, int]]) -> None:
    cache: FairCache[str, int, tuple[str, int]] = FairCache(LIMIT)
    expected: dict[tuple[str, int], None] = {}
    for action, owner, key in made:
        entry = (owner, key)
        if action == "g":
            assert (cache.get(owner, key) is not None) == (entry in expected)
        elif action == "x":
            assert (cache.pop(owner, key) is not None) == (entry in expected)
            expected.pop(entry, None)
        elif entry not in expected:
            cache.put(owner, key, entry)
            expected[entry] = None
            sizes = Counter(owner for owner, _ in expected)
            evicted = cache.evict()
            assert (evicted is not None) == (len(expected) > LIMIT)
            if evicted is not None:
                assert sizes[evicted[0]] == max(sizes.values())
                del expected[evicted]
        assert sorted(cache.values()) == sorted(expected)
        assert len(cache) == len(expected)


def test_values_in_use_stay_beyond_the_limit() -> None:
    used = {1, 2}
    cache: FairCache[str, int, int] = FairCache(1, is_idle=lambda value: value not in used)
    cache.put("a", 1, 1)
    cache.put("a", 2, 2)
    assert cache.evict() is None
    cache.put("b", 3, 3)
    assert cache.evict() == 3
    assert len(cache) == 2


def test_sizes_count_instead_of_numbers() -> None:
    cache: FairCache[str, int, int] = FairCache(10, size_of=lambda value: value)
    cache.put("a", 1, 6)
    for key in (1, 2, 3):
        cache.put("b", key, 1)
    assert (cache.evict(), cache.size) == (None, 9)
    cache.put("b", 4, 2)
    assert (cache.evict(), cache.evict(), cache.size) == (6, None, 5)


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
