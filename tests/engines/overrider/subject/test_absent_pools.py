"""Tests of node pools that a subject names although no NodePool exists."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.absent_pools import absent_pools, describe_lack_of_pools
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import node_pool, store_of, yurt_app_daemon, yurt_app_set


def beta(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps.openyurt.io/v1beta1", "kind": "YurtAppSet", "metadata": {"name": "demo"}, "spec": spec}


def test_pools_of_a_v1beta1_set_without_node_pool_are_absent() -> None:
    store = store_of(node_pool("b"))
    subject = beta(pools=["c", "b", "a", "c", 7, ""])
    assert absent_pools(subject, cluster="", store=store) == ("c", "a")


@pytest.mark.parametrize("pools", [None, "a", {"a": 1}])
def test_pools_of_a_wrong_type_are_ignored(pools: Any) -> None:
    assert absent_pools(beta(pools=pools), cluster="", store=store_of()) == ()


def test_a_v1alpha1_set_needs_no_node_pools_and_a_daemon_names_none() -> None:
    assert absent_pools(yurt_app_set(), cluster="", store=store_of()) == ()
    assert absent_pools(yurt_app_daemon(), cluster="", store=store_of()) == ()


SELECTS = {"matchLabels": {"region": "east"}}


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (beta(pools=["a", "b"]), "there is no NodePool a, b, which spec.pools names"),
        (beta(nodepoolSelector=SELECTS), "no NodePool has the labels that spec.nodepoolSelector selects"),
        (
            beta(pools=["a"], nodepoolSelector=SELECTS),
            "there is no NodePool a, which spec.pools names, and no NodePool has the labels that spec.nodepoolSelector selects",
        ),
        (beta(), "spec.pools and spec.nodepoolSelector are empty"),
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
