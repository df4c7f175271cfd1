"""Tests of reading members of any type."""

from typing import Any

import pytest

from app.model.json import as_object


@pytest.mark.parametrize("value", [None, [], "a", 1, True])
def test_a_value_that_is_no_object_is_an_empty_one(value: Any) -> None:
    assert as_object(value) == {}


def test_an_object_is_returned_as_it_is() -> None:
    value = {"a": None}
    assert as_object(value) is value
