"""Quotations of redacted values in the rest of a record."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from fleethook.recordings import quoted_values as module
from fleethook.recordings.quoted_values import (
    PREFIX,
    Hasher,
    QuotedValues,
    WorkLimitError,
    decode_base64,
    list_public_texts,
)
from fleethook.recordings.redaction import Patch
from tests.recordings.builders import to_base64

HASHER = Hasher(b"k" * 32)


def test_equal_values_have_equal_hashes_and_other_values_other_ones() -> None:
    assert HASHER.hash_text("a") == HASHER.hash_text("a")
    assert len({HASHER.hash_text(text) for text in ("a", "A", "a ", "")}) == 4


def test_the_hash_depends_on_the_key_and_shows_nothing_of_the_length() -> None:
    assert HASHER.hash_text("a") != Hasher(b"l" * 32).hash_text("a")
    assert {len(HASHER.hash_text("a" * length)) for length in (0, 1, 1000)} == {len(PREFIX) + 32}


def test_text_that_is_no_utf_8_has_a_hash() -> None:
    assert HASHER.hash_text("\ud800") != HASHER.hash_text("\ud801")


def test_a_text_has_the_same_hash_in_base64() -> None:
    plain = HASHER.hash_text("hunter2")
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


VALUE = "correct horse battery"


@pytest.fixture
def values() -> QuotedValues:
    return QuotedValues(Hasher(b"k" * 32))


def replace_in(values: QuotedValues, value: Any) -> Any:
    (found,) = values.replace_in([value])
    return found


def test_a_collection_is_true_as_soon_as_a_value_was_replaced(values: QuotedValues) -> None:
    assert not values
    values.except_for(iter(["public"]))
    assert not values
    values.add_text(VALUE)
    assert values


def test_without_a_quotation_the_same_values_are_returned(values: QuotedValues) -> None:
    values.add_text(VALUE)
    given = [{"message": "no"}]
    assert values.replace_in(given) is given


def test_names_and_values_at_any_depth_are_replaced(values: QuotedValues) -> None:
    token = values.add_text(VALUE)
    document = {"a": [f"denied: {VALUE}!", {VALUE: VALUE}], "number": 7, "none": None}
    assert replace_in(values, document) == {"a": [f"denied: {token}!", {token: token}], "number": 7, "none": None}


def test_a_patch_stays_a_patch(values: QuotedValues) -> None:
    token = values.add_text(VALUE)
    found = replace_in(values, Patch([VALUE]))
    assert isinstance(found, Patch)
    assert found == [token]


def test_the_longest_value_at_a_place_is_replaced(values: QuotedValues) -> None:
    values.add_text(VALUE)
    longer = values.add_text(f"{VALUE} staple")
    assert replace_in(values, f"{VALUE} staple") == longer
    assert replace_in(values, f"is {VALUE} staple.") == f"is {longer}."


def test_a_hash_is_not_hashed_again(values: QuotedValues) -> None:
    token = values.add_text(VALUE)
    assert values.add_text(token) == token
    encoded = values.add_base64(to_base64(VALUE))
    assert values.add_base64(encoded) == encoded


def test_base64_and_text_of_one_value_have_one_hash(values: QuotedValues) -> None:
    encoded = values.add_base64(to_base64(VALUE))
    assert encoded == to_base64(replace_in(values, VALUE))
    assert replace_in(values, f"data: {to_base64(VALUE)}") == f"data: {encoded}"


def test_bytes_that_are_no_text_are_found_as_base64(values: QuotedValues) -> None:
    encoded = values.add_base64(to_base64(b"\xff\xfe\xfd\xfc\xfb\xfa"))
    assert replace_in(values, "//79/Pv6 and __79_Pv6") == f"{encoded} and {encoded}"


@pytest.mark.parametrize("quote", [repr, ascii, json.dumps, lambda text: json.dumps(text, ensure_ascii=False)])
def test_escaped_quotations_are_found(values: QuotedValues, quote: Callable[[str], str]) -> None:
    value = 'tab\t "quoted" \\ é'
    token = values.add_text(value)
    assert token in replace_in(values, f"value {quote(value)} is wrong")


def test_a_long_line_of_a_value_is_found_and_a_short_one_is_not(values: QuotedValues) -> None:
    token = values.add_text("a long line of it\nshort\n")
    assert replace_in(values, "see: a long line of it") == f"see: {token}"
    assert replace_in(values, "short") == "short"


@pytest.mark.parametrize(
    ("value", "text", "is_found"),
    [
        ("12345678", "x12345678x", True),
        ("1234567", "x1234567x", False),
        ("1234567", "(1234567)", True),
        ("abc", "abc def", False),
        ("abc", "value 'abc' is", True),
        ("abc", "value abc is", False),
        ("abc", "abc", True),
    ],
)
def test_short_values_are_found_as_words_or_in_quotation_marks(
    values: QuotedValues, value: str, text: str, *, is_found: bool
) -> None:
    token = values.add_text(value)
    assert replace_in(values, text) == (text.replace(value, token) if is_found else text)


def test_public_texts_and_words_of_the_protocol_stay(values: QuotedValues) -> None:
    values.except_for(iter(["production"]))
    for text in ("production", "metadata", ""):
        values.add_text(text)
    document = {"metadata": "production", "message": "not in production", "": ""}
    assert replace_in(values, document) == document


def test_a_search_for_too_many_values_is_refused(values: QuotedValues, monkeypatch: pytest.MonkeyPatch) -> None:
    values.add_text(VALUE)
    monkeypatch.setattr(module, "MAX_WORK", 1000)
    assert replace_in(values, "x" * 10) == "x" * 10
    with pytest.raises(WorkLimitError):
        values.replace_in(["x" * 1000])


def test_the_names_and_the_caller_of_a_request_are_public() -> None:
    request = {
        "uid": "u",
        "namespace": "prod",
        "name": ["n1"],
        "kind": {"group": "", "kind": "Secret", "number": 7},
        "userInfo": {"username": "ann", "groups": ["devs"], "extra": {"token": ["hidden"]}},
        "object": {"metadata": {"name": "s", "labels": {"hidden": "hidden"}, "uid": "o"}, "data": {"hidden": "hidden"}},
        "oldObject": None,
    }
    assert sorted(list_public_texts(request)) == sorted(["u", "prod", "n1", "", "Secret", "ann", "devs", "s", "o"])


@pytest.mark.parametrize(
    "request_", [{}, {"kind": "Secret", "userInfo": 7, "object": [], "oldObject": {"metadata": 1}}]
)
def test_a_request_of_any_shape_is_read(request_: Any) -> None:
    assert list(list_public_texts(request_)) == []
