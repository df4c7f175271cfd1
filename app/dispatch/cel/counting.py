"""Expressions that count what they make cel-cpp do, so that one that takes too much ends, on every machine alike.

Only a function that cel-cpp calls can stop an evaluation. So a function of `guards` counts an operand before the
operand is used: ``x == y`` becomes ``(weigh(x) ? x : false) == y``. Every value that an expression makes is counted
when it is made, so no value is larger than the request and the budget together.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from app.dispatch.cel.guards import GO, PLAIN, SPEND, STEP, TEXT, TEXTS, WEIGH, WEIGH_PATH, WEIGH_TIMES, path_text
from app.dispatch.cel.operands import PASSING, Kind, Operand
from app.dispatch.cel.reads import Path
from app.dispatch.cel.tree import Node, call, children, constant, copy_of, ident, let, member_call, only_if

_Known: TypeAlias = tuple[Node, Operand]

_COMPARISONS: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
# Calls that compare each element of one list with each of the other.
_BY_PRODUCT: Final = frozenset({"sets.contains", "sets.intersects", "sets.equivalent", "distinct"})
# Calls that read no more of a text than the other one is long.
_AFFIXES: Final = frozenset({"startsWith", "endsWith"})
# Nodes that cel-cpp evaluates in the time of one unit.
_NODES: Final = 4
# What a loop has collected so far; no name of a user begins with this sign.
_RESULT: Final = "@result"
# Kinds that need no counting: the value is small, or was counted when it was made.
_COUNTED: Final = frozenset({Kind.SMALL, Kind.FRESH, Kind.ELEMENT})
# Of two values that are compared, the one whose size is known with the least work is counted.
_CHEAPEST: Final = (Kind.PATH, Kind.TEXT, Kind.OPTIONAL, Kind.OTHER)


def count(node: Node, operands: Mapping[int, Operand]) -> None:
    """Put calls of guards between a node and the nodes right below.

    Args:
        node: a node whose descendants have been dealt with.
        operands: what is known of the nodes, from before the first change.
    """
    if node.HasField("comprehension"):
        _count_loop(node.comprehension, operands[node.id].elements)
        return
    known = [(below, operands[below.id]) for below in children(node)]
    if node.HasField("call"):
        _count_call(node, known)
    elif node.HasField("list"):
        _weigh_each(known)
    elif node.HasField("struct"):
        _weigh_each(known)
        _refuse_optionals(node, operands)


def _count_loop(loop: Node, elements: Sequence[Path]) -> None:
    arguments = [constant(_work_of_step(loop))]
    if loop.accu_init.HasField("list") and loop.accu_var == _RESULT:
        # `map` and `filter` copy the list that they have so far, in every step.
        arguments.append(call("size", ident(_RESULT)))
    only_if(loop.loop_condition, call(STEP, *arguments))
    for path, times in Counter(elements).items():
        only_if(loop.iter_range, call(WEIGH_PATH, constant(path_text(path)), constant(times)))


def _work_of_step(loop: Node) -> int:
    """Return the work of one step, without that of loops within, which count for themselves."""
    return sum(map(_nodes_outside_loops, (loop.loop_condition, loop.loop_step))) // _NODES


def _nodes_outside_loops(root: Node) -> int:
    below = children(root)
    if root.HasField("comprehension"):
        loop = root.comprehension
        below = iter((loop.iter_range, loop.accu_init, loop.result))
    return 1 + sum(map(_nodes_outside_loops, below))


def _count_call(node: Node, operands: Sequence[_Known]) -> None:
    function = node.call.function
    if function in _COMPARISONS:
        _count_comparison(operands)
    elif function == "@in":
        _count_membership(node, operands)
    elif function in _BY_PRODUCT:
        _guard(node, lambda *lists: _absorbing(call(WEIGH_TIMES, lists[0], call("size", lists[-1]))))
    elif function == "contains":
        _guard(node, lambda value, part: _texts(call("size", value), part))
    elif function == "split":
        # Each character of the text may become a text of its own.
        _guard(node, lambda value, part, *_: _texts(call("_*_", constant(10), call("size", value)), part))
    elif function == "lists.range":
        _guard(node, lambda size: call(SPEND, size))
    elif function == "size":
        _count_size(node)
    elif function in _AFFIXES or function == "_[_]":
        _weigh_each(operands[1:])
    elif function not in PASSING and not _is_collecting(operands):
        _weigh_each(operands)


def _is_collecting(operands: Sequence[_Known]) -> bool:
    """Return whether a call adds to the list or map of a loop, which is counted with the step and by `library.maps`."""
    return bool(operands) and operands[0][0].ident.name == _RESULT and operands[0][1].kind is not Kind.SMALL


def _count_comparison(operands: Sequence[_Known]) -> None:
    """Count the smaller one of two values: no more is compared."""
    kinds = {known.kind for _, known in operands}
    if kinds.isdisjoint(_COUNTED):
        _weigh(*min(operands, key=lambda operand: _CHEAPEST.index(operand[1].kind)))


def _count_membership(node: Node, operands: Sequence[_Known]) -> None:
    (_, value), (values, known) = operands
    if known.kind in _COUNTED:
        return
    if value.kind is Kind.SMALL:
        _guard(node, lambda _, values: call(SPEND, call("size", values)))
    elif known.kind is Kind.PATH:
        _weigh(values, known)
    else:
        _guard(node, lambda value, values: _absorbing(call(WEIGH_TIMES, value, call("size", values))))


def _weigh_each(operands: Sequence[_Known]) -> None:
    for operand, known in operands:
        _weigh(operand, known)


def _weigh(node: Node, known: Operand) -> None:
    """Let a value be counted before it is used."""
    if known.kind is Kind.PATH:
        only_if(node, call(WEIGH_PATH, constant(path_text(known.path))))
    elif known.kind not in _COUNTED:
        _guard_value(node, lambda value: _weighing(known.kind, value))


def _weighing(kind: Kind, value: Node) -> Node:
    if kind is Kind.TEXT:
        return _going(call(TEXT, call("size", value)))
    if kind is Kind.OPTIONAL:
        return _absorbing(call(WEIGH, member_call("orValue", value, constant(None))))
    return _absorbing(call(WEIGH, value))


def _texts(size: Node, part: Node) -> Node:
    return _going(call(TEXTS, size, call("size", part)))


def _going(guard: Node) -> Node:
    """Return a guard whose arguments are not evaluated when the budget is used up: to read a text takes time, too."""
    return call("_&&_", call(GO), guard)


def _absorbing(guard: Node) -> Node:
    """Return a guard that lets pass what it cannot take: a type, an address. False stays false."""
    return call("@not_strictly_false", _going(guard))


def _count_size(node: Node) -> None:
    """Count a text when its size is known, which takes reading it once."""
    _guard_value(node, lambda size: call(TEXT, size))


def _guard_value(node: Node, guard: Callable[[Node], Node]) -> None:
    """Put a guard that sees a value before it. The value is evaluated once."""
    if _is_repeatable(node):
        only_if(node, guard(node))
        return
    value = copy_of(node)
    node.CopyFrom(ident("@value", number=node.id))
    only_if(node, guard(node))
    let(node, "@value", value)


def _guard(node: Node, guard: Callable[..., Node]) -> None:
    """Put a guard that sees all operands of a call before the first one. Each operand is evaluated once."""
    operands = list(children(node))
    hoisted: list[tuple[str, Node]] = []
    for position, operand in enumerate(operands):
        if not _is_repeatable(operand):
            name = f"@operand{position}"
            hoisted.append((name, copy_of(operand)))
            operand.CopyFrom(ident(name))
    only_if(operands[0], guard(*operands))
    for name, value in reversed(hoisted):
        let(node, name, value)


def _is_repeatable(node: Node) -> bool:
    """Return whether a node may be evaluated twice: a constant, or a member of a variable."""
    if node.HasField("select"):
        return _is_repeatable(node.select.operand)
    return bool(node.HasField("ident") or node.HasField("const"))


def _refuse_optionals(node: Node, operands: Mapping[int, Operand]) -> None:
    """Let no map hold an optional: cel-expr-python 0.1.3 crashes when it hands such a map to a function."""
    for entry in node.struct.entries:
        if operands[entry.value.id].may_be_optional:
            _guard_value(entry.value, _is_plain_content if entry.optional_entry else _is_plain)


def _is_plain(value: Node) -> Node:
    return call(PLAIN, call("_==_", call("type", value), ident("optional_type")))


def _is_plain_content(value: Node) -> Node:
    """Return the guard for ``{?key: value}``: the value is taken out of an optional, and may be one again."""
    return _is_plain(member_call("orValue", value, constant(None)))
