"""Calls on threads that concurrent callers share, as in Go's golang.org/x/sync/singleflight.

The threads are daemon threads. The end of the process would wait for those of the loop's executor, and need not: an
entry of the cache is complete at any moment.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

from fleethook.engines.crds.crds_errors import CRDsError, Exit

T = TypeVar("T")
R = TypeVar("R")


class SharedCall(Generic[T]):
    """A call that runs on a thread, with any number of waiters."""

    def __init__(self, work: Callable[["SharedCall[T]"], T], *, name: str) -> None:
        """Start a thread that calls ``work``."""
        self._loop: Final = asyncio.get_running_loop()
        self._asking: Final[asyncio.Future[None]] = self._loop.create_future()
        self.future: Final[asyncio.Future[T]] = self._loop.create_future()
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    def starting(self) -> None:
        """Notify waiters that a request to the origin begins; called on the thread."""
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
        """Wait for the result; awaits ``asked`` first if a request to the origin begins meanwhile."""
        events: list[asyncio.Future[Any]] = [self._asking, self.future]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        if self._asking.done() and not self.future.done():
            await asked()
        return await asyncio.shield(self.future)

    def _run(self, work: Callable[["SharedCall[T]"], T]) -> None:
        try:
            result = work(self)
        except BaseException as error:  # noqa: BLE001 - waiters get every error
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
            # The loop is closed: no waiter is left.
            return

    @staticmethod
    def _settle(future: "asyncio.Future[R]", result: R) -> None:
        if not future.done():
            future.set_result(result)

    def _fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            # Marks the exception as retrieved: there may be no waiter any more.
            self.future.exception()


class SingleFlight(Generic[T]):
    """Running calls by key."""

    def __init__(self) -> None:
        self._calls: Final[dict[Hashable, SharedCall[T]]] = {}

    def join(self, key: Hashable, work: Callable[[SharedCall[T]], T], *, name: str) -> SharedCall[T]:
        """Return the running call for ``key``, or start it."""
        flight = self._calls.get(key)
        if flight is None:
            flight = self._calls[key] = SharedCall(work, name=name)
            flight.future.add_done_callback(lambda _: self._calls.pop(key, None))
        return flight
