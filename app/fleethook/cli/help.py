"""Formats the help of commands, and suggestions for mistyped words."""

import difflib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fleethook.cli.command_line import Function, Group, split_help
from fleethook.cli.output.terminal import find_width
from fleethook.cli.parameters import list_parameters

_HELP_LINE: Final = ("-h, --help", "Print this help and exit.")
_MAX_WIDTH: Final = 100
_INDENT: Final = "  "
_COLUMN: Final = 28
"""Column of help texts. A longer name has a line of its own."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a question for the most similar words, ``""`` if none is."""
    found = difflib.get_close_matches(word, [*known])
    return f"; did you mean {' or '.join(found)}?" if found else ""


def format_usage(command: Function | Group, path: str) -> str:
    """Return the command with the forms of its arguments."""
    if isinstance(command, Group):
        return f"{path} [OPTIONS] COMMAND [ARGUMENTS]..."
    words = [path, "[OPTIONS]"]
    for one in list_parameters(command):
        if one.is_argument:
            metavar = one.metavar if one.is_required else f"[{one.metavar.strip('[]')}]"
            words.append(f"{metavar.removesuffix('...')}..." if one.is_list else metavar)
    return " ".join(words)


def format_help(command: Function | Group, path: str) -> list[str]:
    """Return the lines of a command's help."""
    width = min(find_width(), _MAX_WIDTH)
    lines = [f"Usage: {format_usage(command, path)}"]
    for paragraph in split_help(command):
        lines += ["", *_wrap(paragraph, width, _INDENT)]
    parameters = command.options if isinstance(command, Group) else list_parameters(command)
    lines += _format_table("Arguments", [(one.usage, one.description) for one in parameters if one.is_argument], width)
    options = [(one.usage, one.description) for one in parameters if one.flags]
    lines += _format_table("Options", [*options, _HELP_LINE], width)
    if isinstance(command, Group):
        lines += _format_table("Commands", [(name, command.summarize(name)) for name in command.commands], width)
    return lines


def _format_table(title: str, rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    if rows:
        yield from ("", f"{title}:")
    column = min(_COLUMN, max((len(name) for name, _ in rows), default=0) + 2 * len(_INDENT))
    for name, text in rows:
        head = f"{_INDENT}{name}"
        wrapped = _wrap(text, width, " " * column)
        if len(head) + len(_INDENT) <= column:
            yield head.ljust(column) + wrapped.pop(0).lstrip()
        else:
            yield head
        yield from wrapped


def _wrap(text: str, width: int, indent: str) -> list[str]:
    wrapper = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(text)
