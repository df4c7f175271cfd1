"""Values of a console that requests share: the first request makes one, and a change of the store renews it."""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from starlette.requests import Request

from fleethook.cluster.partial_and_stale_objects import PARTIAL_KINDS
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.console.context import ConsoleContext
from fleethook.console.page_frame import find_context
from fleethook.work.threads_and_gc import Worker

T = TypeVar("T")


class Watched(NamedTuple, Generic[T]):
    """The last value of a watch.

    Attributes:
        value: The value, None before the first result.
        is_current: Whether it is that of the present objects; otherwise a newer one is being computed.
        problem: Why the last attempt failed, ``""`` if it did not.
    """

    value: T | None
    is_current: bool
    problem: str = ""


class Watch(Generic[T]):
    """Computes a value in a thread of its own. A page takes the last one, and need not wait.

    The value must not depend on workloads: a fleet of 100,000 would take minutes to check.
    """

    def __init__(self, store: Store, prepare: Callable[[], Callable[[], T]]) -> None:
        """Follow the changes of a store; nothing is computed before `find` or `get`.

        Args:
            store: The objects.
            prepare: Takes the objects out of the store, and returns the work for the thread.
        """
        self._prepare: Final = prepare
        # Findings of a large fleet take seconds, and pages need the thread of their context.
        self._worker: Final = Worker()
        self._version = 0
        self._computed = -1
        self._value: T | None = None
        self._problem = ""
        self._task: asyncio.Task[None] | None = None
        store.subscribe(self._note_change)

    def find(self) -> Watched[T]:
        """Return the last value, and have a newer one computed if the objects have changed."""
        is_current = self._computed == self._version
        if not is_current and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._compute(), name="value of a page")
        return Watched(self._value, is_current, self._problem)

    async def get(self) -> Watched[T]:
        """Return the value of the objects that are present now, or the problem."""
        version = self._version
        while self._computed < version:
            self.find()
            assert self._task is not None
            await asyncio.wait([self._task])
        return Watched(self._value, self._computed == self._version, self._problem)

    async def _compute(self) -> None:
        version = self._version
        try:
            self._value = await self._worker.run("", self._prepare())
        except Exception as error:  # noqa: BLE001 - a defect in a check must not end the page, and the page names it
            self._problem = f"{type(error).__name__}: {error}"
        else:
            self._problem = ""
        self._computed = version

    def _note_change(self, key: ObjectKey, _before: Stored | None, _after: object) -> None:
        self._version += key.group_kind not in PARTIAL_KINDS


class KeptValue(Generic[T]):
    """Finds its value in the application that answers a request, so that two consoles of one process share nothing."""

    def __init__(self, make: Callable[[ConsoleContext], T]) -> None:
        """Store the function that makes the value.

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
