"""Finds match conditions that are false, or have an error, for each request of the rules.

The expression is evaluated with the operation, the nulls, the resource and its kind alone. Parts whose value depends on
more are unknown.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import islice, product
from typing import Final, NamedTuple

from fleethook.cel.evaluation import EvaluationError, ExpressionError
from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.syntax import Call, Comprehension, Ident, ListLiteral, Literal, Node, Select, SourceErrors
from fleethook.cel.program import Activation, compile_condition
from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.hooks.hooks import EVERY, Hook
from fleethook.engines.dispatch.lint.codes import Issue
from fleethook.engines.dispatch.match.equivalent_resources import find_equivalents
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource

_MAX_EXPRESSION: Final = 20_000
_MAX_REQUESTS: Final = 400
# A condition without these words is constant, and evaluated quickly.
_VARIES: Final = re.compile(
    r"\b(object|oldObject|request|namespaceObject|authorizer|all|exists|map|filter|\w*[A-Z_]\w*)\b"
)
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


class _Known(NamedTuple):
    """The known facts of a request."""

    operation: str
    """``""`` if it is unknown."""
    resource: Mapping[str, str]
    """The known members of ``request.resource``."""
    kind: str = ""
    """``request.kind.kind``, ``""`` if it is unknown."""


def find_false(hook: Hook, store: StoreView) -> Iterator[tuple[str, ...]]:
    """Yield the names of conditions that are false for each request of the rules.

    Several names are those of conditions that are false only together: for each request, one of them.
    """
    requests = list(islice(_list_requests(hook, store), _MAX_REQUESTS + 1))
    if not requests or len(requests) > _MAX_REQUESTS:
        return
    left, names, alone = set(range(len(requests))), list[str](), False
    for condition in hook.conditions:
        tree = _parse(condition.expression)
        never = {number for number, one in enumerate(requests) if tree is not None and _evaluate(tree, one) is False}
        if len(never) == len(requests):
            alone = True
            yield (condition.name,)
        elif never & left:
            left -= never
            names.append(condition.name)
    if not left and not alone:
        yield tuple(names)


def _list_requests(hook: Hook, store: StoreView) -> Iterator[_Known]:
    """Yield the facts that the rules fix."""
    for rule in hook.rules:
        operations = _OPERATIONS if EVERY in rule.operations else sorted(rule.operations)
        for operation, group, version, path in product(operations, rule.groups, rule.versions, rule.resources):
            # Conditions see the resource of the request, not the equivalent one that the rule names.
            exact = ("*", "*") if hook.matches_equivalents else (group, version)
            resource = zip(("group", "version", "resource"), (*exact, path[0]), strict=True)
            known = {member: name for member, name in resource if name != EVERY}
            kind = "" if EVERY in (group, *path) else _find_kind(hook, store, (group, version, path[0]), path[1])
            yield _Known(operation, known, kind)


def _find_kind(hook: Hook, store: StoreView, resource: tuple[str, str, str], subresource: str) -> str:
    """Return the kind of a resource in all its versions, ``""`` if it is unknown."""
    found = find_equivalents(
        store,
        cluster=hook.cluster,
        resource=GroupVersionResource(*resource),
        subresource=subresource,
        kind=GroupVersionKind("", "", ""),
    )
    kinds = {one.kind.kind for one in found if one.kind is not None and one.kind.kind}
    return kinds.pop() if len(kinds) == 1 else ""


def error_findings(hook: Hook) -> Iterator[Issue]:
    """Yield the conditions of a webhook that always have an error for an operation of its rules."""
    expressions = {one.name: one.expression for one in hook.conditions}
    trees = [(name, tree) for name, text in expressions.items() if (tree := _parse(text)) is not None]
    listed = frozenset[str]().union(*(rule.operations for rule in hook.rules))
    failing: dict[str, list[str]] = {}
    for operation in _OPERATIONS if EVERY in listed else sorted(listed & frozenset(_OPERATIONS)):
        if operation == "CONNECT" and EVERY in listed:
            continue  # Few resources support it.
        verdicts = [(name, _evaluate(tree, _Known(operation, {}))) for name, tree in trees]
        # A false condition skips the webhook, even if other conditions have errors.
        if not any(value is False for _, value in verdicts):
            for name in [name for name, value in verdicts if value is _ERROR]:
                failing.setdefault(name, []).append(operation)
    effect = "the webhook is not called (failurePolicy Ignore)"
    if not hook.fails_open:
        effect = "these requests are refused (failurePolicy Fail)"
    for name, operations in failing.items():
        used = {one for operation in operations for one in _NULLS[operation] if one in expressions[name]}
        why, remedy = "its constants have it", "correct it"
        if used:
            why = f"{' or '.join(sorted(used))} is null there"
            remedy = "compare with null first, or remove the operation from the rules"
        yield Issue(
            "condition-error",
            f"matchConditions {name}: it always has an error for {' and '.join(operations)}, because {why}, so "
            f"{effect}: {remedy}",
        )


def _parse(expression: str) -> Node | _Value | None:
    """Return the tree of an expression, or its value if it is constant; None if it cannot be parsed."""
    if len(expression) > _MAX_EXPRESSION:
        return None
    if not _VARIES.search(expression):
        try:
            return compile_condition(expression).evaluate(Activation(object_=None, old_object=None, request={}))
        except EvaluationError:
            return _ERROR
        except (ExpressionError, RecursionError):
            return None
    try:
        return parse(expression.strip(), SourceErrors(expression))
    except RecursionError:
        return None


def _evaluate(tree: Node | _Value, known: _Known) -> _Value:
    if not isinstance(tree, Node):
        return tree
    try:
        return _fold(tree, known)
    except RecursionError:
        return _UNKNOWN


def _fold(node: Node, known: _Known) -> _Value:
    value: _Value = _UNKNOWN
    match node:
        case Literal():
            value = node.value
        case Ident() if node.name in _NULLS.get(known.operation, ()):
            value = None
        case Select(operand=Ident(name="request"), field="operation"):
            value = True if node.tested else known.operation or _UNKNOWN
        case Select(operand=Select(operand=Ident(name="request"), field="resource"), field=field) if not node.tested:
            value = known.resource.get(field, _UNKNOWN)
        case Select(operand=Select(operand=Ident(name="request"), field="kind"), field="kind") if not node.tested:
            value = known.kind or _UNKNOWN
        case Select(operand=inner) | Comprehension(range=inner):
            value = _ERROR if _is_error_or_null(_fold(inner, known)) else _UNKNOWN
        case ListLiteral():
            values = [_fold(one, known) for one in node.elements]
            value = _ERROR if _ERROR in values else _UNKNOWN if _UNKNOWN in values or node.optional else values
        case Call():
            value = _fold_call(node, known)
    return value


def _is_error_or_null(value: _Value) -> bool:
    return value is None or value is _ERROR


def _fold_call(node: Call, known: _Known) -> _Value:
    arguments = node.arguments if node.target is None else [node.target, *node.arguments]
    if node.function == "_?_:_":
        return _choose(arguments, known)
    values = [_fold(one, known) for one in arguments]
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


def _choose(arguments: list[Node], known: _Known) -> _Value:
    condition = _fold(arguments[0], known)
    if isinstance(condition, bool):
        return _fold(arguments[1 if condition else 2], known)
    if condition is _ERROR:
        return _ERROR
    yes, no = (_fold(one, known) for one in arguments[1:])
    return _ERROR if yes is _ERROR and no is _ERROR else _UNKNOWN
