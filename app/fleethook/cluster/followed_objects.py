"""The objects that a server follows from start to shutdown: those of an apiserver, or manifests."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.store import Store
from fleethook.model.gvk import GroupKind
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import favour_event_loop, settle_garbage_collector

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection
    from fleethook.cluster.kubernetes.watched_resources import WatchedResource


class Followed(NamedTuple):
    """Resources that an engine follows.

    Attributes:
        needed: Resources that its answers depend on.
        advisory: Further resources, which may be missing.
    """

    needed: Sequence["WatchedResource"] = ()
    advisory: Sequence["WatchedResource"] = ()


class Cluster:
    """An apiserver to follow."""

    def __init__(self, settings: Settings, store: Store, followed: Sequence[Followed]) -> None:
        """Prepare.

        Args:
            settings: The settings.
            store: The store to feed.
            followed: The resources of each engine. A resource of several engines is followed once.
        """
        # Imported here because a server that reads manifests does not need the client.
        from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415
        from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource  # noqa: PLC0415

        self.connection: Final = _make_connection(settings)
        cache = settings.kcp_cache_kubeconfig
        self.cache: Final = None if cache is None else Connection(cache)
        needed = [resource for each in followed for resource in each.needed]
        advisory = [resource for each in followed for resource in each.advisory if resource not in needed]
        self.resources: Final[dict[GroupKind, WatchedResource]] = {}
        """The followed resources by kind; of two engines, the first decides about the objects and fields to read."""
        for resource in (*needed, *advisory):
            self.resources.setdefault(resource.group_kind, resource)
        self.source: Final = KubernetesSource(
            list(self.resources.values()),
            self.connection,
            store,
            every_cluster=settings.kcp or settings.kcp_export is not None,
            cache=self.cache,
            advisory=[resource.group_kind for resource in advisory],
        )


def _make_connection(settings: Settings) -> "Connection":
    """Return the connection to an apiserver, or to the consumers of an APIExport."""
    from fleethook.cluster.apiserver_connection import Connection  # noqa: PLC0415 - as above
    from fleethook.cluster.kubernetes.export_connection import ExportConnection  # noqa: PLC0415 - as above

    if settings.kcp_export is None:
        return Connection(settings.kubeconfig, context=settings.context)
    return ExportConnection(settings.kubeconfig, context=settings.context, export=settings.kcp_export)


_log: Final = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def follow_manifests(source: ManifestSource, *, changed: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Load the manifests, then follow their changes within the context.

    Args:
        source: The manifests.
        changed: Awaited after the first load and after each change.
    """
    gc.disable()
    source.load()
    await changed()
    favour_event_loop()
    settle_garbage_collector()
    stop = asyncio.Event()
    follower = asyncio.create_task(source.follow(stop, changed=changed))
    try:
        yield
    finally:
        stop.set()
        await follower


@contextlib.asynccontextmanager
async def follow_cluster(cluster: Cluster, *, ended: "Ended") -> AsyncIterator[None]:
    """Connect to an apiserver, and follow its objects within the context.

    Args:
        cluster: The apiserver.
        ended: Called if a background task fails.
    """
    async with cluster.connection, contextlib.AsyncExitStack() as tasks:
        if cluster.cache is not None:
            await tasks.enter_async_context(cluster.cache)
        gc.disable()
        await tasks.enter_async_context(run_in_background(cluster.source.run(), name="source", ended=ended))
        reported = cluster.source.report_sync(cluster.connection.host)
        await tasks.enter_async_context(run_in_background(reported, name="first sync", ended=ended))
        yield


Ended = Callable[[str], None]
"""Takes the reason why a background task failed, as text."""


@contextlib.asynccontextmanager
async def run_in_background(work: Coroutine[Any, Any, None], *, name: str, ended: Ended) -> AsyncIterator[None]:
    """Run a task within the context, and cancel it at the end.

    Only a defect makes the task fail earlier. The process then keeps answering from its last known objects, and
    ``/healthz`` reports that it needs a restart.

    Args:
        work: The task; it runs until cancelled.
        name: Name of the task, for the log and ``/healthz``.
        ended: Called with the error if the task fails.
    """

    def report(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("background task %s failed: restart this process", name, exc_info=error)
            ended(f"{name}: {type(error).__name__}: {error}")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(report)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
