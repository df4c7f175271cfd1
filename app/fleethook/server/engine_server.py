"""The part of an engine in a running server: routes, readiness checks, metrics, and tasks.

The routes ``/healthz``, ``/readyz`` and ``/metrics`` report the checks and metrics of all engines.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client.registry import Collector
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from fleethook.cluster.followed_cluster import Cluster
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import Source, Store
from fleethook.model.json import JSONObject
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.bodies import RETRY_AFTER, Reply, close_after_answer, send_reply
from fleethook.server.protocol.connections import Capacity
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.server.reviews.review_codec import encode_error
from fleethook.settings import Settings
from fleethook.work.threads import Worker

_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_TOO_MANY: Final = encode_error(
    503,
    "ServiceUnavailable",
    "max_connections is reached and every connection has a request that is being answered; try again later",
)


@dataclass(frozen=True)
class Check:
    """One check of readiness, as ``/readyz`` shows it."""

    name: str
    ok: bool
    detail: str
    degraded: bool = False
    """Whether the other replicas fail this check, too. A Service then gains nothing by choosing them."""


class Health(BaseModel):
    """The answer of ``/healthz``: 200, or 500 if a task has ended. Only a new process can restart it."""

    status: str
    ended: list[str] = []


class Readiness(BaseModel):
    """The answer of ``/readyz``: 200 if ready, else 503; both list every check.

    With ``?partial=true``, degraded checks do not count. The server answers every request that does not depend on these
    checks, so a Service should send requests to it.
    """

    ready: bool
    checks: list[Check]


def health_routes(
    checks: Callable[[], Iterable[Check]], ended: Sequence[str], exposition: Callable[[str], tuple[bytes, str]]
) -> APIRouter:
    """Return the routes that kubelets and Prometheus call.

    Args:
        checks: Returns the checks that readiness depends on.
        ended: The tasks that ended by a defect. The list grows while the server runs.
        exposition: Returns the metrics and their content type, for the formats that a client accepts.
    """
    router: Final = APIRouter(tags=["operations"])

    @router.get(
        "/healthz",
        response_model=Health,
        responses={500: {"model": Health}},
        summary="Liveness: whether all tasks of the process run",
    )
    async def healthz() -> JSONResponse:
        if ended:
            return JSONResponse({"status": "failed", "ended": list(ended)}, status_code=500)
        return JSONResponse({"status": "ok"})

    @router.get(
        "/readyz",
        response_model=Readiness,
        responses={503: {"model": Readiness}},
        summary="Readiness: whether to send requests",
    )
    async def readyz(*, partial: bool = False) -> JSONResponse:
        found = list(checks())
        ready = all(check.ok or (partial and check.degraded) for check in found)
        body = {"ready": ready, "checks": [asdict(check) for check in found]}
        return JSONResponse(body, status_code=200 if ready else 503)

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def scrape(request: Request) -> Response:
        text, content_type = exposition(request.headers.get("accept", ""))
        return Response(text, media_type=content_type)

    return router


class HealthOnly:
    """Answers kubelets and Prometheus, refuses any other request, and closes the connection after the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["path"] in _PATHS:
            await self._app(scope, receive, close_after_answer(send))
        else:
            await send_reply(close_after_answer(send), Reply(503, _TOO_MANY, (RETRY_AFTER,)))


if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection


def _ignore_route(route: ReviewRoute) -> None:
    """Ignore a route, because no server runs around the engine."""


class ServerContext(NamedTuple):
    """The parts of a server that engines share.

    Attributes:
        settings: The settings.
        store: The objects.
        metrics: The registry of the process.
        worker: Runs long functions in a thread.
        capacity: The limits of the process.
        source: Fills the store; None for a store without a source.
        cluster: The apiserver, None without one.
        listening: Set once the server listens.
        is_replay: Whether recorded reviews are replayed, with the recorded answers of other servers.
        traces_calls: Whether answers list the calls that they depend on, for the recorder.
        add_route: Adds a route of reviews to the running server.
        registration_changed: The engine sets it when the result of `EngineServer.configurations` changes.
    """

    settings: Settings
    store: Store
    metrics: Metrics
    worker: Worker
    capacity: Capacity
    source: Source | None
    cluster: Cluster | None
    listening: asyncio.Event
    is_replay: bool = False
    traces_calls: bool = False
    add_route: Callable[[ReviewRoute], None] = _ignore_route
    registration_changed: asyncio.Event = asyncio.Event()


class Leadership(NamedTuple):
    """The tools of a leader.

    Attributes:
        connection: The connection to the apiserver.
        bundle: Returns the CAs of this server's certificate, as PEM.
        registered: Waits until the leader has registered the webhooks; None if the leader does not register all.
    """

    connection: "Connection"
    bundle: Callable[[], bytes]
    registered: Callable[[], Awaitable[object]] | None


BackgroundTask = tuple[str, Coroutine[Any, Any, None]]
"""The name of a task, for the log and ``/healthz``, and its work, which runs until cancelled."""


class EngineServer:
    """The base class of the engines' parts in a server. It contributes nothing.

    Attributes:
        context: The shared parts of the server.
        leads: Whether the settings give the leader tasks for this engine.
        selects: Whether the engine restricts its webhooks to selected objects.
        registers: Whether the engine has webhook configurations that the leader maintains.
        registration_owner: The ClusterRole that owns these configurations, ``""`` for none.
    """

    leads = False
    selects = False
    registers = False
    registration_owner = ""

    def __init__(self, context: ServerContext) -> None:
        """Prepare. Nothing is connected before `open`."""
        self.context: Final = context

    def routes(self) -> Sequence[ReviewRoute]:
        """Return the routes of its reviews; called once."""
        return ()

    def checks(self) -> Iterable[Check]:
        """Return its checks of readiness."""
        return ()

    def collectors(self) -> Iterable[Collector]:
        """Return its metrics; called once."""
        return ()

    async def open(self) -> None:
        """Open the clients of the engine, before the server reads objects."""

    async def close(self) -> None:
        """End the threads and clients of the engine."""

    async def check_manifests(self, documents: Sequence[Document]) -> None:
        """Check the manifests after the first load and after each change."""

    def tasks(self) -> Iterable[BackgroundTask]:
        """Return the tasks of a running server."""
        return ()

    def configurations(self) -> list[JSONObject]:
        """Return its webhook configurations that change while the server runs, without ``caBundle``.

        The leader deletes those of rules that have no webhooks.
        """
        return []

    async def lead(self, leadership: Leadership) -> None:
        """Do the tasks of the leader until cancelled."""

    def leader_collectors(self) -> Iterable[Collector]:
        """Return the metrics of each process that may become the leader."""
        return ()

    def queue_length(self) -> int:
        """Return the number of objects that wait for its controller."""
        return 0
