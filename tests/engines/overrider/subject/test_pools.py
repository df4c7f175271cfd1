"""Tests of the node pools in which a subject has workloads."""

from fleethook.engines.overrider.subject.pools import pools_of_subject
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import node_pool, store_of, yurt_app_set_v1beta1

EAST = {"matchLabels": {"region": "east"}}


def test_pools_are_those_node_pools_that_exist_and_are_listed_or_selected() -> None:
    subject = yurt_app_set_v1beta1(pools=["hangzhou", "gone"], selector=EAST)
    pools = [node_pool("hangzhou"), node_pool("east-1", {"region": "east"}), node_pool("west-1", {"region": "west"})]
    assert pools_of_subject(YURT_APP_SET, subject, cluster="", store=store_of(*pools)) == ["east-1", "hangzhou"]
    assert pools_of_subject(YURT_APP_SET, subject, cluster="", store=store_of()) == ["gone", "hangzhou"]
