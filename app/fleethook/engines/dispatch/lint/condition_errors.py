"""Finds conditions, and expressions of admission rules, that have an error for requests of their webhook."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleethook.cel.check.reads import NULLS, read_null
from fleethook.cel.evaluation import EvaluationError, ExpressionError
from fleethook.cel.program import Activation, compile_condition
from fleethook.engines.dispatch.lint.codes import Issue
from fleethook.engines.dispatch.webhooks.webhook import Webhook
from fleethook.model.webhook_rules import EVERY

_OPERATIONS: Final = ("CONNECT", "CREATE", "DELETE", "UPDATE")
# A condition without these words is constant, and evaluated quickly.
_VARIES: Final = re.compile(
    r"\b(object|oldObject|request|namespaceObject|authorizer|all|exists|map|filter|\w*[A-Z_]\w*)\b"
)
_AUTHORIZER: Final = re.compile(r"(?<![\w.'\"])authorizer\s*\.")
_MAX_EXPRESSION: Final = 20_000
# kube-apiserver gives matchConditions of webhooks no namespaceObject (k8s.io/apiserver v0.36
# pkg/admission/plugin/webhook/matchconditions/matcher.go passes nil).
_CONDITION_NULL: Final = "namespaceObject"


def condition_errors(hook: Webhook, rule_expression: str = "") -> Iterator[Issue]:
    """Yield the expressions of a webhook that have an error.

    Args:
        hook: The webhook.
        rule_expression: The expression of an admission rule in Python, ``""`` for another webhook.
    """
    conditions = {f"matchConditions {one.name}": one.expression for one in hook.conditions}
    expressions = {**conditions, **({"expression": rule_expression} if rule_expression else {})}
    effect = "are refused (failurePolicy Fail)"
    if hook.fails_open:
        verb = "are admitted without the rule" if rule_expression else "are not sent to the webhook"
        effect = f"{verb} (failurePolicy Ignore)"
    for (name, outcome), operations in _find_null_reads(hook, conditions, rule_expression).items():
        yield _describe(
            name, expressions[name], operations, f"{'' if outcome == 'always' else 'some of '}these requests {effect}"
        )
    for name, operation in _find_unnamed(hook, expressions):
        yield _describe_unnamed(name, operation, effect)
    for name, expression in expressions.items():
        if hook.cluster and _AUTHORIZER.search(expression):
            yield Issue(
                "condition-error", f"{name}: no request has an authorizer, so these requests {effect}: remove it"
            )
        value = _evaluate_constant(expression)
        if isinstance(value, EvaluationError):
            yield Issue("condition-error", f"{name}: its constants have an error, so all requests {effect}: correct it")
        elif value is False and name in conditions:
            yield Issue("never-called", f"{name}: it is always false: remove the webhook, or the condition")


def _find_null_reads(
    hook: Webhook, conditions: Mapping[str, str], rule_expression: str
) -> dict[tuple[str, str], list[str]]:
    """Return the operations for which an expression reads a member of a null, by its name and the outcome."""
    found: dict[tuple[str, str], list[str]] = {}
    listed = frozenset[str]().union(*(rule.operations for rule in hook.rules))
    for operation in _OPERATIONS if EVERY in listed else sorted(listed & frozenset(_OPERATIONS)):
        if operation == "CONNECT" and EVERY in listed:
            continue  # Few resources support it.
        reads = {name: read_null(text, operation, nulls=(_CONDITION_NULL,)) for name, text in conditions.items()}
        # A false condition skips the webhook, even if other conditions have errors.
        if "false" in reads.values():
            continue
        if rule_expression:
            reads["expression"] = read_null(rule_expression, operation)
        for name, outcome in reads.items():
            if outcome in ("always", "possible"):
                found.setdefault((name, outcome), []).append(operation)
    return found


def _find_unnamed(hook: Webhook, expressions: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield expressions that need the name of a request, with an operation whose request may lack it."""
    listed = frozenset[str]().union(*(rule.operations for rule in hook.rules))
    for operation in ("CREATE", "DELETE") if hook.phase == "mutating" else ("DELETE",):
        if not listed & {EVERY, operation}:
            continue
        nulls = (_CONDITION_NULL,)
        unnamed = {one: read_null(text, operation, nulls=nulls, has_name=False) for one, text in expressions.items()}
        if "false" in unnamed.values():
            continue
        for name, text in expressions.items():
            if unnamed[name] and not read_null(text, operation, nulls=nulls):
                yield name, operation


def _describe_unnamed(name: str, operation: str, effect: str) -> Issue:
    lacking = "a deleted collection, so also of a deleted namespace,"
    if operation == "CREATE":
        lacking = "an object with generateName, as Pods have,"
    text = f"{name}: it reads request.name, which the request of {lacking} lacks, so these requests {effect}"
    return Issue("suspicious", f"{text}: test has(request.name) first")


def _describe(name: str, expression: str, operations: Sequence[str], effect: str) -> Issue:
    nulls = {one for operation in operations for one in NULLS[operation]} | {_CONDITION_NULL}
    used = sorted(one for one in nulls if re.search(rf"\b{one}\b", expression))
    why = f"it reads {' and '.join(used)}, which is null for {' and '.join(operations)}"
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
