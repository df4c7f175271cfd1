"""Tests of the members of subjects of both API versions."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.subject_and_pools import (
    PoolSelection,
    SetSelections,
    decode_tweaks,
    encode_tweaks,
    list_selections,
    pools_of_subject,
)
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


def test_tweaks_are_remembered_for_one_revision_if_labels_select_them() -> None:
    by_label = yurt_app_set_v1beta1(tweaks=[tweak("hangzhou"), tweak(selector=EAST)])
    text = encode_tweaks(by_label, (0, 1))
    assert decode_tweaks(by_label, text) == (0, 1)
    assert decode_tweaks(by_label, encode_tweaks(by_label, ())) == ()
    assert decode_tweaks(yurt_app_set_v1beta1(tweaks=[tweak(selector=EAST)]), text) is None
    assert decode_tweaks({**by_label, "status": {"readyWorkloads": 1}}, text) == (0, 1)
    assert [decode_tweaks(by_label, forged) for forged in ("", ":", "x:0", text + ",7,-1,x")] == [
        None,
        None,
        None,
        (0, 1),
    ]
    assert encode_tweaks(yurt_app_set_v1beta1(tweaks=[tweak("hangzhou")]), (0,)) == ""


def test_other_selections_flip_the_tweaks_that_labels_select() -> None:
    tweaks = [tweak("hangzhou"), *(tweak(selector=EAST, replicas=number) for number in range(2))]
    subject = yurt_app_set_v1beta1(tweaks=tweaks)
    found = [decode_tweaks(subject, text) for text in list_selections(subject, "hangzhou", (0, 1))]
    assert found == [(0,), (0, 1, 2), (0, 2)]
