"""Finds conditions, and expressions of admission rules, that have an error for requests of their webhook."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleethook.cel.check.reads import list_reads
from fleethook.cel.evaluation import EvaluationError, ExpressionError
from fleethook.cel.program import Activation, compile_condition
from fleethook.engines.dispatch.hooks.hooks import Hook
from fleethook.engines.dispatch.lint.codes import Issue
from fleethook.model.webhook_rules import EVERY

_OPERATIONS: Final = ("CONNECT", "CREATE", "DELETE", "UPDATE")
_NULLS: Final[Mapping[str, tuple[str, ...]]] = {"object": ("DELETE",), "oldObject": ("CONNECT", "CREATE")}
"""The operations for which a variable is null."""
_ASKED: Final = "request.operation"
_RULE: Final = "expression"
"""The name of the expression of an admission rule."""
# A condition without these words is constant, and evaluated quickly.
_VARIES: Final = re.compile(
    r"\b(object|oldObject|request|namespaceObject|authorizer|all|exists|map|filter|\w*[A-Z_]\w*)\b"
)
_AUTHORIZER: Final = re.compile(r"(?<![\w.'\"])authorizer\s*\.")
_MAX_EXPRESSION: Final = 20_000
# kube-apiserver gives matchConditions of webhooks no namespaceObject (k8s.io/apiserver v0.36
# pkg/admission/plugin/webhook/matchconditions/matcher.go passes nil).
_CONDITION_NULL: Final = "namespaceObject"


def condition_errors(hook: Hook, rule_expression: str = "") -> Iterator[Issue]:
    """Yield the expressions of a webhook that have an error.

    Args:
        hook: The webhook.
        rule_expression: The expression of an admission rule in Python, ``""`` for another webhook.
    """
    conditions = {f"matchConditions {one.name}": one.expression for one in hook.conditions}
    expressions = {**conditions, **({_RULE: rule_expression} if rule_expression else {})}
    effect = "are refused (failurePolicy Fail)"
    if hook.fails_open:
        verb = "are admitted without the rule" if rule_expression else "are not sent to the webhook"
        effect = f"{verb} (failurePolicy Ignore)"
    # A condition that asks for the operation may skip the webhook.
    if not any(_ASKED in one for one in expressions.values()):
        for name, variable, operations in _find_null_reads(_list_operations(hook), conditions, rule_expression):
            # One operand may decide without the other.
            share = "some of " if re.search(r"&&|\|\||\?", expressions[name]) else ""
            yield _describe(name, variable, operations, f"{share}these requests {effect}")
        for name, operation in _find_unnamed(hook, expressions):
            yield _describe_unnamed(name, operation, effect)
    for name, text in expressions.items():
        if hook.cluster and _AUTHORIZER.search(text):
            yield Issue(
                "condition-error", f"{name}: no request has an authorizer, so these requests {effect}: remove it"
            )
        value = _evaluate_constant(text)
        if isinstance(value, EvaluationError):
            yield Issue("condition-error", f"{name}: its constants have an error, so all requests {effect}: correct it")
        elif value is False and name in conditions:
            yield Issue("never-called", f"{name}: it is always false: remove the webhook, or the condition")


def _list_operations(hook: Hook) -> list[str]:
    listed = frozenset[str]().union(*(rule.operations for rule in hook.rules))
    # Few resources support CONNECT.
    return [one for one in _OPERATIONS if one in listed or (EVERY in listed and one != "CONNECT")]


def _find_null_reads(
    operations: Sequence[str], conditions: Mapping[str, str], rule_expression: str
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name of an expression, a variable of which it reads a member, and the operations that have a null."""
    for name, text in (*conditions.items(), (_RULE, rule_expression)):
        # An expression with null compares with it.
        read = set() if "null" in text else {one.path[0] for one in list_reads(text) if len(one.path) > 1}
        nulls = {**_NULLS, **({} if name == _RULE else {_CONDITION_NULL: _OPERATIONS})}
        for variable in sorted(read & nulls.keys()):
            found = [one for one in operations if one in nulls[variable]]
            if found and not re.search(rf"\b{variable}\s*(\.|\[)\?", text):
                yield name, variable, found


def _find_unnamed(hook: Hook, expressions: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield expressions that need the name of a request, with an operation whose request may lack it."""
    listed = frozenset[str]().union(*(rule.operations for rule in hook.rules))
    for operation in ("CREATE", "DELETE") if hook.phase == "mutating" else ("DELETE",):
        for name, text in expressions.items() if listed & {EVERY, operation} else ():
            tested = {one.tested for one in list_reads(text) if one.path == ("request", "name")}
            if tested == {False}:
                yield name, operation


def _describe_unnamed(name: str, operation: str, effect: str) -> Issue:
    lacking = "a deleted collection, so also of a deleted namespace,"
    if operation == "CREATE":
        lacking = "an object with generateName, as Pods have,"
    text = f"{name}: it reads request.name, which the request of {lacking} lacks, so these requests {effect}"
    return Issue("suspicious", f"{text}: test has(request.name) first")


def _describe(name: str, variable: str, operations: Sequence[str], effect: str) -> Issue:
    why = f"it reads {variable}, which is null for {' and '.join(operations)}"
    code = "suspicious" if effect.startswith("some") else "condition-error"
    remedy = "compare with null first, or remove the operation"
    return Issue(code, f"{name}: {why}, so {effect}: {remedy}")


def _evaluate_constant(expression: str) -> object:
    """Return the value of an expression without variables, or its EvaluationError; None for any other expression."""
    if len(expression) > _MAX_EXPRESSION or _VARIES.search(expression):
        return None
    try:
        return compile_condition(expression).evaluate(Activation(object_=None, old_object=None, request={}))
    except EvaluationError as error:
        return error
    except (ExpressionError, RecursionError):
        return None
