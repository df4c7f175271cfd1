"""Finds the members of objects that an expression reads."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.syntax import Call, Comprehension, Ident, Literal, Node, Select, SourceErrors

Path = tuple[str, ...]
"""A variable, then members; ``*`` stands for an element."""

_MAX_EXPRESSION: Final = 20_000


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
    if len(expression) > _MAX_EXPRESSION:
        return frozenset()
    try:
        tree = parse(expression.strip(), SourceErrors(expression))
        return frozenset() if tree is None else frozenset(_list_reads(tree, {}))
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
        for one in node.list_children():
            yield from _list_reads(one, variables)


_OPTIONAL: Final = ("_?._", "_[?_]")


def _find_path(node: Node, variables: Mapping[str, Path]) -> Path | None:
    """Return the path of a chain of members, None for another expression."""
    match node:
        case Ident():
            return variables.get(node.name, (node.name,))
        case Select(operand=operand, field=member):
            found = _find_path(operand, variables)
            return None if found is None else (*found, member)
        case Call(function="_[_]" | "_?._" | "_[?_]", arguments=[operand, Literal(value=member)]):
            found = _find_path(operand, variables)
            return None if found is None else (*found, member if isinstance(member, str) else "*")
    return None
