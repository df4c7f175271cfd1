"""Ending a command with a message and an exit code.

Exit codes: 0 success; 1 the check failed; 2 invalid arguments or unreadable input. Those of ``fleethook crds`` are in
`app.crds.failures`.
"""

from typing import Final, NoReturn

from app.cli.terminal import write_error

CHECK_FAILED: Final = 1
UNREADABLE: Final = 2
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as of a shell: 128 and the number of SIGINT."""


def fail(*messages: str, code: int = UNREADABLE) -> NoReturn:
    """Write each message as a line to standard error and exit with ``code``."""
    write_error(*(f"fleethook: {one}" for one in messages))
    raise SystemExit(code)
