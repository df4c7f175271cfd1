"""Members are read and written as by Go's encoding/json."""

from typing import Any

import pytest

from app.dispatch.builtin_conversion.go_json import (
    as_string,
    as_struct,
    fold_member_names,
    go_json,
    omit_empty,
    omit_null,
)


def test_omitempty_drops_zero_values_and_pointers_keep_them() -> None:
    members = {"a": "", "b": 0, "c": False, "d": None, "e": [], "f": "x"}
    assert omit_empty(**members) == {"b": 0, "f": "x"}
    assert omit_null(**members) == {"a": "", "b": 0, "c": False, "e": [], "f": "x"}


def test_member_names_ignore_case_except_in_maps() -> None:
    names = {"matchlabels": "matchLabels", "name": "name"}
    document = [{"NAME": "x", "MatchLabels": {"Name": "y"}, "Other": {"Name": "z"}}]
    assert fold_member_names(document, names) == [{"name": "x", "matchLabels": {"Name": "y"}, "Other": {"name": "z"}}]


def test_html_characters_are_escaped() -> None:
    assert go_json({"a": "<&>\u2028"}) == '{"a":"\\u003c\\u0026\\u003e\\u2028"}'


@pytest.mark.parametrize("value", [7, [], True])
def test_other_types_are_errors(value: Any) -> None:
    with pytest.raises(TypeError, match="expected a string"):
        as_string(value)
    with pytest.raises(TypeError, match="expected an object"):
        as_struct(value)
