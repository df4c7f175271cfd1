from typing import Any

import pytest

from fleethook.admission import Denied, mutate, validate
from fleethook.model.admission import StatusCause
from tests.admission.test_rule_in_tests import POD


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
        f"test_refusals_and_warnings.py:{line}: AttributeError: 'OwnError' object has no attribute 'message'"
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


def test_a_warning_has_one_line() -> None:
    @mutate("v1", "Pod")
    def fails(warnings: list[str]) -> None:
        raise ValueError("1 error\n  for\tspec\x00")

    @mutate("v1", "Pod")
    def warns(warnings: list[str]) -> None:
        warnings.append("a\r\nb\x85c")

    assert fails.review(POD).warnings[0].endswith(": ValueError: 1 error for spec ")
    assert warns.review(POD).warnings == ("a b c",)


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


def test_texts_have_an_end_and_no_surrogates() -> None:
    @validate("v1", "Pod")
    def refuses(warnings: list[Any]) -> None:
        warnings += ["\ud800", "w" * 20_000, None]
        raise Denied("\ud800" + "m" * 20_000, field="f")

    answer = refuses.review(POD)
    assert answer.message == f"f: ?{'m' * 9_999}…"
    assert answer.causes == (StatusCause(field="f", message=f"?{'m' * 9_999}…"),)
    assert answer.warnings == ("?", f"{'w' * 10_000}…", "None")
