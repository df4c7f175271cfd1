"""The faults of objects that rules change; tests/e2e/test_hooks.py compares some with the answers of kube-apiserver."""

from typing import Any

import pytest

from fleethook.admission import result_check
from fleethook.admission.rule import build_request
from fleethook.model.gvk import GroupKind
from fleethook.patch import apply

POD = GroupKind("", "Pod")


def find_faults(kind: GroupKind, document: Any, old: Any) -> list[str]:
    named = {"apiVersion": f"{kind.group}/v1" if kind.group else "v1", "kind": kind.kind, **document}
    request = build_request({**named, "metadata": {}}, old, operation="CREATE" if old is None else "UPDATE")
    return result_check.find_faults(request, document)


def pod(**spec: Any) -> dict[str, Any]:
    body = {"containers": [{"name": "a", "image": "a"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}, "spec": body}


@pytest.mark.parametrize(
    "document",
    [
        pod(),
        pod(restartPolicy="Never", activeDeadlineSeconds=5),
        pod(restartPolicy="OnFailure", securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
        pod() | {"status": {"phase": "Running"}},
        {"apiVersion": "v1", "kind": "Pod"} | {"spec": pod()["spec"], "metadata": {"name": "a", "labels": {"a": "b"}}},
    ],
)
def test_a_valid_pod_has_no_faults(document: Any) -> None:
    assert find_faults(POD, document, None) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (pod(securityContex={}), '/spec/securityContex: PodSpec has no field "securityContex": did you mean'),
        (pod(restartPolicy="Sometimes"), "/spec/restartPolicy: "),
        (pod(containers=[{"name": "a", "image": "a", "ports": [{"containerPort": "80"}]}]), "/spec/containers/0/ports/0"),
        (pod(containers=[{"image": "a"}]), "/spec/containers/0/name: is required: set it"),
        (pod(priority="high"), "/spec/priority: "),
        (pod() | {"data": {}}, "/data: "),
        ({name: one for name, one in pod().items() if name != "spec"}, "/spec/containers: is required"),
        (pod() | {"metadata": {"labels": {"a": 1}}}, "/metadata/labels/a: "),
        (
            pod(containers=[{"name": "a", "image": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
            "/spec/containers/0/volumeMounts/0/name: the pod has no volume",
        ),
    ],
)  # fmt: skip
def test_a_fault_of_a_pod_has_a_pointer(document: Any, expected: str) -> None:
    (found,) = find_faults(POD, document, None)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"path": "/spec/containers/0/image", "value": "b"}, []),
        ({"path": "/spec/activeDeadlineSeconds", "value": 5}, []),
        ({"path": "/spec/tolerations", "value": [{"operator": "Exists"}]}, []),
        ({"path": "/metadata/labels", "value": {"a": "b"}}, []),
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


@pytest.mark.parametrize("kind", [GroupKind("", "Service"), GroupKind("example.com", "Widget")])
def test_the_metadata_of_all_kinds_is_checked(kind: GroupKind) -> None:
    before: dict[str, Any] = {"metadata": {"name": "a", "labels": {}}, "spec": {}}
    after: dict[str, Any] = {**before, "metadata": {"name": "a", "labels": {"n": 3}}}
    assert find_faults(kind, before, None) == []
    assert find_faults(kind, after, None) == ["/metadata/labels/n: must be a string, not the number 3: quote it"]


def test_nothing_is_known_about_other_kinds() -> None:
    assert find_faults(GroupKind("", "ConfigMap"), {"dat": 1}, {"dat": 2}) == []
