"""Compiling expressions without holding up the event loop, however long they are."""

import logging
import subprocess
import sys
import weakref
from typing import Final, NamedTuple

from app.control.worker import Worker
from app.dispatch.cel.compiling import BOOL, WRONG, read_frame, write_frame
from app.dispatch.cel.errors import ExpressionError
from app.dispatch.cel.program import Program, check_length, compile_condition, expanded_length, program_of

_log: Final = logging.getLogger(__name__)
# Characters of an expression that is compiled on the event loop: 1 to 2 ms, 6 ms for the worst.
_SHORT: Final = 500
_COMMAND: Final = (sys.executable, "-m", "app.dispatch.cel.compiling")


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
    return expanded_length(expression) <= _SHORT


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
        self._process: Final = _Process()

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
            return await self._worker.run(cluster, compile_here, expression)
        return await self._worker.run(cluster, _finish, expression, answer)


def _finish(expression: str, answer: bytes) -> Compiled:
    kind, content = answer[:1], answer[1:]
    if kind == WRONG:
        return Rejected(expression, ExpressionError(content.decode()))
    try:
        return program_of(expression, is_bool=kind == BOOL, checked=content)
    except ExpressionError as error:
        return Rejected(expression, error)


class _Process:
    """The process that checks expressions, started when it is needed."""

    def __init__(self) -> None:
        self._running: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], _Process] | None = None

    def ask(self, expression: bytes) -> bytes | None:
        """Return the answer to an expression, None if no process gives one; blocks until then."""
        for _ in range(2):
            try:
                process = self._started()
                assert process.stdin
                assert process.stdout
                write_frame(process.stdin, expression)
                answer = read_frame(process.stdout)
            except OSError as error:
                _log.warning("the process that compiles match conditions cannot be used: %s", error)
                answer = None
            if answer is not None:
                return answer
            # It was ended from outside, for example because memory ran out: once more, with a new one.
            self._stop()
        _log.warning("a match condition of %d bytes is compiled in the server itself", len(expression))
        return None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._running is None:
            self._running = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours
            self._end = weakref.finalize(self, _end, self._running)
        return self._running

    def _stop(self) -> None:
        self._running = None
        if self._end is not None:
            self._end()


def _end(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
    process.kill()
    process.wait()
