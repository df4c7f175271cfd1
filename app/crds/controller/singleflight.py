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


class SharedCall(Generic[T]):
    """Work under way."""

    def __init__(self, work: Callable[["SharedCall[T]"], T], *, name: str) -> None:
        """Begin; ``work`` is called on a thread."""
        self._loop: Final = asyncio.get_running_loop()
        self._asking: Final[asyncio.Future[None]] = self._loop.create_future()
        self.future: Final[asyncio.Future[T]] = self._loop.create_future()
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
        events: list[asyncio.Future[Any]] = [self._asking, self.future]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        if self._asking.done() and not self.future.done():
            await asked()
        return await asyncio.shield(self.future)

    def _run(self, work: Callable[["SharedCall[T]"], T]) -> None:
        try:
            result = work(self)
        except BaseException as error:  # noqa: BLE001 - whatever it is, who waits is to know
            failure = (
                error if isinstance(error, CRDsError) else CRDsError(Exit.INTERNAL, f"{type(error).__name__}: {error}")
            )
            self._soon(lambda: self._fail(failure))
        else:
            self._soon(lambda: self._settle(self.future, result))

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
        if not self.future.done():
            self.future.set_exception(error)
            # One that nobody waits for any more is nobody's failure.
            self.future.exception()


class SingleFlight(Generic[T]):
    """Work under way, by what it is for."""

    def __init__(self) -> None:
        self._calls: Final[dict[Hashable, SharedCall[T]]] = {}

    def join(self, key: Hashable, work: Callable[[SharedCall[T]], T], *, name: str) -> SharedCall[T]:
        """Return the work for ``key`` that is under way, or begin it."""
        flight = self._calls.get(key)
        if flight is None:
            flight = self._calls[key] = SharedCall(work, name=name)
            flight.future.add_done_callback(lambda _: self._calls.pop(key, None))
        return flight
