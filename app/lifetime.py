"""What runs beside the requests: reading manifests or an apiserver, from start to shutdown."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app.control.worker import favour_event_loop
from app.model.gvk import GroupKind
from app.overrider.selected import bound_subjects
from app.settings import Settings
from app.store import Store
from app.store.sources.manifests import ManifestSource

if TYPE_CHECKING:
    from app.store.sources.kubernetes.source import KubernetesSource

_log: Final = logging.getLogger(__name__)

# A review allocates some 500 containers, which reference counting frees: JSON has no cycles. By default the collector
# looks at the young ones every 700 allocations, and so several times in each review, to find nothing. To look at 50,000
# took it 2 ms, and 75 ms on a busy machine; nothing else runs meanwhile. Older ones are looked at after a million.
_GC_THRESHOLDS: Final = (5_000, 200, 20)


@contextlib.asynccontextmanager
async def following_manifests(source: ManifestSource, *, changed: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Load the manifests, then follow them; ``changed`` is awaited after the first load and after each change."""
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
async def following_cluster(cluster: "Cluster", *, synced: Callable[[], None], ended: "Ended") -> AsyncIterator[None]:
    """Connect, and follow an apiserver's objects; ``synced`` is called once those were read that dispatching needs."""
    async with cluster.connection, contextlib.AsyncExitStack() as tasks:

        async def announce() -> None:
            # A kind that cannot be read does not keep the others from being answered, perhaps for days.
            await cluster.source.wait_tried()
            settle_garbage_collector()
            await cluster.source.wait_synced()
            _log.info("all resources are read", extra={"fields": {"host": cluster.connection.host}})

        async def open_dispatching() -> None:
            await cluster.source.wait_synced(cluster.dispatching_kinds)
            synced()

        gc.disable()
        await tasks.enter_async_context(running(cluster.source.run(), name="source", ended=ended))
        await tasks.enter_async_context(running(announce(), name="first sync", ended=ended))
        await tasks.enter_async_context(running(open_dispatching(), name="first sync of dispatching", ended=ended))
        yield


Ended = Callable[[str], None]
"""Told why something that was to run for ever does not."""


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None], *, name: str, ended: Ended) -> AsyncIterator[None]:
    """Run ``work`` beside what the context holds, and cancel it at its end.

    If it fails before, which only a defect makes it do, ``ended`` is told: the process goes on answering from what it
    has and says by ``/healthz`` that it has to be started anew.
    """

    def report(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("%s ended: it will not go on by itself", name, exc_info=error)
            ended(f"{name}: {type(error).__name__}: {error}")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(report)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def settle_garbage_collector() -> None:
    """Take what has been loaded out of the collector's sight: it stays for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Keep the collector from objects that are read now and stay for good.

    To go through the 100,000 workloads of a new leader takes it 0.2 s, during which no review is answered, and it would
    do so several times while they are read.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Cluster:
    """An apiserver to follow: the connection and what is read over it."""

    def __init__(self, settings: Settings, store: Store) -> None:
        # Imported here because it takes 0.3 s and 65 MB, which a server of manifests does not need.
        from app.kube.connection import Connection  # noqa: PLC0415
        from app.registration.announcer import Announcer  # noqa: PLC0415
        from app.registration.condition_client import ConditionClient  # noqa: PLC0415
        from app.store.sources.kubernetes.resources import (  # noqa: PLC0415
            DISPATCHING,
            INTERPRETING,
            MUTATING_CONFIGURATIONS,
            RESOURCES,
            SURROUNDINGS,
            WORKSPACES,
            karmada_config,
        )
        from app.store.sources.kubernetes.source import KubernetesSource  # noqa: PLC0415

        self.connection: Final = Connection(settings.kubeconfig, context=settings.context)
        by_engine = {
            "overrider": RESOURCES,
            "interpret": (*INTERPRETING, karmada_config(settings.karmada_namespace)),
            "dispatch": DISPATCHING,
        }
        dispatching = DISPATCHING if "dispatch" in settings.engines else ()
        self.dispatching: Final = frozenset(resource.name for resource in dispatching)
        # Without Workspaces, which older roles do not grant, a logical cluster is known by its name alone.
        self.dispatching_kinds: Final = frozenset(one.group_kind for one in dispatching if one is not WORKSPACES)
        # Each once, also where several engines read it.
        needed = dict.fromkeys(one for engine in by_engine if engine in settings.engines for one in by_engine[engine])
        advisory = [one for one in SURROUNDINGS if "overrider" in settings.engines and one not in needed]
        self.source: Final = KubernetesSource(
            [*needed, *advisory],
            self.connection,
            store,
            absent_seconds=settings.discovery_interval,
            every_cluster=settings.kcp,
            advisory=[one.group_kind for one in (*advisory, WORKSPACES)],
        )
        announcer = Announcer(
            ConditionClient(self.connection),
            partial(bound_subjects, store),
            selecting=settings.controls,
            seen=partial(_wait_until_seen, self.source, MUTATING_CONFIGURATIONS.group_kind),
        )
        # The configuration of a kcp is in another cluster than the workloads, and selects nothing.
        self.announcer: Final = None if settings.kcp else announcer

    @property
    def lack(self) -> str:
        """The message about a server that serves none of the resources."""
        where = " in any logical cluster (/clusters/*)" if self.source.every_cluster else ""
        return (
            f"{self.connection.host} serves none of the resources that the engines read{where}: check the server's URL "
            "in the kubeconfig file, and --kcp"
        )


async def _wait_until_seen(source: "KubernetesSource", group_kind: GroupKind, resource_version: str) -> None:
    """Wait until a watch has brought a resourceVersion, not longer than for a watch that works."""
    from app.overrider.read_your_writes import CATCH_UP_SECONDS  # noqa: PLC0415 - see app.kube
    from app.store.sources.kubernetes.wire import as_number  # noqa: PLC0415 - as above

    if source.missing([group_kind]) or source.informer(group_kind).state().failing:
        return  # This server may not be allowed to list it, and an announcement does not depend on that.
    await source.catch_up(group_kind, as_number(resource_version), seconds=CATCH_UP_SECONDS)
