"""Keep a store equal to the objects of an apiserver."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from fleethook.cluster.api_errors import NOT_FOUND, APIError
from fleethook.cluster.kubernetes.informer_and_backoff import ABSENT_SECONDS, Informer
from fleethook.cluster.kubernetes.list_reading_and_decoding import (
    EVERY_CLUSTER,
    EVERY_SHARD,
    Pause,
    Reader,
    as_number,
    decode_page,
)
from fleethook.cluster.kubernetes.watched_resources import CACHED, DEFINITIONS, FieldSelection, WatchedResource
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.cluster.store import ObjectKey, Store, Stored, key_of
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.work.threads_and_gc import settle_garbage_collector

_log: Final = logging.getLogger(__name__)
# Objects of a live list that are decoded between two iterations of the event loop.
_SLICE: Final = 100
# A part of the five seconds that kube-apiserver waits for the webhook.
_LIVE_SECONDS: Final = 2.0
_BAD_REQUEST: Final = 400


class LiveSource(Protocol):
    """A source whose watch can be awaited, and which can be read directly."""

    def missing(self, group_kinds: Iterable[GroupKind]) -> str:
        """Return the reason why the store does not have these kinds yet, ``""`` if it has them."""

    def behind(self, group_kind: GroupKind, resource_version: int) -> bool:
        """Return whether the store may lack a change of that kind up to ``resource_version``."""

    async def catch_up(self, group_kind: GroupKind, resource_version: int, *, seconds: float) -> bool:
        """Wait until the store has all changes up to ``resource_version``; return whether it has them."""

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Read one object into the store; raises APIError, UnreachableError."""

    async def read_selected(self, selection: FieldSelection, *, cluster: str) -> None:
        """Read the objects of a selection into the store; raises APIError, UnreachableError."""


class KubernetesSource:
    """Runs an informer for each resource, over one connection.

    Attributes:
        every_cluster: Whether all logical clusters of kcp are watched.
        everywhere: The path prefix that reads all watched clusters.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each kind of apiserver and each clock
        self,
        resources: Sequence[WatchedResource],
        reader: Reader,
        store: Store,
        *,
        absent_seconds: float = ABSENT_SECONDS,
        every_cluster: bool = False,
        advisory: Collection[GroupKind] = (),
        cache: Reader | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pause: Pause | None = None,
    ) -> None:
        """Prepare to watch ``resources``.

        Args:
            resources: Resources to watch.
            reader: Reads from the apiserver.
            store: Receives the objects.
            absent_seconds: Seconds between two requests for a resource that the server does not serve. If
                CustomResourceDefinitions are among ``resources``, a change of one causes a request
                at once.
            advisory: Kinds that no answer depends on; nothing waits for them.
            every_cluster: Whether the server is kcp's, and all its logical clusters are to be read at once. An
                annotation of each object names its logical cluster.
            cache: Reads from the cache server of the kcp, which has some resources of all shards; None for one shard.
            sleep: Sleeps for a number of seconds.
            pause: Awaited between two slices of long work on objects; None if the work is short.
        """
        self._store: Final = store
        self._reader: Final = reader
        self.every_cluster: Final = every_cluster
        self.everywhere: Final = EVERY_CLUSTER if every_cluster else ""
        cached = {watched_resource.group_kind for watched_resource in CACHED} if cache is not None else set()
        self._informers: Final = {
            resource.group_kind: Informer(
                resource,
                cache if cache is not None and resource.group_kind in cached else reader,
                store,
                prefix=EVERY_SHARD if resource.group_kind in cached else self.everywhere,
                absent_seconds=absent_seconds,
                sleep=sleep,
                pause=pause,
            )
            for resource in resources
        }
        self._cached: Final = frozenset(cached)
        self._needed: Final = frozenset(self._informers.keys() - set(advisory))
        self._unread: Final = set(self._informers)
        store.subscribe(self._definition_changed)

    @property
    def synced(self) -> bool:
        """Whether each resource that responses depend on was listed once, or is known not to be served."""
        return all(self._informers[kind].synced for kind in self._needed)

    def missing(self, group_kinds: Iterable[GroupKind]) -> str:
        """Return why requests that need these kinds cannot be answered, ``""`` if all of the kinds were read."""
        # Every review calls this, so kinds that were read are removed from the set.
        unread = [kind for kind in group_kinds if kind in self._unread]
        if not unread:
            return ""
        self._unread.difference_update([kind for kind in unread if self._informers[kind].synced])
        missing = [self._informers[kind] for kind in unread if kind in self._unread]
        return "; ".join(f"{one.resource.name} cannot be read: {self._describe(one).detail}" for one in missing)

    def parts(self) -> Iterator[PartState]:
        """Yield the state of each resource; an advisory one counts as synced, so that it does not delay readiness."""
        for group_kind, informer in self._informers.items():
            state = self._describe(informer)
            yield state if group_kind in self._needed else state._replace(synced=True, needed=False)

    def _describe(self, informer: Informer) -> PartState:
        """Return the state of a resource, with the clusters of the request before a problem."""
        state = informer.state()
        if not state.detail or not self.every_cluster:
            return state
        is_cached = informer.resource.group_kind in self._cached
        where = f"in the cache server ({EVERY_SHARD})" if is_cached else f"in all logical clusters ({EVERY_CLUSTER})"
        return state._replace(detail=f"{where}: {state.detail}")

    @property
    def finds_nothing(self) -> bool:
        """Whether the server serves none of the resources: its URL may be wrong."""
        return bool(self._informers) and all(informer.unserved for informer in self._informers.values())

    def describe_lack(self, host: str) -> str:
        """Return the message about an apiserver that serves none of the resources."""
        where = " in any logical cluster (/clusters/*)" if self.every_cluster else ""
        return (
            f"{host} serves none of the resources that the engines read{where}: check the server's URL "
            "in the kubeconfig file, and --kcp"
        )

    def ask_again(self) -> None:
        """Request all unserved resources at once, because CustomResourceDefinitions were installed."""
        for informer in self._informers.values():
            informer.ask_again()

    def _definition_changed(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        if key.group_kind != DEFINITIONS.group_kind or after is None:
            return
        for informer in self._informers.values():
            if informer.resource.name == key.name:
                informer.ask_again()

    def informer(self, group_kind: GroupKind) -> Informer:
        """Return the informer of a kind; raises KeyError if there is none."""
        return self._informers[group_kind]

    async def wait_synced(self, group_kinds: Iterable[GroupKind] | None = None) -> None:
        """Return as soon as these kinds were read; without an argument, as soon as the source is `synced`."""
        for group_kind in self._needed if group_kinds is None else group_kinds:
            await self._informers[group_kind].wait_synced()

    async def wait_tried(self, group_kinds: Iterable[GroupKind] | None = None) -> None:
        """Return as soon as the first list of these kinds, by default of all, has succeeded or failed."""
        for group_kind in self._informers if group_kinds is None else group_kinds:
            await self._informers[group_kind].wait_tried()

    async def report_sync(self, host: str) -> None:
        """Log that all resources have been read from an apiserver, as soon as they were."""
        # Do not wait for kinds that cannot be read. Their problem may last for days.
        await self.wait_tried()
        settle_garbage_collector()
        await self.wait_synced()
        _log.info("all resources are read", extra={"fields": {"host": host}})

    async def catch_up(self, group_kind: GroupKind, resource_version: int, *, seconds: float) -> bool:
        """Wait until the store has all changes of a kind up to ``resource_version``; return whether it has."""
        try:
            async with asyncio.timeout(seconds):
                await self._informers[group_kind].progress.wait_for(resource_version)
        except TimeoutError:
            return False
        return True

    def behind(self, group_kind: GroupKind, resource_version: int) -> bool:
        """Return whether the store may lack a change of that kind up to ``resource_version``."""
        return self._informers[group_kind].progress.seen < resource_version

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Update one object of the store by a live read; raises APIError, UnreachableError."""
        key = ObjectKey(cluster, group_kind, namespace, name)
        informer = self._informers[key.group_kind]
        resource = informer.resource
        path = self.scope(key.cluster) + resource.in_namespace(key.namespace, key.name)
        before = informer.stored_version(key)
        try:
            text = await self._reader.request("GET", path, timeout=_LIVE_SECONDS)
        except APIError as error:
            if error.code != NOT_FOUND:
                raise
            if informer.absent or _is_about_object(error, key.name):
                # An object that was created after the response must stay.
                if informer.stored_version(key) <= before:
                    self._store.remove(key)
                return
            # The version is no longer served: the caller tries again, or the watch has the object soon.
            informer.ask_again()
            raise
        informer.learn(resource.decode(text))

    async def read_namespace(self, group_kind: GroupKind, *, cluster: str, namespace: str) -> None:
        """Update the objects of one kind in a namespace by a live list; raises as `read_one`."""

        def stored() -> list[ObjectKey]:
            names = self._store.names_in(cluster, group_kind, namespace)
            return [ObjectKey(cluster, group_kind, namespace, name) for name in names]

        await self._read_list(group_kind, stored, cluster=cluster, namespace=namespace, query={})

    async def read_selected(self, selection: FieldSelection, *, cluster: str) -> None:
        """Update the objects of a selection by a live list; raises as `read_one`.

        If the apiserver refuses the field selector, the complete namespace is listed.
        """
        kind, namespace = selection.by.group_kind, selection.namespace

        def stored() -> list[ObjectKey]:
            return [key_of(one) for one in self._store.find(selection.by, cluster, selection.key)]

        query = {"fieldSelector": selection.selector}
        try:
            await self._read_list(kind, stored, cluster=cluster, namespace=namespace, query=query)
        except APIError as error:
            if error.code != _BAD_REQUEST:
                raise
            # The definition lists no such field, or kube-apiserver is older than 1.31.
            await self.read_namespace(kind, cluster=cluster, namespace=namespace)

    async def _read_list(
        self,
        group_kind: GroupKind,
        stored: Callable[[], list[ObjectKey]],
        *,
        cluster: str,
        namespace: str,
        query: Mapping[str, str],
    ) -> None:
        """Read a live list; ``stored`` returns the stored keys that must be removed if the list lacks them."""
        informer = self._informers[group_kind]
        resource = informer.resource
        path = self.scope(cluster) + resource.in_namespace(namespace)
        try:
            text = await self._reader.request("GET", path, query=query or None, timeout=_LIVE_SECONDS)
            page = decode_page(text, path)
        except APIError as error:
            if error.code == NOT_FOUND and informer.absent:
                return
            raise
        keys: set[ObjectKey] = set()
        for number, item in enumerate(page.items):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)  # a namespace may have thousands of objects
            keys.add(informer.learn(resource.decode(item)))
        for key in stored():
            if key not in keys and informer.stored_version(key) <= as_number(page.resource_version):
                self._store.remove(key)

    def scope(self, cluster: str) -> str:
        """Return the path prefix of an object in ``cluster``."""
        return f"/clusters/{cluster}" if self.every_cluster and cluster else ""

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run(), name=f"informer {informer.resource.name}")


def _is_about_object(error: APIError, name: str) -> bool:
    """Return whether a 404 means that the object does not exist, not that the version of its kind is not served.

    The former is a Status that quotes the name (k8s.io/apimachinery/pkg/api/errors: NewNotFound), the latter is plain
    text.
    """
    return error.reason == "NotFound" and f'"{name}"' in error.message
