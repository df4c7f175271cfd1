"""The walk over a workload. tests/conformance/workload_rules.yaml has the violations that it finds."""

import copy
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from fleethook.engines.overrider.schema import check_workload
from fleethook.engines.overrider.schema.findings import Finding, Violation
from fleethook.engines.overrider.schema.go_structs import load_structs
from fleethook.engines.overrider.schema.violations import (
    DISCRIMINATED,
    find_conflicts,
    find_disallowed,
    find_duplicates,
    find_violations,
    load_choices,
)
from tests.builders import container, pod_template, workload
from tests.workload_samples import full_deployment, full_stateful_set


@pytest.mark.parametrize("struct", load_choices())
def test_members_of_choices_exist(struct: str) -> None:
    choice, members = load_choices()[struct], load_structs()[struct].keys()
    assert len(choice.members) > 1
    assert choice.members <= members


@pytest.mark.parametrize("struct", DISCRIMINATED)
def test_discriminated_members_exist(struct: str) -> None:
    found = DISCRIMINATED[struct]
    assert {found.discriminator, found.member} <= load_structs()[struct].keys()


def test_every_source_of_a_volume_is_a_choice() -> None:
    """A source that a later version of the API adds joins the choice."""
    chosen = load_choices()["core.v1.Volume"].members
    assert {"configMap", "emptyDir", "hostPath", "projected", "image"} <= chosen
    assert "name" not in chosen


@pytest.mark.parametrize("struct", load_choices())
def test_each_two_members_conflict(struct: str) -> None:
    choice = load_choices()[struct]
    for first, second in combinations(sorted(choice.members), 2):
        (found,) = find_conflicts(choice, {"name": "n", second: {}, first: {}})
        assert found == Violation((first,), f"may not be set together with {second}: remove one of them")
    assert [one for one in choice.members if list(find_conflicts(choice, {one: {}}))] == []
    assert bool(list(find_conflicts(choice, {}))) == choice.needed


@pytest.mark.parametrize("struct", DISCRIMINATED)
def test_a_discriminator_decides(struct: str) -> None:
    rule = DISCRIMINATED[struct]
    for value in rule.values:
        assert list(find_disallowed(rule, {rule.member: {}, rule.discriminator: value})) == []
        assert bool(list(find_disallowed(rule, {rule.discriminator: value}))) == rule.needed
    assert [one.tokens for one in find_disallowed(rule, {rule.member: {}, rule.discriminator: "Other"})] == [
        (rule.member,)
    ]
    assert bool(list(find_disallowed(rule, {rule.member: {}}))) == ("" not in rule.values)


def test_more_than_two_members_are_listed() -> None:
    (found,) = find_conflicts(load_choices()["core.v1.Probe"], {"exec": {}, "httpGet": {}, "grpc": {}})
    assert found == Violation(("httpGet",), "may not be set together with exec: keep one of exec, httpGet, grpc")


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


ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], ["x", None, []], {}, {"a": {}}, [{}], [{"a": 1}])


def list_places(node: Any, tokens: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if tokens:
        yield tokens
    if isinstance(node, dict | list):
        for token in node if isinstance(node, dict) else range(len(node)):
            yield from list_places(node[token], (*tokens, token))


def test_full_workloads_violate_no_rule() -> None:
    assert list(find_violations(full_deployment(), "Deployment")) == []
    assert list(find_violations(full_stateful_set(), "StatefulSet")) == []


def test_a_value_of_any_type_may_be_at_any_place() -> None:
    sample = full_deployment()
    tried = 0
    for number, (*parents, last) in enumerate(list_places(sample)):
        workload = copy.deepcopy(sample)
        node: Any = workload
        for token in parents:
            node = node[token]
        node[last] = ODD[number % len(ODD)]
        assert all(isinstance(found, Finding) for found in check_workload(workload, "Deployment"))
        tried += 1
    assert tried > 500


def test_a_finding_has_the_place_of_its_struct() -> None:
    workload = full_deployment()
    workload["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["exec"] = {"command": ["a"]}
    (found,) = find_violations(workload, "Deployment")
    assert found.pointer == "/spec/template/spec/containers/0/livenessProbe/exec"
