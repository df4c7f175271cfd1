"""Counts the findings of the current objects in the background, again after each change that a page asks about."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.cluster.store.store import PARTIAL_KINDS, Stored
from fleethook.console.context import ConsoleContext
from fleethook.engine import list_linting, load_reference
from fleethook.model.gvk import GroupKind
from fleethook.work.worker import Worker

CLUSTER: Final = "cluster"
"""The source of objects that no file has."""


class FindingCount(NamedTuple):
    """The number of findings with a code about objects of a kind; ``level`` is ``error`` or ``warning``."""

    level: str
    code: str
    kind: str
    total: int


def collect_documents(store: Store) -> list[Document]:
    """Return the objects of a store that findings are about. Workloads are partial, and no finding is about them."""
    kinds = [kind for kind in store.counts() if kind not in PARTIAL_KINDS]
    return [Document(one, CLUSTER, 0) for kind in kinds for one in _list_objects(store, kind)]


def _list_objects(store: Store, kind: GroupKind) -> Iterator[dict[str, object]]:
    for key in list(store.keys(kind)):
        if (found := store.get(*key)) is not None:
            yield found


def select_checked(documents: Sequence[Document]) -> list[Document]:
    """Return the documents that findings are about: a fleet of 100,000 workloads would take minutes to check."""
    return [one for one in documents if key_of(one.object).group_kind not in PARTIAL_KINDS]


def count_findings(documents: Sequence[Document]) -> list[FindingCount]:
    """Return the numbers of findings about objects, errors first. It reads no other object, so a thread may call it."""
    engines = list_linting()
    store = Store([index for one in engines for index in load_reference(one.indexes)])
    for document in documents:
        store.put(document.object)
    rows = (row for one in engines for row in load_reference(one.lint)(documents, store, None))
    found: Counter[tuple[str, str, str]] = Counter((row.level, row.code, row.kind) for row in rows)
    return [FindingCount(*key, total) for key, total in sorted(found.items())]


def select_kinds(counts: Sequence[FindingCount], kinds: Collection[GroupKind]) -> list[FindingCount]:
    """Return the counts about some kinds."""
    names = {one.kind for one in kinds}
    return [one for one in counts if one.kind in names]


class LintState(NamedTuple):
    """The last findings.

    Attributes:
        counts: The findings, None before the first result.
        is_current: Whether they are about the current objects; otherwise newer ones are being computed.
        problem: Why the last attempt failed, ``""`` if it did not.
    """

    counts: tuple[FindingCount, ...] | None
    is_current: bool
    problem: str = ""


class LintWatch:
    """Computes findings in a thread. A page never waits for them."""

    def __init__(self, context: ConsoleContext) -> None:
        """Follow the changes of the store; nothing is computed before `find`."""
        self._context: Final = context
        # A thread of its own: findings of a large fleet take seconds, and pages need the other one.
        self._worker: Final = Worker()
        self._version = 0
        self._counted = -1
        self._counts: tuple[FindingCount, ...] | None = None
        self._problem = ""
        self._task: asyncio.Task[None] | None = None
        context.store.subscribe(self._note_change)

    def find(self) -> LintState:
        """Return the last findings, and have newer ones computed if the objects have changed."""
        is_current = self._counted == self._version
        if not is_current and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._count(), name="findings of the overview")
        return LintState(self._counts, is_current, self._problem)

    async def _count(self) -> None:
        version, manifests = self._version, self._context.manifests
        store = self._context.store
        documents: Sequence[Document] = collect_documents(store) if manifests is None else manifests.documents()
        try:
            counts = await self._worker.run("", lambda: count_findings(select_checked(documents)))
        except Exception as error:  # noqa: BLE001 - a defect in a check must not end the page, and the page names it
            self._problem = f"{type(error).__name__}: {error}"
        else:
            self._counts, self._problem = tuple(counts), ""
        self._counted = version

    def _note_change(self, key: ObjectKey, _before: Stored | None, _after: object) -> None:
        self._version += key.group_kind not in PARTIAL_KINDS
