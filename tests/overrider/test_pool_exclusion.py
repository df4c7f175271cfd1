"""The node pools that an entry selects and excludes."""

from typing import Any

import pytest

from app.overrider.pool_exclusion import PoolSelector
from tests.builders import (
    container,
    entry,
    is_unchanged,
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
    assert {pool for pool in ("a", "b", "c") if PoolSelector(pools).selects(pool)} == selected


@pytest.mark.parametrize("pools", [("*", "-hangzhou"), ("-hangzhou", "*"), ("hangzhou", "-hangzhou"), ("-hangzhou",)])
def test_exclusion_wins_in_either_order(pools: tuple[str, ...]) -> None:
    rule = overrider(entry(*pools, items=[{"replicas": 9}]))
    assert is_unchanged(review(workload(), yurt_app_set(), rule))


def test_an_entry_that_names_the_pool_twice_applies_once() -> None:
    template = yurt_app_set(template=pod_template(containers=[container(args=["a"])]))
    patches = [patch("add", "/spec/template/spec/containers/0/args/-", "x")]
    rule = overrider(entry("hangzhou", "hangzhou", "*", patches=patches))
    assert pod_spec(rendered(workload(), template, rule))["containers"][0]["args"] == ["a", "x"]
