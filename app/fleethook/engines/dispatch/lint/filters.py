"""Finds selectors and matchConditions that no request matches."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.hooks.hooks import EVERY, Hook
from fleethook.engines.dispatch.lint.codes import Issue
from fleethook.engines.dispatch.lint.condition_errors import error_findings, find_false
from fleethook.engines.dispatch.lint.rule_checks import list_scopes
from fleethook.engines.dispatch.lint.served_resources import read_text
from fleethook.model.json import JSON, as_object

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
    yield from error_findings(hook)
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
    if scopes == {False}:
        text = "namespaceSelector: it has no effect, because the rules match cluster-scoped resources only: remove it"
        yield Issue("suspicious", text)


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
        yield key, "In", frozenset({read_text(value)})
    expressions = members.get("matchExpressions")
    for expression in expressions if isinstance(expressions, list) else ():
        one = as_object(expression)
        values = one.get("values")
        listed = frozenset(map(read_text, values if isinstance(values, list) else ()))
        yield read_text(one.get("key")), read_text(one.get("operator")), listed
