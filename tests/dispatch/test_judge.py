"""Conditions of whole requests: their budget, and where they are evaluated."""

import asyncio

from app.control.turns import Turns
from app.control.worker import Worker
from app.dispatch.cel import Activation
from app.dispatch.cel.compiler import Compiler
from app.dispatch.conditions import Budget, Condition, ConditionsVerdict, judge_conditions
from app.dispatch.hooks import compile_hooks
from app.dispatch.judge import Judge

DEAR = "object.numbers.all(x, object.numbers.all(y, x + y >= 0))"
OVER_BUDGET = (
    "the match conditions of all webhooks together cost more than 1000, which is the limit of one request "
    "(dispatch_cel_budget)"
)


def scope(numbers: int) -> Activation:
    return Activation(object_={"numbers": list(range(numbers))}, old_object=None, request={})


def judge(*expressions: str, numbers: int, limit: int = 10_000_000, policy: str = "Fail") -> ConditionsVerdict:
    conditions = [{"name": f"c{place}", "expression": one} for place, one in enumerate(expressions)]
    webhook = {"name": "w", "matchConditions": conditions, "failurePolicy": policy}
    (hook,) = compile_hooks("validating", "ws2", {"metadata": {"name": "a"}, "webhooks": [webhook]})

    async def run() -> ConditionsVerdict:
        worker = Worker()
        found = await Judge(max_cost=limit, worker=worker, turns=Turns(), compiler=Compiler(worker)).judge(
            hook, scope(numbers), cluster="ws3", budget=Budget(limit)
        )
        # The thread gives the answer that there is without it.
        expected = judge_conditions(hook.conditions, scope(numbers), fail_open=hook.fails_open, budget=Budget(limit))
        assert found == expected
        return found

    return asyncio.run(run())


def test_a_condition_that_takes_long_has_the_answer_of_one_that_does_not() -> None:
    assert judge(DEAR, numbers=3).matched
    assert judge(DEAR, numbers=100).matched


def test_a_condition_that_is_too_dear_is_an_error() -> None:
    (error,) = judge(DEAR, "true", numbers=1_000).errors

    assert error.endswith("operation cancelled: actual cost limit exceeded")


def test_conditions_that_are_too_dear_for_a_request_are_an_error() -> None:
    assert judge("object.numbers[0] == 0", DEAR, numbers=100, limit=1_000).errors == (OVER_BUDGET,)
    assert judge("object.numbers[0] == 0", DEAR, numbers=3, limit=1_000).matched


def test_conditions_that_are_too_dear_for_a_request_switch_off_no_webhook_whose_failures_are_ignored() -> None:
    verdict = judge(DEAR, "false", numbers=100, limit=1_000, policy="Ignore")

    assert (verdict.matched, verdict.errors) == (False, (OVER_BUDGET,))


def test_webhooks_of_one_request_share_its_budget() -> None:
    budget = Budget(1_000)
    conditions = [Condition("dear", DEAR)]
    first, second = (judge_conditions(conditions, scope(9), fail_open=False, budget=budget) for _ in range(2))

    assert first.matched
    assert second.errors == (OVER_BUDGET,)


def test_a_long_expression_is_compiled_in_the_thread() -> None:
    assert judge(" && ".join(["object.numbers[0] == 0"] * 20), numbers=1).matched
    assert judge("x" * 400, numbers=1).errors[0].startswith("compilation error: ")
