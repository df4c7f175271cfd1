"""The page of commands: their help texts, as ``--help`` prints them."""

from collections.abc import Iterator
from typing import Any, Final

from typer.main import get_command

from app.cli import app
from docsite.reference.tables import render_page, render_table

_INTRODUCTION: Final = (
    "Each section is the `--help` of a command. The common exit codes are 0 for success, 1 if the checked thing "
    "failed, and 2 for invalid arguments or unreadable input. `fleethook --version` prints the version."
)
_WIDTH: Final = 100
_PLUGIN: Final = """## kubectl plugin

The package installs `kubectl-fleethook` beside `fleethook`. If its directory is in `PATH`, kubectl runs it as a plugin
with the same commands:

```sh
kubectl fleethook render -f overrider.yaml -f yurtappset.yaml --output diff
kubectl fleethook doctor
```

kubectl 1.26 and later also completes commands, options and values of the plugin by `kubectl_complete-fleethook`, which
the package installs, too.

## Shell completion

`fleethook --install-completion` adds completion to the configuration of the current shell (bash, zsh, fish or
PowerShell). `fleethook --show-completion` prints the script instead. Both take the name of a shell."""


def render_commands() -> str:
    """Return the page."""
    root = get_command(app)
    return render_page("Commands", _INTRODUCTION, *_render_command(root, None, "fleethook"), _PLUGIN)


def _render_command(command: Any, parent: Any, name: str) -> Iterator[str]:
    loaded = command.load() if hasattr(command, "load") else command
    context = loaded.context_class(loaded, info_name=name, parent=parent, terminal_width=_WIDTH)
    if parent is not None:
        yield f"## `{context.command_path}`"
        yield from _describe(loaded, context)
    for child, subcommand in getattr(loaded, "commands", {}).items():
        yield from _render_command(subcommand, context, child)


def _describe(command: Any, context: Any) -> Iterator[str]:
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield from (_escape(part) for part in (command.help or "").replace("\b", "").split("\n\n"))
    records = [record for one in command.params if (record := one.get_help_record(context)) is not None]
    if rows := [(f"`{_plain(declared)}`", _escape(help_text)) for declared, help_text in records]:
        yield render_table(["option", "effect"], rows)


def _plain(declared: str) -> str:
    return declared.replace("\\[", "[")


def _escape(text: str) -> str:
    """Keep angle brackets and stars of help texts from being read as HTML and emphasis."""
    return " ".join(text.split()).replace("\\[", "[").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
