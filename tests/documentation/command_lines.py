"""Checks of command lines that no test can run: their commands, options, values and targets exist."""

import itertools
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import click
import yaml

from fleethook.cli.command_line import build_program
from tests.documentation.blocks import Block
from tests.serving import ROOT

_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=")
_FENCED: Final = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_INLINE: Final = re.compile(r"`(?:kubectl )?fleethook ([^`]+)`")
_OPEN_VALUES: Final = ("settings", "webhooks", "resources")
"""Members of the chart's values that may have more members than values.yaml lists."""


def read_command_lines(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command, without comments."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and _ASSIGNMENT.match(words[0]):
            del words[0]
        if words[:2] == ["kubectl", "fleethook"]:
            del words[0]
        if words:
            yield [words[0].removeprefix(".venv/bin/"), *words[1:]]


def read_inline_commands(page: str) -> Iterator[list[str]]:
    """Yield the words of each command of ``fleethook`` in the text of a page, without the name of the program."""
    for found in _INLINE.finditer(_FENCED.sub("", page)):
        yield found[1].replace("[", "").replace("]", "").split()


def find_unknown_words(words: list[str]) -> list[str]:
    """Return the options, values and targets of a command line that do not exist."""
    if words[0] == "fleethook":
        return find_unknown_options(words[1:])
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return [one for one in words[1:] if "=" not in one and one not in targets]
    if words[0] == "helm" and "charts/fleethook" in words:
        return [one for one in _read_set_values(words) if not has_value(one)]
    return []


def find_unknown_options(arguments: list[str]) -> list[str]:
    """Return the subcommands and options of ``fleethook`` that do not exist."""
    command: click.Command | None = build_program()
    known = {"-h", "--help", *_list_names(command)}
    unknown = []
    for word in arguments:
        if word.startswith("-") and word != "-":
            unknown += [word] if word.partition("=")[0] not in known else []
        elif isinstance(command, click.Group):
            # The value of an option of a group, such as --data-dir, is no subcommand.
            if word in command.commands:
                command = command.get_command(click.Context(command), word)
                known |= _list_names(command)
            elif "/" not in word and "." not in word:
                unknown.append(word)
    return unknown


def _list_names(command: click.Command | None) -> set[str]:
    return {name for one in (command.params if command else ()) for name in (*one.opts, *one.secondary_opts)}


def has_value(path: str) -> bool:
    """Return whether the chart's values.yaml has a path such as ``engines.crds.enabled``."""
    values: Any = yaml.safe_load((ROOT / "charts" / "fleethook" / "values.yaml").read_text(encoding="utf-8"))
    for name in path.split("."):
        if not isinstance(values, dict) or name not in values:
            return path.startswith(_OPEN_VALUES)
        values = values[name]
    return True


def _read_set_values(words: list[str]) -> Iterator[str]:
    for option, value in itertools.pairwise(words):
        if option == "--set":
            yield value.partition("=")[0]
