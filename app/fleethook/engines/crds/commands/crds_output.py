"""Output and exit codes of the commands about CRD tarballs."""

import contextlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

from fleethook.cli.exit_codes import raise_at_interrupt
from fleethook.cli.output.json_output import write_json
from fleethook.cli.output.terminal import write, write_error
from fleethook.engines.crds.crds_errors import CRDsError, Exit


class Output(StrEnum):
    """Output format of a result."""

    TEXT = "text"
    JSON = "json"


@contextlib.contextmanager
def exit_on_error(interrupted: str = "the cache is unchanged") -> Iterator[None]:
    """Print a CRDsError of the block and exit with its code; at Ctrl-C print ``interrupted`` and exit 130."""
    raise_at_interrupt()
    try:
        yield
    except CRDsError as error:
        write_error(f"fleethook: {error}")
        raise SystemExit(error.exit) from None
    except KeyboardInterrupt:
        write_error(f"fleethook: interrupted; {interrupted}")
        raise SystemExit(Exit.INTERRUPTED) from None


def warn(warnings: Iterable[str]) -> None:
    """Print warnings to standard error."""
    for warning in warnings:
        write_error(f"warning: {warning}")


def show(output: Output, lines: Iterable[str], document: Any) -> None:
    """Print a result to standard output, as lines of text or as JSON."""
    if output is Output.JSON:
        write_json(document, indent=None)
    else:
        write(*lines)
