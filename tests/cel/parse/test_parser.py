"""tests/conformance/test_cel.py has thousands of expressions; this module tests the limits and the forms of literals."""

import pytest

from fleethook.cel.compile_error_list import SourceErrors
from fleethook.cel.parse.parser import MAX_DEPTH, parse
from fleethook.cel.parse.syntax_tree import Call, Node


def read(expression: str) -> tuple[Node | None, str]:
    errors = SourceErrors(expression)
    return parse(expression, errors), errors.format()


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("9223372036854775808", "1:1: invalid int literal"),
        ("18446744073709551616u", "1:1: invalid uint literal"),
        ("1e400", "1:1: invalid double literal"),
        ("if", "1:1: reserved identifier: if"),
        ("a.`b`", "1:3: unsupported syntax: '`'"),
        ("has(a)", "1:5: invalid argument to has() macro"),
        ("[1,\n 2", "2:3: Syntax error: missing ']' at '<EOF>'"),
        ("[1, 2,", "1:7: Syntax error: missing ']' at '<EOF>'"),
        ("(1", "1:3: Syntax error: missing ')' at '<EOF>'"),
        ("a # b", "1:3: Syntax error: token recognition error at: '#'"),
        (r"'\ud800'", "1:1: invalid unicode code point"),
    ],
)
def test_an_error_has_its_place(expression: str, error: str) -> None:
    tree, found = read(expression)
    assert tree is None
    assert found.startswith(f"ERROR: <input>:{error}\n | ")


@pytest.mark.parametrize("opened", ["(", "1 + ("])
def test_nesting_is_limited_as_in_cel_go(opened: str) -> None:
    depth = (MAX_DEPTH - 1) // (1 + opened.count("+"))
    assert read(opened * depth + "1" + ")" * depth)[0] is not None
    tree, found = read(opened * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1))
    assert tree is None
    assert found == f"ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"


def test_a_long_disjunction_is_balanced() -> None:
    tree, _ = read(" || ".join(["a"] * 1024))
    depth = 0
    while isinstance(tree, Call):
        tree, depth = tree.arguments[0], depth + 1
    assert depth == 10
