"""Tests that the index of entries selects the same entries as the entries themselves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.entries.entry_selection import EntrySelection, PoolSelector, selects_any, uses_labels
from tests.builders import node_pool, overrider


@pytest.mark.parametrize(
    ("pools", "selected"),
    [
        (["a"], {"a"}),
        (["*"], {"a", "b", "c"}),
        (["*", "-a", "-b"], {"c"}),
        (["-a", "a", "b"], {"b"}),
        (["-a"], set()),
        (["--a", "*"], {"a", "b", "c"}),
        ([1, None, ["a"], {"name": "a"}, "c"], {"c"}),
        ([], set()),
        (None, set()),
        ("a", set()),
        ({"a": "a", "*": "*"}, set()),
    ],
)
def test_names_stars_and_exclusions_select_node_pools(pools: Any, selected: set[str]) -> None:
    assert {pool for pool in ("a", "b", "c") if PoolSelector({"pools": pools}).selects(pool)} == selected


@pytest.mark.parametrize(
    ("pools", "selector", "selected"),
    [
        (None, {"matchLabels": {"region": "east"}}, {"a", "b"}),
        ([], {"matchLabels": {"region": "east"}}, {"a", "b"}),
        (["c"], {"matchLabels": {"region": "east"}}, {"a", "b", "c"}),
        (["-a", "none"], {"matchLabels": {"region": "east"}}, {"b", "none"}),
        (None, {"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["east"]}]}, {"c"}),
        (None, {}, {"a", "b", "c"}),
        (["a"], None, {"a"}),
        (["a"], "region", {"a"}),
        (None, {"matchLabels": {"region": "east", "tier": "edge"}}, {"b"}),
    ],
)
def test_labels_select_besides_names_and_exclusions_win(pools: Any, selector: Any, selected: set[str]) -> None:
    node_pools = {
        "a": node_pool("a", {"region": "east"}),
        "b": node_pool("b", {"region": "east", "tier": "edge"}),
        "c": node_pool("c"),
        "none": None,
    }
    compiled = PoolSelector({"pools": pools, "poolSelector": selector})
    assert {name for name, of_pool in node_pools.items() if compiled.selects(name, of_pool)} == selected


POOLS = ["a", "b", "c", "-a", ""]
LISTS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", "-a", "-b", "--a", "*", "", 1, None])), st.sampled_from([None, "a", {}])
)
KEYS, VALUES = st.sampled_from(["region", "tier"]), st.sampled_from(["east", "west", ""])
LABELS = st.dictionaries(KEYS, VALUES)
EXPRESSIONS = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"]),
    st.lists(VALUES, max_size=2),
)
SELECTORS = st.one_of(
    st.fixed_dictionaries({}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}),
    st.sampled_from([None, "region", {"matchLabels": ["region"]}, {"matchExpressions": {}}]),
)
ENTRIES = st.fixed_dictionaries({}, optional={"pools": LISTS, "poolSelector": SELECTORS})
# Labels of manifests may have any type.
NODE_POOLS = st.one_of(st.none(), st.dictionaries(KEYS, st.one_of(VALUES, st.sampled_from([1, []]))))


def labeled(labels: Any) -> Any:
    return None if labels is None else node_pool("any", labels)


@given(entries=st.lists(ENTRIES, max_size=6), labels=NODE_POOLS)
def test_the_index_selects_the_entries_that_apply(entries: list[Any], labels: Any) -> None:
    selection, of_pool = EntrySelection(entries), labeled(labels)
    for pool in POOLS:
        applying = tuple(number for number, one in enumerate(entries) if PoolSelector(one).selects(pool, of_pool))
        assert selection.applying(pool, of_pool) == applying
        assert selection.any_applies(pool, of_pool) == bool(applying)
    assert selection.uses_labels == uses_labels(overrider(*entries))


@given(one=ENTRIES, known=st.dictionaries(st.sampled_from(POOLS), NODE_POOLS))
def test_an_entry_selects_any_of_the_known_pools(one: Any, known: dict[str, Any]) -> None:
    pools = {name: labeled(labels) for name, labels in known.items()}
    assert selects_any(one, pools) == any(PoolSelector(one).selects(*pool) for pool in pools.items())


def test_entries_of_a_wrong_type_apply_to_no_pool() -> None:
    for entries in (None, "entries", {"pools": ["*"]}, [None, "x"]):
        assert EntrySelection(entries).applying("a", node_pool("a")) == ()
