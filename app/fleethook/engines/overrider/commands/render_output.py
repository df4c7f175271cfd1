"""The output of ``fleethook render``: workloads as YAML, as JSON, or as the differences that overriders make."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fleethook.cli.output.json_output import write_json
from fleethook.cli.output.terminal import Styled, styled, write, write_document, write_styled
from fleethook.cli.output.yaml_output import yaml_text
from fleethook.engines.overrider.rollout.preview import Change, PoolChange, Preview
from fleethook.model.json import JSON, JSONObject


class Output(enum.StrEnum):
    """Output formats of the command."""

    yaml = "yaml"
    json = "json"
    diff = "diff"
    sarif = "sarif"
    github = "github"

    @property
    def has_workloads(self) -> bool:
        """Whether the format shows workloads; the other formats show findings only."""
        return self in _PRINTERS


def print_previews(previews: Sequence[Preview], output: Output) -> None:
    """Write the workloads to standard output."""
    _PRINTERS[output](previews)


def _print_yaml(previews: Sequence[Preview]) -> None:
    for one in previews:
        overrider = f", by {one.overrider}" if one.changes else ""
        write("---", f"# {one.subject}, node pool {one.pool}{overrider}")
        write_document(yaml_text(one.workload))


def _print_json(previews: Sequence[Preview]) -> None:
    write_json(
        [{**preview._asdict(), "changes": [change._asdict() for change in preview.changes]} for preview in previews]
    )


def _print_diff(previews: Sequence[Preview]) -> None:
    for one in previews:
        write_styled(_format_title(one))
        if not one.changes:
            write_styled(styled("  as the template", "dim"))
        _print_differences(one.changes)


def _format_title(preview: Preview) -> Styled:
    overrider = f" by {preview.overrider}" if preview.overrider else ""
    return styled(f"{preview.subject}, node pool {preview.pool}, {preview.kind}{overrider}", "bold")


def _print_differences(changes: Sequence[Change]) -> None:
    for change in changes:
        write_styled(styled(f"  {change.path}"), styled(f"  # {change.source or 'template'}", "cyan"))
        for sign, style, value in (("-", "red", change.before), ("+", "green", change.after)):
            if value is not None:
                write_styled(styled(_prefix_lines(sign, value), style, keep="\n"))


def _prefix_lines(sign: str, value: JSON) -> str:
    """Return a value as YAML with the sign of a diff before each line."""
    text = yaml_text(value).removesuffix("...\n").rstrip("\n")
    return "\n".join(f"    {sign} {line}" for line in text.split("\n"))


def print_changes(changes: Sequence[PoolChange], output: Output) -> None:
    """Write the workloads that a change affects to standard output.

    YAML has the workloads after the change, JSON both, and a diff the fields that differ.
    """
    if output is Output.json:
        write_json([describe_change(one) for one in changes])
    elif output is Output.diff:
        for one in changes:
            write_styled(_format_title(one.preview))
            if one.before is None or one.after is None:
                write_styled(styled("  new", "green") if one.before is None else styled("  gone", "red"))
            _print_differences(one.changes)
    else:
        for one in changes:
            if one.after is None:
                write("---", f"# {one.preview.subject}, node pool {one.preview.pool}, {one.preview.kind}: gone")
            else:
                _print_yaml([one.after])


def describe_change(change: PoolChange) -> JSONObject:
    """Return the change of a node pool's workload, as ``render --change --output json`` prints it."""
    shown = change.preview
    return {
        "subject": shown.subject,
        "overrider": shown.overrider,
        "pool": shown.pool,
        "kind": shown.kind,
        "before": None if change.before is None else change.before.workload,
        "workload": None if change.after is None else change.after.workload,
        "changes": [one._asdict() for one in change.changes],
        "warnings": shown.warnings,
    }


_PRINTERS: Final[Mapping[Output, Callable[[Sequence[Preview]], None]]] = {
    Output.yaml: _print_yaml,
    Output.json: _print_json,
    Output.diff: _print_diff,
}
