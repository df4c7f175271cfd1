"""The process of the console: its pages as an application, the source of objects, and the server until a signal."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import uvicorn
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from fleethook.app import find_followed, list_indexes
from fleethook.cluster.followed_objects import Cluster, follow_cluster, follow_manifests, run_in_background
from fleethook.cluster.leader_election import NAME, LeaseName, find_namespace
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.store import Index, Store
from fleethook.console.attention_lines import FirstSeen
from fleethook.console.context import ConsoleContext, describe_source, engine_pages
from fleethook.console.forms_and_guard import RequestGuard
from fleethook.console.metrics_and_lease import LeaseWatch, MetricsSampler, MetricsTarget
from fleethook.console.page_frame import load_templates, render
from fleethook.console.pages import overview, reviews, search
from fleethook.console.reviews.review_detail_and_replay import ReviewReplay
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.server.log import hide_cancelled_requests
from fleethook.settings import Settings

_STATIC: Final = Path(__file__).parent / "static"


def create_console(context: ConsoleContext, *, token: str = "") -> ASGIApp:
    """Return the application.

    Args:
        context: The objects and options of the pages.
        token: As for `RequestGuard`.
    """
    load_templates()
    app = FastAPI(title="fleethook console", openapi_url=None)
    app.state.context = context
    app.state.kept_values = {}
    app.state.first_seen = FirstSeen()
    for router in (overview.router, *(page.router for page in engine_pages()), reviews.router, search.router):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    app.add_exception_handler(HTTPException, _show_http_error)
    return RequestGuard(app, token=token)


async def _show_http_error(request: Request, error: Exception) -> HTMLResponse:
    assert isinstance(error, HTTPException)
    text = str(error.detail)
    if text == "Not Found":
        text = f"The console has no page {request.url.path}."
    return render(request, "error.html", status=error.status_code, text=text, title=str(error.status_code))


HOST: Final = "127.0.0.1"
PORT: Final = 9444
"""The default port."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_KEEP_ALIVE_SECONDS: Final = 30
_SHUTDOWN_SECONDS: Final = 3
_MAX_CONNECTIONS: Final = 256


class ConsoleOptions(NamedTuple):
    """The options of ``fleethook console`` that are not settings of the source.

    Attributes:
        files: Manifest files and directories; without them, the objects are those of a cluster.
        records: Directory of recordings.
        crd_cache: Data directory of the CRD cache.
        token: The token that a browser needs, ``""`` for none.
        metrics: The server whose metrics the overview shows, None for none.
        rules: Files of admission rules in Python.
    """

    files: tuple[Path, ...] = ()
    records: Path | None = None
    crd_cache: Path | None = None
    token: str = ""
    metrics: MetricsTarget | None = None
    rules: tuple[Path, ...] = ()


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
        LoadError: A file or module of interpreters cannot be loaded.
        OSError: The manifests cannot be used.
    """
    async with open_context(settings, options) as context:
        app = create_console(context, token=options.token)
        await ConsoleServer(app, ready=ready).serve(sockets=list(listeners))


def _ignore_end(_reason: str) -> None:
    """Do nothing: `run_in_background` has logged the failure, and the console keeps its samples."""


def _watch_lease(settings: Settings, cluster: Cluster) -> LeaseWatch:
    def find_path(namespace: str) -> str:
        return LeaseName(namespace, NAME).path

    return LeaseWatch(cluster.connection.json, find_path, namespace=find_namespace(settings))


def console_indexes() -> list[Index]:
    """Return the indexes of a console's store: those that reviews need, and those that pages need."""
    return [*list_indexes(), *(index for page in engine_pages() for index in page.indexes)]


def make_cluster(settings: Settings, store: Store) -> Cluster:
    """Return the apiserver of the settings, with all resources that a console follows."""
    if settings.kcp_export is not None:
        return Cluster(settings, store, find_followed(settings, ["rules"]))
    followed = find_followed(settings, settings.engines)
    return Cluster(settings, store, [*followed, *(page.followed for page in engine_pages())])


@contextlib.asynccontextmanager
async def open_context(settings: Settings, options: ConsoleOptions) -> AsyncIterator[ConsoleContext]:
    """Follow the source of objects within the context; arguments and errors as for `run_console`."""
    store = Store(console_indexes())
    # The engines of a replay follow the changes of the store, so they come before its objects.
    replay = None if options.records is None else ReviewReplay(store)
    manifests = ManifestSource(options.files, store, exclude=settings.exclude) if options.files else None
    cluster = make_cluster(settings, store) if settings.follows_cluster else None
    context = ConsoleContext(
        store,
        manifests,
        cluster,
        command_source=describe_source(settings, options.files),
        records=options.records,
        crd_cache=options.crd_cache,
        lease=None if cluster is None else _watch_lease(settings, cluster),
        reviews=None if options.records is None else ReviewIndex(options.records),
        replay=replay,
        sampler=None if options.metrics is None else MetricsSampler(options.metrics),
        rules=ManifestSource(options.rules, Store()) if options.rules else None,
        rule_files=options.rules,
        settings=settings,
    )
    for page in engine_pages():
        page.check(settings)
    async with contextlib.AsyncExitStack() as stack:
        if replay is not None:
            stack.push_async_callback(replay.close)
        if context.sampler is not None:
            sampling = run_in_background(context.sampler.run(), name="metrics of the server", ended=_ignore_end)
            await stack.enter_async_context(sampling)
        for source in filter(None, (manifests, context.rules)):
            await stack.enter_async_context(follow_manifests(source, changed=_ignore_change))
        if cluster is not None:
            ended: list[str] = []
            following = follow_cluster(cluster, ended=ended.append)
            await stack.enter_async_context(following)
        yield context


async def _ignore_change() -> None:
    """Do nothing: pages read the store at each request."""


class ConsoleServer(uvicorn.Server):
    """Serves the pages until a signal; a second signal ends the server without waiting for requests."""

    def __init__(self, app: ASGIApp, *, ready: Callable[[int], None]) -> None:
        """Prepare; ``ready`` is called with the port once the server listens."""
        config = uvicorn.Config(
            app,
            http="httptools",
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
            # The rest of the shutdown is bounded, and a KeyboardInterrupt within it would print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on ``sockets``, and report the port."""
        await super().startup(sockets)
        if self.started and sockets:
            self._ready(int(sockets[0].getsockname()[1]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests, unless a second signal arrives."""
        hide_cancelled_requests()
        await super().shutdown(sockets)
