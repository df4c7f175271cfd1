"""The page of commands: their help texts, as ``--help`` prints them."""

from collections.abc import Iterator
from typing import Final

from docsite.reference.tables import render_page, render_table
from fleethook.cli import COMMANDS, PROGRAM
from fleethook.cli.command_line import Function, Group, split_help
from fleethook.cli.help import format_usage
from fleethook.cli.parameters import list_parameters

_INTRODUCTION: Final = (
    "Each section is the `--help` of a command. The common exit codes are 0 for success, 1 if the checked thing "
    "failed, and 2 for invalid arguments or unreadable input. `fleethook --version` prints the version."
)
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

`fleethook --show-completion SHELL` prints the completion script of bash, zsh or fish. In bash or zsh, add this line to
`~/.bashrc` or `~/.zshrc`, with the name of your shell:

```text
source <(fleethook --show-completion bash)
```

In fish, write the script to `~/.config/fish/completions/fleethook.fish`."""


def render_commands() -> str:
    """Return the page."""
    return render_page("Commands", _INTRODUCTION, *_render_children(COMMANDS, PROGRAM), _PLUGIN)


def _render_children(group: Group, path: str) -> Iterator[str]:
    for name in group.commands:
        yield from _render_command(group.load(name), f"{path} {name}")


def _render_command(command: Function | Group, path: str) -> Iterator[str]:
    yield f"## `{path}`"
    yield f"```text\n{format_usage(command, path)}\n```"
    yield from map(_escape, split_help(command))
    parameters = command.options if isinstance(command, Group) else list_parameters(command)
    if rows := [(f"`{one.usage}`", _escape(one.description)) for one in parameters if not one.declared.replaced_by]:
        yield render_table(["option", "effect"], rows)
    if isinstance(command, Group):
        yield from _render_children(command, path)


def _escape(text: str) -> str:
    """Keep angle brackets and stars of help texts from being read as HTML and emphasis."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
