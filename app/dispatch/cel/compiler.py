"""Compiling expressions without holding up the event loop, however long they are."""

import logging
from typing import Final, NamedTuple

from app.control.child import Child
from app.control.worker import Worker
from app.dispatch.cel.check_process import BOOL, INVALID
from app.dispatch.cel.errors import ExpressionError
from app.dispatch.cel.program import Program, build_program, check_length, compile_condition, compute_expanded_length

_log: Final = logging.getLogger(__name__)
# Characters of an expression that is compiled on the event loop: 1 to 2 ms, 6 ms for the worst.
_MAX_SHORT_LENGTH: Final = 500
_MODULE: Final = "app.dispatch.cel.check_process"


class Rejected(NamedTuple):
    """An expression that is no condition, and why."""

    expression: str
    error: ExpressionError

    @property
    def size(self) -> int:
        """Its weight in a cache, as `Program.size`."""
        return 1 + len(self.expression) // 500


Compiled = Program | Rejected


def is_short(expression: str) -> bool:
    """Return whether compiling an expression takes about 1 ms at most."""
    return compute_expanded_length(expression) <= _MAX_SHORT_LENGTH


def compile_here(expression: str) -> Compiled:
    """Compile an expression in this thread."""
    try:
        return compile_condition(expression)
    except ExpressionError as error:
        return Rejected(expression, error)


class Compiler:
    """Compiles long expressions: a process checks them, and a thread makes code of them."""

    def __init__(self, worker: Worker) -> None:
        """Prepare; the process starts with the first long expression.

        Args:
            worker: Runs the part that is done in this process.
        """
        self._worker: Final = worker
        self._waiter: Final = Worker()
        self._process: Final = Child(_MODULE)

    async def compile(self, expression: str, *, cluster: str) -> Compiled:
        """Return the program of an expression; clusters take turns."""
        try:
            check_length(expression)
            text = expression.encode()
        except ExpressionError as error:
            return Rejected(expression, error)
        except UnicodeEncodeError:
            return compile_here(expression)
        answer = await self._waiter.run(cluster, self._process.ask, text)
        if answer is None:
            _log.warning("a match condition of %d bytes is compiled in the server itself", len(text))
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
