"""Finds match conditions that always have an error for an operation, because a variable is null there.

The expression is evaluated with the operation and the nulls alone. Parts whose value depends on more are unknown.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

from app.dispatch.cel.parser import parse
from app.dispatch.cel.source_errors import SourceErrors
from app.dispatch.cel.syntax import Call, Comprehension, Ident, ListLiteral, Literal, Node, Select
from app.dispatch.hooks import EVERY, Hook
from app.dispatch.lint.codes import Issue

_MAX_EXPRESSION: Final = 20_000
_OPERATIONS: Final = ("CONNECT", "CREATE", "DELETE", "UPDATE")
# kube-apiserver gives matchConditions of webhooks no namespaceObject (k8s.io/apiserver v0.36
# pkg/admission/plugin/webhook/matchconditions/matcher.go passes nil).
_NULLS: Final = {
    "CONNECT": ("oldObject", "namespaceObject"),
    "CREATE": ("oldObject", "namespaceObject"),
    "DELETE": ("object", "namespaceObject"),
    "UPDATE": ("namespaceObject",),
}


class _Special(Enum):
    UNKNOWN = 0
    ERROR = 1


_UNKNOWN, _ERROR = _Special.UNKNOWN, _Special.ERROR
_Value = object
"""A constant of CEL (None for null), or one of `_Special`."""


def error_findings(hook: Hook) -> Iterator[Issue]:
    """Yield the conditions of a webhook that always have an error for an operation of its rules."""
    expressions = {one.name: one.expression for one in hook.conditions}
    trees = [(name, tree) for name, text in expressions.items() if (tree := _parse(text)) is not None]
    listed = frozenset[str]().union(*(rule.operations for rule in hook.rules))
    failing: dict[str, list[str]] = {}
    for operation in _OPERATIONS if EVERY in listed else sorted(listed & frozenset(_OPERATIONS)):
        if operation == "CONNECT" and EVERY in listed:
            continue  # Few resources support it.
        verdicts = [(name, _evaluate(tree, operation)) for name, tree in trees]
        # A false condition skips the webhook, even if other conditions have errors.
        if not any(value is False for _, value in verdicts):
            for name in [name for name, value in verdicts if value is _ERROR]:
                failing.setdefault(name, []).append(operation)
    effect = "the webhook is not called (failurePolicy Ignore)"
    if not hook.fails_open:
        effect = "these requests are refused (failurePolicy Fail)"
    for name, operations in failing.items():
        used = {one for operation in operations for one in _NULLS[operation] if one in expressions[name]}
        why = f"{' or '.join(sorted(used))} is null there"
        yield Issue(
            "condition-error",
            f"matchConditions {name}: it always has an error for {' and '.join(operations)}, because {why}, so "
            f"{effect}: compare with null first, or remove the operation from the rules",
        )


def _parse(expression: str) -> Node | None:
    if len(expression) > _MAX_EXPRESSION:
        return None
    try:
        return parse(expression.strip(), SourceErrors(expression))
    except RecursionError:
        return None


def _evaluate(node: Node, operation: str) -> _Value:
    try:
        return _fold(node, operation)
    except RecursionError:
        return _UNKNOWN


def _fold(node: Node, operation: str) -> _Value:
    value: _Value = _UNKNOWN
    match node:
        case Literal():
            value = node.value
        case Ident() if node.name in _NULLS[operation]:
            value = None
        case Select(operand=Ident(name="request"), field="operation"):
            value = True if node.tested else operation
        case Select(operand=inner) | Comprehension(range=inner):
            value = _ERROR if _is_error_or_null(_fold(inner, operation)) else _UNKNOWN
        case ListLiteral():
            values = [_fold(one, operation) for one in node.elements]
            value = _ERROR if _ERROR in values else _UNKNOWN if _UNKNOWN in values or node.optional else values
        case Call():
            value = _fold_call(node, operation)
    return value


def _is_error_or_null(value: _Value) -> bool:
    return value is None or value is _ERROR


def _fold_call(node: Call, operation: str) -> _Value:
    arguments = node.arguments if node.target is None else [node.target, *node.arguments]
    if node.function == "_?_:_":
        return _choose(arguments, operation)
    values = [_fold(one, operation) for one in arguments]
    match node.function, values:
        case "_&&_" | "_||_", _:
            return _join(values, decisive=node.function == "_||_")
        case "_?._" | "_[?_]", [value, *_]:
            return _ERROR if value is _ERROR else _UNKNOWN
        case "_[_]", [None, _]:
            return _ERROR
    return _ERROR if _ERROR in values else _apply(node.function, values)


def _apply(function: str, values: list[_Value]) -> _Value:
    if _UNKNOWN in values:
        return _UNKNOWN
    match function, values:
        case "!_", [bool() as one]:
            return not one
        case "_==_", [left, right]:
            return type(left) is type(right) and left == right
        case "_!=_", [left, right]:
            return type(left) is not type(right) or left != right
        case "@in", [one, list() as listed]:
            return one in listed
    return _UNKNOWN


def _join(values: list[_Value], *, decisive: bool) -> _Value:
    """Return the result of ``&&`` or ``||``, which ignores errors if one operand decides."""
    if any(value is decisive for value in values):
        return decisive
    if _UNKNOWN in values:
        return _UNKNOWN
    return _ERROR if _ERROR in values else not decisive


def _choose(arguments: list[Node], operation: str) -> _Value:
    condition = _fold(arguments[0], operation)
    if isinstance(condition, bool):
        return _fold(arguments[1 if condition else 2], operation)
    if condition is _ERROR:
        return _ERROR
    yes, no = (_fold(one, operation) for one in arguments[1:])
    return _ERROR if yes is _ERROR and no is _ERROR else _UNKNOWN
