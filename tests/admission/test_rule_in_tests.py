import asyncio
import functools
from typing import Any

import msgspec
import pytest

from fleethook.admission import Denied, mutate, validate

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}, "spec": {}}


@validate("apps/v1", "Deployment", on=("CREATE", "UPDATE"), namespace_selector={"matchLabels": {"team": "web"}})
def needs_owner(request: Any) -> None:
    """Every Deployment names its owner."""
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")


@mutate("v1", "Pod", on="CREATE")
def default_seccomp(pod: Any) -> None:
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})


def test_the_rules_of_the_documentation() -> None:
    deployment: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "n"},
    }
    labels = {"team": "web"}
    refused = needs_owner.review(deployment, namespace_labels=labels)
    assert (refused.allowed, refused.message) == (False, "metadata.labels: label `owner` is missing")
    deployment["metadata"]["labels"] = {"owner": "ann"}
    assert needs_owner.review(deployment, operation="UPDATE", namespace_labels=labels).allowed
    assert needs_owner.__doc__ == "Every Deployment names its owner."
    answer = default_seccomp.review(POD)
    assert answer.patch == [
        {"op": "add", "path": "/spec/securityContext/seccompProfile", "value": {"type": "RuntimeDefault"}}
    ]
    assert answer.object["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["spec"] == {}


def test_a_plain_decorator_may_pass_on_a_coroutine() -> None:
    def measured(function: Any) -> Any:
        @functools.wraps(function)
        def measure(*arguments: Any, **named: Any) -> Any:
            return function(*arguments, **named)

        return measure

    @validate("v1", "Pod")
    @measured
    async def refuses(pod: Any) -> None:
        await asyncio.sleep(0)
        raise Denied(f"{pod.metadata.name} is refused")

    assert refuses.review(POD).message == "a is refused"


async def test_a_test_in_an_event_loop_can_review_a_coroutine() -> None:
    @validate("v1", "Pod")
    async def refuses(pod: Any) -> None:
        raise Denied(f"{pod.metadata.name} is refused")

    assert refuses.review(POD).message == "a is refused"


@pytest.mark.parametrize(
    ("document", "operation", "problem"),
    [
        (None, "CREATE", "the object is None: give a dict with apiVersion and kind"),
        ({"kind": "Pod"}, "CREATE", r"the object is \{'kind': 'Pod'\}: give a dict with apiVersion and kind"),
        ({**POD, "metadata": {"name": 5}}, "CREATE", "/metadata/name is 5: give a text, in YAML with quotes"),
        ({**POD, "metadata": {"labels": {"a": 1}}}, "CREATE", "/metadata/labels/a is 1: give a text"),
        (POD, "create", "operation: 'create' is unknown: give one of CREATE, UPDATE, DELETE, CONNECT"),
    ],
)
def test_a_review_needs_an_object_and_an_operation(document: Any, operation: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        default_seccomp.review(document, operation=operation)


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "Pod"), ("example.com/v1", "Widget")])
def test_a_rule_gets_metadata_without_null(api_version: str, kind: str) -> None:
    """kube-apiserver decodes them, and a chart of Helm writes null for an empty value."""

    @validate("*/*", "*")
    def refuses(request: Any) -> None:
        raise Denied(f"{dict(request.labels)} {request.object.metadata.get('annotations')} {request.namespace!r}")

    metadata = {"name": "a", "namespace": None, "labels": {"a": None}, "annotations": None}
    answer = refuses.review({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    assert answer.message == "{'a': ''} None ''"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"store": [{"kind": "ConfigMap"}]},
            r"store: \{'kind': 'ConfigMap'\} is no object: give apiVersion, kind and metadata",
        ),
        ({"store": {"kind": "ConfigMap"}}, "store: 'kind' is no object"),
        ({"user": "ann"}, "user: 'ann' is no user: give a dict with username and groups"),
    ],
)
def test_a_wrong_argument_of_a_review_is_no_failure_of_the_rule(options: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        default_seccomp.review(POD, **options)


def test_a_rule_cannot_remove_the_metadata_with_the_name() -> None:
    @mutate("v1", "Pod", failure_policy="Fail")
    def removes(pod: Any) -> None:
        del pod["metadata"]

    answer = removes.review({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    assert not answer.allowed
    assert "the rule changed /metadata/name, which no webhook may change" in answer.message


def repeats(pod: Any) -> None:
    pod.spec.containers[0].setdefault("env", []).append({"name": "A", "value": "1"})


def counts(pod: Any) -> None:
    annotations = pod.metadata.setdefault("annotations", {})
    annotations["seen"] = str(int(annotations.get("seen", "0")) + 1)


def refuses_its_result(pod: Any) -> None:
    if "annotations" in pod.metadata:
        raise Denied("it has annotations")
    pod.metadata["annotations"] = {"a": "b"}


def fails_about_its_result(pod: Any) -> None:
    if "annotations" in pod.metadata:
        raise KeyError("a")
    pod.metadata["annotations"] = {"a": "b"}


def sets_once(pod: Any) -> None:
    if "annotations" not in pod.metadata:
        pod.metadata["annotations"] = {"a": "b"}


def tells_once(pod: Any, warnings: list[str]) -> None:
    if "annotations" not in pod.metadata:
        warnings.append("added")
        pod.metadata["annotations"] = {"a": "b"}


def drops_default(pod: Any) -> None:
    del pod.spec["schedulerName"]


def sets_null(pod: Any) -> None:
    pod.metadata["labels"] = {"a": None}


def misspells(pod: Any) -> None:
    pod.spec["securityContex"] = {}


def breaks(pod: Any) -> None:
    pod.spec.restartPolicy = "Sometimes"


WEB = {**POD, "spec": {"containers": [{"name": "a", "image": "a"}]}}
AGAIN = "asked again about its own result, as kube-apiserver does if a later webhook changes the object, it "


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (repeats, {}, f"{AGAIN}changes /spec/containers/0/env/1: change only what is missing"),
        (counts, {}, f"{AGAIN}changes /metadata/annotations/seen: change only what is missing"),
        (refuses_its_result, {}, f"{AGAIN}answers: it has annotations"),
        (
            fails_about_its_result,
            {},
            f"{AGAIN}answers: the rule fails-about-its-result failed, and failurePolicy Ignore ",
        ),
        (sets_once, {}, ""),
        (tells_once, {}, ""),
        (drops_default, {}, ""),
        # kube-apiserver does not ask again about an object that a condition excludes.
        (repeats, {"match_conditions": {"a": "!has(object.spec.containers[0].env)"}}, ""),
        (sets_null, {}, "its changes are invalid: metadata.labels.a: must be a string, not null"),
        (misspells, {}, "its changes are invalid: spec.securityContex is not a field of PodSpec"),
        (breaks, {}, "its changes are invalid: spec.restartPolicy: must be one of "),
    ],
)
def test_a_review_of_a_mutating_rule_finds_its_mistakes(function: Any, options: Any, expected: str) -> None:
    answer = mutate("v1", "Pod", **options)(function).review(WEB)
    assert len(answer.mistakes) == bool(expected)
    place, _, text = answer.mistakes[0].partition(": ") if expected else ("test_rule_in_tests.py:1", "", "")
    assert place.startswith("test_rule_in_tests.py:")
    assert text.startswith(expected)
    # kube-apiserver drops a member that it does not know, and stores an empty text for null.
    assert (answer.allowed, answer.code) == ((False, 422) if function is breaks else (True, 0))
    assert bool(answer.patch) is (function is not breaks)


def test_the_second_question_has_no_side_effect() -> None:
    effects = []

    @mutate("v1", "Pod", side_effects="NoneOnDryRun")
    def tells(pod: Any, request: Any) -> None:
        if not request.dry_run:
            effects.append(request.name)
        pod.metadata.setdefault("annotations", {})["told"] = "yes"

    assert tells.review(WEB).mistakes == ()
    assert effects == ["a"]


class Spec(msgspec.Struct):
    replicas: int = 1


class Deployment(msgspec.Struct):
    spec: Spec


def changes_typed(deployment: Deployment) -> None:
    deployment.spec.replicas = 3


def changes_plain(deployment: Any) -> None:
    deployment.spec.setdefault("paused", False)


def changes_through_request(request: Any) -> None:
    request.object.metadata["labels"] = {}


def changes_and_refuses(deployment: Any) -> None:
    deployment.spec.replicas = 3
    raise Denied("no")


def reads(deployment: Any, request: Any) -> None:
    assert deployment.spec.replicas == 2
    assert request.object.metadata.name == "a"


def reads_typed(deployment: Deployment) -> None:
    assert deployment.spec.replicas == 2


@pytest.mark.parametrize(
    ("function", "changes"),
    [
        (changes_typed, True),
        (changes_plain, True),
        (changes_through_request, True),
        (changes_and_refuses, True),
        (reads, False),
        (reads_typed, False),
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_a_review_finds_a_validating_rule_that_changes_its_object(
    function: Any, operation: Any, *, changes: bool
) -> None:
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
    answer = validate("apps/v1", "Deployment", on="*")(function).review(document, operation=operation)
    assert bool(answer.mistakes) is changes
    assert all(one.endswith("@validate drops the changes: use @mutate, or read with .get()") for one in answer.mistakes)
    assert answer.allowed is (function is not changes_and_refuses)
