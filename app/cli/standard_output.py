"""The process's arguments and standard output, checked once for all commands."""

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from app.cli.exit_codes import UNREADABLE
from app.model.text import escape

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STANDARD_OUTPUT: Final = 1
_BROKEN_PIPE: Final = 1
"""Exit code if the reader of a pipe has left, as Typer has it."""
_ERRORS: Final = "fleethook-output"


class OutputError(Exception):
    """Standard output does not take a text.

    No subclass of OSError or ValueError: commands catch those around reading files, and would blame an input.
    """


def check_arguments(arguments: Sequence[str]) -> None:
    """Exit with a message if an argument cannot be decoded.

    Args:
        arguments: As in ``sys.argv``, without the program's name.
    """
    for number, argument in enumerate(arguments, 1):
        if not argument.isascii() and any("\udc80" <= character <= "\udcff" for character in argument):
            given, encoding = str(os.fsencode(argument))[1:], sys.getfilesystemencoding()
            remedy = _locale_hint(encoding) or ": give it in UTF-8"
            _leave(f"argument {number} is not valid {encoding.upper()}: {given}{remedy}")


@contextlib.contextmanager
def reporting_output_errors() -> Iterator[None]:
    """Exit with a message if standard output fails within the block, or does not take the rest at its end."""
    output = _replace_output()
    try:
        try:
            yield
        finally:
            output.flush()
    except OutputError as error:
        _discard()
        _leave(str(error))
    except BrokenPipeError:
        _discard()
        sys.exit(_BROKEN_PIPE)


class _Descriptor(io.FileIO):
    """Standard output's file descriptor."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            written: int | None = super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"cannot write to standard output: {(error.strerror or 'it failed').lower()}") from None
        if written is None:
            raise OutputError("cannot write to standard output: it is non-blocking, and its reader is too slow")
        return written


def _replace_output() -> TextIO:
    """Replace ``sys.stdout`` by a stream whose failures are `OutputError`, and return it."""
    given = sys.stdout
    if not isinstance(given, io.TextIOWrapper):
        # Closed by the caller: the next file that is opened must not become standard output.
        _open_null(os.O_RDONLY)
    encoding, errors, is_line_buffered, is_unbuffered = _settings(given)
    codecs.register_error(_ERRORS, _Refusal(errors))
    raw = _Descriptor(_STANDARD_OUTPUT, "wb", closefd=False)
    buffer = raw if is_unbuffered else io.BufferedWriter(raw)
    output = io.TextIOWrapper(
        buffer, encoding=encoding, errors=_ERRORS, line_buffering=is_line_buffered, write_through=is_unbuffered
    )
    sys.stdout = output
    return output


def _settings(given: TextIO | None) -> tuple[str, str, bool, bool]:
    if not isinstance(given, io.TextIOWrapper):
        return "utf-8", "strict", False, False
    return given.encoding, given.errors or "strict", given.line_buffering, given.write_through


class _Refusal:
    """Handles a character that the encoding does not have: as the user's own setting says, but for its exception."""

    def __init__(self, errors: str) -> None:
        self._handle: Final = codecs.lookup_error(errors)

    def __call__(self, error: UnicodeError) -> tuple[str | bytes, int]:
        try:
            return self._handle(error)
        except UnicodeEncodeError as refused:
            text, encoding = ascii(refused.object[refused.start : refused.start + 1]), refused.encoding
            raise OutputError(
                f"cannot write {text} to standard output, whose encoding is {encoding}{_locale_hint(encoding)}"
            ) from None


def _locale_hint(encoding: str) -> str:
    return "" if encoding.lower().startswith("utf") else ": set PYTHONUTF8=1 or a locale such as LC_ALL=C.UTF-8"


def _discard() -> None:
    """Let everything that is still in a buffer go nowhere: the interpreter writes it at its end, and would complain."""
    _open_null(os.O_WRONLY)


def _open_null(flags: int) -> None:
    null = os.open(os.devnull, flags)
    if null != _STANDARD_OUTPUT:
        os.dup2(null, _STANDARD_OUTPUT)
        os.close(null)


def _leave(message: str) -> NoReturn:
    sys.stderr.write(f"fleethook: {escape(message)}\n")
    sys.exit(UNREADABLE)
