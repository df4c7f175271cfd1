"""Evaluates matchConditions without blocking the event loop.

Each condition is first evaluated on the event loop, within a small limit. The few conditions that need more are
evaluated again in a thread, with their full limits. Counts select the thread, never a clock. Both ways give the same
result. Compiled conditions are cached; each cluster has a fair share of the memory.
"""

from collections.abc import Callable
from typing import Final

from fleethook.cel import Activation, ExpressionError, Program
from fleethook.cel.program import INLINE_LIMITS, EvaluationLimits
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.hooks.hooks import Hook
from fleethook.engines.dispatch.match.match_conditions import (
    Budget,
    Compiled,
    Compiler,
    Condition,
    ConditionResult,
    ConditionsVerdict,
    Rejected,
    compile_here,
    evaluate_condition,
    evaluate_in_order,
    is_short,
)
from fleethook.fairness.cache import SizedCache
from fleethook.work.garbage import GCFreezer
from fleethook.work.turns import Turns, Worker

# The code of a node takes about 500 bytes, so this is 50 MiB: ten thousand conditions of ten nodes.
MAX_NODES: Final = 100_000

# Units of cost after which other requests get a turn: about 3 ms.
_SLICE: Final = 6_000
# Compiling a condition takes as long as this many units of cost, plus the units for each character.
_COMPILING: Final = 1_000
_COMPILING_CHARACTER: Final = 10
# The minimum duration of an evaluation, in units of cost.
_EVALUATING: Final = 100
# The containers in memory for each node of a program.
_CONTAINERS_PER_NODE: Final = 10


class ConditionEvaluator:
    """Evaluates the matchConditions of all requests of a dispatcher."""

    def __init__(self, *, max_cost: int, worker: Worker, turns: Turns, compiler: Compiler) -> None:
        """Initialize the evaluator.

        Args:
            max_cost: The maximum cost of all conditions of one request.
            worker: Runs long functions in a thread.
            turns: Gives other requests a turn after a slice of conditions.
            compiler: Compiles long conditions.
        """
        self.max_cost: Final = max_cost
        self._cache: Final[SizedCache[Compiled]] = SizedCache(MAX_NODES)
        self._lasting: Final = GCFreezer()
        self._worker: Final = worker
        self._compiler: Final = compiler
        self._turns: Final = turns

    async def evaluate(
        self, hook: Hook, scope: Activation, *, cluster: str, budget: Budget, deadline: Deadline
    ) -> ConditionsVerdict:
        """Evaluate the matchConditions of a webhook.

        Args:
            hook: The webhook.
            scope: The variables of the request.
            cluster: The cluster of the request, for fair scheduling in the thread.
            budget: The remaining budget of the request.
            deadline: The deadline of the request. Its caller waits no longer, so the rest is not evaluated.

        Raises:
            StatusError: The deadline has passed.
        """
        steps = evaluate_in_order(hook.conditions, fail_open=hook.fails_open, budget=budget)
        try:
            condition, limits = next(steps)
            while True:
                deadline.require_time()
                result, work = await self._evaluate(hook, condition, scope, limits, cluster, deadline)
                budget.held += work
                if budget.held > _SLICE:
                    budget.held = 0
                    await self._turns.pause(cluster)
                condition, limits = steps.send(result)
        except StopIteration as end:
            verdict: ConditionsVerdict = end.value
            return verdict

    async def _evaluate(
        self,
        hook: Hook,
        condition: Condition,
        scope: Activation,
        limits: EvaluationLimits,
        cluster: str,
        deadline: Deadline,
    ) -> tuple[ConditionResult, int]:
        """Evaluate a condition; return its result and the time on the event loop, in units of cost."""
        program, compiling = await self._find_program(hook.cluster, condition.expression, cluster)
        if isinstance(program, Rejected):
            return evaluate_condition(condition, scope, limits, _raise_error(program.error)), compiling

        def get_program(_expression: str) -> Program:
            return program

        inline = EvaluationLimits(min(limits.cost, INLINE_LIMITS.cost), min(limits.work, INLINE_LIMITS.work))
        result = evaluate_condition(condition, scope, inline, get_program)
        work = compiling + _EVALUATING + result.used
        if inline == limits or not result.exhausted:
            return result, work

        def evaluate_in_time() -> ConditionResult:
            # The evaluation may have waited for those of other requests.
            deadline.require_time()
            return evaluate_condition(condition, scope, limits, get_program)

        return await self._worker.run(cluster, evaluate_in_time), work

    async def _find_program(self, owner: str, expression: str, cluster: str) -> tuple[Compiled, int]:
        found = self._cache.get(owner, expression)
        if found is not None:
            return found, 0
        if is_short(expression):
            compiled = compile_here(expression)
            work = _COMPILING + _COMPILING_CHARACTER * len(expression)
        else:
            compiled, work = await self._compiler.compile(expression, cluster=cluster), 0
        self._cache.put(owner, expression, compiled)
        self._lasting.add(_CONTAINERS_PER_NODE * compiled.size)
        return compiled, work


def _raise_error(error: ExpressionError) -> Callable[[str], Program]:
    def get_program(_expression: str) -> Program:
        raise error

    return get_program
