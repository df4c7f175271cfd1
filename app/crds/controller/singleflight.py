"""Fetching on threads, once for all who want the same at the same time.

Threads are our own: those of the loop's executor would be waited for at the end of the process, however long they take,
and an entry of the cache is whole whenever they stop.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

from app.crds.failures import CRDsError, Exit

T = TypeVar("T")
R = TypeVar("R")


class Flight(Generic[T]):
    """Work under way."""

    def __init__(self, work: Callable[["Flight[T]"], T], *, name: str) -> None:
        """Begin; ``work`` is called on a thread."""
        self._loop: Final = asyncio.get_running_loop()
        self._asking: Final[asyncio.Future[None]] = self._loop.create_future()
        self.landed: Final[asyncio.Future[T]] = self._loop.create_future()
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    def starting(self) -> None:
        """Say that the origin is about to be asked; called on the thread."""
        self._soon(lambda: self._settle(self._asking, None))

    def call(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the loop and return its result; called on the thread."""
        try:
            called = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            # The loop is closed.
            work.close()
            raise
        return called.result()

    async def wait(self, asked: Callable[[], Awaitable[None]]) -> T:
        """Return what comes of it; ``asked`` is awaited if the origin is asked meanwhile."""
        events: list[asyncio.Future[Any]] = [self._asking, self.landed]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        if self._asking.done() and not self.landed.done():
            await asked()
        return await asyncio.shield(self.landed)

    def _run(self, work: Callable[["Flight[T]"], T]) -> None:
        try:
            result = work(self)
        except BaseException as error:  # noqa: BLE001 - whatever it is, who waits is to know
            failure = (
                error if isinstance(error, CRDsError) else CRDsError(Exit.INTERNAL, f"{type(error).__name__}: {error}")
            )
            self._soon(lambda: self._fail(failure))
        else:
            self._soon(lambda: self._settle(self.landed, result))

    def _soon(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            return

    @staticmethod
    def _settle(future: "asyncio.Future[R]", result: R) -> None:
        if not future.done():
            future.set_result(result)

    def _fail(self, error: Exception) -> None:
        if not self.landed.done():
            self.landed.set_exception(error)
            # One that nobody waits for any more is nobody's failure.
            self.landed.exception()


class Flights(Generic[T]):
    """Work under way, by what it is for."""

    def __init__(self) -> None:
        self._flights: Final[dict[Hashable, Flight[T]]] = {}

    def join(self, key: Hashable, work: Callable[[Flight[T]], T], *, name: str) -> Flight[T]:
        """Return the work for ``key`` that is under way, or begin it."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = Flight(work, name=name)
            flight.landed.add_done_callback(lambda _: self._flights.pop(key, None))
        return flight
