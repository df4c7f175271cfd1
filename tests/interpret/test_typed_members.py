"""Members of documents that no schema has validated: present, missing, or of a wrong type."""

from typing import Any

import pytest

from fleethook.interpret import typed_members
from fleethook.interpret.typed_members import InterpretError

FULL: dict[str, Any] = {"a": {"n": 3, "t": "x", "f": True, "o": {"k": 1}, "l": [1]}}


def test_missing_member_has_an_empty_value() -> None:
    readers = [
        ("n", typed_members.number),
        ("t", typed_members.text),
        ("f", typed_members.flag),
        ("o", typed_members.mapping),
        ("l", typed_members.listing),
    ]
    assert [read(FULL, "a", name) for name, read in readers] == [3, "x", True, {"k": 1}, [1]]
    assert [read({"a": None}, "a", name) for name, read in readers] == [None, "", False, {}, []]
    assert typed_members.count({}, "a", "n") == 0


@pytest.mark.parametrize(
    ("read", "value", "types"),
    [
        (typed_members.number, True, "boolean, expected integer"), (typed_members.count, 1.5, "number, expected integer"),
        (typed_members.flag, 1, "integer, expected boolean"), (typed_members.text, [], "array, expected string"),
        (typed_members.mapping, "x", "string, expected object"), (typed_members.listing, {}, "object, expected array"),
    ],
)  # fmt: skip
def test_error_names_the_member_of_a_wrong_type(read: Any, value: Any, types: str) -> None:
    with pytest.raises(InterpretError) as caught:
        read({"a": {"b": value}}, "a", "b")
    assert str(caught.value) == f".a.b accessor error: it is of type {types}"
