"""Answers the questions of the overriders page from the live store: reads workloads and runs the views in slices.

Slices that read the store run on the event loop, because the event loop changes the store. Work on data that nobody
changes runs in a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.kubernetes.resources import WORKLOADS
from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.context import ConsoleContext
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.pages.edit_report import (
    MAX_WORKLOADS,
    Edited,
    EditReport,
    Part,
    list_affected_workloads,
    locate_edit,
    locate_parts,
    parse_overrider,
    report_edit,
)
from fleethook.engines.overrider.pages.fleet import (
    STATES,
    CellKey,
    CellState,
    State,
    SubjectRow,
    find_cell,
    list_running,
)
from fleethook.engines.overrider.pages.fleet_scan import (
    CellStates,
    ClusterWorkloads,
    CompleteWorkloads,
    FleetScan,
    ManifestWorkloads,
)
from fleethook.engines.overrider.pages.matrix import (
    CONTEXT,
    EVERY_LINE,
    NO_GROUPS,
    Column,
    PoolDiff,
    Query,
    Selection,
    States,
    compare_with_template,
    count_states,
    filter_rows,
    prepare_diff,
    read_labels,
    select,
)
from fleethook.engines.overrider.pages.running_workload import RunningWorkload, describe_workload
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.json import JSONObject
from fleethook.work.turns import Turns, Worker

HEAT_LEVELS: Final = (1, 2, 4)
"""The least number of changed fields of each level of the heat map."""
# 240 cells with templates of 6 KB take about 100 ms. The scan computes the others.
MAX_COMPUTED: Final = 240


class ShownCell(NamedTuple):
    """One cell with its state.

    Attributes:
        key: The cell.
        title: The subject, as its row shows it.
        state: None if it is not known yet.
    """

    key: CellKey
    title: str
    state: CellState | None

    @property
    def level(self) -> int:
        """How much the overrider changes, from 0 to 3."""
        changes = 0 if self.state is None else self.state.changes
        return sum(changes >= least for least in HEAT_LEVELS)


class ShownGroup(NamedTuple):
    """The cells of a subject in a folded group of node pools.

    Attributes:
        column: The group.
        total: The number of cells.
        known: The number of cells whose state is known.
        state: The most urgent known state, None if none is known.
        number: The number of cells in that state.
    """

    column: Column
    total: int
    known: int
    state: State | None
    number: int


class ShownRow(NamedTuple):
    """One row of the table.

    Attributes:
        row: The subject.
        columns: The cells of each column, or the summary of a folded group; empty for a node pool without workload of
            the subject.
    """

    row: SubjectRow
    columns: Sequence[Sequence[ShownCell | ShownGroup]]

    @property
    def unknown(self) -> int:
        """The number of cells whose state is not known yet."""
        cells = (cell for column in self.columns for cell in column)
        return sum(one.total - one.known if isinstance(one, ShownGroup) else one.state is None for one in cells)


def fill_table(selection: Selection, states: Mapping[CellKey, CellState], known: States) -> list[ShownRow]:
    """Return the rows of a table with the states of their cells.

    Args:
        selection: The rows and columns.
        states: The states of single cells.
        known: The states that the scan knows, for folded groups.
    """
    rows = []
    for row in selection.rows:
        pools, of_row = frozenset(row.pools), known.get(row.key, {})
        columns: list[list[ShownCell | ShownGroup]] = []
        for column in selection.columns:
            if column.pools:
                columns.append(_summarize(row, column, pools, of_row))
            elif column.name in pools:
                columns.append([_show(CellKey(row.key, column.name, kind), row.title, states) for kind in row.kinds])
            else:
                columns.append([])
        rows.append(ShownRow(row, columns))
    return rows


def _summarize(
    row: SubjectRow, column: Column, pools: Collection[str], known: CellStates
) -> list[ShownCell | ShownGroup]:
    """Return the summary of a folded group, nothing if the subject has no workload in it."""
    keys = [(kind, pool) for pool in column.pools if pool in pools for kind in row.kinds]
    if not keys:
        return []
    counts = Counter(known[key].state for key in keys if key in known)
    worst = next((state for state in STATES if counts[state]), None)
    return [ShownGroup(column, len(keys), counts.total(), worst, counts[worst] if worst else 0)]


def fill_list(
    selection: Selection, states: Mapping[CellKey, CellState], rows: Mapping[ObjectKey, SubjectRow]
) -> list[ShownCell]:
    """Return the cells of a list with their states; ``rows`` has the subjects by key."""
    return [_show(key, rows[key.subject].title, states) for key in selection.cells]


def _show(key: CellKey, title: str, states: Mapping[CellKey, CellState]) -> ShownCell:
    return ShownCell(key, title, states.get(key))


if TYPE_CHECKING:
    from fleethook.cluster.followed_cluster import Cluster

# A diff compares at most some thousand lines in a thread, and the editor decodes at most 1 MiB there.
_TURN: Final = "overriders"


class MatrixView(NamedTuple):
    """One page of the matrix.

    Attributes:
        query: The parameters, with an existing page.
        selection: The shown part.
        rows: The rows of the table, empty for a list.
        cells: The cells of the list, empty for a table.
        subjects: The number of all subjects.
        size: The number of all cells.
        totals: The number of known cells by state.
        known: The number of cells whose state is known.
        is_complete: Whether the totals are those of the present objects.
        unknown: The number of cells of the table whose state is not known yet.
    """

    query: Query
    selection: Selection
    rows: Sequence[ShownRow]
    cells: Sequence[ShownCell]
    subjects: int
    size: int
    totals: Mapping[State, int]
    known: int
    is_complete: bool
    unknown: int


class KnownStates(NamedTuple):
    """The subjects, with the states of their cells that are known now."""

    rows: Sequence[SubjectRow]
    states: States
    is_complete: bool


class CellView(NamedTuple):
    """One cell of the matrix.

    Attributes:
        diff: The workload beside its template; None if it cannot be rendered.
        error: The reason why it cannot be rendered, ``""`` if it can.
        overrider: The overrider in effect, None without one.
        shown: The state, compared with the stored workloads.
        running: The stored workloads that can be read; usually one.
        unread: The names of those that cannot be read.
    """

    diff: PoolDiff | None
    error: str
    overrider: ObjectKey | None
    shown: ShownCell
    running: Sequence[RunningWorkload]
    unread: Sequence[str]


class EditView(NamedTuple):
    """An edit with its report.

    Attributes:
        edited: The edit.
        report: Its effect.
        named_namespace: Whether the typed text names its namespace.
        unread: The number of stored workloads that could not be read.
        parts: The parts of the text that made the differences, and the one that the editor opens at, by path.
    """

    edited: Edited
    report: EditReport
    named_namespace: bool
    unread: int
    parts: Mapping[str, Part]


class OverriderService:
    """Answers for the overriders page of one console."""

    def __init__(self, store: Store, workloads: CompleteWorkloads, worker: Worker) -> None:
        """Prepare.

        Args:
            store: Has overriders, subjects, NodePools and partial workloads, with the indexes of both.
            workloads: Reads complete workloads.
            worker: Runs long functions in a thread.
        """
        self._store: Final = store
        self._workloads: Final = workloads
        self._worker: Final = worker
        self._turns: Final = Turns()
        self.scan: Final = FleetScan(store, workloads)

    async def show_matrix(self, query: Query) -> MatrixView:
        """Return a page of the matrix; a scan of all cells goes on in the background."""
        with self.scan.paused():
            view = await self._show_matrix(query)
        self.scan.start()
        return view

    async def list_states(self) -> KnownStates:
        """Return the known states of all cells, without computing any; a scan goes on in the background."""
        with self.scan.paused():
            rows = await self.scan.list_rows()
        known = KnownStates(rows, dict(self.scan.states), self.scan.is_complete)
        self.scan.start()
        return known

    async def _show_matrix(self, query: Query) -> MatrixView:
        rows = await self.scan.list_rows()
        visible = {row.key: row for row in rows}
        # The scan goes on while the thread selects.
        states, is_complete = dict(self.scan.states), self.scan.is_complete
        groups = read_labels(self._store, {row.key.cluster for row in rows}, query.by) if query.by else NO_GROUPS
        selection, totals = await self._worker.run(_TURN, _select, rows, query, states, groups)
        found = await self._find_states(selection.cells, visible)
        # A folded group counts the cells of thousands of node pools.
        table = await self._worker.run(_TURN, fill_table, selection, found, states)
        return MatrixView(
            query._replace(page=selection.paging.page, columns=selection.column_paging.page),
            selection,
            table,
            fill_list(selection, found, visible) if query.layout == "list" else (),
            subjects=len(rows),
            size=sum(row.size for row in rows),
            totals=totals,
            known=sum(totals.values()),
            is_complete=is_complete,
            unknown=sum(one.unknown for one in table),
        )

    async def _find_states(
        self, cells: Sequence[CellKey], rows: Mapping[ObjectKey, SubjectRow]
    ) -> dict[CellKey, CellState]:
        """Return the states that the scan knows, and those of the first other cells."""
        current: dict[ObjectKey, CellStates] = {}
        # Checking the inputs of a subject takes milliseconds. A list by node pool has another subject in each cell.
        for subject in dict.fromkeys(one.subject for one in cells):
            current[subject] = self.scan.find_current(subject)
            await asyncio.sleep(0)
        found = {one: state for one in cells if (state := current[one.subject].get((one.kind, one.pool))) is not None}
        missing = [one for one in cells if one not in found][:MAX_COMPUTED]
        return found | await self._compute(missing, rows)

    async def _compute(
        self, cells: Sequence[CellKey], rows: Mapping[ObjectKey, SubjectRow]
    ) -> dict[CellKey, CellState]:
        """Return the states of the shown cells, each compared with its running workloads."""
        pools: dict[ObjectKey, list[str]] = {}
        for cell in cells:
            pools.setdefault(cell.subject, []).append(cell.pool)
        read = await asyncio.gather(*(self.scan.read_running(rows[key], names) for key, names in pools.items()))
        running = {cell: workloads for one in read for cell, workloads in one.items()}
        return await self.scan.compute(cells, running)

    async def show_cell(self, key: CellKey, *, everything: bool = False) -> CellView | None:
        """Return one cell with its diff, None if the subject has no such workload.

        Args:
            key: The cell.
            everything: Whether to show unchanged lines far from changes, too.
        """
        with self.scan.paused():
            return await self._show_cell(key, everything=everything)

    async def _show_cell(self, key: CellKey, *, everything: bool) -> CellView | None:
        rows = {row.key: row for row in await self.scan.list_rows() if row.key == key.subject}
        row = rows.get(key.subject)
        cell = find_cell(self._store, key)
        if row is None or cell is None or key.pool not in row.pools or key.kind not in row.kinds:
            return None
        read = await self.scan.read_running(row, [key.pool])
        shown = ShownCell(key, row.title, (await self.scan.compute([key], read)).get(key))
        running = [describe_workload(one) for one in read.get(key, ())]
        stored = {one.name for one in list_running(self._store, row.key, key.kind, (key.pool,)).get(key.pool, ())}
        unread = sorted(stored.difference(one.name for one in running))
        try:
            prepared = prepare_diff(cell, store=self._store, plans=self.scan.plans)
        except (SubjectError, RenderError) as error:
            return CellView(None, str(error), row.overrider_key, shown, running, unread)
        context = EVERY_LINE if everything else CONTEXT
        diff = await self._worker.run(_TURN, partial(compare_with_template, prepared, context=context))
        return CellView(diff, "", row.overrider_key, shown, running, unread)

    async def show_edit(self, text: str, *, opened: ObjectKey | None, pool: str = "", at: str = "") -> EditView:
        """Return the effect of a typed text.

        Args:
            text: The text.
            opened: The overrider that the editor was opened for.
            pool: Compare only node pools whose name contains this text.
            at: The path of the part that the editor opens at.

        Raises:
            EditError: The text is no overrider that can be compared.
        """
        with self.scan.paused():
            return await self._show_edit(text, opened=opened, pool=pool, at=at)

    async def _show_edit(self, text: str, *, opened: ObjectKey | None, pool: str, at: str) -> EditView:
        document = await self._worker.run(_TURN, parse_overrider, text)
        edited = locate_edit(document, self._store, opened=opened)
        keys = list_affected_workloads(edited, self._store)
        running: dict[ObjectKey, JSONObject] | None = None
        if len(keys) <= MAX_WORKLOADS:
            running = await self._workloads.read(keys)
        report = await self._turns.run(report_edit(edited, self._store, running, stored=len(keys), pool=pool))
        fields = {one.source for change in report.changes for one in change.changes if one.after is not None}
        parts = await self._worker.run(_TURN, locate_parts, document, {at, *fields} - {""})
        unread = 0 if running is None else len(keys) - len(running)
        named = bool(document.object["metadata"].get("namespace"))
        return EditView(edited, report, named, unread, parts)

    async def close(self) -> None:
        """End the scan."""
        await self.scan.close()


def _select(
    rows: Sequence[SubjectRow], query: Query, states: States, groups: Mapping[str, str]
) -> tuple[Selection, dict[State, int]]:
    matching = filter_rows(rows, query) if query.subject or query.pool else None
    return select(rows, query, states, groups), count_states(states, matching)


def make_service(context: ConsoleContext) -> OverriderService:
    """Return the service of a console."""
    workloads: CompleteWorkloads
    if context.manifests is not None:
        workloads = ManifestWorkloads(context.manifests)
    else:
        workloads = ClusterWorkloads(partial(_read_workload, context.cluster))
    return OverriderService(context.store, workloads, context.worker)


async def _read_workload(cluster: "Cluster | None", key: ObjectKey) -> JSONObject:
    """Return one workload that the API server stores; raises APIError, UnreachableError."""
    if cluster is None:
        raise UnreachableError("the console reads no cluster")
    resource = next(one for one in WORKLOADS if one.group_kind == key.group_kind)
    path = cluster.source.scope(key.cluster) + resource.in_namespace(key.namespace, key.name)
    found: JSONObject = await cluster.connection.json("GET", path)
    return found
