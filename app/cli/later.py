"""Commands that are imported when they are asked for: each needs libraries of its own, and listing them needs none."""

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class Place(NamedTuple):
    """Where a command is, and what the list of commands says of it."""

    module: str
    attribute: str
    """A function, or a `typer.Typer` with commands of its own."""
    line: str
    """The first line of its help; a test holds the two together."""


class Later(TyperCommand):
    """A command of which a name and a line are known."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, help=place.line)
        self._place: Final = place

    def load(self) -> Any:
        """Import the command and return it, a command of Typer's."""
        found = getattr(importlib.import_module(self._place.module), self._place.attribute)
        if isinstance(found, typer.Typer):
            return get_group(found)
        alone = typer.Typer(add_completion=False)
        alone.command(name=self.name)(found)
        return get_command(alone)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the command's arguments as itself does: the context's command is the one that was imported."""
        return self.load().make_context(*arguments, **options)


def group_of(places: Mapping[str, Place]) -> type[TyperGroup]:
    """Return the kind of group that has these commands by name, before those that are registered with it."""

    class Group(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands = {**{name: Later(name, place) for name, place in places.items()}, **self.commands}

    return Group
