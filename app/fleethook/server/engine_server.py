"""The part of an engine in a running server: routes, readiness checks, metrics, and tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client.registry import Collector

from fleethook.cluster.followed_objects import Cluster
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import Source, Store
from fleethook.model.json import JSONObject
from fleethook.server.health import Check
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.connections import Capacity
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import Worker

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
