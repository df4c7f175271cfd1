"""Fetches the tarballs of instances into the cache, on threads: over HTTP with Secrets, or from a volume.

Concurrent callers share a fetch, as in Go's golang.org/x/sync/singleflight. The threads are daemon threads, so that the
process does not wait for them at its end, as it would for threads of the loop's executor. Nothing is lost: an entry of
the cache is always complete.
"""

import asyncio
import base64
import binascii
import errno
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError, get_object
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.watched_resources import api_path
from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.archive.tarball_unpacking import read_regular
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.download.http_requests import Validators
from fleethook.engines.crds.download.transfer import Downloaded, Downloader, Progress, TarballFile, download
from fleethook.engines.crds.instance.source_selection import SelectedSource
from fleethook.engines.crds.sources_and_errors import CRDsError, Credentials, Exit, TarballSource
from fleethook.engines.crds.tarball_fetch import Fetched, fetch
from fleethook.limits import CallLimit
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.tracing.spans import StartRoot, enter_span
from fleethook.work.threads_and_gc import DaemonThreads

SecretData = Mapping[str, bytes]
"""``data`` of a Secret, decoded."""

# The keys of the types kubernetes.io/basic-auth and kubernetes.io/tls, and the usual key of a token.
_USERNAME: Final = "username"
_PASSWORD: Final = "password"  # noqa: S105 - the name of a key
_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_AUTHORITIES: Final = "ca.crt"


class Reach(NamedTuple):
    """The hosts and files that instances may name. Users who can write an instance choose among them."""

    private: bool = True
    """Whether private, loopback and link-local addresses are allowed."""
    hosts: tuple[str, ...] = ()
    """The only allowed hosts; empty for any."""
    local: Path | None = None
    """The directory of local tarballs; None allows no local tarball."""


def apply_secrets(chosen: SelectedSource, secrets: Mapping[str, SecretData]) -> TarballSource:
    """Return the source with the values of its Secrets.

    Args:
        chosen: The source of the tarball; its references name the Secrets.
        secrets: Data of these Secrets by name.

    Raises:
        CRDsError: A Secret is missing, or lacks a required key. The message has no value of a Secret.
    """
    source, names = chosen.source, chosen.references
    if names.authorities:
        source = source._replace(ca_pem=_read_key(secrets, names.authorities, _AUTHORITIES))
    if names.credentials:
        source = source._replace(credentials=_read_credentials(secrets, names.credentials))
    if names.proxy:
        username = _read_text(secrets, names.proxy, _USERNAME)
        password = _read_text(secrets, names.proxy, _PASSWORD)
        source = source._replace(proxy_url=_insert_user(source.proxy_url, username, password))
    return source


def _read_credentials(secrets: Mapping[str, SecretData], name: str) -> Credentials:
    data = _get_secret(secrets, name)
    credentials = Credentials()
    if _TOKEN in data:
        credentials = credentials._replace(headers=(("Authorization", f"Bearer {_read_text(secrets, name, _TOKEN)}"),))
    elif _USERNAME in data or _PASSWORD in data:
        credentials = credentials._replace(
            username=_read_text(secrets, name, _USERNAME), password=_read_text(secrets, name, _PASSWORD)
        )
    if _CERTIFICATE in data or _KEY in data:
        credentials = credentials._replace(
            client_certificate_pem=_read_key(secrets, name, _CERTIFICATE), client_key_pem=_read_key(secrets, name, _KEY)
        )
    if credentials == Credentials():
        keys = f"{_USERNAME} and {_PASSWORD}, {_TOKEN}, or {_CERTIFICATE} and {_KEY}"
        raise CRDsError(Exit.USAGE, f"the Secret {name} has none of {keys}")
    return credentials


def _get_secret(secrets: Mapping[str, SecretData], name: str) -> SecretData:
    if name not in secrets:
        # Transient: a user may create it soon.
        raise CRDsError(Exit.USAGE, f"there is no Secret {name}", transient=True)
    return secrets[name]


def _read_key(secrets: Mapping[str, SecretData], name: str, key: str) -> bytes:
    value = _get_secret(secrets, name).get(key)
    if not value:
        raise CRDsError(Exit.USAGE, f"the Secret {name} has no {key}")
    return value


def _read_text(secrets: Mapping[str, SecretData], name: str, key: str) -> str:
    try:
        # Editors end the last line with a line break, which is not a part of the value.
        text = _read_key(secrets, name, key).decode().removesuffix("\n")
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise CRDsError(Exit.USAGE, f"the Secret {name}: {key} must be one line of printable text")
    return text


def _insert_user(url: str, username: str, password: str) -> str:
    # Not urllib.parse: validation admits URLs as Go parses them, and Python's parser refuses some of these.
    scheme, rest = url.split("//", 1)
    end = min(position for position in (rest.find("/"), rest.find("?"), len(rest)) if position >= 0)
    host = rest[:end].rpartition("@")[2]
    return f"{scheme}//{quote(username, safe='')}:{quote(password, safe='')}@{host}{rest[end:]}"


ReadSecret = Callable[[str], JSONObject | None]
"""Returns a Secret in the namespace of an instance by name, or None without one. It blocks."""


def build_downloader(
    chosen: SelectedSource,
    read_secret: ReadSecret,
    reach: Reach,
    *,
    starting: Callable[[], None],
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
            apply_secrets(chosen, _read_secrets(chosen, read_secret)),
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


def _read_secrets(chosen: SelectedSource, read_secret: ReadSecret) -> Mapping[str, Mapping[str, bytes]]:
    found = {name: read_secret(name) for name in set(chosen.references) if name}
    return {name: _decode_data(secret) for name, secret in found.items() if secret is not None}


def _decode_data(secret: JSONObject) -> Mapping[str, bytes]:
    return {name: _decode_base64(value) for name, value in as_object(secret.get("data")).items()}


def _decode_base64(value: JSON) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


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


async def read_secret(connection: Connection, namespace: str, name: str) -> JSONObject | None:
    """Return a Secret in the namespace of an instance, or None without one.

    Raises:
        CRDsError: USAGE if reading is forbidden, NETWORK without a response. The message has no value of the Secret.
    """
    path = f"{api_path('', 'v1')}/namespaces/{namespace}/secrets/{name}"
    try:
        return await get_object(connection, path)
    except APIError as error:
        raise CRDsError(Exit.USAGE, f"cannot read secrets/{name}: {error}", transient=True) from None
    except (UnreachableError, msgspec.DecodeError) as error:
        raise CRDsError(Exit.NETWORK, f"cannot read secrets/{name}: {error}", transient=True) from None


READING: Final = 2
"""Tarballs in memory, and threads that verify them; namespaces take turns. The limits of
`fleethook.engines.crds.archive.crd_content` bound the work for one: 120 MiB and 2 s of CPU time."""


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
