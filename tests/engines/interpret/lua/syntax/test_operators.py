"""Tests of operators as gopher-lua computes them. tests/conformance/test_gopher_lua.py compares the results."""

import pytest

from fleethook.engines.interpret.lua.syntax.lexer import Token, scan_tokens
from fleethook.engines.interpret.lua.syntax.operators import BINARY, Operand, OperandKind, apply_binary, apply_unary
from fleethook.engines.interpret.lua.syntax.rewriter import PREFIX, Rewriter


def operand(token: Token, kind: OperandKind = "other") -> Operand:
    number = token if token.kind == "number" else None
    return Operand("literal" if number else kind, token.start, token.end, number, " (name)")


def rewrite(source: str, left: OperandKind = "other", right: OperandKind = "other") -> tuple[str, Operand]:
    """Return the edited expression, and the operand that it is."""
    edits = Rewriter(source)
    *tokens, _ = scan_tokens(source)
    if len(tokens) == 2:
        made = apply_unary(edits, tokens[0], operand(tokens[1], right))
    else:
        made = apply_binary(edits, operand(tokens[0], left), tokens[1], operand(tokens[2], right))
    return edits.text().partition("=...;")[2].replace(PREFIX, ""), made


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("a+b", "a-0.0+b"),
        ("a*b", "a*1.0*b"),
        ("a+1", "a+1.0"),
        ("2%b", "2.0%b"),
        ("1-2", "1.0-2.0"),
        ("a/b", "a/b"),
        ("a^b", "p(a,b)"),
        ("a==b", "a==b"),
    ],
)
def test_arithmetic_converts_one_operand_to_a_double(source: str, written: str) -> None:
    text, made = rewrite(source)
    assert text == written
    assert made.kind == ("other" if "=" in source else "double")
    assert (made.start, made.end, made.name) == (0, len(source), "")


def test_an_operand_that_is_a_double_needs_no_conversion() -> None:
    assert rewrite("a+b", left="double")[0] == rewrite("a+b", right="double")[0] == "a+b"


def test_operands_of_a_concatenation_are_formatted_unless_they_are_text() -> None:
    text, made = rewrite("a..b", left="text")
    assert (text, made.kind) == ('a..s(b," (name)")', "text")


@pytest.mark.parametrize(
    ("source", "kind", "written", "made"),
    [
        ("-a", "other", "(-1.0*a)", "double"),
        ("-a", "double", "-a", "double"),
        ("-0", "other", "-0.0", "double"),
        ("-5", "other", "-5", "literal"),
        ("#a", "other", "#a", "other"),
        ("#a", "double", "#a", "other"),
    ],
)
def test_minus_is_a_double(source: str, kind: OperandKind, written: str, made: OperandKind) -> None:
    text, found = rewrite(source, right=kind)
    assert (text, found.kind, found.start, found.name) == (written, made, 0, "")


def test_powers_and_concatenations_bind_to_the_right() -> None:
    assert {operator for operator, (left, right) in BINARY.items() if right < left} == {"..", "^"}
    order = ["or", "and", "<", "..", "+", "*", "^"]
    assert sorted(order, key=BINARY.__getitem__) == order
