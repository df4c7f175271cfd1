import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.patch import format_pointer, parse_pointer, resolve_pointer

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
def test_a_malformed_pointer_is_rejected_with_its_text(pointer: str) -> None:
    with pytest.raises(ValueError, match="is not a JSON pointer") as caught:
        parse_pointer(pointer)
    assert repr(pointer) in str(caught.value)


@pytest.mark.parametrize("pointer", ["/foo/2", "/foo/01", "/foo/-", "/foo/-1", "/foo/+1", "/foo/٣", "/x", "/foo/0/x"])
def test_a_missing_value_is_a_lookup_error(pointer: str) -> None:
    with pytest.raises(LookupError, match=pointer.replace("+", r"\+")):
        resolve_pointer(DOCUMENT, pointer)


@pytest.mark.parametrize(
    ("pointer", "problem"),
    [
        ("/foo/2", "index 2 is out of range: the array has 2 elements"),
        ("/foo/-1", "'-1' is not an array index"),
        ("/x", "member 'x' does not exist"),
        ("/foo/0/x", "no member 'x': its parent is neither object nor array"),
    ],
)
def test_a_lookup_error_has_the_reason(pointer: str, problem: str) -> None:
    with pytest.raises(LookupError) as caught:
        resolve_pointer(DOCUMENT, pointer)
    assert str(caught.value) == f"{pointer}: {problem}"


def test_unescaping_handles_tilde_one_before_tilde_zero() -> None:
    assert parse_pointer("/~01") == ("~1",)


@given(st.lists(st.text()))
def test_formatted_tokens_parse_back(tokens: list[str]) -> None:
    assert parse_pointer(format_pointer(tokens)) == tuple(tokens)
