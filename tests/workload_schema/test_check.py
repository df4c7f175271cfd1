"""Findings about rendered workloads. tests/e2e/test_workload_rules.py compares them with a kube-apiserver."""

import copy
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from fleethook.workload_schema import Finding, check_workload
from fleethook.workload_schema.check import (
    DISCRIMINATED,
    MAX_FINDINGS,
    MAX_LISTED_BYTES,
    find_conflicts,
    find_disallowed,
    find_duplicates,
    find_violations,
    load_choices,
)
from fleethook.workload_schema.findings import Violation
from fleethook.workload_schema.go_structs import load_structs
from tests.builders import container, pod_template, workload
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


@pytest.mark.parametrize(
    ("edit", "pointer"),
    [
        (lambda at: at.app["env"][0].pop("name"), f"{APP}/env/0/name"),
        (lambda at: at.app["env"][0].update(name=None), f"{APP}/env/0/name"),
        (lambda at: at.pod["initContainers"].append({"image": "a"}), f"{POD}/initContainers/1/name"),
        (lambda at: at.pod.update(containers=None), f"{POD}/containers"),
        (lambda at: at.pod.update(containers=[]), f"{POD}/containers"),
    ],
)
def test_missing_members_are_findings(edit: Any, pointer: str) -> None:
    assert the_finding(edit) == (pointer, "missing", "is required: set it")


@pytest.mark.parametrize(
    ("edit", "pointer", "message"),
    [
        (
            lambda at: at.app.update(imagePullPolicy="always"),
            f"{APP}/imagePullPolicy",
            'must be one of Always, IfNotPresent, Never, not the string "always": did you mean Always?',
        ),
        (
            lambda at: at.app["lifecycle"].update(stopSignal="SIGTRM"),
            f"{APP}/lifecycle/stopSignal",
            'the string "SIGTRM" is not a value that Kubernetes knows: did you mean SIGTERM?',
        ),
        (
            lambda at: at.app["resources"]["limits"].update(cpu="lots"),
            f"{APP}/resources/limits/cpu",
            "'lots' is not a quantity: write a number and one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or eN",
        ),
        (
            lambda at: at.pod.update(priority=2**31),
            f"{POD}/priority",
            "must be 2147483647 or less, not 2147483648",
        ),
        (lambda at: at.app["env"][0].update(name=""), f"{APP}/env/0/name", "must not be empty"),
    ],
)  # fmt: skip
def test_values_that_kubernetes_does_not_take_are_findings(edit: Any, pointer: str, message: str) -> None:
    assert the_finding(edit) == (pointer, "value", message)


def test_counts_are_not_negative() -> None:
    workload = full_deployment()
    workload["spec"]["replicas"] = -1
    (finding,) = check_workload(workload, "Deployment")
    assert str(finding) == "/spec/replicas: must be 0 or more, not -1"


@pytest.mark.parametrize(
    "edit",
    [
        lambda at: at.pod.update(hostNetwork=False, priority=None, tolerations=[], imagePullSecrets=None),
        lambda at: at.app.update(imagePullPolicy="", terminationMessagePolicy=None, tty=False),
        lambda at: at.app["ports"][1].update(protocol=""),
        lambda at: at.app["env"].append({"name": "EMPTY", "value": ""}),
        lambda at: at.app["env"].append(dict(at.app["env"][0])),
        lambda at: at.app["resources"]["limits"].update({"cpu": 2, "memory": 2**31, "ephemeral-storage": " 1Gi "}),
        lambda at: at.app["livenessProbe"]["httpGet"]["httpHeaders"].append({"name": "X-Empty"}),
    ],
)
def test_values_that_kube_apiserver_accepts_are_no_finding(edit: Any) -> None:
    assert findings(edit) == []


@pytest.mark.parametrize(
    ("edit", "pointer", "earlier"),
    [
        (lambda at: at.pod["containers"].append({"name": "app", "image": "a"}), f"{POD}/containers/1", APP),
        (lambda at: at.pod["initContainers"][0].update(name="app"), APP, f"{POD}/initContainers/0"),
        (lambda at: at.pod["volumes"].append({"name": "v0"}), f"{POD}/volumes/29", f"{POD}/volumes/0"),
    ],
)
def test_names_are_unique(edit: Any, pointer: str, earlier: str) -> None:
    (found,) = findings(edit)
    assert found[:2] == (pointer, "duplicate")
    assert found[2].startswith(f"{earlier} has the same name")


def test_a_mount_path_is_mounted_once() -> None:
    found = the_finding(lambda at: at.app["volumeMounts"].append({"name": "v2", "mountPath": "/m"}))
    text = f'{APP}/volumeMounts/0 has the same mountPath "/m": rename or remove one of them'
    assert found == (f"{APP}/volumeMounts/2", "duplicate", text)


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
        assert isinstance(finding, Finding)


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
