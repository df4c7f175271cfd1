"""Turns on the event loop and in threads, shared by pieces of work that pause (`fleethook.work.pausing`)."""

import asyncio
import contextlib
import contextvars
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from fleethook.fairness.slots import Limits, Slots
from fleethook.work.garbage import collect_survivors
from fleethook.work.pausing import Slice, Work, begin

T = TypeVar("T")


def call_in_daemon_thread(function: Callable[[], T], *, name: str) -> "Future[T]":
    """Call ``function`` in a new thread and return a future of its result, which cannot be cancelled."""
    result: Future[T] = Future()
    # A running future cannot be cancelled, so setting its result never fails.
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the future raises it in the caller
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


_T = TypeVar("_T")
# A waiting thread gets the GIL after this time in seconds. The event loop waits for the GIL several times per request:
# with Python's default of 5 ms, one busy thread adds 30 ms to every request.
_SWITCH_SECONDS: Final = 0.0005


class _Call(Generic[_T]):
    """A function that runs in a thread. Cancelling the caller does not end it, so it keeps its turn until it returns.

    It needs two futures fewer than ``run_in_executor`` with ``shield``. This saves two iterations of the event loop.
    """

    __slots__ = ("_has_ended", "_lane", "_loop", "_slots", "_waiter", "result")

    def __init__(self, loop: asyncio.AbstractEventLoop, slots: Slots, lane: str) -> None:
        self._loop: Final = loop
        self._slots: Final = slots
        self._lane: Final = lane
        self._has_ended = False
        self._waiter: asyncio.Future[None] | None = None
        self.result: Final[asyncio.Future[_T]] = loop.create_future()

    def end(self, work: Future[_T]) -> None:
        """Let the event loop take the result; a thread calls this."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
            self._loop.call_soon_threadsafe(self.take, work)

    def take(self, work: Future[_T]) -> None:
        """Take the result of the function, which has returned; the event loop calls this once."""
        self._slots.release(self._lane)
        self._has_ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self.result.done():
            return
        if work.cancelled():
            self.result.cancel()
        elif (problem := work.exception()) is not None:
            self.result.set_exception(problem)
        else:
            self.result.set_result(work.result())

    async def wait(self) -> None:
        """Wait until the function has returned."""
        if not self._has_ended:
            self._waiter = self._loop.create_future()
            await self._waiter


_Waiting: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]"


class DaemonThreads:
    """Runs functions in daemon threads: at its end, Python waits for the threads of a ``ThreadPoolExecutor``.

    A function that never returns, as one of an admission rule, must not keep a server from ending.
    """

    def __init__(self, threads: int, name: str) -> None:
        """Prepare; the first function starts a thread, and each further one if no thread is idle."""
        self._threads: Final = threads
        self._name: Final = name
        self._started = 0
        self._is_closed = False
        self._idle: Final = threading.Semaphore(0)
        self._waiting: Final[_Waiting] = SimpleQueue()
        weakref.finalize(self, self._waiting.put, None)

    def submit(self, function: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Return the future of a function's result; raises RuntimeError after `close`."""
        if self._is_closed:
            raise RuntimeError(f"the threads {self._name} are closed")
        work: Future[_T] = Future()
        self._waiting.put((work, function, arguments))
        if not self._idle.acquire(blocking=False) and self._started < self._threads:
            threading.Thread(
                target=_run_all, args=(self._waiting, self._idle), name=f"{self._name}_{self._started}", daemon=True
            ).start()
            self._started += 1
        return work

    def close(self) -> None:
        """End the threads, and cancel the functions that wait; running ones end by themselves."""
        self._is_closed = True
        with contextlib.suppress(Empty):
            while (call := self._waiting.get_nowait()) is not None:
                call[0].cancel()
        self._waiting.put(None)


def _run_all(waiting: _Waiting, idle: threading.Semaphore) -> None:
    """Run functions until None arrives."""
    while True:
        try:
            call = waiting.get_nowait()
        except Empty:
            idle.release()
            call = waiting.get()
        if call is None:
            waiting.put(None)  # For the next thread.
            return
        _run_call(*call)
        del call  # The next one may arrive much later.


def _run_call(work: Future[_T], function: Callable[..., _T], arguments: tuple[Any, ...]) -> None:
    if not work.set_running_or_notify_cancel():
        return
    try:
        work.set_result(function(*arguments))
    except BaseException as error:  # noqa: BLE001 - the future raises it in the caller
        work.set_exception(error)
        del work, function, arguments  # The traceback has this frame, so they would be a cycle.


class Worker:
    """Runs functions in threads of its own. Lanes take turns, so that no lane waits for all the work of another.

    A lane is a logical cluster, a script or a route.
    """

    def __init__(self, threads: int = 1, *, share: int | None = None, name: str = "long-work") -> None:
        """Prepare; the first function starts a thread.

        Args:
            threads: The number of functions that run at a time.
            share: The number of functions of one lane that run at a time; None for all threads.
            name: The prefix of the threads' names.
        """
        self._threads: Final = threads
        self._name: Final = name
        self._executor: DaemonThreads | None = None
        self._slots: Final = Slots(Limits(threads, each=share or threads))

    def __len__(self) -> int:
        """Return the number of functions that run or wait."""
        return self._slots.held + self._slots.queued

    def count(self, lane: str) -> int:
        """Return the number of functions of a lane that run or wait."""
        return self._slots.count(lane)

    async def run(self, lane: str, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return the result of a function, or raise its exception.

        Args:
            lane: The lane whose turn is used.
            function: The function; it must not read data that the event loop changes.
            arguments: The arguments of the function.
        """
        turn = self._slots.join(lane)
        if turn is not None:
            await self._slots.wait(turn, lane)
        call = self._begin(lane, function, arguments)
        try:
            return await call.result
        except asyncio.CancelledError:
            await call.wait()
            raise
        finally:
            del call

    def _begin(self, lane: str, function: Callable[..., _T], arguments: tuple[Any, ...]) -> _Call[_T]:
        """Run a function in a thread; its lane holds a slot already."""
        call = _Call[_T](asyncio.get_running_loop(), self._slots, lane)
        try:
            work = self._ensure_executor().submit(contextvars.copy_context().run, function, *arguments)
        except BaseException:
            self._slots.release(lane)
            raise
        work.add_done_callback(call.end)
        return call

    def close(self) -> None:
        """Stop the threads; running functions end by themselves."""
        if self._executor is not None:
            self._executor.close()

    def _ensure_executor(self) -> DaemonThreads:
        if self._executor is None:
            self._executor = DaemonThreads(self._threads, self._name)
            favour_event_loop()
        return self._executor


def favour_event_loop() -> None:
    """Shorten the switch interval of Python, so that the event loop waits less for a busy thread."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))


class Executor(Protocol):
    """Runs functions in a thread, as `fleethook.work.turns.Worker` does."""

    async def run(self, cluster: str, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function, or raise its exception."""


# A controller that touches workloads makes about 20 lasting objects between two pauses: a run takes about 1 ms.
_PAUSES_OF_A_COLLECTION: Final = 128


class Turns(Slots):
    """Grants one turn at a time, to logical clusters or namespaces in rotation.

    In each iteration of the event loop, one paused piece of work continues. A request therefore waits for at most one
    slice of each lane, not for one slice of each piece of work.
    """

    def __init__(self, worker: Executor | None = None) -> None:
        """Prepare; ``worker`` runs long functions, None for a thread of these turns."""
        super().__init__(Limits(1))
        self._pauses = 0
        self._worker: Final = worker or Worker()

    async def call(self, function: Callable[[], T], *, lane: str = "") -> T:
        """Return the result of a long function, which runs in a thread."""
        return await self._worker.run(lane, function)

    async def pause(self, lane: str = "") -> None:
        """Let other work continue."""
        self._pauses += 1
        if self._pauses % _PAUSES_OF_A_COLLECTION == 0:
            collect_survivors()
        async with self.hold(lane):
            await asyncio.sleep(0)

    async def run(self, work: Work[T], *, lane: str = "") -> T:
        """Do work. Its first slice waits for a turn, too, because many callers may have work of a single slice.

        Args:
            work: The work.
            lane: The namespace whose turns the work uses, ``""`` for work of the server itself.
        """
        return await begin(self.share(_pause_first(work), lane=lane))

    def share(self, work: Work[T], *, lane: str, worker: Executor | None = None) -> Work[T]:
        """Return work for `begin` that yields only awaitables: where the given work pauses, it waits for a turn.

        Before the first pause or wait, a `Slice` is no pause, so short work ends at once.

        Args:
            work: The work.
            lane: The logical cluster or namespace whose turns the work uses.
            worker: Runs long functions; None for the worker of these turns.
        """
        executor = worker or self._worker
        try:
            step = next(work)
            while isinstance(step, Slice):
                step = next(work)
            while True:
                if step is None or isinstance(step, Slice):
                    step = self.pause(lane)
                elif callable(step):
                    step = executor.run(lane, step)
                try:
                    found = yield step
                except Exception as error:  # noqa: BLE001 - the work handles it where it waits
                    step = work.throw(error)
                else:
                    step = work.send(found)
        except StopIteration as end:
            result: T = end.value
            return result
        except GeneratorExit:
            work.close()
            raise


def _pause_first(work: Work[T]) -> Work[T]:
    yield
    return (yield from work)


async def run_off_loop(work: Work[T], *, worker: Executor, lane: str) -> T:
    """Do work in a thread, except for slices that read the store.

    Other work gets its turn in the thread after each slice.

    Args:
        work: The work. It yields only None, `Slice` and functions, and its first slice is pure.
        worker: Runs functions in the thread.
        lane: The logical cluster or namespace whose turns in the thread the work uses.
    """
    following, found = Slice.PURE, None
    while True:
        if following is Slice.READS_STORE:
            done = _advance(work, found)
            if done is None:
                await asyncio.sleep(0)
        else:
            done = await worker.run(lane, _advance, work, found)
        if isinstance(done, _Result):
            result: T = done.value
            return result
        found = None
        if isinstance(done, Slice):
            following = done
        elif done is not None:
            found = await worker.run(lane, done)


class _Result:
    def __init__(self, value: Any) -> None:
        self.value: Final = value


def _advance(work: Work[Any], found: Any) -> "Slice | Callable[[], Any] | _Result | None":
    """Do one slice; return the kind of the next one, None for the same kind, a function to run, or the result."""
    try:
        following: Slice | Callable[[], Any] | None = work.send(found)
    except StopIteration as end:
        return _Result(end.value)
    return following
