import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from fleethook.admission import Denied, mutate, validate
from fleethook.admission.rule_in_tests import Surroundings, ask_in_order, build_request
from fleethook.admission.store_parameter import FIND_NOTHING
from fleethook.model.admission import StatusCause
from tests.admission.test_rule_in_tests import POD, default_seccomp, needs_owner


async def test_a_plain_function_can_be_awaited_too() -> None:
    request = build_request({**POD, "metadata": {"name": "b"}}, None, operation="CREATE")
    assert (await default_seccomp.decide(request, FIND_NOTHING, {}))[0].patch


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
        f"the rule {one.name} failed, and failurePolicy Fail refuses the object: test_rule_call_and_exceptions.py:{line}: KeyError: 'missing'"
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
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(one.decide(request, FIND_NOTHING, {}))[0]))
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
        os.kill(os.getpid(), signal.SIGINT)

    # A process in the background of a shell ignores the signal.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted.review(POD)
    finally:
        signal.signal(signal.SIGINT, former)


def test_a_rule_that_hangs_in_a_test_has_the_answer_of_a_server() -> None:
    release = threading.Event()

    @validate("v1", "Pod", timeout=1)
    def hangs() -> None:
        release.wait()

    @mutate("v1", "Pod", timeout=1)
    async def waits() -> None:
        await asyncio.Event().wait()

    refused, admitted = hangs.review(POD), waits.review(POD)
    release.set()
    assert (refused.allowed, refused.message.endswith(": no answer after 1 s")) == (False, True)
    assert (admitted.allowed, admitted.warnings[0].endswith(": no answer after 1 s")) == (True, True)


def test_a_call_that_hangs_ends_no_other_call_of_the_same_thread() -> None:
    release = threading.Event()

    @validate("v1", "Pod")
    def first(warnings: Any) -> None:
        warnings.append("first")

    @validate("v1", "Pod", timeout=1)
    def hangs(warnings: Any) -> None:
        release.wait()

    @validate("v1", "Pod")
    async def last(warnings: Any) -> None:
        warnings.append("last")

    request = build_request(POD, operation="CREATE")
    found = [review for _, _, review in ask_in_order([first, hangs, last], request, Surroundings())]
    release.set()
    assert [(one.allowed, one.warnings) for one in found] == [(True, ("first",)), (False, ()), (True, ("last",))]


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
    assert answer.message.endswith(
        f"test_rule_call_and_exceptions.py:{line}: AttributeError: 'OwnError' object has no attribute 'message'"
    )


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
        "the rule fails failed, and failurePolicy Ignore admits the object: test_rule_call_and_exceptions.py:"
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
    assert (await refuses.decide(request, FIND_NOTHING, {}))[0].message == "no"
    assert not refuses.is_async


def test_the_place_is_that_of_the_function() -> None:
    assert needs_owner.place == f"test_rule_in_tests.py:{needs_owner.function.__code__.co_firstlineno}"


def test_a_denial_names_its_field() -> None:
    @validate("v1", "Pod")
    def refuses() -> None:
        raise Denied("label `owner` is missing", field="metadata.labels", code=422)

    answer = refuses.review(POD)
    assert (answer.allowed, answer.code, answer.message) == (False, 422, "metadata.labels: label `owner` is missing")
    assert answer.causes == (StatusCause(field="metadata.labels", message="label `owner` is missing"),)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"code": 200}, "code: 200 is no HTTP status code of a refusal: give one from 400 to 599"),
        ({"code": 403.0}, "code: 403.0 is no HTTP status code of a refusal"),
        ({"code": "403"}, "code: '403' is no HTTP status code of a refusal"),
        ({"field": 5}, "field: 5 is no text"),
    ],
)
def test_a_denial_that_no_response_can_have_is_a_failure(options: dict[str, Any], problem: str) -> None:
    @validate("v1", "Pod")
    def refuses() -> None:
        raise Denied("no", **options)

    answer = refuses.review(POD)
    assert (answer.allowed, answer.code) == (False, 500)
    assert problem in answer.message
