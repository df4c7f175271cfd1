"""Tests of the workload of a node pool after each step."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.states import (
    State,
    as_v1beta1,
    base_of,
    is_confined,
    names_other_pool,
    place_by_selector,
    states_of,
)
from fleethook.engines.overrider.convert.workload_diff import WrittenPatch
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.workload_schema.value_marks import POOL_MARK
from tests.builders import entry, image, images, owner, patch, pod_spec, workload
from tests.engines.overrider.convert.sources import LABEL, placed, source_of

NOTE = "/spec/template/metadata/annotations/note"


def states(*entries: dict[str, object], **fields: object) -> list[State]:
    source = source_of(*entries, **fields)
    return list(states_of(source, base_of(source, source.pool)))


def test_the_first_state_is_the_base_except_for_the_pools_own_settings() -> None:
    source = source_of()
    base = base_of(source, "a")
    (first,) = states_of(source, base)
    assert (first.order, first.owner, first.field) == ((0,), "", "spec.topology.pools[0]")
    assert first.workload["spec"].pop("replicas") == 2
    assert first.workload["spec"] == base["spec"]
    assert pod_spec(base)["nodeSelector"] == {LABEL: "a"}


def test_the_patch_of_a_pool_is_a_step() -> None:
    change = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
    before, after = states(config=placed("a", patch=change))
    assert (after.order, after.field) == ((1,), "spec.topology.pools[0].patch")
    assert "hostNetwork" not in pod_spec(before.workload)
    assert pod_spec(after.workload)["hostNetwork"] is True


def test_items_come_before_patches_and_entries_keep_their_order() -> None:
    first = entry("*", items=[image("nginx", "x:1"), {"replicas": 5}], patches=[patch("add", NOTE, "n")])
    _, *steps = states(first, entry("b", items=[{"replicas": 9}]), entry("a", items=[image("nginx", "x:2")]))
    assert [(one.owner, one.field) for one in steps] == [
        ("entries[0]", "entries[0].items[0]"),
        ("entries[0]", "entries[0].items[1]"),
        ("entries[0]", "entries[0].patches[0]"),
        ("entries[2]", "entries[2].items[0]"),
    ]
    assert [one.order for one in steps] == sorted(one.order for one in steps)
    assert [images(one.workload)["nginx"] for one in steps] == ["x:1", "x:1", "x:1", "x:2"]
    assert [one.item for one in steps] == [image("nginx", "x:1"), {"replicas": 5}, {}, image("nginx", "x:2")]


def test_a_state_has_the_same_workload_with_the_mark() -> None:
    (_, step) = states(entry("*", patches=[patch("add", NOTE, "in {{nodepool}}")]))
    assert step.written == WrittenPatch("add", NOTE, "in a")
    assert step.written_marked == WrittenPatch("add", NOTE, f"in {POOL_MARK}")
    annotations = [one["spec"]["template"]["metadata"]["annotations"] for one in (step.workload, step.marked)]
    assert annotations == [{"note": "in a"}, {"note": f"in {POOL_MARK}"}]
    assert pod_spec(step.marked)["nodeSelector"] == {LABEL: POOL_MARK}


def test_an_entry_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(RenderError, match="absent"):
        states(entry("*", patches=[patch("remove", "/spec/absent")]))


ZONE = {"key": "zone", "operator": "Exists"}
SELECTED = {LABEL: "a"}


def own(*names: str) -> dict[str, Any]:
    return {"key": LABEL, "operator": "In", "values": list(names)}


def affinity(*terms: Any, **preferred: Any) -> dict[str, Any]:
    node_affinity: dict[str, Any] = dict(preferred)
    if terms:
        required = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
        node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return {"nodeAffinity": node_affinity}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({"affinity": affinity([own("a")])}, {}),
        ({"affinity": affinity([own("a"), ZONE])}, {"affinity": affinity([ZONE])}),
        ({"affinity": affinity([own("a"), ZONE], [own("a")])}, {}),
        ({"affinity": affinity([own("b")])}, {"affinity": affinity([own("b")])}),
        ({"affinity": affinity([ZONE])}, {"affinity": affinity([ZONE])}),
        (
            {"affinity": {**affinity([own("a")], x=[1]), "podAffinity": {"y": 1}}},
            {"affinity": {"nodeAffinity": {"x": [1]}, "podAffinity": {"y": 1}}},
        ),
    ],
)
def test_a_node_selector_replaces_the_expression_of_the_pool(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert place_by_selector({**before, "nodeSelector": {"disk": "ssd"}}, "a", "a") == {
        **after,
        "nodeSelector": {"disk": "ssd", LABEL: "a"},
    }


def test_labels_annotations_and_owner_are_those_of_the_converted_set() -> None:
    base = workload(pool="a", owners=[owner(apiVersion="apps.openyurt.io/v1beta1")])
    base["metadata"]["labels"]["apps.openyurt.io/ref-yurtappset"] = "demo"
    made = as_v1beta1(workload(pool="a", replicas=4), base, pool="a", shown="MARK")
    assert made["metadata"]["labels"] == base["metadata"]["labels"]
    assert made["metadata"]["annotations"] == {"apps.openyurt.io/ref-nodepool": "MARK"}
    assert made["metadata"]["ownerReferences"] == base["metadata"]["ownerReferences"]
    assert (made["spec"]["replicas"], pod_spec(made)["nodeSelector"]) == (4, {LABEL: "MARK"})


@pytest.mark.parametrize(
    ("spec", "confined", "other"),
    [
        ({}, False, False),
        ({"nodeSelector": SELECTED}, True, False),
        ({"nodeSelector": {LABEL: "b"}}, False, True),
        ({"affinity": affinity([own("a"), ZONE])}, True, False),
        ({"affinity": affinity([own("a")], [ZONE])}, False, False),
        ({"affinity": affinity([own("a")], [own("b")])}, False, True),
        ({"affinity": affinity([own("a", "b")])}, False, True),
        ({"affinity": affinity([{**own("a"), "operator": "NotIn"}])}, False, True),
    ],
)
def test_nodes_of_the_pool_and_of_other_pools_are_told_apart(spec: Any, *, confined: bool, other: bool) -> None:
    document = {"spec": {"template": {"spec": spec}}}
    assert (is_confined(document, "a"), names_other_pool(document, "a")) == (confined, other)
