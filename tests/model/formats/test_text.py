import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.formats.text import (
    decode_bytes,
    escape,
    escape_json,
    escape_line,
    is_inert,
    nearest,
    shorten,
    suggestion,
)

ACTIVE = {
    chr(code)
    for code in range(0x110000)
    if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp")
    or unicodedata.bidirectional(chr(code)) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
} | set("\u061c\u200e\u200f\u206a\u206b\u206c\u206d\u206e\u206f")
HOSTILE = st.text(st.characters() | st.sampled_from(sorted(ACTIVE)))


def test_exactly_the_control_characters_of_unicode_are_escaped() -> None:
    every = [chr(code) for code in range(0x110000)]
    assert {one for one in every if escape(one) != one} == ACTIVE
    assert {one for one in every if not is_inert(one)} == ACTIVE
    assert {one for one in every if escape_json(one) != one} == ACTIVE - {"\n"}


@given(HOSTILE)
def test_escaped_text_has_no_control_characters(text: str) -> None:
    assert ACTIVE.isdisjoint(escape(text))
    assert ACTIVE.intersection(escape(text, keep="\n")) <= {"\n"}
    assert is_inert(escape(text))


@given(HOSTILE)
def test_json_keeps_its_value(text: str) -> None:
    document = escape_json(json.dumps({text: [text]}, ensure_ascii=False, indent=1))
    assert ACTIVE.isdisjoint(document.replace("\n", ""))
    assert json.loads(document) == {text: [text]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u2028b\x85", "a\\u2028b\\x85"),
        ("杭州 naïve 👩‍👩‍👧", "杭州 naïve 👩‍👩‍👧"),
    ],
)
def test_escapes_show_the_code_point(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_a_shortened_text_tells_the_omitted_characters() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcdef", 2) == "ab… (4 characters left out)"


KNOWN = ("items", "patches", "pools", "imageClaim", "containerName")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("item", "items"),
        ("imageclaim", "imageClaim"),
        ("conatinerName", "containerName"),
        ("POOLS", "pools"),
        ("image", None),
        ("upgradeStrategy", None),
        ("", None),
        ("x" * 1_000_000, None),
    ],
)
def test_the_nearest_known_name_is_found(name: str, meant: str | None) -> None:
    assert nearest(name, KNOWN) == meant


def test_a_suggestion_ends_a_message() -> None:
    assert suggestion("item", KNOWN) == "; did you mean items?"
    assert suggestion("hangzou", ["hangzhou"], quote="'") == "; did you mean 'hangzhou'?"
    assert suggestion("nothing", KNOWN) == ""


@given(st.text())
def test_escaped_text_is_one_printable_line(text: str) -> None:
    assert escape_line(text).isprintable()
    escape_line(text).encode()


@pytest.mark.parametrize("text", ["AAEC", "AA\nEC\n", "A\r\nAEC"])
def test_line_ends_in_base64_are_skipped(text: str) -> None:
    assert decode_bytes(text) == b"\0\1\2"


@pytest.mark.parametrize("value", [None, 1, ["AA=="], "AA", "A A=", "%", "é"])
def test_other_values_are_no_bytes(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_bytes(value)
