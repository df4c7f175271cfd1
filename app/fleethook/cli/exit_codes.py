"""Ending a command with a message and an exit code.

Exit codes: 0 success; 1 the check failed; 2 invalid arguments or unreadable input. Those of ``fleethook crds`` are in
`fleethook.engines.crds.crds_errors`.
"""

import os
import signal
from typing import Any, Final, NoReturn

from fleethook.cli.output.terminal import write_error

CHECK_FAILED: Final = 1
UNREADABLE: Final = 2
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as of a shell: 128 and the number of SIGINT."""


def fail(*messages: str, code: int = UNREADABLE) -> NoReturn:
    """Write each message as a line to standard error and exit with ``code``."""
    write_error(*(f"fleethook: {one}" for one in messages))
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
