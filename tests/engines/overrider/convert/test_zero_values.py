"""Tests of zero values, which Go omits when it encodes a workload."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.zero_values import without_zeros
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
