"""Calls made fit for evaluation: turned to the code of Kubernetes' functions, and kept from taking long.

Nothing stops cel-cpp once it evaluates, but the functions that it calls. So a call whose time depends on what it is
called with is made only after one that looks at what was used so far; what may grow is weighed.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from app.dispatch.cel.functions import private_name
from app.dispatch.cel.reads import Path, paths_of
from app.dispatch.cel.tree import Node, copy_of, ident, let, nodes, read_tree, wrap, write_tree

# Calls whose time does not depend on what they are called with.
_CHEAP: Final = frozenset(
    {"_&&_", "_||_", "!_", "-_", "_?_:_", "_[_]", "_[?_]", "_?._", "@not_strictly_false", "optional.of"}
)
# Calls that take as long as the product of the sizes of what they are called with, or make a list of a given size.
_BY_PRODUCT: Final = frozenset({"sets.contains", "sets.intersects", "sets.equivalent", "distinct", "lists.range"})
_COMPARISONS: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
GO: Final = private_name("go")
TICK: Final = private_name("tick")
WEIGH: Final = private_name("weigh")
WEIGH_SIZE: Final = private_name("weighSize")
WEIGH_PRODUCT: Final = private_name("weighProduct")
# cel.expr.Type.PrimitiveType: STRING, BYTES.
_GROWING: Final = frozenset({5, 6})
# Where the numbers of nodes begin that are put in here; an expression has at most 100,000 characters.
_FRESH: Final = 10_000_000


class Code(NamedTuple):
    """Where the code of an overload is, and whether expressions get an optional of what it returns."""

    name: str
    optional: bool


class Syntax(NamedTuple):
    """An expression that is ready for evaluation. ``paths`` says what it reads of ``object`` and ``oldObject``."""

    serialized: bytes
    paths: frozenset[Path]


def prepare(serialized: bytes, *, codes: Mapping[str, Code]) -> Syntax:
    """Return the checked expression with its calls of Kubernetes' functions turned to their code.

    Args:
        serialized: as cel-cpp's ``Expression.serialize`` gives it.
        codes: by overload, the code of the functions that cel-cpp does not have.
    """
    checked = read_tree(serialized)
    paths = frozenset(paths_of(checked.expr))
    overloads = {entry.key: tuple(entry.value.overload_id) for entry in checked.references}
    types = {entry.key: entry.value for entry in checked.types}
    for node in list(nodes(checked.expr)):
        if node.HasField("comprehension"):
            # `map` and `filter` copy their list in every step: it is time, not the number of steps, that bounds them.
            wrap(node.comprehension.loop_condition, TICK)
        elif node.HasField("call"):
            _prepare_call(node, overloads.get(node.id, ()), types.get(node.id), codes)
    for fresh, node in enumerate(nodes(checked.expr), start=1):
        if not node.id:
            node.id = _FRESH + fresh
    # What is called is found by name and arguments at run time; the references of the check name other overloads.
    kept = [entry for entry in checked.references if not entry.value.overload_id]
    del checked.references[:]
    checked.references.extend(kept)
    return Syntax(write_tree(checked), paths)


def _prepare_call(node: Node, overloads: tuple[str, ...], type_: Node | None, codes: Mapping[str, Code]) -> None:
    call = node.call
    if overloads and all(overload in codes for overload in overloads):
        code = codes[overloads[0]]
        _turn_to_code(call, code.name if len(overloads) == 1 else private_name(call.function))
        if code.optional:
            wrap(node, "optional.ofNonZeroValue")
    elif call.function in _BY_PRODUCT:
        _weigh_before(node)
    elif call.function == "_+_":
        if not _is_append(call) and (type_ is None or not _is_small(type_)):
            _weigh_after(node, by_size=type_ is not None and type_.HasField("list_type"))
    elif call.function not in _CHEAP and not _is_comparison_with_constant(call):
        _only_if(node, GO)


def _is_comparison_with_constant(call: Node) -> bool:
    """Say whether this is the commonest test of all, ``x == 'constant'``, which takes as long as the constant is."""
    return call.function in _COMPARISONS and any(argument.HasField("const") for argument in call.args)


def _is_append(call: Node) -> bool:
    """Say whether this is the step of a macro like ``map``, which adds one element to what it has so far."""
    return bool(call.args[0].ident.name == "@result")


def _is_small(type_: Node) -> bool:
    """Say whether values of a type are no larger than a number: only texts, bytes, lists and unknown types grow."""
    return bool(type_.HasField("well_known") or (type_.HasField("primitive") and type_.primitive not in _GROWING))


def _weigh_after(node: Node, *, by_size: bool) -> None:
    """Let a sum be weighed before anything else is done with it."""
    let(node, "@sum", copy_of(node))
    result = node.comprehension.result
    result.ident.name = "@sum"
    _only_if(result, WEIGH_SIZE if by_size else WEIGH, _size_of("@sum") if by_size else ident("@sum"))


def _weigh_before(node: Node) -> None:
    """Let the arguments of a call be weighed before it is made."""
    inner = copy_of(node)
    arguments = [inner.call.target] if inner.call.HasField("target") else []
    arguments += inner.call.args
    by_value = inner.call.function == "lists.range"
    values = [copy_of(argument) for argument in arguments]
    names = [f"@argument{position}" for position in range(len(arguments))]
    for argument, name in zip(arguments, names, strict=True):
        argument.CopyFrom(ident(name))
    _only_if(inner, WEIGH_PRODUCT, *(ident(name) if by_value else _size_of(name) for name in (names * 2)[:2]))
    for value, name in zip(values, names, strict=True):
        let(node, name, value)
        node = node.comprehension.result
    node.CopyFrom(inner)


def _turn_to_code(call: Node, name: str) -> None:
    call.function = name
    if call.HasField("target"):
        arguments = [copy_of(argument) for argument in (call.target, *call.args)]
        call.ClearField("target")
        del call.args[:]
        call.args.extend(arguments)


def _size_of(name: str) -> Node:
    node = ident(name)
    wrap(node, "size")
    return node


def _only_if(node: Node, function: str, *arguments: Node) -> None:
    """Let a node be evaluated only if a function says that the evaluation may go on; otherwise that is an error."""
    inner = copy_of(node)
    node.Clear()
    node.call.function = "_?_:_"
    condition, yes, no = (node.call.args.add() for _ in range(3))
    condition.call.function = function
    condition.call.args.extend(arguments)
    yes.CopyFrom(inner)
    no.const.bool_value = False
