"""Hashes of redacted values."""

import base64
from typing import Any

import pytest

from fleethook.recordings.hashing import PREFIX, Hasher, decode_base64

HASHER = Hasher(b"k" * 32)


def test_equal_values_have_equal_hashes_and_other_values_other_ones() -> None:
    assert HASHER.hash_text("a") == HASHER.hash_text("a")
    assert len({HASHER.hash_text(text) for text in ("a", "A", "a ", "")}) == 4


def test_the_hash_depends_on_the_key_and_shows_nothing_of_the_length() -> None:
    assert HASHER.hash_text("a") != Hasher(b"l" * 32).hash_text("a")
    assert {len(HASHER.hash_text("a" * length)) for length in (0, 1, 1000)} == {len(PREFIX) + 32}


def test_text_that_is_no_utf_8_has_a_hash() -> None:
    assert HASHER.hash_text("\ud800") != HASHER.hash_text("\ud801")


@pytest.mark.parametrize(
    ("one", "other"),
    [({"a": 1, "b": [2]}, {"b": [2], "a": 1}), ("text", "text"), (None, None)],
)
def test_equal_json_values_have_equal_hashes(one: Any, other: Any) -> None:
    assert HASHER.hash_value(one) == HASHER.hash_value(other)


@pytest.mark.parametrize(("one", "other"), [([1, 2], [2, 1]), (1, True), ("", None), ({}, [])])
def test_different_json_values_have_different_hashes(one: Any, other: Any) -> None:
    assert HASHER.hash_value(one) != HASHER.hash_value(other)


def test_a_text_has_the_same_hash_as_value_and_as_base64() -> None:
    plain = HASHER.hash_text("hunter2")
    assert HASHER.hash_value("hunter2") == plain
    encoded = HASHER.hash_base64(base64.b64encode(b"hunter2").decode())
    assert base64.b64decode(encoded, validate=True).decode() == plain


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("YWJj", b"abc"),
        ("YW\n Jj\n", b"abc"),
        ("", b""),
        ("YWJ", b"YWJ"),
        ("a-b-c-d", b"a-b-c-d"),
        ("\ud800", b"\xed\xa0\x80"),
    ],
)
def test_text_that_is_no_base64_stands_for_itself(text: str, content: bytes) -> None:
    assert decode_base64(text) == content
