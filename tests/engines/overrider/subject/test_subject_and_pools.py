"""Tests of the members of subjects of both API versions."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.subject_and_pools import PoolSelection, SetSelections, pools_of_subject
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import node_pool, store_of, tweak, yurt_app_set_v1beta1

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
