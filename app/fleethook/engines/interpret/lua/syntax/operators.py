"""Rewrites operators to gopher-lua's behavior: arithmetic returns doubles, and ``..`` formats numbers as Go does."""

from typing import Final, Literal, NamedTuple

from fleethook.engines.interpret.lua.syntax.lexer import Token
from fleethook.engines.interpret.lua.syntax.rewriter import Rewriter

BINARY: Final = {
    "or": (1, 1), "and": (2, 2),
    "<": (3, 3), ">": (3, 3), "<=": (3, 3), ">=": (3, 3), "~=": (3, 3), "==": (3, 3),
    "..": (5, 4), "+": (6, 6), "-": (6, 6), "*": (7, 7), "/": (7, 7), "%": (7, 7), "^": (10, 9),
}  # fmt: skip
"""Binding powers of an operator: left, right."""
UNARY: Final = 8
"""Binding power of ``not``, ``-`` and ``#``."""
_ARITHMETIC: Final = frozenset("+-*%")

OperandKind = Literal["literal", "double", "text", "other"]
"""``literal`` is a number literal; ``double`` and ``text`` are expressions of that type."""


class Operand(NamedTuple):
    """An expression that may be an operand."""

    kind: OperandKind
    start: int
    end: int
    number: Token | None = None
    """The token, if the operand is a literal."""
    name: str = ""
    """Its name in messages, such as `` (field 'replicas')``."""


def apply_unary(edits: Rewriter, operator: Token, operand: Operand) -> Operand:
    """Return the result of a unary operator; minus returns a double.

    Args:
        edits: Collects the edits.
        operator: ``not``, ``-`` or ``#``.
        operand: The expression after the operator.
    """
    found = operand._replace(start=operator.start, name="")
    if operator.text != "-":
        return found._replace(kind="other", number=None)
    if operand.number is not None:
        if operand.number.text.strip("0.") != "":
            return found
        edits.number(operand.number, double=True)
    elif operand.kind != "double":
        edits.negate(operator, operand.end)
    return found._replace(kind="double", number=None)


def apply_binary(edits: Rewriter, left: Operand, operator: Token, right: Operand) -> Operand:
    """Return the result of a binary operator; arithmetic returns doubles.

    Args:
        edits: Collects the edits.
        left: The expression before the operator.
        operator: One of `BINARY`.
        right: The expression after the operator.
    """
    kind: OperandKind = "other"
    if operator.text in _ARITHMETIC:
        kind = "double"
        for operand in (left, right):
            if operand.number is not None:
                edits.number(operand.number, double=True)
        if "double" not in (left.kind, right.kind) and left.number is None and right.number is None:
            edits.double(left.end, operator.text)
    elif operator.text == "/":
        kind = "double"
    elif operator.text == "^":
        kind = "double"
        edits.power(left.start, operator, right.end)
    elif operator.text == "..":
        kind = "text"
        for operand in (left, right):
            if operand.kind != "text":
                edits.text_of(operand.start, operand.end, operand.name)
    return Operand(kind, left.start, right.end)
