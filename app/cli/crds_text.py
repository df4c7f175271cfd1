"""What the commands about CRD tarballs have in common: how they print, and how they leave."""

import contextlib
import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import typer

from app.crds.failures import CRDsError, Exit


class Output(StrEnum):
    """How the result is printed."""

    TEXT = "text"
    JSON = "json"


@contextlib.contextmanager
def leaving(interrupted: str = "the cache is as it was") -> Iterator[None]:
    """Turn what goes wrong into a message and the exit code that goes with it; ``interrupted`` is said of Ctrl-C."""
    try:
        yield
    except CRDsError as error:
        sys.stderr.write(f"fleethook: {error}\n")
        raise typer.Exit(error.exit) from None
    except KeyboardInterrupt:
        sys.stderr.write(f"fleethook: interrupted; {interrupted}\n")
        raise typer.Exit(Exit.INTERRUPTED) from None


def warn(warnings: tuple[str, ...]) -> None:
    """Print warnings to standard error."""
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")


def show(output: Output, text: str, document: Any) -> None:
    """Print a result to standard output, as a person or as a program reads it."""
    sys.stdout.write(json.dumps(document, default=str) + "\n" if output is Output.JSON else f"{text}\n")
