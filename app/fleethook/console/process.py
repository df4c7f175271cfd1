"""The process of the console: its pages as an application, the source of objects, and the server until a signal."""

import asyncio
import contextlib
import functools
import shlex
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import uvicorn
from fastapi import APIRouter, Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from fleethook.app import find_followed, list_indexes
from fleethook.cluster.certificates.certificate_files import ensure_certificates, renew_certificates
from fleethook.cluster.certificates.reloading_tls_context import ReloadingContext
from fleethook.cluster.followed_cluster import Cluster
from fleethook.cluster.leader_election import LEASE, NAME, RESOURCE, LeaseName, find_namespace
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import Index, Store
from fleethook.console.attention import FirstSeen
from fleethook.console.context import ConsoleContext
from fleethook.console.forms import FormTokens
from fleethook.console.pages import login, overview, reviews, search
from fleethook.console.rendering import find_context, load_templates, render
from fleethook.console.reviews.replay_jobs import ReviewReplay
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.console.sections import engine_pages
from fleethook.console.server_watch import LeaseWatch, MetricsSampler, MetricsTarget
from fleethook.console.users.apiserver_access import ApiserverAuthorizer, CertificateProtocol
from fleethook.console.users.local_access import AccessError, Authorizer, OneTimeTokenAuthorizer, OpenAuthorizer
from fleethook.console.users.permissions import check_access
from fleethook.console.users.security import RequestGuard, loopback_names
from fleethook.lifetime import follow_cluster, follow_manifests, hide_cancelled_requests, run_in_background
from fleethook.model.gvk import GroupKind
from fleethook.settings import Settings

_STATIC: Final = Path(__file__).parent / "static"

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""The probes of a kubelet, which has no credentials. They tell nothing about objects."""
_health: Final = APIRouter()


@_health.get("/healthz")
async def show_health() -> PlainTextResponse:
    """Answer while the event loop runs."""
    return PlainTextResponse("ok\n")


@_health.get("/readyz")
async def show_readiness(request: Request) -> PlainTextResponse:
    """Answer 503 until each kind was read or has failed. A page shows the reason for a failure."""
    if all(part.synced or part.failing or not part.needed for part in find_context(request).parts()):
        return PlainTextResponse("ready\n")
    return PlainTextResponse("reading the objects\n", status_code=503)


def create_console(context: ConsoleContext, *, hosts: tuple[str, ...] | None) -> ASGIApp:
    """Return the application.

    Args:
        context: The objects and options of the pages.
        hosts: The names by which the console may be called, None for any, as for `RequestGuard`.
    """
    load_templates()
    app = FastAPI(title="fleethook console", openapi_url=None)
    app.state.context = context
    app.state.kept_values = {}
    app.state.form_tokens = FormTokens()
    app.state.first_seen = FirstSeen()
    for router in (overview.router, *(one.router for one in engine_pages()), reviews.router, search.router):
        app.include_router(router, dependencies=[Depends(check_access)])
    app.include_router(_health)
    if context.authorizer.needs_credentials:
        app.include_router(login.router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    app.add_exception_handler(AccessError, _refuse_access)
    app.add_exception_handler(HTTPException, _show_http_error)
    return RequestGuard(app, hosts=hosts, open_paths=HEALTH_PATHS)


async def _refuse_access(request: Request, error: Exception) -> HTMLResponse:
    assert isinstance(error, AccessError)
    response = await render(request, "error.html", status=error.status, text=str(error), title=str(error.status))
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def _show_http_error(request: Request, error: Exception) -> HTMLResponse:
    assert isinstance(error, HTTPException)
    text = str(error.detail)
    if text == "Not Found":
        text = f"The console has no page {request.url.path}."
    return await render(request, "error.html", status=error.status_code, text=text, title=str(error.status_code))


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
        playground: Whether the playground may run scripts.
        one_time_token: Whether a console on a loopback address needs a token that it has printed.
        allowed_hosts: The names by which a console on another address than loopback may be called; empty for any.
        metrics: The server whose metrics the overview shows, None for none.
        hooks: Files of admission rules in Python.
        lasting_token: The token of a console on a loopback address that stays valid, ``""`` for tokens of the console.
    """

    files: tuple[Path, ...] = ()
    records: Path | None = None
    crd_cache: Path | None = None
    playground: bool = True
    one_time_token: bool = True
    allowed_hosts: tuple[str, ...] = ()
    metrics: MetricsTarget | None = None
    hooks: tuple[Path, ...] = ()
    lasting_token: str = ""


Announce = Callable[[int, str], None]
"""Tells the user the port, and the token that opens the next browser: ``""`` if no token of the console is needed."""


async def run_console(
    settings: Settings, options: ConsoleOptions, listeners: Sequence[socket.socket], *, announce: Announce
) -> None:
    """Serve the pages until SIGTERM or SIGINT.

    Args:
        settings: The source of objects, and the address.
        options: The other options.
        listeners: The sockets to accept connections on.
        announce: Called once the console listens, and with each further token.

    Raises:
        APIError: The apiserver refuses a request that the start needs.
        UnreachableError: The apiserver does not answer.
        CertificateError: The files of the certificate cannot be used.
        LoadError: A file or module of interpreters cannot be loaded.
        OSError: The manifests or the directory of the certificate cannot be used.
    """
    async with contextlib.AsyncExitStack() as stack:
        tls = None if settings.listens_on_loopback else await _prepare_tls(settings, options, stack)
        context = await stack.enter_async_context(open_context(settings, options))
        app = create_console(context, hosts=_find_hosts(settings, options))

        def report_port(port: int) -> None:
            if isinstance(context.authorizer, OneTimeTokenAuthorizer):
                context.authorizer.announce_tokens(functools.partial(announce, port))
            else:
                announce(port, "")

        await ConsoleServer(app, tls, ready=report_port).serve(sockets=list(listeners))


def _find_hosts(settings: Settings, options: ConsoleOptions) -> tuple[str, ...] | None:
    """Return the names by which the console may be called, None for any."""
    if settings.listens_on_loopback:
        return tuple(loopback_names(settings.host))
    return tuple(one.lower() for one in options.allowed_hosts) or None


async def _prepare_tls(settings: Settings, options: ConsoleOptions, stack: contextlib.AsyncExitStack) -> ssl.SSLContext:
    """Return the TLS context of the serving certificate, which is renewed and reloaded within the stack."""
    names = list(dict.fromkeys([*settings.dns_names, *options.allowed_hosts]))
    files = ensure_certificates(settings.cert_dir, names=names, now=datetime.now(UTC))
    reloading = ReloadingContext(files, settings.client_ca_file)
    renewal = renew_certificates(settings.cert_dir, names=names, check_seconds=settings.certificate_interval)
    for work, name in ((renewal, "certificate renewal"), (reloading.watch(), "certificate reload")):
        await stack.enter_async_context(run_in_background(work, name=name, ended=_ignore_end))
    return reloading.context


def _ignore_end(_reason: str) -> None:
    """Do nothing: `run_in_background` has logged the failure, and the console keeps its certificate and samples."""


def _choose_authorizer(settings: Settings, cluster: Cluster | None, options: ConsoleOptions) -> Authorizer:
    """Return the authorizer for the address of the console."""
    if settings.listens_on_loopback:
        return OneTimeTokenAuthorizer(options.lasting_token) if options.one_time_token else OpenAuthorizer()
    if cluster is None:
        raise ValueError("a console on another address than loopback needs a cluster, which authorizes its users")
    source = cluster.source
    # The overview reads the Lease.
    on_demand = {LEASE: RESOURCE, **{kind: name for one in engine_pages() for kind, name in one.on_demand.items()}}

    def find_resource(group_kind: GroupKind) -> str | None:
        if group_kind in on_demand:
            return on_demand[group_kind]
        try:
            return source.informer(group_kind).resource.plural
        except KeyError:
            return None

    return ApiserverAuthorizer(cluster.connection.json, find_resource)


def _watch_lease(settings: Settings, cluster: Cluster) -> LeaseWatch:
    namespace = find_namespace(settings)
    return LeaseWatch(cluster.connection.json, LeaseName(namespace, NAME).path, namespace=namespace)


def console_indexes() -> list[Index]:
    """Return the indexes of a console's store: those that reviews need, and those that pages need."""
    return [*list_indexes(), *(index for one in engine_pages() for index in one.indexes)]


def make_cluster(settings: Settings, store: Store) -> Cluster:
    """Return the apiserver of the settings, with all resources that a console follows."""
    followed = find_followed(settings, settings.engines)
    return Cluster(settings, store, [*followed, *(one.followed for one in engine_pages())])


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
        playground=options.playground,
        authorizer=_choose_authorizer(settings, cluster, options),
        lease=None if cluster is None else _watch_lease(settings, cluster),
        reviews=None if options.records is None else ReviewIndex(options.records),
        replay=replay,
        sampler=None if options.metrics is None else MetricsSampler(options.metrics),
        rules=ManifestSource(options.hooks, Store()) if options.hooks else None,
        rule_files=options.hooks,
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


def describe_source(settings: Settings, files: Sequence[Path]) -> str:
    """Return the options of a command that reads the same objects."""
    if files:
        given = [("-f", str(one)) for one in files] + [("--exclude", one) for one in settings.exclude]
        return shlex.join(word for pair in given for word in pair)
    words = ["--in-cluster"] if settings.kubeconfig is None else ["--kubeconfig", str(settings.kubeconfig)]
    words += [] if settings.context is None else ["--context", settings.context]
    words += ["--kcp"] if settings.kcp else []
    cache = settings.kcp_cache_kubeconfig
    return shlex.join([*words, *([] if cache is None else ["--kcp-cache-kubeconfig", str(cache)])])


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
            http=CertificateProtocol,
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
