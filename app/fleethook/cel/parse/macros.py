"""Expands macros such as ``all`` and ``map``.

Sources: cel-go's parser/macro.go, cel/library.go, ext/comprehensions.go and ext/lists.go.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Final

from fleethook.cel.parse.syntax_tree import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select

# Expressions cannot write this name, so none of their variables hides it.
ACCUMULATOR: Final = "@result"
_FORMER_ACCUMULATOR: Final = "__result__"
_UNUSED: Final = "#unused"
_SORTED: Final = "@__sortBy_input__"

Macro = Callable[[int, Node, Sequence[Node]], Node]


class MacroError(Exception):
    """The arguments of a macro have a wrong form.

    Attributes:
        offset: The position of the argument.
    """

    def __init__(self, node: Node, text: str) -> None:
        super().__init__(text)
        self.offset: Final = node.offset


def _read_variable(node: Node, problem: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident):
        raise MacroError(node, problem)
    if node.name in {ACCUMULATOR, _FORMER_ACCUMULATOR}:
        raise MacroError(node, "iteration variable overwrites accumulator variable")
    return node.name


def _read_pair(arguments: Sequence[Node]) -> tuple[str, str]:
    first, second = _read_variable(arguments[0]), _read_variable(arguments[1])
    if first == second:
        raise MacroError(arguments[1], f"duplicate variable name: {first}")
    return first, second


def _expand_has(_offset: int, _target: Node, arguments: Sequence[Node]) -> Node:
    tested = arguments[0]
    if not isinstance(tested, Select):
        raise MacroError(tested, "invalid argument to has() macro")
    return Select(_offset, tested.operand, tested.field, tested=True)


def _build_quantifier(kind: str, *, variables: int) -> Macro:
    def expand(offset: int, target: Node, arguments: Sequence[Node]) -> Node:
        first, second = _read_pair(arguments) if variables == 2 else (_read_variable(arguments[0]), "")
        condition, result = arguments[variables], Ident(offset, ACCUMULATOR)
        accumulator = Ident(offset, ACCUMULATOR)
        if kind == "exists_one":
            one = Call(offset, "_+_", [Ident(offset, ACCUMULATOR), Literal(offset, 1)])
            return Comprehension(
                offset, target, first=first, second=second, initial=Literal(offset, 0),
                condition=Literal(offset, value=True), step=Call(offset, "_?_:_", [condition, one, accumulator]),
                result=Call(offset, "_==_", [result, Literal(offset, 1)]),
            )  # fmt: skip
        going: Node = Ident(offset, ACCUMULATOR)
        if kind == "exists":
            going = Call(offset, "!_", [going])
        return Comprehension(
            offset, target, first=first, second=second, initial=Literal(offset, value=kind == "all"),
            condition=Call(offset, "@not_strictly_false", [going]),
            step=Call(offset, "_&&_" if kind == "all" else "_||_", [accumulator, condition]), result=result,
        )  # fmt: skip

    return expand


def _collect(offset: int, filtered: Node | None, step: Node) -> Node:
    """Return the step of a loop that adds to its accumulator only if a condition holds."""
    return step if filtered is None else Call(offset, "_?_:_", [filtered, step, Ident(offset, ACCUMULATOR)])


def _append(offset: int, element: Node) -> Node:
    return Call(offset, "_+_", [Ident(offset, ACCUMULATOR), ListLiteral(offset, [element])])


def _build_list(offset: int, target: Node, first: str, step: Node, *, second: str = "") -> Node:
    return Comprehension(
        offset, target, first=first, second=second, initial=ListLiteral(offset, []),
        condition=Literal(offset, value=True), step=step, result=Ident(offset, ACCUMULATOR),
    )  # fmt: skip


def _expand_map(offset: int, target: Node, arguments: Sequence[Node]) -> Node:
    name = _read_variable(arguments[0], "argument is not an identifier")
    filtered = arguments[1] if len(arguments) == 3 else None
    return _build_list(offset, target, name, _collect(offset, filtered, _append(offset, arguments[-1])))


def _expand_filter(offset: int, target: Node, arguments: Sequence[Node]) -> Node:
    name = _read_variable(arguments[0], "argument is not an identifier")
    return _build_list(offset, target, name, _collect(offset, arguments[1], _append(offset, arguments[0])))


def _expand_transform_list(offset: int, target: Node, arguments: Sequence[Node]) -> Node:
    first, second = _read_pair(arguments)
    filtered = arguments[2] if len(arguments) == 4 else None
    step = _collect(offset, filtered, _append(offset, arguments[-1]))
    return _build_list(offset, target, first, step, second=second)


def _build_map_transform(*, entries: bool) -> Macro:
    def expand(offset: int, target: Node, arguments: Sequence[Node]) -> Node:
        first, second = _read_pair(arguments)
        filtered = arguments[2] if len(arguments) == 4 else None
        added = [arguments[-1]] if entries else [Ident(offset, first), arguments[-1]]
        inserted = Call(offset, "cel.@mapInsert", [Ident(offset, ACCUMULATOR), *added])
        return Comprehension(
            offset, target, first=first, second=second, initial=MapLiteral(offset, []),
            condition=Literal(offset, value=True), step=_collect(offset, filtered, inserted),
            result=Ident(offset, ACCUMULATOR),
        )  # fmt: skip

    return expand


def _bind(offset: int, name: str, value: Node, result: Node) -> Node:
    """Return a loop without steps, which only gives a value a name."""
    return Comprehension(
        offset, ListLiteral(offset, []), first=_UNUSED, accumulator=name, initial=value,
        condition=Literal(offset, value=False), step=Ident(offset, name), result=result,
    )  # fmt: skip


def _build_optional_map(name: str, *, flat: bool) -> Macro:
    def expand(offset: int, target: Node, arguments: Sequence[Node]) -> Node:
        if not isinstance(arguments[0], Ident):
            raise MacroError(arguments[0], f"{name}() variable name must be a simple identifier")
        # The type checker changes each copy on its own.
        value = Call(offset, "value", [], copy.deepcopy(target))
        bound = _bind(offset, arguments[0].name, value, arguments[1])
        present = bound if flat else Call(offset, "optional.of", [bound])
        has_value = Call(offset, "hasValue", [], target)
        return Call(offset, "_?_:_", [has_value, present, Call(offset, "optional.none", [])])

    return expand


def _expand_sort_by(offset: int, target: Node, arguments: Sequence[Node]) -> Node:
    if not isinstance(target, ListLiteral | Select | Ident | Comprehension | Call):
        raise MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _expand_map(offset, Ident(offset, _SORTED), arguments)
    call = Call(offset, "@sortByAssociatedKeys", [keys], Ident(offset, _SORTED))
    return _bind(offset, _SORTED, target, call)


MACROS: Final[dict[tuple[str, int, bool], Macro]] = {
    ("has", 1, False): _expand_has,
    **{
        (name, variables + 1, True): _build_quantifier(kind, variables=variables)
        for name, kind in (("all", "all"), ("exists", "exists"), ("exists_one", "exists_one"))
        for variables in (1, 2)
    },
    ("existsOne", 3, True): _build_quantifier("exists_one", variables=2),
    ("map", 2, True): _expand_map,
    ("map", 3, True): _expand_map,
    ("filter", 2, True): _expand_filter,
    ("optMap", 2, True): _build_optional_map("optMap", flat=False),
    ("optFlatMap", 2, True): _build_optional_map("optFlatMap", flat=True),
    **{("transformList", count, True): _expand_transform_list for count in (3, 4)},
    **{("transformMap", count, True): _build_map_transform(entries=False) for count in (3, 4)},
    **{("transformMapEntry", count, True): _build_map_transform(entries=True) for count in (3, 4)},
    ("sortBy", 2, True): _expand_sort_by,
}
"""The macros by name, number of arguments, and whether they are called on a value."""
