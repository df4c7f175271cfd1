"""Finds the reads of an expression: of variables that are null for an operation, and of members of objects."""

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import product
from typing import Any, Final, Literal, NamedTuple

from fleethook.cel.compile_error_list import SourceErrors
from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.syntax_tree import Call, Comprehension, Ident, ListLiteral, Node, Select
from fleethook.cel.parse.syntax_tree import Literal as Constant

NULLS: Final[Mapping[str, tuple[str, ...]]] = {
    "CONNECT": ("oldObject",), "CREATE": ("oldObject",), "DELETE": ("object",), "UPDATE": (),
}  # fmt: skip
"""The variables that are null for an operation."""

Path = tuple[str, ...]
"""A variable, then members; ``*`` stands for an element."""

_MAX_EXPRESSION: Final = 20_000


class _Special:
    """Stands for outcomes that are no constant."""


_ANY: Final = _Special()
"""Some value other than null."""
_ERROR: Final = _Special()
_BOOLEANS: Final = frozenset({True, False})
_Outcomes = frozenset[Any]
"""The possible results of an expression: constants, `_ANY` and `_ERROR`. The operands are taken as independent."""


def read_null(
    expression: str, operation: str, *, nulls: tuple[str, ...] = (), has_name: bool = True
) -> Literal["always", "possible", "false", ""]:
    """Return whether an expression has an error for an operation because it reads a member of a null.

    Args:
        expression: The expression.
        operation: The operation of the request.
        nulls: Further variables that are null.
        has_name: Whether the request has a name. That of a deleted collection has none, and a mutating webhook gets
            no generated name.

    Returns:
        ``possible`` if it depends on other values, ``false`` if the expression is false for the operation; ``""``
        without such a read, and for an expression that cannot be parsed.
    """
    tree = _parse(expression)
    known = {name: frozenset({None}) for name in (*NULLS[operation], *nulls)}
    try:
        found = _Reader(operation, has_name=has_name).fold(tree, known) if tree is not None else frozenset()
    except RecursionError:
        return ""
    if found == {False}:
        return "false"
    if _ERROR not in found:
        return ""
    return "always" if found == {_ERROR} else "possible"


def _parse(expression: str) -> Node | None:
    if len(expression) > _MAX_EXPRESSION:
        return None
    try:
        return parse(expression.strip(), SourceErrors(expression))
    except RecursionError:
        return None


class _Reader:
    """Finds the possible results of the nodes of an expression for one operation."""

    def __init__(self, operation: str, *, has_name: bool) -> None:
        self._operation: Final = operation
        self._has_name: Final = has_name

    def fold(self, node: Node, known: Mapping[str, _Outcomes]) -> _Outcomes:
        """Return the possible results; ``known`` has those of variables."""
        found: _Outcomes = frozenset({_ANY})
        match node:
            case Constant():
                found = frozenset({node.value})
            case Ident():
                found = known.get(node.name, found)
            case Select(operand=Ident(name="request"), field="operation"):
                found = frozenset({True if node.tested else self._operation})
            case Select(operand=Ident(name="request"), field="name") if not self._has_name:
                found = frozenset({False if node.tested else _ERROR})
            case Select():
                found = self._read(self.fold(node.operand, known), _BOOLEANS if node.tested else found)
            case ListLiteral():
                found = self._fold_list(node, known)
            case Comprehension():
                found = self._fold_loop(node, known)
            case Call():
                found = self._fold_call(node, known)
            case _:
                found |= {_ERROR for child in node.list_children() if _ERROR in self.fold(child, known)}
        return found

    @staticmethod
    def _read(operand: _Outcomes, value: _Outcomes) -> _Outcomes:
        """Return the results of reading a member."""
        errors = operand & {None, _ERROR}
        return (value if operand - errors else frozenset()) | ({_ERROR} if errors else frozenset())

    def _fold_list(self, node: ListLiteral, known: Mapping[str, _Outcomes]) -> _Outcomes:
        elements = [self.fold(element, known) for element in node.elements]
        if any(_ERROR in element for element in elements):
            return frozenset({_ANY, _ERROR})
        is_constant = all(len(element) == 1 and _ANY not in element for element in elements) and not node.optional
        return frozenset({tuple(next(iter(element)) for element in elements) if is_constant else _ANY})

    def _fold_loop(self, node: Comprehension, known: Mapping[str, _Outcomes]) -> _Outcomes:
        ranged = self._read(self.fold(node.range, known), frozenset({_ANY}))
        names = (node.first, node.second, node.accumulator)
        inner = {**known, **{name: frozenset({_ANY}) for name in names if name}}
        looped = (node.initial, node.condition, node.step, node.result)
        parts = [ranged, *(self.fold(one, inner) for one in looped)]
        if ranged == {_ERROR}:
            return ranged
        return frozenset({_ANY, *(_ERROR for part in parts if _ERROR in part)})

    def _fold_call(self, node: Call, known: Mapping[str, _Outcomes]) -> _Outcomes:
        arguments = node.arguments if node.target is None else [node.target, *node.arguments]
        values = [self.fold(argument, known) for argument in arguments]
        match node.function:
            case "_&&_" | "_||_":
                return reduce(lambda one, other: _join(one, other, decisive=node.function == "_||_"), values)
            case "_?_:_":
                return _choose(*values)
            case "dyn":
                return values[0]
            case "_[_]":
                return self._read(values[0], frozenset({_ANY}))
            case "_?._" | "_[?_]":
                values = [values[0] - {None} | {_ANY}, *values[1:]]
        return frozenset().union(*(_apply(node.function, one) for one in product(*values)))


def _split(values: _Outcomes) -> _Outcomes:
    """Return the results of an operand that must be true or false."""
    return values - {_ANY} | _BOOLEANS if _ANY in values else values


def _join(one: _Outcomes, other: _Outcomes, *, decisive: bool) -> _Outcomes:
    """Return the results of ``&&`` or ``||``, which ignore an error if one operand decides."""
    pairs = product(_split(one), _split(other))
    return frozenset(decisive if decisive in pair else _ERROR if _ERROR in pair else not decisive for pair in pairs)


def _choose(condition: _Outcomes, yes: _Outcomes, no: _Outcomes) -> _Outcomes:
    condition = _split(condition)
    chosen = (yes if True in condition else frozenset()) | (no if False in condition else frozenset())
    return chosen | (condition & {_ERROR})


_TAKE_NULL: Final = frozenset({"_==_", "_!=_", "type", "of", "ofNonZeroValue", "or", "orValue"})


def _apply(function: str, values: tuple[Any, ...]) -> _Outcomes:
    # No other function takes a null, and a null has no elements.
    if _ERROR in values or (None in (values[1:] if function == "@in" else values) and function not in _TAKE_NULL):
        return frozenset({_ERROR})
    match function, values:
        case "!_", (bool() as one,):
            return frozenset({not one})
        case (("_==_" | "_!=_"), (left, right)):
            return frozenset(found is (function == "_==_") for found in _compare(left, right))
        case "@in", (one, tuple() as listed) if one is not _ANY:
            return frozenset({one in listed})
    return frozenset({_ANY})


def _compare(left: Any, right: Any) -> _Outcomes:
    if _ANY not in (left, right):
        return frozenset({type(left) is type(right) and left == right})
    # Any value but null.
    return frozenset({False}) if None in (left, right) else _BOOLEANS


class Read(NamedTuple):
    """A read of a member.

    Attributes:
        path: The variable and the members.
        tested: Whether the expression handles its absence, as ``has`` does.
    """

    path: Path
    tested: bool


def list_reads(expression: str) -> frozenset[Read]:
    """Return the members that an expression reads; none for one that cannot be parsed."""
    tree = _parse(expression)
    try:
        return frozenset(_list_reads(tree, {})) if tree is not None else frozenset()
    except RecursionError:
        return frozenset()


def _list_reads(node: Node, variables: Mapping[str, Path]) -> Iterator[Read]:
    path = _find_path(node, variables)
    if path is not None:
        is_optional = isinstance(node, Call) and node.function in _OPTIONAL
        yield Read(path, is_optional or (isinstance(node, Select) and node.tested))
    elif isinstance(node, Comprehension):
        element = (*(_find_path(node.range, variables) or ("",)), "*")
        inner = {**variables, node.first: element, **({node.second: element} if node.second else {})}
        yield from _list_reads(node.range, variables)
        for one in (node.initial, node.condition, node.step, node.result):
            yield from _list_reads(one, inner)
    else:
        for child in node.list_children():
            yield from _list_reads(child, variables)


_OPTIONAL: Final = ("_?._", "_[?_]")


def _find_path(node: Node, variables: Mapping[str, Path]) -> Path | None:
    """Return the path of a chain of members, None for another expression."""
    match node:
        case Ident():
            return variables.get(node.name, (node.name,))
        case Select(operand=operand, field=member):
            found = _find_path(operand, variables)
            return None if found is None else (*found, member)
        case Call(function="_[_]" | "_?._" | "_[?_]", arguments=[operand, Constant(value=member)]):
            found = _find_path(operand, variables)
            return None if found is None else (*found, member if isinstance(member, str) else "*")
    return None
