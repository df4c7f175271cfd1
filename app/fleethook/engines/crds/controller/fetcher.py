"""Fetches the tarballs of instances into the cache, on threads, for the controller.

Concurrent callers share a fetch, as in Go's golang.org/x/sync/singleflight. The threads are daemon threads, so that the
process does not wait for them at its end, as it would for threads of the loop's executor. Nothing is lost: an entry of
the cache is always complete.
"""

import asyncio
import functools
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.kubernetes.resources import api_path
from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.controller.source_reader import Reach, build_downloader
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.fetch import Fetched, fetch
from fleethook.engines.crds.instance.source_selection import SelectedSource
from fleethook.fairness import Limits, Slots
from fleethook.model.json import JSONObject, as_object
from fleethook.tracing.spans import StartRoot, enter_span

_NOT_FOUND: Final = 404


class FetchOptions(NamedTuple):
    """Options of the controller."""

    version: str = ""
    """Version of the operator: the release for instances that name none."""
    beside: bool = False
    """Whether Karmada's operator runs too."""
    follow_instance: bool = False
    stale_if_error: bool = False
    strict: bool = False
    env_proxies: bool = True
    reach: Reach = Reach()


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


async def read_secret(connection: Connection, namespace: str, name: str) -> JSONObject | None:
    """Return a Secret in the namespace of an instance, or None without one.

    Raises:
        CRDsError: USAGE if reading is forbidden, NETWORK without a response. The message has no value of the Secret.
    """
    path = f"{api_path('', 'v1')}/namespaces/{namespace}/secrets/{name}"
    try:
        return dict(as_object(await connection.json("GET", path)))
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        raise CRDsError(Exit.USAGE, f"cannot read secrets/{name}: {error}", transient=True) from None
    except (UnreachableError, msgspec.DecodeError) as error:
        raise CRDsError(Exit.NETWORK, f"cannot read secrets/{name}: {error}", transient=True) from None


READING: Final = 2
RESERVED: Final = 1
"""Slots for tarballs in memory, and the threads that verify them. The limits of
`fleethook.engines.crds.archive.crd_content` bound the work for one: 120 MiB and 2 s of CPU time. Namespaces take turns,
and one of them holds both slots only while no other waits."""


class Fetcher:
    """Fetches tarballs; instances that need the same tarball at the same time share a fetch."""

    def __init__(
        self,
        connection: Connection,
        cache: Cache,
        options: FetchOptions,
        metrics: FetchMetrics,
        *,
        trace: StartRoot | None = None,
    ) -> None:
        """Create the fetcher.

        Args:
            connection: Connection to the API server that has the instances, and the Secrets that they name.
            cache: Cache of the tarballs.
            options: Options of the controller.
            metrics: Metrics of fetches.
            trace: Starts the span of a fetch; None to trace nothing.
        """
        self._connection: Final = connection
        self._cache: Final = cache
        self._options: Final = options
        self._metrics: Final = metrics
        self._trace: Final = trace
        self._calls: Final[SingleFlight[Fetched]] = SingleFlight()
        self._reading: Final = Slots(Limits(READING, reserved=RESERVED))

    def join(self, chosen: SelectedSource, instance: ObjectKey) -> SharedCall[Fetched]:
        """Return the running fetch of a tarball, or start it for an instance."""
        # Secrets of the same name differ between namespaces.
        named = instance.namespace if any(chosen.references) else ""
        key = (chosen.source, chosen.policy, chosen.references, chosen.local, named)
        return self._calls.join(
            key, functools.partial(self._trace_fetch, chosen, instance), name=f"crds {chosen.source.key}"
        )

    def _trace_fetch(self, chosen: SelectedSource, instance: ObjectKey, flight: SharedCall[Fetched]) -> Fetched:
        """Fetch the tarball in a span; runs on a thread."""
        with enter_span(None if self._trace is None else self._trace("fetch CRDs")) as span:
            if span is not None:
                facts = {"k8s.namespace.name": instance.namespace, "fleethook.karmada": instance.name}
                span.note({**facts, "fleethook.policy": chosen.policy.value})
            fetched = self._fetch(chosen, instance, flight)
            if span is not None:
                span.note({"fleethook.outcome": fetched.result, "fleethook.attempts": fetched.attempts})
            return fetched

    def _fetch(self, chosen: SelectedSource, instance: ObjectKey, flight: SharedCall[Fetched]) -> Fetched:
        """Fetch the tarball; runs on a thread."""
        options, namespace = self._options, instance.namespace

        def read(name: str) -> JSONObject | None:
            found: JSONObject | None = flight.call(read_secret(self._connection, namespace, name))
            return found

        started = time.monotonic()
        try:
            fetched = fetch(
                self._cache.bounded_by(functools.partial(self._hold, flight, namespace)),
                chosen.source,
                chosen.policy,
                stale_if_error=options.stale_if_error,
                strict=options.strict,
                env_proxies=options.env_proxies,
                downloader=build_downloader(chosen, read, options.reach, starting=flight.starting),
            )
        except CRDsError as error:
            self._metrics.failed(error, time.monotonic() - started)
            raise
        self._metrics.fetched(fetched)
        return fetched

    @contextmanager
    def _hold(self, flight: SharedCall[Fetched], namespace: str) -> Iterator[None]:
        """Hold a slot for a tarball in memory; called on a thread."""
        holding = AsyncExitStack()
        flight.call(holding.enter_async_context(self._reading.hold(namespace)))
        try:
            yield
        finally:
            flight.call(holding.aclose())
