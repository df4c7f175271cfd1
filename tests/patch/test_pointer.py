import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.patch import format_pointer, parse_pointer, resolve_pointer

# RFC 6901 section 5.
DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_rfc6901_examples_resolve(pointer: str, value: object) -> None:
    assert resolve_pointer(DOCUMENT, pointer) == value


@pytest.mark.parametrize("pointer", ["foo", "/a~2b", "/a~", "#/foo", "/~a"])
def test_a_malformed_pointer_is_refused_by_name(pointer: str) -> None:
    with pytest.raises(ValueError, match="is not a JSON pointer") as caught:
        parse_pointer(pointer)
    assert repr(pointer) in str(caught.value)


@pytest.mark.parametrize("pointer", ["/foo/2", "/foo/01", "/foo/-", "/foo/-1", "/foo/+1", "/foo/٣", "/x", "/foo/0/x"])
def test_what_is_not_there_is_not_found(pointer: str) -> None:
    with pytest.raises(LookupError, match=pointer.replace("+", r"\+")):
        resolve_pointer(DOCUMENT, pointer)


def test_tilde_one_unescapes_after_tilde_zero_was_seen() -> None:
    assert parse_pointer("/~01") == ("~1",)


@given(st.lists(st.text()))
def test_every_token_list_survives_a_round_trip(tokens: list[str]) -> None:
    assert parse_pointer(format_pointer(tokens)) == tuple(tokens)
