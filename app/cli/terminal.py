r"""The only way from a command to a terminal. Names in archives and objects are escaped: they cannot control it.

Pass lines one by one: a line feed within a line comes from untrusted input and is shown as ``\n``. `app.cli.styles`
does the same for coloured text, and `app.cli.json_output` for JSON.
"""

import sys
from typing import Final

from app.model.text import escape

# A tab only moves the cursor forward, and Lua scripts print columns with it.
_KEPT: Final = "\t"


def write(*lines: str) -> None:
    """Write lines to standard output."""
    sys.stdout.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_error(*lines: str) -> None:
    """Write lines to standard error."""
    sys.stderr.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_document(text: str) -> None:
    """Write text with several lines, such as YAML, to standard output."""
    sys.stdout.write(escape(text, keep=f"\n{_KEPT}"))


def flush() -> None:
    """Flush standard output, for a process that reads it line by line."""
    sys.stdout.flush()
