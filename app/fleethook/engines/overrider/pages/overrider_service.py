"""Answers the questions of the overriders page from the live store: reads workloads and computes the shown cells.

The console is a tool for one person, so a page may hold the event loop while it renders its cells.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.resources import WORKLOADS
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.context import ConsoleContext
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.pages.fleet import (
    CellKey,
    CellState,
    SubjectRow,
    find_cell,
    find_state,
    list_running,
    list_subject_keys,
    make_row,
    workload_key,
)
from fleethook.engines.overrider.pages.matrix import (
    CONTEXT,
    EVERY_LINE,
    PoolDiff,
    Query,
    Selection,
    compare_with_template,
    prepare_diff,
    select,
)
from fleethook.engines.overrider.pages.running_workload import RunningWorkload, describe_workload
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.json import JSONObject
from fleethook.work.turns import Worker

HEAT_LEVELS: Final = (1, 2, 4)
"""The least number of changed fields of each level of the heat map."""
# A diff compares at most some thousand lines in a thread.
_TURN: Final = "overriders"
# Requests to the API server at the same time. kubectl's default is 50 requests per second.
_MAX_REQUESTS: Final = 10

if TYPE_CHECKING:
    from fleethook.cluster.followed_cluster import Cluster


class CompleteWorkloads(Protocol):
    """The complete Deployments and StatefulSets of a source."""

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that exist and can be read."""


class ManifestWorkloads:
    """The workloads of manifest files, which are in memory."""

    def __init__(self, source: ManifestSource) -> None:
        """Prepare to read the objects of a source."""
        self._source: Final = source

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that are in the files."""
        return {key: found.object for key in keys if (found := self._source.find(key)) is not None}


class ClusterWorkloads:
    """The workloads of a cluster, each read by a request."""

    def __init__(self, read_one: Callable[[ObjectKey], Awaitable[Mapping[str, object]]]) -> None:
        """Prepare; ``read_one`` returns the object of a key, or raises APIError or UnreachableError."""
        self._read_one: Final = read_one
        self._slots: Final = asyncio.Semaphore(_MAX_REQUESTS)

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that the API server returns; those it refuses or lacks are left out."""
        answers = await asyncio.gather(*(self._try_read(key) for key in keys))
        return {key: answer for key, answer in zip(keys, answers, strict=True) if answer is not None}

    async def _try_read(self, key: ObjectKey) -> JSONObject | None:
        async with self._slots:
            try:
                return dict(await self._read_one(key))
            except (APIError, UnreachableError):
                return None


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


class MatrixView(NamedTuple):
    """One page of the matrix.

    Attributes:
        query: The parameters, with an existing page.
        selection: The shown part.
        rows: The rows of the table.
        subjects: The number of all subjects.
        size: The number of all cells.
    """

    query: Query
    selection: Selection
    rows: Sequence[ShownRow]
    subjects: int
    size: int


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
        self._plans: Final = PlanCache()

    def list_rows(self) -> list[SubjectRow]:
        """Return the rows of all subjects, in order."""
        rows = (make_row(self._store, key) for key in list_subject_keys(self._store))
        return [row for row in rows if row is not None]

    async def show_matrix(self, query: Query) -> MatrixView:
        """Return a page of the matrix, with the states of its cells."""
        rows = self.list_rows()
        selection = select(rows, query)
        states = await self._compute(selection.rows, selection.cells)
        shown = [ShownRow(row, [_show(row, pool, states) for pool in selection.columns]) for row in selection.rows]
        return MatrixView(
            query._replace(page=selection.paging.page, columns=selection.column_paging.page),
            selection,
            shown,
            subjects=len(rows),
            size=sum(row.size for row in rows),
        )

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
        found: dict[CellKey, list[JSONObject]] = {}
        for key, document in (await self._workloads.read(list(wanted))).items():
            found.setdefault(wanted[key], []).append(document)
        return found

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
        running = [describe_workload(one) for one in read]
        stored = {one.name for one in list_running(self._store, row.key, key.kind, (key.pool,)).get(key.pool, ())}
        unread = sorted(stored.difference(one.name for one in running))
        try:
            prepared = prepare_diff(cell, store=self._store, plans=self._plans)
        except (SubjectError, RenderError) as error:
            return CellView(None, str(error), row.overrider_key, shown, running, unread)
        context = EVERY_LINE if everything else CONTEXT
        diff = await self._worker.run(_TURN, partial(compare_with_template, prepared, context=context))
        return CellView(diff, "", row.overrider_key, shown, running, unread)


def _show(row: SubjectRow, pool: str, states: Mapping[CellKey, CellState]) -> list[ShownCell]:
    keys = [CellKey(row.key, pool, kind) for kind in row.kinds]
    return [ShownCell(key, row.title, states[key]) for key in keys if key in states]


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
