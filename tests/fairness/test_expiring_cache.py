"""Entries expire, and owners share a full cache."""

import pytest

from fleethook.fairness.expiring_cache import ExpiringCache


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
