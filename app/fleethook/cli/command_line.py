"""Parses command lines, by the rules of pflag, the library of kubectl, and prints the help of commands.

Options and arguments may be in any order, and ``--`` ends the options. ``--name value`` and ``--name=value``,
``-n value``, ``-nvalue`` and ``-n=value`` are the same. Options without a value may be joined: ``-vh``.
"""

import gc
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from fleethook.cli.exit_codes import UNREADABLE
from fleethook.cli.output.text_output import write, write_error
from fleethook.cli.parameters import Parameter, call, list_parameters

HELP: Final = ("-h", "--help")

Function = Callable[..., None]


class CommandSpec(NamedTuple):
    """The place of a command in the code, which is imported when the command runs, and its line in the list."""

    module: str
    attribute: str
    """A function, or a `Group`."""
    summary: str
    """The first paragraph of the command's help. A test compares the two."""
    heading: str = ""
    """The part of the list to which the command belongs."""

    def load(self) -> "Function | Group":
        """Import the module and return the command."""
        return cast("Function | Group", getattr(importlib.import_module(self.module), self.attribute))


class Group(NamedTuple):
    """A command with commands of its own.

    Attributes:
        help: Its help.
        commands: Its commands by name.
        function: Runs if an option precedes the command's name; None for a group without options of its own.
        shared: Options that may precede the command's name.
    """

    help: str
    commands: Mapping[str, "CommandSpec | Function"]
    function: Function | None = None
    shared: tuple[Parameter, ...] = ()

    @property
    def options(self) -> list[Parameter]:
        """Options that may precede the command's name."""
        return [*self.shared, *(list_parameters(self.function) if self.function is not None else ())]

    def load(self, name: str) -> "Function | Group":
        """Return a command by its name."""
        found = self.commands[name]
        return found.load() if isinstance(found, CommandSpec) else found

    def summarize(self, name: str) -> str:
        """Return the first paragraph of a command's help."""
        found = self.commands[name]
        return found.summary if isinstance(found, CommandSpec) else split_help(found)[0]


def split_help(command: Function | Group) -> list[str]:
    """Return the paragraphs of a command's help."""
    text = command.help if isinstance(command, Group) else command.__doc__ or ""
    return [" ".join(one.split()) for one in text.split("\n\n") if one.strip()]


class _UsageError(Exception):
    """The words are no command line of a command.

    Attributes:
        word: An unknown word.
        known: The words that are known in its place.
    """

    def __init__(self, message: str, word: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.word: Final = word
        self.known: Final = known


def run(group: Group, words: Sequence[str], program: str) -> None:
    """Run the command of a command line. Exits with a message if it is invalid."""
    path, rest = program, list(words)
    command: Function | Group = group
    try:
        while isinstance(command, Group):
            name, rest = _run_group(command, rest, path)
            if not name:
                return
            path, command = f"{path} {name}", command.load(name)
        parser = _Parser(list_parameters(command))
        values = parser.parse(rest)
    except _UsageError as error:
        from fleethook.cli.help import suggest  # noqa: PLC0415 - only mistakes need it

        listed = "commands" if isinstance(command, Group) else "options"
        write_error(f"fleethook: {error}{suggest(error.word, error.known)}", f"`{path} --help` lists the {listed}.")
        raise SystemExit(UNREADABLE) from None
    if HELP[0] in values:
        _print_help(command, path)
        return
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    call(command, values)


def _print_help(command: Function | Group, path: str, print_lines: Function = write) -> None:
    from fleethook.cli.help import format_help  # noqa: PLC0415 - most runs print no help, and start faster without it

    print_lines(*format_help(command, path))


def _run_group(group: Group, words: Sequence[str], path: str) -> tuple[str, list[str]]:
    """Handle the options of a group; returns the name of the command to run, ``""`` for none, and its words."""
    values, unread = _Parser(group.options).parse_options(words)
    if HELP[0] in values:
        _print_help(group, path)
        return "", []
    if values and group.function is not None:
        call(group.function, values)
        return "", []
    if not unread:
        _print_help(group, path, write_error)
        raise SystemExit(UNREADABLE)
    name, *rest = unread
    if name not in group.commands:
        raise _UsageError(f"there is no command {name}", name, group.commands)
    command = group.load(name)
    # An option of the group that the command lacks has no effect.
    known = {one.name for one in (command.shared if isinstance(command, Group) else list_parameters(command))}
    shared = [one for one in group.shared if one.name in values and one.name in known]
    return name, [*(f"{one.flags[0]}={values[one.name]}" for one in shared), *rest]


class _Parser:
    """Parses the words of one command."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters: Final = parameters
        self._by_flag: Final = {flag: one for one in parameters for flag in (*one.flags, *filter(None, [one.negative]))}
        self._values: Final[dict[str, Any]] = {}
        self._words: list[str] = []

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the values of options and arguments by name; only ``-h`` if the words ask for help."""
        self._words = list(words)
        positional: list[str] = []
        while self._words:
            word = self._words.pop(0)
            if word == "--":
                positional += self._words
                break
            if word == "-" or not word.startswith("-"):
                positional.append(word)
            elif self._take(word):
                return {HELP[0]: True}
        self._assign(positional)
        for one in self._parameters:
            if one.is_required and one.name not in self._values:
                raise _UsageError(f"give {'an option ' if one.flags else ''}{one.usage}: {one.declared.help}")
        self._check_standard_input()
        return self._values

    def _check_standard_input(self) -> None:
        """Exit with a message if several options name standard input, which can be read only once, as kubectl does."""
        given = (self._values.get(one.name) for one in self._parameters if one.type.__name__ == "Path")
        paths = [path for value in given for path in (value if isinstance(value, list) else [value])]
        if sum(str(path) == "-" for path in paths) > 1:
            raise _UsageError("- (standard input) is given more than once")

    def parse_options(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Return the values of the options before the first argument, and the words from there on."""
        self._words = list(words)
        while self._words and self._words[0].startswith("-"):
            if self._take(self._words.pop(0)):
                return {HELP[0]: True}, []
        return self._values, self._words

    def _take(self, word: str) -> bool:
        """Set the options of a word; returns whether one asks for help."""
        if word.startswith("--"):
            flag, separator, text = word.partition("=")
            if flag in HELP:
                return True
            self._set(flag, text if separator else None)
            return False
        rest = word[1:]
        while rest:
            flag, rest = f"-{rest[0]}", rest[1:]
            if flag in HELP:
                return True
            if self._find(flag).type is bool and not rest.startswith("="):
                self._set(flag, None)
            else:
                self._set(flag, rest.removeprefix("=") if rest else None)
                rest = ""
        return False

    def _find(self, flag: str) -> Parameter:
        found = self._by_flag.get(flag)
        if found is None:
            raise _UsageError(f"there is no option {flag}", flag, [*self._by_flag, *HELP])
        return found

    def _set(self, flag: str, text: str | None) -> None:
        one = self._find(flag)
        if one.type is bool:
            value = text is None or one.convert(text, flag)
            self._values[one.name] = value is not (flag == one.negative)
            return
        if text is None:
            # If the user forgot the value, the next option would become the value.
            if not self._words or self._words[0].partition("=")[0] in {*self._by_flag, *HELP}:
                raise _UsageError(f"{flag} needs a value: {flag} {one.metavar}")
            text = self._words.pop(0)
        self._add(one, one.convert(text, flag))

    def _add(self, one: Parameter, value: Any) -> None:
        if one.is_list:
            self._values.setdefault(one.name, []).append(value)
        else:
            self._values[one.name] = value

    def _assign(self, words: list[str]) -> None:
        """Set the arguments."""
        arguments = [one for one in self._parameters if one.is_argument]
        for one in arguments:
            while words and (one.is_list or one.name not in self._values):
                self._add(one, one.convert(words.pop(0), one.metavar))
        if words:
            raise _UsageError(f"unexpected argument {words[0]!r}")
