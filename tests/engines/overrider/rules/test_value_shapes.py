"""Tests of the checks of types and members, and of their messages."""

from typing import Any

import pytest

from fleethook.engines.overrider.rules.value_shapes import (
    ENTRY,
    METADATA,
    OVERRIDER,
    PATCH,
    Shape,
    any_object,
    boolean,
    find_meant_fields,
    find_unknown_fields,
    integer,
    list_of,
    map_of,
    mistyped,
    quantity,
    text,
    type_name,
)


@pytest.mark.parametrize(
    ("field", "known", "message"),
    [
        ("op", PATCH, "is not a field of a thing: use operation"),
        ("Path", PATCH, "is not a field of a thing: write path"),
        ("spec", OVERRIDER, "is not a field of a thing: there is no spec, so move its members to the top level"),
        ("pools", OVERRIDER, "is not a field of a thing: it belongs in an entry, check the indentation"),
        ("pathh", PATCH, "is not a field of a thing; did you mean path?"),
        ("xyz", PATCH, "is not a field of a thing; the fields are path, operation, value"),
    ],
)
def test_an_unknown_field_is_reported_with_a_remedy(field: str, known: tuple[str, ...], message: str) -> None:
    (finding,) = find_unknown_fields({field: 1, known[0]: 1}, known, field="entries[0]", owner="a thing")
    assert (finding.code, finding.field, finding.message) == ("unknown-field", f"entries[0].{field}", message)


def test_a_field_of_the_top_level_has_its_name_as_path() -> None:
    (finding,) = find_unknown_fields({"nmae": 1}, METADATA, field="", owner="metadata")
    assert finding.field == "nmae"


def test_known_fields_are_not_reported() -> None:
    assert list(find_unknown_fields(dict.fromkeys(ENTRY), ENTRY, field="", owner="an entry")) == []


def test_a_misspelled_field_stands_for_the_one_that_is_meant() -> None:
    assert find_meant_fields({"nodepools": [], "itmes": [], "patches": [], "zzz": 1}, ENTRY) == {
        "pools",
        "items",
        "zzz",
    }


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
