"""Ends a command with a message and an exit code: for invalid arguments, Ctrl-C, and failed writes to standard output.

Exit codes: 0 success; 1 the check failed; 2 invalid arguments or unreadable input. Those of ``fleethook crds`` are in
`fleethook.engines.crds.redaction_and_exit_codes`.
"""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fleethook.cli.output.text_output import write_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CHECK_FAILED: Final = 1
UNREADABLE: Final = 2
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as of a shell: 128 and the number of SIGINT."""


def fail(*messages: str, code: int = UNREADABLE) -> NoReturn:
    """Write each message as a line to standard error and exit with ``code``."""
    write_error(*(f"fleethook: {message}" for message in messages))
    raise SystemExit(code)


def exit_at_interrupt() -> None:
    """Let Ctrl-C end the process at once, unless the parent process has it ignored.

    A KeyboardInterrupt may arrive anywhere. An import may turn it into another error with a traceback, and a callback
    of the interpreter would lose it.
    """
    if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(signal.SIGINT, _exit_now)


def raise_at_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, for a command that handles it."""
    if signal.getsignal(signal.SIGINT) is _exit_now:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_now(*_: Any) -> NoReturn:
    os._exit(INTERRUPTED)


_STANDARD_OUTPUT: Final = 1
_BROKEN_PIPE: Final = 1
"""Exit code if the reader of standard output has closed the pipe."""


class OutputError(Exception):
    """A write to standard output failed.

    It is no subclass of OSError or ValueError, because commands catch those when they read files.
    """


@contextlib.contextmanager
def report_output_errors() -> Iterator[None]:
    """Exit with a message if a write to standard output fails within the block, or flushing it fails at the end.

    Like the programs of Kubernetes, commands write UTF-8 in each locale.
    """
    # The interpreter has no stream for a closed descriptor.
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        fail("cannot write to standard output: it is closed")
    raw = _Descriptor(_STANDARD_OUTPUT, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=sys.stdout.isatty()
    )
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (OutputError, BrokenPipeError) as error:
        # The interpreter would write the buffered output at exit, and print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
        if isinstance(error, OutputError):
            fail(str(error))
        sys.exit(_BROKEN_PIPE)


class _Descriptor(io.FileIO):
    """The file descriptor of standard output."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            written: int | None = super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"cannot write to standard output: {(error.strerror or 'I/O error').lower()}") from None
        if written is None:
            raise OutputError("cannot write to standard output: it is non-blocking, and its reader is too slow")
        return written
