from collections.abc import Iterator
from typing import Any

import pytest

from app.model.findings import Problem, text_problem, webhooks_problems
from app.model.json import JSONObject


def check(webhook: JSONObject, field: str) -> Iterator[Problem]:
    """Report the member `wrong` of a webhook."""
    if "wrong" in webhook:
        yield Problem(f"{field}.wrong", "Required value")


def found(webhooks: Any, *, unique_names: bool = True) -> list[str]:
    return [problem.field for problem in webhooks_problems(webhooks, check, unique_names=unique_names)]


@pytest.mark.parametrize(
    ("webhooks", "fields"),
    [
        (None, []),
        ([], []),
        ({}, ["webhooks"]),
        ("", ["webhooks"]),
        ([1, {}, None], ["webhooks[0]", "webhooks[2]"]),
        ([{"wrong": 1}, {"name": "a"}, {"wrong": 1}], ["webhooks[0].wrong", "webhooks[2].wrong"]),
        ([{"name": "a"}, {"name": "b"}, {"name": "a", "wrong": 1}], ["webhooks[2].wrong", "webhooks[2].name"]),
        ([{"name": "a"}] * 3, ["webhooks[1].name", "webhooks[2].name"]),
        # An empty name, or one of another type, is a finding of the check and not a duplicate.
        ([{"name": ""}, {"name": ""}, {"name": 1}, {"name": 1}], []),
    ],
)
def test_a_list_of_webhooks_is_checked_in_order(webhooks: Any, fields: list[str]) -> None:
    assert found(webhooks) == fields


def test_equal_names_can_be_allowed() -> None:
    assert found([{"name": "a"}, {"name": "a", "wrong": 1}], unique_names=False) == ["webhooks[1].wrong"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", None),
        ("abc", None),
        ("abcd", Problem("f", "Too long: must have at most 3 characters")),
    ],
)
def test_a_text_may_have_as_many_characters_as_its_limit(value: str, problem: Problem | None) -> None:
    assert text_problem(value, "f", limit=3) == problem


@pytest.mark.parametrize("value", [None, 1, True, [], {}])
def test_a_text_is_a_string(value: Any) -> None:
    problem = text_problem(value, "f", limit=3)
    assert problem is not None
    assert "a string" in problem.text
