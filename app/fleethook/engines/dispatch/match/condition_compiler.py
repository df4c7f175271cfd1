"""Compiles expressions of any length without blocking the event loop."""

from typing import Final, NamedTuple

from fleethook.cel.evaluation import ExpressionError
from fleethook.cel.program import Program, compile_condition, compute_expanded_length
from fleethook.work.worker import Worker

# Expressions up to this length compile on the event loop, in 1 to 2 ms and in 6 ms at worst.
_MAX_SHORT_LENGTH: Final = 500


class Rejected(NamedTuple):
    """An expression that does not compile to a condition, and its error."""

    expression: str
    error: ExpressionError

    @property
    def size(self) -> int:
        """Its size in a cache, in the unit of `Program.size`."""
        return 1 + len(self.expression) // 500


Compiled = Program | Rejected


def is_short(expression: str) -> bool:
    """Return whether an expression is short enough to compile on the event loop."""
    return compute_expanded_length(expression) <= _MAX_SHORT_LENGTH


def compile_here(expression: str) -> Compiled:
    """Compile an expression in the current thread."""
    try:
        return compile_condition(expression)
    except ExpressionError as error:
        return Rejected(expression, error)


class Compiler:
    """Compiles long expressions in a thread; clusters take turns."""

    def __init__(self, worker: Worker) -> None:
        """Store the worker, which has the thread."""
        self._worker: Final = worker

    async def compile(self, expression: str, *, cluster: str) -> Compiled:
        """Compile an expression."""
        return await self._worker.run(cluster, compile_here, expression)
