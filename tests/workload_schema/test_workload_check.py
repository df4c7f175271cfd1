"""Findings about rendered workloads. tests/e2e/test_workload_rules.py compares them with a kube-apiserver."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from fleethook.workload_schema import WorkloadFinding, check_workload
from fleethook.workload_schema.workload_check import MAX_FINDINGS, MAX_LISTED_BYTES, find_violations
from tests.workload_samples import full_deployment, full_stateful_set

POD = "/spec/template/spec"
APP = f"{POD}/containers/0"


class Parts(NamedTuple):
    """The parts of the sample that a test edits."""

    pod: dict[str, Any]
    app: dict[str, Any]


Edit = Callable[[Parts], object]


def findings(edit: Edit) -> list[tuple[str, str, str]]:
    """The findings after an edit of the pod spec and of its container."""
    workload = full_deployment()
    pod = workload["spec"]["template"]["spec"]
    edit(Parts(pod, pod["containers"][0]))
    return [tuple(one) for one in check_workload(workload, "Deployment")]


def the_finding(edit: Edit) -> tuple[str, str, str]:
    (finding,) = findings(edit)
    return finding


def test_full_workloads_are_valid() -> None:
    assert check_workload(full_deployment(), "Deployment") == []
    assert check_workload(full_stateful_set(), "StatefulSet") == []


def test_a_field_of_the_other_kind_is_unknown() -> None:
    workload = full_deployment()
    workload["spec"]["serviceName"] = "s"
    (finding,) = check_workload(workload, "Deployment")
    assert (finding.pointer, finding.problem) == ("/spec/serviceName", "unknown")


@pytest.mark.parametrize(
    ("edit", "pointer", "message"),
    [
        (
            lambda at: at.app.update(imagePulPolicy="Always"),
            f"{APP}/imagePulPolicy",
            'Container has no field "imagePulPolicy": did you mean "imagePullPolicy"?',
        ),
        (
            lambda at: at.app.update(nodeSelector={}),
            f"{APP}/nodeSelector",
            'Container has no field "nodeSelector": it is a field of PodSpec',
        ),
        (
            lambda at: at.pod.update(volumeMounts=[]),
            f"{POD}/volumeMounts",
            'PodSpec has no field "volumeMounts": it is a field of containers (Container)',
        ),
        (
            lambda at: at.app["env"][0].update({"a/b": 1}),
            f"{APP}/env/0/a~1b",
            'EnvVar has no field "a/b": it has name, value, valueFrom',
        ),
        (
            lambda at: at.pod.update(zzz=1),
            f"{POD}/zzz",
            'PodSpec has no field "zzz": correct the name or remove it',
        ),
    ],
)  # fmt: skip
def test_unknown_fields_are_named_with_a_suggestion(edit: Any, pointer: str, message: str) -> None:
    assert the_finding(edit) == (pointer, "unknown", message)


@pytest.mark.parametrize(
    ("edit", "pointer", "message"),
    [
        (
            lambda at: at.pod["volumes"][0].update(hostPath="/x"),
            f"{POD}/volumes/0/hostPath",
            'must be an object (path, type), not the string "/x"',
        ),
        (lambda at: at.app.update(image=1.21), f"{APP}/image", "must be a string, not the number 1.21: quote it"),
        (lambda at: at.app["args"].append(True), f"{APP}/args/1", "must be a string, not true: quote it"),
        (lambda at: at.app.update(args="a"), f"{APP}/args", 'must be a list, not the string "a"'),
        (lambda at: at.app.update(args={}), f"{APP}/args", "must be a list, not an object"),
        (
            lambda at: at.app["ports"][1].update(containerPort="80"),
            f"{APP}/ports/1/containerPort",
            'must be an integer, not the string "80": remove the quotes',
        ),
        (
            lambda at: at.app["ports"][1].update(containerPort=80.0),
            f"{APP}/ports/1/containerPort",
            "must be an integer, not the number 80.0",
        ),
        (
            lambda at: at.app.update(tty="true"),
            f"{APP}/tty",
            'must be true or false, not the string "true": remove the quotes',
        ),
        (
            lambda at: at.app["livenessProbe"]["httpGet"].update(port=1.5),
            f"{APP}/livenessProbe/httpGet/port",
            "must be a string or an integer, not the number 1.5",
        ),
        (
            lambda at: at.app["resources"]["limits"].update(cpu=True),
            f"{APP}/resources/limits/cpu",
            "must be a string or a number, not true",
        ),
        (lambda at: at.pod.update(serviceAccount=[]), f"{POD}/serviceAccount", "must be a string, not a list"),
    ],
)  # fmt: skip
def test_wrong_types_are_findings(edit: Any, pointer: str, message: str) -> None:
    # The sample uses the struct of a probe several times, so each use has a finding.
    assert (pointer, "type", message) in findings(edit)


def test_status_and_owners_are_not_checked() -> None:
    workload = full_deployment() | {"status": {"x": 1}}
    workload["metadata"]["ownerReferences"] = [{"kind": "YurtAppSet"}]
    workload["metadata"]["managedFields"] = [{"fieldsV1": {"f:spec": {}}}]
    assert check_workload(workload, "Deployment") == []


@pytest.mark.parametrize(
    "document", [{}, {"spec": []}, {"metadata": None, "spec": {"template": {"spec": {"containers": 1}}}}]
)
def test_any_document_can_be_checked(document: Any) -> None:
    for finding in check_workload(document, "StatefulSet"):
        assert isinstance(finding, WorkloadFinding)


def test_a_document_of_any_depth_can_be_checked() -> None:
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"a": deep}
    workload = full_deployment()
    workload["spec"]["deep"] = deep
    assert [finding.problem for finding in check_workload(workload, "Deployment")] == ["value"]


def test_the_number_of_findings_is_limited() -> None:
    workload = full_deployment()
    workload["spec"] |= {f"x{number}": 1 for number in range(MAX_FINDINGS * 2)}
    assert len(check_workload(workload, "Deployment")) == MAX_FINDINGS


def test_of_a_large_document_the_first_violation_is_found() -> None:
    workload = full_deployment()
    workload["metadata"]["annotations"]["large"] = "x" * MAX_LISTED_BYTES
    workload["spec"]["template"]["spec"]["containers"][0] |= {"tty": 1, "stdin": 1}
    assert len(check_workload(workload, "Deployment")) == 1


ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], ["x", None, []], {}, {"a": {}}, [{}], [{"a": 1}])


def list_places(node: Any, tokens: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if tokens:
        yield tokens
    if isinstance(node, dict | list):
        for token in node if isinstance(node, dict) else range(len(node)):
            yield from list_places(node[token], (*tokens, token))


def test_a_value_of_any_type_may_be_at_any_place() -> None:
    sample = full_deployment()
    tried = 0
    for number, (*parents, last) in enumerate(list_places(sample)):
        workload = copy.deepcopy(sample)
        node: Any = workload
        for token in parents:
            node = node[token]
        node[last] = ODD[number % len(ODD)]
        assert all(isinstance(found, WorkloadFinding) for found in check_workload(workload, "Deployment"))
        tried += 1
    assert tried > 500


def test_a_finding_has_the_place_of_its_struct() -> None:
    workload = full_deployment()
    workload["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["exec"] = {"command": ["a"]}
    (found,) = find_violations(workload, "Deployment")
    assert found.pointer == "/spec/template/spec/containers/0/livenessProbe/exec"
