"""The page of commands: each with the first line of its help. ``--help`` has the options."""

from collections.abc import Iterator
from typing import Final

from docsite.reference.tables import render_page, render_table
from fleethook.cli.command_line import PROGRAM, CommandGroup, build_program

_INTRODUCTION: Final = (
    "`--help` of a command prints its options and exit codes. Common exit codes are 0 for success, 1 if the checked "
    "thing failed, and 2 for invalid arguments or unreadable input."
)
_PLUGIN: Final = """## kubectl plugin

The package installs `kubectl-fleethook` beside `fleethook`. If its directory is in `PATH`, kubectl runs it as a plugin
with the same commands:

```sh
kubectl fleethook doctor
```"""


def render_commands() -> str:
    """Return the page."""
    table = render_table(["command", "effect"], _list_rows(build_program(), ""))
    return render_page("Commands", _INTRODUCTION, table, _PLUGIN)


def _list_rows(group: CommandGroup, path: str) -> Iterator[tuple[str, str]]:
    for name in group.commands:
        command = group.get_command(None, name)
        if isinstance(command, CommandGroup):
            yield from _list_rows(command, f"{path}{name} ")
        else:
            yield f"`{PROGRAM} {path}{name}`", _escape(group.summarize(name))


def _escape(text: str) -> str:
    """Keep angle brackets and stars of help texts from being read as HTML and emphasis."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
