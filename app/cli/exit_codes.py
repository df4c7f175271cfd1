"""Leaving with a message and an exit code: 1, the checked thing failed; 2, usage or unreadable input."""

from typing import Final, NoReturn

import typer

from app.cli.terminal import write_error

CHECK_FAILED: Final = 1
UNREADABLE: Final = 2


def fail(message: str, *, code: int = UNREADABLE) -> NoReturn:
    """Print ``message`` to standard error and exit with ``code``."""
    write_error(f"fleethook: {message}")
    raise typer.Exit(code)
