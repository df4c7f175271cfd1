"""Tests of reading members of any type."""

from typing import Any

import pytest

from fleethook.model.json import as_object, count_values


@pytest.mark.parametrize("value", [None, [], "a", 1, True])
def test_a_value_that_is_no_object_is_an_empty_one(value: Any) -> None:
    assert as_object(value) == {}


def test_an_object_is_returned_as_it_is() -> None:
    value = {"a": None}
    assert as_object(value) is value


@pytest.mark.parametrize(
    ("document", "count"), [(None, 1), ([], 1), ({"a": 1}, 2), ([[1], {"b": [2, 3]}], 7), ("text", 1)]
)
def test_each_value_counts(document: Any, count: int) -> None:
    assert count_values(document, limit=100) == count


def test_counting_stops_after_the_limit() -> None:
    class Unread(list[Any]):
        def __len__(self) -> int:
            raise AssertionError("counted beyond the limit")

    assert count_values([Unread(), *range(10)], limit=5) > 5
