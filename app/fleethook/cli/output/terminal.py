r"""The only way from a command to a terminal. Names in archives and objects are escaped: they cannot control it.

Pass lines one by one: a line feed within a line comes from untrusted input and is shown as ``\n``.
`fleethook.cli.output.json_output` does the same for JSON.
"""

import os
import sys
from typing import Final, NewType

from fleethook.model.formats.text import escape

# A tab only moves the cursor forward, and Lua scripts print columns with it.
_KEPT: Final = "\t"
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}

Styled = NewType("Styled", str)
"""Text of `styled`: escaped, and with the codes of its colour if standard output shows colours."""


def write(*lines: str) -> None:
    """Write lines to standard output."""
    sys.stdout.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_error(*lines: str) -> None:
    """Write lines to standard error."""
    sys.stderr.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_document(text: str) -> None:
    """Write text with several lines, such as YAML, to standard output."""
    sys.stdout.write(escape(text, keep=f"\n{_KEPT}"))


def write_styled(*texts: Styled) -> None:
    """Write texts to standard output as one line, with spaces between them."""
    sys.stdout.write(f"{' '.join(texts)}\n")


def styled(text: str, style: str = "", *, keep: str = "") -> Styled:
    """Return text for `write_styled`.

    Args:
        text: The text, one line unless ``keep`` has a line feed.
        style: Names of a colour and a weight, such as ``bold red``.
        keep: Control characters that are not escaped.
    """
    escaped = escape(text, keep=keep)
    if not style or not escaped or not _shows_colours():
        return Styled(escaped)
    return Styled(f"\x1b[{';'.join(_CODES[one] for one in style.split())}m{escaped}\x1b[0m")


def concatenate(*texts: Styled) -> Styled:
    """Return texts as one, without spaces between them."""
    return Styled("".join(texts))


def _shows_colours() -> bool:
    """Return whether standard output is a terminal with colours; NO_COLOR and FORCE_COLOR override that."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def flush() -> None:
    """Flush standard output, for a process that reads it line by line."""
    sys.stdout.flush()


class StatusLine:
    """A line on standard error that shows progress, if standard error is a terminal."""

    def __init__(self, *, hidden: bool = False) -> None:
        self.is_shown: Final = not hidden and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._text = ""

    def update(self, text: str) -> None:
        """Show a text in place of the former one. It must fit into the terminal, and is cut otherwise."""
        if self.is_shown and text != self._text:
            self._text = text
            sys.stderr.write(f"\r{escape(text)[: find_width() - 1]}\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._text:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._text = ""


def find_width() -> int:
    """Return the columns of the terminal, 80 without one."""
    try:
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns or 80
    except (OSError, ValueError):
        return 80
