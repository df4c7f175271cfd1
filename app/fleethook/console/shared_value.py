"""Values of a console that requests share: the first request makes one, and a change of the store renews it."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Generic, TypeVar

from starlette.requests import Request

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.console.context import ConsoleContext
from fleethook.console.rendering import find_context
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.work.worker import Worker

T = TypeVar("T")


class Memo(Generic[T]):
    """Computes a value in a thread, at most once for each state of the store."""

    def __init__(self, store: Store, kinds: Collection[GroupKind], compute: Callable[[Store], T]) -> None:
        """Follow a store.

        Args:
            store: The objects.
            kinds: The kinds that the value depends on.
            compute: Returns the value for a copy of the store with these kinds.
        """
        self._store: Final = store
        self._kinds: Final = frozenset(kinds)
        self._compute: Final = compute
        self._lock: Final = asyncio.Lock()
        self._changes = 0
        self._computed: tuple[int, T] | None = None
        store.subscribe(self._count)

    def _count(self, key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
        if key.group_kind in self._kinds:
            self._changes += 1

    async def get(self, worker: Worker) -> T:
        """Return the value for the present objects; several callers share one computation."""
        async with self._lock:
            if self._computed is None or self._computed[0] != self._changes:
                changes = self._changes
                self._computed = changes, await worker.run("", self._compute, self._store.copy(self._kinds))
            return self._computed[1]


class KeptValue(Generic[T]):
    """Finds its value in the application that answers a request, so that two consoles of one process share nothing."""

    def __init__(self, make: Callable[[ConsoleContext], T]) -> None:
        """Say how the value is made.

        Args:
            make: Returns the value for a console; it must not compute values that no page may need.
        """
        self._make: Final = make

    def find(self, request: Request) -> T:
        """Return the value of the application that answers a request; the first request makes it."""
        kept: dict[KeptValue[T], T] = request.app.state.kept_values
        if self not in kept:
            kept[self] = self._make(find_context(request))
        return kept[self]
