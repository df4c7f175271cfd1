"""Tests of reading members of any type."""

from typing import Any

import pytest

from fleethook.model.json import as_object, decode_bytes


@pytest.mark.parametrize("value", [None, [], "a", 1, True])
def test_a_value_that_is_no_object_is_an_empty_one(value: Any) -> None:
    assert as_object(value) == {}


def test_an_object_is_returned_as_it_is() -> None:
    value = {"a": None}
    assert as_object(value) is value


@pytest.mark.parametrize("text", ["AAEC", "AA\nEC\n", "A\r\nAEC"])
def test_line_ends_in_base64_are_skipped(text: str) -> None:
    assert decode_bytes(text) == b"\0\1\2"


@pytest.mark.parametrize("value", [None, 1, ["AA=="], "AA", "A A=", "%", "é"])
def test_other_values_are_no_bytes(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_bytes(value)
