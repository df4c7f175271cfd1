"""Tests of the node pools that entries name: unknown names, and entries that apply to no node pool."""

from typing import Any

import pytest

from fleethook.engines.overrider.admission.dry_run import Subject
from fleethook.engines.overrider.rules.entry_pool_rules import (
    check_pools,
    known_pools,
    knows_node_pools,
    selects_node_pools,
)
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from fleethook.work.slices import run_at_once
from tests.builders import entry, node_pool, overrider, store_of, yurt_app_daemon, yurt_app_set, yurt_app_set_v1beta1

DEMO = Subject(YURT_APP_SET, yurt_app_set(), "")


def check(
    *entries: dict[str, Any], subject: Subject = DEMO, unused: Any = (), pools: Any = ()
) -> list[tuple[str, ...]]:
    rule = overrider(*entries)
    known = known_pools(subject, store_of(*pools), overriders=[rule])
    found = run_at_once(check_pools(rule, subject, known, unused=unused))
    return [(one.code, one.field, one.message) for one in found]


def test_a_name_that_the_subject_lacks_is_reported_with_the_nearest_name() -> None:
    assert check(entry("hangzhou", "beijng"), entry("*", "-far")) == [
        ("unknown-pool", "entries[0].pools[1]", "YurtAppSet demo has no node pool 'beijng'; did you mean 'beijing'?"),
        ("unknown-pool", "entries[1].pools[1]", "YurtAppSet demo has no node pool 'far'"),
    ]


def test_an_entry_without_a_node_pool_of_the_subject_is_reported_once() -> None:
    unused = ("unused-entry", "entries[0]", "applies to none of the node pools of YurtAppSet demo")
    assert check(entry("*", "-hangzhou", "-beijing")) == [unused]
    assert check(entry("*", "-hangzhou", "-beijing"), unused={"entries[0]"}) == []


@pytest.mark.parametrize(
    ("labels", "code", "message"),
    [
        (None, "not-checked", "no NodePool is known, so poolSelector selects none: give the NodePools, too"),
        ({"region": "east"}, "", ""),
        (
            {"region": "west"},
            "unused-entry",
            "applies to none of the node pools of YurtAppSet demo; there is no NodePool beijing, so it has no labels",
        ),
    ],
)
def test_a_selector_is_checked_with_the_node_pools(labels: Any, code: str, message: str) -> None:
    pools = [] if labels is None else [node_pool("hangzhou", labels)]
    found = check(entry(selector={"matchLabels": {"region": "east"}}), pools=pools)
    assert [(one[0], one[2]) for one in found] == ([(code, message)] if code else [])
    everywhere = [*pools, node_pool("beijing")]
    assert [one[2] for one in check(entry(selector={"matchLabels": {"region": "e"}}), pools=everywhere)] == [
        "applies to none of the node pools of YurtAppSet demo"
        if labels is not None
        else "applies to none of the node pools of YurtAppSet demo; there is no NodePool hangzhou, so it has no labels"
    ]


def test_five_suggestions_are_made() -> None:
    found = check(entry(*[f"beijing{number}" for number in range(8)]))
    assert [one[2].endswith("did you mean 'beijing'?") for one in found if one[0] == "unknown-pool"] == [
        True, True, True, True, True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("pools", "codes"), [((), []), ((node_pool("x"),), ["unknown-pool"])])
def test_names_of_a_daemon_are_unknown_only_beside_node_pools(pools: Any, codes: list[str]) -> None:
    daemon = Subject(YURT_APP_DAEMON, yurt_app_daemon(), "")
    assert [one[0] for one in check(entry("far"), subject=daemon, pools=pools)] == codes


def test_node_pools_are_read_where_their_labels_matter() -> None:
    beta = Subject(YURT_APP_SET, yurt_app_set_v1beta1(pools=["hangzhou"]), "")
    store = store_of(node_pool("hangzhou"), node_pool("beijing"))
    assert known_pools(beta, store)[:3] == (["hangzhou"], True, {"hangzhou": node_pool("hangzhou")})
    assert known_pools(DEMO, store)[:3] == (["hangzhou", "beijing"], True, {})


def test_labels_select_the_pools_of_daemons_and_of_sets_with_a_selector() -> None:
    assert selects_node_pools(YURT_APP_DAEMON, yurt_app_daemon())
    assert selects_node_pools(YURT_APP_SET, yurt_app_set_v1beta1(selector={}))
    assert not selects_node_pools(YURT_APP_SET, yurt_app_set_v1beta1())
    assert not selects_node_pools(YURT_APP_SET, yurt_app_set())


def test_node_pools_are_known_for_each_cluster() -> None:
    assert knows_node_pools(store_of(node_pool("a")), "")
    assert not knows_node_pools(store_of(node_pool("a")), "other")
