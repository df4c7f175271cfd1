"""Help, suggestions for mistyped words, and completions in shells: the texts that describe commands."""

import difflib
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from fleethook.cli import COMMANDS
from fleethook.cli.command_line import HELP, CommandSpec, Function, Group, split_help
from fleethook.cli.exit_codes import fail
from fleethook.cli.output.text_output import find_width, write
from fleethook.cli.parameters import Parameter, list_parameters

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
        parts: dict[str, list[tuple[str, str]]] = {}
        for name, one in command.commands.items():
            heading = one.heading if isinstance(one, CommandSpec) and one.heading else "Commands"
            parts.setdefault(heading, []).append((name, command.summarize(name)))
        lines += (line for heading, rows in parts.items() for line in _format_table(heading, rows, width))
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


_COMPLETE_FILES: Final = ":0"
_COMPLETE_NO_FILES: Final = ":4"
_SCRIPTS: Final = {
    # Bash splits --output=sa into three words, and replaces only the last one. Its version 3.2 is that of macOS.
    "bash": """_fleethook_completion() {
    local IFS=$'\\n' word before= joined= i=-1
    local -a words
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ $i -ge 0 && ( $word == "=" || $before == "=" ) ]]; then joined=1
        else i=$((i + 1)) joined= words[i]=
        fi
        words[i]+=$word before=$word
    done
    COMPREPLY=($(_FLEETHOOK_COMPLETE=1 "$1" "${words[@]}" 2>/dev/null))
    if [[ -n $joined ]]; then COMPREPLY=("${COMPREPLY[@]#*=}"); fi
}
complete -o default -F _fleethook_completion fleethook""",
    "zsh": """#compdef fleethook
_fleethook_completion() {
    local -a found
    found=("${(@f)$(_FLEETHOOK_COMPLETE=1 "${words[1]}" "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else compset -P '-*='; _files; fi
}
compdef _fleethook_completion fleethook""",
    "fish": """function _fleethook_completion
    set -l words (commandline -opc) (commandline -ct)
    set -lx _FLEETHOOK_COMPLETE 1
    set -l found ($words[1] $words[2..-1] 2>/dev/null)
    if test -n "$found"
        printf '%s\\n' $found
    else
        set -l option (string match -r -- '^-[^=]*=' $words[-1])
        for path in (__fish_complete_path (string replace -r -- '^-[^=]*=' '' $words[-1])); echo -- "$option$path"; end
    end
end
complete -c fleethook -f -a '(_fleethook_completion)'""",
}


def print_script(shell: str) -> None:
    """Print the completion script of a shell. Exits with a message for an unknown one."""
    if shell not in _SCRIPTS:
        fail(f"--show-completion: {shell!r} is none of {', '.join(_SCRIPTS)}")
    write(*_SCRIPTS[shell].splitlines())


def list_completions(words: Sequence[str]) -> list[str]:
    """Return the completions of the last word of a command line without the program's name; none for files."""
    *before, last = words or [""]
    command: Function | Group = COMMANDS
    waiting: Parameter | None = None
    for word in before:
        parameters = _list_options(command)
        named = [one for one in parameters if word in one.flags and one.type is not bool]
        if waiting is not None:
            waiting = None
        elif named:
            waiting = named[0]
        elif isinstance(command, Group) and not word.startswith("-"):
            if word not in command.commands:
                return []
            command = command.load(word)
    parameters = _list_options(command)
    if waiting is not None:
        return _list_values(waiting, last)
    flag, separator, value = last.partition("=")
    if separator:
        found = [one for one in parameters if flag in one.flags]
        return [f"{flag}={text}" for one in found for text in _list_values(one, value)]
    if last.startswith("-"):
        flags = [name for one in parameters for name in (*one.flags, one.negative) if name.startswith("--")]
        return [name for name in (*flags, HELP[1]) if name.startswith(last)]
    return [name for name in command.commands if name.startswith(last)] if isinstance(command, Group) else []


def _list_options(command: Function | Group) -> list[Parameter]:
    return command.options if isinstance(command, Group) else list_parameters(command)


def _list_values(one: Parameter, start: str) -> list[str]:
    values = [str(value) for value in one.type] if issubclass(one.type, StrEnum) else []
    return [value for value in values if value.startswith(start)]


def complete(words: Sequence[str]) -> None:
    """Print the completions for a script of a shell."""
    write(*list_completions(words))


def main() -> None:
    """Print the completions of the arguments for kubectl, as the program ``kubectl_complete-fleethook``."""
    found = list_completions(sys.argv[1:])
    write(*found, _COMPLETE_NO_FILES if found else _COMPLETE_FILES)
