"""Commands that are imported only when they run: each needs its own libraries, and listing them needs none."""

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class CommandSpec(NamedTuple):
    """The place of a command in the code, and its line in the list of commands."""

    module: str
    attribute: str
    """A function, or a `typer.Typer` with commands of its own."""
    summary: str
    """The first line of the command's help. A test compares the two."""


class LazyCommand(TyperCommand):
    """A command with a name and a summary that imports its module when it runs."""

    def __init__(self, name: str, spec: CommandSpec) -> None:
        super().__init__(name, help=spec.summary)
        self._spec: Final = spec

    def load(self) -> Any:
        """Import the module and return Typer's command."""
        target = getattr(importlib.import_module(self._spec.module), self._spec.attribute)
        if isinstance(target, typer.Typer):
            return get_group(target)
        parent = typer.Typer(add_completion=False)
        parent.command(name=self.name)(target)
        return get_command(parent)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Let the imported command parse the arguments; it is also the command of the returned context."""
        return self.load().make_context(*arguments, **options)


def lazy_group(specs: Mapping[str, CommandSpec]) -> type[TyperGroup]:
    """Return a group class with these commands, by name, before those that are registered with the group."""

    class Group(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands = {**{name: LazyCommand(name, spec) for name, spec in specs.items()}, **self.commands}

    return Group
