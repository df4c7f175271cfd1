"""Leaving with a message and an exit code: 1, the checked thing failed; 2, usage or unreadable input."""

import sys
from typing import Final, NoReturn

import typer

CHECK_FAILED: Final = 1
UNREADABLE: Final = 2


def fail(message: str, *, code: int = UNREADABLE) -> NoReturn:
    """Print ``message`` to standard error and exit with ``code``."""
    sys.stderr.write(f"fleethook: {message}\n")
    raise typer.Exit(code)
