"""The output of ``fleethook explain``: text, or the JSON of the server's explain route."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
from rich.console import Console

from app.cli.json_output import write_json
from app.cli.styles import console, styled
from app.dispatch.explain import ExplainedHook, Explanation

_STYLES: Final = {"call": "green", "skip": "dim", "error": "bold red"}


class Output(StrEnum):
    """Output formats of the command."""

    TEXT = "text"
    JSON = "json"


class ExplainedRequest(NamedTuple):
    """The explanation of a request.

    Attributes:
        subject: Kind, namespace and name of the object.
        place: ``FILE:LINE`` of the object or review.
        explanation: The webhooks and the reasons.
    """

    subject: str
    place: str
    explanation: Explanation


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of one request in short, as ``--all`` prints it."""

    cluster: str
    object: str
    place: str
    owner: str | None
    called: tuple[str, ...]
    refused: str


def describe_refusal(explanation: Explanation) -> str:
    """Return the reason to refuse a request before any webhook is called, ``""`` if there is none."""
    if explanation.owner.cluster is None:
        return explanation.owner.problem
    hooks = (*explanation.mutating, *explanation.validating)
    return next((f"{one.uid}: {one.stage}: {one.reason}" for one in hooks if one.decision == "error"), "")


def make_row(explained: ExplainedRequest) -> Row:
    """Return the row of an explained request."""
    subject, place, explanation = explained
    hooks = (*explanation.mutating, *explanation.validating)
    return Row(
        cluster=explanation.cluster,
        object=subject,
        place=place,
        owner=explanation.owner.cluster,
        called=tuple(one.uid for one in hooks if one.decision == "call"),
        refused=describe_refusal(explanation),
    )


def print_all(explained: Sequence[ExplainedRequest], output: Output, *, phases: Sequence[str], verbose: bool) -> None:
    """Write explanations to standard output, one after the other.

    Args:
        explained: The explanations.
        output: The output format. JSON always has all checks.
        phases: Phases to print.
        verbose: Whether to print all checks, also of webhooks that are called.
    """
    for one in explained:
        if output is Output.JSON:
            write_json(one.explanation)
        else:
            _print_text(one, phases=phases, verbose=verbose)


def _print_text(explained: ExplainedRequest, *, phases: Sequence[str], verbose: bool) -> None:
    terminal = console()
    subject, _, explanation = explained
    owner = explanation.owner
    request = f"{explanation.operation} of {explanation.resource}, {subject}, in {_name_cluster(explanation.cluster)}"
    terminal.print(styled(request, "bold"))
    terminal.print(styled(f"owner: {'none' if owner.cluster is None else _name_cluster(owner.cluster)} ({owner.case})"))
    for step in owner.trace:
        terminal.print(styled(f"  {step}", "bold red" if step == owner.problem else "cyan"))
    for phase, hooks in (("mutating", explanation.mutating), ("validating", explanation.validating)):
        if phase in phases:
            terminal.print(styled(f"{phase}:" if hooks else f"{phase}: no webhooks"))
            for hook in hooks:
                _print_hook(terminal, hook, verbose=verbose)
    if explanation.shadowed:
        terminal.print(styled("shadowed, because the schema is not the cluster's own:"))
        for one in explanation.shadowed:
            terminal.print(styled(f"  {one}", "yellow"))
    for note in explanation.notes:
        terminal.print(styled(f"note: {note}", "yellow"))


def _name_cluster(name: str) -> str:
    return name or "the cluster"


def _print_hook(terminal: Console, hook: ExplainedHook, *, verbose: bool) -> None:
    reason = f"{hook.stage}: {hook.reason}" if hook.stage else hook.reason
    terminal.print(styled(f"  {hook.decision:<6}", _STYLES[hook.decision]), styled(f"{hook.uid}  {reason}"))
    if verbose:
        for one in hook.predicates:
            terminal.print(styled(f"           {'yes' if one.ok else 'no ':<4}{one.stage}: {one.reason}", "dim"))
    if hook.nearest_miss:
        terminal.print(styled(f"         nearest miss: {hook.nearest_miss}", "dim"))
    for note in hook.notes:
        terminal.print(styled(f"         note: {note}", "yellow"))


def print_rows(rows: Sequence[Row]) -> None:
    """Write rows as a table to standard output."""
    terminal = console()
    cells = [("CLUSTER", "OBJECT", "OWNER", "WEBHOOKS"), *map(_format_cells, rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    for line, row in zip(cells, (None, *rows), strict=True):
        style = "bold" if row is None else "bold red" if row.refused else ""
        first = "  ".join(cell.ljust(width) for cell, width in zip(line[:3], widths, strict=True))
        terminal.print(styled(f"{first}  {line[3]}", style))


def _format_cells(row: Row) -> tuple[str, str, str, str]:
    called = f"refused: {row.refused}" if row.refused else ", ".join(row.called)
    return row.cluster or "-", row.object, "none" if row.owner is None else row.owner or "-", called or "-"
