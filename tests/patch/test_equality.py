from typing import Any

import pytest

from fleethook.patch.equality import equal, identical


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", [1, {"a": None}], {"a": {"b": []}}])
def test_a_value_equals_its_copy(value: Any) -> None:
    copy = [*value] if isinstance(value, list) else {**value} if isinstance(value, dict) else value

    assert identical(value, copy)
    assert equal(value, copy)


@pytest.mark.parametrize(
    ("left", "right"), [(1, 1.0), ([1], [1.0]), ({"a": 0}, {"a": 0.0}), ({"a": [1]}, {"a": [1.0]})]
)
def test_numbers_of_different_types_are_equal_and_not_identical(left: Any, right: Any) -> None:
    assert equal(left, right)
    assert not identical(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (0, False),
        (None, False),
        ("1", 1),
        ([], {}),
        ([1], [1, 1]),
        ({"a": None}, {"b": None}),
        ({}, {"a": 1}),
    ],
)
def test_different_values_are_neither_equal_nor_identical(left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        assert not equal(one, other)
        assert not identical(one, other)


def test_members_may_have_any_order() -> None:
    assert identical({"a": 1, "b": 2}, {"b": 2, "a": 1})
