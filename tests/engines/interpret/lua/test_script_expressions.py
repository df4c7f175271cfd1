"""Tests of operators, and of warnings about code that Karmada does not run."""

from collections.abc import Callable

import pytest

from fleethook.engines.interpret.lua.script_expressions import (
    BINARY,
    Operand,
    OperandKind,
    Portability,
    apply_binary,
    apply_unary,
)
from fleethook.engines.interpret.lua.script_rewriter import PREFIX, Rewriter, Token, scan_tokens


def warn(*checks: Callable[[Portability], None]) -> list[tuple[int, str]]:
    found = Portability()
    for check in checks:
        check(found)
    return [(one.line, one.text.removeprefix("does not run on Karmada: ")) for one in found.findings()]


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda to: to.field("string.rep", 3), "Karmada refuses string.rep"),
        (lambda to: to.method("gsub", 3), "Karmada refuses string.gsub"),
        (lambda to: to.field("table.unpack", 3), "gopher-lua has no table.unpack: write unpack"),
        (lambda to: to.field("os.getenv", 3), "scripts have only os.time and os.date of the library os"),
        (lambda to: to.literal("'%f[a]'", 3), "gopher-lua's patterns have no %f"),
        (lambda to: to.jump(3), "goto needs Karmada v1.18 or later"),
        (lambda to: to.call("require", "'io'", (5, 6), 3), "Karmada has no module io"),
    ],
)
def test_code_that_karmada_refuses_is_a_warning(check: Callable[[Portability], None], text: str) -> None:
    assert warn(check) == [(3, text)]


@pytest.mark.parametrize(
    "check",
    [
        lambda to: to.field("string.format", 3),
        lambda to: to.field("os.time", 3),
        lambda to: to.method("match", 3),
        lambda to: to.literal("'%a'", 3),
        lambda to: to.call("require", "'kube'", (5, 6), 3),
        lambda to: to.call("require", "", (5, 6), 3),
    ],
)
def test_other_code_has_no_warning(check: Callable[[Portability], None]) -> None:
    assert warn(check) == []


def test_a_match_as_the_last_argument_is_a_warning() -> None:
    text = "tonumber(...match(...)) fails where nothing matches: write tonumber((...match(...)))"
    assert warn(lambda to: to.call("match", "", (9, 10), 1), lambda to: to.call("tonumber", "", (10, 11), 2)) == [
        (2, text)
    ]
    assert warn(lambda to: to.call("match", "", (9, 10), 1), lambda to: to.call("tonumber", "", (12, 13), 2)) == []
    assert warn(lambda to: to.call("match", "", (9, 10), 1), lambda to: to.call("print", "", (10, 11), 2)) == []


def test_a_warning_has_its_first_line_and_warnings_are_sorted_by_line() -> None:
    found = warn(lambda to: to.jump(7), lambda to: to.method("rep", 5), lambda to: to.field("string.rep", 9))
    assert found == [(5, "Karmada refuses string.rep"), (7, "goto needs Karmada v1.18 or later")]


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
