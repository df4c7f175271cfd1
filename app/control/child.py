"""A process of our own that answers questions one by one, for work that must not be done in this process.

Questions and answers are frames on its standard input and output: a length (4 bytes, big endian) and as many bytes. The
process starts with the first question and ends when its input ends.
"""

import contextlib
import logging
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import IO, Final

_log: Final = logging.getLogger(__name__)
_LENGTH: Final = 4
# Callers that wait for the parent come first where processors are few.
_NICENESS: Final = 5


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a message; raises OSError."""
    stream.write(len(content).to_bytes(_LENGTH, "big") + content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next message, None where the stream ends; raises OSError."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "big")
    content = stream.read(size)
    return content if len(head) == _LENGTH and len(content) == size else None


def answer_questions(answer: Callable[[bytes], bytes]) -> None:
    """Answer questions until standard input ends; this is the main function of such a process."""
    # Libraries may write to standard output, which belongs to the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    while (content := read_frame(sys.stdin.buffer)) is not None:
        write_frame(answers, answer(content))


class Child:
    """The parent's side of such a process; one question at a time."""

    def __init__(self, module: str) -> None:
        """Prepare; Python runs ``module`` (``-m``)."""
        self._module: Final = module
        self._running: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], Child] | None = None

    def ask(self, question: bytes) -> bytes | None:
        """Return the answer to a question, None if no process gives one or `stop` is called; blocks until then."""
        for _ in range(2):
            process = None
            try:
                process = self._started()
                assert process.stdin
                assert process.stdout
                write_frame(process.stdin, question)
                answer = read_frame(process.stdout)
            except OSError as error:
                _log.warning("the process %s cannot be used: %s", self._module, error)
                answer = None
            if answer is not None:
                return answer
            if self._running is not process:
                return None
            # It was ended from outside, for example because memory ran out: once more, with a new one.
            self.stop()
        return None

    def stop(self) -> None:
        """End the process, also from another thread; the next question starts another one."""
        self._running = None
        if self._end is not None:
            self._end()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._running is None:
            command = (sys.executable, "-m", self._module)
            self._running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours
            self._end = weakref.finalize(self, _end, self._running)
        return self._running


def _end(process: "subprocess.Popen[bytes]") -> None:
    # First, since a thread that reads or writes holds its stream, and closing waits for that thread.
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
