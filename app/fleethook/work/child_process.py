"""A child process that handles requests one by one, for work that must not run in the parent process.

Requests and responses are frames on standard input and output: a length (4 bytes, big endian) and that many bytes. The
process starts with the first request and exits at the end of its input.
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
# On few processors, the parent, which serves callers, has priority.
_NICENESS: Final = 5


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a frame; raises OSError."""
    stream.write(len(content).to_bytes(_LENGTH, "big") + content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame, None at the end of the stream; raises OSError."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "big")
    content = stream.read(size)
    return content if len(head) == _LENGTH and len(content) == size else None


def answer_questions(answer: Callable[[bytes], bytes]) -> None:
    """Handle requests until standard input ends; the main function of a child process."""
    # Standard output carries the responses, so output of libraries goes to standard error.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    while (content := read_frame(sys.stdin.buffer)) is not None:
        write_frame(answers, answer(content))


class ChildProcess:
    """The parent's side of a child process; one request at a time."""

    def __init__(self, module: str) -> None:
        """Prepare to run ``python -m module``."""
        self._module: Final = module
        self._running: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], ChildProcess] | None = None

    def ask(self, question: bytes) -> bytes | None:
        """Return the response to a request, None if the process fails or `stop` is called; blocks until then."""
        for _ in range(2):
            process = None
            try:
                process = self._ensure_running()
                assert process.stdin
                assert process.stdout
                write_frame(process.stdin, question)
                answer = read_frame(process.stdout)
            except OSError as error:
                _log.warning("child process %s failed: %s", self._module, error)
                answer = None
            if answer is not None:
                return answer
            if self._running is not process:
                return None
            # The system ended the process, for example for lack of memory. A new process tries once more.
            self.stop()
        return None

    def stop(self) -> None:
        """Kill the process; any thread may call this. The next request starts a new process."""
        self._running = None
        if self._end is not None:
            self._end()

    def _ensure_running(self) -> "subprocess.Popen[bytes]":
        if self._running is None:
            command = (sys.executable, "-m", self._module)
            self._running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - a module of this package
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
