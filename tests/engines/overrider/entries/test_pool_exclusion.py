"""The node pools that an entry selects and excludes."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.pool_exclusion import PoolSelector
from tests.builders import (
    container,
    entry,
    is_unchanged,
    node_pool,
    overrider,
    patch,
    pod_spec,
    pod_template,
    rendered,
    review,
    workload,
    yurt_app_set,
)


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


@pytest.mark.parametrize("pools", [("*", "-hangzhou"), ("-hangzhou", "*"), ("hangzhou", "-hangzhou"), ("-hangzhou",)])
def test_exclusion_wins_in_either_order(pools: tuple[str, ...]) -> None:
    rule = overrider(entry(*pools, items=[{"replicas": 9}]))
    assert is_unchanged(review(workload(), yurt_app_set(), rule))


def test_an_entry_that_names_the_pool_twice_applies_once() -> None:
    template = yurt_app_set(template=pod_template(containers=[container(args=["a"])]))
    patches = [patch("add", "/spec/template/spec/containers/0/args/-", "x")]
    rule = overrider(entry("hangzhou", "hangzhou", "*", patches=patches))
    assert pod_spec(rendered(workload(), template, rule))["containers"][0]["args"] == ["a", "x"]
