"""Tests of elements with the identity of an earlier one. tests/e2e compares the rules with a kube-apiserver."""

from typing import Any

import pytest

from fleethook.engines.overrider.schema.rules.duplicates import find_duplicates
from tests.builders import container, pod_template, workload
from tests.workload_samples import full_deployment

SPEC = "/spec/template/spec"
SPREAD = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def find(*containers: dict[str, Any], **spec: Any) -> list[tuple[str, str]]:
    document = workload(template=pod_template(containers=list(containers) or [container()], **spec))
    return [(one.pointer, one.message) for one in find_duplicates(document)]


def test_a_full_workload_repeats_nothing() -> None:
    assert list(find_duplicates(full_deployment())) == []


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"volumes": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}, f"{SPEC}/volumes/2"),
        ({"initContainers": [container("x"), container("x")]}, f"{SPEC}/initContainers/1"),
        ({"initContainers": [container()]}, f"{SPEC}/containers/0"),
        ({"topologySpreadConstraints": [SPREAD, SPREAD]}, f"{SPEC}/topologySpreadConstraints/1"),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, f"{SPEC}/schedulingGates/1"),
    ],
)
def test_an_element_of_the_pod_is_found(spec: dict[str, Any], pointer: str) -> None:
    ((found, message),) = find(**spec)
    assert found == pointer
    assert message.endswith(": rename or remove one of them")


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("ports", [{"name": "web", "containerPort": 80}, {"name": "web", "containerPort": 81}]),
        ("volumeMounts", [{"name": "a", "mountPath": "/d"}, {"name": "b", "mountPath": "/d"}]),
        ("volumeDevices", [{"name": "a", "devicePath": "/d"}, {"name": "b", "devicePath": "/d"}]),
        ("resizePolicy", [{"resourceName": "cpu"}, {"resourceName": "cpu"}]),
    ],
)
def test_an_element_of_a_container_is_found(name: str, elements: list[Any]) -> None:
    assert [pointer for pointer, _ in find(container("a"), container("b", **{name: elements}))] == [
        f"{SPEC}/containers/1/{name}/1"
    ]
    assert find(container("a", **{name: elements[:1]}), container("b", **{name: elements[1:]})) == []


def test_the_message_names_the_earlier_element_and_its_identity() -> None:
    spread = [{**SPREAD, "maxSkew": 1}, {**SPREAD, "topologyKey": "host"}, {**SPREAD, "maxSkew": 2}]
    ((_, message),) = find(topologySpreadConstraints=spread)
    assert message.startswith(
        f'{SPEC}/topologySpreadConstraints/0 has the same topologyKey "zone", whenUnsatisfiable "DoNotSchedule": '
    )


def test_lists_that_may_repeat_and_elements_without_identity_are_no_finding() -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    ports: list[Any] = [{"containerPort": 80}, {"containerPort": 80}, {"name": 1}, {"name": 1}, None]
    assert find(container(env=variables, ports=ports), imagePullSecrets=[{"name": "a"}, {"name": "a"}]) == []
    assert list(find_duplicates({"spec": {"template": {"spec": {"containers": "a"}}}})) == []
