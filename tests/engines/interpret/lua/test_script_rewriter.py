"""Tests of the edits of a script. tests/conformance/test_gopher_lua.py compares the results of scripts."""

import pytest

from fleethook.engines.interpret.lua.script_rewriter import (
    PREFIX,
    LuaSyntaxError,
    Rewriter,
    Token,
    scan_tokens,
)


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


def body(edits: Rewriter) -> str:
    """Return the edited script without its header, and with short names of the sandbox's functions."""
    header, _, text = edits.text().partition("=...;")
    assert header.startswith("local _ENV,")
    return text.replace(PREFIX, "")


def tokens(source: str) -> list[Token]:
    return list(scan_tokens(source))


def test_a_script_without_edits_stays_as_it_is() -> None:
    assert body(Rewriter("return 1")) == "return 1"


@pytest.mark.parametrize(
    ("text", "written", "double"),
    [
        ("0x10", "16", "16.0"),
        ("1e3", "1000", "1000.0"),
        ("1.5", "1.5", "1.5"),
        ("3.", "3", "3.0"),
        ("9223372036854775807", "9.223372036854776e+18", "9.223372036854776e+18"),
        ("1e999", "(1/0)", "(1/0)"),
    ],
)
def test_a_number_is_an_integer_or_a_double(text: str, written: str, double: str) -> None:
    for expected, as_double in ((written, False), (double, True)):
        edits = Rewriter(text)
        edits.number(tokens(text)[0], double=as_double)
        assert body(edits) == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [(r'"\q\n\65\""', r'"q\n\65\""'), (r"'\x\z'", "'xz'"), (r"[[\q]]", r"[[\q]]"), ('"plain"', '"plain"')],
)
def test_escapes_that_lua_5_1_does_not_know_are_the_character(text: str, written: str) -> None:
    edits = Rewriter(text)
    edits.string(tokens(text)[0])
    assert body(edits) == written


@pytest.mark.parametrize(
    ("keys", "empty", "computed", "holes", "written"),
    [
        ([], True, False, 0, "t({x})"),
        (["'a'"], False, False, 0, "o({x},false,'a')"),
        ([], False, True, 0, "o({x},true,nil)"),
        ([], False, False, 3, "h({x},3)"),
        ([], False, False, 0, "t({x})"),
    ],
)
def test_a_constructor_remembers_its_keys(
    keys: list[str], holes: int, written: str, *, empty: bool, computed: bool
) -> None:
    edits = Rewriter("{x}")
    edits.table(tokens("{x}")[0], 3, keys, empty=empty, computed=computed, holes=holes)
    assert body(edits) == written


def test_clearing_an_element_is_a_call_that_keeps_the_lines() -> None:
    source = "t[1]=\nnil\nx=1"
    _, opened, _, closed, *_ = tokens(source)
    edits = Rewriter(source)
    edits.clear(0, (opened, closed), source.index("\nx"))
    assert body(edits) == "c(t,1)\n\nx=1"


def test_operators_become_calls_and_doubles() -> None:
    source = "a^b"
    edits = Rewriter(source)
    edits.power(0, tokens(source)[1], 3)
    assert body(edits) == "p(a,b)"
    edits = Rewriter("-a")
    edits.negate(tokens("-a")[0], 2)
    assert body(edits) == "(-1.0*a)"
    for operator, added in (("+", "-0.0"), ("-", "-0.0"), ("*", "*1.0"), ("%", "*1.0")):
        edits = Rewriter(f"a{operator}b")
        edits.double(1, operator)
        assert body(edits) == f"a{added}{operator}b"


def test_an_operand_of_a_concatenation_has_its_name_in_messages() -> None:
    edits = Rewriter("a..b")
    edits.text_of(0, 1, " (global 'a')")
    edits.text_of(3, 4, "")
    assert body(edits) == "s(a,\" (global 'a')\")..s(b)"


def test_a_later_edit_encloses_an_earlier_one_at_the_same_offset() -> None:
    edits = Rewriter("a")
    edits.wrap(0, 1, "(", ")")
    edits.wrap(0, 1, "[", "]")
    assert body(edits) == "[(a)]"
