"""Tests of the members of subjects of both API versions."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.subject_and_pools import (
    PoolSelection,
    SetSelections,
    absent_pools,
    describe_lack_of_pools,
    is_behind,
    pools_of_subject,
)
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import node_pool, store_of, tweak, yurt_app_daemon, yurt_app_set, yurt_app_set_v1beta1

EAST = {"matchLabels": {"region": "east"}}


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"pools": ["a"]}, ["a"]),
        ({"nodepoolSelector": EAST}, ["b"]),
        ({"pools": ["a", 7], "nodepoolSelector": EAST}, ["a", "b"]),
        ({"nodepoolSelector": {}}, ["a", "b"]),
        ({"pools": "a"}, []),
        ({}, []),
    ],
)
def test_names_and_labels_select_node_pools(selection: Any, names: list[str]) -> None:
    pools = {"a": node_pool("a"), "b": node_pool("b", {"region": "east"})}
    chosen = PoolSelection(selection)
    assert [name for name, one in pools.items() if chosen.selects(name, one)] == names


def test_a_pool_has_the_tweaks_that_select_it() -> None:
    tweaks = [tweak("a", replicas=1), tweak(selector=EAST, replicas=2), tweak(selector={}, replicas=3)]
    selections = SetSelections(yurt_app_set_v1beta1(pools=["a", "b"], tweaks=tweaks))
    assert selections.tweaks("a", None) == (0, 2)
    assert selections.tweaks("b", node_pool("b", {"region": "east"})) == (1, 2)
    assert selections.selects("a", None)
    assert not selections.selects("c", node_pool("c"))


def test_pools_are_those_node_pools_that_exist_and_are_listed_or_selected() -> None:
    subject = yurt_app_set_v1beta1(pools=["hangzhou", "gone"], selector=EAST)
    pools = [node_pool("hangzhou"), node_pool("east-1", {"region": "east"}), node_pool("west-1", {"region": "west"})]
    assert pools_of_subject(YURT_APP_SET, subject, cluster="", store=store_of(*pools)) == ["east-1", "hangzhou"]
    assert pools_of_subject(YURT_APP_SET, subject, cluster="", store=store_of()) == ["gone", "hangzhou"]


def set_of_spec(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps.openyurt.io/v1beta1", "kind": "YurtAppSet", "metadata": {"name": "demo"}, "spec": spec}


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (set_of_spec(pools=["a", "b"]), "there is no NodePool a, b, which spec.pools names"),
        (set_of_spec(nodepoolSelector=EAST), "no NodePool has the labels that spec.nodepoolSelector selects"),
        (
            set_of_spec(pools=["a"], nodepoolSelector=EAST),
            "there is no NodePool a, which spec.pools names, and no NodePool has the labels that spec.nodepoolSelector selects",
        ),
        (set_of_spec(), "spec.pools and spec.nodepoolSelector are empty"),
        (yurt_app_set(pools=[]), "spec.topology.pools is empty"),
    ],
)
def test_the_message_says_why_a_set_has_no_node_pool(subject: dict[str, Any], text: str) -> None:
    absent = absent_pools(subject, cluster="", store=store_of())
    assert describe_lack_of_pools(YURT_APP_SET, subject, absent) == f"YurtAppSet demo has no node pool: {text}"


def test_the_message_says_why_a_daemon_has_no_node_pool() -> None:
    subject = yurt_app_daemon()
    assert describe_lack_of_pools(YURT_APP_DAEMON, subject, ()) == (
        "YurtAppDaemon agent has no node pool: no NodePool has the labels that spec.nodepoolSelector selects"
    )
    del subject["spec"]["nodepoolSelector"]
    assert describe_lack_of_pools(YURT_APP_DAEMON, subject, ()).endswith("no node pool: spec.nodepoolSelector is empty")


def beta(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps.openyurt.io/v1beta1", "kind": "YurtAppSet", "metadata": {"name": "demo"}, "spec": spec}


def test_pools_of_a_v1beta1_set_without_node_pool_are_absent() -> None:
    store = store_of(node_pool("b"))
    subject = beta(pools=["c", "b", "a", "c", 7, ""])
    assert absent_pools(subject, cluster="", store=store) == ("c", "a")


REFUSED = [{"type": "PoolUpdated", "status": "False", "reason": "Error"}]
NOT_CREATED = [{"type": "PoolProvisioned", "status": "False", "reason": "Error"}]


@pytest.mark.parametrize(
    ("status", "lacks_pools", "behind"),
    [
        ({"observedGeneration": 3}, True, False),
        ({"observedGeneration": 2}, False, True),
        ({}, True, False),
        ({"observedGeneration": "?"}, True, False),
        ({"observedGeneration": 3, "conditions": REFUSED}, False, True),
        ({"observedGeneration": 3, "conditions": [{**REFUSED[0], "status": "True"}]}, True, False),
        ({"observedGeneration": 3, "conditions": NOT_CREATED}, True, True),
        ({"observedGeneration": 3, "conditions": NOT_CREATED}, False, False),
    ],
)
def test_the_status_shows_whether_the_controller_has_written_all_workloads(
    status: dict[str, Any], lacks_pools: bool, behind: bool
) -> None:
    subject = yurt_app_set()
    subject["metadata"]["generation"] = 3
    assert is_behind({**subject, "status": status}, lacks_pools=lacks_pools) is behind


def test_a_condition_of_openyurt_1_4_does_not_count_after_an_upgrade() -> None:
    upgraded = {**yurt_app_set(), "apiVersion": "apps.openyurt.io/v1beta1", "status": {"conditions": REFUSED}}
    assert not is_behind(upgraded, lacks_pools=True)
