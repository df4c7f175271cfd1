"""Fetches the tarballs of instances into the cache, on threads: over HTTP with Secrets, or from a volume.

Concurrent callers share a fetch, as in Go's golang.org/x/sync/singleflight. The threads are daemon threads, so that the
process does not wait for them at its end, as it would for threads of the loop's executor. Nothing is lost: an entry of
the cache is always complete.
"""

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.archive.tarball_unpacking import read_regular
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache_or_download import Fetched, fetch
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.download.download_and_mirrors import Downloaded, Downloader, Progress, TarballFile, download
from fleethook.engines.crds.download.requests_and_connections import Validators
from fleethook.engines.crds.instance.source_and_secrets import (
    ReadSecret,
    SelectedSource,
    TarballSource,
    apply_secrets,
    read_secret,
    read_secrets,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.fair_limits import CallLimit
from fleethook.model.json import JSONObject
from fleethook.tracing.spans_and_otel_variables import StartRoot, enter_span
from fleethook.work.threads_and_gc import DaemonThreads


class Reach(NamedTuple):
    """The hosts and files that instances may name. Users who can write an instance choose among them."""

    private: bool = True
    """Whether private, loopback and link-local addresses are allowed."""
    hosts: tuple[str, ...] = ()
    """The only allowed hosts; empty for any."""
    local: Path | None = None
    """The directory of local tarballs; None allows no local tarball."""


def build_downloader(
    chosen: SelectedSource, read_secret: ReadSecret, reach: Reach, *, starting: Callable[[], None]
) -> Downloader:
    """Return a function that downloads or copies a tarball. Call it on a thread: it blocks.

    Args:
        chosen: The source of the tarball.
        read_secret: Reads Secrets in the namespace of the instance.
        reach: The hosts and files that the instance may name.
        starting: Called before the request to the origin; not called for a cached tarball.
    """

    def fetch_bytes(
        source: TarballSource,
        into: Path,
        *,
        validators: Validators | None,
        progress: Progress | None,
        env_proxies: bool,
    ) -> Downloaded:
        starting()
        if chosen.local is not None:
            return _copy_local(Path(chosen.local.path), reach.local, into, source)
        return download(
            apply_secrets(chosen, read_secrets(chosen, read_secret)),
            into,
            validators=validators,
            progress=progress,
            env_proxies=env_proxies,
            allow_private=reach.private,
            allow_hosts=reach.hosts,
        )

    return fetch_bytes


def _copy_local(path: Path, allowed: Path | None, into: Path, source: TarballSource) -> Downloaded:
    if allowed is None:
        raise CRDsError(Exit.USAGE, f"{path}: the controller has no directory of local tarballs (--local-root)")
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(allowed.resolve()):
            raise CRDsError(Exit.USAGE, f"{path} is not below the directory of local tarballs (--local-root {allowed})")
        data = read_regular(real, most=source.max_bytes)
    except FileNotFoundError:
        raise CRDsError(Exit.USAGE, f"there is no {path}", transient=True) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            text = f"{source.url}: larger than the limit of {source.max_bytes} bytes"
            raise CRDsError(Exit.LIMIT, text) from None
        raise CRDsError(Exit.DISK, f"cannot read {path}: {error.strerror or error}", transient=True) from error
    with TarballFile(into, max_bytes=source.max_bytes) as file:
        file.add(data)
        return Downloaded(True, file.finish(), file.size, Validators(), source.url, 0)


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

    def __init__(self, work: Callable[["SharedCall[T]"], T], threads: DaemonThreads) -> None:
        """Call ``work`` on one of the threads."""
        self._loop: Final = asyncio.get_running_loop()
        self._asking: Final[asyncio.Future[None]] = self._loop.create_future()
        self.future: Final[asyncio.Future[T]] = threads.run(_name_defects, work, self)

    def starting(self) -> None:
        """Notify waiters that the request to the origin begins; called on the thread, once."""
        self._loop.call_soon_threadsafe(self._asking.set_result, None)

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
        if not self.future.done():
            await asked()
        return await asyncio.shield(self.future)


def _name_defects(work: Callable[[SharedCall[T]], T], call: SharedCall[T]) -> T:
    try:
        return work(call)
    except CRDsError:
        raise
    except Exception as error:
        raise CRDsError(Exit.INTERNAL, f"{type(error).__name__}: {error}") from error


# The controller reconciles as many instances at a time.
_MAX_CALLS: Final = 256


class SingleFlight(Generic[T]):
    """Running calls by key."""

    def __init__(self) -> None:
        self._threads: Final = DaemonThreads(_MAX_CALLS, "crds")
        self._calls: Final[dict[Hashable, SharedCall[T]]] = {}

    def join(self, key: Hashable, work: Callable[[SharedCall[T]], T]) -> SharedCall[T]:
        """Return the running call for ``key``, or start it."""
        flight = self._calls.get(key)
        if flight is None:
            flight = self._calls[key] = SharedCall(work, self._threads)
            flight.future.add_done_callback(partial(self._forget, key))
        return flight

    def _forget(self, key: Hashable, future: asyncio.Future[T]) -> None:
        self._calls.pop(key, None)
        if not future.cancelled():
            future.exception()  # Marks it as retrieved: there may be no waiter any more.


READING: Final = 2
"""Tarballs in memory, and threads that verify them; namespaces take turns. The limits of
`fleethook.engines.crds.archive.names_content_limits` bound the work for one: 120 MiB and 2 s of CPU time."""


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
        self._reading: Final = CallLimit(READING)

    def join(self, chosen: SelectedSource, instance: ObjectKey) -> SharedCall[Fetched]:
        """Return the running fetch of a tarball, or start it for an instance."""
        # Secrets of the same name differ between namespaces.
        named = instance.namespace if any(chosen.references) else ""
        key = (chosen.source, chosen.policy, chosen.references, chosen.local, named)
        return self._calls.join(key, partial(self._trace_fetch, chosen, instance))

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
                self._cache.bounded_by(partial(self._hold, flight, namespace)),
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
        """Count a tarball in memory; called on a thread."""
        holding = AsyncExitStack()
        flight.call(holding.enter_async_context(self._reading.hold(namespace)))
        try:
            yield
        finally:
            flight.call(holding.aclose())
