"""Pointers with wildcards."""

from typing import Any

import pytest

from fleethook.engines.interpret.conventions.pointers import find_values

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
