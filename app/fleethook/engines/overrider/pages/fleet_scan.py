"""Computes the states of all cells in the background, for filters by state. Only changed subjects are computed again.

A page never waits for the scan: it shows the known part and how much is missing.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey, PartialObject, Stored, Subscriber
from fleethook.engines.overrider.controller.workload_decision import plan_workload
from fleethook.engines.overrider.pages.fleet import (
    CellKey,
    CellState,
    FleetView,
    SubjectRow,
    find_cell,
    find_overrider,
    find_state,
    list_running,
    list_subject_keys,
    make_row,
    workload_key,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_index import WORKLOAD_INDEXES, hash_of, pool_of
from fleethook.engines.overrider.subject.subject_members import depends_on_node_pools, same_input
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL
from fleethook.work.garbage import GCFreezer
from fleethook.work.pausing import Pauses, Work
from fleethook.work.turns import Turns

# Requests to the API server at the same time. kubectl's default is 50 requests per second.
_MAX_REQUESTS: Final = 10


class CompleteWorkloads(Protocol):
    """The complete Deployments and StatefulSets of a source."""

    @property
    def revision(self) -> int:
        """A number that changes with any workload whose partial copy does not show the change."""

    @property
    def is_remote(self) -> bool:
        """Whether each read is a request, so that callers read only the necessary ones."""

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that exist and can be read."""


class ManifestWorkloads:
    """The workloads of manifest files, which are in memory."""

    is_remote: Final = False

    def __init__(self, source: ManifestSource) -> None:
        """Prepare to read the objects of a source."""
        self._source: Final = source

    @property
    def revision(self) -> int:
        """The revision of the files."""
        return self._source.revision

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that are in the files."""
        return {key: found.object for key in keys if (found := self._source.find(key)) is not None}


class ClusterWorkloads:
    """The workloads of a cluster, each read by a request."""

    is_remote: Final = True
    revision: Final = 0

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


_T = TypeVar("_T")
_PLAN_BYTES: Final = 64 << 20
# A subject with 50 node pools in its topology takes 20 µs to list, one with 5,000 node pools some milliseconds.
_SUBJECTS_IN_A_SLICE: Final = 10
_CELLS_IN_A_SLICE: Final = 10
# Comparing the hash of a workload with that of its plan takes 25 µs.
_WORKLOADS_IN_A_SLICE: Final = 100
_INDEXES: Final = {one.group_kind: one for one in WORKLOAD_INDEXES.values()}
CONTAINERS_OF_A_CELL: Final = 4
"""An estimate of the long-lived containers of a cell: those of its plan, and the keys of its state."""

CellStates = Mapping[tuple[str, str], CellState]


class ObservedFleet(FleetView, Protocol):
    """A store that reports its changes."""

    def subscribe(self, subscriber: Subscriber) -> object:
        """Call ``subscriber`` after each change."""


class _Inputs(NamedTuple):
    """The objects that the states of a subject were computed from."""

    document: JSONObject
    overrider: JSONObject | None
    node_pools: int
    workloads: int
    revision: int

    def equals(self, other: "_Inputs") -> bool:
        """Return whether the states are the same; a changed status is no difference."""
        return (
            self[2:] == other[2:]
            and same_input(self.document, other.document)
            and same_input(self.overrider, other.overrider)
        )


def _read_version(workload: PartialObject) -> tuple[object, ...]:
    """Return the members that decide on a state; a changed status is no difference."""
    uids = tuple(owner.get("uid") for owner in workload.owners)
    return uids, pool_of(workload), workload.generation, hash_of(workload), workload.deleting


class FleetScan:
    """The rows of all subjects, and the states of their cells.

    Attributes:
        plans: The plans that pages and the scan share.
        states: The known states by subject.
    """

    def __init__(self, store: ObservedFleet, workloads: CompleteWorkloads) -> None:
        """Prepare; `list_rows` and `start` read the store."""
        self._store: Final = store
        self._workloads: Final = workloads
        self._turns: Final = Turns()
        self._node_pools = 0
        # The changes of each subject's workloads. A comparison of 5,000 workloads at each page took 13 ms.
        self._workload_changes: Final[Counter[Hashable]] = Counter()
        self._version = 0
        self._listed_at = -1
        self._scanned_at: tuple[int, int] | None = None
        self._rows: dict[ObjectKey, tuple[_Inputs, SubjectRow]] = {}
        self._inputs: Final[dict[ObjectKey, _Inputs]] = {}
        self._shared: Final[dict[CellState, CellState]] = {}
        self._task: asyncio.Task[None] | None = None
        # Pages in progress. The scan waits for them: otherwise each page would wait for its slices, too.
        self._pages = 0
        self._idle: Final = asyncio.Event()
        self._idle.set()
        # Plans and states live long. A full collection that visited them took 90 to 160 ms.
        self._freezer: Final = GCFreezer()
        self.plans: Final = PlanCache(max_bytes=_PLAN_BYTES)
        self.states: Final[dict[ObjectKey, CellStates]] = {}
        store.subscribe(self._note)

    def _note(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        self._version += 1
        if key.group_kind == NODE_POOL and not same_input(before, after):
            self._node_pools += 1
        elif (index := _INDEXES.get(key.group_kind)) is not None:
            now = self._store.get(*key)
            if before is None or now is None or _read_version(before) != _read_version(now):
                owners = [owner for one in (before, now) if one is not None for owner in index.keys(key.cluster, one)]
                self._workload_changes.update(owners)

    async def list_rows(self) -> list[SubjectRow]:
        """Return the rows of all subjects in order, listed again where they changed."""
        if self._listed_at != self._version:
            version = self._version
            self._rows = await self._turns.run(self._list_rows())
            self._listed_at = version
            for key in self.states.keys() - self._rows.keys():
                del self.states[key], self._inputs[key]
        return [row for _, row in self._rows.values()]

    def _list_rows(self) -> Work[dict[ObjectKey, tuple[_Inputs, SubjectRow]]]:
        rows: dict[ObjectKey, tuple[_Inputs, SubjectRow]] = {}
        pauses = Pauses(_SUBJECTS_IN_A_SLICE)
        for key in list_subject_keys(self._store):
            inputs = self._read_inputs(key, with_running=False)
            if inputs is None:
                continue
            known = self._rows.get(key)
            row = known[1] if known is not None and known[0].equals(inputs) else make_row(self._store, key)
            if row is not None:
                rows[key] = (inputs, row)
                if pauses.due(1 if known else _SUBJECTS_IN_A_SLICE if inputs.node_pools else 1 + row.size // 1_000):
                    yield
        return rows

    def _read_inputs(self, key: ObjectKey, *, with_running: bool) -> _Inputs | None:
        document = self._store.get(*key)
        if document is None:
            return None
        overrider = find_overrider(self._store, key)
        node_pools = self._node_pools + 1 if depends_on_node_pools(key.group_kind, document, (overrider,)) else 0
        workloads, revision = (self._workload_changes[key], self._workloads.revision) if with_running else (0, 0)
        return _Inputs(document, overrider, node_pools, workloads, revision)

    @property
    def is_complete(self) -> bool:
        """Whether the states are those of the present objects."""
        return self._scanned_at == (self._version, self._workloads.revision)

    def find_current(self, key: ObjectKey) -> CellStates:
        """Return the states of a subject's cells, empty unless they are those of the present objects."""
        known = self._inputs.get(key)
        inputs = None if known is None else self._read_inputs(key, with_running=True)
        return self.states[key] if known is not None and inputs is not None and known.equals(inputs) else {}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the scan within the context, for a page in progress."""
        self._pages += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._pages -= 1
            if not self._pages:
                self._idle.set()

    def start(self) -> None:
        """Start the scan unless it runs or its result is current."""
        if not self.is_complete and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self.scan())

    async def close(self) -> None:
        """End a running scan."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def scan(self) -> None:
        """Compute the states of all changed subjects."""
        version = (self._version, self._workloads.revision)
        for row in await self.list_rows():
            inputs = self._read_inputs(row.key, with_running=True)
            known = self._inputs.get(row.key)
            await self._wait_for_turn()
            if inputs is None or (known is not None and known.equals(inputs)):
                continue
            search = self._find_workloads(row, row.pools, candidates_only=self._workloads.is_remote)
            running = await self._read(await self._run_between_pages(search))
            keys = [CellKey(row.key, pool, kind) for pool in row.pools for kind in row.kinds]
            found = await self._run_between_pages(self._compute(keys, running))
            self.states[row.key] = {(key.kind, key.pool): state for key, state in found.items()}
            self._inputs[row.key] = inputs
            self._freezer.add(CONTAINERS_OF_A_CELL * len(found))
        self._scanned_at = version

    async def read_running(self, row: SubjectRow, pools: Sequence[str]) -> dict[CellKey, list[JSONObject]]:
        """Return the complete workloads of a subject in some node pools."""
        return await self._read(await self._turns.run(self._find_workloads(row, pools, candidates_only=False)))

    async def _read(self, wanted: Mapping[ObjectKey, CellKey]) -> dict[CellKey, list[JSONObject]]:
        found: dict[CellKey, list[JSONObject]] = {}
        for key, document in (await self._workloads.read(list(wanted))).items():
            found.setdefault(wanted[key], []).append(document)
        return found

    def _find_workloads(
        self, row: SubjectRow, pools: Sequence[str], *, candidates_only: bool
    ) -> Work[dict[ObjectKey, CellKey]]:
        """Return the keys of the workloads of a subject in some node pools, with their cells.

        Args:
            row: The subject.
            pools: The node pools.
            candidates_only: Whether to leave out workloads whose hash shows that they are as their plan.
        """
        wanted: dict[ObjectKey, CellKey] = {}
        pauses = Pauses(_WORKLOADS_IN_A_SLICE)
        for kind in row.kinds:
            for pool, workloads in list_running(self._store, row.key, kind, frozenset(pools)).items():
                cell = CellKey(row.key, pool, kind)
                for workload in workloads:
                    yield from self._prepare(cell) if candidates_only else ()
                    if not (candidates_only and self._is_rendered(workload, cell)):
                        wanted[workload_key(workload, row.key, kind)] = cell
                if pauses.due():
                    yield
        return wanted

    def _prepare(self, key: CellKey) -> Work[None]:
        """Compile the plan of a cell in slices: for a subject with 5,000 node pools, this takes 15 ms."""
        cell = find_cell(self._store, key)
        if cell is not None:
            (group_kind, document, cluster), overrider, pool, kind = cell
            yield from self.plans.prepare(
                group_kind, document, overrider, kind=kind, pool=pool, cluster=cluster, store=self._store
            )

    def _is_rendered(self, workload: PartialObject, key: CellKey) -> bool:
        """Return whether the hash of the last render is that of the plan."""
        overrider = find_overrider(self._store, key.subject)
        plan, _ = plan_workload(workload, key.subject, overrider, kind=key.kind, store=self._store, plans=self.plans)
        return plan is None or hash_of(workload) == plan.digest

    async def _run_between_pages(self, work: Work[_T]) -> _T:
        """Do work while no page is in progress, and return its result."""
        while True:
            await self._wait_for_turn()
            try:
                next(work)
            except StopIteration as end:
                result: _T = end.value
                return result

    async def _wait_for_turn(self) -> None:
        """Let others go on, and wait until no page is in progress."""
        await asyncio.sleep(0)
        await self._idle.wait()

    async def compute(
        self, keys: Sequence[CellKey], running: Mapping[CellKey, Sequence[JSONObject]]
    ) -> dict[CellKey, CellState]:
        """Return the states of some cells; the event loop serves requests meanwhile."""
        return await self._turns.run(self._compute(keys, running))

    def _compute(
        self, keys: Sequence[CellKey], running: Mapping[CellKey, Sequence[JSONObject]]
    ) -> Work[dict[CellKey, CellState]]:
        found: dict[CellKey, CellState] = {}
        pauses = Pauses(_CELLS_IN_A_SLICE)
        subject: ObjectKey | None = None
        for key in keys:
            yield from self._prepare(key)
            cell = find_cell(self._store, key)
            if cell is not None:
                state = find_state(cell, running.get(key, ()), store=self._store, plans=self.plans)
                found[key] = self._shared.setdefault(state, state)
            # The first cell may compile the plans of its subject, which takes milliseconds for 5,000 node pools.
            if pauses.due(1 if key.subject == subject else _CELLS_IN_A_SLICE):
                yield
            subject = key.subject
        return found
