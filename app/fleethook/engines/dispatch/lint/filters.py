"""Finds selectors and matchConditions that no request matches."""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import islice, product
from typing import Final, NamedTuple

from fleethook.cel.check.reads import NULLS
from fleethook.cel.evaluation import EvaluationError, ExpressionError
from fleethook.cel.parse.parser import parse
from fleethook.cel.parse.syntax import Call, Comprehension, Ident, ListLiteral, Literal, Node, Select, SourceErrors
from fleethook.cel.program import Activation, compile_condition
from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.hooks.hooks import Hook
from fleethook.engines.dispatch.lint.codes import Issue
from fleethook.engines.dispatch.lint.condition_errors import OPERATIONS, VARIES
from fleethook.engines.dispatch.lint.rule_checks import list_scopes
from fleethook.engines.dispatch.match.equivalent_resources import find_equivalents
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, as_object, as_text, list_objects
from fleethook.model.webhook_rules import EVERY

_MAX_EXPRESSION: Final = 20_000
_MAX_REQUESTS: Final = 400


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

    Several names mean that at least one of these conditions is false for each request.
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
        operations = OPERATIONS if EVERY in rule.operations else sorted(rule.operations)
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


def _parse(expression: str) -> Node | _Value | None:
    """Return the tree of an expression, or its value if it is constant; None if it cannot be parsed."""
    if len(expression) > _MAX_EXPRESSION:
        return None
    if not VARIES.search(expression):
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
        case Ident() if node.name in (*NULLS.get(known.operation, ()), "namespaceObject"):
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


_FALSE: Final = re.compile(r"[\s(]*false[\s)]*")
_OPERATION: Final = r"""request\.operation\s*==\s*(["'])(?P<operation>\w+)\1"""
_ALONE: Final = re.compile(rf"[\s(]*{_OPERATION}[\s)]*")
# The first operand of a conjunction.
_FIRST: Final = re.compile(rf"\s*{_OPERATION}\s*&&")
# Operators that could make an expression true without its first operand.
_OTHERWISE: Final = ("||", "?")


def filter_findings(hook: Hook, webhook: Mapping[str, JSON], store: StoreView) -> Iterator[Issue]:
    """Yield the filters of a webhook that no request matches."""
    yield from _namespace_findings(hook, webhook, store)
    operations = frozenset[str]().union(*(rule.operations for rule in hook.rules))
    if not hook.object_selector.problem:
        for key in find_contradictions(webhook.get("objectSelector")):
            text = f"objectSelector: its requirements for label {key} contradict each other, so it matches no object"
            yield Issue("selector-contradiction", text)
        # k8s.io/apiserver v0.36 pkg/admission/plugin/webhook/predicates/object/matcher.go, matchObject
        if "CONNECT" in operations and not hook.object_selector.selects_everything:
            text = (
                "objectSelector: a CONNECT request has no object with labels, so the webhook never gets it: "
                "move CONNECT to a webhook without objectSelector, or remove it"
            )
            yield Issue("selector-operation", text)
    never = list(find_false(hook, store))
    for condition in hook.conditions:
        if _FALSE.fullmatch(condition.expression):
            text = f"matchConditions {condition.name}: it is always false: remove the webhook, or the condition"
            yield Issue("condition-false", text)
        wanted = _find_operation(condition.expression)
        if wanted and operations and not operations & {EVERY, wanted}:
            listed = ", ".join(sorted(operations))
            remedy = "write operations in upper case" if wanted.upper() in operations else "add it to them"
            text = f"matchConditions {condition.name}: it requires {wanted}, but the rules have {listed}: {remedy}"
            yield Issue("condition-operation", text)
        elif (condition.name,) in never and not _FALSE.fullmatch(condition.expression):
            text = f"matchConditions {condition.name}: it is false for each operation and resource of the rules"
            yield Issue("condition-false", f"{text}: correct the condition, or the rules")
    for names in never:
        if len(names) > 1:
            text = f"matchConditions {', '.join(names)}: for each operation and resource of the rules, one is false"
            yield Issue("condition-false", f"{text}, so no request is sent to the webhook: correct them, or the rules")


def _namespace_findings(hook: Hook, webhook: Mapping[str, JSON], store: StoreView) -> Iterator[Issue]:
    """Find namespaceSelectors that match nothing. Cluster-scoped objects, except Namespaces, match any of them."""
    if hook.namespace_selector.problem or hook.namespace_selector.selects_everything or not hook.rules:
        return
    scopes = list_scopes(hook, store)
    for key in find_contradictions(webhook.get("namespaceSelector")) if False not in scopes else ():
        text = f"namespaceSelector: its requirements for label {key} contradict each other, so it matches no namespace"
        yield Issue("selector-contradiction", text)
    if scopes == {False} and not _is_exemption(as_object(webhook.get("namespaceSelector"))):
        text = "namespaceSelector: it has no effect, because the rules match cluster-scoped resources only: remove it"
        yield Issue("suspicious", text)


def _is_exemption(selector: Mapping[str, JSON]) -> bool:
    """Return whether a selector only leaves out namespaces by name, as each webhook of rules does for its server."""
    names = [(one.get("key"), one.get("operator")) for one in list_objects(selector.get("matchExpressions"))]
    return not selector.get("matchLabels") and {*names} == {("kubernetes.io/metadata.name", "NotIn")}


def _find_operation(expression: str) -> str:
    """Return the operation that an expression requires, ``""`` if that is not obvious."""
    found = _ALONE.fullmatch(expression)
    if found is None and not any(one in expression for one in _OTHERWISE):
        found = _FIRST.match(expression)
    return found["operation"] if found else ""


def find_contradictions(selector: JSON) -> Iterator[str]:
    """Yield the keys of a label selector whose requirements contradict each other."""
    allowed: dict[str, frozenset[str]] = {}
    refused: dict[str, frozenset[str]] = {}
    present, absent = set[str](), set[str]()
    for key, operator, values in _list_requirements(selector):
        if operator == "In":
            allowed[key] = allowed.get(key, values) & values
        elif operator == "NotIn":
            refused[key] = refused.get(key, frozenset()) | values
        elif operator == "Exists":
            present.add(key)
        elif operator == "DoesNotExist":
            absent.add(key)
    for key in sorted(allowed.keys() | (present & absent)):
        if key in absent or (key in allowed and not allowed[key] - refused.get(key, frozenset())):
            yield key


def _list_requirements(selector: JSON) -> Iterator[tuple[str, str, frozenset[str]]]:
    members = as_object(selector)
    for key, value in as_object(members.get("matchLabels")).items():
        yield key, "In", frozenset({as_text(value)})
    expressions = members.get("matchExpressions")
    for expression in expressions if isinstance(expressions, list) else ():
        one = as_object(expression)
        values = one.get("values")
        listed = frozenset(map(as_text, values if isinstance(values, list) else ()))
        yield as_text(one.get("key")), as_text(one.get("operator")), listed
