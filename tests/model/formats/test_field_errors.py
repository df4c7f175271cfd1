"""Limits of field errors for hostile objects."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleethook.engines.crds.instance.source_validation import find_problems as karmada_problems
from fleethook.engines.crds.instance.source_validation import find_warnings
from fleethook.engines.dispatch.call.phases_and_warnings import limit_warnings as warnings_to_client
from fleethook.engines.dispatch.lint.configuration_validation import resource_problems
from fleethook.engines.interpret.review.answer_validation import validate_answer
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import problems as hook_problems
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import refuse_problems
from fleethook.interpret.interpreter import Answer, Question
from fleethook.model.formats.client_config_and_addresses import MAX_URL, client_config_problems, url_problems
from fleethook.model.formats.field_errors import (
    MAX_PROBLEMS,
    MAX_SHOWN,
    FieldError,
    first_problems,
    is_integer,
    name_problems,
    quoted,
    webhooks_problems,
)
from fleethook.model.formats.names_and_labels import label_key_problems, label_value_problems
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import EXPLORING_CONFIGURATION, Operation

LONG = "a" * (MAX_URL + 1)


def endless() -> Iterator[FieldError]:
    number = 0
    while True:
        yield FieldError(f"f[{number}]", "Required value")
        number += 1


def test_the_search_for_field_errors_ends_at_the_limit() -> None:
    found = first_problems(endless())
    assert found[MAX_PROBLEMS - 1] == FieldError(f"f[{MAX_PROBLEMS - 1}]", "Required value")
    last = FieldError(f"f[{MAX_PROBLEMS}]", f"Too many findings: only the first {MAX_PROBLEMS} are listed")
    assert found[MAX_PROBLEMS:] == [last]
    assert len(refuse_problems(endless()).causes) == MAX_PROBLEMS + 1


def test_field_errors_at_the_limit_have_no_note() -> None:
    made = [FieldError(str(number), "Required value") for number in range(MAX_PROBLEMS)]
    assert first_problems(iter(made)) == made


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a" * MAX_SHOWN, "a" * MAX_SHOWN),
        ("a" * (MAX_SHOWN + 1), "a" * MAX_SHOWN + "…"),
        (["a"] * MAX_SHOWN, ["a"] * MAX_SHOWN),
        (["a"] * (MAX_SHOWN + 1), ["a"] * MAX_SHOWN + ["…"]),
        (["a" * (MAX_SHOWN + 1)], ["a" * MAX_SHOWN + "…"]),
        (5, 5),
        (0.5, 0.5),
    ],
)
def test_a_field_error_cuts_long_values(value: Any, shown: Any) -> None:
    assert json.loads(quoted(value)) == shown


def test_the_length_is_the_only_error_of_a_long_text() -> None:
    assert next(problem.text for problem in name_problems("-" * 300, "name", segments=2)).count("must ") == 3
    (problem,) = name_problems("-" * (MAX_SHOWN + 1), "name", segments=2)
    assert problem.text.endswith(": must be no more than 253 characters")
    assert list(label_value_problems("-" * (MAX_SHOWN + 1))) == ["must be no more than 63 bytes"]
    assert list(label_key_problems("-" * (MAX_SHOWN + 1))) == ["name part must be no more than 63 bytes"]


def karmada(**source: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "n"}, "spec": {"crdTarball": {"httpSource": source}}}


def test_a_boolean_is_no_integer() -> None:
    assert [is_integer(value) for value in (1, True, 1.0, "1", None)] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("source", "field"),
    [({"url": LONG}, "url"), ({"proxy": {"proxyURL": LONG}}, "proxy.proxyURL"), ({"mirrors": [LONG]}, "mirrors[0]")],
)
def test_urls_of_tarballs_are_limited(source: dict[str, Any], field: str) -> None:
    document = karmada(**source)
    found = [problem for problem in karmada_problems(document) if problem.field.endswith(f"httpSource.{field}")]
    assert [problem.text for problem in found] == [f"Too long: must have at most {MAX_URL} characters"]
    assert list(find_warnings(document)) == []


def test_paths_of_tarballs_are_limited() -> None:
    document = {"metadata": {}, "spec": {"crdTarball": {"localSource": {"path": "/" + "../" * 2000}}}}
    (problem,) = karmada_problems(document)
    assert problem == FieldError("spec.crdTarball.localSource.path", "Too long: must have at most 4096 characters")


def test_urls_of_webhooks_are_limited() -> None:
    too_long = FieldError("f", f"Too long: must have at most {MAX_URL} characters")
    assert list(url_problems(f"https://a/{LONG}", "f")) == [too_long]
    (problem,) = client_config_problems({"service": {"name": "a", "namespace": "b", "path": "/A" * MAX_URL}}, "f")
    assert problem == too_long._replace(field="f.service.path")


class Counted(str):
    """A string that counts its comparisons."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.fixture
def counted() -> type[Counted]:
    Counted.compared = 0
    return Counted


def test_the_resources_of_a_rule_are_compared_in_linear_time(counted: type[Counted]) -> None:
    resources: list[Any] = [counted(f"a{number}/status") for number in range(2000)]
    assert list(resource_problems(resources, "f")) == []
    assert counted.compared <= 6 * 2000


class Reference(dict[str, Any]):
    """A reference that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


def test_dependencies_are_compared_in_linear_time() -> None:
    asked = Question(Operation.DEPENDENCY, GroupVersionKind("", "v1", "Pod"), {})
    names = ("b", "a", "b")
    given: list[Any] = [Reference(apiVersion="v1", kind="Secret", name=name) for name in names]
    found = validate_answer(asked, Answer(dependencies=given)).dependencies
    assert found is not None
    assert [one["name"] for one in found] == ["a", "b"]


def test_field_errors_of_webhooks_are_generated_lazily() -> None:
    rules: list[Any] = [{"operations": ["*"]}] * 100_000
    found = first_problems(hook_problems(EXPLORING_CONFIGURATION, {"webhooks": [{"name": "a.b", "rules": rules}]}))
    assert len(found) == MAX_PROBLEMS + 1


def test_warnings_omit_unprintable_values() -> None:
    text = "a\x00b\x1fc\x7fd\ud800e\udffff é"
    assert warnings_to_client([text]) == ("abcdef é",)


def check_webhook(webhook: JSONObject, field: str) -> Iterator[FieldError]:
    """Report the member `wrong` of a webhook."""
    if "wrong" in webhook:
        yield FieldError(f"{field}.wrong", "Required value")


def fields_of(webhooks: Any) -> list[str]:
    return [problem.field for problem in webhooks_problems(webhooks, check_webhook)]


@pytest.mark.parametrize(
    ("webhooks", "fields"),
    [
        (None, []),
        ([], []),
        ({}, []),
        ([1, {"wrong": 1}, None], ["webhooks[1].wrong"]),
        ([{"wrong": 1}, {"name": "a"}, {"wrong": 1}], ["webhooks[0].wrong", "webhooks[2].wrong"]),
        ([{"name": "a"}, {"name": "b"}, {"name": "a", "wrong": 1}], ["webhooks[2].wrong", "webhooks[2].name"]),
        ([{"name": "a"}] * 3, ["webhooks[1].name", "webhooks[2].name"]),
        # The check reports an empty name or one of another type; it is no duplicate.
        ([{"name": ""}, {"name": ""}, {"name": 1}, {"name": 1}], []),
    ],
)
def test_a_list_of_webhooks_is_checked_in_order(webhooks: Any, fields: list[str]) -> None:
    assert fields_of(webhooks) == fields
