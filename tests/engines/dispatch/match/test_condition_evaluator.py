"""matchConditions have a budget for each request, and long ones are evaluated in a thread."""

import asyncio
import threading

import pytest

from fleethook.cel import Activation
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.dispatch_errors import StatusError
from fleethook.engines.dispatch.hooks.hooks import compile_hooks
from fleethook.engines.dispatch.match.condition_evaluator import ConditionEvaluator
from fleethook.engines.dispatch.match.match_conditions import (
    Budget,
    Compiler,
    Condition,
    ConditionsVerdict,
    evaluate_condition,
    evaluate_conditions,
)
from fleethook.work.turns import Turns, Worker

DEAR = "object.numbers.all(x, object.numbers.all(y, x + y >= 0))"
OVER_BUDGET = (
    "the matchConditions of all webhooks cost more than 1000, the limit of one request (setting dispatch_cel_budget)"
)


def scope(numbers: int) -> Activation:
    return Activation(object_={"numbers": list(range(numbers))}, old_object=None, request={})


def evaluate(*expressions: str, numbers: int, limit: int = 10_000_000, policy: str = "Fail") -> ConditionsVerdict:
    conditions = [{"name": f"c{place}", "expression": one} for place, one in enumerate(expressions)]
    webhook = {"name": "w", "matchConditions": conditions, "failurePolicy": policy}
    (hook,) = compile_hooks("validating", "ws2", {"metadata": {"name": "a"}, "webhooks": [webhook]})

    async def run() -> ConditionsVerdict:
        worker = Worker()
        found = await ConditionEvaluator(
            max_cost=limit, worker=worker, turns=Turns(), compiler=Compiler(worker)
        ).evaluate(hook, scope(numbers), cluster="ws3", budget=Budget(limit), deadline=Deadline(1.0, lambda: 0.0))
        # The thread and the event loop give the same result.
        expected = evaluate_conditions(hook.conditions, scope(numbers), fail_open=hook.fails_open, budget=Budget(limit))
        assert found == expected
        return found

    return asyncio.run(run())


def test_the_thread_gives_the_same_result_as_the_event_loop() -> None:
    assert evaluate(DEAR, numbers=3).matched
    assert evaluate(DEAR, numbers=100).matched


def test_a_condition_above_its_cost_limit_is_an_error() -> None:
    (error,) = evaluate(DEAR, "true", numbers=1_000).errors

    assert error.endswith("operation cancelled: actual cost limit exceeded")


def test_conditions_above_the_budget_of_a_request_are_an_error() -> None:
    assert evaluate("object.numbers[0] == 0", DEAR, numbers=100, limit=1_000).errors == (OVER_BUDGET,)
    assert evaluate("object.numbers[0] == 0", DEAR, numbers=3, limit=1_000).matched


def test_exceeding_the_budget_does_not_skip_webhooks_with_ignore() -> None:
    verdict = evaluate(DEAR, "false", numbers=100, limit=1_000, policy="Ignore")

    assert (verdict.matched, verdict.errors) == (False, (OVER_BUDGET,))


def test_webhooks_of_one_request_share_a_budget() -> None:
    budget = Budget(1_000)
    conditions = [Condition("dear", DEAR)]
    first, second = (evaluate_conditions(conditions, scope(9), fail_open=False, budget=budget) for _ in range(2))

    assert first.matched
    assert second.errors == (OVER_BUDGET,)


def test_a_long_expression_is_compiled_in_the_thread() -> None:
    assert evaluate(" && ".join(["object.numbers[0] == 0"] * 20), numbers=1).matched
    assert evaluate("x" * 400, numbers=1).errors[0].startswith("compilation error: ")


@pytest.mark.parametrize(("checks", "evaluated"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
def test_no_condition_is_evaluated_after_the_deadline(
    checks: int, evaluated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each condition reads the clock when its turn comes, and once more in the thread, where it may have waited."""
    (hook,) = compile_hooks("validating", "ws2", {"metadata": {"name": "a"}, "webhooks": [
        {"name": "w", "matchConditions": [{"name": f"c{place}", "expression": DEAR} for place in range(3)]}
    ]})  # fmt: skip
    times = iter([0.0] * checks + [2.0] * 9)
    threads: list[str] = []
    monkeypatch.setattr(
        "fleethook.engines.dispatch.match.condition_evaluator.evaluate_condition",
        lambda *arguments: threads.append(threading.current_thread().name) or evaluate_condition(*arguments),
    )

    async def run() -> None:
        worker = Worker()
        evaluator = ConditionEvaluator(max_cost=10**7, worker=worker, turns=Turns(), compiler=Compiler(worker))
        deadline = Deadline(1.0, lambda: next(times))
        await evaluator.evaluate(hook, scope(100), cluster="ws3", budget=Budget(), deadline=deadline)

    with pytest.raises(StatusError, match="did not complete within requested timeout"):
        asyncio.run(run())
    assert sum(name != "MainThread" for name in threads) == evaluated
