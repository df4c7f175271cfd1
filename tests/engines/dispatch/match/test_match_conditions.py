"""matchConditions beyond the cases of tests/conformance/dispatch_conditions.yaml."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from fleethook.cel.program import Activation, Program
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError
from fleethook.engines.dispatch.match.match_conditions import (
    Budget,
    ConditionEvaluator,
    ConditionsVerdict,
    evaluate_conditions,
    is_short,
)
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import MatchCondition, compile_webhooks
from fleethook.work.threads_and_gc import Worker


def test_the_length_of_an_expression_includes_the_expansion_of_macros() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")


DEAR = "object.numbers.all(x, object.numbers.all(y, x + y >= 0))"


OVER_BUDGET = "the matchConditions of all webhooks cost more than 1000, the limit of one request"


def scope(numbers: int) -> Activation:
    return Activation(object_={"numbers": list(range(numbers))}, old_object=None, request={})


def evaluate(*expressions: str, numbers: int, limit: int = 10_000_000, policy: str = "Fail") -> ConditionsVerdict:
    conditions = [{"name": f"c{place}", "expression": one} for place, one in enumerate(expressions)]
    webhook = {"name": "w", "matchConditions": conditions, "failurePolicy": policy}
    (hook,) = compile_webhooks("validating", "ws2", {"metadata": {"name": "a"}, "webhooks": [webhook]})

    async def run() -> ConditionsVerdict:
        found = await ConditionEvaluator(Worker()).evaluate(
            hook, scope(numbers), cluster="ws3", budget=Budget(limit), deadline=Deadline(1.0, lambda: 0.0)
        )
        # The thread and the event loop give the same result.
        expected = evaluate_conditions(hook.conditions, scope(numbers), fail_open=hook.fails_open, budget=Budget(limit))
        assert found == expected
        return found

    return asyncio.run(run())


def test_conditions_above_the_budget_of_a_request_are_an_error() -> None:
    assert evaluate("object.numbers[0] == 0", DEAR, numbers=100, limit=1_000).errors == (OVER_BUDGET,)
    assert evaluate("object.numbers[0] == 0", DEAR, numbers=3, limit=1_000).matched


def test_exceeding_the_budget_does_not_skip_webhooks_with_ignore() -> None:
    verdict = evaluate(DEAR, "false", numbers=100, limit=1_000, policy="Ignore")

    assert (verdict.matched, verdict.errors) == (False, (OVER_BUDGET,))


def test_webhooks_of_one_request_share_a_budget() -> None:
    budget = Budget(1_000)
    conditions = [MatchCondition("dear", DEAR)]
    first, second = (evaluate_conditions(conditions, scope(9), fail_open=False, budget=budget) for _ in range(2))

    assert first.matched
    assert second.errors == (OVER_BUDGET,)


def test_a_long_expression_is_compiled_in_the_thread() -> None:
    assert evaluate(" && ".join(["object.numbers[0] == 0"] * 20), numbers=1).matched
    assert evaluate("x" * 400, numbers=1).errors[0].startswith("compilation error: ")


@pytest.mark.parametrize("checks", range(4))
def test_no_condition_is_evaluated_after_the_deadline(checks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each condition reads the clock when its turn comes, because it may have waited for the thread."""
    (hook,) = compile_webhooks("validating", "ws2", {"metadata": {"name": "a"}, "webhooks": [
        {"name": "w", "matchConditions": [{"name": f"c{place}", "expression": DEAR} for place in range(3)]}
    ]})  # fmt: skip
    times = iter([0.0] * checks + [2.0] * 9)
    threads: list[str] = []
    measure = Program.measure

    def count(program: Program, *arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return measure(program, *arguments)

    monkeypatch.setattr(Program, "measure", count)
    # The event loop leaves the conditions to the thread, so each time is read there.
    budget = Budget()
    budget.held = 10**6

    async def run() -> None:
        evaluator = ConditionEvaluator(Worker())
        deadline = Deadline(1.0, lambda: next(times))
        await evaluator.evaluate(hook, scope(100), cluster="ws3", budget=budget, deadline=deadline)

    with (
        pytest.raises(StatusError, match="did not complete within requested timeout")
        if checks < 3
        else contextlib.nullcontext()
    ):
        asyncio.run(run())
    assert [name != "MainThread" for name in threads] == [True] * min(checks, 3)


def test_many_cheap_conditions_of_one_request_leave_the_event_loop() -> None:
    budget, evaluator = Budget(), ConditionEvaluator(Worker())
    (hook,) = compile_webhooks("validating", "ws2", {"metadata": {"name": "a"}, "webhooks": [
        {"name": "w", "matchConditions": [{"name": "c", "expression": "object.numbers.all(x, x >= 0)"}]}
    ]})  # fmt: skip

    async def run() -> None:
        for _ in range(100):
            found = await evaluator.evaluate(
                hook, scope(100), cluster="ws3", budget=budget, deadline=Deadline(1.0, lambda: 0.0)
            )
            assert found.matched

    asyncio.run(run())
    assert budget.held < 10_000 < budget.limit - budget.remaining
