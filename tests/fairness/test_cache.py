"""A bounded cache in which an owner with many entries does not evict those of others."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fleethook.fairness.cache import FairCache

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
