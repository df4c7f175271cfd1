"""Tests of the copy of a cluster's NodePools."""

from fleethook.engines.overrider.subject.node_pools import NodePools
from fleethook.model.openyurt import NODE_POOL, YURT_APP_SET
from tests.builders import node_pool, store_of

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
