"""The faults of objects that rules change; tests/e2e/test_rules.py compares some with the answers of kube-apiserver."""

from typing import Any

import pytest

from fleethook.admission import invalid_changes_in_tests
from fleethook.admission.rule_in_tests import build_request
from fleethook.api_schema import read_definitions
from fleethook.model.formats.names_and_labels import label_key_problem
from fleethook.model.gvk import GroupKind
from fleethook.patch import apply

POD = GroupKind("", "Pod")


def find_faults(kind: GroupKind, document: Any, old: Any) -> list[str]:
    named = {"apiVersion": f"{kind.group}/v1" if kind.group else "v1", "kind": kind.kind, **document}
    request = build_request({**named, "metadata": {}}, old, operation="CREATE" if old is None else "UPDATE")
    return invalid_changes_in_tests.find_faults(request, named)


def pod(**spec: Any) -> dict[str, Any]:
    body = {"containers": [{"name": "a", "image": "a"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}, "spec": body}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"path": "/spec/containers/0/image", "value": "b"}, []),
        ({"path": "/spec/activeDeadlineSeconds", "value": 5}, []),
        ({"path": "/spec/tolerations", "value": [{"operator": "Exists"}]}, []),
        ({"path": "/metadata/labels", "value": {"a": "b"}}, []),
        ({"path": "/spec/priorityClassName", "value": ""}, []),  # as a missing member
        ({"path": "/spec/hostNetwork", "value": True}, ["/spec/hostNetwork: may not change in an UPDATE"]),
        (
            {"path": "/spec/containers/0/command", "value": ["a"]},
            ["/spec/containers/0/command: may not change in an UPDATE"],
        ),
        (
            {"path": "/spec/containers/-", "value": {"name": "b", "image": "b"}},
            ["/spec/containers: an UPDATE may neither add nor remove a container"],
        ),
        (
            {"path": "/spec/nodeSelector", "value": {"a": "b"}},
            ["/spec/nodeSelector: may not change in an UPDATE"],
        ),
    ],
)
def test_most_fields_of_a_pod_may_not_change(patch: Any, expected: list[str]) -> None:
    changed: Any = apply(pod(), [{"op": "add", **patch}])
    assert find_faults(POD, changed, pod()) == expected


def test_a_pod_with_scheduling_gates_may_get_a_node_selector() -> None:
    old = pod(schedulingGates=[{"name": "a"}])
    assert find_faults(POD, pod(schedulingGates=[{"name": "a"}], nodeSelector={"a": "b"}), old) == []


@pytest.mark.parametrize(
    ("kind", "member", "fixed"),
    [
        ("Deployment", "selector", True),
        ("Deployment", "replicas", False),
        ("StatefulSet", "serviceName", True),
        ("StatefulSet", "podManagementPolicy", True),
        ("StatefulSet", "replicas", False),
    ],
)
def test_immutable_fields_of_workloads(kind: str, member: str, *, fixed: bool) -> None:
    labels = {"app": "a", "b": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template, "serviceName": "a", "replicas": 1}
    if kind == "Deployment":
        del spec["serviceName"]
    document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    values = {
        "selector": {"matchLabels": {"b": "b"}},
        "replicas": 2,
        "serviceName": "b",
        "podManagementPolicy": "Parallel",
    }
    changed = {**document, "spec": {**spec, member: values[member]}}
    expected = [f"/spec/{member}: may not change in an UPDATE"] if fixed else []
    assert find_faults(GroupKind("apps", kind), changed, document) == expected


def faults(api_version: str, kind: str, *, old: Any = None, definitions: Any = (), **members: Any) -> list[str]:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **members}
    request = build_request({**document, "metadata": {}}, old, operation="CREATE" if old is None else "UPDATE")
    return invalid_changes_in_tests.find_faults(request, document, read_definitions(definitions))


DEPLOYMENT = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
}


@pytest.mark.parametrize(
    ("api_version", "kind", "members", "expected"),
    [
        ("v1", "ConfigMap", {"data": {"a": "b"}}, []),
        ("v1", "ConfigMap", {"dat": {}}, ["dat is not a field of ConfigMap in Kubernetes 1.36; did you mean data?"]),
        ("v1", "ConfigMap", {"data": {"a": 1}}, ["data.a: must be a string, not the number 1: quote it"]),
        ("v1", "ConfigMap", {"data": {"a": None}}, ["data.a: must be a string, not null"]),
        ("v1", "Service", {"spec": {"externalIPs": [None]}}, ["spec.externalIPs[0]: must be a string, not null"]),
        ("v1", "ResourceQuota", {"spec": {"hard": {"cpu": None}}}, ["spec.hard.cpu: must be a value, not null"]),
        ("v1", "Service", {"spec": {"ports": [{"port": "80"}]}}, ["spec.ports[0].port: must be an integer"]),
        ("v1", "Service", {"spec": {"selector": None, "type": "Other"}}, ["spec.type: must be one of "]),
        ("batch/v1", "Job", {"spec": {"template": {"spec": {"nodeSelector": {"a": None}}}}}, ["spec.template.spec.nodeSelector.a: must be"]),
        ("apps/v1", "Deployment", {"metadata": {"labels": {"a": None}}, "spec": DEPLOYMENT}, ["metadata.labels.a: must be a string, not null"]),
        ("example.com/v1", "Widget", {"spec": {"a": None}}, []),
        ("example.com/v1", "Widget", {"metadata": {"annotations": {"a": None}}}, ["metadata.annotations.a: must be a string, not null"]),
        ("example.com/v1", "Widget", {"metadata": {"labels": {"a": 3}}}, ["metadata.labels.a: must be a string, not the number 3"]),
        ("v1", "Pod", {"spec": {"securityContex": {}}}, ["spec.securityContex is not a field of PodSpec in Kubernetes"]),
        ("v1", "Pod", {"spec": {"restartPolicy": "Sometimes"}}, ["spec.restartPolicy: must be one of "]),
    ],
)  # fmt: skip
def test_results_are_checked_by_the_schema_of_their_kind(
    api_version: str, kind: str, members: Any, expected: list[str]
) -> None:
    found = faults(api_version, kind, **members)
    assert len(found) == len(expected), found
    assert all(one.startswith(text) for one, text in zip(found, expected, strict=True)), found


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}


@pytest.mark.parametrize(
    ("kind", "metadata", "expected"),
    [
        ("ConfigMap", {"ownerReferences": [OWNER, {**OWNER, "controller": True}]}, []),
        ("ConfigMap", {"ownerReferences": [{**OWNER, "uid": ""}]}, ["/metadata/ownerReferences/0/uid: is required: set it"]),
        ("Widget", {"ownerReferences": [{"apiVersion": "v1", "name": "a", "uid": "u"}]}, ["/metadata/ownerReferences/0/kind: is required: set it"]),
        ("ConfigMap", {"ownerReferences": [{**OWNER, "controller": True}] * 2}, ["/metadata/ownerReferences: only one owner may be the controller"]),
        *(
            ("ConfigMap", {"ownerReferences": [{**OWNER, "apiVersion": one}]}, ["/metadata/ownerReferences/0/apiVersion: must be a group and a version, such as apps/v1"])
            for one in ("apps/v1/x", "apps/")
        ),
        ("ConfigMap", {"finalizers": ["orphan", "foregroundDeletion"]}, ["/metadata/finalizers: orphan and foregroundDeletion exclude each other"]),
        ("ConfigMap", {"ownerReferences": [{**OWNER, "kind": "Event"}]}, ["/metadata/ownerReferences/0: an Event owns nothing"]),
        ("Widget", {"labels": {"example.org/a": "b"}, "annotations": {"Example.org/A": "b c"}}, []),
        ("Widget", {"labels": {"/a": ""}}, ["/metadata/labels/~1a: '/a': prefix part must be non-empty"]),
        ("ConfigMap", {"labels": {"a": "x" * 64}}, [f"/metadata/labels/a: '{'x' * 64}': must be no more than 63 bytes"]),
        ("ConfigMap", {"annotations": {"/a": ""}}, ["/metadata/annotations/~1a: '/a': prefix part must be non-empty"]),
        ("ConfigMap", {"annotations": {"a": "x" * 262_144}}, ["/metadata/annotations: must have at most 262144 bytes together, not 262145"]),
        ("ConfigMap", {"finalizers": ["example.com/a", "orphan"]}, []),
        ("ConfigMap", {"finalizers": ["cleanup"]}, ["/metadata/finalizers/0: 'cleanup' is no standard finalizer: prefix it with a domain and '/'"]),
        ("Widget", {"finalizers": ["cleanup"]}, []),
        ("Widget", {"finalizers": ["a b/c"]}, [f"/metadata/finalizers/0: {label_key_problem('a b/c')}"]),
    ],
)  # fmt: skip
def test_owners_and_finalizers_are_those_that_kube_apiserver_takes(
    kind: str, metadata: Any, expected: list[str]
) -> None:
    """Of a custom resource, kube-apiserver also takes finalizers without a domain."""
    api_version = "v1" if kind == "ConfigMap" else "example.com/v1"
    assert faults(api_version, kind, metadata={"name": "a", **metadata}) == expected


SIZES = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
DEFINITION: Any = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": SIZES}}],
    },
}


def test_a_custom_resource_is_checked_by_its_definition() -> None:
    found = faults("example.com/v1", "Widget", definitions=[DEFINITION], spec={"size": "s", "colour": "red"})
    assert sorted(one.partition(":")[0] for one in found) == [
        "spec.colour is not a field of spec; the fields are size",
        "spec.size",
    ]
    assert faults("example.com/v1", "Widget", definitions=[DEFINITION], spec={"size": 1}) == []


@pytest.mark.parametrize(
    ("api_version", "kind", "member", "fixed"),
    [
        ("batch/v1", "Job", "parallelism", False),
        ("batch/v1", "Job", "completionMode", True),
        ("v1", "PersistentVolumeClaim", "resources", False),
        ("v1", "PersistentVolumeClaim", "storageClassName", True),
        ("apps/v1", "DaemonSet", "minReadySeconds", False),
        ("apps/v1", "DaemonSet", "selector", True),
        ("v1", "Service", "type", False),
    ],
)
def test_immutable_fields_of_other_kinds(api_version: str, kind: str, member: str, *, fixed: bool) -> None:
    old = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}
    found = faults(api_version, kind, old=old, spec={member: {"a": "b"}})
    assert (f"/spec/{member}: may not change in an UPDATE" in found) is fixed
