"""Tests that the index of entries selects the same entries as the entries themselves."""

from hypothesis import given
from hypothesis import strategies as st

from app.overrider.entry_selection import EntrySelection, selects_any
from app.overrider.item_rules import check_image
from app.overrider.overrider_rules import sample_names
from app.overrider.pool_exclusion import applies_to

POOLS = ["a", "b", "c", "-a", ""]
LISTS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", "-a", "-b", "--a", "*", "", 1, None])), st.sampled_from([None, "a", {}])
)


@given(lists=st.lists(LISTS, max_size=6))
def test_the_index_selects_the_entries_that_apply(lists: list[object]) -> None:
    entries = [{"pools": pools} for pools in lists]
    selection = EntrySelection(entries)
    for pool in POOLS:
        applying = tuple(number for number, pools in enumerate(lists) if applies_to(pools, pool))
        assert selection.applying(pool) == applying
        assert selection.any_applies(pool) == bool(applying)


@given(pools=LISTS, known=st.frozensets(st.sampled_from(POOLS)))
def test_a_list_selects_any_of_the_known_pools(pools: object, known: frozenset[str]) -> None:
    assert selects_any(pools, known) == any(applies_to(pools, pool) for pool in known)


def test_entries_of_a_wrong_type_apply_to_no_pool() -> None:
    for entries in (None, "entries", {"pools": ["*"]}, [None, "x"]):
        assert EntrySelection(entries).applying("a") == ()


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
IMAGES = st.sampled_from(
    [
        "r.io/{{nodepool}}/x:1",
        "{{nodepool}}:1",
        "r.io:{{nodepool}}/x:1",
        "x:{{nodepool}}",
        "{{nodepool}}.io/x",
        "a-{{nodepool}}-",
    ]
)


@given(image=IMAGES, names=st.lists(NAMES, min_size=1, max_size=8))
def test_an_image_that_is_valid_for_the_sample_is_valid_for_all_names(image: str, names: list[str]) -> None:
    every = {bool(list(check_image(image, "f", pools=[name]))) for name in names}
    assert bool(list(check_image(image, "f", pools=sample_names(names)))) == (True in every)


def test_a_sample_of_many_names_is_small() -> None:
    assert sample_names([f"pool-{number}" for number in range(5000)] + ["1", "22"]) == ["pool-1000", "22"]
