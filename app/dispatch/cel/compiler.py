"""Compiles expressions of any length without blocking the event loop."""

import logging
from typing import Final, NamedTuple

from app.control.child_process import ChildProcess
from app.control.worker import Worker
from app.dispatch.cel.check_process import BOOL, INVALID
from app.dispatch.cel.errors import ExpressionError
from app.dispatch.cel.program import Program, build_program, check_length, compile_condition, compute_expanded_length

_log: Final = logging.getLogger(__name__)
# Expressions up to this length compile on the event loop, in 1 to 2 ms and in 6 ms at worst.
_MAX_SHORT_LENGTH: Final = 500
_MODULE: Final = "app.dispatch.cel.check_process"


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
    """Compiles long expressions: a child process checks them, and a worker thread plans their code."""

    def __init__(self, worker: Worker) -> None:
        """Store the worker; the child process starts with the first long expression.

        Args:
            worker: Plans the code in a thread of this process.
        """
        self._worker: Final = worker
        self._waiter: Final = Worker()
        self._process: Final = ChildProcess(_MODULE)

    async def compile(self, expression: str, *, cluster: str) -> Compiled:
        """Compile an expression; clusters take turns."""
        try:
            check_length(expression)
            text = expression.encode()
        except ExpressionError as error:
            return Rejected(expression, error)
        except UnicodeEncodeError:
            return compile_here(expression)
        answer = await self._waiter.run(cluster, self._process.ask, text)
        if answer is None:
            _log.warning("no process to check match conditions: compiling one of %d bytes in the server", len(text))
            return await self._worker.run(cluster, compile_here, expression)
        return await self._worker.run(cluster, _finish, expression, answer)


def _finish(expression: str, answer: bytes) -> Compiled:
    kind, content = answer[:1], answer[1:]
    if kind == INVALID:
        return Rejected(expression, ExpressionError(content.decode()))
    try:
        return build_program(expression, is_bool=kind == BOOL, checked=content)
    except ExpressionError as error:
        return Rejected(expression, error)
