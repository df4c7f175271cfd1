"""Tests of the checks of types and members, and of their messages."""

from typing import Any

import pytest

from fleethook.engines.overrider.rules.value_shapes import (
    Shape,
    any_object,
    boolean,
    integer,
    list_of,
    map_of,
    mistyped,
    quantity,
    text,
    type_name,
)

POINT = Shape("a point", {"name": text, "x": integer, "tags": list_of(text), "limits": map_of(quantity)}, ("name",))


def check(value: Any) -> list[tuple[str, str]]:
    return [(one.code, one.field) for one in POINT.check(value, "p")]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"name": "a", "x": 1, "tags": ["b"], "limits": {"cpu": "1", "memory": None}}, []),
        ({"name": "a", "x": None, "tags": None}, []),
        ([], [("invalid", "p")]),
        ({}, [("required", "p.name")]),
        ({"name": "  "}, [("required", "p.name")]),
        ({"nmae": "a"}, [("unknown-field", "p.nmae")]),
        ({"name": "a", "x": True}, [("invalid", "p.x")]),
        ({"name": "a", "tags": ["b", 1, None]}, [("invalid", "p.tags[1]"), ("invalid", "p.tags[2]")]),
        ({"name": "a", "tags": "b"}, [("invalid", "p.tags")]),
        ({"name": "a", "limits": {"cpu": "much"}}, [("invalid", "p.limits.cpu")]),
        ({"name": "a", "limits": []}, [("invalid", "p.limits")]),
    ],
)
def test_an_object_is_checked_member_by_member(value: Any, found: list[tuple[str, str]]) -> None:
    assert check(value) == found


@pytest.mark.parametrize(
    ("value", "field", "message"),
    [
        (80, "env.value", 'must be text, not the number 80: quote it, as in value: "80"'),
        (True, "args[0]", 'must be text, not true: quote it, as in "true"'),
        (None, "args[0]", "must be text, not null"),
        ({}, "args[0]", "must be text, not an object"),
    ],
)
def test_a_value_that_yaml_does_not_read_as_text_should_be_quoted(value: Any, field: str, message: str) -> None:
    (finding,) = text(value, field)
    assert finding.text == f"{field}: {message}"


@pytest.mark.parametrize(
    ("check_one", "right", "wrong", "message"),
    [
        (boolean, False, 0, "must be true or false, not a number"),
        (integer, 0, 1.0, "must be a whole number, not a number"),
        (any_object, {}, "a", "must be an object, not text"),
        (quantity, 0.5, True, "must be a quantity such as 500m or 128Mi, not true or false"),
        (quantity, "500m", [], "must be a quantity such as 500m or 128Mi, not a list"),
    ],
)
def test_a_scalar_has_its_type(check_one: Any, right: Any, wrong: Any, message: str) -> None:
    assert list(check_one(right, "f")) == []
    assert [one.text for one in check_one(wrong, "f")] == [f"f: {message}"]


def test_types_have_names_in_words() -> None:
    names = [type_name(value) for value in ("", [], {}, False, None, 1.5)]
    assert names == ["text", "a list", "an object", "true or false", "null", "a number"]
    assert mistyped("f", "a list", 1).text == "f: must be a list, not a number"
