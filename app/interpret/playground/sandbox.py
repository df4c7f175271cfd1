"""Starts a confined process for each question of the playground, and ends it at its limits."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final

import msgspec

import app
from app.interpret.playground.confinement import MAX_CPU_SECONDS
from app.interpret.playground.process import MODULE
from app.interpret.playground.question import PlaygroundAnswer, PlaygroundQuestion, refuse

MAX_AT_ONCE: Final = 2
"""Processes that run at the same time. Others wait."""
MAX_WAIT_SECONDS: Final = 20.0
"""The longest that a question waits for a process."""
MAX_SECONDS: Final = 30.0
"""Wall-clock time of a process with its start: longer than its CPU time, so that a busy machine rarely decides."""
MAX_QUESTION_BYTES: Final = 2 << 20
MAX_ANSWER_BYTES: Final = 4 << 20
"""The answer of a script of the server has at most as many bytes as its memory limit allows, usually a few KiB."""

# The child gets nothing but this directory, from which it imports this package.
_ROOT: Final = Path(app.__file__).parents[1]

# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_answer: Final = msgspec.json.Decoder(PlaygroundAnswer).decode


class Sandbox:
    """Answers questions, each in a process of its own. Any thread may call it."""

    def __init__(self, *, at_once: int = MAX_AT_ONCE, seconds: float = MAX_SECONDS) -> None:
        """Prepare.

        Args:
            at_once: The number of processes that run at the same time.
            seconds: Wall-clock time of each.
        """
        self._slots: Final = threading.BoundedSemaphore(at_once)
        self._seconds: Final = seconds

    def ask(self, question: PlaygroundQuestion, *, wait: float = MAX_WAIT_SECONDS) -> PlaygroundAnswer:
        """Return the answer of a script; blocks until then, at most ``wait`` seconds for a free process."""
        try:
            encoded = msgspec.msgpack.encode(question)
        except (OverflowError, ValueError, RecursionError) as error:
            return refuse("input", f"the objects cannot be sent to a script: {error}")
        if len(encoded) > MAX_QUESTION_BYTES:
            return refuse("input", f"script and objects have more than {MAX_QUESTION_BYTES >> 20} MiB: shorten them")
        if not self._slots.acquire(timeout=wait):
            return refuse("busy", "other scripts are running: try again in a few seconds")
        try:
            return _run(encoded, self._seconds)
        finally:
            self._slots.release()


def _run(question: bytes, seconds: float) -> PlaygroundAnswer:
    process = subprocess.Popen(  # noqa: S603 - a module of this package
        # -E, -s and -B: neither environment nor user directory, and no files for compiled code.
        (sys.executable, "-E", "-s", "-B", "-m", MODULE),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=_ROOT,
        env={},
        start_new_session=True,
    )
    late = threading.Event()

    def end_late() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, end_late)
    timer.start()
    try:
        assert process.stdin
        assert process.stdout
        answer = _exchange(process.stdin, process.stdout, question)
        if len(answer) <= MAX_ANSWER_BYTES:
            process.wait()
    finally:
        timer.cancel()
        process.kill()
        status = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
    if late.is_set():
        return refuse("limit", f"the script takes more than {seconds:g} s")
    return _decode(answer, status)


def _exchange(requests: IO[bytes], answers: IO[bytes], question: bytes) -> bytes:
    """Return the output of the process, up to one byte more than allowed."""
    try:
        requests.write(question)
        requests.close()
    except BrokenPipeError:
        return b""
    return answers.read(MAX_ANSWER_BYTES + 1)


def _decode(answer: bytes, status: int) -> PlaygroundAnswer:
    if len(answer) > MAX_ANSWER_BYTES:
        return refuse("limit", f"the result has more than {MAX_ANSWER_BYTES >> 20} MiB")
    if not answer and status in (-signal.SIGXCPU, -signal.SIGKILL):
        return refuse("limit", f"the script takes more than {MAX_CPU_SECONDS} s of CPU time")
    try:
        # Not trusted: a script in Python may have written the output itself.
        return _decode_answer(answer)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return refuse("script", f"the script ended the process (status {status}) or wrote to its output")
