"""Tests of the edits of a script. tests/conformance/test_gopher_lua.py compares the results of scripts."""

import pytest

from fleethook.engines.interpret.lua.script_rewriter import LuaSyntaxError, scan_tokens


def scan(source: str) -> list[tuple[str, str]]:
    *tokens, end = scan_tokens(source)
    assert (end.kind, end.text, end.start) == ("end", "<eof>", len(source))
    return [(token.kind, token.text) for token in tokens]


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("local x_1 = nil", [("keyword", "local"), ("name", "x_1"), ("operator", "="), ("keyword", "nil")]),
        ("a..b...", [("name", "a"), ("operator", ".."), ("name", "b"), ("operator", "...")]),
        ("a<=b~=c", [("name", "a"), ("operator", "<="), ("name", "b"), ("operator", "~="), ("name", "c")]),
        ("0xFf 1e3 .5 3. 1.5E-2", [("number", one) for one in ("0xFf", "1e3", ".5", "3.", "1.5E-2")]),
        (r'"a\"b"', [("string", r'"a\"b"')]),
        ("'a\\\nb'", [("string", "'a\\\nb'")]),
        ("[==[a]]b]==]", [("string", "[==[a]]b]==]")]),
        ("a[[b]]", [("name", "a"), ("string", "[[b]]")]),
        ("a--b\nc", [("name", "a"), ("name", "c")]),
        ("a--[=[b\n]]c]=]d", [("name", "a"), ("name", "d")]),
        ("", []),
    ],
)
def test_a_script_is_split_into_tokens(source: str, tokens: list[tuple[str, str]]) -> None:
    assert scan(source) == tokens


def test_tokens_have_their_offsets_and_first_lines() -> None:
    source = "a\n--[[x\n]] [[y\n]]\nb"
    first, text, last, _ = scan_tokens(source)
    assert [one.line for one in (first, text, last)] == [1, 3, 5]
    assert [source[one.start : one.end] for one in (first, text, last)] == ["a", "[[y\n]]", "b"]


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("a\n$", 2, r"unexpected symbol near '\$'"),
        ("\n'a\nb'", 2, 'unexpected symbol near "\'"'),
        ("\n\n[=[ a ]]", 3, r"unfinished long string or comment: \]=\] is missing"),
        ("--[[ a", 1, r"unfinished long string or comment: \]\] is missing"),
    ],
)
def test_an_error_has_the_line(source: str, line: int, message: str) -> None:
    with pytest.raises(LuaSyntaxError, match=message) as caught:
        list(scan_tokens(source))
    assert caught.value.line == line
