"""Tests of the form of workloads under a YurtAppSet v1beta1."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.states import (
    as_v1beta1,
    is_confined,
    metadata_of,
    names_other_pool,
    place_by_selector,
)
from tests.builders import owner, pod_spec, workload

LABEL = "apps.openyurt.io/nodepool"
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


def test_metadata_has_no_members_that_an_apiserver_sets() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}
    metadata = {"name": "demo", "namespace": "", "uid": "u", "labels": {}, "annotations": annotations, "generation": 2}
    assert metadata_of({"metadata": metadata}) == {"name": "demo", "annotations": {"a": "b"}}
