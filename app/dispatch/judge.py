"""Conditions of one request after the other, without holding up other requests.

Each condition is first evaluated here, within a small limit of what is counted. Few need more; those are evaluated
again, in a thread and with all that they may use. Counts decide where, never a clock, and both give the same answer.
"""

from collections.abc import Callable
from typing import Final

from app.control.turns import Turns
from app.control.worker import Worker
from app.dispatch.cel import Activation, ExpressionError, Program
from app.dispatch.cel.cache import ProgramCache
from app.dispatch.cel.compiler import Compiled, Compiler, Rejected, compile_here, is_short
from app.dispatch.cel.program import Limits
from app.dispatch.conditions import Answer, Budget, Condition, ConditionsVerdict, answer_condition, judging
from app.dispatch.hooks import Hook
from app.store.garbage import Lasting

# About 1 ms: a unit of cost takes some 0.5 us here. All but loops over large objects cost less.
_INLINE: Final = Limits(cost=2_000, work=4_000)
# Units of cost after which other requests get a turn: about 3 ms.
_SLICE: Final = 6_000
# To compile a condition takes as long as these many units, and more for each character.
_COMPILING: Final = 1_000
_COMPILING_CHARACTER: Final = 10
# To evaluate any condition takes at least as long.
_EVALUATING: Final = 100


# Containers of a node of a program.
_CONTAINERS_PER_NODE: Final = 10


class Judge:
    """Decides about conditions for all requests of a dispatcher."""

    def __init__(self, *, max_cost: int, worker: Worker, turns: Turns, compiler: Compiler) -> None:
        """Prepare.

        Args:
            max_cost: The most that the conditions of one request may cost together.
            worker: runs functions that take long.
            turns: Requests take one after a slice of conditions.
            compiler: compiles long conditions.
        """
        self.max_cost: Final = max_cost
        self._cache: Final = ProgramCache()
        self._lasting: Final = Lasting()
        self._worker: Final = worker
        self._compiler: Final = compiler
        self._turns: Final = turns

    async def judge(self, hook: Hook, scope: Activation, *, cluster: str, budget: Budget) -> ConditionsVerdict:
        """Return whether a webhook is to be called.

        Args:
            hook: the webhook.
            scope: the request as the webhook gets it.
            cluster: the cluster of the request, for turns in the thread.
            budget: The rest of the request's budget for conditions.
        """
        steps = judging(hook.conditions, fail_open=hook.fails_open, budget=budget)
        try:
            condition, limits = next(steps)
            while True:
                answer, work = await self._answer(hook, condition, scope, limits, cluster)
                budget.held += work
                if budget.held > _SLICE:
                    budget.held = 0
                    await self._turns.pause(cluster)
                condition, limits = steps.send(answer)
        except StopIteration as end:
            verdict: ConditionsVerdict = end.value
            return verdict

    async def _answer(
        self, hook: Hook, condition: Condition, scope: Activation, limits: Limits, cluster: str
    ) -> tuple[Answer, int]:
        """Return the answer to a condition, and for how long it held the event loop in units of cost."""
        program, compiling = await self._program(hook.cluster, condition.expression, cluster)
        if isinstance(program, Rejected):
            return answer_condition(condition, scope, limits, _raising(program.error)), compiling

        def compiled(_expression: str) -> Program:
            return program

        inline = Limits(min(limits.cost, _INLINE.cost), min(limits.work, _INLINE.work))
        answer = answer_condition(condition, scope, inline, compiled)
        work = compiling + _EVALUATING + answer.used
        if inline == limits or not answer.exhausted:
            return answer, work
        return await self._worker.run(cluster, answer_condition, condition, scope, limits, compiled), work

    async def _program(self, owner: str, expression: str, cluster: str) -> tuple[Compiled, int]:
        found = self._cache.get(owner, expression)
        if found is not None:
            return found, 0
        if is_short(expression):
            compiled = compile_here(expression)
            work = _COMPILING + _COMPILING_CHARACTER * len(expression)
        else:
            compiled, work = await self._compiler.compile(expression, cluster=cluster), 0
        self._cache.put(owner, compiled)
        self._lasting.add(_CONTAINERS_PER_NODE * compiled.size)
        return compiled, work


def _raising(error: ExpressionError) -> Callable[[str], Program]:
    def compiled(_expression: str) -> Program:
        raise error

    return compiled
