"""The faults of objects that rules change; tests/e2e/test_hooks.py compares some with the answers of kube-apiserver."""

from typing import Any

import pytest

from fleethook.admission.named_members import make_decoder
from fleethook.admission.rule import build_request
from fleethook.engines.hooks.result_check import (
    adds_no_fault,
    find_custom_faults,
    find_faults,
    is_harmless,
    read_schemas,
)
from fleethook.model.gvk import GroupKind
from fleethook.patch import apply

POD = GroupKind("", "Pod")
DEPLOYMENT = GroupKind("apps", "Deployment")


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


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("/spec/securityContext", {"seccompProfile": {"type": "RuntimeDefault"}}, True),
        ("/spec/securityContext", {"seccompProfile": {"type": "Localhost"}}, False),
        ("/spec/restartPolicy", "Never", True),
        ("/spec/restartPolicy", "Sometimes", False),
        ("/spec/os", {"name": "windows"}, True),
        ("/spec/containers/-", {"name": "b", "image": "b"}, True),
        ("/spec/containers/-", {"name": "a", "image": "b"}, False),
        ("/spec/containers/0/volumeMounts", [{"name": "v", "mountPath": "/v"}], False),
        ("/data", {}, False),
    ],
)
def test_a_change_of_a_pod_adds_no_fault(path: str, value: Any, *, expected: bool) -> None:
    before = pod()
    changed: Any = apply(before, [{"op": "add", "path": path, "value": value}])
    assert adds_no_fault(POD, before, changed, None) is expected
    assert (find_faults(POD, changed, None) == []) is expected


def test_a_change_of_an_immutable_field_adds_a_fault() -> None:
    before = pod()
    changed: Any = apply(before, [{"op": "add", "path": "/spec/hostNetwork", "value": True}])
    assert adds_no_fault(POD, before, changed, None)
    assert not adds_no_fault(POD, before, changed, before)


def test_changes_of_other_kinds_add_no_fault() -> None:
    assert adds_no_fault(GroupKind("", "ConfigMap"), {"dat": 1}, {"dat": 2}, None)
    before = {"spec": {"replicas": 1}}
    assert not adds_no_fault(DEPLOYMENT, before, {"spec": {"replicas": -1}}, None)


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
    assert not adds_no_fault(kind, before, after, None)
    assert adds_no_fault(kind, before, {**before, "spec": {"a": 1}}, None)


def test_nothing_is_known_about_other_kinds() -> None:
    assert find_faults(GroupKind("", "ConfigMap"), {"dat": 1}, {"dat": 2}) == []


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "string", "enum": ["s", "m"]},
                "port": {"x-kubernetes-int-or-string": True},
                "count": {"type": "integer", "minimum": 1, "nullable": True},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "texts": {"type": "object", "additionalProperties": {"type": "string"}},
                "template": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            },
        }
    },
}


def definition(schema: Any) -> dict[str, Any]:
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}, {"name": "v2"}]
    return {"spec": {"group": "example.com", "names": {"kind": "Shirt"}, "versions": versions}}


def custom_faults(spec: Any, *, version: str = "v1", schema: Any = SCHEMA, **more: Any) -> list[str]:
    document = {"apiVersion": f"example.com/{version}", "kind": "Shirt", "metadata": {"name": "a"}, "spec": spec}
    request = build_request(document, None, operation="CREATE")
    return find_custom_faults(tuple(read_schemas(definition(schema))), request, {**document, **more})


@pytest.mark.parametrize(
    "spec",
    [
        {"size": "s", "port": 1, "count": None, "open": {"a": {"b": 1}}, "texts": {"a": "b"}, "list": [{"a": "b"}]},
        {"size": "m", "port": "http", "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}},
    ],
)
def test_a_valid_custom_resource_has_no_faults(spec: Any) -> None:
    assert custom_faults(spec) == []


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"size": "s", "colour": "red"}, "/spec/colour: the CustomResourceDefinition has no such field"),
        ({"size": "xl"}, "/spec/size: "),
        ({"size": 1}, "/spec/size: "),
        ({}, "/spec: "),
        ({"size": "s", "port": 1.5}, "/spec/port: "),
        ({"size": "s", "count": 0}, "/spec/count: "),
        ({"size": "s", "texts": {"a": 1}}, "/spec/texts/a: "),
        ({"size": "s", "list": [{"b": 1}]}, "/spec/list/0/b: the CustomResourceDefinition has no such field"),
        (
            {"size": "s", "template": {"spec": {}}},
            "/spec/template/spec: the CustomResourceDefinition has no such field",
        ),
    ],
)
def test_a_fault_of_a_custom_resource_has_a_pointer(spec: Any, pointer: str) -> None:
    found = custom_faults(spec)
    assert found
    assert found[0].startswith(pointer)


def test_a_member_beside_spec_is_unknown() -> None:
    assert custom_faults({"size": "s"}, data={}) == ["/data: the CustomResourceDefinition has no such field"]


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_without_a_schema_of_the_version_nothing_is_known(version: str) -> None:
    assert custom_faults({"colour": 1}, version=version) == []


def test_a_schema_with_an_expression_of_go_alone_is_left_out() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": r"\pN{"}}}
    assert custom_faults(1, schema=schema) == []


SERVICE = GroupKind("", "Service")


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        (POD, "/metadata/labels/a", "b", True),
        (POD, "/metadata/labels/a", 1, False),
        (POD, "/spec/securityContext", {"seccompProfile": {"type": "RuntimeDefault"}}, True),
        (POD, "/spec/securityContext", {"seccompProfile": {"type": "Unknown"}}, False),
        (POD, "/spec/priorityClassName", "a" * 300, False),
        (DEPLOYMENT, "/spec/minReadySeconds", 5, False),
        (DEPLOYMENT, "/metadata/annotations/a", "b", True),
        (SERVICE, "/metadata/labels/a", "b", True),
        (SERVICE, "/metadata/labels/a", 1, False),
        (SERVICE, "/metadata/labels/a b", "c", False),
        (SERVICE, "/spec/type", "any", True),
    ],
)
def test_an_addition_is_harmless_by_its_path_and_value(
    kind: GroupKind, path: str, value: Any, *, expected: bool
) -> None:
    made = make_decoder(["spec", "labels"])
    assert made is not None
    read = made.read(build_request(pod() | {"metadata": {"name": "a", "labels": {}}}, None, operation="CREATE"))
    assert is_harmless(kind, [{"op": "add", "path": path, "value": value}], read) == expected
    is_other = kind == SERVICE and path.startswith("/spec")
    assert is_harmless(kind, [{"op": "replace", "path": path, "value": value}], read) == is_other


def test_a_pod_with_an_operating_system_needs_the_whole_check() -> None:
    made = make_decoder(["spec"])
    assert made is not None
    read = made.read(build_request(pod(os={"name": "windows"}), None, operation="CREATE"))
    profile = {"op": "add", "path": "/spec/securityContext", "value": {"seccompProfile": {"type": "RuntimeDefault"}}}
    assert not is_harmless(POD, [profile], read)
