"""Functions in threads with a fair queue, the work that waits for them, and the runs of the garbage collector.

Work is a generator, so that a review that needs no waiting is answered without a task. It yields the awaitables for
which it waits, receives their results, and returns its own result at the end.

CPython's reference counting frees nearly all objects; the garbage collector only finds cycles. A run visits all objects
of its generations in one step: 0.4 s for 10,000 webhook configurations with compiled conditions. So long-lived objects
are exempt from it. Reference counting still frees these, because they are in no cycles.
"""

import asyncio
import contextlib
import contextvars
import gc
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from queue import Empty, SimpleQueue
from types import CoroutineType
from typing import Any, Final, NamedTuple, TypeVar, cast

from fleethook.fair_limits import CallLimit

T = TypeVar("T")


# A waiting thread gets the GIL after this time in seconds. The event loop waits for the GIL several times per request:
# with Python's default of 5 ms, one busy thread adds 30 ms to every request.
_SWITCH_SECONDS: Final = 0.0005


class _Call(NamedTuple):
    """A function that waits for a thread."""

    result: asyncio.Future[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class _Busy:
    """The number of functions that run or wait; only the event loop changes it."""

    number = 0


class DaemonThreads:
    """Runs functions of one event loop in daemon threads: Python waits for the threads of a ``ThreadPoolExecutor``.

    A function that never returns, as one of an admission rule, must not keep a server from ending. Results come to the
    event loop directly: a future of `concurrent.futures` between them would take more than half of the time.
    """

    def __init__(self, threads: int, name: str) -> None:
        """Prepare; the first function starts a thread, and each further one if no thread is idle."""
        self._threads: Final = threads
        self._name: Final = name
        self._started = 0
        self._is_closed = False
        self._busy: Final = _Busy()
        self._waiting: Final[SimpleQueue[_Call | None]] = SimpleQueue()
        weakref.finalize(self, self._waiting.put, None)

    def run(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Return the future of a function's result; raises RuntimeError after `close`.

        A function whose future is cancelled before its turn does not run.
        """
        if self._is_closed:
            raise RuntimeError(f"the threads {self._name} are closed")
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._busy.number += 1
        self._waiting.put(_Call(result, contextvars.copy_context().run, (function, *arguments)))
        if self._started < min(self._busy.number, self._threads):
            favour_event_loop()
            threading.Thread(
                target=_run_all, args=(self._waiting, self._busy), name=f"{self._name}_{self._started}", daemon=True
            ).start()
            self._started += 1
        return result

    def close(self) -> None:
        """End the threads, and cancel the functions that wait; running ones end by themselves."""
        self._is_closed = True
        with contextlib.suppress(Empty):
            while (call := self._waiting.get_nowait()) is not None:
                call.result.cancel()
        self._waiting.put(None)


def _run_all(waiting: "SimpleQueue[_Call | None]", busy: _Busy) -> None:
    """Run functions until None arrives."""
    while (call := waiting.get()) is not None:
        end = partial(_end, busy, call.result)
        if not call.result.cancelled():
            try:
                end = partial(end, call.function(*call.arguments))
            except BaseException as error:  # noqa: BLE001 - the future raises it in the caller
                end = partial(end, None, error)
        with contextlib.suppress(RuntimeError):  # The loop is closed, so no caller waits.
            call.result.get_loop().call_soon_threadsafe(end)
        del call, end  # The next one may arrive much later.
    waiting.put(None)  # For the next thread.


def _end(busy: _Busy, future: asyncio.Future[T], result: T | None = None, error: BaseException | None = None) -> None:
    busy.number -= 1
    if future.done():
        return
    if isinstance(error, StopIteration):  # A future cannot raise it.
        error = RuntimeError("the function raised StopIteration")
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(cast("T", result))


class Worker:
    """Runs functions in threads of its own, which consumers share fairly (`fleethook.fair_limits`).

    A consumer is a logical cluster, a script or a route.
    """

    def __init__(self, threads: int = 1, *, name: str = "long-work") -> None:
        """Prepare; the first function starts a thread.

        Args:
            threads: The number of functions that run at a time; a single consumer has half of them.
            name: The prefix of the threads' names.
        """
        self._threads: Final = DaemonThreads(threads, name)
        self._limit: Final = CallLimit(threads)

    def __len__(self) -> int:
        """Return the number of functions that run or wait."""
        return self._limit.total + self._limit.waiting

    def count(self, consumer: str) -> int:
        """Return the number of functions of a consumer that run or wait."""
        return self._limit.count(consumer)

    async def run(self, consumer: str, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function, or raise its exception.

        Args:
            consumer: The consumer whose turn is used.
            function: The function; it must not read data that the event loop changes.
            arguments: The arguments of the function.
        """
        turn = self._limit.join(consumer)
        if turn is not None:
            await self._limit.wait(turn, consumer)
        try:
            work = self._threads.run(function, *arguments)
        except BaseException:
            self._limit.release(consumer)
            raise
        # Cancelling the caller does not end the function, so it keeps its turn until it returns.
        work.add_done_callback(lambda _: self._limit.release(consumer))
        try:
            return await asyncio.shield(work)
        finally:
            del work  # Its exception refers to this frame, so they would be a cycle.

    def close(self) -> None:
        """Stop the threads; running functions end by themselves."""
        self._threads.close()


def favour_event_loop() -> None:
    """Shorten the switch interval of Python, so that the event loop waits less for a busy thread."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))


Work = Generator[Any, Any, T]
"""Work, which yields the awaitables for which it waits. It receives their results, which are never coroutines."""


def begin(work: Work[T]) -> T | Coroutine[Any, Any, T]:
    """Do work until it waits.

    Work that does not wait needs no task, no coroutine and no event loop. This function runs no coroutine, because
    `asyncio.timeout` and aiohttp fail outside a task.

    Args:
        work: The work.

    Returns:
        The result, or a coroutine that goes on with the work and returns the result.

    Raises:
        Exception: The work has failed before it waited.
    """
    try:
        waiting = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    return _go_on(work, waiting)


async def finish(begun: T | Coroutine[Any, Any, T]) -> T:
    """Return the result of work that `begin` has begun."""
    return await begun if isinstance(begun, CoroutineType) else cast("T", begun)


async def run_work(work: Work[T]) -> T:
    """Do work to its end and return its result."""
    return await finish(begin(work))


async def _go_on(work: Work[T], waiting: Awaitable[Any]) -> T:
    try:
        while True:
            try:
                found = await waiting
            except Exception as error:  # noqa: BLE001 - the work handles it where it waits
                waiting = work.throw(error)
            else:
                waiting = work.send(found)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        # A cancellation ends the work now. Otherwise, the garbage collector would end it at some later time.
        work.close()


# A review allocates about 500 containers. Reference counting frees them, because JSON has no cycles. By default, the
# collector runs every 700 allocations, so several times in each review, and finds nothing. A run takes 0.5 ms for 5,000
# young objects. Those that survive are examined once more after 20,000 allocations, in 5 to 12 ms; after 100,000, that
# takes 130 to 200 ms. Older objects are never examined: they live long, or are garbage of a few requests.
_THRESHOLDS: Final = (5_000, 4, 1_000_000)


def settle_garbage_collector() -> None:
    """Exempt all loaded objects from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
