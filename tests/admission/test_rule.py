import asyncio
import functools
import threading
from typing import Any

import pytest

from fleethook.admission import Denied, mutate, validate
from fleethook.admission.matching import find_wrong_kind
from fleethook.admission.rule import build_request
from fleethook.model.admission import Kind, Resource

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


def test_a_coroutine_is_awaited() -> None:
    @validate("v1", "Pod")
    async def refuses(pod: Any) -> None:
        raise Denied(f"{pod.metadata.name} is refused")

    assert refuses.is_async
    assert refuses.review(POD).message == "a is refused"


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


async def test_a_plain_function_can_be_awaited_too() -> None:
    request = build_request({**POD, "metadata": {"name": "b"}}, None, operation="CREATE")
    assert (await default_seccomp.answer_async(request)).patch


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_failing_rule_names_file_and_line_and_refuses(kind: str) -> None:
    def fails(pod: Any) -> None:
        del pod.spec["missing"]

    async def fails_later(pod: Any) -> None:
        del pod.spec["missing"]

    one = validate("v1", "Pod")(fails if kind == "plain" else fails_later)
    answer = one.review(POD)
    line = one.function.__code__.co_firstlineno + 1
    assert (answer.allowed, answer.code) == (False, 500)
    assert answer.message == (
        f"the rule {one.name} failed, and failurePolicy Fail refuses the object: test_rule.py:{line}: KeyError: 'missing'"
    )


@pytest.mark.parametrize("error", [BaseException("x"), GeneratorExit(), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_no_error_of_a_rule_escapes(error: BaseException, kind: str) -> None:
    def fails(pod: Any) -> None:
        raise error

    async def fails_later(pod: Any) -> None:
        raise error

    one: Any = validate("v1", "Pod")(fails if kind == "plain" else fails_later)
    request = build_request(POD, None, operation="CREATE")
    answers = list[Any]()
    # Ctrl+C reaches the main thread alone, so a rule in another one has raised the error itself.
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(one.answer_async(request))))
    thread.start()
    thread.join()
    assert [answer.code for answer in answers] == [500]
    assert type(error).__name__ in answers[0].message


async def find_refusals(*errors: Exception) -> None:
    async def find(error: Exception) -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(find(error))


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_refusal_in_a_task_group_is_a_refusal(policy: str) -> None:
    @validate("v1", "Pod", failure_policy=policy)
    async def refuses() -> None:
        await find_refusals(Denied("first", code=422), Denied("second"))

    answer = refuses.review(POD)
    assert (answer.allowed, answer.code, answer.message) == (False, 422, "first")


def test_a_failure_in_a_task_group_is_a_failure_with_its_reason() -> None:
    @validate("v1", "Pod")
    async def fails() -> None:
        await find_refusals(Denied("no"), ValueError("a reason"))

    answer = fails.review(POD)
    assert answer.code == 500
    assert answer.message.endswith(": ValueError: a reason")


def test_ctrl_c_ends_a_test_of_a_rule() -> None:
    @validate("v1", "Pod")
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted.review(POD)


def test_an_error_with_an_empty_text_has_its_class_alone() -> None:
    @validate("v1", "Pod")
    def fails(pod: Any) -> None:
        raise TimeoutError

    assert fails.review(POD).message.endswith(": TimeoutError")


def test_a_refusal_without_its_attributes_is_a_failure() -> None:
    class OwnError(Denied):
        def __init__(self) -> None:
            pass

    @validate("v1", "Pod")
    def refuses(pod: Any) -> None:
        raise OwnError

    answer = refuses.review(POD)
    line = refuses.function.__code__.co_firstlineno + 2
    assert answer.code == 500
    assert answer.message.endswith(f"test_rule.py:{line}: AttributeError: 'OwnError' object has no attribute 'message'")


def test_an_error_without_a_text_is_a_failure() -> None:
    class UnreadableError(Exception):
        def __str__(self) -> str:
            raise ValueError

    @validate("v1", "Pod")
    def fails(warnings: list[Any]) -> None:
        warnings.append(UnreadableError())
        raise UnreadableError

    @validate("v1", "Pod")
    def refuses(warnings: list[Any]) -> None:
        warnings.append(UnreadableError())
        raise Denied("no")

    assert refuses.review(POD).warnings == ("its text cannot be read (ValueError)",)
    assert fails.review(POD).message.endswith(": UnreadableError: its text cannot be read (ValueError)")


def test_a_failing_rule_with_policy_ignore_admits_with_a_warning() -> None:
    @mutate("v1", "Pod")
    def fails() -> None:
        raise SystemExit(3)

    answer = fails.review(POD)
    assert answer.allowed
    assert answer.warnings[0].startswith(
        "the rule fails failed, and failurePolicy Ignore admits the object: test_rule.py:"
    )
    assert answer.warnings[0].endswith(": SystemExit: 3")


def test_a_warning_has_one_line() -> None:
    @mutate("v1", "Pod")
    def fails(warnings: list[str]) -> None:
        raise ValueError("1 error\n  for\tspec\x00")

    @mutate("v1", "Pod")
    def warns(warnings: list[str]) -> None:
        warnings.append("a\r\nb\x85c")

    assert fails.review(POD).warnings[0].endswith(": ValueError: 1 error for spec ")
    assert warns.review(POD).warnings == ("a b c",)


def test_an_expression_decides_with_its_message() -> None:
    @validate("v1", "Pod", expression="has(object.metadata.labels)", message="a Pod needs labels")
    def has_labels() -> None:
        """Every Pod has labels."""
        raise AssertionError

    assert has_labels.review(POD).message == "a Pod needs labels"
    assert has_labels.review({**POD, "metadata": {"name": "a", "labels": {"a": "b"}}}).allowed
    # kube-apiserver drops an empty map.
    assert not has_labels.review({**POD, "metadata": {"name": "a", "labels": {}}}).allowed


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("object.metadata.missing == 'x'", "EvaluationError: expression"),
        ("authorizer.group('').resource('pods').check('get').allowed()", "EvaluationError: expression"),
        ("namespaceObject == null", "no such attribute(s): namespaceObject"),
    ],
)
def test_an_expression_without_a_result_fails(expression: str, problem: str) -> None:
    @validate("v1", "Pod", expression=expression, message="no")
    def checks() -> None:
        pass

    answer = checks.review(POD)
    assert answer.code == 500
    assert problem in answer.message


async def test_an_expression_decides_for_a_coroutine_too() -> None:
    @validate("v1", "Pod", expression="false", message="no")
    async def refuses() -> None:
        pass

    request = build_request(POD, None, operation="CREATE")
    assert (await refuses.answer_async(request)).message == "no"
    assert not refuses.is_async


def test_the_place_is_that_of_the_function() -> None:
    assert needs_owner.place == f"test_rule.py:{needs_owner.function.__code__.co_firstlineno}"


def test_a_rule_cannot_remove_the_metadata_with_the_name() -> None:
    @mutate("v1", "Pod", failure_policy="Fail")
    def removes(pod: Any) -> None:
        del pod["metadata"]

    answer = removes.review({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    assert not answer.allowed
    assert "the rule changed /metadata/name, which no webhook may change" in answer.message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"operation": "UPDATE"}, "the operation is UPDATE, not CREATE"),
        ({"kind": Kind("", "v1", "Node")}, "the kind is Node, not Pod"),
        ({"resource": Resource("", "v2", "pods")}, "the object is of core/v2, not of core/v1"),
        ({"sub_resource": "status"}, "the subresource is status, not none"),
        ({"namespace": ""}, "the object is Cluster, and the scope of the rule is Namespaced"),
    ],
)
def test_each_request_is_compared_with_the_declaration(change: dict[str, Any], reason: str) -> None:
    @mutate("v1", "Pod", on="CREATE", scope="Namespaced")
    def changes(pod: Any) -> None:
        del pod

    request = build_request(POD, None, operation="CREATE")
    assert find_wrong_kind(changes.declaration, request) == ""
    for name, value in change.items():
        setattr(request, name, value)
    assert find_wrong_kind(changes.declaration, request) == reason
