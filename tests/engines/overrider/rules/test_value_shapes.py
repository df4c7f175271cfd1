"""Tests of the checks of types and members, and of their messages."""

from typing import Any

import pytest

from fleethook.engines.overrider.rules.value_shapes import (
    ENTRY,
    METADATA,
    OVERRIDER,
    PATCH,
    find_meant_fields,
    find_unknown_fields,
    mistyped,
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


def test_types_have_names_in_words() -> None:
    names = [type_name(value) for value in ("", [], {}, False, None, 1.5)]
    assert names == ["text", "a list", "an object", "true or false", "null", "a number"]
    assert mistyped("f", "a list", 1).text == "f: must be a list, not a number"
