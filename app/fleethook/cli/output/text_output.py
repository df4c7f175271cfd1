r"""The only writer of commands to a terminal: lines, styled text, JSON, and progress on standard error.

Names in archives and objects are escaped: they cannot control the terminal.

Pass lines one by one: a line feed within a line comes from untrusted input and is shown as ``\n``.
`write_json` does the same for JSON.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NewType

from fleethook.model.formats.text import escape, escape_json

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# A tab only moves the cursor forward, and Lua scripts print columns with it.
_KEPT: Final = "\t"
STANDARD_OUTPUT: Final = 1
"""Its file descriptor."""
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}

Styled = NewType("Styled", str)
"""Text of `styled`: escaped, and with the codes of its colour if standard output shows colours."""


class OutputError(Exception):
    """A write to standard output failed.

    It is no subclass of OSError or ValueError, because commands catch those when they read files.
    """


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


def open_standard_output() -> None:
    """Write UTF-8 in each locale, like the programs of Kubernetes; failed writes raise OutputError from now on."""
    if sys.stdout is None:
        raise OutputError("cannot write to standard output: it is closed")
    raw = _Descriptor(STANDARD_OUTPUT, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=sys.stdout.isatty()
    )


def write(*lines: str) -> None:
    """Write lines to standard output."""
    sys.stdout.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_error(*lines: str) -> None:
    """Write lines to standard error."""
    sys.stderr.write("".join(f"{escape(line, keep=_KEPT)}\n" for line in lines))


def write_document(text: str) -> None:
    """Write text with several lines, such as YAML, to standard output."""
    sys.stdout.write(escape(text, keep=f"\n{_KEPT}"))


def write_json(value: Any, *, indent: int | None = 2, begin: str = "", end: str = "\n") -> None:
    """Write a value to standard output as ASCII JSON. Types that JSON and msgspec lack are written as `str`."""
    import json  # noqa: PLC0415 - commands without JSON start faster without it

    write_document(f"{begin}{escape_json(json.dumps(value, indent=indent, default=encode_other))}{end}")


def encode_other(value: object) -> Any:
    """Return a value of a type that the json module lacks as one that it has."""
    import msgspec  # noqa: PLC0415 - as above

    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else str(value)


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


@contextlib.contextmanager
def show_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text in place of the former one, on standard error if that is a terminal."""
    is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def show(text: str) -> None:
        if is_shown:
            import shutil  # noqa: PLC0415 - it loads libraries of archives, which other commands do not need

            sys.stderr.write(f"\r{escape(text)[: shutil.get_terminal_size().columns - 1]}\x1b[K")
            sys.stderr.flush()

    try:
        yield show
    finally:
        show("")


Report = Callable[[int, int | None], None]
"""Called with the number of received bytes, and the expected total or None."""

_MEBIBYTE: Final = 1 << 20


@contextlib.contextmanager
def show_download(source: str) -> Iterator[Report]:
    """Show the progress of a download during the block."""

    def report(done: int, total: int | None) -> None:
        share = f"{done / total:4.0%} " if total else ""
        show(f"{share}{done / _MEBIBYTE:.1f} MiB {source}")

    with show_progress() as show:
        yield report
