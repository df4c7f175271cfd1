import pytest

from fleethook.admission.objects import Objects, find_among
from fleethook.model.gvk import GroupKind

MAPS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x"}, "data": {"k": "1"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "y"}, "data": {"k": "2"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "x"}},
]
STORE = Objects(find_among(MAPS), frozenset({GroupKind("", "ConfigMap")}))


def test_an_object_is_found_by_kind_name_and_namespace() -> None:
    assert STORE.get("v1", "ConfigMap", "a", namespace="y").data.k == "2"
    assert STORE.get("v1", "ConfigMap", "a", namespace="z") is None
    assert [one.metadata.namespace for one in STORE.each("v1", "ConfigMap")] == ["x", "y"]


def test_a_kind_that_is_not_declared_cannot_be_read() -> None:
    with pytest.raises(LookupError, match=r"declare it with follows=\('v1', 'Secret'\)"):
        STORE.get("v1", "Secret", "a", namespace="x")


def test_changes_do_not_reach_the_store() -> None:
    STORE.get("v1", "ConfigMap", "a", namespace="x").data.k = "changed"
    assert MAPS[0]["data"] == {"k": "1"}
