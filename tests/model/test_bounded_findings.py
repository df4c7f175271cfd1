"""Findings about hostile objects: so many, and so much of a value in each."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.crds.instance.notices import warnings_of
from app.crds.instance.rules import problems as karmada_problems
from app.dispatch.client_warnings import limit_warnings as warnings_to_client
from app.dispatch.validation import configuration
from app.dispatch.validation.rules import resource_problems
from app.dispatch.validation.selectors import label_key_problems, label_value_problems
from app.interpret.checks import checked
from app.interpret.hook_rules import problems as hook_problems
from app.interpret.question import Answer, Question
from app.interpret.review import refused
from app.model.client_config import MAX_BUNDLE, MAX_URL, bundle_problems, client_config_problems, url_problems
from app.model.findings import MAX_PROBLEMS, MAX_SHOWN, Problem, first_problems, name_problems, quoted
from app.model.gvk import GroupVersionKind
from app.model.karmada import EXPLORING_CONFIGURATION, Operation

LONG = "a" * (MAX_URL + 1)


def endless() -> Iterator[Problem]:
    number = 0
    while True:
        yield Problem(f"f[{number}]", "Required value")
        number += 1


def test_the_search_for_findings_ends() -> None:
    found = first_problems(endless())
    assert found[MAX_PROBLEMS - 1] == Problem(f"f[{MAX_PROBLEMS - 1}]", "Required value")
    last = Problem(f"f[{MAX_PROBLEMS}]", f"Too many findings: only the first {MAX_PROBLEMS} are listed")
    assert found[MAX_PROBLEMS:] == [last]
    assert len(refused(endless()).causes) == MAX_PROBLEMS + 1


def test_as_many_findings_as_may_be_are_listed_without_a_remark() -> None:
    made = [Problem(str(number), "Required value") for number in range(MAX_PROBLEMS)]
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
def test_a_finding_shows_so_much_of_a_value(value: Any, shown: Any) -> None:
    assert json.loads(quoted(value)) == shown


def test_the_length_of_a_long_text_is_its_only_mistake() -> None:
    assert next(problem.text for problem in name_problems("-" * 300, "name", segments=2)).count("must ") == 3
    (problem,) = name_problems("-" * (MAX_SHOWN + 1), "name", segments=2)
    assert problem.text.endswith(": must be no more than 253 characters")
    assert list(label_value_problems("-" * (MAX_SHOWN + 1))) == ["must be no more than 63 bytes"]
    assert list(label_key_problems("-" * (MAX_SHOWN + 1))) == ["name part must be no more than 63 bytes"]


def karmada(**source: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "n"}, "spec": {"crdTarball": {"httpSource": source}}}


@pytest.mark.parametrize(
    ("source", "field"),
    [({"url": LONG}, "url"), ({"proxy": {"proxyURL": LONG}}, "proxy.proxyURL"), ({"mirrors": [LONG]}, "mirrors[0]")],
)
def test_an_address_of_a_tarball_has_so_many_characters_at_most(source: dict[str, Any], field: str) -> None:
    document = karmada(**source)
    found = [problem for problem in karmada_problems(document) if problem.field.endswith(f"httpSource.{field}")]
    assert [problem.text for problem in found] == [f"Too long: must have at most {MAX_URL} characters"]
    assert list(warnings_of(document)) == []


def test_a_path_of_a_tarball_has_so_many_characters_at_most() -> None:
    document = {"metadata": {}, "spec": {"crdTarball": {"localSource": {"path": "/" + "../" * 2000}}}}
    (problem,) = karmada_problems(document)
    assert problem == Problem("spec.crdTarball.localSource.path", "Too long: must have at most 4096 characters")


def test_where_a_hook_is_has_so_many_characters_at_most() -> None:
    too_long = Problem("f", f"Too long: must have at most {MAX_URL} characters")
    assert list(url_problems(f"https://a/{LONG}", "f")) == [too_long]
    (problem,) = client_config_problems({"service": {"name": "a", "namespace": "b", "path": "/A" * MAX_URL}}, "f")
    assert problem == too_long._replace(field="f.service.path")
    (problem,) = bundle_problems("A" * (MAX_BUNDLE + 1), "f")
    assert problem.text == f"Too long: must have at most {MAX_BUNDLE} characters"


class Counted(str):
    """A text that counts how often it is compared."""

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


def test_the_names_of_stored_webhooks_are_compared_in_linear_time(counted: type[Counted]) -> None:
    old = {"webhooks": [{"name": counted(f"a{number}.example.org")} for number in range(2000)]}
    list(configuration.configuration_problems("ValidatingWebhookConfiguration", {}, old=old, compile_expression=str))
    assert counted.compared <= 3 * 2000


def test_the_resources_of_a_rule_are_compared_in_linear_time(counted: type[Counted]) -> None:
    resources: list[Any] = [counted(f"a{number}/status") for number in range(2000)]
    assert list(resource_problems(resources, "f")) == []
    assert counted.compared <= 6 * 2000


class Reference(dict[str, Any]):
    """A reference that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


def test_dependencies_are_told_apart_without_comparing_each_with_each() -> None:
    asked = Question(Operation.DEPENDENCY, GroupVersionKind("", "v1", "Pod"), {})
    names = ("b", "a", "b")
    given: list[Any] = [Reference(apiVersion="v1", kind="Secret", name=name) for name in names]
    found = checked(asked, Answer(dependencies=given)).dependencies
    assert found is not None
    assert [one["name"] for one in found] == ["a", "b"]


def test_findings_about_hooks_are_bounded_lazily() -> None:
    rules: list[Any] = [{"operations": ["*"]}] * 100_000
    found = first_problems(hook_problems(EXPLORING_CONFIGURATION, {"webhooks": [{"name": "a.b", "rules": rules}]}))
    assert len(found) == MAX_PROBLEMS + 1


def test_what_cannot_be_printed_is_left_out_of_warnings() -> None:
    text = "a\x00b\x1fc\x7fd\ud800e\udffff é"
    assert warnings_to_client([text]) == ("abcdef é",)
