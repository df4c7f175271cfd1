"""Whether a request meets a webhook's ``matchConditions`` (upstream: pkg/admission/plugin/webhook/matchconditions)."""

from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from app.dispatch.cel import (
    AccessQuestion,
    Activation,
    CostError,
    EvaluationError,
    ExpressionError,
    PendingChecksError,
    Program,
    compile_condition,
)
from app.dispatch.cel.program import LIMITS, Limits

# k8s.io/apiserver/pkg/apis/cel/config.go: RuntimeCELCostBudgetMatchConditions, for all conditions of one webhook.
MAX_COST_OF_WEBHOOK: Final = 2_500_000
# For all webhooks that one request asks about, unless a setting says otherwise: four webhooks that use all they may.
# kube-apiserver has no such limit. It is as large as RuntimeCELCostBudget, its limit for the rules of one object.
MAX_COST_OF_REQUEST: Final = 10_000_000
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class Condition(NamedTuple):
    """One entry of ``matchConditions``."""

    name: str
    expression: str


class ConditionsVerdict(NamedTuple):
    """What a webhook's conditions come to.

    Attributes:
        matched: whether the webhook is to be called. False with ``errors`` refuses the request, False without skips the
            webhook.
        failed: the name of the first condition that is false.
        errors: what refuses the request, one text for each condition that has no answer.
        questions: The questions that have to be answered before there is a verdict; nothing else counts then.
        results: name and ``true``, ``false``, ``error: ...`` or ``undecided`` of each condition evaluated.
    """

    matched: bool
    failed: str = ""
    errors: tuple[str, ...] = ()
    questions: frozenset[AccessQuestion] = frozenset()
    results: tuple[tuple[str, str], ...] = ()


class Answer(NamedTuple):
    """The outcome of one condition.

    Attributes:
        result: ``true``, ``false``, ``error: ...`` or ``undecided``.
        cost: Kubernetes' charge for it.
        used: Its part of the budget of the request.
        error: why it has no answer.
        questions: The questions that have to be answered before there is one.
        exhausted: whether it ended because it used all that it might.
    """

    result: str
    cost: int = 0
    used: int = 0
    error: str = ""
    questions: frozenset[AccessQuestion] = frozenset()
    exhausted: bool = False


class Budget:
    """The rest of the budget for the conditions of one request, in Kubernetes' units of cost.

    Attributes:
        limit: all of it.
        remaining: The rest.
        held: the units since other requests had a turn.
    """

    __slots__ = ("held", "limit", "remaining")

    def __init__(self, limit: int = MAX_COST_OF_REQUEST) -> None:
        """Begin with all of it."""
        self.limit: Final = limit
        self.remaining = limit
        self.held = 0

    def use(self, used: int) -> str:
        """Take from it; return why there is no verdict, if that was too much."""
        self.remaining -= min(used, self.remaining + 1)
        if self.remaining >= 0:
            return ""
        return (
            f"the match conditions of all webhooks together cost more than {self.limit}, which is the limit of one "
            "request (dispatch_cel_budget)"
        )


Judging = Generator[tuple[Condition, Limits], Answer, ConditionsVerdict]
"""Asks for the answer to one condition after the other, within limits, and returns the verdict."""


def judging(conditions: Sequence[Condition], *, fail_open: bool, budget: Budget) -> Judging:
    """Return what asks for the answers to conditions, and says whether a webhook with them is to be called.

    All conditions are evaluated, in their order. One that is false decides, whatever the others are; else one with an
    error does: with ``fail_open`` (``failurePolicy: Ignore``) the webhook is skipped, otherwise the request is refused.
    Conditions that are dearer together than a webhook may be are an error of the webhook, which even a false one does
    not outweigh. A request whose conditions are dearer than all may be is refused in any case: its author could switch
    off the webhooks that may fail by a large object.
    """
    answers: list[Answer] = []
    remaining = MAX_COST_OF_WEBHOOK
    for condition in conditions:
        if exceeded := budget.use(0):
            return _errors((exceeded,), _results(conditions, answers), fail_open=False)
        answer = yield condition, Limits(min(LIMITS.cost, remaining), LIMITS.work)
        remaining -= answer.cost
        if remaining < 0:
            return _errors((_OUT_OF_BUDGET,), _results(conditions, answers), fail_open=fail_open)
        if exceeded := budget.use(answer.used):
            return _errors((exceeded,), _results(conditions, answers), fail_open=False)
        answers.append(answer)
    return _verdict(conditions, answers, fail_open=fail_open)


def judge_conditions(
    conditions: Sequence[Condition], scope: Activation, *, fail_open: bool, budget: Budget | None = None
) -> ConditionsVerdict:
    """Return whether a webhook with these conditions is to be called, as `judging` decides."""
    steps = judging(conditions, fail_open=fail_open, budget=budget or Budget())
    try:
        condition, limits = next(steps)
        while True:
            condition, limits = steps.send(answer_condition(condition, scope, limits))
    except StopIteration as end:
        verdict: ConditionsVerdict = end.value
        return verdict


def _verdict(conditions: Sequence[Condition], answers: Sequence[Answer], *, fail_open: bool) -> ConditionsVerdict:
    results = _results(conditions, answers)
    for name, result in results:
        if result == "false":
            return ConditionsVerdict(matched=False, failed=name, results=results)
    questions = frozenset[AccessQuestion]().union(*(answer.questions for answer in answers))
    if questions:
        return ConditionsVerdict(matched=False, questions=questions, results=results)
    errors = tuple(answer.error for answer in answers if answer.error)
    if errors:
        return _errors(errors, results, fail_open=fail_open)
    return ConditionsVerdict(matched=True, results=results)


def _errors(errors: tuple[str, ...], results: tuple[tuple[str, str], ...], *, fail_open: bool) -> ConditionsVerdict:
    return ConditionsVerdict(matched=False, errors=() if fail_open else errors, results=results)


def _results(conditions: Sequence[Condition], answers: Sequence[Answer]) -> tuple[tuple[str, str], ...]:
    return tuple((condition.name, answer.result) for condition, answer in zip(conditions, answers, strict=False))


def answer_condition(
    condition: Condition,
    scope: Activation,
    limits: Limits = LIMITS,
    compiled: Callable[[str], Program] = compile_condition,
) -> Answer:
    """Return what one condition comes to.

    Args:
        condition: the condition.
        scope: the request.
        limits: The budget that it may use.
        compiled: returns the program of an expression; raises ExpressionError.
    """
    try:
        value, cost, used = compiled(condition.expression).measure(scope, limits)
    except PendingChecksError as undecided:
        return Answer("undecided", questions=undecided.questions)
    except ExpressionError as error:
        text = f"compilation error: {error}"
        return Answer(f"error: {text}", error=text)
    except EvaluationError as error:
        exhausted = isinstance(error, CostError)
        return Answer(f"error: {error}", error.cost, error.used, str(error), exhausted=exhausted)
    return Answer("true" if value else "false", cost, used)
