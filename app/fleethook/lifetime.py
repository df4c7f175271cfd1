"""Background work of the server from start to shutdown: following manifests or an apiserver, garbage collection."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import Store
from fleethook.engines.overrider.subject.bound_subjects import bound_subjects, conclude_overrider
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.settings import Settings
from fleethook.work.worker import favour_event_loop

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
    from fleethook.cluster.kubernetes.resources import WatchedResource

_log: Final = logging.getLogger(__name__)

# A review allocates about 500 containers. Reference counting frees them, because JSON has no cycles. By default, the
# collector runs every 700 allocations, so several times in each review, and finds nothing. A run over 50,000 young
# objects blocked the process for 2 ms, and for 75 ms on a busy machine, so it runs after 5,000. The objects that
# survive are examined again after 100,000 allocations: after a million, which 100,000 compiled plans make, that took
# 190 ms. All other objects are examined after 20 million.
_GC_THRESHOLDS: Final = (5_000, 20, 200)


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


def hide_cancelled_requests() -> None:
    """Let uvicorn log no traceback for requests that a shutdown ends: after its time limit, or at a second signal."""
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


@contextlib.asynccontextmanager
async def follow_cluster(
    cluster: "Cluster",
    *,
    synced: Callable[[], None],
    ended: "Ended",
    prepare: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[None]:
    """Connect to an apiserver, and follow its objects within the context.

    Args:
        cluster: The apiserver.
        synced: Called once all objects that dispatching needs are read.
        ended: Called if a background task fails.
        prepare: Awaited once each kind was read or cannot be read; None for nothing to do.
    """
    async with cluster.connection, contextlib.AsyncExitStack() as tasks:
        if cluster.cache is not None:
            await tasks.enter_async_context(cluster.cache)

        async def report_sync() -> None:
            # Do not wait for kinds that cannot be read. Their problem may last for days.
            await cluster.source.wait_tried()
            if prepare is not None:
                await prepare()
            settle_garbage_collector()
            await cluster.source.wait_synced()
            _log.info("all resources are read", extra={"fields": {"host": cluster.connection.host}})

        async def open_dispatching() -> None:
            await cluster.source.wait_synced(cluster.dispatching_kinds)
            synced()

        gc.disable()
        await tasks.enter_async_context(run_in_background(cluster.source.run(), name="source", ended=ended))
        await tasks.enter_async_context(run_in_background(report_sync(), name="first sync", ended=ended))
        await tasks.enter_async_context(
            run_in_background(open_dispatching(), name="first sync of dispatching", ended=ended)
        )
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


def settle_garbage_collector() -> None:
    """Exempt all loaded objects from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


@contextlib.contextmanager
def pause_garbage_collector() -> Iterator[None]:
    """Pause garbage collection within the context, then exempt the objects that were read.

    A run over the 100,000 workloads of a new leader takes 0.2 s, during which no review is answered. Without the pause,
    several runs would happen while the workloads are read.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Cluster:
    """An apiserver to follow: the connection and the source of its objects."""

    def __init__(self, settings: Settings, store: Store, *, further: Sequence["WatchedResource"] = ()) -> None:
        """Prepare.

        Args:
            settings: The settings.
            store: The store to feed.
            further: Resources to follow besides those of the engines. No response depends on them.
        """
        # Imported here because a server that reads manifests does not need the client.
        from fleethook.cluster.connection import Connection  # noqa: PLC0415
        from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource  # noqa: PLC0415
        from fleethook.cluster.kubernetes.resources import (  # noqa: PLC0415
            DISPATCHING,
            INTERPRETING,
            MUTATING_CONFIGURATIONS,
            RESOURCES,
            SURROUNDINGS,
            WORKSPACES,
            karmada_config,
        )
        from fleethook.cluster.registration.announcer import Announcer  # noqa: PLC0415
        from fleethook.cluster.registration.condition_client import ConditionClient  # noqa: PLC0415
        from fleethook.engines.overrider.admission.server_dry_run import ServerDryRun  # noqa: PLC0415
        from fleethook.engines.overrider.policies.mode import Mode  # noqa: PLC0415
        from fleethook.engines.overrider.policies.policy_client import PolicyClient  # noqa: PLC0415

        self.connection: Final = Connection(settings.kubeconfig, context=settings.context)
        by_engine = {
            "overrider": RESOURCES,
            "interpret": (*INTERPRETING, karmada_config(settings.karmada_namespace)),
            "dispatch": DISPATCHING,
        }
        dispatching = DISPATCHING if "dispatch" in settings.engines else ()
        self.dispatching: Final = frozenset(resource.name for resource in dispatching)
        # Only a kcp has Workspaces, and roles for other apiservers need not grant them.
        spare = () if settings.kcp else (WORKSPACES,)
        self.dispatching_kinds: Final = frozenset(one.group_kind for one in dispatching if one not in spare)
        # Several engines may read a resource; it is followed once.
        needed = dict.fromkeys(one for engine in by_engine if engine in settings.engines for one in by_engine[engine])
        advisory = [one for one in SURROUNDINGS if "overrider" in settings.engines and one not in needed]
        advisory += [one for one in further if one not in needed]
        cache = settings.kcp_cache_kubeconfig
        self.cache: Final = None if cache is None else Connection(cache)
        self.source: Final = KubernetesSource(
            [*needed, *advisory],
            self.connection,
            store,
            absent_seconds=settings.discovery_interval,
            every_cluster=settings.kcp,
            cache=self.cache,
            advisory=[one.group_kind for one in (*advisory, *spare)],
        )
        mode = Mode(settings.overrider_mode)
        announcer = Announcer(
            ConditionClient(self.connection),
            partial(bound_subjects, store, mode),
            seen=partial(_wait_until_seen, self.source, MUTATING_CONFIGURATIONS.group_kind),
        )
        unbind = PolicyClient(self.connection).unbind
        conclude = partial(conclude_overrider, announce=announcer.announce, unbind=unbind, default=mode)
        # In kcp, the webhook configuration and the workloads are in different clusters, so nothing is selected.
        self.conclude: Final = None if settings.kcp else conclude
        send = partial(_send_dry_run, self.connection, self.source)
        self.dry_runs: Final = ServerDryRun(send, limit=settings.server_dry_runs)

    @property
    def lack(self) -> str:
        """Message about an apiserver that serves none of the needed resources."""
        where = " in any logical cluster (/clusters/*)" if self.source.every_cluster else ""
        return (
            f"{self.connection.host} serves none of the resources that the engines read{where}: check the server's URL "
            "in the kubeconfig file, and --kcp"
        )


async def _send_dry_run(
    connection: "Connection", source: "KubernetesSource", cluster: str, path: str, workload: JSONObject
) -> None:
    if not connection.is_open:
        raise UnreachableError("the connection is not open yet")
    await connection.request("POST", source.scope(cluster) + path, query={"dryRun": "All"}, body=workload)


async def _wait_until_seen(source: "KubernetesSource", group_kind: GroupKind, resource_version: str) -> None:
    """Wait until the watch of a kind reaches a resourceVersion, at most as long as a working watch needs."""
    from fleethook.cluster.kubernetes.list_watch_decoding import as_number  # noqa: PLC0415 - as above
    from fleethook.engines.overrider.admission.read_your_writes import CATCH_UP_SECONDS  # noqa: PLC0415 - see app.kube

    if source.missing([group_kind]) or source.informer(group_kind).state().failing:
        return  # The role may not grant the kind, and an announcement does not depend on it.
    await source.catch_up(group_kind, as_number(resource_version), seconds=CATCH_UP_SECONDS)
