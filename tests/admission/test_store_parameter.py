from typing import Any

import pytest

from fleethook.admission import validate
from fleethook.admission.store_parameter import Objects, find_among
from fleethook.model.gvk import GroupKind

STORE_READER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}
MAPS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x"}, "data": {"k": "1"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "y"}, "data": {"k": "2"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "x"}},
]
OBJECTS = Objects(find_among(MAPS), frozenset({GroupKind("", "ConfigMap")}))


def test_an_object_is_found_by_kind_name_and_namespace() -> None:
    assert OBJECTS.get("v1", "ConfigMap", "a", namespace="y").data.k == "2"
    assert OBJECTS.get("v1", "ConfigMap", "a", namespace="z") is None
    assert [one.metadata.namespace for one in OBJECTS.each("v1", "ConfigMap")] == ["x", "y"]


def test_objects_are_those_of_the_logical_cluster_unless_all_are_asked_for() -> None:
    placed = [{**MAPS[0], "metadata": {"name": one, "annotations": {"kcp.io/cluster": one}}} for one in ("c", "d")]
    objects = Objects(find_among(placed), frozenset({GroupKind("", "ConfigMap")}), "c")
    assert [one.metadata.name for one in objects.each("v1", "ConfigMap")] == ["c"]
    assert [one.metadata.name for one in objects.each("v1", "ConfigMap", cluster="*")] == ["c", "d"]


def test_a_kind_that_is_not_declared_cannot_be_read() -> None:
    with pytest.raises(LookupError, match=r"declare it with follows=\('v1', 'Secret'\)"):
        OBJECTS.get("v1", "Secret", "a", namespace="x")


def test_changes_do_not_reach_the_store() -> None:
    OBJECTS.get("v1", "ConfigMap", "a", namespace="x").data.k = "changed"
    assert MAPS[0]["data"] == {"k": "1"}


def test_a_missing_namespace_is_an_error_and_not_a_missing_object() -> None:
    @validate("v1", "Pod", follows=[("v1", "ConfigMap"), ("v1", "Node")])
    def reads(store: Any) -> None:
        assert store.get("v1", "Node", "limits").metadata.name == "limits"
        assert store.get("v1", "ConfigMap", "limits", namespace="other") is None
        store.get("v1", "ConfigMap", "limits")

    limits = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": "shop"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "limits"}}
    answer = reads.review(STORE_READER, store=[limits, node])
    assert answer.message.endswith("LookupError: the objects of ConfigMap have namespaces: give namespace=")
