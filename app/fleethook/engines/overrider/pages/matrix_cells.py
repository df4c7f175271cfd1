"""The cells of the matrix: their states and colours, their workloads, and the comparison with the template.

The comparison of a workload with its template is side by side, and names the entry behind each changed line. The
console is a tool for one person, so a page may hold the event loop while it renders its cells.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import groupby
from typing import Final, Literal, NamedTuple

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.watched_resources import WORKLOADS
from fleethook.cluster.store import ObjectKey, Store, StoreView
from fleethook.console.context import ConsoleContext
from fleethook.console.page_frame import YamlLine, list_lines
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.pages.matrix_rows_and_addresses import (
    MatrixPage,
    SubjectRow,
    find_cell,
    list_running,
    list_subject_keys,
    make_row,
    workload_key,
)
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.stored_workload_comparison import detect_drift
from fleethook.engines.overrider.render.template_delta import name_tokens
from fleethook.engines.overrider.rollout.pool_previews_and_changes import CellKey, PoolWorkload, count_changes
from fleethook.engines.overrider.rollout.workload_effect_and_openyurt_writes import compare
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.formats.text import counted
from fleethook.model.json import JSONObject
from fleethook.patch import apply, format_pointer
from fleethook.work.threads_and_gc import Worker

HEAT_LEVELS: Final = (1, 2, 4)
"""The least number of changed fields of each level of the heat map."""
# A diff compares at most some thousand lines in a thread.
_TURN: Final = "overriders"
# Requests to the API server at the same time. kubectl's default is 50 requests per second.
_MAX_REQUESTS: Final = 10

ReadWorkload = Callable[[ObjectKey], Awaitable[JSONObject | None]]
"""Returns a complete Deployment or StatefulSet, None if it does not exist or cannot be read."""


# The time of a comparison grows with the square of the lines in the worst case: 4,000 lines take less than a second.
MAX_LINES: Final = 4_000
CONTEXT: Final = 3
EVERY_LINE: Final = -1
LineKind = Literal["same", "changed", "gap"]


class SideBySide(NamedTuple):
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
        warnings: The warnings of a review of the workload.
        lines: The comparison; empty if the texts are too long, see `is_too_long`.
        is_too_long: Whether the texts are too long for a comparison.
    """

    warnings: Sequence[str]
    lines: Sequence[SideBySide]
    is_too_long: bool


def compare_with_template(plan: Plan, *, context: int = CONTEXT, max_lines: int = MAX_LINES) -> PoolDiff:
    """Return the comparison of a rendered workload with its template.

    Args:
        plan: The plan of the workload.
        context: Unchanged lines to show around changes; negative for all lines.
        max_lines: Longer texts are not compared.
    """
    left, right = plan.create.bare, plan.new_workload
    before, after = list_lines(left), list_lines(right)
    if max(len(before), len(after)) > max_lines:
        return PoolDiff(plan.warnings, (), is_too_long=True)

    def name_source(line: YamlLine | None, other: YamlLine | None) -> str:
        return _find_source(plan, right, other) or _find_source(plan, left, line)

    lines = list(_compare(before, after, name_source))
    return PoolDiff(plan.warnings, lines if context < 0 else list(_shorten(lines, context)), is_too_long=False)


def _find_source(plan: Plan, document: JSONObject, line: YamlLine | None) -> str:
    """Return the path of the step that changed the line of a side, or the nearest parent of an unnamed member."""
    tokens = () if line is None else name_tokens(document, format_pointer(line.path))
    return next((found for end in range(len(tokens), 0, -1) if (found := plan.source_of(tokens[:end]))), "")


def _compare(
    before: Sequence[YamlLine],
    after: Sequence[YamlLine],
    name_source: Callable[[YamlLine | None, YamlLine | None], str],
) -> Iterator[SideBySide]:
    matcher = SequenceMatcher(None, [line.text for line in before], [line.text for line in after], autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for offset in range(max(end - start, other_end - other_start)):
            left = before[start + offset] if start + offset < end else None
            right = after[other_start + offset] if other_start + offset < other_end else None
            yield SideBySide(
                "same" if tag == "equal" else "changed",
                None if left is None else left.text,
                None if right is None else right.text,
                0 if left is None else start + offset + 1,
                0 if right is None else other_start + offset + 1,
                "" if tag == "equal" else name_source(left, right),
            )


def _shorten(lines: Sequence[SideBySide], context: int) -> Iterator[SideBySide]:
    """Yield the changed lines with some lines around them, and a gap in place of the others."""
    near = {
        position
        for number, line in enumerate(lines)
        if line.kind == "changed"
        for position in range(number - context, number + context + 1)
    }
    for is_near, run in groupby(enumerate(lines), lambda one: one[0] in near):
        shown = [line for _, line in run]
        if is_near:
            yield from shown
        elif near:
            yield SideBySide("gap", skipped=len(shown))


State = Literal["error", "rolls", "overridden", "unchanged"]
"""``error``: cannot be rendered. ``rolls``: a running workload differs from its plan, so that its pods would be
replaced. ``overridden``: the overrider changes the template. ``unchanged``: it does not."""

LABELS: Final[dict[State, str]] = {
    "error": "error",
    "rolls": "would roll",
    "overridden": "overridden",
    "unchanged": "unchanged",
}


class CellState(NamedTuple):
    """The state of a cell.

    Attributes:
        state: The most urgent state that applies.
        changes: The number of fields that the overrider changes.
        text: The error, or the effect that is due; ``""`` without one.
    """

    state: State
    changes: int = 0
    text: str = ""

    @property
    def label(self) -> str:
        """The state as a reader sees it."""
        return LABELS[self.state]


def find_state(cell: PoolWorkload, running: Sequence[JSONObject], *, store: StoreView, plans: PlanCache) -> CellState:
    """Return the state of a cell.

    Args:
        cell: The subject, overrider, node pool and kind.
        running: The complete stored workloads of the cell; usually one, or none.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.
    """
    try:
        changes = count_changes(cell, store, plans)
    except (SubjectError, RenderError) as error:
        return CellState("error", text=str(error))
    texts = []
    for workload in running:
        drift = detect_drift(workload, kind=cell.kind, store=store, plans=plans)
        if drift.error:
            return CellState("error", changes, drift.error)
        effect = compare(cell.kind, workload, apply(workload, drift.operations))
        if effect.name == "rolls":
            return CellState("rolls", changes, "; ".join((f"replaces {counted(effect.pods, 'pod')}", *effect.notes)))
        if effect.name == "scales":
            texts.append(f"scales from {effect.replicas[0]} to {effect.replicas[1]} replicas")
        elif effect.name != "unchanged":
            texts.append(f"the next write changes its {effect.name}")
    return CellState("overridden" if changes else "unchanged", changes, "; ".join(texts))


class ShownCell(NamedTuple):
    """One cell with its state.

    Attributes:
        key: The cell.
        title: The subject, as its row shows it.
        state: None if its subject is gone.
    """

    key: CellKey
    title: str
    state: CellState | None

    @property
    def level(self) -> int:
        """How much the overrider changes, from 0 to 3."""
        changes = 0 if self.state is None else self.state.changes
        return sum(changes >= least for least in HEAT_LEVELS)


class ShownRow(NamedTuple):
    """One row of the table.

    Attributes:
        row: The subject.
        columns: The cells of each node pool; empty for one without workload of the subject.
    """

    row: SubjectRow
    columns: Sequence[Sequence[ShownCell]]


class CellView(NamedTuple):
    """One cell of the matrix.

    Attributes:
        diff: The workload beside its template; None if it cannot be rendered.
        error: The reason why it cannot be rendered, ``""`` if it can.
        overrider: The overrider in effect, None without one.
        shown: The state, compared with the stored workloads.
        running: The namespaces and names of the stored workloads that can be read; usually one.
        unread: The names of those that cannot be read.
    """

    diff: PoolDiff | None
    error: str
    overrider: ObjectKey | None
    shown: ShownCell
    running: Collection[tuple[str, str]]
    unread: Sequence[str]


class OverriderService:
    """Answers for the overriders page of one console."""

    def __init__(self, store: Store, read: ReadWorkload, worker: Worker) -> None:
        """Prepare.

        Args:
            store: Has overriders, subjects, NodePools and partial workloads, with the indexes of both.
            read: Reads a complete workload.
            worker: Runs long functions in a thread.
        """
        self._store: Final = store
        self._read: Final = read
        self._slots: Final = asyncio.Semaphore(_MAX_REQUESTS)
        self._worker: Final = worker
        self._plans: Final = PlanCache()

    def list_rows(self) -> list[SubjectRow]:
        """Return the rows of all subjects, in order."""
        rows = (make_row(self._store, key) for key in list_subject_keys(self._store))
        return [row for row in rows if row is not None]

    async def show_rows(self, selection: MatrixPage) -> list[ShownRow]:
        """Return the rows of a page of the matrix, with the states of its cells."""
        states = await self._compute(selection.rows, selection.cells)
        return [ShownRow(row, [_show(row, pool, states) for pool in selection.columns]) for row in selection.rows]

    async def _compute(self, rows: Sequence[SubjectRow], cells: Sequence[CellKey]) -> dict[CellKey, CellState]:
        """Return the states of cells, each compared with its running workloads."""
        pools: dict[ObjectKey, set[str]] = {row.key: set() for row in rows}
        for key in cells:
            pools[key.subject].add(key.pool)
        running = await self._read_running(rows, pools)
        found = {}
        for key in cells:
            cell = find_cell(self._store, key)
            if cell is not None:
                found[key] = find_state(cell, running.get(key, ()), store=self._store, plans=self._plans)
        return found

    async def _read_running(
        self, rows: Sequence[SubjectRow], pools: Mapping[ObjectKey, set[str]]
    ) -> dict[CellKey, list[JSONObject]]:
        """Return the complete workloads of subjects in some of their node pools."""
        wanted = {
            workload_key(workload, row.key, kind): CellKey(row.key, pool, kind)
            for row in rows
            for kind in row.kinds
            for pool, workloads in list_running(self._store, row.key, kind, pools[row.key]).items()
            for workload in workloads
        }
        answers = await asyncio.gather(*map(self._read_workload, wanted))
        found: dict[CellKey, list[JSONObject]] = {}
        for cell, document in zip(wanted.values(), answers, strict=True):
            if document is not None:
                found.setdefault(cell, []).append(document)
        return found

    async def _read_workload(self, key: ObjectKey) -> JSONObject | None:
        async with self._slots:
            return await self._read(key)

    async def show_cell(self, key: CellKey, *, everything: bool = False) -> CellView | None:
        """Return one cell with its diff, None if the subject has no such workload.

        Args:
            key: The cell.
            everything: Whether to show unchanged lines far from changes, too.
        """
        row, cell = make_row(self._store, key.subject), find_cell(self._store, key)
        if row is None or cell is None or key.pool not in row.pools or key.kind not in row.kinds:
            return None
        read = (await self._read_running([row], {row.key: {key.pool}})).get(key, [])
        shown = ShownCell(key, row.title, find_state(cell, read, store=self._store, plans=self._plans))
        running = {(key.subject.namespace, one["metadata"]["name"]) for one in read}
        stored = {one.name for one in list_running(self._store, row.key, key.kind, (key.pool,)).get(key.pool, ())}
        unread = sorted(stored.difference(name for _, name in running))
        try:
            plan = cell.plan(self._store, self._plans).full
        except (SubjectError, RenderError) as error:
            return CellView(None, str(error), row.overrider_key, shown, running, unread)
        context = EVERY_LINE if everything else CONTEXT
        diff = await self._worker.run(_TURN, partial(compare_with_template, plan, context=context))
        return CellView(diff, "", row.overrider_key, shown, running, unread)


def _show(row: SubjectRow, pool: str, states: Mapping[CellKey, CellState]) -> list[ShownCell]:
    keys = [CellKey(row.key, pool, kind) for kind in row.kinds]
    return [ShownCell(key, row.title, states[key]) for key in keys if key in states]


def make_service(context: ConsoleContext) -> OverriderService:
    """Return the service of a console."""
    return OverriderService(context.store, partial(_read_workload, context), context.worker)


async def _read_workload(context: ConsoleContext, key: ObjectKey) -> JSONObject | None:
    """Return one workload of the files or of the API server, None if it does not exist or cannot be read."""
    if context.manifests is not None:
        document = context.manifests.find(key)
        return None if document is None else document.object
    if context.cluster is None:
        return None
    resource = next(watched_resource for watched_resource in WORKLOADS if watched_resource.group_kind == key.group_kind)
    path = context.cluster.source.scope(key.cluster) + resource.in_namespace(key.namespace, key.name)
    try:
        found: JSONObject = await context.cluster.connection.json("GET", path)
    except (APIError, UnreachableError):
        return None
    return found
