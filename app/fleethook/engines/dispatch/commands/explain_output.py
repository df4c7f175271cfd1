"""The output of ``fleethook explain``: text, or the JSON of the server's explain route."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

import msgspec

from fleethook.cli.options import TextOutput
from fleethook.cli.output.text_output import Styled, concatenate, styled, write_error, write_json, write_styled
from fleethook.engines.dispatch.explain import ExplainedHook, Explanation

_STYLES: Final = {"call": "green", "skip": "dim", "error": "bold red", "unknown": "yellow"}


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


class View(NamedTuple):
    """The selected output.

    Attributes:
        output: The output format. JSON always has all checks.
        phases: Phases to print.
        every: Whether ``--all`` is given, which prints each request in short.
        verbose: Whether to print all checks, also of webhooks that are called.
    """

    output: TextOutput
    phases: Sequence[str]
    every: bool
    verbose: bool


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
    return next((f"{one.uid}: {one.stage}: {one.reason}" for one in hooks if one.decision in ("error", "unknown")), "")


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


def print_explained(explained: Sequence[ExplainedRequest], view: View) -> None:
    """Write explanations to standard output: as one table or list with ``--all``, else one after the other."""
    rows = [make_row(one) for one in explained] if view.every else []
    if view.every:
        write_json(rows) if view.output is TextOutput.JSON else _print_table(list(map(_format_row, rows)))
        return
    for one in explained:
        if view.output is TextOutput.JSON:
            write_json(one.explanation)
            continue
        for line in _format_tree(one, view):
            write_styled(line)


def print_differences(pairs: Sequence[tuple[ExplainedRequest, ExplainedRequest]], view: View) -> None:
    """Write the differences between explanations before and after a change to standard output.

    With ``--all``, only requests that are sent to other webhooks are listed, and their number goes to standard error.
    """
    if view.every:
        rows = [(make_row(before), make_row(after)) for before, after in pairs]
        changed = [(before, after) for before, after in rows if before != after]
        if view.output is TextOutput.JSON:
            write_json([{"before": before, "after": after} for before, after in changed])
        elif changed:
            _print_table([_format_changed_row(before, after) for before, after in changed])
        write_error(f"{len(changed)} of {len(rows)} requests are sent to other webhooks")
        return
    for before, after in pairs:
        if view.output is TextOutput.JSON:
            changed_call = make_row(before) != make_row(after)
            write_json({"changed": changed_call, "before": before.explanation, "after": after.explanation})
        else:
            _print_tree_difference(list(_format_tree(before, view)), list(_format_tree(after, view)))


def _print_tree_difference(before: Sequence[Styled], after: Sequence[Styled]) -> None:
    """Print the lines of the tree after a change, and with ``-`` those that it no longer has."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        same = tag == "equal"
        for line in () if same else before[start:end]:
            write_styled(concatenate(styled("- ", "red"), line))
        for line in after[new_start:new_end]:
            write_styled(concatenate(styled("  " if same else "+ ", "" if same else "green"), line))


def _format_tree(explained: ExplainedRequest, view: View) -> Iterator[Styled]:
    subject, _, explanation = explained
    owner = explanation.owner
    request = f"{explanation.operation} of {explanation.resource}, {subject}, in {_name_cluster(explanation.cluster)}"
    yield styled(request, "bold")
    yield styled(f"owner: {'none' if owner.cluster is None else _name_cluster(owner.cluster)} ({owner.case})")
    for step in owner.trace:
        yield styled(f"  {step}", "bold red" if step == owner.problem else "cyan")
    for phase, hooks in (("mutating", explanation.mutating), ("validating", explanation.validating)):
        if phase in view.phases:
            yield styled(f"{phase}:" if hooks else f"{phase}: no webhooks")
            for hook in hooks:
                yield from _format_hook(hook, verbose=view.verbose)
    if explanation.shadowed:
        yield styled("shadowed, because the schema is not the cluster's own:")
        for one in explanation.shadowed:
            yield styled(f"  {one}", "yellow")
    for note in explanation.notes:
        yield styled(f"note: {note}", "yellow")


def _name_cluster(name: str) -> str:
    return name or "the cluster"


def _format_hook(hook: ExplainedHook, *, verbose: bool) -> Iterator[Styled]:
    reason = f"{hook.stage}: {hook.reason}" if hook.stage else hook.reason
    yield concatenate(
        styled(f"  {hook.decision:<6}", _STYLES[hook.decision]), styled(" "), styled(f"{hook.uid}  {reason}")
    )
    if verbose:
        for one in hook.predicates:
            yield styled(f"           {'yes' if one.ok else 'no ':<4}{one.stage}: {one.reason}", "dim")
    if hook.nearest_miss:
        yield styled(f"         nearest miss: {hook.nearest_miss}", "dim")
    for note in hook.notes:
        yield styled(f"         note: {note}", "yellow")


class _Line(NamedTuple):
    """A line of the table of all requests."""

    cells: tuple[str, str, str]
    webhooks: str
    is_refused: bool


def _print_table(lines: Sequence[_Line]) -> None:
    every = [_Line(("CLUSTER", "OBJECT", "OWNER"), "WEBHOOKS", is_refused=False), *lines]
    widths = [max(len(line.cells[column]) for line in every) for column in range(3)]
    for number, line in enumerate(every):
        style = "bold" if not number else "bold red" if line.is_refused else ""
        first = "  ".join(cell.ljust(width) for cell, width in zip(line.cells, widths, strict=True))
        write_styled(styled(f"{first}  {line.webhooks}", style))


def _format_row(row: Row) -> _Line:
    return _Line(
        (row.cluster or "-", row.object, _format_owner(row)), _format_called(row), is_refused=bool(row.refused)
    )


def _format_owner(row: Row) -> str:
    return "none" if row.owner is None else row.owner or "-"


def _format_called(row: Row) -> str:
    return f"refused: {row.refused}" if row.refused else ", ".join(row.called) or "-"


def _format_changed_row(before: Row, after: Row) -> _Line:
    """Return a line with the webhooks that are called no longer (-) and newly (+)."""
    if before.refused or after.refused:
        text = f"{_format_called(before)} -> {_format_called(after)}"
    else:
        gone = [f"-{one}" for one in before.called if one not in after.called]
        added = [f"+{one}" for one in after.called if one not in before.called]
        text = ", ".join([*gone, *added]) or "the same webhooks in another order"
    was, now = _format_owner(before), _format_owner(after)
    owner = now if was == now else f"{was} -> {now}"
    return _Line((after.cluster or "-", after.object, owner), text, is_refused=bool(after.refused))
