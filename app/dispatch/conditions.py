"""Whether a request meets a webhook's ``matchConditions`` (upstream: pkg/admission/plugin/webhook/matchconditions)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from app.dispatch.cel import (
    AccessQuestion,
    EvaluationError,
    ExpressionError,
    Scope,
    UndecidedError,
    compile_condition,
)
from app.dispatch.cel.run import COST_OF_ALL

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
        questions: what has to be asked before there is a verdict; nothing else counts then.
        results: name and ``true``, ``false``, ``error: ...`` or ``undecided`` of each condition evaluated.
    """

    matched: bool
    failed: str = ""
    errors: tuple[str, ...] = ()
    questions: frozenset[AccessQuestion] = frozenset()
    results: tuple[tuple[str, str], ...] = ()


class _Answer(NamedTuple):
    result: str
    cost: int = 0
    error: str = ""
    questions: frozenset[AccessQuestion] = frozenset()


def judge_conditions(conditions: Sequence[Condition], scope: Scope, *, fail_open: bool) -> ConditionsVerdict:
    """Return whether a webhook with these conditions is to be called.

    All conditions are evaluated, in their order. One that is false decides, whatever the others are; else one with an
    error does: with ``fail_open`` (``failurePolicy: Ignore``) the webhook is skipped, otherwise the request is refused.
    Conditions that are dearer together than a webhook may be are an error of the webhook, which even a false one does
    not outweigh.
    """
    answers: list[_Answer] = []
    remaining = COST_OF_ALL
    for condition in conditions:
        answer = _answer(condition, scope)
        remaining -= answer.cost
        if remaining < 0:
            return _errors((_OUT_OF_BUDGET,), _results(conditions, answers), fail_open=fail_open)
        answers.append(answer)
    return _verdict(conditions, answers, fail_open=fail_open)


def _verdict(conditions: Sequence[Condition], answers: Sequence[_Answer], *, fail_open: bool) -> ConditionsVerdict:
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


def _results(conditions: Sequence[Condition], answers: Sequence[_Answer]) -> tuple[tuple[str, str], ...]:
    return tuple((condition.name, answer.result) for condition, answer in zip(conditions, answers, strict=False))


def _answer(condition: Condition, scope: Scope) -> _Answer:
    try:
        value, cost = compile_condition(condition.expression).measure(scope)
    except UndecidedError as undecided:
        return _Answer("undecided", questions=undecided.questions)
    except ExpressionError as error:
        return _failure(f"compilation error: {error}")
    except EvaluationError as error:
        return _failure(str(error), error.cost)
    return _Answer("true" if value else "false", cost)


def _failure(text: str, cost: int = 0) -> _Answer:
    return _Answer(f"error: {text}", cost, text)
