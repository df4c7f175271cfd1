"""A bounded cache in which an owner with many entries does not evict those of others."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.fairness.cache import ExpiringCache, FairCache


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


def test_keys_of_two_owners_are_different(clock: Clock) -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(10, clock=clock)
    cache.put("a", "key", 1, seconds=9)
    assert (cache.get("b", "key"), cache.get("a", "key")) == (None, 1)


def test_a_full_cache_evicts_an_entry_of_the_owner_with_the_most(clock: Clock) -> None:
    cache: ExpiringCache[int, int] = ExpiringCache(4, clock=clock)
    cache.put("small", 0, 0, seconds=9)
    for number in range(100):
        cache.put("large", number, number, seconds=9)
    assert (len(cache), cache.get("small", 0), cache.get("large", 99)) == (4, 0, 99)


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


def test_the_least_recently_used_entry_of_an_owner_goes_first() -> None:
    cache: FairCache[str, int, int] = FairCache(2)
    for key in (1, 2):
        cache.put("a", key, key)
    assert cache.get("a", 1) == 1
    cache.put("a", 3, 3)
    assert cache.evict() == 2


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
