"""Tests of the differences after a conversion, and of the operations that unset members."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.losses import (
    MISSING,
    Loss,
    find_losses,
    unset_operation,
    unset_removals,
    without_zeros,
)
from tests.builders import container, pod_template, workload


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"strategy": {}, "paused": False, "minReadySeconds": 0}, {}),
        ({"replicas": 0, "revisionHistoryLimit": 0}, {"replicas": 0, "revisionHistoryLimit": 0}),
        ({"paused": 0, "minReadySeconds": False}, {"paused": 0, "minReadySeconds": False}),
        ({"unknown": {}, "other": 0}, {"unknown": {}, "other": 0}),
        (
            {"strategy": {"type": "", "rollingUpdate": {"maxSurge": 0}}},
            {"strategy": {"rollingUpdate": {"maxSurge": 0}}},
        ),
    ],
)
def test_zero_values_of_members_without_pointer_are_removed(spec: dict[str, Any], kept: dict[str, Any]) -> None:
    bare = without_zeros(workload(), "Deployment")
    assert without_zeros(workload(**{"replicas": 2, **spec}), "Deployment")["spec"] == {**bare["spec"], **kept}


def test_lists_and_maps_are_removed_if_they_are_empty_and_elements_stay() -> None:
    template = pod_template(
        containers=[container(args=[], env=[{"name": "A", "value": ""}, {}], resources={"limits": {}})],
        nodeSelector={},
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    pods = without_zeros(workload(template=template), "Deployment")["spec"]["template"]["spec"]
    assert pods == {
        "containers": [container(env=[{"name": "A"}, {}])],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }


def test_a_pointer_to_a_struct_keeps_an_empty_struct_without_zeros() -> None:
    template = pod_template(securityContext={"sysctls": [], "runAsUser": 0})
    made = without_zeros(workload(template=template), "Deployment")["spec"]["template"]["spec"]
    assert made["securityContext"] == {"runAsUser": 0}


def test_values_of_maps_are_kept() -> None:
    template = pod_template(nodeSelector={"a": ""})
    assert without_zeros(workload(template=template), "Deployment")["spec"]["template"]["spec"]["nodeSelector"] == {
        "a": ""
    }


def test_a_stateful_set_has_its_own_members() -> None:
    made = without_zeros(workload("StatefulSet", serviceName="", volumeClaimTemplates=[]), "StatefulSet")
    assert not {"serviceName", "volumeClaimTemplates"} & made["spec"].keys()


SPEC = "/spec/template/spec"
POD = ("spec", "template", "spec")


def test_each_difference_has_its_path_and_both_values() -> None:
    wanted = workload(template=pod_template(containers=[container(args=["a"]), container("b")]), paused=True)
    got = workload(template=pod_template(containers=[container(args=["a", "b"]), container("c")]), minReadySeconds=3)
    assert [(one.path, one.wanted, one.got) for one in find_losses(wanted, got, "Deployment")] == [
        (f"{SPEC}/containers/0/args", ["a"], ["a", "b"]),
        (f"{SPEC}/containers/1/name", "b", "c"),
        ("/spec/paused", True, MISSING),
        ("/spec/minReadySeconds", MISSING, 3),
    ]


def test_zero_values_are_no_difference() -> None:
    zeros = workload(template=pod_template(hostNetwork=False, volumes=[]), strategy={}, minReadySeconds=0)
    assert list(find_losses(workload(template=pod_template()), zeros, "Deployment")) == []


@pytest.mark.parametrize(
    ("tokens", "got", "zero"),
    [
        (("spec", "paused"), True, False),
        (("spec", "minReadySeconds"), 3, 0),
        (("spec", "replicas"), 3, None),
        ((*POD, "containers", "0", "workingDir"), "/w", ""),
        ((*POD, "containers", "0", "args"), ["a"], None),
        ((*POD, "nodeSelector"), {"a": "b"}, None),
        ((*POD, "containers", "0", "resources"), {"limits": {"cpu": "1"}}, {"limits": None}),
    ],
)
def test_a_member_of_a_struct_is_unset_by_null_or_zero(tokens: tuple[str, ...], got: Any, zero: Any) -> None:
    loss = Loss(tokens, MISSING, got)
    assert unset_operation(loss, "Deployment") == {"op": "add", "path": loss.path, "value": zero}


@pytest.mark.parametrize(
    "loss",
    [
        Loss(("spec", "paused"), False, True),
        Loss((*POD, "nodeSelector", "disk"), MISSING, "ssd"),
        Loss((*POD, "containers", "0"), MISSING, container()),
        Loss((*POD, "unknown"), MISSING, 1),
        Loss(("spec", "template", "spec"), MISSING, {"unknown": 1}),
    ],
)
def test_values_keys_elements_and_unknown_members_are_not_unset(loss: Loss) -> None:
    assert unset_operation(loss, "Deployment") is None


def test_removals_of_members_set_them_and_other_operations_stay() -> None:
    before = workload(template=pod_template(containers=[container(args=["a"])], nodeSelector={"disk": "ssd"}))
    operations = [
        {"op": "add", "path": f"{SPEC}/containers/0", "value": container("new", workingDir="/w")},
        {"op": "remove", "path": f"{SPEC}/containers/0/workingDir"},
        {"op": "remove", "path": f"{SPEC}/containers/1/args"},
        {"op": "remove", "path": f"{SPEC}/nodeSelector/disk"},
        {"op": "remove", "path": f"{SPEC}/containers/0"},
    ]
    made = unset_removals(before, operations, "Deployment")
    assert made[1:3] == [
        {"op": "add", "path": f"{SPEC}/containers/0/workingDir", "value": ""},
        {"op": "add", "path": f"{SPEC}/containers/1/args", "value": None},
    ]
    assert (made[0], made[3:]) == (operations[0], operations[3:])
