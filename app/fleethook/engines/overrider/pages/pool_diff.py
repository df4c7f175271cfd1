"""Compares the workload of a node pool with its template side by side, and names the entry behind each changed line."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.console.yaml_paths import Line, list_lines
from fleethook.engines.overrider.plan.plan import Plan
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.delta import name_tokens
from fleethook.engines.overrider.rollout.preview import Cell, Preview, preview, without_bookkeeping
from fleethook.model.json import JSONObject
from fleethook.patch import format_pointer

# The time of a comparison grows with the square of the lines in the worst case: 4,000 lines take less than a second.
MAX_LINES: Final = 4_000
CONTEXT: Final = 3
EVERY_LINE: Final = -1

LineKind = Literal["same", "changed", "gap"]


class DiffLine(NamedTuple):
    """One line of both sides.

    Attributes:
        kind: ``gap`` replaces lines that are the same on both sides and are left out.
        left: The line of the template, None if it has none.
        right: The line of the rendered workload, None if it has none.
        left_number: The line's number, 0 without a line.
        right_number: As `left_number`.
        source: The part of the overrider that made the difference, such as ``entries[0].items[1]``.
        skipped: The number of lines that a gap leaves out.
    """

    kind: LineKind
    left: str | None = None
    right: str | None = None
    left_number: int = 0
    right_number: int = 0
    source: str = ""
    skipped: int = 0


class PoolDiff(NamedTuple):
    """The workload of one cell beside its template.

    Attributes:
        preview: The rendered workload, as the command ``render`` prints it.
        lines: The comparison; empty if the texts are too long, see `is_too_long`.
        is_too_long: Whether only the list of changes can be shown.
    """

    preview: Preview
    lines: Sequence[DiffLine]
    is_too_long: bool


class DiffInput(NamedTuple):
    """The rendered workload of one cell with its plan; nothing changes either later."""

    preview: Preview
    plan: Plan


def prepare_diff(cell: Cell, *, store: StoreView, plans: PlanCache) -> DiffInput:
    """Return the input of a comparison. Only this part reads the store.

    Args:
        cell: The subject, overrider, node pool and kind.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.

    Raises:
        SubjectError: The subject describes no workload.
        RenderError: The overrider does not fit.
    """
    shown = preview(cell, store, plans)
    group_kind, document, cluster = cell.subject
    plan = plans.plan(
        group_kind, document, cell.overrider, kind=cell.kind, pool=cell.pool, cluster=cluster, store=store
    )
    return DiffInput(shown, plan.full)


def compare_with_template(of: DiffInput, *, context: int = CONTEXT) -> PoolDiff:
    """Return the comparison of a rendered workload with its template.

    The annotations with which fleethook remembers its changes are left out: no entry makes them.

    Args:
        of: The workload and its plan.
        context: Unchanged lines to show around changes; negative for all lines.
    """
    left, right = of.plan.bare, without_bookkeeping(of.preview.workload)
    before, after = list_lines(left), list_lines(right)
    if max(len(before), len(after)) > MAX_LINES:
        return PoolDiff(of.preview, (), is_too_long=True)
    lines = list(_compare(before, after, _Sources(of.plan, left, right)))
    return PoolDiff(of.preview, lines if context < 0 else list(_shorten(lines, context)), is_too_long=False)


class _Sources:
    """Finds the entry behind a line of either side."""

    def __init__(self, plan: Plan, left: JSONObject, right: JSONObject) -> None:
        self._plan: Final = plan
        self._documents: Final = {"left": left, "right": right}

    def find(self, side: Literal["left", "right"], path: tuple[str, ...]) -> str:
        """Return the path of the step that changed a member; for an unnamed path, that of the nearest parent."""
        tokens = name_tokens(self._documents[side], format_pointer(path))
        while tokens:
            if source := self._plan.source_of(tokens):
                return source
            tokens = tokens[:-1]
        return ""


def _compare(before: Sequence[Line], after: Sequence[Line], sources: _Sources) -> Iterator[DiffLine]:
    matcher = SequenceMatcher(None, [one.text for one in before], [one.text for one in after], autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for offset in range(max(end - start, other_end - other_start)):
            left = before[start + offset] if start + offset < end else None
            right = after[other_start + offset] if other_start + offset < other_end else None
            source = "" if tag == "equal" else _name_source(left, right, sources)
            yield DiffLine(
                "same" if tag == "equal" else "changed",
                None if left is None else left.text,
                None if right is None else right.text,
                0 if left is None else start + offset + 1,
                0 if right is None else other_start + offset + 1,
                source,
            )


def _name_source(left: Line | None, right: Line | None, sources: _Sources) -> str:
    source = "" if right is None else sources.find("right", right.path)
    return source or ("" if left is None else sources.find("left", left.path))


def _shorten(lines: Sequence[DiffLine], context: int) -> Iterator[DiffLine]:
    """Yield the changed lines with some lines around them, and a gap in place of the others."""
    near = {
        position
        for number, line in enumerate(lines)
        if line.kind == "changed"
        for position in range(number - context, number + context + 1)
    }
    skipped = 0
    for number, line in enumerate(lines):
        if number in near:
            if skipped:
                yield DiffLine("gap", skipped=skipped)
            skipped = 0
            yield line
        else:
            skipped += 1
    if skipped and near:
        yield DiffLine("gap", skipped=skipped)
