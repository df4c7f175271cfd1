"""The process of the console: it follows the source of objects, and serves the pages until a signal."""

import asyncio
import contextlib
import shlex
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from app.console.application import create_console
from app.console.context import INDEXES, ConsoleContext
from app.console.security import loopback_names
from app.lifetime import Cluster, follow_cluster, follow_manifests
from app.settings import Settings
from app.store import Store
from app.store.sources.kubernetes.resources import KARMADAS, WORKLOADS
from app.store.sources.manifests import ManifestSource

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_KEEP_ALIVE_SECONDS: Final = 30
_SHUTDOWN_SECONDS: Final = 3
_MAX_CONNECTIONS: Final = 256


class ConsoleOptions(NamedTuple):
    """The options of ``fleethook console`` that are not settings of the source.

    Attributes:
        records: Directory of recordings.
        crd_cache: Directory of the CRD cache.
        playground: Whether the playground may run scripts.
    """

    records: Path | None = None
    crd_cache: Path | None = None
    playground: bool = True


async def run_console(
    settings: Settings, options: ConsoleOptions, listeners: Sequence[socket.socket], *, ready: Callable[[int], None]
) -> None:
    """Serve the pages until SIGTERM or SIGINT.

    Args:
        settings: The source of objects, and the address.
        options: The other options.
        listeners: The sockets to accept connections on.
        ready: Called with the port once the console listens.

    Raises:
        APIError: The apiserver refuses a request that the start needs.
        UnreachableError: The apiserver does not answer.
        OSError: The manifests cannot be read.
    """
    async with open_context(settings, options) as context:
        app = create_console(context, hosts=tuple(loopback_names(settings.host)))
        await ConsoleServer(app, None, ready=ready).serve(sockets=list(listeners))


@contextlib.asynccontextmanager
async def open_context(settings: Settings, options: ConsoleOptions) -> AsyncIterator[ConsoleContext]:
    """Follow the source of objects within the context; arguments and errors as for `run_console`."""
    store = Store(INDEXES)
    manifests = None if settings.manifests is None else ManifestSource(settings.manifests, store)
    cluster = Cluster(settings, store, further=(*WORKLOADS, KARMADAS)) if settings.follows_cluster else None
    context = ConsoleContext(
        store,
        manifests,
        cluster,
        command_source=describe_source(settings),
        records=options.records,
        crd_cache=options.crd_cache,
        playground=options.playground,
        namespace=settings.namespace or "",
    )
    async with contextlib.AsyncExitStack() as stack:
        if manifests is not None:
            await stack.enter_async_context(follow_manifests(manifests, changed=_ignore_change))
        if cluster is not None:
            ended: list[str] = []
            following = follow_cluster(cluster, synced=lambda: None, ended=ended.append)
            await stack.enter_async_context(following)
        yield context


async def _ignore_change() -> None:
    """Do nothing: pages read the store at each request."""


def describe_source(settings: Settings) -> str:
    """Return the options of a command that reads the same objects."""
    if settings.manifests is not None:
        return shlex.join(["--manifests", str(settings.manifests)])
    words = ["--in-cluster"] if settings.kubeconfig is None else ["--kubeconfig", str(settings.kubeconfig)]
    words += [] if settings.context is None else ["--context", settings.context]
    return shlex.join([*words, *(["--kcp"] if settings.kcp else [])])


class ConsoleServer(uvicorn.Server):
    """Serves the pages until a signal; a second signal ends the server without waiting for requests."""

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None, *, ready: Callable[[int], None]) -> None:
        """Prepare.

        Args:
            app: The application.
            tls: The TLS context, None for plain HTTP.
            ready: Called with the port once the server listens.
        """
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        config.load()
        config.ssl = tls
        super().__init__(config)
        self._ready: Final = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals on the event loop while serving. uvicorn's handlers would end the process by the signal."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on ``sockets``, and report the port."""
        await super().startup(sockets)
        if self.started and sockets:
            self._ready(int(sockets[0].getsockname()[1]))
