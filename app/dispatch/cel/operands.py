"""What is known of the operands of a call before the expression is evaluated."""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from app.dispatch.cel.elements import elements_of
from app.dispatch.cel.reads import Path, path_of
from app.dispatch.cel.tree import Node, Tree, children, nodes

# Calls that return one of their operands, or a member of it, in constant time.
PASSING: Final = frozenset(
    {
        "_?_:_",
        "_[_]",
        "_[?_]",
        "_?._",
        "optional.of",
        "optional.none",
        "value",
        "or",
        "orValue",
        "hasValue",
        "dyn",
        "type",
    }
    | {"_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@not_strictly_false"}
)
# cel.expr.Type.PrimitiveType: STRING, BYTES. WellKnownType: TIMESTAMP, DURATION.
_TEXTS: Final = frozenset({5, 6})
_TIMES: Final = frozenset({2, 3})
# Types that expressions make no values of but by the functions of `library.authorizer`, which count for themselves.
_AUTHORIZERS: Final = "kubernetes.authorization."
# Members of cel.expr.Type that say that a value is no optional.
_KNOWN: Final = ("primitive", "well_known", "null", "list_type", "map_type", "message_type", "type")
# The variables that have a path in the request.
_ROOTS: Final = frozenset({"object", "oldObject", "request"})


class Kind(enum.Enum):
    """How an operand's size is found out."""

    SMALL = enum.auto()  # a number, a bool, or a constant: no larger than the expression itself
    FRESH = enum.auto()  # made by the operation right below, which was counted when it was made
    PATH = enum.auto()  # a member of the request
    TEXT = enum.auto()  # of type string or bytes
    OPTIONAL = enum.auto()
    ELEMENT = enum.auto()  # a member of a loop's variable, which is counted before the loop
    OTHER = enum.auto()  # of any type


class Operand(NamedTuple):
    """One node.

    Attributes:
        kind: how its size is found out.
        path: the value's place in the request, if that is its kind.
        may_be_optional: whether its value may be an optional.
        elements: of a loop, the paths of what its steps read of its elements: see `elements`.
    """

    kind: Kind
    path: Path = ()
    may_be_optional: bool = False
    elements: tuple[Path, ...] = ()


def operands_of(checked: Tree) -> Mapping[int, Operand]:
    """Return what is known of each node of a checked expression, by the node's number."""
    types = {entry.key: entry.value for entry in checked.types}
    # A loop's variable may have the name of a variable of the request and hides that one then.
    own = {name for node in nodes(checked.expr) for name in _names(node)}
    found: dict[int, Operand] = {}
    for node in nodes(checked.expr):
        found[node.id] = _operand(node, types.get(node.id), _ROOTS - own, found)
    roots = {number: operand.path for number, operand in found.items() if operand.kind is Kind.PATH}
    for use in elements_of(checked.expr, roots):
        if found[use.node].kind in (Kind.TEXT, Kind.OTHER):
            found[use.node] = found[use.node]._replace(kind=Kind.ELEMENT)
            loop = found[use.loop]
            found[use.loop] = loop._replace(elements=(*loop.elements, use.path))
    return found


def _names(node: Node) -> tuple[str, ...]:
    loop = node.comprehension
    return (loop.iter_var, loop.iter_var2, loop.accu_var) if node.HasField("comprehension") else ()


def _operand(node: Node, type_: Node | None, roots: frozenset[str], below: Mapping[int, Operand]) -> Operand:
    kind, path = _kind(node, type_, below), path_of(node)
    if kind is not Kind.SMALL and path is not None and path[0] in roots:
        kind = Kind.PATH
    if kind is Kind.SMALL:
        return Operand(kind)
    unknown = type_ is None or not any(type_.HasField(member) for member in _KNOWN)
    of_the_request = kind is Kind.PATH and not node.HasField("call")
    optional = _has(type_, "abstract_type") or (unknown and not of_the_request)
    return Operand(kind, path if kind is Kind.PATH and path else (), optional)


def _kind(node: Node, type_: Node | None, below: Mapping[int, Operand]) -> Kind:
    if node.HasField("const") or _is_small(type_):
        return Kind.SMALL
    if node.HasField("list") or node.HasField("struct"):
        return Kind.SMALL if all(below[child.id].kind is Kind.SMALL for child in children(node)) else Kind.FRESH
    if node.HasField("call") and node.call.function not in PASSING:
        return Kind.FRESH
    if node.HasField("comprehension") and _collects(node.comprehension):
        return Kind.FRESH
    if _has(type_, "primitive"):
        return Kind.TEXT
    return Kind.OPTIONAL if _has(type_, "abstract_type") else Kind.OTHER


def _has(type_: Node | None, member: str) -> bool:
    return type_ is not None and bool(type_.HasField(member))


def _is_small(type_: Node | None) -> bool:
    """Return whether values of a type are no larger than a number."""
    if type_ is None:
        return False
    return bool(
        type_.HasField("null")
        or type_.HasField("type")
        or (type_.HasField("primitive") and type_.primitive not in _TEXTS)
        or (type_.HasField("well_known") and type_.well_known in _TIMES)
        or type_.message_type.startswith(_AUTHORIZERS)
    )


def _collects(loop: Node) -> bool:
    """Return whether a loop makes a list or a map, as ``map`` and ``filter`` do."""
    return bool(loop.accu_init.HasField("list") or loop.accu_init.HasField("struct"))
