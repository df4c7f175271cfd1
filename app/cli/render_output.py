"""The output of ``fleethook render``: workloads as YAML, as JSON, or as the differences that overriders make."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from app.cli.json_output import write_json
from app.cli.styles import console, styled
from app.cli.terminal import write, write_document
from app.cli.yaml_output import yaml_text
from app.model.json import JSON
from app.overrider.preview import Preview


class Output(enum.StrEnum):
    """Output formats of the command."""

    yaml = "yaml"
    json = "json"
    diff = "diff"


def print_previews(previews: Sequence[Preview], output: Output) -> None:
    """Write the workloads to standard output."""
    _PRINTERS[output](previews)


def _print_yaml(previews: Sequence[Preview]) -> None:
    for preview in previews:
        overrider = f", by {preview.overrider}" if preview.changes else ""
        write("---", f"# {preview.subject}, node pool {preview.pool}{overrider}")
        write_document(yaml_text(preview.workload))


def _print_json(previews: Sequence[Preview]) -> None:
    write_json(
        [{**preview._asdict(), "changes": [change._asdict() for change in preview.changes]} for preview in previews]
    )


def _print_diff(previews: Sequence[Preview]) -> None:
    terminal = console()
    for preview in previews:
        overrider = f" by {preview.overrider}" if preview.overrider else ""
        terminal.print(styled(f"{preview.subject}, node pool {preview.pool}, {preview.kind}{overrider}", "bold"))
        if not preview.changes:
            terminal.print(styled("  as the template", "dim"))
        for change in preview.changes:
            terminal.print(styled(f"  {change.path}"), styled(f"  # {change.source}", "cyan"))
            for sign, style, value in (("-", "red", change.before), ("+", "green", change.after)):
                if value is not None:
                    terminal.print(styled(_prefix_lines(sign, value), style, keep="\n"))


def _prefix_lines(sign: str, value: JSON) -> str:
    """Return a value as YAML with the sign of a diff before each line."""
    text = yaml_text(value).removesuffix("...\n").rstrip("\n")
    return "\n".join(f"    {sign} {line}" for line in text.split("\n"))


_PRINTERS: Final[Mapping[Output, Callable[[Sequence[Preview]], None]]] = {
    Output.yaml: _print_yaml,
    Output.json: _print_json,
    Output.diff: _print_diff,
}
