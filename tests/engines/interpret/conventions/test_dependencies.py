"""Dependencies of Pod templates and of rules."""

from typing import Any

import msgspec
import pytest

from fleethook.engines.interpret.conventions.dependencies import (
    Reference,
    find_pod_templates,
    find_values,
    list_dependencies,
)

DOCUMENT: dict[str, Any] = {
    "a": [{"n": 1}, {"n": 2, "a": {"n": 3}}, "text"],
    "b": {"x": {"n": 4}, "y": None},
    "c/d": 5,
}


@pytest.mark.parametrize(
    ("pointer", "values"),
    [
        ("", [DOCUMENT]), ("/a/*/n", [1, 2]), ("/a/1/n", [2]), ("/a/9", []), ("/a/x", []), ("/a/0/n/m", []),
        ("/b/*/n", [4]), ("/b/y", [None]), ("/c~1d", [5]), ("/**/n", [1, 2, 3, 4]), ("/a/**/n", [1, 2, 3]),
        ("/**/a/n", [3]), ("/z/**", []), ("/*/*/n", [1, 2, 4]),
        ("/c*", [5]), ("/**/*x/n", [4]), ("/a/*x", []),
    ],
)  # fmt: skip
def test_values_are_found_in_the_order_of_the_document(pointer: str, values: list[Any]) -> None:
    assert list(find_values(DOCUMENT, pointer)) == values


@pytest.mark.parametrize("pointer", ["spec/a", "/a~2"])
def test_a_malformed_pointer_is_refused_at_once(pointer: str) -> None:
    with pytest.raises(ValueError, match="not a JSON pointer"):
        find_values({}, pointer)


def test_a_document_may_be_deeper_than_the_stack() -> None:
    document: Any = {"n": 1}
    for _ in range(100_000):
        document = {"a": document}
    assert list(find_values(document, "/**/n")) == [1]
    while document is not None:  # Python frees nested dicts by recursion
        document = document.pop("a", None)


POD: dict[str, Any] = {
    "containers": [{"name": "app", "image": "x", "envFrom": [{"secretRef": {"name": "env"}}]}],
    "serviceAccountName": "runner",
    "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {"configMap": {"name": "settings"}}],
}


def find(document: Any, references: Any = (), pods: tuple[str, ...] = ()) -> list[str]:
    """Return the dependencies as ``KIND NAMESPACE/NAME``."""
    rules = [msgspec.convert(one, Reference) for one in references]
    document = {"metadata": {"namespace": "shop"}, **document}
    return [
        f"{one['kind']} {one.get('namespace', '')}/{one['name']}" for one in list_dependencies(document, rules, pods)
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"template": {"spec": POD}},
        {"podTemplate": {"metadata": {}, "spec": POD}},
        {"podSpec": POD},
        {"groups": [{"name": "a"}, {"name": "b", "template": {"spec": POD}}]},
        {"deep": {"er": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}}},
    ],
)
def test_pod_templates_are_found_anywhere_in_the_spec(spec: Any) -> None:
    assert [one["spec"] for one in find_pod_templates({"spec": spec})] == [POD]
    assert find({"spec": spec}) == [
        "ConfigMap shop/settings", "Secret shop/env", "ServiceAccount shop/runner", "PersistentVolumeClaim shop/data",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        {"status": {"template": {"spec": POD}}},
        {"spec": {"containers": ["a", "b"]}},
        {"spec": {"containers": [{"port": 1}]}},
        {"spec": {"containers": []}},
        {"spec": {"containers": {"name": "x"}}},
    ],
)
def test_other_objects_are_no_pod_templates(document: Any) -> None:
    assert find_pod_templates(document) == []


def test_a_pod_template_of_unexpected_types_has_no_dependencies() -> None:
    assert find({"spec": {"template": {"spec": {**POD, "volumes": "none"}}}}) == []


def test_claims_that_the_controller_creates_are_no_dependencies() -> None:
    spec = {"template": {"spec": POD}, "storage": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}
    assert "PersistentVolumeClaim shop/data" not in find({"spec": spec})


def test_an_object_may_have_members_of_a_pod_without_containers() -> None:
    spec = {"imagePullSecrets": [{"name": "pull"}], "env": [{"valueFrom": {"configMapKeyRef": {"name": "e"}}}]}
    assert find({"spec": spec}) == []
    assert find({"spec": spec}, pods=("/spec",)) == ["ConfigMap shop/e", "Secret shop/pull"]


STORE = {"apiVersion": "x.io/v1", "kind": "Store", "at": "/spec/storeRef", "when": {"kind": ["", "Store"]}}
CLUSTER_STORE = {**STORE, "kind": "ClusterStore", "when": {"kind": ["ClusterStore"]}, "cluster_scoped": True}


@pytest.mark.parametrize(
    ("spec", "rule", "found"),
    [
        ({"secretRef": {"name": "a"}}, {"at": "/spec/secretRef", "kind": "Secret"}, ["Secret shop/a"]),
        ({"secretRef": {"name": "a", "namespace": "b"}}, {"at": "/spec/secretRef", "kind": "Secret"}, ["Secret b/a"]),
        ({"secretName": "a"}, {"at": "/spec/secretName", "kind": "Secret"}, ["Secret shop/a"]),
        ({"secretName": ""}, {"at": "/spec/secretName", "kind": "Secret"}, []),
        ({"secretName": {"nam": 1}}, {"at": "/spec/secretName", "kind": "Secret"}, []),
        ({"x": [{"ref": {"key": "k"}}, {"ref": {"key": "l"}}]}, {"at": "/spec/x/*/ref", "kind": "Secret", "name": "key"},
         ["Secret shop/k", "Secret shop/l"]),
        ({"p": {"q": {"tokenRef": {"name": "t"}}}}, {"at": "/spec/p/**/tokenRef", "kind": "Secret"}, ["Secret shop/t"]),
        ({"storeRef": {"name": "s"}}, STORE, ["Store shop/s"]),
        ({"storeRef": {"name": "s", "kind": "ClusterStore"}}, STORE, []),
        ({"storeRef": {"name": "s", "kind": "ClusterStore"}}, CLUSTER_STORE, ["ClusterStore /s"]),
        ({"storeRef": {"name": "s"}}, CLUSTER_STORE, []),
    ],
)  # fmt: skip
def test_rules_point_to_references(spec: Any, rule: Any, found: list[str]) -> None:
    assert find({"spec": spec}, [rule]) == found


def test_a_cluster_scoped_object_has_no_namespace_for_a_reference_without_one() -> None:
    rule = {"at": "/spec/*", "kind": "Secret"}
    document = {"metadata": {}, "spec": {"a": {"name": "a"}, "b": {"name": "b", "namespace": "n"}}}
    assert find(document, [rule]) == ["Secret n/b"]
