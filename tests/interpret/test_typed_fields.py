"""Members of documents that no schema has validated: present, missing, or of a wrong type."""

from typing import Any

import pytest

from fleethook.interpret import typed_fields
from fleethook.interpret.interpreter import InterpretError
from fleethook.interpret.typed_fields import find_values

FULL: dict[str, Any] = {"a": {"n": 3, "t": "x", "f": True, "o": {"k": 1}, "l": [1]}}


def test_missing_member_has_an_empty_value() -> None:
    readers = [
        ("n", typed_fields.number),
        ("t", typed_fields.text),
        ("f", typed_fields.flag),
        ("o", typed_fields.mapping),
        ("l", typed_fields.listing),
    ]
    assert [read(FULL, "a", name) for name, read in readers] == [3, "x", True, {"k": 1}, [1]]
    assert [read({"a": None}, "a", name) for name, read in readers] == [None, "", False, {}, []]
    assert typed_fields.count({}, "a", "n") == 0


@pytest.mark.parametrize(
    ("read", "value", "types"),
    [
        (typed_fields.number, True, "boolean, expected integer"), (typed_fields.count, 1.5, "number, expected integer"),
        (typed_fields.flag, 1, "integer, expected boolean"), (typed_fields.text, [], "array, expected string"),
        (typed_fields.mapping, "x", "string, expected object"), (typed_fields.listing, {}, "object, expected array"),
    ],
)  # fmt: skip
def test_error_names_the_member_of_a_wrong_type(read: Any, value: Any, types: str) -> None:
    with pytest.raises(InterpretError) as caught:
        read({"a": {"b": value}}, "a", "b")
    assert str(caught.value) == f".a.b accessor error: it is of type {types}"


DOCUMENT: dict[str, Any] = {
    "a": [{"n": 1}, {"n": 2, "a": {"n": 3}}, "text"],
    "b": {"x": {"n": 4}, "y": None},
    "c/d": 5,
}


@pytest.mark.parametrize(
    ("pointer", "values"),
    [
        ("", [DOCUMENT]), ("/a/*/n", [1, 2]), ("/a/1/n", [2]), ("/a/9", []), ("/a/x", []), ("/a/0/n/m", []),
        ("/b/*/n", [4]), ("/b/y", [None]), ("/c~1d", [5]), ("/**/n", [1, 2, 3, 4]), ("/a/**/n", [1, 2, 3]),
        ("/**/a/n", [3]), ("/z/**", []), ("/*/*/n", [1, 2, 4]),
        ("/c*", [5]), ("/**/*x/n", [4]), ("/a/*x", []),
    ],
)  # fmt: skip
def test_values_are_found_in_the_order_of_the_document(pointer: str, values: list[Any]) -> None:
    assert list(find_values(DOCUMENT, pointer)) == values


@pytest.mark.parametrize("pointer", ["spec/a", "/a~2"])
def test_a_malformed_pointer_is_refused_at_once(pointer: str) -> None:
    with pytest.raises(ValueError, match="not a JSON pointer"):
        find_values({}, pointer)


def test_a_document_may_be_deeper_than_the_stack() -> None:
    document: Any = {"n": 1}
    for _ in range(100_000):
        document = {"a": document}
    assert list(find_values(document, "/**/n")) == [1]
    while document is not None:  # Python frees nested dicts by recursion
        document = document.pop("a", None)
