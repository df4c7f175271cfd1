"""The child process that verifies and reads tarballs: ``python -m fleethook.engines.crds.controller.verifier_process``.

Requests and responses are frames on standard input and output: a length (4 bytes, big endian) and that many bytes. The
process starts with the first request and exits at the end of its input. A fork of it with limits on memory and CPU time
verifies each tarball, so that one tarball leaves no trace for the next. The process itself only reads questions.
"""

import contextlib
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import IO, Final, NoReturn

import msgspec

from fleethook.engines.crds.apply.crd_patches import build_patches, render_crds
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_content import LIMITS, ArchiveLimits
from fleethook.engines.crds.archive.unpacked_tree import Manifest
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSON

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


MODULE: Final = "fleethook.engines.crds.controller.verifier_process"
MAX_MEMORY_BYTES: Final = 512 * 1024 * 1024
"""RLIMIT_DATA. The interpreter with its libraries takes 40 MiB, the largest tarball 16 MiB, its largest file 8 MiB, and
parsing 8 MiB of YAML about 250 MiB."""
_MAX_FILES: Final = 4096
"""Descriptors that a fork closes; the process has a handful."""
_WORK: Final = ("unpacked_bytes", "file_bytes", "yaml_bytes", "yaml_nodes")
MAX_CPU_SECONDS: Final = 120
"""A guard against defects.

The limits of `fleethook.engines.crds.archive.crd_content` are counts and end any tarball within seconds, so
that a verdict does not depend on the machine."""


class Question(msgspec.Struct, frozen=True):
    """A tarball to verify or read, with the options."""

    tarball: bytes
    strict: bool
    normalize_dot: bool
    scale: int
    """The limits are divided by this."""
    values: dict[str, str] | None = None
    """None to verify the tarball. Else it has been verified before: read its CRDs, and its patches with these
    values."""


class Answer(msgspec.Struct, frozen=True):
    """The manifest of a tarball, its content, or the error."""

    manifest: Manifest | None = None
    crds: dict[str, bytes] = {}
    """CRDs by name, each as JSON."""
    patches: bytes = b""
    """The patches as JSON."""
    exit: int = Exit.OK
    text: str = ""

    def check(self) -> None:
        """Raise the error of the process as CRDsError, if there is one."""
        if self.exit != Exit.OK:
            raise CRDsError(Exit(self.exit), self.text)


def scale_limits(scale: int) -> ArchiveLimits:
    """Return the limits; those on the work for a tarball are divided by ``scale``."""
    return LIMITS._replace(**{name: getattr(LIMITS, name) // scale for name in _WORK})


def answer_question(message: bytes) -> bytes:
    """Answer a question in a fork of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer_and_exit(message, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        found = stream.read()
    _, status = os.waitpid(child, 0)
    return found if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0 else _encode(_explain_death(status))


def process_question(message: bytes) -> Answer:
    """Verify or read the tarball of a question in this process."""
    question = msgspec.msgpack.decode(message, type=Question)
    limits, strict, normalize_dot = scale_limits(question.scale), question.strict, question.normalize_dot
    try:
        if question.values is not None:
            return _read(question, question.values, limits)
        return Answer(archive.verify(question.tarball, limits=limits, strict=strict, normalize_dot=normalize_dot))
    except CRDsError as error:
        return Answer(exit=error.exit, text=str(error))
    except MemoryError:
        return _make_limit_answer(f"verifying the tarball takes more than {MAX_MEMORY_BYTES // 2**20} MiB of memory")


def _read(question: Question, values: dict[str, str], limits: ArchiveLimits) -> Answer:
    _, tree = archive.read_tree(question.tarball, limits=limits, normalize_dot=question.normalize_dot)
    patches = build_patches(tree, values, limits)
    render_crds(tree.crds, patches)
    # Not by msgspec: a schema may have integers of more than 64 bits.
    return Answer(crds={name: _encode_json(crd) for name, crd in tree.crds.items()}, patches=_encode_json(patches))


def _encode_json(value: JSON) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _answer_and_exit(message: bytes, writing: int) -> NoReturn:
    try:
        # Only the parent may hold its output: `ChildProcess.stop` waits until the end of the parent closes it.
        os.closerange(0, sys.stderr.fileno())
        os.closerange(sys.stderr.fileno() + 1, writing)
        os.closerange(writing + 1, _MAX_FILES)
        _set_limits()
        with os.fdopen(writing, "wb") as stream:
            stream.write(_encode(process_question(message)))
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - see below
        # The limit of file sizes refuses this if standard error is a file.
        with contextlib.suppress(OSError):
            sys.stderr.write(f"verifying a tarball failed: {error!a}\n")
    finally:
        # A fork must not continue with its parent's code.
        os._exit(1)


def _set_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The fork writes no files: the tarball is in memory, and the answer goes to a pipe.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _explain_death(status: int) -> Answer:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return _make_limit_answer(
            f"verifying the tarball takes more than {MAX_CPU_SECONDS} s of CPU time or more than the available memory"
        )
    return Answer(exit=Exit.INTERNAL, text=f"the process that verifies the tarball ended with status {status}")


def _make_limit_answer(text: str) -> Answer:
    return Answer(exit=Exit.LIMIT, text=text)


def _encode(found: Answer) -> bytes:
    return msgspec.msgpack.encode(found)


if __name__ == "__main__":
    answer_questions(answer_question)
