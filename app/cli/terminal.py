r"""The only way from a command to a terminal: text is escaped, so that names in archives and objects cannot act on it.

Lines of our own are passed one by one. A line feed inside of one comes from somebody else and is shown as ``\n``.
`app.cli.styles` is the same for coloured text, and `app.cli.json_output` for JSON.
"""

import sys
from typing import Final

from app.model.text import escape

# It moves the cursor forward only, and scripts print columns with it.
_KEPT: Final = "\t"


def write(*lines: str) -> None:
    """Write lines to standard output."""
    sys.stdout.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_error(*lines: str) -> None:
    """Write lines to standard error."""
    sys.stderr.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_document(text: str) -> None:
    """Write text with lines, such as YAML, to standard output."""
    sys.stdout.write(escape(text, keep=f"\n{_KEPT}"))


def flush() -> None:
    """Hand over what was written to standard output, for a process that waits for it."""
    sys.stdout.flush()
