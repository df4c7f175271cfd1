"""Tests that the index of entries selects the same entries as the entries themselves."""

from hypothesis import given
from hypothesis import strategies as st

from app.overrider.entry_selection import EntrySelection, selects_any
from app.overrider.pool_exclusion import PoolSelector

POOLS = ["a", "b", "c", "-a", ""]
LISTS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", "-a", "-b", "--a", "*", "", 1, None])), st.sampled_from([None, "a", {}])
)


@given(lists=st.lists(LISTS, max_size=6))
def test_the_index_selects_the_entries_that_apply(lists: list[object]) -> None:
    entries = [{"pools": pools} for pools in lists]
    selection = EntrySelection(entries)
    for pool in POOLS:
        applying = tuple(number for number, pools in enumerate(lists) if PoolSelector(pools).selects(pool))
        assert selection.applying(pool) == applying
        assert selection.any_applies(pool) == bool(applying)


@given(pools=LISTS, known=st.frozensets(st.sampled_from(POOLS)))
def test_a_list_selects_any_of_the_known_pools(pools: object, known: frozenset[str]) -> None:
    assert selects_any(pools, known) == any(PoolSelector(pools).selects(pool) for pool in known)


def test_entries_of_a_wrong_type_apply_to_no_pool() -> None:
    for entries in (None, "entries", {"pools": ["*"]}, [None, "x"]):
        assert EntrySelection(entries).applying("a") == ()
