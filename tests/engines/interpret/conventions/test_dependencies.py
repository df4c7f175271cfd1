"""Dependencies of Pod templates and of rules."""

from typing import Any

import msgspec
import pytest

from fleethook.engines.interpret.conventions.dependencies import (
    Reference,
    find_pod_templates,
    list_dependencies,
)

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
