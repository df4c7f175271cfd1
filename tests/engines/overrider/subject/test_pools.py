"""Tests of the node pools in which a subject has workloads."""

from fleethook.engines.overrider.subject.pools import NodePools, pools_of_subject
from fleethook.model.openyurt import NODE_POOL, YURT_APP_SET
from tests.builders import node_pool, store_of, yurt_app_set_v1beta1

HANGZHOU = node_pool("hangzhou")


def test_a_copy_answers_for_node_pools_of_its_cluster_only() -> None:
    pools = NodePools(store_of(HANGZHOU), "")
    assert pools.get("", NODE_POOL, "", "hangzhou") == HANGZHOU
    assert pools.get("", NODE_POOL, "", "beijing") is None
    assert pools.get("ws1", NODE_POOL, "", "hangzhou") is None
    assert pools.get("", YURT_APP_SET, "", "hangzhou") is None
    assert list(pools.each("", NODE_POOL)) == [HANGZHOU]
    assert list(pools.each("ws1", NODE_POOL)) == []


def test_a_copy_does_not_change_with_the_store() -> None:
    store = store_of(HANGZHOU)
    pools = NodePools(store, "")
    store.put(node_pool("beijing"))
    assert [one["metadata"]["name"] for one in pools.each("", NODE_POOL)] == ["hangzhou"]


EAST = {"matchLabels": {"region": "east"}}


def test_pools_are_those_node_pools_that_exist_and_are_listed_or_selected() -> None:
    subject = yurt_app_set_v1beta1(pools=["hangzhou", "gone"], selector=EAST)
    pools = [node_pool("hangzhou"), node_pool("east-1", {"region": "east"}), node_pool("west-1", {"region": "west"})]
    assert pools_of_subject(YURT_APP_SET, subject, cluster="", store=store_of(*pools)) == ["east-1", "hangzhou"]
    assert pools_of_subject(YURT_APP_SET, subject, cluster="", store=store_of()) == ["gone", "hangzhou"]
